"""Progress bars of tasks at the end of a terminal: one line each, in the order in which they came, redrawn in place."""
from __future__ import annotations

from typing import Any

N_SHOWN = 16  # more bars than that are counted


class Bars:
    """The bars that are on view. Pure: says what to write."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, str], str] = {}
        self._n_drawn = 0

    def update(self, pid: int, prefix: str, content: dict[str, Any]) -> str:
        """Take a message about a bar; the line that is to stay if the bar is over, else ""."""
        key = pid, content["id"]
        if not content["closed"]:
            self._texts[key] = f"{prefix}{content['text']}"
            return ""
        self._texts.pop(key, None)
        return content["text"]

    def forget(self, pid: int) -> None:
        """A process has ended, and its bars with it."""
        for key in [key for key in list(self._texts) if key[0] == pid]:
            self._texts.pop(key, None)

    def erase(self) -> str:
        """What removes the bars that have been drawn, the cursor being where `draw` left it."""
        n, self._n_drawn = self._n_drawn, 0
        return "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (n - 1) if n else ""

    def draw(self, width: int) -> str:
        """The bars, one per line, none longer than the window is wide."""
        lines = list(self._texts.values())
        if len(lines) > N_SHOWN:
            lines = [*lines[:N_SHOWN - 1], f"... {len(lines) - N_SHOWN + 1} more bars"]
        self._n_drawn = len(lines)
        return "\n".join(line[:width - 1] for line in lines)
