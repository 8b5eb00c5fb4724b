"""A limit on bytes per second that allows bursts, and a throttle for text that tells what it has dropped. Pure."""

from __future__ import annotations


class TokenBucket:
    """A token bucket; callers say what time it is.

    Parameters
    ----------
    rate : float, bytes/s, > 0
        What flows in the long run.
    burst : float, bytes, > 0
        What may flow at once after a quiet time.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._left, self._at = burst, now

    def take(self, n: float, now: float) -> bool:
        """Whether `n` bytes may pass now. A single piece larger than `burst` passes when the bucket is full."""
        self._left = min(self.burst, self._left + max(0.0, now - self._at) * self.rate)
        self._at = now
        if self._left < min(n, self.burst):
            return False
        self._left -= n
        return True


# What a piece of text costs beside its length: handling one is work for three processes.
PIECE_COST = 32


class Throttle:
    """Lets text pass at a rate. What does not pass is counted, and told in the text as soon as some passes again.

    Parameters
    ----------
    rate, burst, now : float
        As for `TokenBucket`.
    remedy : str
        Ends the sentence about what was dropped.
    """

    def __init__(self, rate: float, burst: float, now: float, remedy: str = "") -> None:
        self._remedy = remedy
        self._bucket = TokenBucket(rate, burst, now)
        self.n_lines = self.n_bytes = 0  # held back and not told yet

    def admit(self, text: str, now: float) -> str:
        """What may be shown of `text` now: all of it (after a note, if something was dropped before), or nothing."""
        if not self._bucket.take(len(text) + PIECE_COST, now):
            self.n_lines += text.count("\n")
            self.n_bytes += len(text)
            return ""
        return self.note() + text if self.n_bytes else text

    def note(self) -> str:
        """The sentence about what was dropped since the last one; empty if nothing was."""
        if not self.n_bytes:
            return ""
        text = (
            f"\n[cellmesh dropped {self.n_lines:,} lines ({self.n_bytes:,} characters) here: this worker prints "
            f"more than {self._bucket.rate / 1024:.0f} kB/s{self._remedy}]\n"
        )
        self.n_lines = self.n_bytes = 0
        return text
