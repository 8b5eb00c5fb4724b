"""Ids, as programs see them."""
from __future__ import annotations


class Id(str):
    """A string that also has the interface of Ray's ids."""

    __slots__ = ()

    def hex(self) -> str:
        """The id as text."""
        return str(self)

    def binary(self) -> bytes:
        """The id as bytes."""
        return self.encode()

    def is_nil(self) -> bool:
        """Whether it is the id of nothing."""
        return not self
