"""The runs of learning of a session as a recording has them: what a panel is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...observe.recording import LEARNING_TABLES, table_of
from .learning_columns import label_of, points_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ...observe.learning import LearningRun


def runs_of(runs: Mapping[int, LearningRun], origin: float) -> tuple[list[dict[str, Any]], dict[str, pa.Table]]:
    """The runs, and the tables of their points.

    Parameters
    ----------
    runs : dict
        By their numbers, oldest first.
    origin : float
        When the session began, as Unix time.
    """
    about: list[dict[str, Any]] = []
    parts: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in LEARNING_TABLES}
    for place, (number, run) in enumerate(runs.items()):
        view = run.look()
        header, (values,) = points_of(number, view, origin)
        about.append(
            {
                "label": msgspec.to_builtins(label_of(number, view, origin)),
                "points": msgspec.to_builtins(header),
            }
        )
        parts["points"].append({"run": np.full(header.points, place), "at": values[0]})
        metric, point = np.nonzero(~np.isnan(values[1:]))
        parts["metrics"].append(
            {
                "run": np.full(len(point), place),
                "point": point,
                "metric": metric,
                "value": values[1:][metric, point],
            }
        )
    return about, {name: table_of(name, _joined(name, parts[name])) for name in LEARNING_TABLES}


def _joined(name: str, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of all runs."""
    return {
        column: np.concatenate([np.empty(0, kind), *(part[column].astype(kind) for part in parts)])
        for column, kind in LEARNING_TABLES[name].items()
    }
