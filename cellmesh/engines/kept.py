"""Which large values of home a pocket, or the engine, keeps for the next tasks: those that were used last. Pure."""

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
        self._kept: dict[Key, tuple[int, float]] = {}  # size, when it was used; the one that was used last is the last
        self._n_bytes = 0
        self.used_at: float = 0.0  # seconds, monotonic

    def __len__(self) -> int:
        return len(self._kept)

    def use(self, key: Key, size: int, now: float) -> tuple[bool, list[Key]]:
        """A task has that value. Whether it is kept from now on and was not before, and which are not any more."""
        if key[1] >= OWN or size > self._most_bytes:
            return False, []
        self.used_at = now
        is_new = not self.forget(key)
        self._n_bytes += size
        gone: list[Key] = []
        while self._n_bytes > self._most_bytes:
            gone.append(self._oldest())
            self.forget(gone[-1])
        self._kept[key] = size, now
        return is_new, gone

    def _oldest(self) -> Key:
        return next(iter(self._kept))

    def forget(self, key: Key) -> bool:
        """Keep that one no more; whether it was kept."""
        size, _ = self._kept.pop(key, (-1, 0.0))
        self._n_bytes -= max(0, size)
        return size >= 0

    def old(self, before: float) -> list[Key]:
        """Keep none any more that was used last before that time; which they were."""
        gone: list[Key] = []
        while self._kept and self._kept[self._oldest()][1] < before:
            gone.append(self._oldest())
            self.forget(gone[-1])
        return gone

    def clear(self) -> list[Key]:
        """Keep none; which they were."""
        gone = list(self._kept)
        self._kept.clear()
        self._n_bytes = 0
        return gone
