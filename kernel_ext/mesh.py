"""`%mesh`: start, look at, join and stop the session."""
from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from .cells import CellError

ACTIONS = ("start", "status", "stop", "connect")
IN_WORDS = {"ready": "queued"}  # as cards and the panel say
ONLY_START = ("cpus", "gpus", "resources", "store", "logs")


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
    if given := [name for name in ONLY_START if getattr(options, name) is not None and action != "start"]:
        raise CellError(f"%mesh {action}: --{given[0]} belongs to %mesh start")
    if options.address and action != "connect":
        raise CellError(f"%mesh {action} takes no address; %mesh connect does")
    if action in ("start", "connect"):
        from ..lifecycle import init
        try:
            if action == "connect":
                return init(address=options.address or "auto")
            return init(num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources,
                        object_store_memory=options.store, log_dir=options.logs)
        except (ValueError, ConnectionError) as error:  # of what was typed
            raise CellError(f"%mesh {action}: {error}") from None
    if action == "stop":
        return _stop()
    return _status()


def _stop() -> None:
    from ..lifecycle import is_initialized, shutdown
    was_running = is_initialized()
    shutdown()
    print("The session has ended; its processes and its memory are gone." if was_running else "No session runs.")


def _status() -> Any:
    from ..context import Context
    from ..session import current_or_none
    from ..text import in_bytes
    session = current_or_none()
    if session is None:
        print("No session runs; the first task starts one, and so does %mesh start.")
        return None
    if not session.client.closed:
        workers = Counter(client["state"] for client in session.client.clients() if client["role"] == "worker")
        stats = session.client.stats()
        tasks = Counter(IN_WORDS.get(task["state"], task["state"]) for task in session.client.tasks(stats["max_tasks"]))
        disk = f", {in_bytes(stats['disk_bytes'])} on disk" if stats["n_on_disk"] else ""
        print(f"workers: {_counted(workers)}; tasks: {_counted(tasks)}; "
              f"store: {in_bytes(stats['used_bytes'])} of {in_bytes(stats['capacity_bytes'])}{disk}")
    return Context(session)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {state}" for state, n in sorted(counts.items())) or "none"
