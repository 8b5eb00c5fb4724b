"""Everything that crosses a process boundary within one node, and its limits. Nothing else defines a wire format here.

Tasks, objects and their states are not here: they lie in the shared segment. These messages carry the rest:
greetings, output, deaths, orders to fork. Encoding is msgpack; three links, one union per direction:

    driver, worker -> local scheduler   FromPeer         node.sock
    local scheduler -> driver           FromScheduler    node.sock (workers only send)
    local scheduler <-> zygote          ToZygote, FromZygote    a socket pair

A decoder accepts only its own union, so a message on the wrong link is refused as such.
"""

from __future__ import annotations

import marshal
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, to_builtins

from ..system.sizes import MAX_NAME_CHARS as MAX_NAME_CHARS
from .node_socket import SOCKET_NAME

# In the first message of either side; bump it with any change here. Peers of another version are refused by name.
PROTOCOL_VERSION = 11

# In the bundle of a display: a progress bar, as {"id", "text", "closed"}; the text is empty if nothing is to stay.
PROGRESS_MIME = "application/vnd.cellmesh.progress+json"
BAR_COLOUR = "accent-color:auto"  # in the HTML of a task's bar: what a driver replaces that marks it

# One display with a large picture fits; anything larger belongs into the object store.
MAX_MESSAGE_BYTES = 8 << 20
# What one message of text holds at most; the sender cuts longer texts into several messages.
MAX_TEXT_CHARS = 32 << 10
# Peers on one node.sock: every client slot of a segment, and as many again for commands that only look.
MAX_LINKS = 512
# A process that answers no request for its stack within this time is stopped or stuck in the kernel.
STACK_TIMEOUT_S = 1.0
# Metrics of the user in a session: combinations of a name with values of its tags. One reply holds them all.
MAX_SERIES = 4096
MAX_TAGS, MAX_BUCKETS = 16, 128
# The namespace of an actor that a cluster's agent serves, see `cluster/agent/requests.py`.
AGENT_NAMESPACE = "cellmesh cluster"
# How much of what tasks print is kept for commands that come later (`cellmesh logs`).
LAST_OUTPUT_CHARS = 256 << 10
LAST_OUTPUT_TIMEOUT_S = 5.0
# Objects that drivers are asked about at once: which variables hold them. One that is busy in C code does not answer in
# time.
MAX_HELD, HOLDERS_TIMEOUT_S = 1000, 1.0
# Modules that a session's programs have asked the zygote to import.
MAX_PRELOADS = 64
# Packages of a session's programs that the zygote imports if it can, and modules of one of them.
MAX_PACKAGES, MAX_MODULES = 256, 2048
# A ref, pickled.
MAX_TIMES_BYTES = 4096
# Lines of a worker's stderr kept for the report of its death.
N_TAIL_LINES = 20

Pid = Annotated[int, Meta(ge=1, le=1 << 22)]  # the kernel's own limit of pids
Index = Annotated[int, Meta(ge=-1, le=255)]  # client slots of a segment; -1: none (yet)
Key = Annotated[int, Meta(ge=0, lt=1 << 32)]
# Numbers of cells from here on are another machine's, see `cluster/peer/cell_numbers.py`.
FOREIGN_ORIGIN = 1 << 31
Seq = Annotated[int, Meta(ge=0)]
Origin = Annotated[int, Meta(ge=0, lt=1 << 32)]
Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
Bundle = Annotated[str, Meta(max_length=MAX_MESSAGE_BYTES)]
Count = Annotated[int, Meta(ge=1, le=256)]
# What a `NodeEvent` is about.
EventKind = Literal[
    "lock_owner_stopped",
    "lock_owner_killed",
    "workers_do_not_start",
    "workers_start_again",
    "zygote_restarted",
    "output_lost",
    "session_ends",
    "driver_left",
    "unfetched_error",
    "tasks_wait",
    "objects_on_disk",
    "cluster",
    "task_retried",
]
# Where a worker writes. Beside text there are displays, which carry a bundle, and log records and warnings, which carry
# both.
TextStream = Literal["stdout", "stderr"]
Stream = Literal["stdout", "stderr", "log", "warning", "display", "update_display", "clear_output"]


