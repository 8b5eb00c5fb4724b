"""What members hold is reserved for all of them or for none, and given back when they have ended."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import GroupPlacementError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Worker:
    def holds(self) -> dict[str, float]:
        return cellmesh.get_runtime_context().get_assigned_resources()


def free(cm: ModuleType) -> float:
    return cm.available_resources()["CPU"]


def test_a_group_has_what_it_holds_together(cm: ModuleType) -> None:
    workers = cm.remote(num_cpus=0.5)(Worker).group(3)
    assert cm.get(workers.holds.remote()) == [{"CPU": 0.5}] * 3
    assert free(cm) == 0.5 and len(cm.state.list_placement_groups()) == 1
    workers.restart(1)
    assert cm.get(workers.holds.remote()) == [{"CPU": 0.5}] * 3
    del workers
    wait_until(lambda: free(cm) == 2 and len(cm.state.list_placement_groups()) == 0)


def test_what_a_task_was_given_keeps_the_reservation(cm: ModuleType, flag: Any) -> None:
    @cm.remote(num_cpus=0)
    def drive(group: Any) -> Any:
        flag("go").wait()
        return cellmesh.get(group.holds.remote())

    driven = drive.remote(cm.remote(num_cpus=1)(Worker).group(2))
    flag("go").set()
    assert cm.get(driven, timeout=30) == [{"CPU": 1}] * 2
    wait_until(lambda: free(cm) == 2)


def test_who_holds_nothing_needs_no_reservation(cm: ModuleType) -> None:
    workers = cm.group(Worker, 6)  # on two CPUs
    assert cm.get(workers.holds.remote()) == [{}] * 6
    assert free(cm) == 2 and len(cm.state.list_placement_groups()) == 0


def test_with_a_strategy_a_cpu_is_reserved_for_each(cm: ModuleType) -> None:
    workers = cm.group(Worker, 2, strategy="STRICT_PACK")
    assert cm.get(workers.holds.remote()) == [{"CPU": 1}] * 2
    assert cm.get(workers.holds.reduce(lambda a, b: a | b), timeout=30) == {"CPU": 1}  # no CPU is free for it
    assert [row["strategy"] for row in cm.state.list_placement_groups()] == ["STRICT_PACK"]


def test_what_cannot_fit_is_said_at_once(cm: ModuleType) -> None:
    with pytest.raises(GroupPlacementError, match="3 members with CPU: 1 each do not fit together: at most 2 do") as e:
        cm.remote(num_cpus=1)(Worker).group(3)
    assert "has CPU: 2, free CPU: 2" in str(e.value) and isinstance(e.value, ValueError)
    with pytest.raises(GroupPlacementError, match="each on a machine of its own: at most 1 do"):
        cm.group(Worker, 2, strategy="STRICT_SPREAD")
    with pytest.raises(GroupPlacementError, match="GPU: 1 each"):
        cm.remote(num_gpus=1)(Worker).group(2)
    with pytest.raises(GroupPlacementError, match="300 members, each a process, and a session on one machine has 254"):
        cm.group(Worker, 300)
    assert len(cm.state.list_placement_groups()) == len(cm.state.list_actors()) == 0


def test_a_group_that_has_to_wait_says_so(cm: ModuleType) -> None:
    first = cm.remote(num_cpus=1)(Worker).group(2)
    cm.get(first.holds.remote())
    with pytest.warns(UserWarning, match=r"group\(Worker\): its 2 members wait until .* has CPU: 2, free CPU: 0"):
        second = cm.remote(num_cpus=1)(Worker).group(2)
    refs = second.holds.remote()
    assert cm.wait(refs, timeout=0)[0] == []
    del first
    assert cm.get(refs, timeout=30) == [{"CPU": 1}] * 2


def test_a_group_that_cannot_be_made_whole_leaves_nothing(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from cellmesh.submit.actor_class import ActorClass

    make, made = ActorClass._cellmesh_create, []

    def make_two(actor_class: Any, *arguments: Any) -> Any:
        if len(made) == 2:
            raise cm.exceptions.StoreLimitError("the table of actors is full")
        made.append(arguments)
        return make(actor_class, *arguments)

    monkeypatch.setattr(ActorClass, "_cellmesh_create", make_two)
    with pytest.raises(cm.exceptions.StoreLimitError):
        cm.remote(num_cpus=0.5)(Worker).group(3)
    wait_until(lambda: free(cm) == 2 and len(cm.state.list_placement_groups()) == 0)
    wait_until(lambda: not [row for row in cm.state.list_actors() if row["state"] != "dead"])
