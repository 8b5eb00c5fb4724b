"""Calls that tasks on an engine make, where it depends on the engine what happens: on the fake one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from cellmesh.scheduler.cluster.peer.actors import MOST_CALLS
from engines.calls.test_conformance_calls import Log, get
from support.flags import Flag

from cellmesh.exceptions import ActorAlreadyExistsError, ActorDiedError, ActorUnavailableError
from cellmesh.submit import actor_names


def test_more_calls_than_may_be_under_way_are_all_made(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def call(log: Any, n: int) -> None:
        for i in range(n):
            log.add.remote(i)

    log = cm.remote(Log).remote()
    get(call.remote(log, MOST_CALLS + 100))
    assert get(log.all.remote()) == list(range(MOST_CALLS + 100))


def test_an_actor_on_this_machine_is_called_from_there(start: Callable[..., ModuleType]) -> None:
    cm = start(num_cpus=1)
    here = cm.remote(Log).options(num_cpus=1).remote()
    assert get(here.add.remote("before")) == 1  # it has the CPU of this machine

    @cm.remote
    def call(log: Any) -> tuple[int, float]:
        return cm.get(log.add.remote("there")), float(cm.get(log.large.remote(100_000)).sum())

    assert get(call.remote(here)) == (2, 200_000.0)
    assert get(here.all.remote()) == ["before", "there"]


def test_calls_wait_until_a_dead_actor_is_there_again(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def call(log: Any) -> list[Any]:
        found: list[Any] = []
        for ref in (log.add.remote(1), log.die.remote(), log.add.remote(2)):
            try:
                found.append(cm.get(ref))
            except (ActorUnavailableError, ActorDiedError) as error:
                found.append(type(error).__name__)
        return found

    log = cm.remote(Log).options(max_restarts=1).remote()
    assert get(call.remote(log)) == [1, "ActorUnavailableError", 1]


def test_a_task_that_is_tried_again_calls_again(start: Callable[..., ModuleType], tmp_path: Path) -> None:
    cm = start()

    @cm.remote(retry_exceptions=True, max_retries=1)
    def call(log: Any, failed: Flag) -> int:
        n = cm.get(log.add.remote("again"))
        if not failed.is_set():
            failed.set()
            raise OSError("once")
        return n

    log = cm.remote(Log).remote()
    assert get(call.remote(log, Flag(tmp_path / "failed"))) == 2
    assert get(log.all.remote()) == ["again"] * 2


def test_a_task_that_is_tried_again_makes_again(start: Callable[..., ModuleType], tmp_path: Path) -> None:
    cm = start()
    logs = cm.remote(Log)

    @cm.remote(retry_exceptions=True, max_retries=1)
    def make(failed: Flag) -> list[Any]:
        log = logs.remote()
        n = cm.get(log.add.remote("made"))
        if not failed.is_set():
            failed.set()
            raise OSError("once")
        return [log, n]

    log, n = get(make.remote(Flag(tmp_path / "failed")))
    assert (n, get(log.add.remote("home"))) == (1, 2)


def test_a_thread_of_a_task_makes_an_actor(start: Callable[..., ModuleType]) -> None:
    cm = start()
    logs = cm.remote(Log)

    @cm.remote
    def make() -> int:
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda i: logs.remote(), range(4)))
        return sum(cm.get([log.add.remote(1) for log in made]))

    assert get(make.remote()) == 4


def test_a_name_that_another_one_takes_meanwhile_is_told(start: Callable[..., ModuleType]) -> None:
    cm = start()
    logs = cm.remote(Log).options(name="one")

    @cm.remote
    def make() -> list[Any]:
        log = logs.remote()
        with patch.object(actor_names, "claim", return_value=True), pytest.raises(ActorAlreadyExistsError):
            logs.remote()  # as if it had been free when this was asked
        return [log, cm.get(log.add.remote(1)), cm.get(log.add.remote(2))]

    log, *numbers = get(make.remote())
    assert numbers == [1, 2]
    assert get(log.add.remote(3)) == 3


def test_what_is_made_there_lives_here_if_it_asks_for_what_is_here(start: Callable[..., ModuleType]) -> None:
    cm = start(num_cpus=1, resources={"here": 1})
    busy = cm.remote(Log).options(num_cpus=1).remote()
    assert get(busy.add.remote("before")) == 1  # it has the CPU of this machine
    logs = cm.remote(Log).options(num_cpus=0, resources={"here": 1})

    @cm.remote
    def make() -> list[Any]:
        log = logs.remote()
        return [log, cm.get(log.add.remote("there"))]

    log, n = get(make.remote())
    assert (n, get(log.add.remote("here"))) == (1, 2)


def test_what_a_task_takes_from_a_call_lives_on_as_long_as_it_is_needed(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def call(log: Any) -> list[Any]:
        return [log.large.remote(100_000), *cm.get(log.refs.remote())]

    @cm.remote
    def total(refs: list[Any]) -> float:
        return float(sum(cm.get(ref).sum() for ref in refs if not isinstance(cm.get(ref), str)))

    log = cm.remote(Log).remote()
    refs = get(call.remote(log))
    assert get(total.remote(refs)) == 300_000
    cm.kill(log)
    with pytest.raises(ActorDiedError):
        get(log.add.remote(1))
    assert get(refs[0]).sum() == 200_000


def test_a_generator_that_a_task_submits_and_reads_runs_to_its_end_first(
    start: Callable[..., ModuleType], tmp_path: Path
) -> None:
    cm = start()

    @cm.remote(num_returns="streaming", generator_backpressure_num_objects=1)
    def counted(folder: Path) -> Iterator[int]:
        for i in range(5):
            (folder / str(i)).touch()
            yield i

    @cm.remote
    def read(folder: Path) -> list[Any]:
        items = counted.remote(folder)
        return [cm.get(next(items)), len(list(folder.iterdir())), [cm.get(ref) for ref in items]]

    assert get(read.remote(tmp_path)) == [0, 5, [1, 2, 3, 4]]
