"""The control store in one SQLite file, beside the head. A commit has reached the disk when it returns (WAL with full
synchronization).

The file is readable by its owner alone, and one process uses it at a time: SQLite's own lock is held from the first
commit to the end.
"""

from __future__ import annotations

import os
import sqlite3

from .control_store import AwayError, Changes, ControlStoreError, DamagedError, ReplacedError

BUSY_S = 1.0


class SqliteBackend:
    """Records in the file at `path`, which is made if it is not there."""

    warning = ""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            # Made before SQLite sees it, so that it never has another mode; its WAL takes the mode over.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            found = os.stat(path)
        except OSError as error:
            raise ControlStoreError(f"The control store {path} cannot be opened: {error.strerror}.") from error
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise ControlStoreError(
                f"The control store {path} must belong to you alone (mode 0600), which it does not: chmod 600 {path}"
            )
        self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            self._db.close()
            raise self._told(error) from error

    def load(self) -> dict[str, bytes]:
        try:
            [problem] = self._db.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok":
                raise self._damaged(problem)
            return dict(self._db.execute("SELECT key, value FROM records"))
        except sqlite3.Error as error:
            raise self._told(error) from error

    def commit(self, changes: Changes, life: bytes | None) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                found = self._db.execute("SELECT value FROM records WHERE key = 'life'").fetchone()
                if life is not None and found != (life,):
                    raise ReplacedError
                gone = [(key,) for key, value in changes.items() if value is None]
                self._db.executemany("DELETE FROM records WHERE key = ?", gone)
                self._db.executemany(
                    "INSERT OR REPLACE INTO records VALUES (?, ?)",
                    [(key, value) for key, value in changes.items() if value is not None],
                )
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._told(error) from error

    def close(self) -> None:
        self._db.close()

    def _told(self, error: sqlite3.Error) -> ControlStoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return self._damaged(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ControlStoreError(f"The control store {self._path} is in use by another head: stop that one first.")
        return AwayError(f"The control store {self._path} cannot be written ({error}); what is in it can be read.")

    def _damaged(self, problem: object) -> DamagedError:
        return DamagedError(
            f"The control store {self._path} is damaged ({problem}): restore it from a copy, or remove "
            "it to begin again."
        )
