"""Tells those who look at running experiments when something has happened.

A controller tells nobody: it writes its journal. One thread looks at the journals of all experiments that are followed,
a few times a second, and is gone when none of them runs any more. An experiment whose controller has died writes no
last record; that nobody holds the lock of its journal gives it away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...scheduler.sync.threads import ServiceThread
from .. import journal
from ..exceptions import TuneError
from ..experiment import Experiment

LOOK_EVERY_S = 0.25
LOOKING_SHARE = 0.1  # of the time, with very many trials
STILL_LOOKS = 8  # without a new record, after which it is looked whether there is a controller

Changed = Callable[[bool], object]  # told whether it was the last time


class Followed:
    """One experiment, and who is told of it; `size_bytes` is how much of its journal that one has seen."""

    def __init__(self, experiment: Experiment, size_bytes: int, changed: Changed) -> None:
        self.experiment: Experiment = experiment
        self._changed = changed
        self._size = size_bytes
        self._n_still = 0

    def look(self) -> bool:
        """Tell what is new; whether nothing more will come."""
        size = self.experiment.size_bytes
        if size != self._size:
            self._size, self._n_still = size, 0
            is_last = self._is_over()
        else:
            self._n_still += 1
            if self._n_still % STILL_LOOKS:
                return False
            is_last = not journal.is_written(self.experiment.folder)
            if not is_last:
                return False
        self._changed(is_last)
        return is_last

    def _is_over(self) -> bool:
        try:
            return self.experiment.refresh().is_over
        except (TuneError, OSError):  # who is told of it sees that as well, and says it
            return True


class Following:
    """All that are followed in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed: list[Followed] = []
        self._thread: ServiceThread | None = None

    def add(self, experiment: Experiment, size_bytes: int, changed: Changed) -> None:
        """Call `changed(is_last)` whenever the journal has another size than it had when it was last seen, from a
        thread, until the experiment is over or nobody runs it.

        The size is that of what has been shown: a record that was written since, after which a trial may be silent for
        an hour, is told of.
        """
        with self._lock:
            self._followed.append(Followed(experiment, size_bytes, changed))
            if self._thread is None:
                self._thread = ServiceThread(self._run, "cellmesh-experiments")
            thread = self._thread
        thread.start()

    def _run(self) -> None:
        pause = LOOK_EVERY_S
        while True:
            time.sleep(pause)
            began = time.thread_time()
            with self._lock:
                followed = list(self._followed)
            over = [one for one in followed if one.look()]
            pause = max(LOOK_EVERY_S, (time.thread_time() - began) / LOOKING_SHARE)
            with self._lock:
                self._followed = [one for one in self._followed if one not in over]
                if not self._followed:
                    self._thread = None
                    return


following: Following = Following()
