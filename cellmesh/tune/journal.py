"""The journal: one file of records, one line each, that only grows.

    <storage>/<name>/journal.jsonl      the records (`records.py`)
    <storage>/<name>/code.pkl           what trials run, for `resume`; it is loaded by trials alone
    <storage>/<name>/checkpoints/       what trials saved

One controller writes at a time: it holds a lock on the file. Lines are written whole, by one system call each; what a
crash has cut off at the end is not a record, and is removed by the next writer.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..scheduler.system.user_state import state_folder
from .exceptions import ExperimentBusyError, JournalError
from .records import VERSION, AnyRecord, Closed, Launched, Opened, Record, Reported, Suggested
from .space import from_json, to_json
from .view import ExperimentView

FILE, CODE, CHECKPOINTS = "journal.jsonl", "code.pkl", "checkpoints"
BEGINNING = b'{"type":"opened",'  # of every journal

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def default_storage() -> Path:
    """Where experiments lie unless a place is given: `tune` in cellmesh's folder of the user's state."""
    return Path(state_folder("tune"))


def encode(record: Record) -> bytes:
    """The record's line."""
    if isinstance(record, Reported):
        try:  # at once, as there are thousands a second, unless something in it may need another form
            line = _encoder.encode(record)
        except (TypeError, ValueError, OverflowError):  # large numbers, lone surrogates, what has no form in JSON
            line = b"null"
        if line.find(b"null") < 0 and line.find(b'"$"') < 0:  # NaN is null, too; `in` makes an error of its own first
            return line + b"\n"
        record = msgspec.structs.replace(record, result=to_json(record.result))
    elif isinstance(record, (Suggested, Launched)) and record.config is not None:
        record = msgspec.structs.replace(record, config=to_json(record.config))
    return _encoder.encode(record) + b"\n"


def decode(line: bytes) -> AnyRecord:
    """The record of a line; `msgspec.DecodeError` if it is none."""
    record = _decoder.decode(line)
    if b'"$"' in line:
        if isinstance(record, (Suggested, Launched)) and record.config is not None:
            return msgspec.structs.replace(record, config=from_json(record.config))
        if isinstance(record, Reported):
            return msgspec.structs.replace(record, result=from_json(record.result))
    return record


class Writer:
    """Appends records to an experiment's journal, and keeps other writers away.

    Raises
    ------
    ExperimentBusyError
        Another controller writes.
    JournalError
        The file is no journal.
    """

    path: Path
    is_new: bool

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not _locked(self._file, fcntl.LOCK_EX):
            os.close(self._file)
            raise busy(folder)
        try:
            end = _end_of_records(self.path)
            if end == 0:
                _check_cut(self.path)
            os.ftruncate(self._file, end)
        except BaseException:
            self.close()
            raise
        self.is_new = end == 0

    def write(self, record: Record) -> None:
        """Append a record; `OSError` if the disk has no room, after which the file is as it was."""
        line = encode(record)
        n = os.write(self._file, line)
        if n < len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - n)
            raise OSError(28, f"no room left for the journal {self.path}")

    def close(self) -> None:
        """Let other controllers write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Reader:
    """Follows a journal: every `read` gives the records that have been added since.

    Raises
    ------
    JournalError
        A line in the middle is not a record, or a newer version of cellmesh has written the journal.
    """

    path: Path

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._offset = 0
        self._n_lines = 0

    def read(self) -> Iterator[AnyRecord]:
        """The records that are new. A line that is not whole yet is left for the next time."""
        with open(self.path, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                record = self._record(line)  # if it raises, the next reading comes to this line again
                self._offset += len(line)
                self._n_lines += 1
                yield record

    def _record(self, line: bytes) -> AnyRecord:
        if not self._n_lines:
            return _opened(line, self.path)
        try:
            record = decode(line)
        except ValueError as error:  # of msgspec, or of a text's encoding
            raise JournalError(
                f"line {self._n_lines + 1} of {self.path} is not a record of this version: {error}. What stands before "
                f"it can be saved: `head -n {self._n_lines}` of the file"
            ) from None
        return _opened(line, self.path) if isinstance(record, Opened) else record


class Following:
    """The view of an experiment that runs or has run, kept up to date from several threads.

    A notebook's thread asks for results while others draw them. Whoever reads the journal does so under the lock; what
    a view holds changes nowhere else.

    Parameters
    ----------
    folder : Path
        Where its journal lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.view: ExperimentView = ExperimentView()
        self._reader = Reader(folder)
        self._lock = threading.RLock()

    def refresh(self) -> ExperimentView:
        """Read what has happened since; the view."""
        with self._lock:
            self.view.add(self._reader.read())
            return self.view

    def look(self, at: Callable[[ExperimentView], T]) -> T:
        """`at(view)` of the view as it is now, while no other thread changes it."""
        with self._lock:
            return at(self.refresh())


