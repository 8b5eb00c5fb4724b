"""Deliberate mistakes in Train and in groups of actors. Each is one that a hurried change could make; the tests must
catch every one.

    python tests/train/mutants.py            # all; `make nightly`
    python tests/train/mutants.py NAME       # one of them

Exit status 1 when a mutant survives.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
from support.mutation import Mutant, main

import cellmesh

CELLMESH = TESTS.parent / "cellmesh"
LIMIT_S = 300  # a mistake may have somebody wait for ever
RUN = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "60"]


def train(name: str, test: str, file: str, old: str, new: str, delay: tuple[str, str, str] | None = None) -> Mutant:
    return Mutant(name, f"train/{file}", old, new, delay, f"train/test_{test}.py")


def group(name: str, test: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, f"groups/{file}", old, new, test=f"{test}.py")


SLOW_READER = (
    "train/collective.py",
    "            combined(list(slots), flat, how)\n",
    "            __import__('time').sleep(0.002 * self.rank)\n            combined(list(slots), flat, how)\n",
)
UNIT, CALLS, DEATHS, MEMBERS, PLACING = (
    "unit/groups/test_arguments",
    *(f"runtime/actors/test_group_{of}" for of in ("calls", "deaths", "members", "placing")),
)

MUTANTS = [
    # ---- rounds and collectives
    train("one half for all rounds", "collective", "rounds.py", "self.half ^= 1", "pass", SLOW_READER),
    train(
        "nobody looks what the others have called",
        "collective",
        "rounds.py",
        "if (said := bytes(lines)) != header * self.n_ranks:",
        "if (said := bytes(lines)) is None:",
    ),
    train("collectives have no number", "collective", "rounds.py", 'f"{self._n} {what}"', 'f"0 {what}"'),
    train(
        "who is interrupted stays",
        "collective_deaths",
        "rounds.py",
        "would wait for ever\n            self.leave()\n",
        "would wait for ever\n",
    ),
    train(
        "nobody says who died",
        "collective_deaths",
        "rounds.py",
        "self._names[pids.index(pid)] if pid and pid in pids else -1",
        "-1",
    ),
    train(
        "the own part is added first",
        "collective",
        "collective.py",
        "part[mine] for i in range(self.n_ranks)]",
        "part[mine] for i in [me, *others]]",
    ),
    train(
        "results are read before they are there",
        "collective",
        "collective.py",
        "            combined(parts, slots[me, mine], how)\n            rounds.meet()\n",
        "            combined(parts, slots[me, mine], how)\n",
    ),
    train("counts are believed", "collective", "collective.py", "            self._check_counts(table)\n", ""),
    train(
        "who receives is not told of the end",
        "collective_deaths",
        "collective.py",
        "for memory in (self.all, *self.channels.values()):",
        "for memory in (self.all,):",
    ),
    train(
        "an error in the block leaves the others waiting",
        "collective",
        "collective.py",
        "        if error is not None:\n            self.abort()\n",
        "        pass\n",
    ),
    train(
        "a part of the ranks has names of its own",
        "collective",
        "collective.py",
        "ranks[0], tuple(self.names[i] for i in ranks)",
        "ranks[0], tuple(range(len(ranks)))",
    ),
    train("who has left a part is in it", "collective", "rounds.py", 'self._note[0][:1] = b"\\0"', "pass"),
    train("nobody waits for a message", "collective", "collective.py", "number if self._part is None", "0 if True"),
    train("nor in a part of the ranks", "collective", "collective.py", "else -number", "else 0"),
    train(
        "who has come for a message waits for it",
        "collective",
        "rounds.py",
        "        if any(said",
        "        if said or any(said",
    ),
    train("all ranks may wait", "trainer", "group.py", "if len(waits) == len(refs) and waits == seen:", "if False:"),
    train("an average is a sum", "collective", "reductions.py", "np.add, _divide)", "np.add)"),
    train("the last elements are nobody's", "collective", "flat.py", "[size * i // n for", "[size // n * i for"),
    train(
        "a copy is not written back",
        "collective",
        "flat.py",
        "if kind is None and self._writes and not",
        "if kind is None and not self._writes and not",
    ),
    # ---- torch.distributed
    train(
        "rank 0 sends, whoever is asked",
        "process_group",
        "process_group.py",
        "self._comm.broadcast(_array(tensor), opts.rootRank)",
        "self._comm.broadcast(_array(tensor), 0)",
    ),
    train("the least is the most", "process_group", "process_group.py", '"MIN": "min"', '"MIN": "max"'),
    train(
        "an average of bfloat16 is a sum",
        "process_group",
        "process_group.py",
        'divide if name == "avg" else None',
        "None",
    ),
    train(
        "gradients are each rank's own",
        "torch",
        "torch.py",
        "if parallel_strategy is None or get_context()",
        "if parallel_strategy or get_context()",
    ),
    train("all ranks have all data", "torch", "torch.py", "if n > 1 and add_dist_sampler and", "if n < 1 and"),
    # ---- trainings
    train(
        "parts of a dataset overlap",
        "trainer",
        "shards.py",
        "begin, end = rank * size, (rank + 1) * size",
        "begin, end = rank * size, (rank + 1) * size + 1",
    ),
    train("the local rank is the rank", "tensorflow", "layout.py", "on[:rank].count(node)", "rank"),
    train("each rank is the master", "tensorflow", "layout.py", "places[0].port", "places[rank].port"),
    train("who waited is the cause", "failures", "failures.py", "[*deaths, *own, *errors][0]", "[*errors][0]"),
    train("an error of its own is before a death", "failures", "failures.py", "[*deaths, *own,", "[*own, *deaths,"),
    train(
        "to tell of a death is one",
        "failures",
        "failures.py",
        "isinstance(error, ActorDiedError) and not isinstance(error, TaskError)",
        "isinstance(error, ActorDiedError)",
    ),
    train("of one name the last file is kept", "trainer", "context.py", "in reversed(given):", "in given:"),
    train(
        "the first checkpoint is that of the beginning",
        "trainer",
        "context.py",
        "return self._trial.checkpoint() or self._start",
        "return self._start or self._trial.checkpoint()",
    ),
    train(
        "rank 0 alone hears that it is to stop",
        "trainer",
        "context.py",
        "word = text.tobytes().decode().strip()",
        'word = word if self.get_world_rank() == 0 else "go"',
    ),
    train("values of any rank are kept", "trainer", "context.py", "(mine != VALUE or ", "("),
    train(
        "ranks end when they like",
        "trainer",
        "rank.py",
        'info.communicator.barrier("the end of the function")',
        "pass",
    ),
    train("all ranks or none", "trainer", "group.py", "if n == plan.least or reserved", "if True or reserved"),
    train("what it has itself is taken", "trainer", "group.py", ' + own.get(kind, 0) * node["ThisNode"]', ""),
    # ---- parameter servers
    train(
        "a push writes what is read",
        "parameter_server",
        "parameter_server.py",
        "out=self._copies[(n + 1) % 2, ...]",
        "out=self._copies[n % 2, ...]",
    ),
    train("the dead keep their lock", "parameter_server", "parameter_server.py", "self._lock.reset()", "raise"),
    train(
        "a round is added to the next",
        "parameter_server",
        "parameter_server.py",
        "                self._round[name].clear()\n        self._barrier.wait()\n",
        "        self._barrier.wait()\n",
    ),
    # ---- groups
    group(
        "the first dimension varies fastest",
        "unit/groups/test_shape",
        "shape.py",
        "in reversed(self.dims):",
        "in self.dims:",
    ),
    group("a third of three is too much", UNIT, "fitting.py", "+ 1e-9) //", ") //"),
    group(
        "one machine is all machines",
        UNIT,
        "fitting.py",
        'max(fits, default=0) if strategy == "STRICT_PACK" else min(n, sum(fits))',
        "min(n, sum(fits))",
    ),
    group(
        "a group that shrinks raises",
        UNIT,
        "on_death.py",
        '("shrink", "call"): "leave out"',
        '("shrink", "call"): "raise"',
    ),
    group("neighbours change places", CALLS, "calls.py", "*level[i : i + 2])", "*reversed(level[i : i + 2]))"),
    group(
        "who replaces a dead member is not found",
        DEATHS,
        "members.py",
        "if successor is not None and successor != handle:",
        "if False:",
    ),
    group(
        "who waits in a call hears of no death",
        DEATHS,
        "ref_group.py",
        "if refs._watched and is_long and",
        "if False and",
    ),
    group("who dies has come to the barrier", DEATHS, "meeting.py", "if not dead:", "if True:"),
    group(
        "who gave up has come to the barrier",
        MEMBERS,
        "meeting.py",
        "            meeting.arrived.discard(rank)\n            raise",
        "            raise",
    ),
    group(
        "what a group that is not made has reserved stays",
        PLACING,
        "making.py",
        "            remove_placement_group(reserved)\n        raise",
        "            pass\n        raise",
    ),
    group("what a group has reserved stays", PLACING, "members.py", "client.remove_placement(reserved.number)", "pass"),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The test that fails, or an empty string. Workers have the mistake too."""
    for there in Path(cellmesh.__file__).parent.iterdir():  # the other packages, and what is compiled
        if not (folder / there.name).exists():
            (folder / there.name).symlink_to(there)
    names = [mutant.test] if mutant.test else sorted({one.test for one in MUTANTS})
    path = os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            [*RUN, *(str(TESTS / name) for name in names)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S if mutant.test else 10 * LIMIT_S,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        return "the time limit"
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+)\.py(?:::(\w+))?", done.stdout, re.M)
    if done.returncode and found is None:
        sys.exit(f"the tests do not run with the mutant {mutant.name!r}:\n{done.stdout}{done.stderr}")
    return (found[2] or found[1]) if found else ""


if __name__ == "__main__":
    sys.exit(main(MUTANTS, CELLMESH, caught_by))
