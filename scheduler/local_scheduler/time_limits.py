"""How long tasks may run, and wait before they run again: what is due is in the segment, this acts on it."""

from __future__ import annotations

from ...objstore._core import Client
from ..system import processes
from . import core


class TimeLimits:
    """Stops tasks that have run too long, and has those try again that have waited for it."""

    def __init__(self, client: Client, pool: core.Pool) -> None:
        self._client, self._pool = client, pool
        self._killed: dict[int, list[str]] = {}  # by pid of the worker: what the error will say
        self.deadline: float | None = None  # when to look again

    def look(self) -> None:
        """Do what is due. A task is interrupted first; its worker is killed if that does not help."""
        expired = self._client.pass_times()
        self.deadline = expired.at
        for task in expired.stopped:
            if task.killed and task.pid in self._pool.workers:
                self._killed[task.pid] = [
                    f"(killed: it did not end when its task {task.number} was interrupted, as its timeout was over)"
                ]
                processes.kill_group(task.pid)
            elif not task.killed:
                self._cancel_children(task.number)

    def pass_deadline(self, now: float) -> None:
        self.look()

    def why_ended(self, pid: int) -> list[str]:
        """Lines for the report of a worker's death, if it was killed here."""
        return self._killed.get(pid, [])

    def forget_worker(self, pid: int) -> None:
        self._killed.pop(pid, None)

    def _cancel_children(self, task: int) -> None:
        tasks, child = [task], None
        while tasks:
            for child in self._client.children(tasks.pop()):
                cancelled = self._client.cancel(child, False)
                if cancelled.outcome in ("running", "actor"):
                    tasks.append(cancelled.task)
        if child is not None:
            del child
            self._client.flush()  # this process keeps no references