def first_record(folder: Path) -> Opened | None:
    """What an experiment was begun with; None if the folder has no journal, or none that begins."""
    try:
        with open(folder / FILE, "rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return None
    if not line.endswith(b"\n"):
        _check_cut(folder / FILE)
        return None
    return _opened(line, folder / FILE)


def _locked(file: int, kind: int, tries: int = 5) -> bool:
    """Lock a file, unless somebody else has it. Who only asks (`is_written`) has it for a moment, so try again."""
    for left in reversed(range(tries)):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        except OSError:
            if left:
                time.sleep(0.002)
    return False


def has_closed(folder: Path) -> bool:
    """Whether the last record says that the experiment is over."""
    try:
        return isinstance(decode(_last_line(folder / FILE)), Closed)
    except (FileNotFoundError, ValueError):  # no journal, a damaged one, or of a newer version
        return False


def busy(folder: Path) -> ExperimentBusyError:
    """What is raised where an experiment has a controller."""
    return ExperimentBusyError(
        f"the experiment {folder.name!r} runs: a controller writes {folder / FILE}. tune.attach({folder.name!r}) shows "
        "it, and its .stop() ends it"
    )


def wait_until_free(folder: Path, timeout_s: float = 3.0) -> None:
    """Wait for the end of a controller whose session has just died.

    Raises
    ------
    ExperimentBusyError
        It lives.
    """
    end = time.monotonic() + timeout_s
    while is_written(folder):
        if time.monotonic() > end:
            raise busy(folder)
        time.sleep(0.02)


def is_written(folder: Path) -> bool:
    """Whether a controller, of whatever session, has the journal open."""
    file = os.open(folder / FILE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _locked(file, fcntl.LOCK_SH, tries=1)
    finally:
        os.close(file)


def _opened(line: bytes, path: Path) -> Opened:
    """The record with which an experiment begins."""
    try:
        header: Any = msgspec.json.decode(line)
        version = header["version"]
        assert isinstance(version, int)
    except Exception:
        raise _foreign(path) from None
    if version > VERSION:
        raise JournalError(
            f"{path} was written by a newer cellmesh ({header.get('cellmesh') or 'unknown'}): its format is "
            f"{version}, and this one reads up to {VERSION}. Update cellmesh here, or read it there"
        )
    try:
        record = decode(line)
        assert isinstance(record, Opened)
    except (ValueError, AssertionError):
        raise _foreign(path) from None
    return record


def _check_cut(path: Path) -> None:
    """`JournalError` if a file without a whole line is no journal whose writer was cut off."""
    with open(path, "rb") as file:
        text = file.read(len(BEGINNING))
    if not BEGINNING.startswith(text):
        raise _foreign(path)


def _foreign(path: Path) -> JournalError:
    return JournalError(
        f"{path} does not begin as the journal of an experiment does, so it is left alone. If nothing in {path.parent} "
        "is needed, remove that folder; or give the experiment another name"
    )


def _end_of_records(path: Path) -> int:
    """The size of a file without what follows its last line end."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def _last_line(path: Path) -> bytes:
    end = _end_of_records(path)
    with open(path, "rb") as file:
        start = max(0, end - 1_000_000)
        file.seek(start)
        lines = file.read(end - start).splitlines(keepends=True)
    return lines[-1] if lines else b""
