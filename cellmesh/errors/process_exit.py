"""How the user's code ends its own process: `sys.exit` in a task or an actor, and `exit_actor`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..exit_codes import EXITED, how_it_ended
from ..scheduler.worker import leaving

before_exit: Callable[[int], None] | None = None  # of a process that others have begun: tells them the status


def status_of(error: SystemExit) -> int:
    """The exit status that a SystemExit asks for. What is no number is printed, as Python does at the end of a
    program.
    """
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def leave_task(error: SystemExit, name: str, attempt: int, most: int) -> int:
    """A plain task ends its worker, which leaves by itself; `attempt`: which one follows, 0 if none does.

    Returns
    -------
    What the core is to note in place of an exit status.
    """
    status = status_of(error)
    if attempt == 2:  # later ones are no news
        count = f"attempt {attempt} of {most}" if most >= 0 else f"attempt {attempt}"
        print(
            f"{name!r} is run again, as sys.exit() has ended its worker: it {how_it_ended(status)} ({count})",
            file=sys.stderr,
        )
    return EXITED + status


def leave_actor(client: Any, status: int) -> NoReturn:
    """End this process, an actor's, from any thread. With status 0 the actor has done what it was there for, and does
    not begin again.
    """
    leaving.run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 0:
        client.kill_actor(client.actor_info()["object"], True)
    if before_exit is not None:
        before_exit(status)
    os._exit(status)
