"""Tells front ends of the process's runs of learning.

Whoever trains says that a run has changed. A thread looks at the runs then, four times a second at most, and ends when
nothing has changed or nobody looks: then nothing wakes up, and training pays for a look at a table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...scheduler.sync.condition import Condition
from ...scheduler.sync.threads import ServiceThread
from ..graph.recorder import Send, Subscriber
from ..panel_messages import N_RUNS_MAX, Learning, LearningLabel, encode_learning

if TYPE_CHECKING:
    from ...observe.learning import LearningRun, LearningView
    from .learning_columns import LearningColumns

INTERVAL_S = 0.25


class Viewer:
    """One front end: what it was told."""

    def __init__(self, send: Send) -> None:
        self.budget = Subscriber(send)
        self.columns: LearningColumns | None = None  # None: it does not look at the points
        self.told: list[LearningLabel] = []


class LearningFeed:
    """The runs of learning of this process, told to front ends.

    Parameters
    ----------
    origin : callable
        When the session began, as Unix time.
    """

    def __init__(self, origin: Callable[[], float]) -> None:
        self._origin = origin
        self._lock = threading.RLock()
        self._viewers: dict[str, Viewer] = {}
        self._numbers: dict[LearningRun, int] = {}  # oldest first
        self._n_begun = 0
        self._looked: dict[int, tuple[int, LearningView]] = {}  # with the number of changes that it tells of
        self._thread: ServiceThread | None = None
        self._changed = Condition()
        self._is_new = False  # something is to be told
        self._is_urgent = False  # and now

    # --- runs

    def changed(self, run: LearningRun) -> None:
        """The run has begun, has a new result, or has ended."""
        if run not in self._numbers:
            with self._lock:
                self._numbers[run] = self._n_begun
                self._n_begun += 1
                if len(self._numbers) > N_RUNS_MAX:
                    del self._numbers[next(iter(self._numbers))]
        self.look_again()

    def look_again(self) -> None:
        """Runs may have changed."""
        if self._viewers:
            self._want()

    def runs(self) -> dict[int, LearningRun]:
        """The runs by their numbers, oldest first."""
        with self._lock:
            return {number: run for run, number in self._numbers.items()}

    # --- front ends

    def subscribe(self, key: str, send: Send) -> None:
        """Tell this front end which runs there are, from now on."""
        with self._lock:
            before = self._viewers.pop(key, None)
            self._viewers[key] = Viewer(send)
        self.watch(key, before is not None and before.columns is not None)

    def unsubscribe(self, key: str) -> None:
        """Tell it nothing more; harmless if it is not subscribed."""
        with self._lock:
            self._viewers.pop(key, None)
        self._want(at_once=True)

    def watch(self, key: str, wanted: bool) -> None:
        """Tell it the points of all runs, beginning anew; or no points."""
        with self._lock:
            viewer = self._viewers.get(key)
            if viewer is not None:
                viewer.columns = self._columns() if wanted else None
        self._want(at_once=True)

    def _columns(self) -> LearningColumns:
        from .learning_columns import LearningColumns

        return LearningColumns()

    def restart(self) -> None:
        """Another session has begun, and times count from its beginning: everything is told anew."""
        with self._lock:
            for key, viewer in self._viewers.items():
                viewer.told = []
                self.watch(key, viewer.columns is not None)

    def stop(self) -> None:
        """Nobody looks any more."""
        with self._lock:
            self._viewers.clear()
        self._want(at_once=True)

    # --- the thread

    def _want(self, at_once: bool = False) -> None:
        with self._lock:
            self._is_new = True
            self._is_urgent |= at_once
            if self._thread is None and self._viewers and self._numbers:
                self._thread = ServiceThread(self._run, "cellmesh-learning")
                self._thread.start()
        if at_once:
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            self._is_new = self._is_urgent = False
            is_behind = self._turn()
            self._changed.wait_for(lambda: self._is_urgent, INTERVAL_S)
            with self._lock:
                if not self._viewers or not (self._is_new or is_behind):
                    self._thread = None
                    return

    def _turn(self) -> bool:
        """Tell what is new; whether there is more than may be sent now."""
        from .learning_columns import label_of

        with self._lock:
            viewers, runs, origin = list(self._viewers.values()), self.runs(), self._origin()
        views = self._look(runs)
        labels = [label_of(number, view, origin) for number, view in views.items()]
        is_behind = False
        for viewer in viewers:
            if labels != viewer.told:
                viewer.told = labels
                viewer.budget.send(msgspec.to_builtins(Learning(runs=labels)), [])
            columns = viewer.columns
            if columns is None:
                continue
            for number, view in views.items():
                if viewer.budget.allowance() <= 0:
                    is_behind = True
                    break
                message = columns.next(number, view, origin)
                if message is not None:
                    data, buffers = encode_learning(*message)
                    viewer.budget.use(sum(map(len, buffers)))
                    viewer.budget.send(data, buffers)
        return is_behind

    def _look(self, runs: dict[int, LearningRun]) -> dict[int, LearningView]:
        """The runs as they are; those that have not changed are not copied again."""
        looked: dict[int, tuple[int, LearningView]] = {}
        for number, run in runs.items():
            n_changes, known = run.n_changes, self._looked.get(number)
            looked[number] = known if known is not None and known[0] == n_changes else (n_changes, run.look())
        self._looked = looked
        return {number: view for number, (_, view) in looked.items()}
