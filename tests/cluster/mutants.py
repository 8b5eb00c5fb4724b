"""Deliberate mistakes in the pure cores of a cluster. Each is one that a hurried change could make; the simulation, or the matrix of messages and faults,
must catch every one.

    python tests/cluster/mutants.py            # all; `make nightly`
    python tests/cluster/mutants.py NAME       # one of them

Exit status 1 when a mutant survives `N_SEEDS` seeds and the matrix.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from mutation import Mutant, main  # noqa: E402

CORE = Path(__file__).resolve().parents[2] / "scheduler" / "cluster"
SIMULATION = Path(__file__).resolve().parent / "simulation.py"
MATRIX = SIMULATION.with_name("test_message_faults.py")
N_SEEDS = int(os.environ.get("CELLMESH_SEEDS", "3000"))
LIMIT_S = 600
# The package's own modules are looked for in the folder of the mutant first.
RUN = ("import runpy, sys, cellmesh.scheduler.cluster as cluster; cluster.__path__.insert(0, sys.argv[1]); "
       "sys.argv[:] = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')")
RUN_MATRIX = ("import pytest, sys, cellmesh.scheduler.cluster as cluster; cluster.__path__.insert(0, sys.argv[1]); "
              "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', sys.argv[2]]))")

MUTANTS = [
    Mutant("a head that has just woken judges", "head.py",
           "        head.judge_from = max(head.judge_from, now + head.settings.dead_after_s)\n", ""),
    Mutant("a head that has just started judges", "head.py", "Node(member, None, now, draining=draining)",
           "Node(member, None, now - settings.dead_after_s, draining=draining)"),
    Mutant("messages put the tick off", "head.py", "    return head.ticked + head.settings.tick_s\n", "    return head.stepped + head.settings.tick_s\n"),
    Mutant("what anybody says is a sign of life", "head.py", "    node.heard = now\n    return _MESSAGES",
           "    for other in head.nodes.values():\n        other.heard = now\n    return _MESSAGES"),
    Mutant("who is gone may come back as the same", "head.py",
           "    if member.node in head.dead:\n        return Lost(member.node, head.dead[member.node])\n",
           "    if head.dead.pop(member.node, None) is not None:\n        return None\n"),
    Mutant("asks outlive the connection", "head.py", "    books.forget_asks(head.ledger, node.member.node)\n    books.open_node", "    books.open_node"),
    Mutant("a lost connection leaves its node open", "head.py", "    books.open_node(head.ledger, node.member.node, False)\n\n\ndef _tick", "\n\ndef _tick"),
    Mutant("a draining node goes on being given tasks", "head.py",
           "    books.open_node(head.ledger, message.node, False)\n    head.ledger.table[message.node].is_leaving = True\n", ""),
    Mutant("a dead node stays in the control store", "head.py", "    actions: list[Action] = [Bury(number, reason),\n", "    actions: list[Action] = [\n"),
    Mutant("leases under way are not counted", "ledger.py", "        room[kind] = max(0, free.get(kind, 0) - max(0, unused))\n",
           "        room[kind] = free.get(kind, 0)\n"),
    Mutant("a grant that never arrived is not undone", "ledger.py", "        kept = min(said[number].n, lease.n) if number in said else 0\n",
           "        kept = lease.n\n"),
    Mutant("leases of an earlier life are not entered", "ledger.py", "    for number, h in said.items():\n        if number not in ledger.leases:\n",
           "    for number, h in said.items():\n        if False:\n"),
    Mutant("what a lost node held stays away", "ledger.py", "            _end_places(ledger, lease, lease.n)\n            roomy.append(lease.node)\n    serve(ledger, roomy, now, grants)\n\n\ndef open_node",
           "            roomy.append(lease.node)\n    serve(ledger, roomy, now, grants)\n\n\ndef open_node"),
    Mutant("room that comes up is not given to who waits", "ledger.py",
           "        _end_places(ledger, lease, min(n, lease.n))\n        serve(ledger, [lease.node], now, grants)\n",
           "        _end_places(ledger, lease, min(n, lease.n))\n"),
    Mutant("bundles of a group are given on credit", "policy.py", "            room[best][kind] -= amount\n", "            pass\n"),
    Mutant("a removed group keeps its places", "places.py", "        actions += _return(places, returned)\n", ""),
    Mutant("a place too much fits", "policy.py", "        fitting, room = n, c.room\n", "        fitting, room = n, {k: v + 10_000 for k, v in c.room.items()}\n"),
    Mutant("soft affinity is hard", "policy.py", "        return place(table, demand, n, near=near, avoid=skipped) if strategy.soft else []\n", "        return []\n"),
    Mutant("labels are not looked at", "policy.py", "        if fitting > 0 and (not labelled or allows(strategy, c)):\n", "        if fitting > 0:\n"),
    Mutant("places returned while nobody listens are forgotten", "places.py",
           "            places.untold[number] = places.untold.get(number, 0) + n\n", "            pass\n"),
    Mutant("places that nobody asked for are kept", "places.py", "p.lease: p.n for p in grant.places if line is None or ", "p.lease: p.n for p in grant.places if "),
    Mutant("unused places are kept", "places.py", "            n = max(n, min(lease.n_spare, unused))\n", ""),
    Mutant("an ask that was repeated is not closed", "places.py", " if withdraw or line.is_repeated else []", " if withdraw else []"),
    Mutant("nothing is asked again on a new connection", "places.py", "        line.number = line.asked = 0\n    for group", "        pass\n    for group"),
    Mutant("an open ask keeps nodes to avoid for ever", "places.py", " or line.avoid != _avoided(places):\n", ":\n"),
    Mutant("places on a lost node are used on", "places.py", "    for lease in [lease for lease in places.leases.values() if lease.node == node]:\n        _forget(places, lease)\n", ""),
    Mutant("who was lost meanwhile is not noticed", "member.py", "    for node in [node for node in member.members if node not in present]:\n",
           "    for node in ():\n"),
    Mutant("requests are not repeated", "member.py", "    return [*actions, *(Tell(request) for request in member.requests.values())]\n", "    return actions\n"),
    Mutant("a silent connection is kept", "member.py", "    if member.link == \"up\" and now - member.heard > member.dead_after_s / 2:\n", "    if False:\n"),
    Mutant("what waits elsewhere stays there", "policy.py", "    return min(n_waiting, n_idle_elsewhere) if waited_s >= TAKE_BACK_AFTER_S else 0\n",
           "    return 0\n"),
    Mutant("nobody asks for what waits elsewhere", "places.py", "    n = min(line.waiting + _n_stuck(line, now), MAX_ASK)\n", "    n = min(line.waiting, MAX_ASK)\n"),
    Mutant("reports wait for news", "member.py", "    is_due = last is None or now - member.reported_at >= member.beat_s\n", "    is_due = last is None\n"),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The seed that fails, or an empty string."""
    done = subprocess.run([sys.executable, "-c", RUN, str(folder), str(SIMULATION), "0", str(N_SEEDS)],
                          capture_output=True, text=True, timeout=LIMIT_S)
    if not done.returncode:
        done = subprocess.run([sys.executable, "-c", RUN_MATRIX, str(folder), str(MATRIX)], capture_output=True, text=True, timeout=LIMIT_S)
        return "the matrix" if done.returncode else ""
    found = re.search(r"Violation: seed (\d+)", done.stderr)
    if found is None and "Error" not in done.stderr:
        sys.exit(f"the mutant {mutant.name!r} does not run:\n{done.stderr}")
    return f"seed {found[1]}" if found else "an error"


if __name__ == "__main__":
    sys.exit(main(MUTANTS, CORE, caught_by))
