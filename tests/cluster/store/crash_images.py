"""What a machine that lost power finds on its disk, made of what `write_log.c` has written down.

What was synced is there. Any part of the rest may be: writes by sectors, in any order, and sizes of files; names
in the order in which they were made and removed, and only once their folder was synced for certain.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
MODES = ("none", "all", "prefix", "any", "most", "few")
_HEAD = struct.Struct("8sQQQ")


class Record(NamedTuple):
    """`kind`: create, write, cut (to `offset` bytes), sync (of a file or folder), unlink, rename (to `data`); or what
    the process has noted, without a path."""

    kind: str
    path: str
    offset: int
    data: bytes


def read_log(path: Path) -> list[Record]:
    """All of a log; one that is cut off ends before that."""
    return list(_records(memoryview(path.read_bytes())))


def _records(log: memoryview) -> Iterator[Record]:
    at = 0
    while at < len(log):
        kind, offset, path_bytes, data_bytes = _HEAD.unpack_from(log, at)
        at += _HEAD.size
        path, data = log[at : at + path_bytes], log[at + path_bytes : at + path_bytes + data_bytes]
        at += path_bytes + data_bytes
        yield Record(kind.rstrip(b"\0").decode(), bytes(path).decode(), offset, bytes(data))


@dataclass
class File:
    """`safe`: its bytes on the disk; `changes` since the last sync."""

    safe: bytearray = field(default_factory=bytearray)
    changes: list[Record] = field(default_factory=list)


Move = dict[str, File | None]  # what names mean from then on, all of them at once; None: nothing


class Disk:
    """A folder and what is safe of it."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}  # as processes see it
        self.safe: dict[str, File] = {}
        self.moves: list[Move] = []  # since their folder was synced

    def take(self, record: Record) -> None:
        """What happens next."""
        match record.kind:
            case "create":
                self._move({record.path: File()})
            case "unlink":
                self._move({record.path: None})
            case "rename":
                self._move({record.path: None, record.data.decode(): self.names[record.path]})
            case "write" | "cut":
                self.names[record.path].changes.append(record)
            case "sync" if record.path not in self.names:
                for move in [
                    move for move in self.moves if all(str(Path(name).parent) == record.path for name in move)
                ]:
                    _move(self.safe, move)
                    self.moves.remove(move)
            case "sync":
                file = self.names[record.path]
                for change in file.changes:
                    _change(file.safe, change)
                file.changes.clear()

    def _move(self, move: Move) -> None:
        _move(self.names, move)
        self.moves.append(move)

    def whole(self) -> dict[str, bytes]:
        """What there is without a loss of power."""
        return {name: _after(file, file.changes) for name, file in self.names.items()}

    def image(self, dice: random.Random, mode: str) -> dict[str, bytes]:
        """What may be found after one. `mode`: of what was not synced, which part is there."""
        n = {"none": 0, "all": len(self.moves)}.get(mode, dice.randint(0, len(self.moves)))
        names = dict(self.safe)
        for move in self.moves[:n]:
            _move(names, move)
        return {name: _after(file, _survivors(file.changes, dice, mode)) for name, file in names.items()}


def _move(names: dict[str, File], move: Move) -> None:
    for name, file in move.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def _change(data: bytearray, change: Record) -> None:
    if change.kind == "cut":
        del data[change.offset :]
    data.extend(bytes(max(0, change.offset - len(data))))
    data[change.offset : change.offset + len(change.data)] = change.data


def _after(file: File, changes: list[Record]) -> bytes:
    data = bytearray(file.safe)
    for change in changes:
        _change(data, change)
    return bytes(data)


def _survivors(changes: list[Record], dice: random.Random, mode: str) -> list[Record]:
    if mode in ("none", "all"):
        return changes if mode == "all" else []
    if mode == "prefix":
        n = dice.randint(0, len(changes))
        torn = list(_sectors(changes[n])) if n < len(changes) else []
        return [*changes[:n], *torn[: dice.randint(0, len(torn))]]
    share = {"any": 0.5, "most": 0.95, "few": 0.05}[mode]
    return [sector for change in changes for sector in _sectors(change) if dice.random() < share]


def _sectors(change: Record) -> Iterator[Record]:
    """A write by sectors of the disk, which are there or not."""
    if change.kind == "cut":
        yield change
        return
    at = 0
    while at < len(change.data):
        n = SECTOR - (change.offset + at) % SECTOR
        yield change._replace(offset=change.offset + at, data=change.data[at : at + n])
        at += n
