"""Actor groups whose members live on several machines. Real heads, agents and nodes."""

from __future__ import annotations

from support.drivers import ends_well, program
from support.real_machines import Machine, machines

PROGRAM = """
import numpy as np
from cellmesh.exceptions import GroupMemberDiedError, GroupPlacementError

class Worker:
    def __init__(self, base):
        self.base = base

    def node(self):
        return cm.get_runtime_context().get_node_id()

    def pid(self):
        return os.getpid()

    def add(self, x):
        return self.base + cm.current_group().rank + float(np.sum(x))

    def ask(self):
        group = cm.current_group()
        return cm.get(group.peers[(group.rank + 1) % group.size].pid.remote())

    def meet(self):
        cm.current_group().barrier()
        return cm.current_group().rank

    def die(self):
        os._exit(3)

wait_for_nodes(2)
workers = cm.group(Worker, 2, base=10, strategy="STRICT_SPREAD")
where = cm.get(workers.node.remote(), timeout=60)
assert len(set(where)) == 2, where
assert [member.node for member in workers.members] == [
    row["NodeName"] for node in where for row in cm.nodes() if row["NodeID"] == node
], (workers.members, cm.nodes())
assert cm.get(workers.add.remote(np.ones(1 << 16)), timeout=60) == [65546.0, 65547.0]
assert cm.get(workers.add.reduce(max, 1.0), timeout=60) == 12.0
pids = cm.get(workers.pid.remote(), timeout=60)
assert [cm.get(worker.ask.remote(), timeout=60) for worker in workers] == pids[::-1]
assert cm.get(workers.meet.remote(), timeout=60) == [0, 1]

for rank in (0, 1):  # here, and on the other machine
    try:
        cm.get(workers[[rank]].die.remote(), timeout=60)
    except GroupMemberDiedError as error:
        assert error.rank == rank, error
    else:
        raise AssertionError("nobody died")
    try:
        cm.get(workers[1 - rank].meet.remote(), timeout=60)
    except GroupMemberDiedError as error:
        assert error.rank == rank, error
    else:
        raise AssertionError("somebody came")
    workers.restart(rank)
    assert cm.get(workers.meet.remote(), timeout=60) == [0, 1]
assert cm.get(workers.node.remote(), timeout=60) == where

try:
    cm.group(Worker, 3, base=1, strategy="STRICT_SPREAD")
except GroupPlacementError as error:
    assert "3 members with CPU: 1 each do not fit each on a machine of its own: at most 2 do" in str(error), error
else:
    raise AssertionError("it was to say so")

del workers
while any(row["state"] != "dead" for row in cm.state.list_actors()) or cm.state.list_placement_groups():
    time.sleep(0.05)
print("done", flush=True)
"""


def test_members_on_two_machines_are_called_meet_die_and_are_made_anew() -> None:
    with machines(Machine(), Machine()) as (first, second):
        head = first.head()
        ends_well(program(second, head, first.run("token"), PROGRAM))
