"""`--watch`: a command again and again. In a terminal each round is drawn over the last one; elsewhere rounds follow
each other.

Each round is a process of its own, forked from this one, which has imported what it needs and joined nothing: a process
that has once joined a session keeps a place in it as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn, TextIO

# A screen of its own, without a cursor, on which long lines are cut.
HIDE, SHOW = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know this show what is between at once
WRONG_USAGE = 2


def watch(run: Callable[[], int], title: str, every_s: float, out: TextIO | None = None) -> int:
    """Run until Ctrl-C, or until nobody reads any more; the exit status of the last round.

    Parameters
    ----------
    run : callable
        Prints a round, and returns its exit status; 2 ends the watching.
    title : str
        What stands above it, in a terminal.
    every_s : float
        Between the rounds.
    out : file, optional
        By default the present stdout.
    """
    to: TextIO = out or sys.stdout
    draws = to.isatty() and os.environ.get("TERM") != "dumb"
    text, status = "", 0
    try:
        if draws:
            to.write(HIDE)
        while True:
            text, status = _round(run)
            if draws:
                above = f"{title}, every {every_s:g} s · {time.strftime('%H:%M:%S')} · Ctrl-C ends"
                to.write(screen(above, text, shutil.get_terminal_size().lines))
            else:
                to.write(text)
            to.flush()
            if status == WRONG_USAGE:
                return status
            time.sleep(every_s)
    except KeyboardInterrupt:
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())  # or Python complains when it ends
        return status
    finally:
        if draws:
            to.write(f"{SHOW}{text}")  # what was seen last stays
            to.flush()


def _round(run: Callable[[], int]) -> tuple[str, int]:
    """What a round has printed, and its exit status."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _run_and_exit(run, writing)
    os.close(writing)
    try:
        with open(reading, encoding="utf-8", errors="replace") as pipe:
            text = pipe.read()
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGINT)  # Ctrl-C has reached it too, but not everybody who interrupts types
        os.waitpid(pid, 0)
        raise
    return text, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_and_exit(run: Callable[[], int], writing: int) -> NoReturn:
    status = 1
    try:
        pipe = open(writing, "w", encoding="utf-8", errors="backslashreplace")
        with pipe, contextlib.redirect_stdout(pipe), contextlib.redirect_stderr(pipe):
            try:
                status = run()
            except KeyboardInterrupt:
                status = 130
            except BaseException as bug:  # it is told where the round is shown
                sys.excepthook(type(bug), bug, bug.__traceback__)
    finally:
        os._exit(status)


def screen(title: str, text: str, n_lines: int) -> str:
    """What draws a text over what was drawn before: each line erases the rest of the old one, so nothing flickers.
    Pure.
    """
    lines = [title, "", *text.splitlines()]
    if len(lines) > n_lines:
        lines = [*lines[: n_lines - 1], f"... {len(lines) - n_lines + 1} more lines: the window is too low"]
    return f"{BEGIN}\x1b[H" + "\x1b[K\r\n".join(lines) + f"\x1b[K\x1b[J{END}"
