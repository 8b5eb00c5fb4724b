"""How far runs of learning are, in IPython's terminal: a line at the end of it, redrawn in place; what the loop prints
goes above it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

from ...observe.learning import LearningRun
from ...output.terminal_bars import Bars, Guards
from ...scheduler.ipc.messages import PROGRESS_MIME, WorkerOutput
from ...session.current import current_or_none
from .learning_html import learning_text

INTERVAL_S = 0.25


class LearningLines:
    """The lines of one terminal."""

    def __init__(self) -> None:
        self._bars = Bars()
        self._guards = Guards(self._erase)
        self._drawn_at = 0.0

    def changed(self, run: LearningRun) -> None:
        """A run has a new result, or is over: at most four times a second it is shown, and its end always."""
        if not run.is_over and time.monotonic() < self._drawn_at + INTERVAL_S:
            return
        self._drawn_at = time.monotonic()
        text = learning_text(run.look(), time.time()).replace("\n", " · ")
        bar = {"id": f"learning-{id(run)}", "text": text, "closed": run.is_over}
        session = current_or_none()
        if session is not None:  # its output is drawn by a thread, and so are the bars of its tasks
            data = json.dumps({"data": {PROGRESS_MIME: bar}})
            session.node.link.tell(WorkerOutput(0, session.client.origin, "display", os.getpid(), bundle=data))
        elif sys.stderr.isatty():
            self._draw(bar)
        elif run.is_over:
            print(text, file=sys.stderr)

    def _draw(self, bar: dict[str, object]) -> None:
        self._erase()
        last = self._bars.update(os.getpid(), "", bar)
        before = "" if self._guards.ends_line else "\n"
        drawn = self._bars.draw(shutil.get_terminal_size().columns)
        sys.stderr.write(before + (f"{last}\n" if last else "") + drawn)
        sys.stderr.flush()
        self._guards.ends_line = True
        if drawn:
            self._guards.install()

    def _erase(self) -> None:
        self._guards.lift()
        if erasing := self._bars.erase():
            sys.stderr.write(erasing)
            sys.stderr.flush()
