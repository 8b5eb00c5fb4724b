"""Follows the journals of the process's experiments for the front ends that look at them.

One thread reads them, four times a second while something is written and a front end is there, less often while nothing
is. It ends when no experiment runs or nobody looks: then nothing is read, and nothing wakes up.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...scheduler.sync.condition import Condition
from ...scheduler.sync.threads import ServiceThread
from ..graph.recorder import Send, Subscriber
from ..panel_messages import (
    N_EXPERIMENTS_MAX,
    ExperimentLabel,
    Experiments,
    encode_trials,
)

if TYPE_CHECKING:
    from ...tune.experiment import Experiment
    from ...tune.journal import Following
    from .trial_columns import TrialColumns

INTERVAL_S = 0.25
INTERVAL_MAX_S = 2.0  # while nothing is written: a trial takes its time, or a controller has died
FIRST_BYTES = 60_000  # of the first message, so that there is something to see while the others are made
EXPERIMENTS = "cellmesh.tune.experiment"  # as long as this is not imported there are none


class Viewer:
    """One front end: what it looks at, and what it was told."""

    def __init__(self, send: Send) -> None:
        self.budget = Subscriber(send)
        self.columns: TrialColumns | None = None
        self.told: list[ExperimentLabel] = []


class TrialFeed:
    """The experiments of this process, told to front ends.

    Parameters
    ----------
    origin : callable
        When the session began, as Unix time.
    """

    def __init__(self, origin: Callable[[], float]) -> None:
        self._origin = origin
        self._lock = threading.RLock()
        self._viewers: dict[str, Viewer] = {}
        self._followed: dict[str, Following] = {}  # by path, oldest first
        self._labels: dict[str, tuple[int, ExperimentLabel]] = {}  # with the number of records that it tells of
        self._gone: weakref.WeakSet[Following] = weakref.WeakSet()
        self._thread: ServiceThread | None = None
        self._changed = Condition()
        self._wanted = False

    # --- experiments

    def add(self, experiment: Experiment) -> None:
        """Follow an experiment from now on."""
        following = experiment.following
        with self._lock:
            path = str(following.folder)
            self._followed.pop(path, None)
            self._labels.pop(path, None)
            self._followed[path] = following
            if len(self._followed) > N_EXPERIMENTS_MAX:
                self._followed.pop(next(iter(self._followed)))
        self._want()

    def look_for_new(self) -> None:
        """Follow the experiments that the process has begun or attached meanwhile, if a front end looks."""
        if self._viewers:
            self._gather()

    def followed(self) -> dict[str, Following]:
        """The experiments by their paths, oldest first, whether a front end looks or not."""
        self._gather()
        with self._lock:
            return dict(self._followed)

    def _gather(self) -> None:
        living = getattr(sys.modules.get(EXPERIMENTS), "living", None)  # another thread may be importing it
        if living is None:
            return
        handles: list[Experiment] = living()
        latest = {str(handle.following.folder): handle for handle in handles[-N_EXPERIMENTS_MAX:]}
        for path, handle in latest.items():
            if self._followed.get(path) is not handle.following and handle.following not in self._gone:
                self.add(handle)

    # --- front ends

    def subscribe(self, key: str, send: Send) -> None:
        """Tell this front end which experiments there are, from now on."""
        with self._lock:
            viewer, before = Viewer(send), self._viewers.pop(key, None)
            if before is not None and before.columns is not None:
                viewer.columns = before.columns
                viewer.columns.restart()
            self._viewers[key] = viewer
        self.look_for_new()
        self._want()

    def unsubscribe(self, key: str) -> None:
        """Tell it nothing more; harmless if it is not subscribed."""
        with self._lock:
            self._viewers.pop(key, None)
        self._want()

    def watch(self, key: str, path: str, metric: str) -> None:
        """Tell it of the trials of one experiment, beginning anew; of none if `path` is ""."""
        from .trial_columns import TrialColumns

        with self._lock:
            viewer = self._viewers.get(key)
            if viewer is not None:
                viewer.columns = TrialColumns(path, metric) if path else None
        self._want()

    def restart(self) -> None:
        """Another session has begun, and times count from its beginning: everything is told anew."""
        with self._lock:
            self._labels.clear()
            for viewer in self._viewers.values():
                viewer.told = []
                if viewer.columns is None:  # a loop ends in no `if`: scheduler/sync/condition.py
                    continue
                viewer.columns.restart()
        self._want()

    def stop(self) -> None:
        """Nobody looks any more."""
        with self._lock:
            self._viewers.clear()
        self._want()

    # --- the thread

    def _want(self) -> None:
        with self._lock:
            self._wanted = True
            if self._thread is None and self._viewers and self._followed:
                self._thread = ServiceThread(self._run, "cellmesh-trials")
                self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        interval_s = INTERVAL_S
        while True:
            self._wanted = False
            is_new, is_going_on = self._turn()
            interval_s = INTERVAL_S if is_new else min(INTERVAL_MAX_S, 1.5 * interval_s)
            with self._lock:
                if not self._wanted and (not is_going_on or not self._viewers):
                    self._thread = None
                    return
            self._changed.wait_for(lambda: self._wanted, interval_s)

    def _turn(self) -> tuple[bool, bool]:
        """Tell what is new: whether anything was, and whether there may be more."""
        from ...tune.exceptions import JournalError

        with self._lock:
            viewers, followed, origin = list(self._viewers.values()), dict(self._followed), self._origin()
        labels, is_new = [], False
        for path, following in followed.items():
            try:
                label, has_changed = self._label(path, following, origin)
            except (FileNotFoundError, JournalError):  # deleted or damaged: who asks for it by name is told
                self._forget(path, following)
                is_new = True
                continue
            labels.append(label)
            is_new |= has_changed
        is_behind = False
        for viewer in viewers:
            if labels != viewer.told:
                viewer.told = labels
                viewer.budget.send(msgspec.to_builtins(Experiments(experiments=labels)), [])
            is_behind |= self._tell_trials(viewer, followed, origin)
        return is_new or is_behind, is_behind or any(label.ended is None for label in labels)

    def _forget(self, path: str, following: Following) -> None:
        with self._lock:
            self._gone.add(following)
            if self._followed.get(path) is following:
                del self._followed[path]
                self._labels.pop(path, None)

    def _label(self, path: str, following: Following, origin: float) -> tuple[ExperimentLabel, bool]:
        from .trial_columns import label_of

        view = following.view if following.view.is_over else following.refresh()
        known = self._labels.get(path)
        if known is not None and known[0] == view.n_records:
            return known[1], False
        n, label = following.look(lambda view: (view.n_records, label_of(view, path, lambda at: at - origin)))
        self._labels[path] = n, label
        return label, True

    def _tell_trials(self, viewer: Viewer, followed: dict[str, Following], origin: float) -> bool:
        """Tell a front end what it may be told now; whether there is more."""
        columns = viewer.columns
        following = followed.get(columns.path) if columns is not None else None
        if columns is None or following is None:
            return False
        while (allowance := viewer.budget.allowance()) > 0 and viewer.columns is columns:
            n_bytes = allowance if columns.has_begun else min(allowance, FIRST_BYTES)
            message = following.look(lambda view, n=n_bytes: columns.next(view, lambda at: at - origin, n))
            if message is None:
                return False
            header, arrays = message
            data, buffers = encode_trials(header, arrays)
            viewer.budget.use(sum(map(len, buffers)))
            viewer.budget.send(data, buffers)
        return True
