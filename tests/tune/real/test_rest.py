"""Nothing turns while trials compute, or wait, or when all is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.flags import Flag
from support.waiting import processes, wait_until, wait_until_at_rest

import cellmesh
from cellmesh import tune
from cellmesh.tune.running.attempts import Attempts

pytestmark = pytest.mark.usefixtures("two_cpus")


@pytest.fixture
def two_cpus() -> Iterator[None]:
    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    yield
    cellmesh.shutdown()


def test_while_trials_work_pause_and_are_over(flag: Callable[[str], Flag]) -> None:
    import os

    def train(config: dict[str, Any]) -> None:
        tune.report(i=0)
        read, write = os.pipe()
        flag("pipe").set(f"/proc/{os.getpid()}/fd/{write}")
        os.read(read, 1)  # works without a CPU
        for i in range(1, 3):
            tune.report(i=i)

    def all_of_them() -> set[int]:
        return {process.pid for process in processes()}

    search = tune.Tuner(train).start()
    pipe = flag("pipe").wait()
    wait_until_at_rest(all_of_them)
    search.pause()
    with open(pipe, "wb") as file:
        file.write(b".")
    wait_until(lambda: search[0].metrics["i"] == 1 and search[0].state == "PAUSED")
    wait_until_at_rest(all_of_them)
    search.resume()
    wait_until(lambda: search.is_over)
    wait_until(lambda: not [a for a in cellmesh.state.list_actors() if a["state"] == "alive"])
    assert search[0].metrics["i"] == 2
    wait_until_at_rest(all_of_them)


def test_a_report_that_is_answered_twice_gets_the_first_answer() -> None:
    """As when the controller fails between an answer and its fetching, and has all trials stop."""
    attempts = object.__new__(Attempts)  # without the actor that it is of
    attempts._answers, attempts.refs = {}, {}
    attempts.reported(0, 1)
    attempts.answer(0, 1, "go")
    attempts.give_up()
    assert attempts.answer_of(0, 1) == "go"
