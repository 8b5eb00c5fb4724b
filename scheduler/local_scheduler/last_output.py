"""The last output of a session's tasks, kept for drivers and commands that come later."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..ipc.messages import LAST_OUTPUT_CHARS, LastOutputReply, SessionConfig, WorkerOutput


class LastOutput:
    """Keeps pieces of text up to so many characters. Displays, which are for notebooks, are not kept."""

    def __init__(self, n_chars_max: int = LAST_OUTPUT_CHARS) -> None:
        self._pieces: deque[WorkerOutput] = deque()
        self._n_chars, self._n_chars_max = 0, n_chars_max
        self._n_gone = 0  # characters that were kept once

    def add(self, piece: WorkerOutput) -> None:
        if not piece.text:
            return
        self._pieces.append(piece)
        self._n_chars += len(piece.text)
        while self._n_chars > self._n_chars_max:
            n = len(self._pieces.popleft().text)
            self._n_chars, self._n_gone = self._n_chars - n, self._n_gone + n

    def replies(self, request: int, config: SessionConfig) -> Iterator[WorkerOutput | LastOutputReply]:
        """The answer to `LastOutputRequest`."""
        yield from self._pieces
        yield LastOutputReply(request, self._n_gone, config.log_dir, config.log_to_driver)
