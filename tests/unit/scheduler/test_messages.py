"""Messages: what may cross a process boundary on one node, and what is refused."""

from __future__ import annotations

import typing

import msgspec
import pytest
from cellmesh.scheduler.ipc import messages
from cellmesh.scheduler.ipc.messages import (
    ClusterNode,
    ClusterReply,
    ClusterRequest,
    CollectivesBegin,
    Drain,
    Drained,
    EngineState,
    ErrorFetched,
    ForkFailed,
    ForkWorkers,
    FromPeer,
    FromScheduler,
    FromZygote,
    Hello,
    HoldersReply,
    HoldersRequest,
    LastOutputReply,
    LastOutputRequest,
    MetricChanges,
    MetricsReply,
    MetricsRequest,
    NodeEvent,
    Package,
    PackagesImported,
    PackagesReply,
    PackagesRequest,
    PackageState,
    PreloadModules,
    Refused,
    Series,
    SessionConfig,
    Shutdown,
    StackReply,
    StackRequest,
    TaskFailed,
    TaskRetried,
    ToZygote,
    TryPackage,
    Welcome,
    WorkerDied,
    WorkerExited,
    WorkerForked,
    WorkerOutput,
)

SERIES = Series("n", "histogram", "how many", {"who": "me"}, 2.5, [1.0, 2.0], [0, 1, 1])
CLUSTER_NODE = ClusterNode(
    "a1", "b2", "there", "alive", False, {"CPU": 2.0}, {"CPU": 1.0}, {"zone": "x"}, 1, 2, 3, 0.5, 4, 5, 0.1
)
PACKAGE = Package("a", "/site-packages/a/__init__.py", ["a", "a.b"])
SAMPLES = {
    FromPeer: [
        Hello("driver", 10, want_fd=True),
        Hello("worker", 11, index=3),
        WorkerOutput(1, 2, "stdout", 12, "x"),
        WorkerOutput(0, 0, "display", 12, bundle="{}"),
        StackRequest(7, 12),
        LastOutputRequest(8),
        HoldersRequest(9, 12, ["ab"]),
        HoldersReply(9, 13, {"ab": "x, y"}),
        WorkerDied(12, -1, -9, 44, ["last words"]),
        Drain(1),
        Drained(1),
        Shutdown(),
        TaskFailed(5, "f", "Traceback", "ValueError: a", 9),
        ErrorFetched(5),
        CollectivesBegin(b"ref"),
        MetricChanges([SERIES]),
        MetricsRequest(3),
        ClusterRequest(4),
        ClusterReply(4, [CLUSTER_NODE]),
        PreloadModules(["numpy", "torch.distributed"]),
        PackagesImported([PACKAGE], ["/here"]),
        PackagesRequest(5),
        Shutdown("`cellmesh stop`"),
        NodeEvent("cluster", "text"),
        EngineState("ray", ["actors"]),
        EngineState("ray", lost="it is not there", kind="unreachable"),
    ],
    FromScheduler: [
        Welcome("ab12", 5, "default", {"CPU": 2.0}),
        Welcome("ab12", 5, "default", {"CPU": 2.0}, adopted=True, engine=EngineState("ray", ["actors"], window=7)),
        Refused("no"),
        WorkerOutput(1, 2, "stderr", 12, "ü"),
        WorkerDied(12, 3, -9, 44, ["last words"]),
        TaskRetried(44, -9, False, 2, 4),
        NodeEvent("workers_do_not_start", "text"),
        NodeEvent("task_retried", "text", 7),
        TaskFailed(5, "f", "Traceback", "ValueError: a", 9),
        ErrorFetched(5),
        CollectivesBegin(b"ref"),
        StackReply(7, "stack"),
        LastOutputReply(8, 100),
        HoldersRequest(9, 12, ["ab"]),
        HoldersReply(9, 13, {"ab": "x, y"}),
        Drain(1),
        Drained(1),
        MetricsReply(3, [SERIES]),
        ClusterRequest(4),
        ClusterReply(4, [CLUSTER_NODE]),
        PackagesReply(5, [PackageState("a", "cold", "its import starts a thread")]),
        EngineState("ray", ["actors"]),
    ],
    ToZygote: [ForkWorkers(3), PreloadModules(["torch.distributed"]), TryPackage(PACKAGE, ["/here"])],
    FromZygote: [WorkerForked(12), ForkFailed("EAGAIN"), WorkerExited(12, -11), PackageState("a", "warm")],
}
LINKS = [(union, sample) for union, samples in SAMPLES.items() for sample in samples]


def decode(data: bytes, union: object) -> object:
    return msgspec.msgpack.decode(data, type=union)


@pytest.mark.parametrize("union, message", LINKS, ids=lambda value: type(value).__name__)
def test_round_trip(union: object, message: messages.Message) -> None:
    assert decode(msgspec.msgpack.encode(message), union) == message


def members(union: object) -> set[type]:
    return set(typing.get_args(union)) or {union}


@pytest.mark.parametrize("union", SAMPLES, ids=str)
def test_every_message_of_a_link_has_a_sample(union: object) -> None:
    assert {type(sample) for sample in SAMPLES[union]} == members(union)


@pytest.mark.parametrize("message", [sample for _, sample in LINKS], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("union", SAMPLES, ids=str)
def test_a_message_of_another_link_is_refused(union: object, message: messages.Message) -> None:
    if type(message) not in members(union):
        with pytest.raises(msgspec.ValidationError):
            decode(msgspec.msgpack.encode(message), union)


@pytest.mark.parametrize(
    "message",
    [
        WorkerOutput(1, 2, "stdout", 3, "x" * (messages.MAX_TEXT_CHARS + 1)),
        WorkerOutput(-1, 2, "stdout", 3),
        WorkerOutput(1, 1 << 32, "stdout", 3),
        WorkerOutput(1, 2, "stdlog", 3),
        Hello("driver", 0),
        Hello("head", 5),
        Hello("worker", 5, index=256),
    ],
    ids=repr,
)
def test_what_exceeds_a_limit_is_refused(message: messages.Message) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.msgpack.encode(message), FromPeer)


@pytest.mark.parametrize("n", [0, 257, -1])
def test_the_zygote_forks_a_sensible_number(n: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.msgpack.encode(ForkWorkers(n)), ToZygote)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        decode(msgspec.msgpack.encode({"type": "shutdown", "now": True}), FromPeer)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81",
        msgspec.msgpack.encode(7),
        msgspec.msgpack.encode([[[[[]]]]]),
        b"\x91" * 5000,
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        decode(data, FromPeer)


def test_the_configuration_survives_its_way() -> None:
    config = SessionConfig(
        session="ab",
        session_dir="/tmp/x",
        driver_pid=1,
        namespace="n",
        total={"CPU": 1.0},
        log_to_driver=True,
        sys_path=["/a"],
        python_path=None,
        hooks="a:b",
        worker_setup="",
        preload=[],
        preload_idle=[],
    )
    assert SessionConfig.from_bytes(config.to_bytes()) == config


def test_every_message_says_who_sends_it() -> None:
    for message in {message for union in SAMPLES for message in members(union)}:
        assert message.__doc__ and "->" in message.__doc__, message.__name__
