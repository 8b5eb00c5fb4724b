"""The key-value store of a session that is part of no cluster: a file in its folder, which goes with the session.

Every process of the session opens it for each call. So nobody serves it, a process that is killed halfway has done all
of a change or nothing, and there is no connection that a fork could share. Nothing waits for a disk: the file need not
outlive the machine's power.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from ..exceptions import GetTimeoutError, SessionLostError, StoreLimitError
from ..scheduler.cluster.store.control_store import MAX_BYTES, MAX_KEYS_REPLIED

NAME = "kv.db"
BUSY_S = 10.0
PAGE_BYTES = 4096

Reply = tuple[bool, bytes, bool, list[str]]

# What changes something, by operation; it is done if a row is concerned.
CHANGES = {
    "put": "INSERT INTO entries VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = :value",
    "claim": "INSERT INTO entries VALUES (:key, :value) ON CONFLICT (key) DO NOTHING",
    "swap": "UPDATE entries SET value = :value WHERE key = :key AND value = :expected",
    "delete": "DELETE FROM entries WHERE key = :key",
}


def perform(folder: str, operation: str, key: str, value: bytes = b"", expected: bytes = b"") -> Reply:
    """As the control store does it: whether it is done, a value, whether there are more keys, and keys.

    Raises
    ------
    StoreLimitError
        There is no room.
    GetTimeoutError
        Another process holds the file and does not go on.
    SessionLostError
        The session has ended.
    """
    path = os.path.join(folder, NAME)
    try:  # before SQLite makes it with another mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise SessionLostError("the session has ended, and its key-value store with it") from None
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute(f"PRAGMA max_page_count = {MAX_BYTES // PAGE_BYTES}")
            db.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
            return _perform(db, operation, key, value, expected)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise StoreLimitError(
                f"the session's key-value store is full: at most {MAX_BYTES >> 20} MiB fit, and what "
                f"is free in {folder}. Delete some entries, or put large values into the object "
                "store"
            ) from None
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise GetTimeoutError(
                f"the session's key-value store has been held by another process for {BUSY_S:g} s: "
                "is one of them stopped?"
            ) from None
        raise


def _perform(db: sqlite3.Connection, operation: str, key: str, value: bytes, expected: bytes) -> Reply:
    if operation == "get":
        found = db.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return found is not None, found[0] if found else b"", False, []
    if operation == "keys":  # which are ASCII
        rows = db.execute(
            "SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
            (key, key + "\x7f", MAX_KEYS_REPLIED + 1),
        )
        keys = [name for (name,) in rows]
        return bool(keys), b"", len(keys) > MAX_KEYS_REPLIED, keys[:MAX_KEYS_REPLIED]
    changed = db.execute(CHANGES[operation], {"key": key, "value": value, "expected": expected}).rowcount
    return changed == 1, b"", False, []
