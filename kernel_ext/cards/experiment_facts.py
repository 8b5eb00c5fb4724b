"""What an experiment's card says, from what its journal has told. Pure, and bounded however many trials there are."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...text import in_one_line
from ...tune.control.metric import AUTOMATIC
from ...tune.results import flat
from ...tune.view import ITERATION, ExperimentView, TrialView

N_ROWS = 8  # of the table
N_BEST = 3  # that are drawn in colour
N_GREY = 60  # other trials that are drawn
N_POINTS = 60  # of a curve
N_TOLD = 3
N_PARAMETERS = 8
N_COMPARED = 500  # trials, for which parameters differ
VALUE_CHARS = 24


@dataclass(frozen=True)
class Row:
    """A trial of the table. `value` is NaN where it has none."""

    number: int
    state: str
    value: float
    iteration: int
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A trial as it is drawn: its curve, and its place on each axis of the parallel coordinates. `rank`: 0 is the best,
    `N_BEST` stands for all that are not among the best.
    """

    number: int
    rank: int
    curve: tuple[tuple[float, float], ...]
    parameters: tuple[Any, ...]
    value: float


@dataclass(frozen=True)
class ExperimentFacts:
    """What is known of an experiment.

    Attributes
    ----------
    state : str
        running, paused, finished, stopped, failed, left (nobody runs it) or unreadable.
    n_all : int or None
        How many trials there will be, if that is known.
    elapsed_s : float
        Until now, or until its end.
    why : str
        Why it is over.
    metric : str
        What is drawn and by what the table is sorted; "" if there is nothing.
    names : tuple of str
        The parameters that are not the same in all trials.
    error : tuple of int, str, str, optional
        The latest failure: trial, text, the user's line.
    told : tuple of str
        What the controller has told of, the latest.
    cell : str
        In which it has begun.
    """

    name: str
    state: str
    n_ended: int = 0
    n_running: int = 0
    n_waiting: int = 0
    n_paused: int = 0
    n_failed: int = 0
    n_all: int | None = None
    elapsed_s: float = 0.0
    why: str = ""
    metric: str = ""
    mode: str = "max"
    names: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    n_rows: int = 0
    lines: tuple[Line, ...] = ()
    error: tuple[int, str, str] | None = None
    told: tuple[str, ...] = ()
    cell: str = ""

    @property
    def best(self) -> Row | None:
        """The best trial."""
        return self.rows[0] if self.rows and not math.isnan(self.rows[0].value) else None


def facts_of(view: ExperimentView, now: float, is_run: bool, cell: str = "") -> ExperimentFacts:
    """What there is to say.

    Parameters
    ----------
    view : ExperimentView
    now : float
        Seconds since 1970.
    is_run : bool
        Whether a controller runs it.
    cell : str
    """
    trials = view.trials
    states = [trial.state for trial in trials]
    metric = view.metric or _first_metric(trials)
    names = varying(trials[:N_COMPARED])
    ranked = _ranked(trials, metric, view.mode)
    failed = [trial for trial in trials if trial.error]
    last = max(failed, key=lambda trial: trial.ended_at if trial.ended_at == trial.ended_at else now, default=None)
    counts = {state: states.count(state) for state in set(states)}
    return ExperimentFacts(
        view.name,
        _state(view, counts, is_run),
        n_ended=counts.get("TERMINATED", 0) + counts.get("ERROR", 0),
        n_running=counts.get("RUNNING", 0),
        n_waiting=counts.get("PENDING", 0),
        n_paused=counts.get("PAUSED", 0),
        n_failed=counts.get("ERROR", 0),
        n_all=view.n_expected,
        elapsed_s=max(0.0, (view.ended_at if view.is_over else now) - view.began_at),
        why=view.why,
        metric=metric,
        mode=view.mode,
        names=names,
        rows=tuple(_row(trial, metric, names) for trial in ranked[:N_ROWS]),
        n_rows=len(trials),
        lines=_lines(trials, ranked, metric, names),
        error=(last.number, last.error, last.line) if last is not None else None,
        told=tuple(view.told[-N_TOLD:]),
        cell=cell,
    )


