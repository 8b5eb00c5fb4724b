"""An experiment's trials as columns, for one front end: what has changed since it was told last. Pure.

A trial that has changed is told whole, with its curve. What has changed between two messages is little (at most what
has reported meanwhile), so this costs less than it saves: neither side keeps account of single points, and the curve
can be thinned anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...tune.results import best_of, flat
from ...tune.view import ITERATION
from ..panel_messages import (
    BYTES_PER_POINT,
    BYTES_PER_TRIAL,
    BYTES_PER_VALUE,
    N_COLUMNS_MAX,
    N_CURVE_POINTS,
    N_POINTS_MAX,
    N_POINTS_MIN,
    N_WORDS_MAX,
    TEXT_CHARS_MAX,
    TRIAL_STATES,
    ExperimentLabel,
    Parameter,
    TrialArrays,
    TrialCounts,
    Trials,
    TrialText,
)

if TYPE_CHECKING:
    from ...tune.view import ExperimentView, TrialView

STATES = ("PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR")  # Tune's, in the order of `TRIAL_STATES`
NUMBERS = {name: number for number, name in enumerate(STATES)}
# What Tune adds to each result, and a plot of which says nothing.
UNTOLD = frozenset(("timestamp", "time_this_iter_s"))
WORD_CHARS_MAX = 80
TOLD_MAX = 20

Clock = Callable[[float], float]  # Unix time -> seconds of the session


class TrialColumns:
    """What one front end knows of one experiment's trials.

    Parameters
    ----------
    path : str
        The experiment's folder.
    metric : str
        Of the curves; "": the experiment's.
    """

    def __init__(self, path: str, metric: str = "") -> None:
        self.path = path
        self._wanted = metric
        self._mixed: set[str] = set()  # parameters that are numbers in some trials and words in others
        self.restart()

    def restart(self) -> None:
        """Tell everything again."""
        self._n = 0
        self._known = -1  # the number of the latest record that this has seen
        self._waiting: dict[int, None] = {}  # trials that have changed and have not been told
        self._metric = ""
        self._metrics: dict[str, None] = {}
        self._parameters: dict[str, dict[str, int] | None] = {}  # words with their indices; None: numbers

    @property
    def has_begun(self) -> bool:
        """Whether anything was told since the beginning."""
        return self._n > 0

    def next(self, view: ExperimentView, seconds: Clock, n_bytes: int) -> tuple[Trials, TrialArrays] | None:
        """The next message, of about `n_bytes` at most; None if there is nothing to tell.

        Each message tells at least one trial, or that there is none.
        """
        if self._known >= view.n_records and not self._waiting:
            return None
        self._note(view)
        told = self._take(view, n_bytes)
        columns = [list(flat(trial.config, "").items()) for trial in told]
        if not all([self._place(name, value) for settings in columns for name, value in settings]):
            self.restart()  # a parameter that was a number has become a word: all that was told is told again
            return self.next(view, seconds, n_bytes)
        lengths, curves = curves_of(told, self._metric, self._n_points(view), seconds)
        header = Trials(
            n=self._n,
            path=self.path,
            metric=self._metric,
            metrics=list(self._metrics),
            parameters=[Parameter(name, list(words or ())) for name, words in self._parameters.items()],
            texts=[
                TrialText(trial.number, _short(trial.why), _short(_error(trial)))
                for trial in told
                if trial.why or trial.error
            ],
            told=[_short(text) for text in view.told[-TOLD_MAX:]],
            behind=len(self._waiting),
            changed=len(told),
            values=len(told) * len(self._metrics),
            settings=len(told) * len(self._parameters),
            points=curves.shape[1],
        )
        self._n += 1
        return header, TrialArrays(
            np.array([trial.number for trial in told], np.uint32),
            np.array([NUMBERS[trial.state] for trial in told], np.uint8),
            np.array([_count(trial.last.get(ITERATION)) for trial in told], np.uint32),
            np.array(
                [
                    *[seconds(trial.created_at) for trial in told],
                    *[seconds(trial.started_at) for trial in told],
                    *[seconds(trial.ended_at) for trial in told],
                ]
            ),
            np.array([_number(trial.last.get(name)) for name in self._metrics for trial in told]),
            self._settings(columns),
            lengths,
            *curves,
        )

    def _note(self, view: ExperimentView) -> None:
        """What has changed since is to be told."""
        for trial in view.trials:
            if trial.changed_at > self._known:
                self._waiting[trial.number] = None
                for name in trial.curves:
                    if name not in UNTOLD and (name in self._metrics or len(self._metrics) < N_COLUMNS_MAX):
                        self._metrics[name] = None
        self._known = view.n_records
        metric = self._wanted or view.metric or next((name for name in self._metrics if name != ITERATION), "")
        if metric != self._metric:
            self._metric = metric
            self._waiting = {trial.number: None for trial in view.trials}

    def _take(self, view: ExperimentView, n_bytes: int) -> list[TrialView]:
        width = BYTES_PER_TRIAL + BYTES_PER_VALUE * (len(self._metrics) + len(self._parameters))
        limit, told, size = self._n_points(view), list[int](), 0
        for number in self._waiting:
            trial = view.trials[number]
            size += width + BYTES_PER_POINT * min(limit, trial.n_results) + len(trial.error)
            if told and size > n_bytes:
                break
            told.append(number)
        for number in told:
            del self._waiting[number]
        return [view.trials[number] for number in told]

    @staticmethod
    def _n_points(view: ExperimentView) -> int:
        """How many points a curve may have."""
        return max(N_POINTS_MIN, min(N_POINTS_MAX, N_CURVE_POINTS // max(1, len(view.trials))))

    def _place(self, name: str, value: Any) -> bool:
        """See to it that there is a column for a parameter's value; False: the column was one of numbers."""
        if name not in self._parameters:
            if len(self._parameters) < N_COLUMNS_MAX:
                is_number = _is_number(value) and name not in self._mixed
                self._parameters[name] = None if is_number else {_word(value): 0}
            return True
        words = self._parameters[name]
        if words is None:
            if _is_number(value):
                return True
            self._mixed.add(name)
            return False
        word = _word(value)
        if word not in words and len(words) < N_WORDS_MAX:
            words[word] = len(words)
        return True

    def _settings(self, columns: list[list[tuple[str, Any]]]) -> np.ndarray:
        """The parameters of some trials, parameter after parameter."""
        table = np.full((len(self._parameters), len(columns)), np.nan)
        rows = {name: row for row, name in enumerate(self._parameters)}
        for at, settings in enumerate(columns):
            for name, value in settings:
                row = rows.get(name)
                if row is not None:
                    words = self._parameters[name]
                    table[row, at] = value if words is None else words.get(_word(value), math.nan)
        return table.reshape(-1)


