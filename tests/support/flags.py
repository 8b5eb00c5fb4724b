"""Flags between tests and tasks: files, so that they work in every process and outlive whoever set them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from support.waiting import wait_until


@dataclass(frozen=True)
class Flag:
    """Something that has happened, or not yet. Picklable."""

    path: Path

    def set(self, text: str = "") -> None:
        """It has happened; `text` is for whoever waits."""
        partial = self.path.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.rename(self.path)

    def set_by_me(self) -> None:
        """Set with this process's pid as text."""
        self.set(str(os.getpid()))

    def is_set(self) -> bool:
        return self.path.exists()

    def wait(self, deadline: float = 30.0) -> str:
        """Wait until it is set; its text."""
        wait_until(self.is_set, deadline, f"flag {self.path.name}")
        return self.path.read_text()


@dataclass(frozen=True)
class Counter:
    """How often something has happened, by any process. Picklable."""

    path: Path

    def add(self) -> int:
        """Once more; how often it was by then, this time included."""
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, b".")
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    @property
    def value(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0
