"""Kills the controller, the driver, a kernel or a trial of an experiment at random moments, and goes on with it.

    python tests/tune/kill_drill.py SEED N

What comes out must be what an experiment finds that nobody disturbs, trial by trial. One CPU, so that the order of
results is the same in each run; trials are deterministic, and save a checkpoint with each report. A moment is a number
of bytes of the journal, so that every phase of an experiment is met, however fast it runs. A kernel is a driver whose
experiment outlives it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent))
import cloudpickle
from support.drills import perform
from support.waiting import wait_until

import cellmesh
from cellmesh import tune
from cellmesh.tune import journal
from cellmesh.tune.experiment import NAMESPACE
from cellmesh.tune.records import Reported

WHAT = ("controller", "driver", "kernel", "trial")
POLICIES: dict[str, Callable[[], tune.Scheduler]] = {
    "fifo": tune.FIFO,
    "asha": lambda: tune.ASHA(max_t=9, grace_period=1, reduction_factor=3),
    "hyperband": lambda: tune.HyperBand(max_t=9),
    "promotion": lambda: tune.ASHA(max_t=9, grace_period=1, reduction_factor=3, kind="promotion"),
    "median": lambda: tune.MedianStopping(time_attr="training_iteration", grace_period=2, min_samples_required=2),
    "pbt": lambda: tune.PBT(
        "training_iteration", perturbation_interval=2, hyperparam_mutations={"x": tune.uniform(0, 1)}
    ),
    "tpe": tune.FIFO,
}
N_TRIALS = 9
NAME = "drill"
Outcome = list[tuple[dict[str, Any], str, list[float], list[float]]]


def train(config: dict[str, Any]) -> None:
    """Nine steps of which each follows from the configuration and the step before."""
    start = tune.get_checkpoint()
    i, score = start.to_dict() if start else (0, config["x"])
    while i < 9:
        i, score = i + 1, (score * 997 + i * config["x"]) % 1
        tune.report(score=score, checkpoint=(i, score))


def tuner(policy: str, storage: Path, n_trials: int = N_TRIALS, num_to_keep: int | None = 1) -> tune.Tuner:
    return tune.Tuner(
        train,
        {"x": tune.uniform(0, 1)},
        metric="score",
        num_samples=n_trials,
        seed=7,
        scheduler=POLICIES[policy](),
        search_alg="tpe" if policy == "tpe" else "random",
        name=NAME,
        storage_path=str(storage),
        max_failures=-1,
        num_to_keep=num_to_keep,
    )


def outcome(search: tune.Experiment) -> Outcome:
    """What an experiment has found: configuration, state, iterations and scores of each trial."""
    assert [type(one) for one in journal.Reader(Path(search.path)).read()], "the journal can be read"
    saved = {str(c.path) for trial in search for c, _ in trial.checkpoints}
    left = {str(path) for path in (Path(search.path) / "checkpoints").iterdir()}
    assert left <= saved, f"checkpoints that nobody knows of: {left - saved}"
    return [(r.config, r.state, *map(list, r.curve())) for r in search]


@dataclass(frozen=True)
class Drill:
    """Who is killed, under which scheduler, and when: shares of the journal of an undisturbed run."""

    what: str
    policy: str
    moments: tuple[float, ...]

    @classmethod
    def draw(cls, seed: int, number: int) -> Drill:
        draw = random.Random(f"{seed}/{number}")
        moments = sorted(draw.random() for _ in range(draw.choice((1, 1, 2))))
        policies = list(POLICIES)
        return cls(WHAT[number % len(WHAT)], policies[number // len(WHAT) % len(policies)], tuple(moments))

    def run(self, size: int, storage: Path) -> Outcome:
        """Kill at each moment, and go on; `size` is that of the undisturbed run's journal."""
        folder = storage / NAME
        with tempfile.TemporaryFile() as said:
            for moment in self.moments:
                if self.what in ("driver", "kernel"):
                    process = subprocess.Popen(
                        [sys.executable, __file__, self.what, self.policy, str(storage)], stderr=said
                    )
                    try:
                        self._wait(folder, moment * size, lambda: process.poll() is not None)
                    finally:
                        process.kill()
                        process.wait()
                else:
                    search = begin(self.policy, storage)
                    self._wait(folder, moment * size, lambda: search.is_over)
                    self._kill(folder)
        return outcome(begin(self.policy, storage).wait(timeout=120))

    def _wait(self, folder: Path, size: float, is_over: Callable[[], bool]) -> None:
        path = folder / journal.FILE
        wait_until(lambda: (path.exists() and path.stat().st_size >= size) or is_over(), 120)

    def _kill(self, folder: Path) -> None:
        if self.what == "controller":
            pids = [row["pid"] for row in cellmesh.state.list_actors() if row["namespace"] == NAMESPACE]
        else:
            records = journal.Reader(folder).read()
            pids = [record.pid for record in records if isinstance(record, Reported)][-1:]
        for pid in filter(None, pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended by itself
                continue


def begin(policy: str, storage: Path, detached: bool = False) -> tune.Experiment:
    """Begin the experiment, or go on with it, or look on if it runs."""
    folder = storage / NAME
    if journal.first_record(folder) is None if folder.exists() else True:
        return tuner(policy, storage).start(detached=detached)
    try:
        return tune.resume(NAME, storage_path=str(storage), detached=detached)
    except tune.ExperimentBusyError:
        return tune.attach(NAME, str(storage))


def drills(seed: int, numbers: range, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    """The drills with these numbers, in this process's session of one CPU; returns what went wrong."""
    undisturbed: dict[str, tuple[int, Outcome]] = {}

    def run(drill: Drill, storage: Path) -> None:
        if drill.policy not in undisturbed:
            search = tuner(drill.policy, storage / "whole").fit()
            size = (Path(search.path) / journal.FILE).stat().st_size
            undisturbed[drill.policy] = size, outcome(search)
        size, whole = undisturbed[drill.policy]
        try:
            found = drill.run(size, storage)
            assert found == whole, f"found was {found}\ninstead of {whole}"
        except Exception as error:
            error.add_note((storage / NAME / journal.FILE).read_text(errors="replace"))
            raise

    return perform(sys.modules[__name__], ((number, Drill.draw(seed, number)) for number in numbers), run, tell)


def main(arguments: list[str]) -> int:
    if arguments[0] in ("driver", "kernel"):
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        begin(arguments[1], Path(arguments[2]), detached=arguments[0] == "kernel").wait()
        return 0
    seed, n = map(int, arguments)
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    began = time.monotonic()
    wrong = drills(seed, range(n), print)
    cellmesh.shutdown()
    print(f"{n} kills by seed {seed}: {len(wrong)} went wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
