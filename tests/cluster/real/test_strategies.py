"""Where tasks go by what their users say: spread, on a node, where labels hold. Real heads, agents and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.drivers import ends_well, program, says
from support.real_machines import Machine, kill_sessions, machines

BEGINNING = """
from collections import Counter
from cellmesh.exceptions import TaskUnschedulableError
from cellmesh.util import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy as On,
    NodeLabelSchedulingStrategy as Labelled,
    NotIn,
)

@cm.remote
def where(seconds=0.02):
    time.sleep(seconds)
    return cm.get_runtime_context().get_node_id()

def among(n, **options):
    return Counter(cm.get([where.options(**options).remote() for _ in range(n)], timeout=60))

def goes_to(node, **options):  # as soon as there is room, which places that were used before may still take
    while among(1, **options) != {node: 1}:
        pass

here = cm.get_runtime_context().get_node_id()
wait_for_nodes(3)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Machine, dict[str, Any], str, str]]:
    """Two nodes beside the driver's, with their ids; the second is in zone "eu"."""
    with machines(Machine(), Machine()) as (here, there):
        head = here.head("--labels", "zone=us,disk=ssd")
        joined = there.join(head, here.run("token"), "--labels", "zone=eu", "--resources", "far=1")
        yield here, head, head["session"], joined["session"]


def run(cluster: tuple[Machine, dict[str, Any], str, str], body: str, cpus: int = 1, **more: str) -> str:
    here, head, us, eu = cluster
    with machines(Machine()) as (mine,):
        return ends_well(program(mine, head, here.run("token"), BEGINNING + body, US=us, EU=eu, CPUS=str(cpus), **more))


def test_what_is_to_be_spread_is_spread_though_home_has_room(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
for _ in range(5):  # a node on which something still runs gets nothing for a moment
    found = among(30, scheduling_strategy="SPREAD")
    if len(found) == 3 and min(found.values()) >= 3:
        break
else:
    raise AssertionError(found)
assert set(among(4, scheduling_strategy="DEFAULT")) == {here}
""",
        cpus=4,
    )


def test_a_node_by_its_id(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
us, eu = os.environ["US"], os.environ["EU"]
for node in (us, eu, here):
    assert set(among(10, scheduling_strategy=On(node, soft=False))) == {node}
    goes_to(node, scheduling_strategy=On(node, soft=True))
names = {row["NodeName"]: row["NodeID"] for row in cm.nodes() if row["Alive"]}
assert len(names) == 3 and all(name.startswith(min(names)) for name in names), names
for name, node in names.items():
    assert among(1, scheduling_strategy=On(name, soft=False)) == {node: 1}
# What runs there may say where what it submits is to go.
@cm.remote
def send_home(node):
    return cm.get(where.options(scheduling_strategy=On(node, soft=False)).remote())

assert cm.get(send_home.options(scheduling_strategy=On(eu, soft=False)).remote(us), timeout=60) == us
assert cm.get(send_home.options(scheduling_strategy=On(eu, soft=False)).remote(here), timeout=60) == here
""",
    )


def test_a_node_that_is_not_there(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
try:
    cm.get(where.options(scheduling_strategy=On("nowhere", soft=False)).remote(), timeout=60)
except TaskUnschedulableError as error:
    assert "'nowhere'" in str(error), error
else:
    raise AssertionError("it has run")
assert among(6, scheduling_strategy=On("nowhere", soft=True)).total() == 6
""",
    )


def test_what_cannot_travel_is_placed_at_home_or_fails(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
@cm.remote
def count(n):
    yield from range(n)

there = count.options(scheduling_strategy=On(os.environ["EU"], soft=False))
assert [cm.get(ref) for ref in there.remote(3)] == [0, 1, 2]

@cm.remote
def take(stream):
    return [cm.get(ref) for ref in stream]

assert cm.get(take.options(scheduling_strategy="SPREAD").remote(count.remote(3))) == [0, 1, 2]
try:
    cm.get(take.options(scheduling_strategy=On(os.environ["EU"], soft=False)).remote(count.remote(3)))
except TaskUnschedulableError as error:
    assert os.environ["EU"] in str(error), error
else:
    raise AssertionError("it has run")
""",
    )


