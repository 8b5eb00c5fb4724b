"""Actors: state, order, handles, names, restarts, and the ways in which they end."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import running
from cellmesh.submit import actor_class

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Base:
    """A plain class; actors are made of it and of classes that inherit from it."""

    kind = "base"

    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.n = start
        self.step = step

    def add(self, k: int = 1) -> int:
        """Add k steps."""
        self.n += k * self.step
        return self.n

    def value(self) -> int:
        return self.n

    def pid(self) -> int:
        return os.getpid()

    def fail(self) -> None:
        raise ValueError(f"at {self.n}")

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def wait_for(self, started: Flag, go: Flag) -> int:
        started.set_by_me()
        go.wait()
        return self.n

    @cellmesh.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.n, self.step

    @staticmethod
    def twice(x: int) -> int:
        return 2 * x

    @classmethod
    def its_kind(cls) -> str:
        return cls.kind


class Derived(Base):
    kind = "derived"

    def add(self, k: int = 1) -> int:
        return super().add(10 * k)


Counting = cellmesh.remote(Base)


@cellmesh.remote
def add_to(counting, k: int):
    return cellmesh.get(counting.add.remote(k))


# ---------------------------------------------------------------- calls
def test_state_persists_and_calls_run_in_order(cm: ModuleType) -> None:
    counting = Counting.remote(10, step=2)
    assert cm.get([counting.add.remote() for _ in range(100)]) == list(range(12, 212, 2))


def test_arguments_may_be_refs_and_keep_the_order(cm: ModuleType, flag) -> None:
    @cm.remote
    def slow(started, go):
        started.set_by_me()
        go.wait()
        return 100

    counting = Counting.remote(slow.remote(flag("started"), flag("go")))
    refs = [counting.add.remote(), counting.add.remote(cm.put(5)), counting.value.remote()]
    flag("go").set()
    assert cm.get(refs) == [101, 106, 106]


def test_inheritance_class_and_static_methods(cm: ModuleType) -> None:
    derived = cm.remote(Derived).remote()
    assert cm.get([derived.add.remote(2), derived.twice.remote(4), derived.its_kind.remote()]) == [20, 8, "derived"]


def test_method_options(cm: ModuleType) -> None:
    counting = Counting.remote(3, step=4)
    first, second = counting.pair.remote()
    assert cm.get([first, second]) == [3, 4]
    assert cm.get(counting.pair.options(num_returns=1).remote()) == (3, 4)


def test_an_exception_leaves_the_actor_alive(cm: ModuleType) -> None:
    counting = Counting.remote(7)
    with pytest.raises(ValueError, match="at 7"):
        cm.get(counting.fail.remote())
    assert cm.get(counting.value.remote()) == 7


def test_many_idle_actors_on_two_cpus(cm: ModuleType) -> None:
    actors = [Counting.remote(i) for i in range(12)]
    assert cm.get([a.value.remote() for a in actors], timeout=50) == list(range(12))
    assert len(set(cm.get([a.pid.remote() for a in actors]))) == 12
    assert cm.available_resources()["CPU"] == 2


def test_an_actor_with_cpus_holds_them(cm: ModuleType) -> None:
    holder = Counting.options(num_cpus=1.5).remote()
    cm.get(holder.value.remote())
    assert cm.available_resources()["CPU"] == 0.5
    cm.kill(holder)
    wait_until(lambda: cm.available_resources()["CPU"] == 2)


# ---------------------------------------------------------------- handles
def test_handles_go_into_tasks_actors_containers_and_closures(cm: ModuleType) -> None:
    counting = Counting.remote()

    @cm.remote
    def through_a_list(handles):
        return cm.get(handles[0]["x"].add.remote(1))

    @cm.remote
    def through_a_closure():
        return cm.get(counting.add.remote(1))

    @cm.remote
    class Holder:
        def __init__(self, handle):
            self.handle = handle

        def forward(self):
            return cm.get(self.handle.add.remote(1))

        def give(self):
            return self.handle

    assert cm.get(add_to.remote(counting, 1)) == 1
    assert cm.get(through_a_list.remote([{"x": counting}])) == 2
    assert cm.get(through_a_closure.remote()) == 3
    holder = Holder.remote(counting)
    assert cm.get(holder.forward.remote()) == 4
    assert cm.get(cm.get(holder.give.remote()).add.remote()) == 5


def test_handles_are_equal_and_hashable(cm: ModuleType) -> None:
    one, other = Counting.remote(), Counting.remote()
    again = cm.get(cm.put([one]))[0]
    assert again == one and hash(again) == hash(one) and one != other and one != 3
    assert len({one, again, other}) == 2


def test_dir_and_repr_and_documentation(cm: ModuleType) -> None:
    import inspect

    counting = Counting.options(name="counting").remote()
    assert dir(counting) == ["add", "die", "fail", "its_kind", "pair", "pid", "twice", "value", "wait_for"]
    assert "Base" in repr(counting) and "'counting'" in repr(counting)
    assert counting.add.__doc__ == "Add k steps." and str(inspect.signature(counting.add)) == "(k=...)"


def test_an_actor_class_can_be_used_inside_tasks(cm: ModuleType) -> None:
    @cm.remote
    def make():
        counting = Counting.remote(5)
        return cm.get(counting.add.remote()), counting

    value, counting = cm.get(make.remote())
    assert value == 6
    assert cm.get(counting.add.remote()) == 7


def test_calls_from_several_tasks(cm: ModuleType) -> None:
    counting = Counting.remote()
    cm.get([add_to.remote(counting, 1) for _ in range(40)])
    assert cm.get(counting.value.remote()) == 40


# ---------------------------------------------------------------- life
def test_the_actor_ends_with_its_last_handle_after_the_calls_made(cm: ModuleType) -> None:
    counting = Counting.remote()
    pid = cm.get(counting.pid.remote())
    refs = [counting.add.remote() for _ in range(100)]
    del counting
    assert cm.get(refs) == list(range(1, 101))
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 20, "the actor's process ends")


def test_a_call_on_a_temporary_handle(cm: ModuleType) -> None:
    assert cm.get(Counting.remote(4).add.remote()) == 5


def test_kill(cm: ModuleType, flag) -> None:
    counting = Counting.remote()
    running = counting.wait_for.remote(flag("started"), flag("go"))
    queued = counting.add.remote()
    flag("started").wait()
    cm.kill(counting)
    for ref in (running, queued, counting.add.remote()):
        with pytest.raises(cm.exceptions.ActorDiedError):
            cm.get(ref, timeout=20)


def test_a_crash_without_restarts(cm: ModuleType) -> None:
    counting = Counting.remote()
    refs = [counting.die.remote(), counting.add.remote()]
    for ref in refs:
        with pytest.raises(cm.exceptions.ActorDiedError):
            cm.get(ref, timeout=20)


def test_a_restart_runs_the_constructor_again(cm: ModuleType) -> None:
    counting = Counting.options(max_restarts=1).remote(5)
    assert cm.get(counting.add.remote()) == 6
    with pytest.raises(cm.exceptions.ActorUnavailableError):
        cm.get(counting.die.remote(), timeout=20)
    assert cm.get(counting.add.remote(), timeout=20) == 6, "the state is that of the constructor"
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(counting.die.remote(), timeout=20)


def test_calls_are_repeated_where_asked(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(max_restarts=-1, max_task_retries=-1)
    class Fragile:
        def call(self, counter):
            if counter.add() <= 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return os.getpid()

    fragile = Fragile.remote()
    refs = [fragile.call.remote(counter) for _ in range(3)]
    assert len(set(cm.get(refs, timeout=50))) == 1
    assert counter.value == 5


def test_a_constructor_that_raises(cm: ModuleType) -> None:
    @cm.remote
    class Broken:
        def __init__(self):
            raise ValueError("no data")

        def call(self):
            return 1

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(cm.exceptions.ActorDiedError, match="no data") as raised:
            cm.get(broken.call.remote(), timeout=20)
        assert isinstance(raised.value.cause, ValueError) and "Traceback" in str(raised.value)


def test_a_constructor_that_raises_when_the_actor_begins_again(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(max_restarts=3)
    class BeginsOnce:
        def __init__(self):
            if counter.add() > 1:
                raise ValueError("no data any more")

        def call(self):
            return 1

        def die(self):
            os._exit(3)

    once = BeginsOnce.remote()
    assert cm.get(once.call.remote()) == 1
    with pytest.raises(cm.exceptions.ActorUnavailableError):
        cm.get(once.die.remote(), timeout=20)
    for _ in range(2):
        with pytest.raises(cm.exceptions.ActorDiedError, match="no data any more") as raised:
            cm.get(once.call.remote(), timeout=20)
        assert isinstance(raised.value.cause, ValueError) and "Traceback" in str(raised.value)
    assert counter.value == 2, "what raises would raise again"


def test_exit_actor(cm: ModuleType, flag) -> None:
    @cm.remote(max_restarts=5)
    class Leaves:
        def leave(self, left):
            import atexit

            atexit.register(left.set)
            cm.exit_actor()

        def call(self):
            return 1

    leaves = Leaves.remote()
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(leaves.leave.remote(flag("left")), timeout=20)
    assert flag("left").is_set()
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(leaves.call.remote(), timeout=20)


# ---------------------------------------------------------------- names
def test_named_actors(cm: ModuleType) -> None:
    counting = Counting.options(name="n").remote(1)
    assert cm.get_actor("n") == counting
    assert cm.get(cm.get_actor("n").add.remote()) == 2

    @cm.remote
    def find():
        return cm.get(cm.get_actor("n").add.remote())

    assert cm.get(find.remote()) == 3
    assert cm.util.list_named_actors() == ["n"]
    with pytest.raises(ValueError, match="named 'n' is alive"):
        Counting.options(name="n").remote()
    elsewhere = Counting.options(name="n", namespace="other").remote(9)
    assert cm.get(cm.get_actor("n", namespace="other").value.remote()) == 9
    assert elsewhere != counting


def test_a_name_is_free_after_death(cm: ModuleType) -> None:
    for start in (1, 2):
        counting = Counting.options(name="n").remote(start)
        assert cm.get(counting.value.remote()) == start
        cm.kill(counting)


def test_of_threads_that_take_a_name_at_once_one_does(cm: ModuleType) -> None:
    together = threading.Barrier(4)

    def take(name: str) -> object:
        together.wait()
        try:
            return Counting.options(name=name).remote(1)
        except Exception as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        for i in range(8):
            found = list(pool.map(take, [f"n{i}"] * 4))
            refused = [one for one in found if isinstance(one, Exception)]
            assert [type(one) for one in refused] == [cellmesh.exceptions.ActorAlreadyExistsError] * 3, found
            assert all(f"an actor named 'n{i}' is alive in namespace" in str(one) for one in refused)
            del found


def test_get_if_exists(cm: ModuleType) -> None:
    Shared = Counting.options(name="shared", get_if_exists=True)
    first, second = Shared.remote(1), Shared.remote(2)
    assert first == second and cm.get(second.value.remote()) == 1

    @cm.remote
    def get_or_create():
        return cm.get(Shared.remote(0).pid.remote())

    assert len(set(cm.get([get_or_create.remote() for _ in range(8)]))) == 1


def test_get_if_exists_waits_for_who_has_taken_the_name_and_is_making_the_actor(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on two machines of a cluster: the name is taken before there is an actor to be found."""
    taken = iter([False, False, True])
    monkeypatch.setattr(actor_class, "_is_free", lambda *name: next(taken))
    making = Counting.options(name="making", get_if_exists=True).remote()
    assert cm.get_actor("making") == making


