"""What the fold of a journal shows of a trial that goes on: no result twice, and none lost."""

from __future__ import annotations

from typing import Any

from cellmesh.tune.records import AnyRecord, Ended, Launched, Reported, Saved, Suggested
from cellmesh.tune.view import ExperimentView

FIRST, DONORS = "00000-000002-1.pkl", "00001-000002-1.pkl"


def launched(attempt: int, checkpoint: str = "", **config: Any) -> Launched:
    return Launched(at=1.0, trial=0, attempt=attempt, checkpoint=checkpoint, config=config or None)


def report(attempt: int, step: int, path: str = "") -> Reported:
    saved = Saved(path, step, 0.0) if path else None
    result = {"training_iteration": step, "attempt": attempt}
    return Reported(at=2.0, trial=0, attempt=attempt, result=result, checkpoint=saved)


def curve(*records: AnyRecord) -> list[tuple[float, float]]:
    """Iterations of the trial, and the attempt that has reported each."""
    view = ExperimentView()
    view.add([Suggested(at=0.0, trial=0, config={"x": 1.0}), *records])
    (trial,) = view.trials
    assert len(trial.reported_at) == trial.n_results
    return list(zip(trial.column("training_iteration"), trial.column("attempt"), strict=True))


def test_what_comes_again_is_shown_once() -> None:
    begun = [launched(1), report(1, 1), report(1, 2, FIRST), report(1, 3)]
    assert curve(*begun, launched(2, FIRST), report(2, 3)) == [(1, 1), (2, 1), (3, 2)]
    assert curve(*begun, launched(2)) == [], "without a checkpoint it begins again"
    lost = Ended(at=3.0, trial=0, attempt=1, outcome="lost", checkpoint=Saved("last.pkl", 3, 0.0))
    assert curve(*begun, lost, launched(2, "last.pkl")) == [(1, 1), (2, 1), (3, 1)]


def test_a_trial_that_exploits_another_one_keeps_what_it_has_reported() -> None:
    begun = [launched(1), *(report(1, step) for step in (1, 2, 3))]
    exploits = [launched(2, DONORS, x=2.0), report(2, 3)]
    whole = [(1, 1), (2, 1), (3, 1), (3, 2)]
    assert curve(*begun, *exploits) == whole
    assert curve(*begun, *exploits, launched(3, DONORS, x=3.0), report(3, 3)) == [*whole, (3, 3)]


def test_an_attempt_after_an_exploit_fails_and_only_its_own_results_come_again() -> None:
    begun = [launched(1), *(report(1, step) for step in (1, 2, 3, 4))]
    assert curve(*begun, launched(2, DONORS, x=2.0), report(2, 3), launched(3, DONORS, x=2.0)) == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ], "from the other's checkpoint"
    exploits = [launched(2, DONORS, x=2.0), report(2, 3, "own.pkl"), report(2, 4)]
    assert curve(*begun, *exploits, launched(3, "own.pkl", x=2.0), report(3, 4)) == [
        *((step, 1) for step in (1, 2, 3, 4)),
        (3, 2),
        (4, 3),
    ], "from its own"
