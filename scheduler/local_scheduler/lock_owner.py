"""Tells drivers of a process that is stopped while it holds the segment's lock, and so holds up all others."""

from __future__ import annotations

from ...objstore._core import Client
from ..ipc.messages import NodeEvent
from .peers import Peers


class LockOwner:
    """What has been told so far."""

    def __init__(self, client: Client, peers: Peers) -> None:
        self._client, self._peers = client, peers
        self._n_killed = 0

    def look(self) -> None:
        """Tell it before this process needs the lock, and waits with the others."""
        owner = self._client.stopped_owner()
        if owner.n_killed > self._n_killed:
            text = (
                f"process {owner.killed_pid} was stopped while it held the object store's lock, "
                f"and did not go on within {owner.grace_s:g} s. It has been killed, so that others can go on."
            )
            self._peers.tell_drivers(NodeEvent("lock_owner_killed", text))
        elif owner.pid:
            waits = "" if owner.is_driver else f" It will be killed in {owner.grace_s:g} s, unless it goes on."
            text = (
                f"process {owner.pid} is stopped, by a debugger for example, while it holds the object "
                f"store's lock, so everybody waits for it.{waits}"
            )
            self._peers.tell_drivers(NodeEvent("lock_owner_stopped", text))
        self._n_killed = owner.n_killed