def test_labels(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
us, eu = os.environ["US"], os.environ["EU"]
for selector, nodes in (
    ({"zone": "eu"}, {eu}),
    ({"zone": "in(us, asia)"}, {us}),
    ({"zone": "!eu", "disk": "ssd"}, {us}),
    ({"zone": "exists()"}, {us, eu}),
    ({"zone": "!exists()"}, {here}),
):
    assert set(among(20, label_selector=selector)) <= nodes, selector
for strategy, nodes in (
    (Labelled({"zone": In("eu", "asia")}), {eu}),
    (Labelled({"zone": NotIn("eu"), "disk": Exists()}), {us}),
    (Labelled({"disk": DoesNotExist(), "zone": Exists()}), {eu}),
):
    assert set(among(5, scheduling_strategy=strategy)) == nodes, strategy
goes_to(eu, scheduling_strategy=Labelled({}, soft={"zone": In("eu")}))
assert among(3, scheduling_strategy=Labelled({}, soft={"zone": In("asia")})).total() == 3
""",
    )


def test_the_driver_s_node_has_labels_too_also_for_programs_of_ray(
    cluster: tuple[Machine, dict[str, Any], str, str],
) -> None:
    run(
        cluster,
        """
assert cm.nodes()[0]["Labels"] == {"zone": "mine"}
assert among(5, label_selector={"zone": "mine"}) == {here: 5}
begun_there = cm.remote(lambda: cm.get(where.options(label_selector={"zone": "mine"}).remote()))
assert cm.get(begun_there.options(label_selector={"zone": "eu"}).remote(), timeout=60) == here
try:
    cm.init(address="tcp://" + os.environ["HEAD"], labels={"zone": "other"})
except cm.exceptions.AlreadyInitializedError as error:
    assert "labels={'zone': 'mine'}" in str(error), error
cm.shutdown()

from cellmesh.compat import ray
ray.init("tcp://" + os.environ["HEAD"], num_cpus=1, labels={"zone": "of ray"}, object_store_memory=128 << 20)
rows = [row for row in ray.nodes() if row["alive"]]
assert len(rows) == 3 == len({(row["NodeManagerAddress"], row["NodeManagerPort"]) for row in rows}), rows
assert len({row["NodeManagerHostname"] for row in rows}) == 3 and ray.cluster_resources()["node:127.0.0.1"] == 3

@ray.remote
def labels():
    return ray.get_runtime_context().get_node_labels()

for zone in ("of ray", "eu"):
    assert ray.get(labels.options(label_selector={"zone": zone}).remote(), timeout=60) == {"zone": zone}
ray.shutdown()
""",
        ZONE="mine",
    )


def test_actors_too(cluster: tuple[Machine, dict[str, Any], str, str]) -> None:
    run(
        cluster,
        """
from cellmesh.exceptions import ActorDiedError

@cm.remote(num_cpus=1)
class Where:
    def node(self):
        return cm.get_runtime_context().get_node_id()

us, eu = os.environ["US"], os.environ["EU"]
for node in (us, eu, here):
    actor = Where.options(scheduling_strategy=On(node, soft=False)).remote()
    assert cm.get(actor.node.remote(), timeout=60) == node
    cm.kill(actor)
actors = [Where.options(scheduling_strategy="SPREAD").remote() for _ in range(3)]
assert set(cm.get([actor.node.remote() for actor in actors], timeout=60)) == {us, eu, here}
try:
    cm.get(Where.options(scheduling_strategy=On("nowhere", soft=False)).remote().node.remote(), timeout=60)
except ActorDiedError:
    pass
else:
    raise AssertionError("it lives")
""",
    )


def test_actors_that_hold_nothing_are_spread() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head()
        there.join(head, here.run("token"))
        ends_well(
            program(
                mine,
                head,
                here.run("token"),
                BEGINNING
                + """
@cm.remote(scheduling_strategy="SPREAD")
class Where:
    def node(self):
        return cm.get_runtime_context().get_node_id()

kept = []
for options in ({"num_cpus": 0}, {}):
    for _ in range(
        4
    ):  # a report that tells of an actor too late, or of one that begins, is mended by the next, a beat later
        kept += [Where.options(**options).remote() for _ in range(6)]
        found = Counter(cm.get([actor.node.remote() for actor in kept[-6:]], timeout=60))
        for _ in range(6):
            kept.append(Where.options(**options).remote())
            found[cm.get(kept[-1].node.remote(), timeout=60)] += 1
        if len(found) == 3 and max(found.values()) <= 6:
            break
    else:
        raise AssertionError(found)
""",
                CPUS="1",
            )
        )


def test_what_needs_a_whole_machine_begins_beside_a_flood_of_small_tasks() -> None:
    with machines(Machine(), Machine()) as (here, mine):
        head = here.json("start", "--head", "--port", "0", "--num-cpus", "2", "--object-store-memory", "64M")
        ends_well(
            program(
                mine,
                head,
                here.run("token"),
                BEGINNING.replace("wait_for_nodes(3)", "wait_for_nodes(2)")
                + """
there = os.environ["THERE"]
flood = [where.remote(0.05) for _ in range(16)]
n_there = 0
while n_there < 20:  # by now they fill both machines
    done, flood = cm.wait(flood)
    n_there += cm.get(done[0]) == there
    flood.append(where.remote(0.05))
large = where.options(num_cpus=2).remote()
for n in range(600):
    done, flood = cm.wait(flood)
    flood.append(where.remote(0.05))
    if cm.wait([large], timeout=0)[0]:
        break
else:
    raise AssertionError("it still waits")
assert cm.get(large) == there
cm.get(flood, timeout=60)
""",
                THERE=head["session"],
                CPUS="1",
            )
        )


def test_the_node_is_lost_that_alone_may_run_them() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head()
        joined = there.join(head, here.run("token"))
        driver = program(
            mine,
            head,
            here.run("token"),
            BEGINNING
            + """
there = os.environ["THERE"]
there_alone, here_too = (where.options(scheduling_strategy=On(there, soft=soft)).remote(5) for soft in (False, True))
print("begun", flush=True)
try:
    cm.get(there_alone, timeout=60)
except TaskUnschedulableError as error:
    assert there in str(error), error
assert cm.get(here_too, timeout=60) != there
print("done")
""",
            THERE=joined["session"],
        )
        assert says(driver) == "begun"
        kill_sessions(there)
        assert "done" in ends_well(driver)


def test_what_is_shared_keeps_tasks_and_actors_on_its_node(
    cluster: tuple[Machine, dict[str, Any], str, str],
) -> None:
    run(
        cluster,
        """
from cellmesh.exceptions import SharedArrayError
from cellmesh.util import PlacementGroupSchedulingStrategy, placement_group, remove_placement_group

array = cm.shared_array((3, 4))

@cm.remote
def write(value, at):
    value[at] = 1
    return cm.get_runtime_context().get_node_id()

@cm.remote
class Writer:
    def __init__(self, value):
        self.value = value
    def where(self):
        return cm.get_runtime_context().get_node_id()

def refused(ref):
    try:
        cm.get(ref, timeout=30)
    except SharedArrayError as error:
        assert "shape (3, 4) and dtype float64" in str(error) and "array.copy()" in str(error), error
        return True

there = On(os.environ["EU"], soft=False)
assert refused(write.options(scheduling_strategy=there).remote(array, 0))
assert refused(write.options(scheduling_strategy=there).remote([array], 0))
assert refused(Writer.options(scheduling_strategy=there).remote(array).where.remote())
assert not array.any()
assert cm.get(write.options(scheduling_strategy=On(os.environ["EU"], soft=True)).remote(array, 1), timeout=30) == here
assert set(cm.get([write.options(scheduling_strategy="SPREAD").remote(array, 2) for _ in range(20)])) == {here}
assert refused(write.options(resources={"far": 1}).remote(array, 0))  # which this node has not
assert refused(Writer.options(resources={"far": 1}).remote([array]).where.remote())
group = placement_group([{"far": 1}])
cm.get(group.ready(), timeout=30)
in_group = PlacementGroupSchedulingStrategy(group)
assert refused(write.options(num_cpus=0, resources={"far": 1}, scheduling_strategy=in_group).remote(array, 0))
remove_placement_group(group)
assert cm.get(write.options(resources={"far": 1}).remote([0], 0), timeout=30) == os.environ["EU"]
assert cm.get(Writer.options(scheduling_strategy=there).remote(array.copy()).where.remote()) == os.environ["EU"]
assert array[1:].all()
""",
    )
