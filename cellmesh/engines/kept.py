"""Which large values of home a pocket, or the engine, keeps for the next tasks: those that were used last. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

from .parcels import OWN, Key

T = TypeVar("T")


class KeptValues(Generic[T]):
    """Values that home has, by the names that home has for them, for as long as it has them, each with what it is here.

    What the engine has is not kept: another process that stands for it gives the same names to others.

    Parameters
    ----------
    most_bytes : int
        Of all together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        # What it is, its size, when it was used; the one that was used last is the last.
        self._kept: dict[Key, tuple[T, int, float]] = {}
        self._n_bytes = 0
        self.used_at: float = 0.0  # seconds, monotonic

    def __len__(self) -> int:
        return len(self._kept)

    def use(self, key: Key, what: T, size: int, now: float) -> tuple[bool, list[T]]:
        """A task has that value. Whether it is kept from now on and was not before, and which are not any more."""
        if key[1] >= OWN or size > self._most_bytes:
            return False, []
        self.used_at = now
        is_new = self.forget(key) is None
        self._n_bytes += size
        gone: list[T] = []
        while self._n_bytes > self._most_bytes:
            gone.append(self._forget_oldest())
        self._kept[key] = what, size, now
        return is_new, gone

    def forget(self, key: Key) -> T | None:
        """Keep that one no more; what it is, if it was kept."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._n_bytes -= found[1]
        return found[0]

    def old(self, before: float) -> list[T]:
        """Keep none any more that was used last before that time; what they are."""
        gone: list[T] = []
        while self._kept and next(iter(self._kept.values()))[2] < before:
            gone.append(self._forget_oldest())
        return gone

    def clear(self) -> list[T]:
        """Keep none; what they are."""
        return [self._forget_oldest() for _ in list(self._kept)]

    def _forget_oldest(self) -> T:
        what, size, _ = self._kept.pop(next(iter(self._kept)))
        self._n_bytes -= size
        return what
