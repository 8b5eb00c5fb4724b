"""The conformance suite: tasks, and methods, that make actors, find them by name, and use the key-value store. See
`conformance`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engines.calls.test_conformance_calls import PATIENCE_S, Log, get
from engines.test_conformance_actors import Counter, is_there
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import util
from cellmesh.exceptions import ActorAlreadyExistsError, ActorDiedError, ActorUnavailableError, EngineUnsupportedError
from cellmesh.util import kv, list_named_actors

makes = pytest.mark.capability("actor_makers")
finds = pytest.mark.capability("lookups")
Logs = cm.remote(Log)
Counters = cm.remote(Counter)


@pytest.fixture
def somebody(on_engine: ModuleType) -> Iterator[None]:
    """An actor of that name, which is free after the test."""
    actor = Logs.options(name="somebody").remote()
    yield
    on_engine.kill(actor)


@makes
def test_a_task_has_an_actor_of_its_own(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call() -> list[Any]:
        log = Logs.remote()
        numbers = [log.add.remote(i) for i in range(100)]
        return [on_engine.get(numbers), on_engine.get(log.all.remote())]

    assert get(call.remote()) == [list(range(1, 101)), list(range(100))]


@makes
def test_its_handle_goes_home_and_its_last_one_ends_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make(n: int) -> list[Any]:
        mine, others = Counters.remote(n), Counters.remote()
        return [mine, on_engine.get([mine.pid.remote(), others.pid.remote(), mine.add.remote()])]

    @on_engine.remote
    def add(counter: Any) -> int:
        return on_engine.get(counter.add.remote())

    counter, (pid, other, n) = get(make.remote(5))
    assert n == 6
    assert get(counter.add.remote()) == 7
    assert get(add.remote(counter)) == 8
    wait_until(lambda: not is_there(other), PATIENCE_S)
    assert is_there(pid)
    del counter
    wait_until(lambda: not is_there(pid), PATIENCE_S)


@makes
def test_what_its_constructor_is_given(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Keeps:
        def __init__(self, array: np.ndarray, number: int, refs: list[Any], *, text: str) -> None:
            self.kept = [float(array.sum()), number, on_engine.get(refs), text]

        def give(self) -> list[Any]:
            return self.kept

    @on_engine.remote
    def square(n: int) -> int:
        return n * n

    @on_engine.remote
    def make(mine: Any, log: Any) -> list[Any]:
        refs = [*mine, on_engine.put(np.ones(3)), square.remote(4), log.add.remote("given")]
        keeps = Keeps.remote(on_engine.put(np.ones(100_000)), square.remote(3), refs, text="t")
        return on_engine.get(keeps.give.remote())

    total, number, (mine, ones, squared, added), text = get(make.remote([on_engine.put("mine")], Logs.remote()))
    assert (total, number, mine, squared, added, text) == (100_000.0, 9, "mine", 16, 1, "t")
    assert ones.sum() == 3


@makes
def test_the_error_of_its_constructor_is_that_of_its_calls(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("cannot begin there")

        def call(self) -> None: ...

    @on_engine.remote
    def make() -> str:
        try:
            on_engine.get(Broken.remote().call.remote())
        except ActorDiedError as error:
            return str(error)
        return ""

    assert "cannot begin there" in get(make.remote())


@makes
def test_it_begins_again_and_can_be_killed(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make() -> list[Any]:
        counter = Counters.options(max_restarts=1).remote(10)
        found = [on_engine.get(counter.add.remote())]
        try:
            on_engine.get(counter.die.remote())
        except ActorUnavailableError:
            found.append(on_engine.get(counter.add.remote()))
        on_engine.kill(counter)
        try:
            on_engine.get(counter.add.remote())
        except ActorDiedError:
            found.append("dead")
        return found

    assert get(make.remote()) == [11, 11, "dead"]


@makes
def test_a_name_is_taken_once_in_the_session(on_engine: ModuleType, somebody: None) -> None:
    @on_engine.remote
    def make() -> list[Any]:
        named = Logs.options(name="made there")
        mine = named.remote()
        found = [mine, on_engine.get_actor("made there")]
        for name in ("made there", "somebody"):
            with pytest.raises(ActorAlreadyExistsError, match=name):
                Logs.options(name=name).remote()
            found.append(Logs.options(name=name, get_if_exists=True).remote())
        return found

    mine, found, again, other = get(make.remote())
    assert mine == found == again == on_engine.get_actor("made there")
    assert other == on_engine.get_actor("somebody")
    on_engine.kill(mine)


@makes
def test_tasks_that_want_the_same_actor_make_it_once(on_engine: ModuleType) -> None:
    shared = Logs.options(name="shared", get_if_exists=True)

    @on_engine.remote
    def add(i: int) -> list[Any]:
        log = shared.remote()
        return [log, on_engine.get(log.add.remote(i))]

    @on_engine.remote
    class Adder:
        def add(self, i: int) -> list[Any]:
            log = shared.remote()
            return [log, on_engine.get(log.add.remote(i))]

    adder = Adder.remote()
    refs = [*[add.remote(i) for i in range(6)], *[adder.add.remote(i) for i in range(3)]]
    logs, numbers = zip(*get(refs), strict=True)
    assert len({*logs}) == 1
    assert sorted(numbers) == list(range(1, 10))


@makes
def test_a_detached_one_stays_when_no_handle_is_left(on_engine: ModuleType) -> None:
    @on_engine.remote
    def make() -> int:
        return on_engine.get(Counters.options(name="stays", lifetime="detached").remote(1).add.remote())

    assert get(make.remote()) == 2
    stays = on_engine.get_actor("stays")
    assert get(stays.add.remote()) == 3
    on_engine.kill(stays)


@makes
def test_methods_make_actors_and_keep_them(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Team:
        def __init__(self, n: int) -> None:
            self.members = [Counters.remote(i) for i in range(n)]

        def add(self) -> list[int]:
            return on_engine.get([member.add.remote() for member in self.members])

        def pids(self) -> list[int]:
            return on_engine.get([member.pid.remote() for member in self.members])

        def let_go(self) -> None:
            self.members.pop()

        def first(self) -> list[Any]:
            return self.members[:1]

    team = Team.remote(2)
    assert get([team.add.remote(), team.add.remote()]) == [[1, 2], [2, 3]]
    first, last = get(team.pids.remote())
    get(team.let_go.remote())
    wait_until(lambda: not is_there(last), PATIENCE_S)
    (mine,) = get(team.first.remote())
    del team
    assert get(mine.add.remote()) == 3
    del mine
    wait_until(lambda: not is_there(first), PATIENCE_S)


@makes
def test_methods_with_several_calls_at_a_time_make_actors(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Async:
        async def make(self, n: int) -> int:
            return await Counters.remote(n).add.remote()

    maker = Async.remote()
    assert sorted(get([maker.make.remote(n) for n in range(3)])) == [1, 2, 3]


@makes
def test_a_task_with_an_environment_makes_an_actor_of_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Reads:
        def mode(self) -> str:
            return os.environ["MODE"]

    @on_engine.remote
    def make() -> list[Any]:
        reads = Reads.remote()
        return [on_engine.get(reads.mode.remote()), reads]

    for mode in ("first", "second"):
        found, reads = get(make.options(runtime_env={"env_vars": {"MODE": mode}}).remote())
        assert (found, get(reads.mode.remote())) == (mode, mode)


@makes
def test_an_actor_that_was_made_there_makes_another(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Maker:
        def make(self, depth: int) -> list[str]:
            return [f"at {depth}", *(on_engine.get(Own.remote().make.remote(depth - 1)) if depth else [])]

    Own = Maker

    @on_engine.remote
    def begin() -> list[str]:
        return on_engine.get(Own.remote().make.remote(1))

    assert get(begin.remote()) == ["at 1", "at 0"]


@finds
def test_a_task_finds_an_actor_by_its_name(on_engine: ModuleType, somebody: None) -> None:
    @on_engine.remote
    def find(name: str) -> list[Any]:
        found = on_engine.get_actor(name)
        return [found, on_engine.get(found.add.remote("there")), on_engine.get_actor(name) == found]

    found, n, is_same = get(find.remote("somebody"))
    assert (found, n, is_same) == (on_engine.get_actor("somebody"), 1, True)
    with pytest.raises(ValueError, match=r"no actor named 'nobody'.* those with names are .*'somebody'"):
        get(find.remote("nobody"))


@finds
def test_quick_tasks_find_an_actor_by_its_name(on_engine: ModuleType, somebody: None) -> None:
    @on_engine.remote
    def find(i: int) -> int:
        if not i % 10:
            on_engine.get_actor("somebody").add.remote(i)
        return i

    for _ in range(3):  # that they are quick is known by then
        assert get([find.remote(i) for i in range(40)]) == list(range(40))
    assert sorted(get(on_engine.get_actor("somebody").all.remote())) == sorted([0, 10, 20, 30] * 3)


@finds
def test_a_method_finds_actors_by_their_names(on_engine: ModuleType, somebody: None) -> None:
    @on_engine.remote
    class Finds:
        async def names(self) -> list[Any]:
            return list_named_actors()

        async def find(self, name: str) -> int:
            return await on_engine.get_actor(name).add.remote("found")

    finder = Finds.remote()
    assert "somebody" in get(finder.names.remote())
    assert get(finder.find.remote("somebody")) == 1


@finds
def test_the_key_value_store_is_that_of_the_session(on_engine: ModuleType) -> None:
    @on_engine.remote
    def use() -> list[Any]:
        found = [kv.get("given"), kv.put("made", b"there"), kv.compare_and_set("made", b"there", "again")]
        return [*found, sorted(kv.keys()), kv.delete("given"), kv.exists("given")]

    kv.put("given", "here")
    assert get(use.remote()) == ["here", True, True, ["given", "made"], True, False]
    assert (kv.get("given"), kv.get("made")) == (None, "again")
    kv.delete("made")


def test_what_is_not_made_there_is_told_with_the_way_out(on_engine: ModuleType) -> None:
    @on_engine.remote
    def group() -> Any:
        return util.placement_group([{"CPU": 1}])

    @on_engine.remote
    def placed() -> Any:
        return Logs.options(scheduling_strategy="SPREAD").remote()

    @on_engine.remote
    def actor_group() -> Any:
        return Logs.group(2)

    for ref, remedy in [
        (group.remote(), "reserve them in the notebook or program"),
        (placed.remote(), "make it in the notebook or program"),
        (actor_group.remote(), "make it in the notebook or program"),
    ]:
        with pytest.raises(EngineUnsupportedError, match=remedy):
            get(ref)
