"""First in, first out: every trial runs to its end."""

from __future__ import annotations

from .built_in import BuiltIn


class FIFO(BuiltIn):
    """Every trial runs to its end, in the order of their making."""

    name = "fifo"

    def __init__(self) -> None:
        super().__init__()
