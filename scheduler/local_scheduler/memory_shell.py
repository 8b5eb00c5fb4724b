"""Memory and disk: what the local scheduler does so that neither runs full.

Three things. Unused memory of the store goes back to the operating system, and some is fetched ahead of need
(`store_trim`). A task is ended before the operating system ends something (`oom`). Files of objects that are gone are
deleted, and drivers hear how much is offloaded (`offload_sweep`). The decisions are in those modules.
"""

from __future__ import annotations

import signal
import time
from typing import Any

from ...objstore._core import Client
from ..ipc.messages import NodeEvent, SessionConfig
from ..node import offload_dir
from ..system import memory, processes
from ..system.sizes import in_bytes
from . import core, oom
from .loop import earliest
from .offload_sweep import Notices, Sweeper
from .peers import Peers
from .store_trim import IdleMemory


class MemoryShell:
    """Asks the segment and the machine, and performs what is decided."""

    def __init__(self, client: Client, peers: Peers, config: SessionConfig, pool: core.Pool) -> None:
        self._client, self._peers, self._config, self._pool = client, peers, config, pool
        self._idle = IdleMemory(client.stats()["capacity_bytes"])
        client.notice_idle(self._idle.keep)
        self._share = oom.threshold()  # of the memory that may be used
        self._guard_at = time.monotonic() if self._share < 1 else None
        self._ended: dict[int, list[str]] = {}  # by pid of the worker: what the error will say
        self._offload_folder = OffloadFolder(client, peers, config.offload_dir) if config.offload_dir else None

    def look(self) -> None:
        """See what has changed in the segment."""
        if self._idle.deadline is None:
            self._trim(time.monotonic())
        stats = self._client.stats()
        self.fetch_ahead(stats)
        if self._offload_folder is not None:
            self._offload_folder.look(stats)

    def fetch_ahead(self, stats: dict[str, Any]) -> None:
        """Have pages of the store ready before they are needed."""
        if stats["ahead_bytes"]:
            free = oom.left(memory.usages(), self._share)
            self._client.prepare(self._idle.ahead(int(free)))

    def client_died(self) -> None:
        """A process has ended, maybe while it wrote a file."""
        if self._offload_folder is not None:
            self._offload_folder.sweep()

    def why_ended(self, pid: int) -> list[str]:
        """Lines for the report of a worker's death, if it was ended for want of memory."""
        return self._ended.get(pid, [])

    def forget_worker(self, pid: int) -> bool:
        """The worker has ended; whether that was for want of memory."""
        return self._ended.pop(pid, None) is not None

    @property
    def deadline(self) -> float | None:
        return earliest(self._idle.deadline, self._guard_at)

    def pass_deadline(self, now: float) -> None:
        if self._idle.deadline is not None and now >= self._idle.deadline:
            self._trim(now)
        if self._guard_at is not None and now >= self._guard_at:
            self._guard_at = now + self._guard()

    def _trim(self, now: float) -> None:
        surplus = self._idle.look(now, *self._client.idle_memory())
        if surplus:
            self._client.give_back(surplus)
        if self._idle.deadline is None:
            self._client.notice_idle(self._idle.keep)

    def _guard(self) -> float:
        """End a worker if memory runs out; seconds until the next look."""
        usages = memory.usages()
        at_rest = not any(entry["task"] for entry in self._client.clients())
        next_look_s = oom.next_look_s(usages, self._share, at_rest)
        short = oom.is_short(usages, self._share)
        if short is None or self._ended:
            return next_look_s
        victim = oom.choose(self._candidates())
        if victim is None:
            return max(next_look_s, oom.PAUSE_S)
        what = "the actor" if victim.is_actor else f"the task {victim.task}"
        self._ended[victim.pid] = oom.report(victim, what, short)
        if self._client.signal(victim.pid, signal.SIGKILL):
            processes.kill_group(victim.pid)
        return oom.PAUSE_S

    def _candidates(self) -> list[oom.Candidate]:
        return [
            oom.Candidate(
                entry["pid"],
                entry["task"] or entry["last_task"],
                entry["parent"],
                entry["retriable"],
                entry["actor"] >= 0,
                memory.private_bytes(entry["pid"]),
            )
            for entry in self._client.clients()
            if entry["role"] == "worker"
            and (entry["task"] or entry["actor"] >= 0)
            and entry["pid"] in self._pool.workers
        ]


class OffloadFolder:
    """The folder of objects that memory had no room for."""

    def __init__(self, client: Client, peers: Peers, folder: str) -> None:
        self._client, self._peers, self._folder = client, peers, folder
        self._sweeper = Sweeper(folder, client.unwanted_files)
        self._notices = Notices()
        self._n_freed = 0
        self._held = offload_dir.hold(folder)  # until this process ends
        client.notice_offload(self._notices.at_bytes)

    def look(self, stats: dict[str, Any]) -> None:
        """See what has changed, by `Client.stats`."""
        self._held = offload_dir.still_held(self._held, self._folder)
        if stats["n_offloaded_freed"] != self._n_freed:
            self._n_freed = stats["n_offloaded_freed"]
            self.sweep()
        if self._notices.look(stats["offloaded_bytes"]):
            self._client.notice_offload(self._notices.at_bytes)
            text = (
                f"The object store is full: {in_bytes(stats['offloaded_bytes'])} of objects lie on disk now, "
                f"of at most {in_bytes(stats['offload_limit_bytes'])} in {stats['offload_folder']}. They come back "
                "when they are used. To have more in memory, drop refs that are no longer needed, or start with a "
                "larger object_store_memory."
            )
            self._peers.tell_drivers(NodeEvent("objects_on_disk", text))

    def sweep(self) -> None:
        """Delete files that belong to no object; in a thread."""
        self._sweeper.ask()
