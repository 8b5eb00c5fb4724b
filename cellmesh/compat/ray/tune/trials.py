"""A trial in Ray's shape, as callbacks and analyses show it; and results with what Ray adds to them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ....tune.exceptions import TuneError
from ....tune.space import from_json
from ....tune.space.tree import domains
from ....tune.view import ITERATION, ExperimentView, TrialView
from .configs import nested
from .reporting import Checkpoint, folder_of_trial

HOSTNAME: str = socket.gethostname()


class Trial:
    """A trial: `trial_id`, `config`, `status`, `last_result`, `checkpoint`, ... as they are when they are asked for.

    Attributes
    ----------
    status : str
        PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
    """

    PENDING: str = "PENDING"
    RUNNING: str = "RUNNING"
    PAUSED: str = "PAUSED"
    TERMINATED: str = "TERMINATED"
    ERROR: str = "ERROR"

    def __init__(
        self,
        view: TrialView,
        of: ExperimentView,
        folder: Path,
        error: BaseException | None = None,
        name_creator: Callable[[Trial], str] | None = None,
    ) -> None:
        self._view, self._of, self._folder, self._error, self._name_creator = view, of, folder, error, name_creator

    @property
    def trial_id(self) -> str:
        """Its number, five digits."""
        return f"{self._view.number:05}"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return self._view.config

    @property
    def status(self) -> str:
        """What has become of it."""
        return self._view.state

    @property
    def last_result(self) -> dict[str, Any]:
        """What it reported last."""
        return full_result(self._view, self._view.last, self.experiment_tag)

    @property
    def trainable_name(self) -> str:
        """What it runs."""
        return self._of.definition.trainable if self._of.definition is not None else ""

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """What of the configuration came from domains, by path."""
        space = from_json(self._of.definition.space) if self._of.definition is not None else {}
        found: dict[str, Any] = {}
        for path in domains(space):
            value: Any = self.config
            for key in path:
                if not isinstance(value, (Mapping, list, tuple)):
                    break
                value = value.get(key) if isinstance(value, Mapping) else value[key]
            found["/".join(map(str, path))] = value
        return dict(sorted(found.items()))

    @property
    def experiment_tag(self) -> str:
        """Its number and what it tries: "3_lr=0.1"."""
        tried = ",".join(f"{name.rpartition('/')[2]}={_short(value)}" for name, value in self.evaluated_params.items())
        return f"{self._view.number}_{tried}" if tried else str(self._view.number)

    @property
    def path(self) -> str:
        """A folder of its own; it is there if the trial has asked for it."""
        return str(folder_of_trial(self._folder, self.trial_id))

    @property
    def local_path(self) -> str:
        """As `path`."""
        return self.path

    @property
    def logdir(self) -> str:
        """As `path`."""
        return self.path

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        if self.status != self.ERROR:
            return None
        return self._error or TuneError(f"{self._view.error}\n    {self._view.line}".rstrip())

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint that is there."""
        found = self.checkpoints
        return found[-1][0] if found else None

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, dict[str, Any]]]:
        """The checkpoints that are there, oldest first, each with the metrics that were reported with it."""
        return [
            (Checkpoint(self._folder / saved.path), self._result_at(saved.iteration))
            for saved in self._view.checkpoints
            if (self._folder / saved.path).exists()
        ]

    def is_finished(self) -> bool:
        """Whether it is over."""
        return self.status in (self.TERMINATED, self.ERROR)

    def column(self, name: str) -> list[Any]:
        """A metric, a number for each result; whole ones as they were reported."""
        values = list(self._view.column(name)) if name in self._view.curves else []
        whole = type(self._view.last.get(name)) is int and all(value == value // 1 for value in values)
        return [int(value) for value in values] if whole else values

    def columns(self) -> dict[str, list[Any]]:
        """All metrics that are numbers."""
        return {name: self.column(name) for name in self._view.curves}

    def best_step(self, metric: str, mode: str) -> int | None:
        """Which of its results has the best value of a metric; None if none has any."""
        values = self.column(metric)
        found = [i for i, value in enumerate(values) if value == value]
        return (max if mode == "max" else min)(found, key=values.__getitem__, default=None)

    def result_at(self, step: int) -> dict[str, Any]:
        """A result of those that it reported: what of it is a number."""
        numbers = {name: column[step] for name, column in self.columns().items()}
        return full_result(self._view, numbers, self.experiment_tag)

    def _result_at(self, iteration: int) -> dict[str, Any]:
        steps = self.column(ITERATION)
        return self.result_at(steps.index(iteration)) if iteration in steps else self.last_result

    def __str__(self) -> str:
        if self._name_creator is not None:
            return self._name_creator(self)
        return f"{self.trainable_name}_{self.trial_id}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and (other._folder, other.trial_id) == (self._folder, self.trial_id)

    def __hash__(self) -> int:
        return hash((self._folder, self.trial_id))


def full_result(view: TrialView, flat: Mapping[str, Any], tag: str | None = None) -> dict[str, Any]:
    """A result nested, with what Ray adds. `flat` {}: of a trial that has not reported."""
    always = {
        "trial_id": f"{view.number:05}",
        "pid": view.pid or os.getpid(),
        "hostname": view.node or HOSTNAME,
        "node_ip": "127.0.0.1",
        "config": view.config,
    }
    if not flat:
        return always
    stamp = time.localtime(flat.get("timestamp") or 0)
    total = flat.get("time_total_s")
    return {
        **nested(flat),
        "done": bool(flat.get("done")) or view.state == "TERMINATED",
        "date": time.strftime("%Y-%m-%d_%H-%M-%S", stamp),
        "time_since_restore": total,
        "iterations_since_restore": flat.get(ITERATION),
        "checkpoint_dir_name": None,
        **always,
        **({} if tag is None else {"experiment_tag": tag}),
    }


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-4 <= abs(value) < 1e5 else f"{value:g}"
    return str(value).replace("/", "_")[:40]
