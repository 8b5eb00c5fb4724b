"""The sessions that a command is about: found by their folders, joined as another driver, and left again."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .failures import CommandError

NO_SESSION = "No cellmesh session of yours runs on this machine."


class UsageError(Exception):
    """What was asked for does not exist; the text says what does."""


class SilentSession(CommandError):
    """A session is there and lets nobody in; the text says why."""


def found_sessions(options: argparse.Namespace) -> list[str]:
    """Those that are asked for; none: a line on stderr has said so."""
    from ..scheduler.node import session_dir

    found = session_dir.alive()
    wanted = [options.session] if options.session else []
    if not found and not wanted:
        print(NO_SESSION, file=sys.stderr)
    return chosen(found, wanted)


def chosen(found: list[str], wanted: list[str]) -> list[str]:
    by_id = {id_of(folder): folder for folder in found}
    if unknown := [name for name in wanted if name not in by_id]:
        raise UsageError(f"no such session: {', '.join(unknown)}; there is {', '.join(by_id) or 'none'}")
    return [by_id[name] for name in wanted] or found


def id_of(folder: str) -> str:
    from ..scheduler.node.session_dir import id_of

    return id_of(folder)


@contextmanager
def joined(folder: str) -> Iterator[None]:
    from ..scheduler.node.handle import JoinError
    from ..scheduler.node.session_dir import SOCKET_NAME
    from ..startup.init import init, shutdown

    try:
        init(os.path.join(folder, SOCKET_NAME), log_to_driver=False)
    except JoinError as error:
        raise SilentSession(str(error)) from None
    try:
        yield
    finally:
        shutdown()


def each_session(
    options: argparse.Namespace, look: Any, show: Any, more: Sequence[dict[str, Any]] = (), of_none: int = 1
) -> int:
    """Look at each session and show it, or all of them, and `more`, as JSON; the exit status, `of_none` if there is
    nothing to show.
    """
    from ..exceptions import SessionLostError
    from ..session.scheduler_client import NoAnswerError

    found: list[dict[str, Any]] = []
    is_any_silent = False
    for folder in found_sessions(options):
        try:
            with joined(folder):
                found.append({"session": id_of(folder), **look(folder)})
        except SessionLostError:
            print(f"session {id_of(folder)} has ended meanwhile", file=sys.stderr)
            continue
        except (SilentSession, NoAnswerError) as error:
            print(f"session {id_of(folder)}: {error}", file=sys.stderr)
            is_any_silent = True
            continue
        if not options.json:
            show(found[-1])
    if options.json:
        print(json.dumps([*found, *more], default=str))
    return 1 if is_any_silent else 0 if found else of_none
