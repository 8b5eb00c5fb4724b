"""Placement groups: reserved together, in turn, kept apart from the node; removed with what runs in them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import ModuleType

import pytest
from cellmesh.objstore import _core
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current
from cellmesh.util import (
    NodeAffinitySchedulingStrategy,
    PlacementGroup,
    PlacementGroupSchedulingStrategy,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

pytestmark = pytest.mark.timeout(60)


@cellmesh.remote
def group_here():
    return get_current_placement_group()


@cellmesh.remote
def holds(started, go):
    started.set_by_me()
    go.wait()
    return os.getpid()


@cellmesh.remote
def parent(strategy=None):
    child = group_here.options(scheduling_strategy=strategy) if strategy else group_here
    return cellmesh.get(child.remote())


@cellmesh.remote(num_cpus=1)
class Member:
    def __init__(self, born=None):
        if born:
            born.add()

    def group(self):
        return get_current_placement_group()

    def child(self):
        return cellmesh.get(group_here.remote())

    def hold(self, started, go):
        started.set_by_me()
        go.wait()

    def pid(self):
        return os.getpid()


def within(group: PlacementGroup, index: int = -1, capture: bool | None = None) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(group, index, capture)


def free_cpus() -> float:
    return cellmesh.available_resources().get("CPU", 0.0)


@pytest.fixture
def cm(cm: ModuleType) -> Iterator[ModuleType]:
    yield cm
    assert current().client.check() == []


# ---------------------------------------------------------------- reserving
def test_a_group_reserves_all_of_its_bundles_and_gives_them_back(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 0.5}])
    assert cm.get(group.ready()) == group and group.wait(0)
    assert group.bundle_specs == [{"CPU": 1.0}, {"CPU": 0.5}] and group.bundle_count == 2 and not group.is_empty
    assert free_cpus() == 0.5
    assert placement_group_table(group)["state"] == "CREATED"
    remove_placement_group(group)
    remove_placement_group(group)
    assert placement_group_table(group)["state"] == "REMOVED"
    wait_until(lambda: free_cpus() == 2)  # the task that has answered may be about to end
    assert placement_group_table() == {}


def test_all_or_none(cm: ModuleType, flag) -> None:
    running = holds.remote(flag("started"), flag("go"))
    flag("started").wait()
    large = placement_group([{"CPU": 1}, {"CPU": 1}])
    assert not large.wait(0.05) and free_cpus() == 1
    small = placement_group([{"CPU": 1}])
    assert small.wait(10), "who does not fit lets others pass"
    assert [row["state"] for row in cm.state.list_placement_groups()] == ["pending", "reserved"]
    remove_placement_group(small)
    flag("go").set()
    assert large.wait(10)
    cm.get(running)


def test_groups_are_served_in_order_and_before_waiting_tasks(cm: ModuleType, flag) -> None:
    running = holds.options(num_cpus=2).remote(flag("started"), flag("go"))
    flag("started").wait()
    task = group_here.remote()
    first, second = placement_group([{"CPU": 2}]), placement_group([{"CPU": 2}])
    answers = [first.ready(), second.ready()]
    flag("go").set()
    assert cm.wait(answers)[0] == answers[:1]
    cm.get(running)
    assert free_cpus() == 0 and task.client.info(task)["state"] == "queued"
    remove_placement_group(first)
    assert cm.get(answers[1]) == second and task.client.info(task)["state"] == "queued"
    remove_placement_group(second)
    assert cm.get(task) is None


def test_an_agent_hears_of_a_group_that_has_waited(cm: ModuleType, flag) -> None:
    agent = _core.Client(current().node.fd, _core.ROLE_REMOTE_NODE, None)
    wake_fd = agent.wake_fd()
    running = holds.options(num_cpus=1).remote(flag("started"), flag("go"))
    flag("started").wait()
    group = placement_group([{"CPU": 2}])
    number = agent.groups()[0][0]
    agent.surplus()  # from here on it is told
    while select.select([wake_fd], [], [], 0)[0]:
        os.read(wake_fd, 8)
    assert not agent.placement_reserved(number)
    flag("go").set()
    cm.get(running)
    assert select.select([wake_fd], [], [], 30)[0] and group.wait(30) and agent.placement_reserved(number)
    agent.close()


def test_gpus_of_a_bundle() -> None:
    cellmesh.init(num_cpus=2, num_gpus=3)
    try:
        group = placement_group([{"GPU": 2, "CPU": 1}, {"GPU": 0.5, "CPU": 1}])
        ids = cellmesh.remote(num_gpus=1, num_cpus=0)(cellmesh.get_gpu_ids)
        inside = [ids.options(scheduling_strategy=within(group, 0)).remote() for _ in range(4)]
        assert {i for found in cellmesh.get(inside) for i in found} <= {"0", "1"}
        half = ids.options(num_gpus=0.5, scheduling_strategy=within(group, 1)).remote()
        assert cellmesh.get(half) == ["2"]
        assert current().client.check() == []
    finally:
        cellmesh.shutdown()


@pytest.mark.parametrize(
    "bundles, strategy, why",
    [
        ([{"CPU": 1}, {"CPU": 2}], "PACK", "asks for CPU: 3 together, but all this node has is CPU: 2"),
        ([{"moon": 1}], "SPREAD", "asks for moon: 1 together, but all this node has is moon: 0"),
        (
            [{"CPU": 1}, {"CPU": 1}],
            "STRICT_SPREAD",
            "wants each of its 2 bundles on a node of its own, and there is one node",
        ),
    ],
)
def test_what_never_fits_says_so_and_waits(cm: ModuleType, bundles: list, strategy: str, why: str) -> None:
    with pytest.warns(cm.exceptions.InfeasibleResourcesWarning, match=f"{why}: it will wait for ever"):
        group = placement_group(bundles, strategy)
    assert not group.wait(0) and placement_group_table(group)["state"] == "PENDING" and free_cpus() == 2
    assert placement_group([{"CPU": 2}]).wait(10)
    remove_placement_group(group)


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_strategies_that_one_node_can_serve(cm: ModuleType, strategy: str) -> None:
    assert placement_group([{"CPU": 1}, {"CPU": 1}], strategy).wait(10)


# ---------------------------------------------------------------- running in a group
def test_tasks_take_from_the_bundle_and_not_from_the_node(cm: ModuleType, flag) -> None:
    group = placement_group([{"CPU": 1}])
    inside = group_here.options(scheduling_strategy=within(group))
    assert cm.get([inside.remote() for _ in range(3)]) == [group] * 3
    in_node = holds.remote(flag("started"), flag("go"))
    flag("started").wait()
    assert free_cpus() == 0 and cm.get(inside.remote()) == group, "the node being full"
    flag("go").set()
    cm.get(in_node)
    assert cm.get(group_here.remote()) is None


def test_any_bundle_means_the_one_with_room(cm: ModuleType, flag) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    both = [holds.options(scheduling_strategy=within(group)).remote(flag(f"{i}"), flag("go")) for i in range(2)]
    flag("0").wait()
    flag("1").wait()
    third = group_here.options(scheduling_strategy=within(group, 1)).remote()
    assert cm.state.list_placement_groups()[0]["available"] == [{"CPU": 0.0}, {"CPU": 0.0}]
    assert third.client.info(third)["state"] == "queued"
    flag("go").set()
    cm.get([*both, third])


def test_tasks_wait_for_their_group(cm: ModuleType, flag) -> None:
    running = holds.options(num_cpus=2).remote(flag("started"), flag("go"))
    flag("started").wait()
    group = placement_group([{"CPU": 1}])
    inside = group_here.options(scheduling_strategy=within(group), num_cpus=0).remote()
    assert inside.client.info(inside)["state"] == "queued"
    flag("go").set()
    assert cm.get(inside) == group
    cm.get(running)


def test_what_captured_tasks_submit_stays_in_the_group(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    run = parent.options(scheduling_strategy=within(group, 0, capture=True)).remote
    assert cm.get(run()) == group
    actor = Member.options(scheduling_strategy=within(group, 1, capture=True)).remote()
    assert cm.get([actor.group.remote(), actor.child.remote()]) == [group, group]
    cm.kill(actor)
    remove_placement_group(group)
    one = placement_group([{"CPU": 1}])
    assert cm.get(parent.options(scheduling_strategy=within(one)).remote()) is None, "not asked to capture"
    assert (
        cm.get(
            parent.options(scheduling_strategy=within(one, 0, capture=True)).remote(
                PlacementGroupSchedulingStrategy(None)
            )
        )
        is None
    ), "asked to leave"


def test_recursion_in_one_bundle_does_not_deadlock(cm: ModuleType) -> None:
    @cm.remote
    def depth(n):
        return 0 if n == 0 else 1 + cm.get(depth.remote(n - 1))

    group = placement_group([{"CPU": 1}])
    assert cm.get(depth.options(scheduling_strategy=within(group, 0, capture=True)).remote(20)) == 20


def test_more_than_a_bundle_has_is_an_error_at_once(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 0.5}], name="g")
    with pytest.raises(
        ValueError,
        match=r"'group_here' asks for CPU: 2, which none of the bundles of placement group 'g' has: CPU: 1; CPU: 0.5",
    ):
        group_here.options(num_cpus=2, scheduling_strategy=within(group)).remote()
    with pytest.raises(
        ValueError, match=r"'Member' asks for CPU: 1, which bundle 1 of placement group 'g' does not have: CPU: 0.5"
    ):
        Member.options(scheduling_strategy=within(group, 1)).remote()

    @cm.remote
    def greedy():
        return group_here.options(num_cpus=2).remote()

    with pytest.raises(ValueError, match="more than any bundle of placement group"):
        cm.get(greedy.options(scheduling_strategy=within(group, 0, capture=True)).remote())


# ---------------------------------------------------------------- names and tables
def test_named_groups(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}], name="pair")
    assert get_placement_group("pair") == group and get_placement_group("pair").bundle_specs == [{"CPU": 1.0}]
    with pytest.raises(ValueError, match="a placement group named 'pair' exists"):
        placement_group([{"CPU": 1}], name="pair")
    with pytest.raises(
        ValueError, match=r"no placement group named 'pear' exists in namespace .* those with names are 'pair'"
    ):
        get_placement_group("pear")
    remove_placement_group(group)
    with pytest.raises(ValueError, match="no group has a name"):
        get_placement_group("pair")
    assert placement_group([{"CPU": 1}], name="pair") != group


def test_a_group_travels(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])
    run_in = cm.remote(num_cpus=0)(lambda g: cellmesh.get(group_here.options(scheduling_strategy=within(g)).remote()))
    assert cm.get(run_in.remote(group)) == group
    made = cm.get(cm.remote(lambda: placement_group([{"CPU": 0.5}], name="theirs")).remote())
    assert made.wait(10) and get_placement_group("theirs") == made and {made, group} == {group, made}
    assert len({group.id, made.id}) == 2 and group.id.hex() == placement_group_table(group)["placement_group_id"]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: placement_group([]), r"placement_group\(bundles=\[\]\): must be a list of 1 to 255 dicts"),
        (lambda: placement_group([{}]), "not all 0"),
        (lambda: placement_group([{"CPU": 0}]), "not all 0"),
        (lambda: placement_group([{"GPU": 1.5}]), "bundles="),
        (lambda: placement_group({"CPU": 1}), "bundles="),
        (
            lambda: placement_group([{"CPU": 1}], "TIGHT"),
            "strategy='TIGHT'.*must be one of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD",
        ),
        (lambda: placement_group([{"CPU": 1}], lifetime="long"), "lifetime='long'.*must be None, 'detached' or"),
        (lambda: within(PlacementGroup.empty(), 1), r"placement_group_bundle_index=1\): must be from 0 to 0, or -1"),
        (lambda: PlacementGroupSchedulingStrategy("g"), r"placement_group=\.\.\.\): must be what"),
        (lambda: NodeAffinitySchedulingStrategy(3, False), "node_id=3"),
        (lambda: NodeAffinitySchedulingStrategy(""), "not empty"),
        (lambda: group_here.options(scheduling_strategy="PACK"), "scheduling_strategy='PACK' of group_here"),
        (lambda: get_placement_group(""), "needs the name of a group"),
    ],
)
def test_bad_input(make, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_node_affinity(cm: ModuleType) -> None:
    here = cm.get_runtime_context().get_node_id()
    for strategy in (
        NodeAffinitySchedulingStrategy(here, False),
        NodeAffinitySchedulingStrategy("gone", True),
        "SPREAD",
        "DEFAULT",
    ):
        assert cm.get(group_here.options(scheduling_strategy=strategy).remote()) is None
    with pytest.raises(
        ValueError,
        match="scheduling_strategy of group_here: no node has the id 'gone', and soft=False allows no "
        f"other; the session's one node is '{here}'",
    ):
        group_here.options(scheduling_strategy=NodeAffinitySchedulingStrategy("gone", False)).remote()


# ---------------------------------------------------------------- removal
def test_removal_ends_what_runs_and_what_waits(cm: ModuleType, flag) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}], name="doomed")
    actor = Member.options(scheduling_strategy=within(group, 0), max_restarts=-1, max_task_retries=-1).remote()
    call = actor.hold.remote(flag("call"), flag("never"))
    running = holds.options(scheduling_strategy=within(group, 1), max_retries=-1).remote(flag("task"), flag("never"))
    queued = group_here.options(scheduling_strategy=within(group)).remote()
    waiting = cm.remote(lambda _: None).options(scheduling_strategy=within(group)).remote(running)
    pids = {int(flag("call").wait()), int(flag("task").wait())}
    remove_placement_group(group)
    for ref in (running, queued, waiting):
        with pytest.raises(
            cm.exceptions.TaskPlacementGroupRemoved, match=r"placement group 'doomed' of the task .* has been removed"
        ):
            cm.get(ref, timeout=20)
    for ref in (call, actor.pid.remote()):
        with pytest.raises(
            cm.exceptions.ActorPlacementGroupRemoved, match="is dead: its placement group 'doomed' has been removed"
        ):
            cm.get(ref, timeout=20)
    wait_until(lambda: free_cpus() == 2)
    wait_until(lambda: not pids & {row["pid"] for row in cm.state.list_workers()})
    for late in (lambda: group.wait(1), lambda: group_here.options(scheduling_strategy=within(group)).remote()):
        with pytest.raises(
            cm.exceptions.TaskPlacementGroupRemoved, match="'doomed' has been removed, so nothing can run in it"
        ):
            late()


def test_removal_of_a_pending_group(cm: ModuleType, flag) -> None:
    running = holds.remote(flag("started"), flag("go"))
    flag("started").wait()
    group = placement_group([{"CPU": 2}])
    ready = group.ready()
    actor = Member.options(scheduling_strategy=within(group)).remote()
    remove_placement_group(group)
    with pytest.raises(cm.exceptions.TaskPlacementGroupRemoved):
        cm.get(ready)
    with pytest.raises(cm.exceptions.ActorPlacementGroupRemoved):
        cm.get(actor.pid.remote())
    flag("go").set()
    cm.get(running)
    wait_until(lambda: free_cpus() == 2)


def test_removal_spares_workers_that_have_done_their_task(cm: ModuleType) -> None:
    pid, pids = cm.remote(os.getpid), set()
    for _ in range(100):
        group = placement_group([{"CPU": 1}])
        pids.add(cm.get(pid.options(scheduling_strategy=within(group)).remote()))
        remove_placement_group(group)
    assert len(pids) <= 2 and pids <= {row["pid"] for row in cm.state.list_workers()}


def test_a_task_that_removes_its_own_group(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])

    @cm.remote
    def saw():
        remove_placement_group(get_current_placement_group())

    with pytest.raises(cm.exceptions.TaskPlacementGroupRemoved):
        cm.get(saw.options(scheduling_strategy=within(group)).remote())
    wait_until(lambda: free_cpus() == 2)


def test_many_groups_one_after_the_other(cm: ModuleType) -> None:
    for i in range(300):  # more than there are pools, or shapes
        group = placement_group([{"CPU": 1}, {"CPU": 0.25 + i % 3 / 4}])
        assert cm.get(group_here.options(scheduling_strategy=within(group, i % 2), num_cpus=0.25).remote()) == group
        remove_placement_group(group)
    wait_until(lambda: free_cpus() == 2)


# ---------------------------------------------------------------- death
def test_a_worker_that_dies_in_a_group(cm: ModuleType, flag, counter) -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    running = holds.options(scheduling_strategy=within(group)).remote(flag("started"), flag("go"))
    actor = Member.options(scheduling_strategy=within(group), max_restarts=1).remote(counter)
    first = cm.get(actor.pid.remote())
    died = int(flag("started").wait())
    os.kill(died, signal.SIGKILL)
    os.kill(first, signal.SIGKILL)
    flag("go").set()
    assert cm.get(running) != died
    wait_until(lambda: counter.value == 2)
    assert cm.get(actor.group.remote()) == group
    wait_until(lambda: cm.state.list_placement_groups()[0]["available"].count({"CPU": 0.0}) == 1)
    remove_placement_group(group)
    wait_until(lambda: free_cpus() == 2)


def test_a_group_that_goes_with_a_tasks_process(cm: ModuleType, flag) -> None:
    @cellmesh.remote(num_cpus=0, max_retries=0)
    def reserves():
        placement_group([{"CPU": 1}], lifetime="process").wait()
        flag("reserved").set_by_me()
        signal.pause()

    ref = reserves.remote()
    pid = int(flag("reserved").wait())
    assert free_cpus() == 1
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(cellmesh.exceptions.WorkerCrashedError):
        cellmesh.get(ref)
    wait_until(lambda: free_cpus() == 2)


JOINS = """
import os, signal, sys
import cellmesh as cm
from cellmesh.util import placement_group, PlacementGroupSchedulingStrategy
cm.init(sys.argv[1], namespace="shared")
groups = [
    placement_group([{"CPU": 0.5}], name="mine"),
    placement_group([{"CPU": 0.5}], name="kept", lifetime="detached"),
    placement_group([{"CPU": 2}], name="pending"),
]
assert all(group.wait(20) for group in groups[:2])

