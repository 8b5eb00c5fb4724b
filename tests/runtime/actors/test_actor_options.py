"""What actors and workers can be asked for beyond calls: groups, limits, order, names in logs, graceful ends,
devices.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from types import ModuleType

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote(concurrency_groups={"io": 2, "compute": 1})
class Grouped:
    def __init__(self):
        self.running = self.most = 0
        self.lock = threading.Lock()

    @cellmesh.method(concurrency_group="io")
    def io(self, started: Flag, go: Flag):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        started.set()
        go.wait()
        with self.lock:
            self.running -= 1

    @cellmesh.method(concurrency_group="compute")
    def compute(self):
        return "computed"

    def plain(self):
        return "plain"

    def most_at_once(self):
        return self.most


@cellmesh.remote(concurrency_groups={"slow": 1}, max_concurrency=2)
class AsyncGrouped:
    @cellmesh.method(concurrency_group="slow")
    async def slow(self, started: Flag, go: Flag):
        import asyncio

        started.set()
        while not go.is_set():
            await asyncio.sleep(0.001)

    async def quick(self):
        return "quick"


def test_a_group_that_is_full_does_not_hold_up_others(cm: ModuleType, flag) -> None:
    actor = Grouped.remote()
    calls = [actor.io.remote(flag(f"started{i}"), flag("go")) for i in range(4)]
    flag("started0").wait()
    flag("started1").wait()
    assert cm.get([actor.compute.remote(), actor.plain.remote()], timeout=30) == ["computed", "plain"]
    assert cm.get(actor.io.options(concurrency_group="compute").remote(flag("x"), flag("started0"))) is None
    assert not flag("started2").is_set()
    flag("go").set()
    cm.get(calls)
    assert cm.get(actor.most_at_once.remote()) == 3  # two of the group, and the one that was put into another


def test_groups_of_an_async_actor(cm: ModuleType, flag) -> None:
    actor = AsyncGrouped.remote()
    calls = [actor.slow.remote(flag(f"started{i}"), flag("go")) for i in range(2)]
    flag("started0").wait()
    assert cm.get([actor.quick.remote() for _ in range(10)], timeout=30) == ["quick"] * 10
    assert not flag("started1").is_set()
    flag("go").set()
    cm.get(calls)


def test_unknown_groups(cm: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"'disk'.*'io', 'compute'"):
        Grouped.remote().plain.options(concurrency_group="disk").remote()
    with pytest.raises(ValueError, match=r"of Grouped\.\w+.*'other'"):
        Grouped.options(concurrency_groups={"other": 1}).remote()


# ---------------------------------------------------------------- limits and order
@cellmesh.remote
class Waits:
    def wait(self, go: Flag):
        go.wait()
        return os.getpid()

    def echo(self, value=None):
        return value


@pytest.mark.parametrize("max_concurrency", [1, 2])
def test_pending_calls_have_a_limit(cm: ModuleType, flag, max_concurrency: int) -> None:
    actor = Waits.options(max_pending_calls=3, max_concurrency=max_concurrency).remote()
    calls = [actor.wait.remote(flag("go")) for _ in range(3)]
    with pytest.raises(cm.exceptions.PendingCallsLimitExceeded, match="max_pending_calls"):
        actor.echo.remote()
    flag("go").set()
    cm.get(calls)

    def call() -> object:
        try:
            return [actor.echo.remote(5)]
        except cm.exceptions.PendingCallsLimitExceeded:  # those that have ended are being counted off
            return None

    assert cm.get(wait_until(call)) == [5]


@pytest.mark.parametrize(
    "options, overtakes",
    [
        ({}, False),
        ({"allow_out_of_order_execution": True}, True),
        ({"max_concurrency": 2}, True),
        ({"max_concurrency": 2, "allow_out_of_order_execution": False}, False),
    ],
)
def test_whether_a_call_overtakes_one_whose_arguments_are_missing(
    cm: ModuleType, flag, options, overtakes: bool
) -> None:
    wait_for = cm.remote(lambda go: go.wait())
    actor = Waits.options(**options).remote()
    first, second = actor.echo.remote(wait_for.remote(flag("go"))), actor.echo.remote(2)
    if overtakes:
        assert cm.get(second, timeout=30) == 2
    else:
        cm.get(Waits.remote().echo.remote())
        assert not cm.wait([second], timeout=0)[0]
    flag("go").set()
    cm.get([first, second])


# ---------------------------------------------------------------- ends
def test_max_calls_gives_a_fresh_worker(cm: ModuleType) -> None:
    @cm.remote(max_calls=2)
    def pid():
        return os.getpid()

    pids = [cm.get(pid.remote()) for _ in range(6)]
    assert all(pids.count(p) <= 2 for p in pids) and len(set(pids)) >= 3
    once = pid.options(max_calls=1)
    assert len({cm.get(once.remote()) for _ in range(3)}) == 3


@pytest.mark.parametrize("name", ["__terminate__", "__ray_terminate__"])
def test_terminate_serves_earlier_calls_and_runs_atexit(cm: ModuleType, flag, name: str) -> None:
    @cm.remote
    class Leaves:
        def register(self, left):
            import atexit

            atexit.register(left.set)
            return "registered"

    leaves = Leaves.remote()
    registered = leaves.register.remote(flag("left"))
    ended = getattr(leaves, name).remote()
    assert cm.get(registered) == "registered"
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(ended, timeout=30)
    assert flag("left").is_set() and not [m for m in dir(leaves) if "terminate" in m]


def test_atexit_runs_when_the_last_handle_goes(cm: ModuleType, flag) -> None:
    @cm.remote
    class Leaves:
        def __init__(self, left):
            import atexit

            atexit.register(left.set)

        def ready(self):
            return True

    leaves = Leaves.remote(flag("left"))
    assert cm.get(leaves.ready.remote())
    del leaves
    flag("left").wait()


# ---------------------------------------------------------------- classes
class Base:
    shared = [1]

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def cls_name(cls):
        return cls.__name__

    def who(self):
        return "base"


@cellmesh.remote
class Derived(Base):
    def who(self):
        return "derived of " + super().who()

    def see(self):
        return self.shared, type(self).shared

    def __repr__(self):
        return "Derived(index=2)"

    def say(self):
        print("hello")

    def fail(self):
        raise ValueError("no")


def test_inheritance_class_attributes_and_completion(cm: ModuleType) -> None:
    derived = Derived.remote()
    assert cm.get(derived.who.remote()) == "derived of base"
    assert cm.get([derived.see.remote(), derived.static.remote(1), derived.cls_name.remote()]) == [
        ([1], [1]),
        2,
        "Derived",
    ]
    assert {"who", "see", "static", "cls_name", "say"} <= set(dir(derived))
    with pytest.raises(TypeError, match="Inheriting from actor classes is not supported, and Derived is one"):

        class Further(Derived):
            pass


def test_an_actor_with_a_repr_is_called_by_it(cm: ModuleType, capfd: pytest.CaptureFixture) -> None:
    derived = Derived.remote()
    cm.get(derived.say.remote())
    seen = []
    wait_until(lambda: seen.append(capfd.readouterr().out) or "hello" in "".join(seen))
    assert re.search(r"\(Derived\(index=2\) pid=\d+\) hello", "".join(seen))
    with pytest.raises(ValueError, match=re.escape("'Derived(index=2).fail' raised it in the worker with pid")):
        cm.get(derived.fail.remote())


# ---------------------------------------------------------------- what a process is given
@cellmesh.remote
def variables(*names):
    return [os.environ.get(name) for name in names]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch):
    """Variables for the session that the test then starts."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield monkeypatch
    cellmesh.shutdown()


