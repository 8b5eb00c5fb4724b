"""The conformance suite: actors with several calls at a time. See `conformance`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until, wait_until_saved

import cellmesh as cm
from cellmesh.exceptions import ActorDiedError, ActorUnavailableError, TaskCancelledError

PATIENCE_S = 120.0  # Ray begins two processes for each, which takes its time
concurrent = pytest.mark.capability("concurrent_actors")


def get(what: Any) -> Any:
    return cm.get(what, timeout=PATIENCE_S)


@pytest.fixture
def flag(tmp_path: Path) -> Callable[[str], Flag]:
    return lambda name: Flag(tmp_path / name)


class Threaded:
    """By threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n = self.most = 0

    def wait(self, here: Flag, go: Flag) -> int:
        with self.lock:
            self.n += 1
            self.most = max(self.n, self.most)
        here.set()
        go.wait(PATIENCE_S)
        with self.lock:
            self.n -= 1
        return threading.get_ident()

    def most_at_once(self) -> int:
        return self.most

    def echo(self, value: Any = None) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        os._exit(3)


class Looped:
    """By a loop."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.refs: list[Any] = []
        self.all_here = asyncio.Event()
        self.n = 0

    async def meet(self, k: int) -> int:
        self.n += 1
        if self.n == k:
            self.all_here.set()
        await self.all_here.wait()
        return threading.get_ident()

    async def note(self, n: int) -> None:
        self.begun.append(n)
        await asyncio.sleep(0)

    def notes(self) -> list[int]:
        return list(self.begun)

    async def until(self, here: Flag, go: Flag) -> str:
        here.set()
        while not go.is_set():
            await asyncio.sleep(0.01)
        return "gone on"

    async def for_ever(self, here: Flag, ended: Flag) -> None:
        here.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise KeyError("no such thing")

    async def keep(self, *values: Any) -> list[Any]:
        self.refs += [cm.put(value) for value in values]
        return self.refs

    async def pid(self) -> int:
        return os.getpid()

    async def leave(self) -> None:
        cm.exit_actor()


# ---------------------------------------------------------------- at a time, and in which order
@concurrent
def test_calls_run_in_threads_at_the_same_time_as_many_as_may(
    on_engine: ModuleType, flag: Callable[[str], Flag]
) -> None:
    actor = on_engine.remote(Threaded).options(max_concurrency=3).remote()
    calls = [actor.wait.remote(flag(f"here{i}"), flag("go")) for i in range(5)]
    for i in range(3):
        flag(f"here{i}").wait(PATIENCE_S)
    flag("go").set()
    assert len(set(get(calls)[:3])) == 3
    assert get(actor.most_at_once.remote()) == 3


@concurrent
def test_coroutines_run_at_the_same_time_in_one_thread(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Looped).remote()
    assert len(set(get([actor.meet.remote(50) for _ in range(50)]))) == 1


@concurrent
def test_coroutines_and_plain_methods_begin_in_their_order(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Looped).remote()
    refs = [ref for n in range(40) for ref in (actor.note.remote(n), actor.notes.remote())]
    assert get(refs)[1::2] == [list(range(n + 1)) for n in range(40)]


@concurrent
def test_a_group_that_is_full_does_not_hold_up_others(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Threaded).options(concurrency_groups={"io": 2, "other": 1}).remote()
    wait = actor.wait.options(concurrency_group="io")
    calls = [wait.remote(flag(f"here{i}"), flag("go")) for i in range(4)]
    flag("here1").wait(PATIENCE_S)
    assert get([actor.echo.remote(1), actor.echo.options(concurrency_group="other").remote(2)]) == [1, 2]
    assert not flag("here2").is_set()
    flag("go").set()
    get(calls)
    assert get(actor.most_at_once.remote()) == 2


@concurrent
def test_groups_of_loops(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Looped).options(concurrency_groups={"slow": 1}).remote()
    until = actor.until.options(concurrency_group="slow")
    calls = [until.remote(flag(f"here{i}"), flag("go")) for i in range(2)]
    flag("here0").wait(PATIENCE_S)
    get([actor.note.remote(n) for n in range(10)])
    assert get(actor.notes.remote()) == list(range(10))
    assert not flag("here1").is_set()
    flag("go").set()
    assert get(calls) == ["gone on"] * 2


@concurrent
@pytest.mark.parametrize("in_order", [False, True])
def test_a_call_overtakes_one_whose_argument_is_not_there_unless_it_may_not(
    on_engine: ModuleType, flag: Callable[[str], Flag], in_order: bool
) -> None:
    @on_engine.remote
    def slow(go: Flag) -> int:
        go.wait(PATIENCE_S)
        return 1

    actor = on_engine.remote(Threaded).options(max_concurrency=2, allow_out_of_order_execution=not in_order).remote()
    first, second = actor.echo.remote(slow.remote(flag("go"))), actor.echo.remote(2)
    if not in_order:
        assert get(second) == 2
    flag("go").set()
    assert get([first, second]) == [1, 2]


# ---------------------------------------------------------------- values
@concurrent
def test_what_calls_submit_runs_while_they_wait(on_engine: ModuleType) -> None:
    @on_engine.remote
    def square(n: int) -> int:
        return n * n

    @on_engine.remote
    def fourth(n: int) -> int:
        return on_engine.get(square.remote(on_engine.get(square.remote(n))))

    @on_engine.remote
    class Awaits:
        async def sum(self, n: int) -> int:
            return sum([await square.remote(i) for i in range(n)])

        async def all(self, n: int) -> list[int]:
            return await asyncio.gather(*[fourth.remote(i) for i in range(n)])

        async def later(self, n: int) -> list[Any]:
            return [fourth.remote(n)]

    @on_engine.remote(max_concurrency=4)
    class Gets:
        def all(self, n: int) -> list[int]:
            return on_engine.get([fourth.remote(i) for i in range(n)])

    awaits, gets = Awaits.remote(), Gets.remote()
    assert get([awaits.sum.remote(3), awaits.all.remote(3), awaits.sum.remote(4)]) == [5, [0, 1, 16], 14]
    assert get(get(awaits.later.remote(3))) == [81]
    assert get([gets.all.remote(n) for n in range(6)]) == [[i**4 for i in range(n)] for n in range(6)]


@concurrent
def test_a_call_whose_value_is_not_made_yet_holds_up_no_other(
    on_engine: ModuleType, flag: Callable[[str], Flag]
) -> None:
    @on_engine.remote
    def slow(go: Flag) -> int:
        go.wait(PATIENCE_S)
        return 1

    @on_engine.remote
    class Later(Looped):
        async def later(self, go: Flag) -> list[Any]:
            self.refs = [slow.remote(go), cm.put("other")]
            return self.refs

        async def kept(self) -> list[Any]:
            return self.refs[1:]

    actor = Later.remote()
    later = actor.later.remote(flag("go"))
    (other,) = wait_until(lambda: get(actor.kept.remote()), PATIENCE_S)
    assert get(other) == "other"
    flag("go").set()
    assert get(get(later)) == [1, "other"]


@concurrent
def test_what_it_keeps_is_the_same_whoever_gives_it(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Looped).remote()
    given = get([actor.keep.remote(n, np.full(100_000, n)) for n in range(20)])
    for n, refs in enumerate(given):
        assert len(refs) == 2 * n + 2
        assert refs == given[-1][: len(refs)]
    values = get(given[-1])
    assert values[::2] == list(range(20))
    assert [float(large.sum()) for large in values[1::2]] == [100_000 * n for n in range(20)]


@concurrent
def test_large_arguments_and_results_of_many_calls(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Threaded).options(max_concurrency=4).remote()
    given = [on_engine.put(np.full(100_000, n)) for n in range(8)]
    assert [float(large.sum()) for large in get([actor.echo.remote(ref) for ref in given])] == [
        100_000 * n for n in range(8)
    ]


# ---------------------------------------------------------------- ends
@concurrent
def test_an_error_is_of_its_own_class_and_the_actor_goes_on(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Looped).remote()
    with pytest.raises(KeyError, match="no such thing") as caught:
        get(actor.fail.remote())
    assert "in fail" in caught.value.remote_traceback
    assert get(actor.notes.remote()) == []


@concurrent
def test_a_coroutine_is_cancelled_while_it_runs(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Looped).remote()
    kept = actor.until.remote(flag("other here"), flag("go"))
    running = actor.for_ever.remote(flag("here"), flag("ended"))
    flag("here").wait(PATIENCE_S)
    on_engine.cancel(running)
    with pytest.raises(TaskCancelledError):
        get(running)
    flag("ended").wait(PATIENCE_S)
    flag("go").set()
    assert get(kept) == "gone on"


@concurrent
def test_what_is_cancelled_before_its_turn_never_runs(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Threaded).options(max_concurrency=2).remote()
    calls = [actor.wait.remote(flag(f"here{i}"), flag("go")) for i in range(3)]
    flag("here1").wait(PATIENCE_S)
    on_engine.cancel(calls[2])
    with pytest.raises(TaskCancelledError):
        get(calls[2])
    flag("go").set()
    get(calls[:2])
    assert get(actor.echo.remote(1)) == 1
    assert not flag("here2").is_set()


@concurrent
def test_the_last_handle_ends_it_after_its_calls(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Looped).remote()
    pid, running = get(actor.pid.remote()), actor.until.remote(flag("here"), flag("go"))
    flag("here").wait(PATIENCE_S)
    del actor
    flag("go").set()
    assert get(running) == "gone on"
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), PATIENCE_S)


@concurrent
def test_kill_ends_it_with_the_calls_that_run(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Threaded).options(max_concurrency=2).remote()
    pid, running = get(actor.pid.remote()), actor.wait.remote(flag("here"), flag("go"))
    flag("here").wait(PATIENCE_S)
    on_engine.kill(actor)
    with pytest.raises(ActorDiedError, match="ended by kill"):
        get(running)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), PATIENCE_S)


@concurrent
def test_what_had_not_begun_runs_in_its_next_life(
    on_engine: ModuleType, flag: Callable[[str], Flag], tmp_path: Path
) -> None:
    @on_engine.remote(max_concurrency=2, max_restarts=1)
    class Dies(Threaded):
        def begin(self, begins: Counter) -> int:
            begins.add()
            return os.getpid()

        def die_once(self, here: Flag, go: Flag) -> None:
            self.wait(here, go)
            self.die()

    actor, begins = Dies.remote(), Counter(tmp_path / "begins")
    pid = get(actor.pid.remote())
    begun = [actor.wait.remote(flag("here0"), flag("never")), actor.die_once.remote(flag("here1"), flag("go"))]
    for i in range(2):
        flag(f"here{i}").wait(PATIENCE_S)
    waiting = [actor.begin.remote(begins) for _ in range(5)]
    flag("go").set()
    for ref in begun:
        with pytest.raises(ActorUnavailableError):
            get(ref)
    (other,) = set(get(waiting))
    assert other != pid
    assert begins.value == 5


@concurrent
def test_one_that_has_left_does_not_begin_again_and_what_had_ended_is_told(on_engine: ModuleType) -> None:
    actor = on_engine.remote(Looped).options(max_restarts=5).remote()
    ended, left = actor.notes.remote(), actor.leave.remote()
    assert get(ended) == []
    for ref in (left, actor.pid.remote()):
        with pytest.raises(ActorDiedError, match="it has ended itself"):
            get(ref)


@concurrent
def test_what_it_has_saved_it_finds_in_its_next_life(on_engine: ModuleType) -> None:
    @on_engine.remote(max_restarts=-1)
    class Saves:
        def __init__(self) -> None:
            self.large = on_engine.load_checkpoint(default=np.zeros(1))

        async def save(self) -> float:
            on_engine.save_checkpoint(np.ones(100_000))
            await asyncio.sleep(0)
            return float(self.large.sum())

        async def die(self) -> None:
            os._exit(3)

    actor = Saves.remote()
    assert get([actor.save.remote() for _ in range(3)]) == [0.0] * 3
    wait_until_saved(800_000)
    with pytest.raises(ActorUnavailableError):
        get(actor.die.remote())
    assert get(actor.save.remote()) == 100_000


@concurrent
def test_the_error_of_a_constructor_is_that_of_every_call(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Broken(Looped):
        def __init__(self) -> None:
            raise ValueError("cannot begin")

    actor = Broken.remote()
    for ref in (actor.notes.remote(), actor.pid.remote()):
        with pytest.raises(ActorDiedError, match="cannot begin"):
            get(ref)


# ---------------------------------------------------------------- meanwhile
@concurrent
def test_what_a_call_prints_is_there_while_it_runs_and_before_its_result(
    on_engine: ModuleType, capfd: pytest.CaptureFixture[str], flag: Callable[[str], Flag]
) -> None:
    @on_engine.remote
    class Speaks(Looped):
        def __repr__(self) -> str:
            return "a speaker"

        async def say(self, n: int, here: Flag, go: Flag) -> None:
            print(f"{n} begins")
            await self.until(here, go)
            print(f"{n} ends")

    actor, said = Speaks.remote(), ""
    calls = [actor.say.remote(n, flag(f"here{n}"), flag(f"go{n}")) for n in range(2)]

    def has_said(*lines: str) -> bool:
        nonlocal said
        said += capfd.readouterr().out
        return all(line in said for line in lines)

    wait_until(lambda: has_said("0 begins", "1 begins"), PATIENCE_S)
    flag("go1").set()
    get(calls[1])
    wait_until(lambda: has_said("1 ends"), PATIENCE_S)
    assert "0 ends" not in said
    flag("go0").set()
    get(calls[0])
    wait_until(lambda: has_said("0 ends"), PATIENCE_S)
    assert "(a speaker pid=" in said


class Yields(Looped):
    """Generators of all kinds."""

    async def items(self, n: int) -> AsyncIterator[Any]:
        for i in range(n):
            await asyncio.sleep(0)
            yield np.full(100_000, i) if i % 2 else [cm.put(i)]

    def plain(self, n: int) -> Iterator[int]:
        yield from range(n)

    async def endless(self, closed: Flag) -> AsyncIterator[int]:
        try:
            n = 0
            while True:
                yield n
                n += 1
                await asyncio.sleep(0.001)
        finally:
            closed.set()


@concurrent
def test_generators_run_beside_each_other(on_engine: ModuleType, flag: Callable[[str], Flag]) -> None:
    actor = on_engine.remote(Yields).remote()
    streaming = {"num_returns": "streaming"}
    endless = actor.endless.options(**streaming, generator_backpressure_num_objects=2).remote(flag("closed"))
    assert [get(next(endless)) for _ in range(3)] == [0, 1, 2]
    streams = [actor.items.options(**streaming).remote(4), actor.plain.options(**streaming).remote(4)]
    items, plain = ([get(ref) for ref in stream] for stream in streams)
    assert plain == list(range(4))
    assert [get(items[0][0]), float(items[1].sum()), get(items[2][0]), float(items[3].sum())] == [0, 1e5, 2, 3e5]
    assert get(next(endless)) == 3
    del endless
    flag("closed").wait(PATIENCE_S)


@concurrent
def test_generators_of_threads(on_engine: ModuleType) -> None:
    @on_engine.remote(max_concurrency=3)
    class Threads:
        def __init__(self) -> None:
            self.meets = threading.Barrier(2)

        def items(self, n: int) -> Iterator[int]:
            for i in range(n):
                self.meets.wait(PATIENCE_S)
                yield i

    actor = Threads.remote()
    streams = [actor.items.options(num_returns="streaming").remote(5) for _ in range(2)]
    assert [[get(ref) for ref in stream] for stream in streams] == [list(range(5))] * 2