def _state(view: ExperimentView, counts: dict[str, int], is_run: bool) -> str:
    if view.is_failed:
        return "failed"
    if view.is_over:
        return "stopped" if view.why else "finished"
    if not is_run:
        return "left"
    return "paused" if counts.get("PAUSED") and not counts.get("RUNNING") else "running"


def _first_metric(trials: Sequence[TrialView]) -> str:
    """What an experiment without a metric shows: the first number that is reported."""
    reported = next((trial.curves for trial in trials if trial.curves), {})
    return next((name for name in reported if name not in AUTOMATIC), "")


def varying(trials: Sequence[TrialView]) -> tuple[str, ...]:
    """The parameters that differ among trials, as paths, in the order of the configuration."""
    first: dict[str, Any] = {}
    found: dict[str, None] = {}
    for trial in trials:
        for name, value in flat(trial.config, "").items():
            if name not in found and _differs(first.setdefault(name, value), value):
                found[name] = None
    return tuple(name for name in first if name in found)[:N_PARAMETERS]


def _differs(a: Any, b: Any) -> bool:
    return a is not b and (type(a) is not type(b) or repr(a) != repr(b))


def _ranked(trials: Sequence[TrialView], metric: str, mode: str) -> list[TrialView]:
    """The best trials first, as many as the table or the picture shows."""
    sign = 1 if mode == "max" else -1

    def key(trial: TrialView) -> tuple[bool, float, int]:
        value = _value(trial, metric)
        return math.isfinite(value), sign * value if math.isfinite(value) else 0.0, -trial.number

    return heapq.nlargest(N_ROWS, trials, key)


def _value(trial: TrialView, metric: str) -> float:
    value = trial.last.get(metric)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _row(trial: TrialView, metric: str, names: Iterable[str]) -> Row:
    config = flat(trial.config, "")
    iteration = trial.last.get(ITERATION, 0)
    return Row(
        trial.number,
        trial.state,
        _value(trial, metric),
        iteration if isinstance(iteration, int) else 0,
        tuple(in_words(config[name]) if name in config else "" for name in names),
    )


def in_words(value: Any) -> str:
    """A parameter's value, in short."""
    if isinstance(value, float):
        return number(value)
    return in_one_line(value if isinstance(value, str) else repr(value), VALUE_CHARS)


def number(value: float) -> str:
    """A number, in short."""
    return f"{value:.5g}"


def _lines(
    trials: Sequence[TrialView], ranked: Sequence[TrialView], metric: str, names: Sequence[str]
) -> tuple[Line, ...]:
    """What is drawn, the best last, so that they lie above the others."""
    drawn = [trial for trial in trials if metric in trial.curves] if metric else []
    best = [trial for trial in ranked if math.isfinite(_value(trial, metric))][:N_BEST]
    others = [trial for trial in drawn if trial not in best]
    others = others[:: math.ceil(len(others) / N_GREY)] if others else []
    return tuple(
        Line(
            trial.number,
            best.index(trial) if trial in best else N_BEST,
            _curve(trial, metric),
            tuple(config.get(name) for name in names),
            _value(trial, metric),
        )
        for trial in [*others, *reversed(best)]
        for config in (flat(trial.config, ""),)
    )


def _curve(trial: TrialView, metric: str) -> tuple[tuple[float, float], ...]:
    steps, values = trial.column(ITERATION), trial.column(metric)
    n = len(values)
    stride = max(1, math.ceil(n / N_POINTS))
    kept = [*range(0, n, stride), *([n - 1] if n and (n - 1) % stride else [])]
    return tuple((steps[i], values[i]) for i in kept if math.isfinite(values[i]) and math.isfinite(steps[i]))
