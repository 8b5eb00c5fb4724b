"""What can become of a message between machines, and of its answer; and an example of every message."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, get_args

import msgspec
from msgspec import inspect
from support.loopback import Line

FAULTS = ("lost", "answer lost", "twice", "late", "out of order", "twice while the first is not read")


def kinds(union: Any) -> list[type]:
    """The types of the messages of a union, or the only one."""
    return list(get_args(union)) or [union]


def example(kind: type) -> Any:
    """A message of that kind with nothing in it but what must be."""
    return msgspec.convert(_example(inspect.type_info(kind)), kind)


def _example(info: Any) -> Any:
    match info:
        case inspect.StructType():
            fields = {field.encode_name: _example(field.type) for field in info.fields if field.required}
            return (
                list(fields.values())
                if info.array_like
                else {info.tag_field: info.tag, **fields}
                if info.tag_field
                else fields
            )
        case inspect.IntType():
            return info.ge or 0
        case inspect.FloatType():
            return 1.0
        case inspect.BoolType():
            return True
        case inspect.StrType():
            return "tcp://127.0.0.1:1" if info.pattern else "x"
        case inspect.BytesType():
            return bytes(info.min_length or 1)
        case inspect.ListType():
            return [_example(info.item_type)] * (info.min_length or 1)
        case inspect.DictType():
            return {_example(info.key_type): _example(info.value_type)}
        case inspect.LiteralType():
            return info.values[0]
        case inspect.UnionType():
            return None if any(isinstance(one, inspect.NoneType) for one in info.types) else _example(info.types[0])
    raise AssertionError(f"no example of {info}")


class Mishaps(Line):
    """A line on which something becomes of what passes next, in one direction. What a sender writes at once passes as
    one piece.
    """

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.n_mishaps = 0
        self.kept = b""
        self._left_behind: list[socket.socket] = []
        self._late_for: list[socket.socket] = []  # of them, where what was kept is awaited

    def arm(self, fault: str, is_back: bool = False) -> None:
        """The next piece there, or back, meets that fault; if it is the answer that is lost, the next piece of the
        other direction does.
        """
        way, other = ("spoil_back", "spoil") if is_back else ("spoil", "spoil_back")
        setattr(self, other if fault == "answer lost" else way, lambda data: self._meet(fault, is_back, data))

    def _meet(self, fault: str, is_back: bool, data: bytes) -> bytes:
        if fault == "out of order" and not self.kept:
            self.kept = data
            return b""
        self.spoil = self.spoil_back = bytes
        self.n_mishaps += 1
        if fault == "twice":
            return data + data
        if fault == "out of order":
            data, self.kept = data + self.kept, b""
            return data
        if fault in ("lost", "answer lost"):
            self.cut()
        elif fault == "late":
            self.kept = data
            self._part(None if is_back else b"")
        elif is_back:
            for end in self._towards(is_back):
                end.sendall(data)
            self.cut()
        else:
            self._part(data)
        return b""

    def _towards(self, is_back: bool) -> list[socket.socket]:
        return [other for one, other in self._other.values() if (one.getpeername() == self._there) == is_back]

    def _part(self, data: bytes | None) -> None:
        """Nothing passes on the connections any more, but this on the way there. An end that has connected finds them
        broken, and the other end does not; without `data` neither does."""
        there, here = self._towards(False), self._towards(True)
        for end in (*there, *here):
            self._epoll.unregister(end)
            self._other.pop(end.fileno())
        for end in there:
            end.sendall(data or b"")
        self._left_behind += [*there, *here]
        if data is not None:
            self._late_for = there
            for end in here:
                end.close()
        else:
            self._late_for = here

    def deliver_late(self) -> None:
        """What was kept comes at last, and goes the way of its connection."""
        for end in self._late_for:
            with suppress(OSError):  # who has given it up has closed it
                end.sendall(self.kept)
        self.kept = b""

    def close(self) -> None:
        for end in self._left_behind:
            end.close()
        super().close()
