"""Amounts of memory in words, and the length of names. Modules use it that must not import the messages yet."""

from __future__ import annotations

MAX_NAME_CHARS = 256


def in_bytes(n: float) -> str:
    """1_500_000 -> '1.5 MB', with decimal prefixes as in the panel."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            return f"{n:.0f} B" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError("the loop returns at TB")
