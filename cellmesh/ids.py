"""Ids, as programs see them."""

from __future__ import annotations

from typing import Self


def short_id(id: str) -> str:
    """An object's id as people read it: which of the session's places it has, and how often that was used before:
    "1f-3".
    """
    try:
        return f"{int(id[-16:-8], 16):x}-{int(id[-8:], 16):x}" if len(id) == 32 else id
    except ValueError:  # of another kind
        return id


class Id(str):
    """A string of hexadecimal digits that also has the interface of Ray's ids."""

    __slots__ = ()

    def __new__(cls, id: str | bytes = "") -> Self:  # Ray's name
        return super().__new__(cls, id.hex() if isinstance(id, bytes) else id)

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """The id that `binary()` gave."""
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """The id that `hex()` gave."""
        return cls(hex_id)

    @classmethod
    def nil(cls) -> Self:
        """The id of nothing."""
        return cls("")

    def hex(self) -> str:
        """The id as text."""
        return str(self)

    def binary(self) -> bytes:
        """The id as bytes."""
        return bytes.fromhex(self)

    def size(self) -> int:
        """How many bytes it has."""
        return len(self) // 2

    def is_nil(self) -> bool:
        """Whether it is the id of nothing."""
        return not self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self!s})"


class ActorID(Id):
    """The id of an actor."""


class JobID(Id):
    """The id of a driver's program: of its session."""


class NodeID(Id):
    """The id of a machine in a session."""


class PlacementGroupID(Id):
    """The id of a placement group."""


class TaskID(Id):
    """The id of a task: its number in the session."""


class WorkerID(Id):
    """The id of a process: its number in the session."""


class ActorClassID(Id):
    """The id of an actor class; nothing here has one."""


class FunctionID(Id):
    """The id of a remote function; nothing here has one."""
