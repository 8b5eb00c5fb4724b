"""A session's files of output: of each worker one with all that its tasks print, and one with what has been written to
its descriptors, by C code and child processes.

They are two, as their order is not known: the worker writes the one, the local scheduler the other.
"""

from __future__ import annotations

import os


class LogFile:
    """A file of a worker's output, by task.

    Parameters
    ----------
    log_dir : str
    pid : int
        The worker's.
    task : int
        The number of the task whose output the file ends with; -1: it is empty.
    of_descriptors : bool
        Which of the two.
    """

    def __init__(self, log_dir: str, pid: int, task: int = -1, *, of_descriptors: bool = False) -> None:
        self.path = f"{log_dir}/worker-{pid}{'.descriptors' if of_descriptors else ''}.log"
        self._fd = -1
        self._task = task

    def write(self, task: int, text: str) -> str:
        """Append what a task has printed; "" or why nothing is written from now on."""
        head = f"--- task {task}\n" if task != self._task else ""
        self._task = task
        try:
            if self._fd < 0:
                self._fd = os.open(
                    self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
            data = memoryview((head + text).encode("utf-8", "replace"))
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            return f"[cellmesh: output is no longer written to {self.path}: {error.strerror}]\n"
        return ""

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