# ---------------------------------------------------------------- concurrency
def test_threaded_actors_run_calls_together(cm: ModuleType, flag) -> None:
    @cm.remote(max_concurrency=2)
    class Threaded:
        def first(self, other_is_here):
            other_is_here.wait()
            return 1

        def second(self, i_am_here):
            i_am_here.set()
            return 2

    threaded = Threaded.remote()
    refs = [threaded.first.remote(flag("here")), threaded.second.remote(flag("here"))]
    assert cm.get(refs, timeout=30) == [1, 2]


def test_async_actors_run_calls_together_in_one_thread(cm: ModuleType) -> None:
    @cm.remote
    class Meeting:
        def __init__(self):
            import asyncio

            self.all_here = asyncio.Event()
            self.n = 0

        async def meet(self, k):
            import threading

            self.n += 1
            if self.n == k:
                self.all_here.set()
            await self.all_here.wait()
            return threading.get_ident()

        def count(self):
            return self.n

    meeting = Meeting.remote()
    assert len(set(cm.get([meeting.meet.remote(50) for _ in range(50)], timeout=30))) == 1
    assert cm.get(meeting.count.remote()) == 50


def test_cancelling_a_call_of_an_async_actor(cm: ModuleType, flag) -> None:
    @cm.remote
    class Waits:
        async def wait_for_ever(self, started):
            import asyncio

            started.set()
            await asyncio.Event().wait()

        async def call(self):
            return 1

    waits = Waits.remote()
    ref = waits.wait_for_ever.remote(flag("started"))
    flag("started").wait()
    cm.cancel(ref)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(ref, timeout=20)
    assert cm.get(waits.call.remote(), timeout=20) == 1


