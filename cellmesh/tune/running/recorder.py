"""Writes the journal while an experiment runs, also when the disk is full."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from ..journal import Writer
from ..records import Record, Told

if TYPE_CHECKING:
    import asyncio

RETRY_EVERY_S = 1.0


class Recorder:
    """Appends records to a journal. While the disk has no room for them they are kept here, and the experiment goes on.

    Raises
    ------
    ExperimentBusyError
        Another controller writes it.
    """

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._writer, self._loop = Writer(folder), loop
        self._unwritten: deque[Record] = deque()

    @property
    def is_new(self) -> bool:
        """Whether the journal had no record when it was opened."""
        return self._writer.is_new

    def write(self, record: Record) -> None:
        """Append a record."""
        if self._unwritten:
            self._unwritten.append(record)
            return
        try:
            self._writer.write(record)
        except OSError as error:
            self._unwritten.append(record)
            self.tell(f"the journal cannot be written, and what happens is kept in memory until it can: {error}")
            self._retry_later()

    def tell(self, text: str) -> None:
        """Tell the user, whoever looks at the journal."""
        self.write(Told(at=time.time(), text=text))

    def close(self) -> str:
        """No record follows; what is lost, or ""."""
        try:
            self._write_kept()
        except OSError as error:
            return f"{len(self._unwritten)} records could not be written to {self._writer.path}: {error}"
        finally:
            self._unwritten.clear()
            self._writer.close()
        return ""

    def _write_kept(self) -> None:
        while self._unwritten:
            self._writer.write(self._unwritten[0])
            self._unwritten.popleft()

    def _retry(self) -> None:
        try:
            self._write_kept()
        except OSError:
            self._retry_later()

    def _retry_later(self) -> None:
        self._loop.call_later(RETRY_EVERY_S, self._retry)