def curves_of(trials: Sequence[TrialView], metric: str, limit: int, seconds: Clock) -> tuple[np.ndarray, np.ndarray]:
    """How many points each trial's curve has, at most `limit`, and times, iterations and values of all of them."""
    origin = seconds(0.0)
    lengths, parts = np.zeros(len(trials), np.uint32), []
    for i, trial in enumerate(trials):
        if not trial.n_results or metric not in trial.curves:
            continue
        y = np.array(trial.column(metric))
        x = np.array(trial.column(ITERATION)) if ITERATION in trial.curves else np.arange(1.0, len(y) + 1)
        there = np.flatnonzero(np.isfinite(y) & np.isfinite(x))
        if len(there) > limit:
            there = there[np.linspace(0, len(there) - 1, limit).round().astype(np.intp)]
        lengths[i] = len(there)
        parts.append(np.array((np.array(trial.reported_at)[there] + origin, x[there], y[there])))
    return lengths, np.concatenate(parts, axis=1) if parts else np.zeros((3, 0))


def label_of(view: ExperimentView, path: str, seconds: Clock) -> ExperimentLabel:
    """An experiment in the list of all."""
    counts = [0] * len(TRIAL_STATES)
    for trial in view.trials:
        counts[NUMBERS[trial.state]] += 1
    best = best_of(view)
    ended = seconds(view.ended_at)
    return ExperimentLabel(
        path,
        view.name,
        view.metric or "",
        "min" if view.mode == "min" else "max",
        _or_zero(seconds(view.began_at)),
        None if math.isnan(ended) else round(ended, 3),
        view.is_failed,
        view.why,
        TrialCounts(*counts),
        best.number if best is not None else -1,
        float(best.last[view.metric]) if best is not None and view.metric is not None else None,
    )


def _error(trial: TrialView) -> str:
    return f"{trial.error}\n{trial.line}" if trial.line else trial.error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and 0 <= value < 2**32 else 0


def _word(value: Any) -> str:
    return value[:WORD_CHARS_MAX] if isinstance(value, str) else repr(value)[:WORD_CHARS_MAX]


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else round(value, 3)
