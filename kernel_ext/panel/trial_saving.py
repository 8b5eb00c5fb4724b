"""The experiments of a session as a recording has them: what a panel could be told of them, of every metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from ...observe.recording import TRIAL_TABLES, table_of
from ..graph.view import ALL_BYTES
from ..panel_messages import N_POINTS_MAX, Trials
from .trial_columns import Clock, TrialColumns, curves_of, label_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ...tune.journal import Following
    from ...tune.view import ExperimentView

# Of all curves of a session, of every metric; 24 bytes each before they are packed. Ten thousand trials of five metrics
# keep 40 points a curve.
N_SAVED_POINTS = 2_000_000
N_SAVED_MIN = 2  # of a curve, however many there are: its beginning and its end

Columns = dict[str, np.ndarray]
T = TypeVar("T")


def experiments_of(
    followed: Mapping[str, Following], origin: float
) -> tuple[list[dict[str, Any]], dict[str, pa.Table]]:
    """The experiments, and the tables of their trials; those whose journal is gone or damaged are left out.

    Parameters
    ----------
    followed : dict
        The experiments by their paths, oldest first.
    origin : float
        When the session began, as Unix time.
    """

    def seconds(at: float) -> float:
        return at - origin

    n_curves = sum(_look(each, _n_curves) or 0 for each in followed.values())
    limit = max(N_SAVED_MIN, min(N_POINTS_MAX, N_SAVED_POINTS // max(1, n_curves)))
    experiments: list[dict[str, Any]] = []
    parts: dict[str, list[Columns]] = {name: [] for name in TRIAL_TABLES}
    for path, following in followed.items():
        taken = _look(following, lambda view, path=path: _taken(view, path, limit, seconds))
        if taken is None:
            continue
        about, tables = taken
        for name, columns in tables:
            n = len(columns["trial"])
            parts[name].append({"experiment": np.full(n, len(experiments), np.uint32), **columns})
        experiments.append(about)
    return experiments, {name: table_of(name, _joined(name, parts[name])) for name in TRIAL_TABLES}


def _look(following: Following, at: Callable[[ExperimentView], T]) -> T | None:
    from ...tune.exceptions import JournalError

    try:
        return following.look(at)
    except (FileNotFoundError, JournalError):  # who asks for it by name is told
        return None


def _n_curves(view: ExperimentView) -> int:
    return sum(len(trial.curves) for trial in view.trials)


def _taken(
    view: ExperimentView, path: str, limit: int, seconds: Clock
) -> tuple[dict[str, Any], list[tuple[str, Columns]]]:
    """What an experiment is, and its rows of the tables."""
    message = TrialColumns(path).next(view, seconds, ALL_BYTES)
    label = msgspec.to_builtins(label_of(view, path, seconds))
    if message is None:
        return {"label": label, "trials": msgspec.to_builtins(Trials(path=path))}, []
    header, arrays = message
    told = [view.trials[trial] for trial in arrays.trial.tolist()]
    suggested, began, ended = arrays.times.reshape(3, len(told))
    tables: list[tuple[str, Columns]] = [
        (
            "trials",
            {
                "trial": arrays.trial,
                "state": arrays.state,
                "iteration": arrays.iteration,
                "suggested": suggested,
                "began": began,
                "ended": ended,
            },
        ),
        ("settings", _long("parameter", arrays.trial, arrays.parameters, header.parameters)),
        ("results", _long("metric", arrays.trial, arrays.metrics, header.metrics)),
    ]
    for number, metric in enumerate(header.metrics):
        lengths, (at, x, y) = curves_of(told, metric, limit, seconds)
        trials = np.repeat(arrays.trial, lengths)
        metrics = np.full(len(trials), number)
        tables.append(("curves", {"trial": trials, "metric": metrics, "at": at, "iteration": x, "value": y}))
    return {"label": label, "trials": msgspec.to_builtins(header)}, tables


def _long(name: str, trials: np.ndarray, values: np.ndarray, names: Sequence[object]) -> Columns:
    """Columns that stand one after the other, as a row for each value that there is."""
    table = values.reshape(len(names), len(trials))
    column, at = np.nonzero(~np.isnan(table))
    return {"trial": trials[at], name: column, "value": table[column, at]}


def _joined(name: str, parts: list[Columns]) -> Columns:
    """The rows of all experiments."""
    return {
        column: np.concatenate([np.empty(0, kind), *(part[column].astype(kind) for part in parts)])
        for column, kind in TRIAL_TABLES[name].items()
    }
