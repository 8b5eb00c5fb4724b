"""Priorities and limits of tasks that run on another machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import Machines
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote(max_in_flight=1)
def limited(begun: Flag, release: Flag) -> int:
    begun.set()
    release.wait()
    return os.getppid()


def row_of(ref: Any) -> dict[str, Any]:
    return next(row for row in cm.state.list_tasks() if row["task"] == ref.creator)


def test_a_place_is_taken_at_home_before_the_task_leaves(two: Machines, tmp_path: Path) -> None:
    flags = [Flag(tmp_path / name) for name in ("a", "b", "release")]
    first, second = limited.remote(flags[0], flags[2]), limited.remote(flags[1], flags[2])
    flags[0].wait()
    wait_until(lambda: row_of(first)["state"] == "running", what="the other machine says that it runs")
    assert row_of(second)["waits_for"] == "1 of 1 of limited run, its max_in_flight"
    with two.lock:
        assert two.machines["a"].client.surplus() == []  # no machine is asked for what may not begin
    flags[2].set()
    assert cm.get([first, second], timeout=60) == [cm.get(first)] * 2


def test_a_lost_machine_gives_the_place_back(three: Machines, tmp_path: Path) -> None:
    flags = [Flag(tmp_path / name) for name in ("a", "release")]
    three.routes["a"] = ["b"]
    ref = limited.remote(*flags)
    flags[0].wait()
    flags[0].path.unlink()
    three.routes["a"] = ["c"]
    three.part("b")
    flags[0].wait()
    flags[1].set()
    assert cm.get(ref, timeout=60)


def test_a_rate_counts_what_leaves(two: Machines) -> None:
    slow = cm.remote(rate_limit="1/h")(os.getppid)
    cm.get(slow.remote(), timeout=60)
    second = slow.remote()
    assert row_of(second)["waits_for"].endswith("its rate_limit")
    with two.lock:
        assert two.machines["a"].client.surplus() == []
    cm.cancel(second)


def test_a_priority_goes_along_and_the_highest_leave_first(two: Machines) -> None:
    parent = cm.remote(os.getppid)
    with two.lock:  # nothing is sent before all of them wait
        refs = [parent.options(priority=n).remote() for n in (-2, 0, 7)]
    cm.get(refs, timeout=60)
    sent = [task.priority for message in two.seen if isinstance(message, messages.Tasks) for task in message.tasks]
    assert sent == [7, 0, -2]
