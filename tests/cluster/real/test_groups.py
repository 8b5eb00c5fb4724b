"""Placement groups whose bundles are on several machines. Real heads, agents and nodes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.drivers import ends_well, program, says
from support.real_machines import Machine, kill_sessions, machines
from support.waiting import wait_until

BEGINNING = """
from cellmesh.exceptions import ActorPlacementGroupRemoved, TaskPlacementGroupRemoved
from cellmesh.util import (
    PlacementGroupSchedulingStrategy as In,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

here = cm.get_runtime_context().get_node_id()

@cm.remote(max_retries=3)
def where(seconds=0.02):
    time.sleep(seconds)
    return cm.get_runtime_context().get_node_id()

@cm.remote
class Where:
    def node(self):
        return cm.get_runtime_context().get_node_id()

def bundle(group, index=-1, captures=False):
    return dict(scheduling_strategy=In(group, index, captures), num_cpus=1)

def made(bundles, mode):
    group = placement_group(bundles, mode)
    assert group.wait(60), cm.state.list_placement_groups()
    return group

def nodes_of(group):
    return list(placement_group_table(group)["bundles_to_node_id"].values())

def fails(ref, error):
    try:
        cm.get(ref, timeout=60)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")

ONE = {"CPU": 1}
wait_for_nodes(int(os.environ.get("NODES", 3)))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Machine, dict[str, Any], str, str]]:
    """Two nodes beside the driver's, of one CPU and of two."""
    with machines(Machine(), Machine()) as (here, there):
        head = here.head()
        joined = there.join(head, here.run("token"), "--num-cpus", "2")
        yield here, head, head["session"], joined["session"]


def run(cluster: tuple[Machine, dict[str, Any], str, str], body: str) -> str:
    here, head, small, large = cluster
    with machines(Machine()) as (mine,):
        return ends_well(program(mine, head, here.run("token"), BEGINNING + body, SMALL=small, LARGE=large))


def test_four_modes(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
small, large = os.environ["SMALL"], os.environ["LARGE"]
for mode, n, allowed in [
    ("STRICT_SPREAD", 3, {3}),
    ("SPREAD", 4, {3}),
    ("PACK", 2, {1}),
    ("PACK", 4, {3}),
    ("STRICT_PACK", 2, {1}),
]:
    group = made([ONE] * n, mode)
    found = nodes_of(group)
    assert len(found) == n and len(set(found)) in allowed, (mode, found)
    assert mode != "STRICT_PACK" or set(found) == {large}
    assert cm.get([where.options(**bundle(group, i)).remote() for i in range(n)], timeout=60) == found, mode
    assert set(cm.get([where.options(**bundle(group)).remote() for _ in range(20)], timeout=60)) <= set(found)
    remove_placement_group(group)
small_one = made([ONE], "SPREAD")
assert nodes_of(small_one) == [here], "what fits at home as a whole stays there"
""",
    )


def test_groups_of_all_machines_are_listed_on_each(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    here, head, *_ = cluster

    def listed() -> list[dict[str, Any]]:
        return list(here.json("list", "placement_groups")[0]["placement_groups"])

    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            BEGINNING
            + """
import json
group = placement_group([ONE] * 3, "STRICT_SPREAD", name="three")
assert group.wait(60)
row, = cm.state.list_placement_groups()
assert row["available"] == [ONE] * 3 and len(set(row["machines"])) == 3 and row["home"] in row["machines"], row
print(json.dumps(row), flush=True)
sys.stdin.readline()
remove_placement_group(group)
print("removed", flush=True)
sys.stdin.readline()
""",
        )
        own = json.loads(says(driver))
        wait_until(lambda: [row["state"] for row in listed()] == ["reserved"], 20, str(listed()))
        assert listed() == [own | {"available": None}]
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.flush()
        assert says(driver) == "removed"
        wait_until(lambda: not listed(), 20)
        ends_well(driver)


def test_what_is_reserved_nobody_else_gets_and_comes_back(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
group = made([ONE] * 4, "PACK")
outside = where.remote()
for _ in range(3):
    assert cm.get(where.options(**bundle(group)).remote(), timeout=60)
assert cm.wait([outside], timeout=0.3) == ([], [outside])
rows, = cm.state.list_placement_groups()
assert len(set(rows["machines"])) <= 3 and rows["available"] == [ONE] * 4 and rows["state"] == "reserved"
busy = where.options(**bundle(group, 1)).remote(60)
while cm.state.list_placement_groups()[0]["available"].count({"CPU": 0.0}) != 1:
    time.sleep(0.01)
behind = where.options(**bundle(group, 1)).remote()
remove_placement_group(group)
for ref in (busy, behind):
    fails(ref, TaskPlacementGroupRemoved)
assert cm.get(outside, timeout=60)
while sum(row["Available"].get("CPU", 0) for row in cm.nodes() if row["Alive"]) < 4:
    time.sleep(0.02)
""",
    )


