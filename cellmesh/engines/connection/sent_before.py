"""What workers at an address were sent the last time, in a file of the user's cache: who connects again sends it at
once, and not only when a look has found that it is missing, which takes another connection.

It is a guess, which the look at what came of it confirms; so a file that is not there, or cannot be read, does no harm.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...scheduler.node import private_dir
from .shipping import SENT

MOST = 100  # addresses; the last ones stay


def sent_before(address: str) -> tuple[str, ...]:
    """Packages, in the order of `SENT`."""
    found = _read().get(address, [])
    return tuple(name for name in SENT if name in found)


def note_sent(address: str, names: tuple[str, ...]) -> None:
    """That is what workers there are to be sent the next time."""
    known = _read()
    if tuple(known.pop(address, [])) == names:
        return
    if names:
        known[address] = [*names]
    file = _file()
    try:
        private_dir.make_with_parents(str(file.parent))
        fresh = file.with_suffix(f".{os.getpid()}")
        with open(fresh, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
            json.dump(dict([*known.items()][-MOST:]), stream)
        fresh.replace(file)
    except OSError:
        pass  # a home that is read-only


def _file() -> Path:
    return Path(private_dir.user_cache(), "cellmesh", "sent.json")


def _read() -> dict[str, list[str]]:
    try:
        found = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(names, list) for names in found.values()) else {}
