"""Deletes the files of offloaded objects that are gone, and says how much is offloaded.

The process that needs room, or a value, moves the object. A file that belongs to no object is left by an object that
was freed, or by a process that died while it moved one. Deleting takes as long as the disk takes, so a thread of its
own does it, while there is something to delete.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from collections.abc import Callable, Sequence

from ...objstore._core import StoreError
from ..node.offload_dir import SCRATCH

PAUSE_S = 0.1  # between two looks at the folder
FIRST_STEP_BYTES = 128 << 20  # after the first notice, no other before so many bytes


class Sweeper:
    """Deletes files that no object refers to, in a thread of its own.

    Parameters
    ----------
    folder : str
    unwanted : callable
        Takes a list of file names and returns those that can be deleted.
    """

    def __init__(self, folder: str, unwanted: Callable[[Sequence[str]], list[str]]) -> None:
        self._folder, self._unwanted = folder, unwanted
        self._lock = _thread.allocate_lock()
        self._asked = self._runs = False

    def ask(self) -> None:
        """There may be something to delete."""
        with self._lock:
            self._asked = True
            if not self._runs:
                self._runs = True
                _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        while self._goes_on():
            try:
                self.sweep()
            except StoreError:  # the session ends, and the folder with it
                continue
            except OSError as error:
                print(f"files of objects that are gone stay on disk: {error}", file=sys.stderr)
            time.sleep(PAUSE_S)

    def _goes_on(self) -> bool:
        with self._lock:
            self._runs, self._asked = self._asked, False
            return self._runs

    def sweep(self) -> None:
        """Look once."""
        try:
            names = [name for name in os.listdir(self._folder) if not name.startswith(SCRATCH)]
        except FileNotFoundError:  # it has been removed
            return
        for name in self._unwanted(names):
            try:
                os.unlink(os.path.join(self._folder, name))
            except FileNotFoundError:  # the process that wrote it has deleted it
                continue


class Notices:
    """Says how much is offloaded, at the first object and at each doubling. Pure.

    Attributes
    ----------
    at_bytes : int
        When there is something to say next.
    """

    def __init__(self) -> None:
        self.at_bytes = 1

    def look(self, offloaded_bytes: int) -> bool:
        """Whether that many bytes are worth telling."""
        if offloaded_bytes < self.at_bytes:
            return False
        self.at_bytes = max(2 * offloaded_bytes, FIRST_STEP_BYTES)
        return True
