"""Which large values a pocket keeps for its next tasks: those that were used last. Pure."""

from __future__ import annotations

from .parcels import OWN, Key


class KeptValues:
    """Values that home has, by the names that home has for them, for as long as it has them.

    What the engine has is not kept: another process that stands for it gives the same names to others.

    Parameters
    ----------
    most_bytes : int
        Of all together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._sizes: dict[Key, int] = {}  # the one that was used last is the last
        self._n_bytes = 0
        self.used_at: float = 0.0  # seconds, monotonic

    def __len__(self) -> int:
        return len(self._sizes)

    def use(self, key: Key, size: int, now: float) -> tuple[bool, list[Key]]:
        """A task has that value. Whether it is kept from now on and was not before, and which are not any more."""
        if key[1] >= OWN or size > self._most_bytes:
            return False, []
        self.used_at = now
        is_new = key not in self._sizes
        self._n_bytes += size - self._sizes.pop(key, 0)
        gone: list[Key] = []
        while self._n_bytes > self._most_bytes:
            oldest = next(iter(self._sizes))
            self._n_bytes -= self._sizes.pop(oldest)
            gone.append(oldest)
        self._sizes[key] = size
        return is_new, gone

    def clear(self) -> list[Key]:
        """Keep none; which they were."""
        gone = list(self._sizes)
        self._sizes.clear()
        self._n_bytes = 0
        return gone