def test_actors_and_what_tasks_begin(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
group = made([ONE] * 3, "STRICT_SPREAD")
found = nodes_of(group)
actors = [Where.options(**bundle(group, i)).remote() for i in range(3)]
assert cm.get([actor.node.remote() for actor in actors], timeout=60) == found
remove_placement_group(group)
for actor in actors:
    fails(actor.node.remote(), ActorPlacementGroupRemoved)

group = made([ONE] * 3, "STRICT_SPREAD")
found = nodes_of(group)
@cm.remote
def parent():
    return cm.get(where.options(num_cpus=1).remote()), cm.get_runtime_context().get_node_id()
for i in range(3):
    child, own = cm.get(parent.options(**bundle(group, i, captures=True)).remote(), timeout=60)
    assert own == found[i] and child in (found if own == here else [own]), (
        "in its group; elsewhere in the bundles that are there"
    )

@cm.remote
def waits_for(refs):
    return cm.get(refs[0])
gate = where.options(**bundle(group, 0)).remote(0.3)
away = next(i for i in range(3) if found[i] != here)

@cm.remote
def later(value):
    return value
late = later.options(**bundle(group, away)).remote(gate)
assert cm.get(waits_for.options(**bundle(group, away)).remote([late]), timeout=60) == found[0]
remove_placement_group(group)
""",
    )


def test_a_machine_with_a_bundle_is_lost() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head("--num-cpus", "0")
        joined = there.join(head, here.run("token"))
        spare = Machine()
        with machines(spare):
            driver = program(
                mine,
                head,
                here.run("token"),
                BEGINNING
                + """
group = made([ONE, ONE], "STRICT_SPREAD")
there = os.environ["THERE"]
assert set(nodes_of(group)) == {here, there}
index = nodes_of(group).index(there)
@cm.remote(max_retries=3)
def long(go):
    while not os.path.exists(go):
        time.sleep(0.02)
    return cm.get_runtime_context().get_node_id()
long = long.options(**bundle(group, index)).remote(os.environ["GO"])
print("begun", flush=True)
sys.stdin.readline()
final = cm.get(long, timeout=120)
assert final not in (here, there) and nodes_of(group)[index] == final, (final, nodes_of(group))
print("done")
""",
                THERE=joined["session"],
                NODES="2",
                GO=f"{mine.folder}/go",
            )
            assert says(driver) == "begun"
            spare.join(head, here.run("token"))
            kill_sessions(there)
            Path(mine.folder, "go").touch()
            assert driver.stdin is not None
            driver.stdin.write("\n")
            driver.stdin.flush()
            assert "done" in ends_well(driver)


def test_a_driver_is_killed_and_its_bundles_are_free(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    here, head, _, _ = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            BEGINNING
            + """
group = made([ONE] * 4, "PACK")
busy = [where.options(**bundle(group, i)).remote(600) for i in range(4)]
print("begun", flush=True)
cm.get(busy)
""",
        )
        assert says(driver) == "begun"
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        wait_until(
            lambda: sum(row["free"].get("CPU", 0) for row in here.alive().values()) >= 3,
            30,
            "the bundles are given back",
        )
    run(cluster, "made([ONE] * 4, 'PACK')")


def test_a_group_that_nothing_can_hold_is_told_of(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    here, head, small, large = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            BEGINNING
            + """
group = placement_group([ONE] * 9, "STRICT_SPREAD")
assert not group.wait(1)
print("told", flush=True)
sys.stdin.readline()
remove_placement_group(group)
""",
            SMALL=small,
            LARGE=large,
        )
        assert says(driver) == "told"
        (log,) = Path(mine.folder).glob("cellmesh*/session-*/scheduler.log")
        wait_until(
            lambda: "no machines of the cluster can hold its bundles: 9 bundles" in log.read_text(),
            what="it is told of",
        )
        out, err = driver.communicate("\n", timeout=60)
    assert driver.returncode == 0, (out, err)
    assert "Placement group 1 waits, as no machines" in err
