"""Writes errors that the session is to raise, where no task has raised them: what the engine cannot do."""

from __future__ import annotations

import os

from ..core_hooks import Hooks
from ..objstore._core import ROLE_DRIVER, ROLE_REMOTE_NODE, Client, RemoteNode, create_segment

ROOM_BYTES, MOST = 1 << 20, 1 << 10


class ErrorWriter:
    """Encodes errors as a worker does, in a small segment of its own."""

    def __init__(self) -> None:
        segment = create_segment(ROOM_BYTES, MOST, MOST, 16, 1 << 10)
        try:
            self._hooks = Hooks()
            self._client = Client(segment, ROLE_DRIVER, self._hooks)
            self._reader = RemoteNode(Client(segment, ROLE_REMOTE_NODE, None))
        finally:
            os.close(segment)

    def bytes_of(self, error: Exception) -> bytes:
        """What an object holds whose value is this error."""
        ref = self._client.put(self._hooks.error_value(error, "engine", 0))
        self._reader.hold(ref._slot, ref._generation)
        data = self._reader.read(ref._slot, 0, self._reader.inspect(ref._slot).size)
        self._reader.drop([ref._slot])
        return data
