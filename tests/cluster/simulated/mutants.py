"""Deliberate mistakes in the pure cores of a cluster. Each is one that a hurried change could make; the simulation, the
matrix of messages and faults, or the unit tests of the cores must catch every one.

    python tests/cluster/simulated/mutants.py            # all; `make nightly`
    python tests/cluster/simulated/mutants.py NAME       # one of them

Exit status 1 when a mutant survives `N_SEEDS` seeds and the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.mutation import Mutant, main

CORE = Path(__file__).resolve().parents[3] / "scheduler" / "cluster"
SIMULATION = Path(__file__).resolve().parent / "simulation.py"
TESTS = [SIMULATION.with_name("test_message_faults.py"), *SIMULATION.parents[2].glob("unit/cluster/test_*.py")]
N_SEEDS = int(os.environ.get("CELLMESH_SEEDS", "3000"))
LIMIT_S = 600
# The package's own modules are looked for in the folder of the mutant first.
RUN = (
    "import runpy, sys, cellmesh.scheduler.cluster as cluster; cluster.__path__.insert(0, sys.argv[1]); "
    "sys.argv[:] = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
RUN_TESTS = (
    "import pytest, sys, cellmesh.scheduler.cluster as cluster; cluster.__path__.insert(0, sys.argv[1]); "
    "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', *sys.argv[2:]]))"
)

MUTANTS = [
    Mutant(
        "a head that has just woken judges",
        "head/core.py",
        "        head.judge_from = max(head.judge_from, now + head.settings.dead_after_s)\n",
        "",
    ),
    Mutant(
        "a head that has just started judges",
        "head/core.py",
        "Node(\n            member, None, settings.rest_s(1), now, now, now, draining=draining,",
        "Node(member, None, settings.rest_s(1), *[now - 3 * settings.dead_after_s] * 3, draining=draining,",
    ),
    Mutant(
        "a node that loses its connection is dead",
        "head/core.py",
        "    if event.is_there:\n"
        "        node.answered, was_found, node.is_found = now, node.is_found, True\n"
        "        return [] if was_found else [_remember(node)]\n"
        "    if node.connection is None and node.is_found and",
        "    if node.connection is None and",
    ),
    Mutant(
        "probes are not answered for",
        "head/core.py",
        "        node.answered, was_found, node.is_found = now, node.is_found, True\n",
        "        was_found, node.is_found = node.is_found, True\n",
    ),
    Mutant(
        "what anybody says is a sign of life",
        "head/core.py",
        "    node.heard = now\n    return _MESSAGES",
        "    for other in head.nodes.values():\n        other.heard = now\n    return _MESSAGES",
    ),
    Mutant(
        "who is gone may come back as the same",
        "head/core.py",
        "    if member.node in head.dead:\n        return Lost(member.node, head.dead[member.node])\n",
        "    if head.dead.pop(member.node, None) is not None:\n        return None\n",
    ),
    Mutant(
        "asks outlive the connection",
        "head/core.py",
        "    ledger.forget_asks(head.ledger, node.member.node)\n    ledger.open_node",
        "    ledger.open_node",
    ),
    Mutant(
        "a lost connection leaves its node open",
        "head/core.py",
        "    ledger.open_node(head.ledger, node.member.node, False)\n\n\ndef _tick",
        "\n\ndef _tick",
    ),
    Mutant(
        "a draining node goes on being given tasks",
        "head/core.py",
        "    ledger.open_node(head.ledger, message.node, False)\n"
        "    head.ledger.table[message.node].is_leaving = True\n",
        "",
    ),
    Mutant(
        "a dead node stays in the control store",
        "head/core.py",
        "    actions: list[Action] = [\n        Evict(number, reason),\n",
        "    actions: list[Action] = [\n",
    ),
    Mutant(
        "leases under way are not counted",
        "leases/ledger.py",
        "        room[kind] = max(0, free.get(kind, 0) - max(0, unused))\n",
        "        room[kind] = free.get(kind, 0)\n",
    ),
    Mutant(
        "a grant that never arrived is not undone",
        "leases/ledger.py",
        "        kept = min(said[number].n, lease.n) if number in said else 0\n",
        "        kept = lease.n\n",
    ),
    Mutant(
        "leases of an earlier life are not entered",
        "leases/ledger.py",
        "    for number, h in said.items():\n        if number not in ledger.leases:\n",
        "    for number, h in said.items():\n        if False:\n",
    ),
    Mutant(
        "what a lost node held stays away",
        "leases/ledger.py",
        "            _shrink(ledger, lease, lease.n)\n"
        "            roomy.append(lease.node)\n"
        "    serve(ledger, roomy, now, grants)\n"
        "\n"
        "\n"
        "def open_node",
        "            roomy.append(lease.node)\n    serve(ledger, roomy, now, grants)\n\n\ndef open_node",
    ),
    Mutant(
        "room that comes up is not given to who waits",
        "leases/ledger.py",
        "        _shrink(ledger, lease, min(n, lease.n))\n        serve(ledger, [lease.node], now, grants)\n",
        "        _shrink(ledger, lease, min(n, lease.n))\n",
    ),
    Mutant(
        "bundles of a group are given on credit",
        "placement.py",
        "            room[best][kind] -= amount\n",
        "            pass\n",
    ),
    Mutant(
        "a removed group keeps its leases", "leases/holder.py", "        actions += _return(leases, returned)\n", ""
    ),
    Mutant(
        "a task too much fits",
        "placement.py",
        "        fitting, room = n, c.room\n",
        "        fitting, room = n, {k: v + 10_000 for k, v in c.room.items()}\n",
    ),
    Mutant(
        "soft affinity is hard",
        "placement.py",
        "        return place(table, demand, n, near=near, avoid=skipped) if strategy.soft else []\n",
        "        return []\n",
    ),
    Mutant(
        "labels are not looked at",
        "placement.py",
        "        if fitting > 0 and (not labelled or allows(strategy, c)):\n",
        "        if fitting > 0:\n",
    ),
    Mutant(
        "leases returned while nobody listens are forgotten",
        "leases/holder.py",
        "            leases.untold[number] = leases.untold.get(number, 0) + n\n",
        "            pass\n",
    ),
    Mutant(
        "leases that nobody asked for are kept",
        "leases/holder.py",
        "p.lease: p.n for p in grant.leases if line is None or ",
        "p.lease: p.n for p in grant.leases if ",
    ),
    Mutant("unused leases are kept", "leases/holder.py", "            n = max(n, min(lease.n_spare, unused))\n", ""),
    Mutant(
        "an ask that was repeated is not closed",
        "leases/holder.py",
        " if withdraw or line.is_repeated else []",
        " if withdraw else []",
    ),
    Mutant(
        "nothing is asked again on a new connection",
        "leases/holder.py",
        "        line.number = line.asked = 0\n    for group",
        "        pass\n    for group",
    ),
    Mutant(
        "an open ask keeps nodes to avoid for ever", "leases/holder.py", " or line.avoid != _avoided(leases):\n", ":\n"
    ),
    Mutant(
        "leases on a lost node are used on",
        "leases/holder.py",
        "    for lease in [lease for lease in leases.held.values() if lease.node == node]:\n"
        "        _forget(leases, lease)\n",
        "",
    ),
    Mutant(
        "who was lost meanwhile is not noticed",
        "agent/core.py",
        "    for node in [node for node in core.members if node not in present]:\n",
        "    for node in ():\n",
    ),
    Mutant(
        "requests are not repeated",
        "agent/core.py",
        "    return [*actions, *(Tell(request) for request in core.requests.values())]\n",
        "    return actions\n",
    ),
    Mutant(
        "a silent connection is kept",
        "agent/core.py",
        "    core.reported_at, core.unanswered = now, min(now, core.unanswered)\n",
        "    core.reported_at = now\n",
    ),
    Mutant(
        "what waits elsewhere stays there",
        "placement.py",
        "    return min(n_waiting, n_idle_elsewhere) if waited_s >= TAKE_BACK_AFTER_S else 0\n",
        "    return 0\n",
    ),
    Mutant(
        "nobody asks for what waits elsewhere",
        "leases/holder.py",
        "    n = min(line.waiting + _n_stuck(line, now), MAX_ASK)\n",
        "    n = min(line.waiting, MAX_ASK)\n",
    ),
    Mutant(
        "a node is given on credit that may not be given",
        "placement.py",
        "        return c.is_open and c.node not in skipped and allows(strategy, c) and",
        "        return",
    ),
    Mutant(
        "two nodes of a host are called the same",
        "head/core.py",
        "    taken = {node.member.called for node in head.nodes.values()}\n",
        "    taken: set[str] = set()\n",
    ),
    Mutant(
        "reports wait for news",
        "agent/core.py",
        "    return core.reported_at + core.rest_s\n",
        "    return inf\n",
    ),
    # ---- what waits at home
    Mutant(
        "what has just been submitted leaves at once",
        "agent/home_queue.py",
        "            if now >= since + SETTLE_S or not row.fits:",
        "            if True:",
    ),
    Mutant(
        "a class that settles is missed by a rounding",
        "agent/home_queue.py",
        "            if now >= since + SETTLE_S or",
        "            if now - since >= SETTLE_S or",
    ),
    Mutant(
        "names are judged before it is known who is there",
        "agent/home_queue.py",
        "            if home.directs:\n                wants",
        "            if True:\n                wants",
    ),
    Mutant(
        "nobody says why what this node alone may run waits",
        "agent/home_queue.py",
        " and not strategy.soft and row.fits:",
        " and not strategy.soft:",
    ),
    Mutant(
        "tasks that cannot travel begin here whatever they want",
        "agent/home_queue.py",
        "    if row.n_staying and strategies.may_run_on(strategy, me):\n",
        "    if row.n_staying:\n",
    ),
    Mutant(
        "tasks that cannot travel make up for those that wait",
        "agent/home_queue.py",
        "n = max(0, row.n - row.n_startable)",
        "n = row.n - row.n_startable",
    ),
    Mutant(
        "a drained node leaves although it is used",
        "agent/home_queue.py",
        "    home.leave_at = inf if has_guests else min(",
        "    home.leave_at = min(",
    ),
    # ---- who can be reached
    Mutant(
        "a peer that loses a connection has ended",
        "agent/reachability.py",
        "    if since is None or is_there or now - since < GRACE_S:\n",
        "    if since is None or is_there:\n",
    ),
    Mutant(
        "a node out of reach is never given up",
        "agent/reachability.py",
        "        if now >= since + limit_s:\n",
        "        if False:\n",
    ),
    Mutant(
        "who has come back is still out of reach",
        "agent/reachability.py",
        "    reach.unreachable.pop(node, None)\n",
        "    pass\n",
    ),
    Mutant(
        "a reset that found no room is not said again",
        "agent/reachability.py",
        "    if now >= reach.say_at:\n",
        "    if False:\n",
    ),
    Mutant(
        "all resets are said whenever one is",
        "agent/reachability.py",
        "        actions.append(SayReset(node, reset))",
        "        actions += _say_owed(reach, now)",
    ),
    Mutant(
        "a node is used again before it has answered",
        "agent/peer_reset.py",
        "pending.is_said and pending.is_heard and not",
        "pending.is_said and not",
    ),
    Mutant(
        "who has told what cannot be may begin again",
        "agent/peer_reset.py",
        "pending.is_heard and not pending.for_good\n",
        "pending.is_heard\n",
    ),
    Mutant(
        "who sends tasks back is sent more of them",
        "agent/reachability.py",
        "        return node in self.choked or node in self.refused\n",
        "        return node in self.choked\n",
    ),
    Mutant(
        "leases are asked for where nothing can go",
        "leases/holder.py",
        "if until <= now and node not in leases.cut]",
        "if until <= now]",
    ),
    # ---- the shell
    Mutant(
        "what a node says counts after it was given up",
        "agent/shell.py",
        " or mine.reach.is_cut(node) or",
        " or",
    ),
    Mutant(
        "tasks are sent to who does not read",
        "agent/shell.py",
        "        if not self._network.room(node):\n",
        "        if False:\n",
    ),
    Mutant(
        "what has ended elsewhere has ended at home",
        "agent/core.py",
        "    core.home.n_elsewhere += event.n if event.is_elsewhere else 0\n",
        "",
    ),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The seed that fails, or an empty string."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), str(SIMULATION), "0", str(N_SEEDS)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if not done.returncode:
        done = subprocess.run(
            [sys.executable, "-c", RUN_TESTS, str(folder), *map(str, TESTS)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        return "a test" if done.returncode else ""
    found = re.search(r"Violation: seed (\d+)", done.stderr)
    if found is None and "Error" not in done.stderr:
        sys.exit(f"the mutant {mutant.name!r} does not run:\n{done.stderr}")
    return f"seed {found[1]}" if found else "an error"


if __name__ == "__main__":
    sys.exit(main(MUTANTS, CORE, caught_by))
