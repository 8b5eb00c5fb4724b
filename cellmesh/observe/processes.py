"""The processes of a session, in words: what they are and what they run. As far as it can be known without asking
them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..objstore._core import Client
from ..observe.function_names import name_of
from ..scheduler.system.processes import notebook_of
from ..text import in_one_line

Row = dict[str, Any]


def rows(client: Client) -> list[Row]:
    """The attached processes: what `Client.clients` tells of each, and under `name` what runs there, or the class of
    the actor that is served; "" for neither."""
    found = client.clients()
    for row in found:
        slot, generation = row.pop("function")
        named = name_of(client, slot, generation) if slot >= 0 else None
        row["name"] = named[1] if named else ""
    return found


def in_words(row: Row) -> str:
    """'pid 7 (worker, runs f)'."""
    pid = row["pid"]
    if not os.path.exists(f"/proc/{pid}"):
        return f"pid {pid} (has ended)"
    words = "local scheduler" if row["role"] == "scheduler" else row["role"]
    if pid == os.getpid():
        words = f"this {words}"
    elif row["role"] == "driver" and (notebook := notebook_of(pid)):
        words = f"driver, notebook {in_one_line(notebook)}"
    if row["name"]:
        words += f", {'runs' if row['task'] else 'actor'} {in_one_line(row['name'])}"
    elif row["state"] == "idle":
        words += ", idle"
    return f"pid {pid} ({words})"


def calls_in_words(row: Row) -> str:
    """What an actor runs: 'Trainer.step', 'Trainer.step and 2 more'; "" for nothing."""
    more = row["running_calls"] - 1
    return f"{row['name']}{f' and {more} more' if more > 0 else ''}" if row["task"] else ""


def holders_in_words(indices: Iterable[int], attached: dict[int, Row]) -> str:
    """The processes that hold an object, by the indices of their clients."""
    return (
        ", ".join(in_words(attached[i]) if i in attached else "a process that has ended" for i in indices)
        or "no process"
    )
