"""The one session of this process, and what becomes of it in forked children.

`current()` is where every call of the API begins: it starts a session if the program has not. What must not start one
uses `current_or_none` or `running`.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..exceptions import ForkedClientError, NotInitializedError, SessionClosedError, SessionLostError

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..session.session import Session


@dataclass
class _Process:
    """The session of this process, and what became of others."""

    session: Session | None = None
    is_forked: bool = False  # from a process with a session, and not shut down since
    parents: list[Session] = field(default_factory=list)  # of a forked child; kept, so that nothing is released
    starting: threading.RLock = field(default_factory=threading.RLock)
    at_exit: Callable[[], None] | None = None  # what ends the session with this process; set by what begins it


process: _Process = _Process()


def current() -> Session:
    """This process's session; the driver's is started if there is none.

    Raises
    ------
    ForkedClientError
        In a child of a process with a session.
    SessionLostError
        If the local scheduler has died.
    """
    session = process.session
    if session is None:
        return _started()
    if session.lost:
        raise lost_error(session)
    return session


def current_or_none() -> Session | None:
    """This process's session if there is one; never starts one."""
    return process.session


def running() -> Session:
    """This process's session; for calls that do not start one.

    Raises
    ------
    NotInitializedError
        If there is none.
    """
    if process.session is None and not process.is_forked:
        raise NotInitializedError(
            "no cellmesh session runs in this process: call cellmesh.init(), or use any task, first"
        )
    return current()


def of_client(client: Client) -> Session:
    """The session that a ref's client belongs to, if it is this process's."""
    session = process.session
    if session is None or session.client is not client:
        raise SessionClosedError("this ref belongs to a session that has been shut down")
    return session


def _started() -> Session:
    from .. import init  # the public one: this module lies below it

    with process.starting:
        if process.session is None:
            init()
        assert process.session is not None
        return process.session


def lost_error(session: Session) -> SessionLostError:
    """Why nothing works any more."""
    return SessionLostError(
        f"{session.why_lost()} Every task, actor and object has gone with it. Call cellmesh.init() to begin again, "
        "then run again what made the values you need"
    )


def refuse_after_fork() -> None:
    """Raises ForkedClientError in a child of a process with a session."""
    if process.is_forked:
        raise forked_error()


def forked_error() -> ForkedClientError:
    return ForkedClientError(
        "this process was forked from one that uses cellmesh, and a session cannot be shared that way. Start processes "
        "with multiprocessing's 'spawn' method or subprocess, run the work as a cellmesh task, or call "
        "cellmesh.shutdown() here first to begin a session of this process's own"
    )


def _after_fork_in_child() -> None:
    process.starting = threading.RLock()
    if process.session is not None:
        for bound in list(process.session.bound):
            bound.unbind()
        process.parents.append(process.session)
        process.session = None
        process.is_forked = True


def _at_exit() -> None:
    if process.at_exit is not None:
        process.at_exit()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)  # here, so that what is registered by modules that use sessions runs before it
