"""What other processes print while a test looks."""

from __future__ import annotations

import codecs
import os
from typing import Any

import pytest


def keep_all(captured: pytest.CaptureFixture[str]) -> None:
    """Have `readouterr` of `capfd` lose nothing: by itself pytest reads its file and then empties it, and what comes
    between is gone. A test that looks again and again meets that.
    """
    for stream in (captured._capture.out, captured._capture.err):
        stream.snap = _Reader(stream.tmpfile.fileno()).read


class _Reader:
    """Reads on where it was, without moving the place at which others write."""

    def __init__(self, fd: int) -> None:
        self._fd, self._at = fd, 0
        self._decoder: Any = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        data = os.pread(self._fd, os.fstat(self._fd).st_size - self._at, self._at)
        self._at += len(data)
        return self._decoder.decode(data)
