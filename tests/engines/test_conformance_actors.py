"""The conformance suite: actors. See `conformance`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until, wait_until_saved

import cellmesh as cm
from cellmesh.exceptions import ActorAlreadyExistsError, ActorDiedError, ActorUnavailableError, TaskCancelledError
from cellmesh.session.current import current

PATIENCE_S = 60.0  # Ray begins a process for each, which takes its time
capability = pytest.mark.capability


class Counter:
    """What the tests have an actor of."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def add(self, by: int = 1) -> int:
        self.n += by
        return self.n

    def pid(self) -> int:
        return os.getpid()

    def wait(self, begun: Flag, goes_on: Flag) -> None:
        begun.set()
        goes_on.wait()

    def fail(self) -> None:
        raise KeyError("no such thing")

    def die(self) -> None:
        os._exit(3)

    def leave(self) -> None:
        cm.exit_actor()


def get(what: Any) -> Any:
    return cm.get(what, timeout=PATIENCE_S)


def is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


@capability("actors")
def test_calls_run_in_their_order_in_a_process_of_its_own(on_engine: ModuleType) -> None:
    counter, other = (on_engine.remote(Counter).remote(n) for n in (5, 0))
    assert get([counter.add.remote() for _ in range(200)]) == list(range(6, 206))
    assert get(other.add.remote()) == 1
    assert len({os.getpid(), *get([counter.pid.remote(), other.pid.remote(), counter.pid.remote()])}) == 3


