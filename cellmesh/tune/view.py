"""An experiment as people look at it: the fold of its journal.

It follows from the records alone, so a card in a notebook, a table after the end and a program that looks at somebody
else's experiment see the same. Metrics lie in columns, so ten thousand trials of a hundred results fit into the memory
of a notebook.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..tracebacks import with_readable_place
from .records import (
    AnyRecord,
    Asked,
    Became,
    Capacity,
    Closed,
    Definition,
    Ended,
    Launched,
    NoneLeft,
    Opened,
    Reported,
    Saved,
    Suggested,
    Told,
)
from .space import SpaceError, count, from_json, unstored

ITERATION, TIME = "training_iteration", "time_total_s"


@dataclass(slots=True, eq=False)
class TrialView:
    """What is known of a trial."""

    number: int
    config: dict[str, Any]
    code: bytes = b""
    state: str = "PENDING"
    why: str = ""
    attempt: int = 0
    n_failures: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, array[float]] = field(default_factory=dict)  # of numbers, one for each result; NaN: it had none
    n_results: int = 0  # in the curves
    checkpoints: list[Saved] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=lambda: {"": 0})  # n_results with which it goes on from a checkpoint
    started_at: float = math.nan
    ended_at: float = math.nan
    error: str = ""
    line: str = ""  # the user's, that raised
    pid: int = 0
    node: str = ""
    created_at: float = math.nan
    reported_at: array[float] = field(default_factory=lambda: array("d"))  # one for each result, as in the curves
    changed_at: int = 0  # the number of the latest record that said something of it

    def add(self, result: dict[str, Any], at: float) -> None:
        """A result more."""
        self.last = result
        self.reported_at.append(at)
        n = self.n_results
        for name, value in result.items():
            if type(value) is float or type(value) is int or type(value) is bool:
                column = self.curves.get(name)
                if column is None:
                    column = self.curves[name] = array("d")
                if len(column) < n:
                    column.extend([math.nan] * (n - len(column)))
                column.append(value)
        self.n_results = n + 1

    def save(self, saved: Saved) -> None:
        """A checkpoint more."""
        self.checkpoints.append(saved)
        self.starts[saved.path] = self.n_results

    def go_on(self, path: str, is_retry: bool) -> None:
        """It goes on from a checkpoint: what it had reported after that comes again, unless it goes on as another one
        (PBT).
        """
        if not is_retry or path not in self.starts:
            self.starts[path] = self.n_results
            return
        n = self.n_results = self.starts[path]
        for column in self.curves.values():
            del column[n:]
        del self.reported_at[n:]

    def column(self, name: str) -> array[float]:
        """A metric, one number for each result. Another thread may be adding results."""
        column, n = self.curves.get(name, array("d")), self.n_results
        return column[:n] + array("d", [math.nan]) * (n - len(column))


class ExperimentView:
    """The state of an experiment, from its records."""

    name: str
    began_at: float
    ended_at: float
    is_over: bool
    why: str
    is_failed: bool
    is_all_suggested: bool
    capacity: int
    n_records: int

    def __init__(self) -> None:
        self.name = ""
        self.plan: dict[str, Any] = {}
        self.definition: Definition | None = None
        self.began_at = math.nan
        self.ended_at = math.nan
        self.is_over = False
        self.why = ""  # it is over
        self.is_failed = False
        self.is_all_suggested = False
        self.capacity = 0
        self.told: list[str] = []
        self.trials: list[TrialView] = []
        self.n_records = 0
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            Opened: self._on_opened,
            Suggested: self._on_suggested,
            NoneLeft: self._on_none_left,
            Launched: self._on_launched,
            Reported: self._on_reported,
            Ended: self._on_ended,
            Asked: lambda record: None,
            Became: self._on_became,
            Told: self._on_told,
            Capacity: self._on_capacity,
            Closed: self._on_closed,
        }

    def add(self, records: Iterable[AnyRecord]) -> None:
        """Take what has happened since."""
        for record in records:
            self.n_records += 1
            self._handlers[type(record)](record)
            number = getattr(record, "trial", -1)
            if 0 <= number < len(self.trials):
                self.trials[number].changed_at = self.n_records

    @property
    def metric(self) -> str | None:
        """The metric that the experiment is about."""
        return self.plan.get("metric")

    @property
    def mode(self) -> str:
        """Whether it is to be small or large: "min" or "max"."""
        return self.plan.get("mode", "max")

    @property
    def n_expected(self) -> int | None:
        """How many trials there will be; None if that is not known."""
        if self.is_all_suggested or self.is_over:
            return len(self.trials)
        if self.definition is None or any(unstored(self.definition.space)):
            return None
        try:
            return count(from_json(self.definition.space), self.definition.num_samples)
        except SpaceError:  # of a newer version
            return None

    def _on_opened(self, record: Opened) -> None:
        if math.isnan(self.began_at):
            self.began_at = record.at
        self.name, self.plan, self.definition = record.name, record.plan, record.definition
        self.is_over, self.is_failed, self.why, self.ended_at = False, False, "", math.nan

    def _on_suggested(self, record: Suggested) -> None:
        if record.trial == len(self.trials):  # else one that came when all was over
            self.trials.append(TrialView(record.trial, record.config, record.code, created_at=record.at))

    def _on_none_left(self, record: NoneLeft) -> None:
        self.is_all_suggested = self.is_all_suggested or not record.later

    def _on_launched(self, record: Launched) -> None:
        trial = self.trials[record.trial]
        trial.state, trial.why, trial.attempt = "RUNNING", "", record.attempt
        config = trial.config if record.config is None else record.config
        trial.go_on(record.checkpoint, is_retry=config == trial.config)
        trial.config = config
        if math.isnan(trial.started_at):
            trial.started_at = record.at

    def _on_reported(self, record: Reported) -> None:
        trial = self.trials[record.trial]
        if record.attempt != trial.attempt:
            return
        trial.add(record.result, record.at)
        trial.pid, trial.node = record.pid, record.node
        if record.checkpoint is not None:
            trial.save(record.checkpoint)

    def _on_ended(self, record: Ended) -> None:
        trial = self.trials[record.trial]
        if record.attempt != trial.attempt:
            return
        if record.checkpoint is not None:
            trial.save(record.checkpoint)
        if record.outcome in ("failed", "lost"):
            trial.n_failures += 1
            trial.error, trial.line = record.error, record.line

    def _on_became(self, record: Became) -> None:
        trial = self.trials[record.trial]
        trial.state, trial.why = record.state, record.why
        is_over = record.state in ("TERMINATED", "ERROR")
        trial.ended_at = record.at if is_over else math.nan
        if record.state == "TERMINATED":
            trial.error = trial.line = ""
        elif record.state == "ERROR" and not trial.error:  # it has never begun
            trial.error = record.why

    def _on_told(self, record: Told) -> None:
        self.told.append(record.text)

    def _on_capacity(self, record: Capacity) -> None:
        self.capacity = record.n

    def _on_closed(self, record: Closed) -> None:
        self.is_over, self.is_failed, self.ended_at = True, record.failed, record.at
        self.why = with_readable_place(record.why)
