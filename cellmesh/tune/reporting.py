"""Inside a trial: `report`, the checkpoint to go on from, and where one is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..exceptions import ActorDiedError
from ..objects import get
from ..session.scratch import scratch_folder
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint
from .exceptions import StopTrial
from .records import Saved
from .values import plain

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from ..submit.actor import ActorHandle


class Order(NamedTuple):
    """What a trial's process is told: which attempt of which trial, and from where. It travels as a plain tuple, which
    is not pickled.
    """

    trial: int
    attempt: int
    config: dict[str, Any]
    code: bytes  # the configuration as it was suggested, pickled, where `config` only shows some of it
    checkpoint: Saved | None
    name: str  # of the experiment
    folder: str
    node: str  # on which the folder lies
    resources: dict[str, Any]
    is_crowded: bool  # more trials may run on its machine than that has CPUs


class TrialContext:
    """Where a trial is: what `get_context()` returns inside one."""

    iteration: int
    word: str

    def __init__(self, order: Order, host: ActorHandle[Any], config: dict[str, Any]) -> None:
        from ..api import get_runtime_context

        self._order, self._host = order, host
        self.config = config
        node = get_runtime_context().get_node_id()
        self._is_at_home = node == order.node
        self._trial_id, self._pid, self._elsewhere = f"{order.trial:05}", os.getpid(), "" if self._is_at_home else node
        self.iteration = order.checkpoint.iteration if order.checkpoint else 0
        self._last = time.monotonic()
        self._began = self._last - (order.checkpoint.time_total_s if order.checkpoint else 0.0)
        self._thread = threading.get_ident()
        self._others = set(threading.enumerate()) - {threading.current_thread()}  # which earlier tasks have left
        self._scratch: TemporaryDirectory[str] | None = None
        self.word = "go"  # the latest answer

    def get_experiment_name(self) -> str:
        """The experiment's name."""
        return self._order.name

    def get_trial_id(self) -> str:
        """The trial's number, as a text of five digits."""
        return self._trial_id

    def get_trial_name(self) -> str:
        """The experiment's name and the trial's number."""
        return f"{self._order.name}_{self.get_trial_id()}"

    def get_trial_resources(self) -> dict[str, Any]:
        """The options of resources with which the trial was launched."""
        return dict(self._order.resources)

    def get_trial_dir(self) -> str:
        """The experiment's folder, where it is on this machine."""
        return self._order.folder

    def get_world_size(self) -> int:
        """1: a trial is one process."""
        return 1

    def get_world_rank(self) -> int:
        """0."""
        return 0

    def handed_on(self) -> tuple[Order, ActorHandle[Any]]:
        """What makes the context again in a process that reports on behalf of the trial."""
        return self._order, self._host

    @property
    def attempt(self) -> int:
        """1, 2, ...: how often the trial has begun."""
        return self._order.attempt

    def checkpoint(self) -> Checkpoint | None:
        """What the trial is to go on from."""
        saved = self._order.checkpoint
        if saved is None:
            return None
        if self._is_at_home:
            return Checkpoint(Path(self._order.folder) / saved.path)
        if self._scratch is None:
            self._scratch = scratch_folder()
            checkpoints.unpack(get(self._host.packed.remote(saved.path)), Path(self._scratch.name))
        place = Path(self._scratch.name)
        return Checkpoint(place / ("folder" if (place / "folder").exists() else "value"))

    def report(self, metrics: Mapping[str, Any], checkpoint: Any) -> None:
        """Tell the controller, and wait for what it says."""
        if threading.get_ident() != self._thread and threading.current_thread() in self._others:
            raise RuntimeError(
                "this thread was begun before the trial that runs now, so it cannot report for it: a trial must wait "
                "for its threads before it returns"
            )
        now = time.monotonic()
        result = plain(metrics)
        self.iteration += 1
        result.setdefault("training_iteration", self.iteration)
        result["time_this_iter_s"] = now - self._last
        result["time_total_s"] = now - self._began
        result["timestamp"] = round(time.time())
        result["trial_id"] = self._trial_id
        self._last = now
        saved, packed = self.save(checkpoint) if checkpoint is not None else (None, None)
        order = self._order
        try:
            self.word = get(
                self._host.report.remote(order.trial, order.attempt, result, saved, packed, self._pid, self._elsewhere)
            )
        except ActorDiedError:  # nobody is left to be told, nor to ask for the error
            self.word = "stop"
        if self.word != "go":
            raise StopTrial(self.word)

    def save(self, checkpoint: Any) -> tuple[Saved, bytes | None]:
        """Write a checkpoint into the experiment's folder, or pack it for the machine that has it."""
        total = time.monotonic() - self._began
        name = f"{self._trial_id}-{self.iteration:06}-{self._order.attempt}"
        if self._is_at_home:
            return Saved(checkpoints.save(checkpoint, Path(self._order.folder), name), self.iteration, total), None
        return Saved(name, self.iteration, total), checkpoints.pack(checkpoint)


_current: TrialContext | None = None  # of this process: a worker runs one task at a time


def enter(context: TrialContext | None) -> None:
    """Called by what runs a trial, before and after it."""
    global _current
    _current = context


def get_context() -> TrialContext:
    """The trial that this process runs.

    Raises
    ------
    RuntimeError
        It runs none.
    """
    if _current is None:
        raise RuntimeError("this is not a trial: report() and get_context() are for functions that a Tuner runs")
    return _current


def in_trial() -> bool:
    """Whether this process runs a trial."""
    return _current is not None


def get_checkpoint() -> Checkpoint | None:
    """What this trial is to go on from: None at its beginning."""
    return get_context().checkpoint()


def report(metrics: Mapping[str, Any] | None = None, *, checkpoint: Any = None, **named: Any) -> None:
    """Report metrics of the running trial: `report(loss=0.3)` or `report({"loss": 0.3}, checkpoint=...)`.

    Waits until the scheduler has decided. If the trial is to end, or to pause, this raises `StopTrial`, which ends the
    function; `finally` blocks run.

    Parameters
    ----------
    metrics : mapping of str to number, text, None, small array, or mapping of those
        A mapping inside is flattened: {"eval": {"loss": 1}} is reported as "eval/loss".
    checkpoint : path of a folder, Checkpoint, or any value, optional
        What the trial can go on from, after a pause, a failure or on behalf of another trial. A folder is copied; a
        value, such as a dict, is pickled. `get_checkpoint()` gives it back.
    **named
        More metrics.

    Raises
    ------
    RuntimeError
        The caller is no trial.
    TypeError
        A metric is of a kind that cannot be compared or kept.
    """
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError(
            f"report(...) takes metrics by name, report(loss=0.3) or report({{'loss': 0.3}}), not "
            f"{type(metrics).__name__}"
        )
    get_context().report({**(metrics or {}), **named}, checkpoint)
