"""The processes of a session, in words: what they are and what they run. As far as it can be known without asking them."""
from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from typing import Any

from .function_names import name_of
from .objstore._core import Client
from .text import in_one_line

Row = dict[str, Any]


def rows(client: Client) -> list[Row]:
    """The attached processes: what `Client.clients` tells of each, and under `name` what runs there, or the class of the actor
    that is served; "" for neither."""
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


def holders_in_words(indices: Iterable[int], attached: dict[int, Row]) -> str:
    """Who they are that hold an object, by the indices of their clients."""
    return ", ".join(in_words(attached[i]) if i in attached else "a process that has ended" for i in indices) or "no process"


def command_of(pid: int) -> str:
    """Its command line; "" if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return shlex.join(file.read().decode(errors="replace").rstrip("\0").split("\0"))
    except OSError:
        return ""


def notebook_of(pid: int) -> str:
    """What Jupyter told a kernel when it started it, "" for other processes."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().split(b"\0")
    except OSError:  # it is ending
        return ""
    marker = b"JPY_SESSION_NAME="
    path = next((entry[len(marker):] for entry in environment if entry.startswith(marker)), b"")
    return os.path.basename(path.decode(errors="replace"))
