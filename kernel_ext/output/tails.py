"""The last lines that each task has printed, for its card.

Output goes to cells as it comes, but some readers of a kernel lose it. A notebook that nbclient or papermill executes
drops what arrives after its cell has ended, and so does a page that was reloaded meanwhile.
"""

from __future__ import annotations

import re
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...objstore._core import Client

N_LINES = 20
N_CHARS = 4000
N_TASKS = 2000

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Tails:
    """The tails of one session's tasks. One thread brings them, any may look."""

    def __init__(self) -> None:
        self._texts: OrderedDict[int, tuple[int, str]] = OrderedDict()  # by task: characters printed, the last of them

    def add(self, task: int, text: str) -> None:
        """A piece of what a task has printed on either stream; not necessarily whole lines."""
        count, before = self._texts.get(task, (0, ""))
        tail = "\n".join((before + text).split("\n")[-N_LINES - 1 :])[-N_CHARS:]
        self._texts[task] = count + len(text), tail
        self._texts.move_to_end(task)
        while len(self._texts) > N_TASKS:
            self._texts.popitem(last=False)

    def n_chars(self, task: int) -> int:
        """How much the task has printed."""
        return self._texts.get(task, (0, ""))[0]

    def of(self, task: int) -> str:
        """The last lines, without colours, redrawn ones in their last state; "" if the task has printed nothing."""
        count, text = self._texts.get(task, (0, ""))
        lines = [line.removesuffix("\r").rpartition("\r")[2] for line in text.removesuffix("\n").split("\n")]
        shown = _COLOURS.sub("", "\n".join(lines[-N_LINES:]))
        return f"…\n{shown}" if count > len(text) else shown


_tails: weakref.WeakKeyDictionary[Client, Tails] = weakref.WeakKeyDictionary()


def tails_of(client: Client) -> Tails:
    """The tails of a session."""
    return _tails.setdefault(client, Tails())
