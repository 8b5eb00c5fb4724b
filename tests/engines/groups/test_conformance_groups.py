"""The conformance suite, on: placement groups, and what runs in their bundles. See `engines.conformance`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from engines import conformance
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ActorPlacementGroupRemoved, TaskPlacementGroupRemoved
from cellmesh.util import (
    PlacementGroup,
    PlacementGroupSchedulingStrategy,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

PATIENCE_S = 60.0
pytestmark = pytest.mark.capability("placement_groups")

Reserve = Callable[..., PlacementGroup]


def get(refs: Any) -> Any:
    return cellmesh.get(refs, timeout=PATIENCE_S)


def within(group: PlacementGroup, index: int = -1) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(group, index)


@pytest.fixture
def reserve() -> Iterator[Reserve]:
    """reserve(bundles, strategy): a group that is there, and goes with the test."""
    made: list[PlacementGroup] = []

    def begin(bundles: list[dict[str, float]], strategy: str = "PACK") -> PlacementGroup:
        made.append(group := placement_group(bundles, strategy))
        assert group.wait(PATIENCE_S)
        return group

    yield begin
    for group in made:
        remove_placement_group(group)
        wait_until(lambda: placement_group_table(group)["state"] == "REMOVED")


@pytest.fixture
def machines(request: pytest.FixtureRequest) -> tuple[int, int]:
    """How many the engine has, with how many CPUs each."""
    return conformance.MACHINES[request.node.callspec.params["on_engine"]]


class Lives:
    def pid(self) -> int:
        return os.getpid()


def test_tasks_run_in_bundles_that_are_reserved_together(on_engine: ModuleType, reserve: Reserve) -> None:
    @on_engine.remote
    def double(n: int) -> int:
        return 2 * n

    group = reserve([{"CPU": 1}, {"CPU": 2}])
    assert get(group.ready()) == group
    assert placement_group_table(group)["state"] == "CREATED"
    refs = [double.options(scheduling_strategy=within(group, n % 3 - 1)).remote(n) for n in range(9)]
    assert get(refs) == [2 * n for n in range(9)]
    assert get(double.options(num_cpus=2, scheduling_strategy=within(group)).remote(4)) == 8
    with pytest.raises(ValueError, match="bundle 0 of"):
        double.options(num_cpus=2, scheduling_strategy=within(group, 0)).remote(4)


def test_actors_live_in_bundles(on_engine: ModuleType, reserve: Reserve) -> None:
    group = reserve([{"CPU": 1}, {"CPU": 1}])
    one, other = (
        on_engine.remote(Lives).options(num_cpus=1, scheduling_strategy=within(group, n)).remote() for n in range(2)
    )
    pids = get([one.pid.remote(), other.pid.remote()])
    assert len({os.getpid(), *pids}) == 3


def test_what_is_reserved_is_nobody_elses(on_engine: ModuleType, reserve: Reserve, machines: tuple[int, int]) -> None:
    @on_engine.remote
    def one() -> int:
        return 1

    n, n_cpus = machines
    group = reserve([{"CPU": n_cpus}] * n)
    outside = one.remote()
    assert get([one.options(scheduling_strategy=within(group)).remote() for _ in range(5)]) == [1] * 5
    assert not outside.done()
    remove_placement_group(group)
    assert get(outside) == 1


def test_bundles_are_on_as_many_machines_as_asked(
    on_engine: ModuleType, reserve: Reserve, machines: tuple[int, int]
) -> None:
    n, n_cpus = machines
    reserve([{"CPU": 1}] * n, "STRICT_SPREAD")
    reserve([{"CPU": 1}] * (n_cpus - 1), "STRICT_PACK")
    later = placement_group([{"CPU": n_cpus}])
    assert not later.wait(0)
    remove_placement_group(later)


def test_what_runs_or_waits_in_a_group_ends_with_it(on_engine: ModuleType, reserve: Reserve, tmp_path: Path) -> None:
    begun, goes_on = Flag(tmp_path / "begun"), Flag(tmp_path / "goes_on")

    @on_engine.remote
    def wait(begun: Flag) -> None:
        begun.set()
        goes_on.wait()

    @on_engine.remote
    def one() -> int:
        return 1

    group = reserve([{"CPU": 1}, {"CPU": 1}])
    actor = on_engine.remote(Lives).options(num_cpus=1, scheduling_strategy=within(group, 1)).remote()
    pid = get(actor.pid.remote())
    running, waiting = (wait.options(scheduling_strategy=within(group, 0)).remote(begun) for _ in range(2))
    begun.wait()
    remove_placement_group(group)
    for ref in (running, waiting):
        with pytest.raises(TaskPlacementGroupRemoved):
            get(ref)
    with pytest.raises(ActorPlacementGroupRemoved):
        get(actor.pid.remote())
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), PATIENCE_S)
    goes_on.set()  # the fake's one worker goes on until then
    assert get(one.remote()) == 1


def test_members_of_a_group_of_actors_have_their_bundles(on_engine: ModuleType) -> None:
    group = on_engine.remote(Lives).options(num_cpus=1).group(2)
    pids = get(group.pid.remote())
    assert len({*pids}) == 2
    cellmesh.kill(group)
