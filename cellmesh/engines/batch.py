"""The tasks of one parcel in its pocket: which have ended, which are yet to begin, and which will not begin here."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from ..scheduler.cluster.messages import Task
from .parcels import Done, Outcomes


class Batch:
    """See above. The thread that runs them takes one after the other; another one tells of them meanwhile.

    Parameters
    ----------
    tasks : sequence of Task
        In the order in which they run.

    Attributes
    ----------
    is_stopped : bool
        None is to begin any more. Set by a signal handler too, so there is no lock around it.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.is_stopped: bool = False
        self._left = deque(tasks)
        self._ended: list[tuple[int, Done]] = []  # that nobody was told of
        self._back: list[int] = []  # likewise
        self._is_alone = self._is_broken_up = self._is_asked = False
        self._lock = threading.Lock()

    def interrupt(self) -> bool:
        """The parcel is cancelled. Whether the one that runs is to be interrupted: it is the last, and all others were
        told of; else none begins any more. Called by a signal handler, too, so there is no lock around it."""
        self.is_stopped = True
        self._is_asked = self._is_broken_up
        return self._is_alone

    def next(self) -> Task | None:
        """The one that begins now."""
        with self._lock:
            if self.is_stopped:
                self._give_back()
            return self._left.popleft() if self._left else None

    def end(self, task: Task, done: Done, n_large: int) -> None:
        """It has ended. `n_large`: so many large values lie beside; those wait for no other task."""
        with self._lock:
            self._ended.append((task.number, done))
            self._is_alone = False
            self.is_stopped |= n_large > 0

    def refuse(self, task: Task | None) -> None:
        """There is no room for it, if any, and for those behind it, beside what the parcel has made here so far."""
        with self._lock:
            if task is not None:
                self._left.appendleft(task)
            self._give_back()

    def break_up(self) -> Outcomes | None:
        """It takes long: those that have not begun do not begin here. What is to be told."""
        with self._lock:
            self._give_back()
            self._is_broken_up = True
            return Outcomes([*self._ended], [*self._back]) if self._ended or self._back else None

    def told(self, outcomes: Outcomes) -> bool:
        """That has come where it was told. Whether the one that runs is to be interrupted now: that was asked for while
        nobody knew yet that this has come."""
        with self._lock:
            self._ended, self._back = self._ended[len(outcomes.ended) :], self._back[len(outcomes.back) :]
            self._is_alone = not self._ended and not self._back
            return self._is_alone and self._is_asked

    def rest(self) -> Outcomes:
        """At the end: what nobody was told of."""
        with self._lock:
            return Outcomes(self._ended, self._back)

    def _give_back(self) -> None:
        self._back += [task.number for task in self._left]
        self._left.clear()
