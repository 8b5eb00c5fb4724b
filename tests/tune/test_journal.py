"""The journal: what is written is read again, and what a crash or another program has left is told apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cellmesh.tune import ExperimentBusyError, JournalError, journal
from cellmesh.tune.control.elapsed import Elapsed
from cellmesh.tune.records import (
    VERSION,
    Capacity,
    Closed,
    Definition,
    Ended,
    Opened,
    Record,
    Reported,
    Saved,
    Suggested,
)

OPENED = Opened(
    at=1.5,
    version=VERSION,
    name="x",
    plan={},
    definition=Definition(
        trainable="f", space={}, scheduler={}, search=None, stop=None, num_samples=1, seed=0, resources={}
    ),
)
RECORDS: list[Any] = [
    OPENED,
    Capacity(at=2.0, n=2),
    Suggested(at=3.0, trial=0, config={"x": (1, 2), "nan": float("inf"), "big": 1 << 80}, code=b"\x80"),
    Reported(
        at=4.0, trial=0, attempt=1, result={"a/b": -float("inf"), "text": "\ud800"}, checkpoint=Saved("p", 1, 0.5)
    ),
    Reported(at=4.5, trial=0, attempt=1, result={"n": 1 << 80, "m": 1 << 63, "none": None, "list": [0.5, 2], "s": "$"}),
    Reported(at=4.6, trial=0, attempt=1, result={"$": "int", "value": (1, 2)}),
    Ended(at=5.0, trial=0, attempt=1, outcome="gone", error="it went"),
    Closed(at=6.0),
]


def test_what_several_controllers_have_run_is_added_up() -> None:
    def at(record: Any, seconds: float) -> Any:
        return msgspec.structs.replace(record, at=seconds)

    ran = Elapsed()
    for record in (OPENED, at(Closed(at=0), 3.5), at(OPENED, 100.0), at(Capacity(at=0, n=1), 101.0), at(OPENED, 200.0)):
        ran.add(record)
    assert ran.seconds == 3.0
    ran.add(at(Closed(at=0), 199.0))  # its clock was set back
    assert ran.seconds == 3.0


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with a journal of all those."""
    writer = journal.Writer(tmp_path)
    assert writer.is_new
    for record in RECORDS:
        writer.write(record)
    writer.close()
    return tmp_path


def test_what_is_written_is_read_again(written: Path) -> None:
    assert list(journal.Reader(written).read()) == RECORDS
    assert journal.first_record(written) == OPENED and journal.has_closed(written)


def test_a_reader_follows(written: Path) -> None:
    reader = journal.Reader(written)
    assert len(list(reader.read())) == len(RECORDS) and list(reader.read()) == []
    writer = journal.Writer(written)
    assert not writer.is_new
    writer.write(Capacity(at=7.0, n=3))
    assert list(reader.read()) == [Capacity(at=7.0, n=3)] and not journal.has_closed(written)
    writer.close()


def test_one_writes_at_a_time(written: Path) -> None:
    assert not journal.is_written(written)
    writer = journal.Writer(written)
    assert journal.is_written(written)
    with pytest.raises(ExperimentBusyError, match="runs: a controller writes"):
        journal.Writer(written)
    with pytest.raises(ExperimentBusyError):
        journal.wait_until_free(written, 0.01)
    writer.close()
    journal.wait_until_free(written)
    journal.Writer(written).close()


@pytest.mark.parametrize("cut", range(1, 27, 3))
def test_half_a_line_is_no_record_and_the_next_writer_removes_it(written: Path, cut: int) -> None:
    path = written / journal.FILE
    path.write_bytes(path.read_bytes()[:-cut])
    reader = journal.Reader(written)
    assert list(reader.read()) == RECORDS[:-1] and not journal.has_closed(written)
    writer = journal.Writer(written)
    writer.write(Capacity(at=7.0, n=3))
    writer.close()
    assert list(reader.read()) == [Capacity(at=7.0, n=3)]
    assert list(journal.Reader(written).read()) == [*RECORDS[:-1], Capacity(at=7.0, n=3)]


@pytest.mark.parametrize("size", [0, 1, 17, 60])
def test_a_first_line_that_was_cut_off_is_begun_again(tmp_path: Path, size: int) -> None:
    (tmp_path / journal.FILE).write_bytes(journal.encode(OPENED)[:size])
    assert journal.first_record(tmp_path) is None
    writer = journal.Writer(tmp_path)
    assert writer.is_new
    writer.write(OPENED)
    writer.close()
    assert list(journal.Reader(tmp_path).read()) == [OPENED]


def test_a_damaged_line_is_told_each_time(written: Path) -> None:
    path = written / journal.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"report"', b'"report'), *lines[4:]]))
    reader = journal.Reader(written)
    for _ in range(2):
        with pytest.raises(JournalError, match=r"line 4 of .* can be saved: `head -n 3`"):
            list(reader.read())
    path.write_bytes(b"".join([*lines[:-1], b"\xff\xfe\n"]))
    assert not journal.has_closed(written)


def test_a_newer_version_is_refused(written: Path) -> None:
    path = written / journal.FILE
    newer = journal.encode(msgspec.structs.replace(OPENED, version=VERSION + 1, cellmesh="9.0"))
    before = path.read_bytes()
    path.write_bytes(before + newer)  # which has gone on with it
    reader = journal.Reader(written)
    with pytest.raises(JournalError, match=r"newer cellmesh \(9.0\)"):
        list(reader.read())
    path.write_bytes(newer + before)
    for read in (lambda: journal.first_record(written), lambda: list(journal.Reader(written).read())):
        with pytest.raises(JournalError, match=r"newer cellmesh \(9.0\)"):
            read()


@pytest.mark.parametrize("text", [b"hello\n", b"hello", b"{}\n", b'{"version":1}\n', b"\xff\n", b'{"type":"report"'])
def test_a_foreign_file_is_left_alone(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / journal.FILE
    path.write_bytes(text)
    with pytest.raises(JournalError, match="is left alone"):
        journal.first_record(tmp_path)
    if not text.endswith(b"\n"):
        with pytest.raises(JournalError, match="is left alone"):
            journal.Writer(tmp_path)
    assert path.read_bytes() == text


def test_what_a_full_disk_leaves_of_a_line_is_taken_back(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, write = journal.Writer(written), os.write
    before = (written / journal.FILE).read_bytes()
    record: Record = Capacity(at=7.0, n=3)
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    with pytest.raises(OSError, match="no room left for the journal"):
        writer.write(record)
    monkeypatch.undo()
    assert (written / journal.FILE).read_bytes() == before
    writer.write(record)
    writer.close()
    assert list(journal.Reader(written).read()) == [*RECORDS, record]
