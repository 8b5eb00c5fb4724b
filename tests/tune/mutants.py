"""Deliberate mistakes in the schedulers of trials, in the controller and in the journal. Each is one that a hurried
change could make; the tests must catch every one.

    python tests/tune/mutants.py            # all; `make nightly`
    python tests/tune/mutants.py NAME       # one of them

Exit status 1 when a mutant survives.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent))
from support.mutation import Mutant, main

TUNE = TESTS.parents[1] / "cellmesh" / "tune"
OF_SCHEDULERS = ("traces", "population", "asha", "hyperband", "median", "pbt", "schedulers")
OF_THE_REST = ("controller_rules", "room", "journal", "controller")
N_SEEDS = "400"
LIMIT_S = 300
# The package is looked for in the folder of the mutant first.
RUN = (
    "import pytest, sys, cellmesh.tune as tune; tune.__path__.insert(0, sys.argv[1]); "
    "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', *sys.argv[2:]]))"
)

SCHEDULERS = [
    # ---- what all share
    Mutant("the sign of the mode", "built_in.py", '1.0 if mode == "max" else -1.0', '1.0 if mode == "min" else -1.0'),
    Mutant("NaN is as good as any", "built_in.py", "return value if value == value else WORST", "return value"),
    Mutant(
        "what was learned stays",
        "built_in.py",
        "        self._reset()\n\n",
        "        if not hasattr(self, '_begun'):\n            self._reset()\n        self._begun = True\n\n",
    ),
    # ---- ASHA
    Mutant("one rung too few", "asha.py", "len(times)) <= max_t:", "len(times)) < max_t:"),
    Mutant("a trial counts at a rung again", "asha.py", "if index <= trial.rung:", "if index < trial.rung:"),
    Mutant(
        "a trial is compared with itself",
        "asha.py",
        "        limit = rung.cutoff.value()\n        rung.cutoff.add(score)\n",
        "        rung.cutoff.add(score)\n        limit = rung.cutoff.value()\n",
    ),
    Mutant("as good as the limit is not enough", "asha.py", "score >= limit", "score > limit"),
    Mutant("promoted twice", "asha.py", "if best is not None and best not in rung.promoted:", "if best is not None:"),
    Mutant("one promoted too many", "asha.py", "math.floor(n / self._factor)", "math.ceil(n / self._factor)"),
    Mutant(
        "who has ended is resumed",
        "asha.py",
        "if best in self._trials and self._trials[best].is_paused:",
        "if best is not None:",
    ),
    Mutant("a starved experiment has all end", "asha.py", "if not self._is_through:", "if False:"),
    Mutant(
        "a failed trial counts at the next rung",
        "asha.py",
        "result is not None and not failed and not",
        "result is not None and not",
    ),
    Mutant("one fewer below the limit", "rungs.py", "int(self._n * self._q) + 1", "int(self._n * self._q)"),
    Mutant("equal scores: the last one is better", "rungs.py", "(score, -order) < best[0]", "(score, 0) < best[0]"),
    # ---- HyperBand
    Mutant(
        "a failed trial is waited for",
        "hyperband.py",
        "        self._forget(trial)\n        return self._advance(bracket)\n",
        "        return self._advance(bracket)\n",
    ),
    Mutant(
        "its end is not heard of",
        "hyperband.py",
        "        self._forget(trial)\n        return self._advance(bracket)\n",
        "        self._forget(trial)\n        return []\n",
    ),
    Mutant("off by one rung", "hyperband.py", "        while len(times) <= s:", "        while len(times) < s:"),
    Mutant(
        "a bracket one too small",
        "hyperband.py",
        "if bracket.n_added == bracket.size:",
        "if bracket.n_added == bracket.size - 1:",
    ),
    Mutant(
        "the worst go on",
        "hyperband.py",
        "key=lambda trial: bracket.live[trial].score)",
        "key=lambda trial: -bracket.live[trial].score)",
    ),
    Mutant(
        "a partly filled bracket stays open",
        "hyperband.py",
        "    def on_no_more_trials(self) -> Decisions:\n        return self._close()\n",
        "    def on_no_more_trials(self) -> Decisions:\n        return []\n",
    ),
    Mutant("halved once at a time", "hyperband.py", "        while bracket.is_closed", "        if bracket.is_closed"),
    # ---- median
    Mutant("the last result counts", "median.py", "max(self._best[-1], score)", "score"),
    Mutant("a trial is among the others", "median.py", "if other != trial and curve", "if curve"),
    Mutant("means begin at the beginning", "median.py", "(score if time >= self._since else 0.0)", "score"),
    Mutant("those that are behind count", "median.py", " and curve.last_time >= time)", ")"),
    Mutant(
        "set aside for ever", "median.py", "            decisions += [Resume(trial) for trial in self._set_aside]\n", ""
    ),
    # ---- PBT
    Mutant(
        "the best exploit the worst",
        "pbt.py",
        "        return ranked[:n], [t for t in ranked[len(ranked) - n :]",
        "        return ranked[len(ranked) - n :], [t for t in ranked[:n]",
    ),
    Mutant("a trial exploits itself", "pbt.py", "len(ranked) // 2)", "len(ranked))"),
    Mutant(
        "its own configuration is explored",
        "pbt.py",
        "explore.explored(donor.config,",
        "explore.explored(member.config,",
    ),
    Mutant("one with NaN is a donor", "pbt.py", " if self._members[t].score != WORST]", "]"),
    Mutant(
        "who has ended is a donor",
        "pbt.py",
        "        del self._members[trial]\n        self._turns.end(trial)\n        return self._release()\n",
        "        self._turns.end(trial)\n        return self._release()\n",
    ),
    Mutant(
        "the interval counts on from the own time",
        "pbt.py",
        "config, member.since | donor.since",
        "config, member.since",
    ),
    Mutant("nobody takes turns", "turns.py", "limit = self.times[trial] - by", "limit = -1"),
    Mutant("who is held stays", "turns.py", "        self.held.remove(trial)\n", "        pass\n"),
    Mutant("a whole number becomes a fraction", "explore.py", "return round(new) if", "return new if"),
    Mutant(
        "the configuration that is copied changes",
        "explore.py",
        "    changed = copied(config)\n",
        "    changed = config\n",
    ),
    Mutant("users' functions draw anything", "seeded.py", "    random.seed(seed)\n", ""),
    Mutant(
        "a replay goes on from an overwritten policy",
        "policy.py",
        "if chain and row.trial != chain[-1].donor:",
        "if False:",
    ),
]


CONTROL = [
    Mutant(
        "a report of an earlier attempt is heard",
        "processes.py",
        "return event.attempt == trial.attempt and trial.process",
        "return trial.process",
    ),
    Mutant(
        "the end of an earlier attempt is heard",
        "controller.py",
        "if event.attempt != trial.attempt or trial.process is NONE:",
        "if trial.process is NONE:",
    ),
    Mutant("one failure too few", "controller.py", "n_failures <= self.plan", "n_failures < self.plan"),
    Mutant("what was cut off stays ended", "controller.py", "elif trial.is_cut or (", "elif ("),
    Mutant(
        "one more than there is room for",
        "controller.py",
        "len(self.busy) < self.cap",
        "len(self.busy) <= self.cap",
    ),
    Mutant(
        "a process that leaves is not waited for",
        "processes.py",
        "if trial.process is LEAVES:",
        "if False:",
    ),
    Mutant("a checkpoint in use is deleted", "keeping.py", " or self._n_users[one[0].path]", ""),
    Mutant("the best checkpoint is deleted", "keeping.py", "(has_best and one is best)", "False"),
    Mutant("a lost machine is a failure", "controller.py", '("failed", "lost"):', '("failed", "lost", "gone"):'),
    Mutant("the scheduler undoes the user's pause", "controller.py", 'if trial.paused_by != "user":', "if True:"),
    Mutant("the user undoes the scheduler's pause", "controller.py", 'elif trial.paused_by == "user":', "else:"),
    Mutant("nobody sees that nothing runs", "controller.py", "elif not self._is_starved():", "elif True:"),
    Mutant(
        "one whose process died goes to the end",
        "controller.py",
        "self.waiting.appendleft if at > trial.failed_at else self.waiting.append",
        "self.waiting.append",
    ),
    Mutant("after a decision nothing is launched", "controller.py", "_settled = not decisions and", "_settled ="),
    Mutant("who has heard of a result is not asked", "controller.py", " and self._asking.has_more is had_more", ""),
    Mutant("one that ignores its end is left alone", "processes.py", "n_ignored == MAX_IGNORED", "n_ignored < 0"),
    Mutant("one that takes too much is launched", "processes.py", "self.room.fits(trial.resources)", "True"),
    Mutant("what has ended keeps its room", "processes.py", "self.room.give(trial.number)", "pass"),
    Mutant(
        "one for which there is no room holds all up",
        "processes.py",
        "            passed.append(trial)\n",
        "            break\n",
    ),
    Mutant("overtaken for ever", "processes.py", "if trial.n_overtaken >= MAX_OVERTAKEN:", "if False:"),
    Mutant("what no machine has waits for ever", "controller.py", "not self.room.could_fit(trial.resources)", "False"),
    Mutant(
        "a group waits for its process",
        "controller.py",
        "        if has_group or len(self.held) > MAX_HELD:",
        "        if len(self.held) > MAX_HELD:",
    ),
    Mutant("bundles to be apart lie together", "room.py", 'strategy == "STRICT_SPREAD" and n in placed', "False"),
    Mutant("bundles to be together lie apart", "room.py", 'if strategy == "STRICT_PACK":', "if False:"),
    Mutant("machines that stay are counted anew", "room.py", "if list(nodes) == self.nodes:", "if False:"),
    Mutant(
        "what there was room for counts on",
        "controller.py",
        "        self.capacity = 0  # it",
        "        #",
    ),
    Mutant("the time between controllers counts", "elapsed.py", " and not isinstance(record, Opened)", ""),
    Mutant("restarted from its checkpoint", "controller.py", "ERROR and from_the_start", "ERROR and False"),
]

JOURNAL = [
    Mutant("half a line stays", "journal.py", "os.ftruncate(self._file, end)", "pass"),
    Mutant(
        "what did not fit stays", "journal.py", "os.ftruncate(self._file, os.fstat(self._file).st_size - n)", "pass"
    ),
    Mutant(
        "half a line is read",
        "journal.py",
        '                if not line.endswith(b"\\n"):\n                    break\n',
        "",
    ),
    Mutant("two may write", "journal.py", "_locked(self._file, fcntl.LOCK_EX)", "_locked(self._file, fcntl.LOCK_SH)"),
    Mutant("a newer version is read", "journal.py", "if version > VERSION:", "if version > VERSION + 1:"),
    Mutant("a foreign file is overwritten", "journal.py", "if not BEGINNING.startswith(text):", "if False:"),
    Mutant(
        "a damaged line is passed over",
        "journal.py",
        "                record = self._record(line)  # if it raises, the next reading comes to this line again\n"
        "                self._offset += len(line)\n",
        "                self._offset += len(line)\n                record = self._record(line)\n",
    ),
]
MUTANTS = [
    *(replace(one, file=f"schedulers/{one.file}") for one in SCHEDULERS),
    *(replace(one, file=f"control/{one.file}") for one in CONTROL),
    *JOURNAL,
]


def tests_of(mutant: Mutant) -> list[Path]:
    """The test modules that are to catch it; all of them pass without any mutant."""
    every = [*OF_SCHEDULERS, *OF_THE_REST]
    names = every if not mutant.file else OF_SCHEDULERS if mutant.file.startswith("schedulers/") else OF_THE_REST
    return [path for name in names for (path,) in [[*TESTS.rglob(f"test_{name}.py")]]]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The test that fails, or an empty string."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *map(str, tests_of(mutant))],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "CELLMESH_SEEDS": N_SEEDS},
    )
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+)\.py(?:::(\w+))?", done.stdout, re.M)
    if done.returncode and found is None:
        sys.exit(f"the tests do not run with the mutant {mutant.name!r}:\n{done.stdout}{done.stderr}")
    return (found[2] or found[1]) if found else ""


if __name__ == "__main__":
    sys.exit(main(MUTANTS, TUNE, caught_by))
