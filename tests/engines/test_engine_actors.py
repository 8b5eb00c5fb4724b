"""Actors on an engine, as the fake one shows it: what their ends are called, and which of their calls have begun."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cellmesh.scheduler.system import processes
from support.flags import Counter as Marks
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ActorDiedError, ActorUnavailableError
from cellmesh.session.current import current

PATIENCE_S = 30.0


class Counter:
    def __init__(self, marks: Marks | None = None, dies_until: int = 0) -> None:
        self.n = 0
        if marks is not None and marks.add() <= dies_until:
            os._exit(4)

    def add(self) -> int:
        self.n += 1
        return self.n

    def pid(self) -> int:
        return os.getpid()

    def die(self) -> None:
        os._exit(3)

    def die_once(self, marks: Marks) -> int:
        if marks.add() == 1:
            os._exit(5)
        return self.add()


def get(what: Any) -> Any:
    return cellmesh.get(what, timeout=PATIENCE_S)


def listed() -> Any:
    """The one actor, as people see it."""
    return next(iter(cellmesh.state.list_actors()))


def engine_process() -> int:
    found = processes.session_processes(current().node.session_id)
    return next(pid for pid in found if processes.name_of(pid) == "cellmesh-engine")


def test_calls_that_had_not_begun_are_those_of_the_next_life(start: Callable[..., ModuleType]) -> None:
    counter = start().remote(Counter).options(max_restarts=1).remote()
    died, *refs = counter.die.remote(), counter.add.remote(), counter.add.remote()
    with pytest.raises(ActorUnavailableError):
        get(died)
    assert get(refs) == [1, 2]
    with pytest.raises(ActorDiedError, match="exit status 3"):
        get(counter.die.remote())


def test_a_call_that_may_be_repeated_is(start: Callable[..., ModuleType], tmp_path: Path) -> None:
    counter = start().remote(Counter).options(max_restarts=-1, max_task_retries=1).remote()
    assert get(counter.die_once.remote(Marks(tmp_path / "died"))) == 1


def test_one_whose_process_is_killed_between_calls_begins_again(start: Callable[..., ModuleType]) -> None:
    counter = start().remote(Counter).options(max_restarts=1).remote()
    pid = get(counter.pid.remote())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: listed()["restarts_left"] == 0, PATIENCE_S)
    assert get(counter.add.remote()) == 1
    os.kill(get(counter.pid.remote()), signal.SIGKILL)
    wait_until(lambda: listed()["state"] == "dead", PATIENCE_S)
    with pytest.raises(ActorDiedError, match="killed by SIGKILL"):
        get(counter.add.remote())


def test_a_constructor_that_crashes_is_begun_as_often_as_the_actor_may_be(
    start: Callable[..., ModuleType], tmp_path: Path
) -> None:
    counters = start().remote(Counter)
    counter = counters.options(max_restarts=2).remote(Marks(tmp_path / "two"), 2)
    assert get(counter.add.remote()) == 1
    counter = counters.options(max_restarts=1).remote(Marks(tmp_path / "three"), 3)
    with pytest.raises(ActorDiedError, match="exit status 4"):
        get(counter.add.remote())
    assert Marks(tmp_path / "three").value == 2


def test_an_actor_dies_with_the_engines_process_and_begins_again(start: Callable[..., ModuleType]) -> None:
    counters = start().remote(Counter)
    one, again = counters.remote(), counters.options(max_restarts=1).remote()
    pids = get([one.pid.remote(), again.pid.remote()])
    os.kill(engine_process(), signal.SIGKILL)
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), PATIENCE_S)
    with pytest.raises(ActorDiedError, match="machine where it lived was lost"):
        get(one.add.remote())
    assert get(again.add.remote()) == 1


def test_a_task_at_home_calls_an_actor_there(start: Callable[..., ModuleType]) -> None:
    cm = start(num_cpus=1)

    @cm.remote
    def call(counter: Any) -> tuple[int, int]:
        return os.getppid(), cm.get([counter.add.remote() for _ in range(3)])[-1]

    counter = cm.remote(Counter).options(num_cpus=2).remote()
    assert get(counter.add.remote()) == 1
    assert get(call.remote(counter))[1] == 4
    assert processes.name_of(get(counter.pid.remote())) == "cellmesh-actor"


def test_what_an_actor_holds_is_taken(start: Callable[..., ModuleType]) -> None:
    cm = start()
    counters = cm.remote(Counter)
    first, second = (counters.options(num_cpus=3).remote() for _ in range(2))
    assert get(first.add.remote()) == 1
    waits = second.add.remote()
    assert cm.wait([waits], timeout=0.2)[0] == []
    del first
    assert get(waits) == 1
