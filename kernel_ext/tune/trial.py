"""The trial that a `%%tune` cell becomes. This module runs on the worker."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...objects import get
from ...refs import ObjectRef
from ...tune.reporting import get_checkpoint, get_context, report
from ..cells.task import CellCode, run_in
from ..cells.task_variables import namespace_of

# What a trial has beside its parameters, under these names.
GIVEN = {"report": report, "get_checkpoint": get_checkpoint}


@dataclass(frozen=True)
class CellTrial:
    """A cell as a function of a configuration.

    Attributes
    ----------
    code : CellCode
    values : tuple
        Of `code.names`; what lies in the store is a ref.
    changes : frozenset of str
        Those of `code.names` whose values the cell changes in place. Trials of one worker share the others.
    metric : str
        What the value of a last expression is reported as, if it is a number and nothing has been reported.
    """

    code: CellCode
    values: tuple[Any, ...]
    changes: frozenset[str]
    metric: str

    @property
    def __name__(self) -> str:
        """What experiments without a name are called by."""
        return "search"

    def __call__(self, config: dict[str, Any]) -> Mapping[str, Any] | None:
        """Run the cell; returns the metrics that its last expression has, if it has any."""
        values = tuple(map(self._given, self.code.names, self.values))
        not_sent = dict(self.code.not_sent)
        context = get_context()
        before = context.iteration
        last = run_in(self.code, namespace_of(self.code, values, not_sent, {**config, **GIVEN}), not_sent)
        if isinstance(last, Mapping):
            return last
        is_number = hasattr(last, "__float__") and not isinstance(last, (str, bytes))
        return {self.metric: last} if is_number and self.metric and context.iteration == before else None

    def _given(self, name: str, value: Any) -> Any:
        if isinstance(value, ObjectRef):
            return get(value)
        if name not in self.changes:
            return value
        try:
            return copy.deepcopy(value)
        except Exception:  # whatever the classes of the user raise: what cannot be copied is what it was
            return value