class Message(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all messages."""


class Hello(Message, frozen=True, tag="hello"):
    """Driver or worker -> local scheduler, first on every connection; a second one ends it.

    A driver is answered by `Welcome` or `Refused`. A worker greets when it is ready for tasks, with its client slot
    as `index`, and is not answered; nor is the session's agent, which hears what drivers hear. The segment's descriptor
    rides along with the answer if `want_fd`. `adopt`: the session is to be this driver's from now on, if it has none.
    """

    role: Literal["driver", "worker", "agent"]
    pid: Pid
    version: int = PROTOCOL_VERSION
    index: Index = -1
    want_fd: bool = False
    adopt: bool = False


class Welcome(Message, frozen=True, tag="welcome"):
    """Local scheduler -> driver: the answer to `Hello`, once. `adopted`: the session is this driver's now. `engine`:
    the last state of its engine, if there is one."""

    session: Name
    scheduler_pid: Pid
    namespace: Name
    total: dict[Name, float]
    version: int = PROTOCOL_VERSION
    adopted: bool = False
    engine: EngineState | None = None


class Refused(Message, frozen=True, tag="refused"):
    """Local scheduler -> driver: `Hello` was not acceptable; the connection ends. `reason` is a sentence for people."""

    reason: Text


class WorkerOutput(Message, frozen=True, tag="worker_output"):
    """Worker, or agent for a remote one, -> local scheduler -> every driver: something that a task printed or
    displayed.

    In order per worker. Lost when a driver does not read (the loss is told by a `NodeEvent`), or when the worker
    prints faster than it may (told within the text). `task` 0: printed outside any task. `stream` "display",
    "update_display" and "clear_output" carry `bundle`: JSON of {"data", "metadata", "transient"}. "log" carries in it
    the attributes of a `logging.LogRecord`, "warning" what filters look at (`integrations.shown_warnings`); `text` is
    what stderr would show of these. `name`: what the actor that prints calls itself; "" where the task's name says it.
    """

    task: Seq
    origin: Origin
    stream: Stream
    pid: Pid
    text: Text = ""
    bundle: Bundle = ""
    name: Name = ""


class WorkerDied(Message, frozen=True, tag="worker_died"):
    """Local scheduler, or agent for a remote one, -> every driver: a worker ended without having been asked to.

    Sent before its task is retried or failed, so it is on its way before the error is. `index`: -1 for a remote one.
    `code`: -signal or exit status. `task`: what it was executing, 0 if nothing. `tail`: the last lines that it printed.
    """

    pid: Pid
    index: Index
    code: int
    task: Seq = 0
    tail: Annotated[list[Text], Meta(max_length=N_TAIL_LINES)] = []


class TaskRetried(Message, frozen=True, tag="task_retried"):
    """Local scheduler -> every driver: a task is run again, for the first time, as its worker ended.

    Never needed for correctness. `code`: as of `WorkerDied`. `attempt`: the number of the run that begins, of `most`;
    -1: of any number.
    """

    task: Seq
    code: int
    out_of_memory: bool
    attempt: int
    most: int


class TaskFailed(Message, frozen=True, tag="task_failed"):
    """Worker -> local scheduler -> every driver: a task has failed for good. At a limited rate; never needed for
    correctness.

    `key`: the same for the same error, see `ErrorFetched`. `text`: the end of its traceback. `summary`: its type and
    message. `task`: the task's number.
    """

    key: Key
    name: Name
    text: Text
    summary: Name
    task: Seq


class ErrorFetched(Message, frozen=True, tag="error_fetched"):
    """Worker -> local scheduler -> every driver: a task has received the error of another task, so the error is
    not lost.
    """

    key: Key


class CollectivesBegin(Message, frozen=True, tag="collectives_begin"):
    """Worker -> local scheduler -> every driver: ranks begin to meet in shared memory. Never needed for correctness.

    `times`: a pickled ref of the group's `cellmesh.groups.times.CollectiveTimes`, good as long as the group is there.
    """

    times: Annotated[bytes, Meta(max_length=MAX_TIMES_BYTES)]


class NodeEvent(Message, frozen=True, tag="node_event"):
    """Local scheduler, or agent by way of it, -> every driver: something that people should read. Never needed for
    correctness.

    `origin`: the cell that it is about, 0 for none.
    """

    kind: EventKind
    text: Text
    origin: Origin = 0


class StackRequest(Message, frozen=True, tag="stack_request"):
    """Driver -> local scheduler: where is the worker `pid` now? Answered once by `StackReply`."""

    request: int
    pid: Pid


class StackReply(Message, frozen=True, tag="stack_reply"):
    """Local scheduler -> the driver that asked, within `STACK_TIMEOUT_S`. `text` is empty where `error` says why, or no
    code of the user's runs.
    """

    request: int
    text: Text = ""
    error: Text = ""


class Drain(Message, frozen=True, tag="drain"):
    """Driver, or agent for another node, -> local scheduler: send me what workers have written by now. Local scheduler
    -> agent: and what tasks of this session have written on other machines. Answered once by `Drained`."""

    request: int


class Drained(Message, frozen=True, tag="drained"):
    """Local scheduler or agent -> the one that asked, behind the output of all tasks that had ended when it asked."""

    request: int


class LastOutputRequest(Message, frozen=True, tag="last_output_request"):
    """Driver -> local scheduler: what have tasks printed last? What is kept of that (`LAST_OUTPUT_CHARS`) comes again,
    to this driver alone, as `WorkerOutput`; then one `LastOutputReply`."""

    request: int


class LastOutputReply(Message, frozen=True, tag="last_output_reply"):
    """Local scheduler -> the driver that asked. `n_gone`: characters that were printed before and are not kept.
    `folder`: where workers write all of it, "" for nowhere. `is_kept`: false where the session was started without
    `log_to_driver`, and nothing comes."""

    request: int
    n_gone: Seq = 0
    folder: Text = ""
    is_kept: bool = True


class HoldersRequest(Message, frozen=True, tag="holders_request"):
    """Driver -> local scheduler -> every driver: which variables hold these objects? The one that asks, `pid`, does not
    answer itself.
    """

    request: int
    pid: Pid
    ids: Annotated[list[Name], Meta(max_length=MAX_HELD)]


class HoldersReply(Message, frozen=True, tag="holders_reply"):
    """Driver -> local scheduler -> every driver: the answer, once; lost when a driver does not read. `names`: by the
    object's id, in words.
    """

    request: int
    pid: Pid
    names: dict[Name, Name] = {}


class Series(Struct, frozen=True):
    """One number of a metric, or by how much it has changed. For a histogram `value` is the sum, `counts` one more than
    boundaries.
    """

    name: Name
    kind: Literal["counter", "gauge", "histogram"]
    description: Name
    tags: Annotated[dict[Name, Name], Meta(max_length=MAX_TAGS)]
    value: float
    boundaries: Annotated[list[float], Meta(max_length=MAX_BUCKETS)] = []
    counts: Annotated[list[int], Meta(max_length=MAX_BUCKETS + 1)] = []


class MetricChanges(Message, frozen=True, tag="metric_changes"):
    """Driver or worker -> local scheduler: what its program has counted and measured since it last said so."""

    changes: Annotated[list[Series], Meta(max_length=MAX_SERIES)]


class MetricsRequest(Message, frozen=True, tag="metrics_request"):
    """Driver -> local scheduler: all metrics, please. Answered once by `MetricsReply`."""

    request: int


class MetricsReply(Message, frozen=True, tag="metrics_reply"):
    """Local scheduler -> the driver that asked."""

    request: int
    series: Annotated[list[Series], Meta(max_length=MAX_SERIES)]


HAS_LEFT = "it has left"  # why a node is no member any more which has said that it goes: nothing is lost


class ClusterNode(Struct, frozen=True):
    """A machine of the cluster, as the head knows it, or as this machine does (`silent_s` -1) where that does not
    answer. `node`: its number, in hex; `session`: of its node there; `hostname`: what it is called, of several nodes of
    a host with a number; `address`: HOST:PORT, where the other nodes reach it. `load`, `memory_bytes`, `memory_size`:
    of the machine, whichever processes use it."""

    node: Name
    session: Name
    hostname: Name
    state: Literal["alive", "draining", "dead"]
    is_here: bool
    total: dict[Name, float]
    free: dict[Name, float]
    labels: dict[Name, Name]
    n_queued: int = 0
    used_bytes: int = 0
    size_bytes: int = 0
    load: float = 0.0
    memory_bytes: int = 0
    memory_size: int = 0
    silent_s: float = -1.0
    reason: Text = ""
    address: Name = ""


class ClusterRequest(Message, frozen=True, tag="cluster_request"):
    """Driver -> local scheduler -> agent: which machines are there? Answered once by `ClusterReply`."""

    request: int


class ClusterReply(Message, frozen=True, tag="cluster_reply"):
    """Agent -> local scheduler -> every driver; also unasked (`request` 0), when a machine has come or gone. `error`:
    why there are no nodes, or no more than what this machine knows itself."""

    request: int
    nodes: list[ClusterNode] = []
    error: Text = ""


EngineErrorKind = Literal["unreachable", "version", "unsupported", "other"]
# Of the line to an engine: it answers; it has not for a while; it is broken, and tried again, while what runs goes on;
# it was given up with all that was under way, and the engine is tried from the beginning.
EngineLine = Literal["connected", "slow", "broken", "lost"]


class EngineState(Message, frozen=True, tag="engine_state"):
    """Agent -> local scheduler -> every driver: what is known of the session's engine, whenever that changes. `lacks`:
    what calls may ask for and it cannot do. `lost`: why it takes no tasks; "": it does. `kind`: what kind of error that
    is. `window`: how many tasks may be under way there; `dashboard`: where people look at it. `line`: of the line to
    it, since the Unix time `since`."""

    name: Name
    lacks: list[Name] = []
    lost: Text = ""
    kind: EngineErrorKind = "other"
    window: int = 0
    dashboard: Text = ""
    line: EngineLine = "connected"
    since: float = 0.0


class Shutdown(Message, frozen=True, tag="shutdown"):
    """Driver -> local scheduler: end the session, detached actors too. The connection's end is the answer.

    A driver that does not own the session names in `by` what ends it, for the session's drivers to hear.
    """

    by: Name = ""


class PreloadModules(Message, frozen=True, tag="preload_modules"):
    """Driver or worker -> local scheduler -> zygote: workers that are forked from now on are to have these modules.

    Not answered: one that cannot be imported fails in the task that imports it. Meanwhile no worker is forked, so only
    what is sure to be needed is asked for. Once more is nothing.
    """

    names: Annotated[list[Name], Meta(max_length=MAX_PRELOADS)]


class Package(Struct, frozen=True):
    """A package, or a single module, that a program has imported from a folder of installed ones. `file`: of its first
    module. `modules`: those of it that the program has, in the order in which it began to import them."""

    name: Name
    file: Text
    modules: Annotated[list[Name], Meta(max_length=MAX_MODULES)]


class PackagesImported(Message, frozen=True, tag="packages_imported"):
    """Driver -> local scheduler: its program has imported these. Workers that are forked from now on are to have them
    as soon as the zygote has, if it can import them without harm (`worker.trial`). `sys_path`: the program's.

    Not answered; `PackagesReply` says what became of them.
    """

    packages: Annotated[list[Package], Meta(max_length=MAX_PACKAGES)]
    sys_path: list[Text]


class PackageState(Message, frozen=True, tag="package_state"):
    """Zygote -> local scheduler: what has become of a package. `waiting`: for its trial or in it; `importing`: the
    zygote imports it, and forks no worker meanwhile; `warm`: workers that are forked have it; `cold`: they import it
    themselves, and `reason` says why."""

    name: Name
    state: Literal["waiting", "importing", "warm", "cold"]
    reason: Text = ""


class PackagesRequest(Message, frozen=True, tag="packages_request"):
    """Driver -> local scheduler: which packages do new workers have? Answered once by `PackagesReply`."""

    request: int


class PackagesReply(Message, frozen=True, tag="packages_reply"):
    """Local scheduler -> the driver that asked."""

    request: int
    packages: Annotated[list[PackageState], Meta(max_length=MAX_PACKAGES)] = []


FromPeer = (
    Hello
    | WorkerOutput
    | NodeEvent
    | TaskFailed
    | ErrorFetched
    | CollectivesBegin
    | StackRequest
    | LastOutputRequest
    | HoldersRequest
    | HoldersReply
    | WorkerDied
    | Drain
    | Drained
    | MetricChanges
    | MetricsRequest
    | ClusterRequest
    | ClusterReply
    | EngineState
    | PreloadModules
    | PackagesImported
    | PackagesRequest
    | Shutdown
)
FromScheduler = (
    Welcome
    | Refused
    | WorkerOutput
    | TaskFailed
    | ErrorFetched
    | CollectivesBegin
    | WorkerDied
    | TaskRetried
    | NodeEvent
    | StackReply
    | LastOutputReply
    | HoldersRequest
    | HoldersReply
    | Drain
    | Drained
    | MetricsReply
    | ClusterRequest
    | ClusterReply
    | EngineState
    | PackagesReply
)


class ForkWorkers(Message, frozen=True, tag="fork_workers"):
    """Local scheduler -> zygote: fork that many workers. Each is answered by one `WorkerForked` or `ForkFailed`."""

    n: Count


class WorkerForked(Message, frozen=True, tag="worker_forked"):
    """Zygote -> local scheduler, with four descriptors: the reading ends of the worker's stdout, stderr and stack
    dumps, and an eventfd.

    The worker waits for a number in the eventfd before it attaches to the segment and says `Hello`. So the local
    scheduler knows of every worker that others can see.
    """

    pid: Pid


class ForkFailed(Message, frozen=True, tag="fork_failed"):
    """Zygote -> local scheduler: one fork did not work (processes or memory exhausted)."""

    reason: Text


class WorkerExited(Message, frozen=True, tag="worker_exited"):
    """Zygote -> local scheduler, after `WorkerForked` of that pid, once. Its process group has been killed by then."""

    pid: Pid
    code: int  # -signal or exit status


class TryPackage(Message, frozen=True, tag="try_package"):
    """Local scheduler -> zygote: import this package if a trial shows that it does no harm. Answered by `PackageState`,
    last by one that says `warm` or `cold`; until then it is asked for no other."""

    package: Package
    sys_path: list[Text]


ToZygote = ForkWorkers | PreloadModules | TryPackage
FromZygote = WorkerForked | ForkFailed | WorkerExited | PackageState


class ClusterConfig(Struct, frozen=True):
    """How a session takes part in a cluster: its agent is started with it."""

    folder: str  # with the keys, see `cluster.keys`
    host: str  # this machine's address for the other nodes
    port: int = 0  # where they connect; 0: any
    labels: dict[str, str] = {}


class EngineConfig(Struct, frozen=True):
    """The engine (Ray, Dask) that runs what a session has no room for. `module`: of the process that speaks with it."""

    address: str
    module: str
    options: dict[str, Any] = {}


class SessionConfig(Struct, frozen=True):
    """What the driver tells the processes that it starts; read once, at their start, from an inherited descriptor.

    `hooks` and `worker_setup` name things of higher layers as "module:attribute": they are resolved when a worker
    starts, so that this layer imports nothing above itself.
    """

    session: str  # hex
    session_dir: str
    driver_pid: int  # of the owner: when it ends, so does the session, unless a detached actor lives
    namespace: str
    total: dict[str, float]  # resources of the node
    log_to_driver: bool
    sys_path: list[str]  # the driver's; takes effect in workers
    python_path: str | None  # the driver's PYTHONPATH, which the start of the processes may have extended
    hooks: str  # callable () -> object with the client's hooks; "" for none
    worker_setup: str  # callable (client, link, config) run once per worker; "" for none
    preload: list[str]  # modules that the zygote imports before the first worker
    preload_idle: list[str]  # and when there is nothing else to do
    log_dir: str = ""  # where workers write all that tasks print; "" for nowhere
    offload_dir: str = ""  # where objects go when memory is full; "" for nowhere
    left_note: bytes = b""  # for drivers that look for the session after its driver has left, see `session_dir.leave`
    cluster: ClusterConfig | None = None
    engine: EngineConfig | None = None  # with one the session is in no cluster, and has an agent for this
    stays: bool = False  # without an owner too, until a command or its cluster ends it
    version: int = PROTOCOL_VERSION

    @property
    def has_agent(self) -> bool:
        """Whether tasks may run on other machines."""
        return self.cluster is not None or self.engine is not None

    @property
    def address(self) -> str:
        """Path of the local scheduler's socket."""
        return f"{self.session_dir}/{SOCKET_NAME}"

    def to_bytes(self) -> bytes:
        """For the descriptor that the started processes inherit. Its paths need not be Unicode, unlike those of
        messages must.
        """
        return marshal.dumps(to_builtins(self, builtin_types=(bytes,)))

    @classmethod
    def from_bytes(cls, data: bytes) -> SessionConfig:
        """What `to_bytes` made, in a process of the same Python."""
        return convert(marshal.loads(data), cls)
