"""Progress bars of tasks at the end of a terminal: one line each, in the order in which they came, redrawn in place."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
            lines = [*lines[: N_SHOWN - 1], f"... {len(lines) - N_SHOWN + 1} more bars"]
        self._n_drawn = len(lines)
        return "\n".join(line[: width - 1] for line in lines)


class Guards:
    """While bars are drawn, what the process itself writes goes above them.

    They stand in the place of sys.stdout and sys.stderr. Before anybody writes, `erase` is called, and they are gone
    until bars are drawn again.

    Parameters
    ----------
    erase : callable
        Removes the bars, and calls `lift`.
    """

    def __init__(self, erase: Callable[[], None]) -> None:
        self._erase = erase
        self._guards: dict[str, _Guard] = {}
        self._earlier: _Guard | None = None
        self.ends_line: bool = True  # what was written last

    def install(self) -> None:
        for name in ("stdout", "stderr"):
            stream, guard = getattr(sys, name), self._guards.get(name)
            if guard is None or guard.stream is not stream:
                if stream is None or isinstance(stream, _Guard):
                    continue
                # An earlier one is not freed while `print` may be in the middle of it: it borrows sys.stdout.
                self._earlier = guard
                guard = self._guards[name] = _Guard(stream, self._before)
            setattr(sys, name, guard)

    def lift(self) -> None:
        """Take them away; harmless if there are none, or others in their place."""
        for name, guard in self._guards.items():
            if getattr(sys, name) is guard:
                setattr(sys, name, guard.stream)

    def _before(self, text: str) -> None:
        self._erase()
        if text:
            self.ends_line = text.endswith("\n")


class _Guard:
    def __init__(self, stream: Any, before: Callable[[str], None]) -> None:
        self.stream, self._before = stream, before

    def write(self, text: str) -> Any:
        self._before(text)
        return self.stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