def test_awaiting_inside_an_async_actor(cm: ModuleType) -> None:
    @cm.remote
    def task(x):
        return x + 1

    @cm.remote
    class Asks:
        async def ask(self, x):
            return await task.remote(x) + await task.remote(10)

    asks = Asks.remote()
    assert cm.get([asks.ask.remote(i) for i in range(20)], timeout=30) == [i + 12 for i in range(20)]


# ---------------------------------------------------------------- context
def test_the_runtime_context(cm: ModuleType) -> None:
    @cm.remote
    class Looks:
        def look(self):
            context = cm.get_runtime_context()
            return context.get_actor_id(), context.current_actor, context.get_actor_name(), context.get_task_id()

    looks = Looks.options(name="looks").remote()
    actor_id, itself, name, task_id = cm.get(looks.look.remote())
    assert itself == looks and name == "looks" and task_id is not None
    assert actor_id == looks._cellmesh_ref.hex()
    assert cm.get_runtime_context().get_task_id() is None and cm.get_runtime_context().get_actor_id() is None


def test_the_pool_hands_out_work(cm: ModuleType) -> None:
    pool = cm.util.ActorPool([Counting.remote(i) for i in range(2)])
    assert list(pool.map(lambda actor, value: actor.twice.remote(value), range(10))) == [2 * i for i in range(10)]
    doubled = pool.map_unordered(lambda actor, value: actor.twice.remote(value), range(10))
    assert sorted(doubled) == [2 * i for i in range(10)]
    pool.submit(lambda actor, value: actor.fail.remote(), 0)
    with pytest.raises(ValueError):
        pool.get_next()
    assert not pool.has_next() and pool.has_free()
    with pytest.raises(StopIteration):
        pool.get_next()