@cm.remote
def sleeper(path):
    open(path, "w").write(str(os.getpid()))
    import signal; signal.pause()
refs = [
    sleeper.options(num_cpus=0.5, scheduling_strategy=PlacementGroupSchedulingStrategy(groups[0])).remote(sys.argv[2])
]
while not os.path.exists(sys.argv[2]) or not open(sys.argv[2]).read():
    pass
if sys.argv[3] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
cm.shutdown()
"""


@pytest.mark.parametrize("end", ["kill", "shutdown"])
def test_groups_go_with_the_driver_that_made_them(end: str, tmp_path) -> None:
    context = cellmesh.init(num_cpus=2, namespace="shared")
    try:
        mine = placement_group([{"CPU": 1}], name="ours")
        ended = subprocess.run(
            [sys.executable, "-c", JOINS, context["address"], str(tmp_path / "pid"), end],
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert ended.returncode == (-signal.SIGKILL if end == "kill" else 0), ended.stderr
        wait_until(lambda: free_cpus() == 0.5)
        assert {row["name"] for row in cellmesh.state.list_placement_groups()} == {"ours", "kept"}
        pid = int((tmp_path / "pid").read_text())
        wait_until(lambda: pid not in {row["pid"] for row in cellmesh.state.list_workers()})
        assert mine.wait(10) and current().client.check() == []
    finally:
        cellmesh.shutdown()


def test_a_group_of_another_session(cm: ModuleType) -> None:
    group = placement_group([{"CPU": 1}])
    cm.shutdown()
    cm.init(num_cpus=2)
    for use in (
        lambda: group.wait(0),
        lambda: remove_placement_group(group),
        lambda: group_here.options(scheduling_strategy=within(group)).remote(),
    ):
        with pytest.raises(
            cm.exceptions.SessionClosedError, match="placement group 1 belongs to a session that has been shut down"
        ):
            use()


def test_why_a_group_waits(cm: ModuleType) -> None:
    first = placement_group([{"CPU": 1}], name="first")
    second = placement_group([{"CPU": 1}, {"CPU": 1}], name="second")
    ready = second.ready()
    why = ready.client.why(ready)
    assert (
        why["stuck"]
        and why["wanted"] == {"CPU": 2}
        and why["available"] == {"CPU": 1}
        and why["reserved"] == {"CPU": 1}
    )
    began = time.monotonic()
    remove_placement_group(first)
    assert cm.get(ready) == second and time.monotonic() - began < 5