def test_openmp_gets_as_many_threads_as_the_task_has_cpus(environment) -> None:
    cellmesh.init(num_cpus=4, object_store_memory=64 << 20)
    get = cellmesh.get
    assert get(variables.remote("OMP_NUM_THREADS")) == ["1"]
    assert get(variables.options(num_cpus=3).remote("OMP_NUM_THREADS")) == ["3"]
    assert get([variables.remote("OMP_NUM_THREADS") for _ in range(10)]) == [["1"]] * 10
    Holder = cellmesh.remote(num_cpus=2)(type("Holder", (), {"see": lambda self: os.environ["OMP_NUM_THREADS"]}))
    assert get(Holder.remote().see.remote()) == "2"


def test_openmp_threads_that_the_user_chose_stay(environment) -> None:
    environment.setenv("OMP_NUM_THREADS", "7")
    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    assert cellmesh.get(variables.options(num_cpus=2).remote("OMP_NUM_THREADS")) == ["7"]


def test_gpus_are_distinct_and_those_of_the_preset_mask(environment, flag) -> None:
    environment.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7")
    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    assert cellmesh.cluster_resources()["GPU"] == 2

    @cellmesh.remote(num_gpus=1)
    def seen(mine, other):
        mine.set()
        other.wait()
        return os.environ["CUDA_VISIBLE_DEVICES"], cellmesh.get_gpu_ids(), os.getpid()

    (one, one_ids, pid), (two, two_ids, other_pid) = cellmesh.get(
        [seen.remote(flag("a"), flag("b")), seen.remote(flag("b"), flag("a"))]
    )
    assert {one, two} == {"5", "GPU-7"} and [one] == one_ids and [two] == two_ids
    assert cellmesh.get(variables.remote("CUDA_VISIBLE_DEVICES")) == [""]
    wait_until(
        lambda: not {pid, other_pid} & {w["pid"] for w in cellmesh.state.list_workers()}
    )  # max_calls is 1 for them


def test_an_actors_process_bears_its_name(cm: ModuleType, flag) -> None:
    flag("go").set()
    pid = cm.get((actor := Waits.remote()).wait.remote(flag("go")))
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "cm:Waits" and actor