def test_the_queue(cm: ModuleType) -> None:
    from cellmesh.util.queue import Empty, Full, Queue

    queue = Queue(maxsize=2)

    @cm.remote
    def produce(queue, n):
        for i in range(n):
            queue.put(i)

    done = produce.remote(queue, 5)
    assert [queue.get(timeout=20) for _ in range(5)] == list(range(5))
    cm.get(done)
    with pytest.raises(Empty):
        queue.get_nowait()
    queue.put_nowait_batch([1, 2])
    with pytest.raises(Full):
        queue.put_nowait(3)
    assert queue.qsize() == 2 and queue.full() and not queue.empty()
    queue.shutdown()


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_an_actor_that_cannot_be_placed_ends_with_its_last_handle_and_a_cancelled_call_leaves_it(
    cm: ModuleType,
) -> None:
    def rows() -> list[dict[str, object]]:
        return [row for row in cm.state.list_actors() if row["class_name"] == "Base" and row["state"] != "dead"]

    actor = cm.remote(Base).options(resources={"of no machine": 1}).remote()
    (row,) = rows()
    assert row["state"] == "pending"
    calls = [actor.value.remote() for _ in range(3)]
    for left, call in enumerate(reversed(calls)):
        assert rows()[0]["pending_calls"] == 3 - left
        cm.cancel(call)
        with pytest.raises(cm.exceptions.TaskCancelledError):
            cm.get(call, timeout=10)
    assert rows()[0]["pending_calls"] == 0
    del actor
    assert not rows()


def test_one_place_of_the_table_is_listed_as_among_all(cm: ModuleType) -> None:
    actors = [cm.remote(Base).remote(n) for n in range(3)]
    assert cm.get([actor.value.remote() for actor in actors]) == [0, 1, 2]
    client = running().client

    def listed(*index: int) -> list[dict[str, object]]:
        return [{name: fact for name, fact in row.items() if name != "meta"} for row in client.actors(*index)]

    rows = listed()
    assert len({row["index"] for row in rows}) >= 3
    assert [listed(row["index"]) for row in rows] == [[row] for row in rows]
    assert listed(4000) == []
