"""Ids, as programs see them."""
from __future__ import annotations

from typing import Self


class Id(str):
    """A string that also has the interface of Ray's ids."""

    __slots__ = ()

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """The id that `hex()` gave."""
        return cls(text)

    @classmethod
    def nil(cls) -> Self:
        """The id of nothing."""
        return cls("")

    def hex(self) -> str:
        """The id as text."""
        return str(self)

    def binary(self) -> bytes:
        """The id as bytes."""
        return self.encode()

    def is_nil(self) -> bool:
        """Whether it is the id of nothing."""
        return not self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)})"


class ActorID(Id):
    """Of an actor."""


class JobID(Id):
    """Of a driver's program: of its session."""


class NodeID(Id):
    """Of a machine in a session."""


class PlacementGroupID(Id):
    """Of a placement group."""


class TaskID(Id):
    """Of a task: its number in the session."""


class WorkerID(Id):
    """Of a process: its number in the session."""
