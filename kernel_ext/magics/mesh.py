"""`%mesh`: start, look at, join and stop the session."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from ...submit.flags import flag_of
from ..cells.analysis.read import CellError
from .arguments import OF_CONNECT, OF_START

ACTIONS = ("start", "status", "stop", "connect")


def mesh(options: argparse.Namespace) -> Any:
    """Do what the line asks for.

    Returns
    -------
    Context or None
        What runs, for display.

    Raises
    ------
    CellError
        The line makes no sense.
    """
    action = options.action or "status"
    if action not in ACTIONS:
        raise CellError(f"%mesh {action}: there is no such action; there are {', '.join(ACTIONS)}")
    for of, names in (("start", OF_START), ("connect", OF_CONNECT)):
        given = [name for name in names if getattr(options, name) is not None]
        if given and action != of:
            raise CellError(f"%mesh {action}: {flag_of(given[0])} belongs to %mesh {of}")
    if options.address and action != "connect":
        raise CellError(f"%mesh {action} takes no address; %mesh connect does")
    if action in ("start", "connect"):
        from ...exceptions import UnknownArgumentError
        from ...startup.init import init

        try:
            if action == "connect":
                return init(address=options.address or "auto", engine_options=options.engine_options)
            return init(**{name: getattr(options, name) for name in OF_START})
        except (ValueError, UnknownArgumentError, ConnectionError) as error:  # of what was typed
            raise CellError(f"%mesh {action}: {error}") from None
    if action == "stop":
        return _stop()
    return _status()


def _stop() -> None:
    from ...startup.init import is_initialized, shutdown

    was_running = is_initialized()
    shutdown()
    print("The session has ended; its processes and its memory are gone." if was_running else "No session runs.")


def _status() -> Any:
    from ...observe.states import counted
    from ...session.current import current_or_none
    from ...startup.context import Context
    from ...text import in_bytes

    session = current_or_none()
    if session is None:
        print("No session runs; the first task starts one, and so does %mesh start.")
        return None
    if not session.client.closed:
        workers = Counter(client["state"] for client in session.client.clients() if client["role"] == "worker")
        stats = session.client.stats()
        tasks = counted(session.client)
        disk = f", {in_bytes(stats['offloaded_bytes'])} on disk" if stats["n_offloaded"] else ""
        print(
            f"workers: {_counted(workers)}; tasks: {_counted(tasks)}; "
            f"store: {in_bytes(stats['used_bytes'])} of {in_bytes(stats['capacity_bytes'])}{disk}"
        )
    return Context(session)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "none"
