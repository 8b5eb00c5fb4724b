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


RANKS = """
from IPython.core.interactiveshell import InteractiveShell

wait_for_nodes(2)
shell = InteractiveShell.instance()

def run(cell):
    return shell.run_cell(cell, store_history=True).raise_error()

run("%load_ext cellmesh")
shown = []
shell.showtraceback = lambda *args, **kwargs: shown.append(str(sys.exc_info()[1]))
for line in ("%ranks 4 --nodes 3", "%ranks 6 --nodes 2"):
    shell.run_cell(line)
assert "on each machine are equally many, so 4 are on 1 or 2 or 4" in shown[0], shown
assert "6 members with CPU: 1 each do not fit on 2 machines, 3 on each: at most 0 do" in shown[1], shown
del shell.showtraceback
run("%ranks 4 --nodes 2")
run(
    "%%ranks\\nimport os\\nimport cellmesh as cm\\nnode = cm.get_runtime_context().get_node_id()\\n"
    "numbers = [os.environ[name] for name in ('LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'NODE_RANK')]\\nbarrier()"
)
nodes = cm.get(shell.user_ns["node"], timeout=60)
assert nodes[0] == nodes[1] != nodes[2] == nodes[3], nodes
assert cm.get(shell.user_ns["numbers"]) == [["0", "2", "0"], ["1", "2", "0"], ["0", "2", "1"], ["1", "2", "1"]]
run("%ranks restart 3")
run("%%ranks 3\\nimport cellmesh as cm\\nagain = cm.get_runtime_context().get_node_id()")
assert cm.get(shell.user_ns["again"], timeout=60) == nodes[3:], "where it was"
run("%ranks stop")
while cm.state.list_placement_groups():
    time.sleep(0.05)
print("done", flush=True)
"""


def test_ranks_are_equally_many_on_each_of_two_machines() -> None:
    with machines(Machine(), Machine()) as (first, second):
        head = first.head("--num-cpus", "2")
        ends_well(program(second, head, first.run("token"), RANKS, CPUS="2"))