@capability("actors")
def test_arguments_and_results_are_as_those_of_tasks(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Store:
        def __init__(self, first: np.ndarray, refs: list[Any]) -> None:
            self.values = [first, *on_engine.get(refs)]

        def add(self, value: Any) -> int:
            self.values.append(value)
            return len(self.values)

        def get(self, i: int) -> Any:
            return self.values[i]

        def make(self) -> list[Any]:
            return [on_engine.put(value) for value in self.values]

    @on_engine.remote
    def total(values: np.ndarray) -> float:
        return float(values.sum())

    store = Store.remote(on_engine.put(np.ones(100_000)), [on_engine.put("inner")])
    assert get(store.add.remote(np.full(100_000, 2.0))) == 3
    assert get(store.get.remote(1)) == "inner"
    assert get(total.remote(store.get.remote(2))) == 200_000
    assert get(store.get.remote(0)).sum() == 100_000
    assert [type(value) for value in get(get(store.make.remote()))] == [np.ndarray, str, np.ndarray]


@capability("actors")
def test_a_call_waits_for_what_it_is_given_and_so_do_those_behind_it(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def slow(path: Path) -> int:
        wait_until(path.exists, PATIENCE_S)
        return 10

    counter = on_engine.remote(Counter).remote()
    refs = [counter.add.remote(slow.remote(tmp_path / "now")), counter.add.remote()]
    (tmp_path / "now").touch()
    assert get(refs) == [10, 11]


@capability("actors")
def test_what_it_submits_runs_while_it_waits(on_engine: ModuleType) -> None:
    @on_engine.remote
    def square(n: int) -> int:
        return n * n

    @on_engine.remote
    class Squares:
        def __init__(self) -> None:
            self.first = on_engine.get(square.remote(2))

        def sum(self, n: int) -> int:
            return self.first + sum(on_engine.get([square.remote(i) for i in range(n)]))

    squares = Squares.remote()
    assert get([squares.sum.remote(3), squares.sum.remote(4)]) == [9, 18]


@capability("actors")
def test_an_error_of_a_method_is_of_its_own_class_and_the_actor_goes_on(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).remote()
    with pytest.raises(KeyError, match="no such thing") as caught:
        get(counter.fail.remote())
    assert "in fail" in caught.value.remote_traceback
    assert get(counter.add.remote()) == 1


@capability("actors")
def test_the_error_of_a_constructor_is_that_of_every_call(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Broken:
        def __init__(self, pid: int) -> None:
            raise ValueError(f"cannot begin: {os.getpid() != pid}")

        def call(self) -> None: ...

    broken = Broken.remote(os.getpid())
    for ref in (broken.call.remote(), broken.call.remote()):
        with pytest.raises(ActorDiedError, match="cannot begin: True"):
            get(ref)


@capability("actors")
def test_kill_ends_it(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).remote()
    pid = get(counter.pid.remote())
    on_engine.kill(counter)
    with pytest.raises(ActorDiedError, match="ended by kill"):
        get(counter.add.remote())
    wait_until(lambda: not is_there(pid), PATIENCE_S)


@capability("actors")
def test_the_last_handle_ends_it_after_its_calls(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).remote()
    pid, refs = get(counter.pid.remote()), [counter.add.remote() for _ in range(20)]
    del counter
    assert get(refs) == list(range(1, 21))
    wait_until(lambda: not is_there(pid), PATIENCE_S)


@capability("actors")
def test_one_that_dies_begins_again_as_often_as_it_may(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).options(max_restarts=1).remote(10)
    assert get(counter.add.remote()) == 11
    with pytest.raises(ActorUnavailableError):
        get(counter.die.remote())
    assert get([counter.add.remote(), counter.add.remote()]) == [11, 12]
    with pytest.raises(ActorDiedError):
        get(counter.die.remote())
    with pytest.raises(ActorDiedError):
        get(counter.add.remote())


@capability("actors")
def test_a_kill_that_lets_it_begin_again(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).options(max_restarts=1).remote()
    pid = get(counter.pid.remote())
    on_engine.kill(counter, no_restart=False)
    wait_until(lambda: not is_there(pid), PATIENCE_S)
    assert get(counter.pid.remote()) != pid


@capability("actors")
def test_a_call_that_waits_for_another_is_cancelled(on_engine: ModuleType, tmp_path: Path) -> None:
    counter = on_engine.remote(Counter).remote()
    begun, goes_on = Flag(tmp_path / "begun"), Flag(tmp_path / "goes_on")
    waits, dropped, counted = counter.wait.remote(begun, goes_on), counter.add.remote(), counter.add.remote()
    begun.wait(PATIENCE_S)
    on_engine.cancel(dropped)
    with pytest.raises(TaskCancelledError):
        get(dropped)
    goes_on.set()
    assert get([waits, counted]) == [None, 1]


@capability("actors")
def test_what_it_has_saved_it_finds_in_its_next_life(on_engine: ModuleType) -> None:
    @on_engine.remote(max_restarts=-1)
    class Saves(Counter):
        def __init__(self) -> None:
            self.n, self.large = on_engine.load_checkpoint(default=(0, np.zeros(0)))

        def save(self) -> float:
            on_engine.save_checkpoint((self.n, np.ones(100_000)))
            return float(self.large.sum())

    saves = Saves.remote()
    assert get([saves.add.remote(7), saves.save.remote(), saves.add.remote()]) == [7, 0.0, 8]
    for _ in range(2):
        wait_until_saved(800_000)
        with pytest.raises(ActorUnavailableError):
            get(saves.die.remote())
        assert get(saves.save.remote()) == 100_000
    assert get(saves.add.remote()) == 8


@capability("actors")
def test_one_that_has_left_does_not_begin_again(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).options(max_restarts=5).remote()
    assert get(counter.add.remote()) == 1
    for ref in (counter.leave.remote(), counter.add.remote()):
        with pytest.raises(ActorDiedError, match="it has ended itself"):
            get(ref)


@capability("actors")
def test_what_it_keeps_is_the_same_whenever_it_gives_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Keeps:
        def keep(self, refs: list[Any]) -> None:
            self.refs = [
                *refs,
                on_engine.put("small"),
                on_engine.put(np.ones(100_000)),
                on_engine.put([on_engine.put(3)]),
            ]

        def give(self) -> list[Any]:
            return self.refs

        def forget(self) -> None:
            self.refs = self.refs[-1:]

    keeps, mine = Keeps.remote(), on_engine.put("mine")
    get(keeps.keep.remote([mine]))
    first, again = get([keeps.give.remote(), keeps.give.remote()])
    assert first == again
    assert first[0] == mine
    assert get(first[1]) == "small"
    assert get(first[2]).sum() == 100_000
    get(keeps.forget.remote())
    (last,) = get(keeps.give.remote())
    assert last == first[3]
    assert get(get(last)[0]) == 3
    assert get(first[2]).sum() == 100_000


@capability("actors")
def test_a_handle_goes_through_tasks_and_actors_and_is_the_same(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Keeps:
        def keep(self, handles: list[Any]) -> None:
            self.handles = handles

        def give(self) -> list[Any]:
            return self.handles

    @on_engine.remote
    def same(handle: Any) -> list[Any]:
        return [handle]

    counter, keeps = on_engine.remote(Counter).remote(), Keeps.remote()
    get(keeps.keep.remote([counter]))
    for handle in (*get(same.remote(counter)), *get(keeps.give.remote())):
        assert handle == counter
    get(keeps.keep.remote([]))
    assert get(counter.add.remote()) == 1


@capability("actors")
def test_its_own_handle_is_the_one_that_it_has_here(on_engine: ModuleType) -> None:
    @on_engine.remote(max_restarts=1)
    class Knows(Counter):
        def me(self) -> list[Any]:
            return [on_engine.get_runtime_context().current_actor]

    knows = Knows.remote()
    (same,) = get(knows.me.remote())
    assert same == knows
    with pytest.raises(ActorUnavailableError):
        get(same.die.remote())
    pid = get(same.pid.remote())
    del knows
    assert get(same.add.remote()) == 1
    del same
    wait_until(lambda: not is_there(pid), PATIENCE_S)


@capability("actors")
def test_what_a_call_prints_is_there_before_its_result(
    on_engine: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @on_engine.remote
    class Speaks:
        def __init__(self) -> None:
            print("it begins")

        def __repr__(self) -> str:
            return "a speaker"

        def say(self, n: int) -> None:
            print(f"it says {n}")

    speaks, said = Speaks.remote(), ""
    get([speaks.say.remote(n) for n in range(2)])

    def is_here() -> bool:
        nonlocal said
        said += capfd.readouterr().out
        return all(f"it {what}" in said for what in ("begins", "says 0", "says 1"))

    wait_until(is_here)
    assert "(a speaker pid=" in said


@capability("concurrent_actors")
def test_an_actor_with_several_calls_at_a_time(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).options(max_concurrency=2).remote()
    assert get(counter.add.remote()) == 1


@capability("concurrent_actors")
def test_an_async_actor(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Async:
        async def call(self) -> int:
            return 1

    assert get(Async.remote().call.remote()) == 1


@capability("concurrent_actors")
def test_concurrency_groups(on_engine: ModuleType) -> None:
    counter = on_engine.remote(Counter).options(concurrency_groups={"io": 2}).remote()
    assert get(counter.add.remote()) == 1


@capability("named_actors")
def test_a_named_actor_is_found_and_its_name_is_free_after_it(on_engine: ModuleType) -> None:
    counters = on_engine.remote(Counter).options(name="counter")
    counter = counters.remote()
    assert on_engine.get_actor("counter") == counter
    assert get([counter.add.remote(), on_engine.get_actor("counter").add.remote()]) == [1, 2]
    with pytest.raises(ActorAlreadyExistsError):
        counters.remote()
    assert get(counters.options(get_if_exists=True).remote().add.remote()) == 3
    on_engine.kill(counter)
    with pytest.raises(ActorDiedError):
        get(counter.add.remote())
    assert get(counters.remote().add.remote()) == 1


PROGRAM = """
import sys

import cellmesh as cm


class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self) -> int:
        self.n += 1
        return self.n


cm.init(address=sys.argv[1], object_store_memory=64 << 20)
counter = cm.remote(Counter).options(name="lasting", lifetime="detached", get_if_exists=True).remote()
print(cm.get(counter.add.remote(), timeout=float(sys.argv[2])))
if sys.argv[3:]:
    cm.shutdown()
"""


@capability("detached_actors")
def test_a_detached_actor_is_there_in_the_next_run(on_engine: ModuleType, tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(program), current().config.cluster, str(PATIENCE_S)]
    said = [
        subprocess.run([*command, *last], capture_output=True, text=True, check=True, cwd=tmp_path)
        for last in ([], [], ["shutdown"])
    ]
    assert [run.stdout for run in said] == ["1\n", "2\n", "3\n"]
    assert "an earlier run's session goes on, with the detached actor 'lasting'" in said[1].stderr
