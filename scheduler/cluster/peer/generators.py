"""Generators between this node and one other, the peer: items of tasks of this node that run there, and of tasks of the
peer that run here.

The stream is at home, where its reader is; the task has a stream of its own where it runs, of the same limit. What is
sealed there goes home at once, as results do; what the reader has taken at home is taken there, so the task is never
further ahead of its reader than on one machine. See objstore/core/objects/stream.h.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from msgspec import Struct

from ....objstore._core import ITEM_UNWANTED, STREAM_FORSAKEN
from ..messages import MAX_BATCH, Items, Taken, Value
from .objects import ForeignFault

if TYPE_CHECKING:
    from .peer import Peer


class StreamOut(Struct):
    """A task of this node that runs there and yields."""

    task: int  # its slot here
    n_come: int = 0
    n_taken: int = 0  # by the reader, as the peer has been told
    is_closed: bool = False  # it is not read on, and the peer has been told


class StreamIn(Struct):
    """The stream here of a task of the peer."""

    stream: int  # its slot; -1: it is not read on
    is_limited: bool
    n_sent: int = 0
    n_taken: int = 0  # by its reader, which may have had items of an attempt before, that are not made again


class Streams:
    """The generators' part of a `Peer`, whose objects and tasks it shares."""

    def __init__(self, peer: Peer) -> None:
        self._peer: Peer = weakref.proxy(peer)  # the one that this is a part of
        self._remote_node, self._objects = peer.remote_node, peer.objects
        self._streams_out: dict[int, StreamOut] = {}  # by number
        self._streams_in: dict[int, StreamIn] = {}  # by number

    # ---- of this node, there
    def begin(self, task: int, number: int) -> int:
        """A task of this node is going there; returns its stream's limit."""
        self._streams_out[number] = StreamOut(task)
        return int(self._remote_node.stream_limit(task))

    def forget(self, number: int) -> None:
        """It does not run there any more."""
        self._streams_out.pop(number, None)

    def items(self, message: Items) -> None:
        """Some of its items have come."""
        stream_out = self._streams_out.get(message.number)
        if stream_out is None or message.at > stream_out.n_come:
            raise ForeignFault(f"it sends items of task {message.number} that cannot be")
        for index, value in enumerate(message.values, message.at):
            slot = self._remote_node.item(stream_out.task, index)
            if slot >= 0:
                self._peer.tasks_out.take_result(slot, value, message.number)
            else:  # it has come in an earlier attempt, or it is not read on
                self._pass_over(value)
            if slot == ITEM_UNWANTED:
                self._close(message.number, stream_out)
        stream_out.n_come = max(stream_out.n_come, message.at + len(message.values))

    def _close(self, number: int, stream_out: StreamOut) -> None:
        if not stream_out.is_closed:
            stream_out.is_closed = True
            self._peer.send(Taken(number, stream_out.n_taken, closed=True))

    def _pass_over(self, value: Value) -> None:
        # This node has been told of these.
        self._objects.resolve_all([*value.refs, *([] if value.there is None else [value.there])])

    def _tell_taken(self) -> None:
        for number, stream_out in self._streams_out.items():
            n = self._remote_node.taken(stream_out.task, stream_out.n_come)
            if n == STREAM_FORSAKEN:
                self._close(number, stream_out)
            elif n > stream_out.n_taken:
                stream_out.n_taken = n
                self._peer.send(Taken(number, n))

    # ---- of the peer, here
    def accept(self, number: int, stream: int, limit: int) -> None:
        """A task of the peer has been submitted, whose stream the remote node holds."""
        self._objects.hold_new(stream)
        self._streams_in[number] = StreamIn(stream, limit > 0)

    def taken(self, message: Taken) -> None:
        """What its reader has taken."""
        stream_in = self._streams_in.get(message.number)
        if stream_in is None or stream_in.stream < 0:
            return  # it has ended, and the two have crossed
        if message.closed:
            self._objects.drop(stream_in.stream)
            stream_in.stream = -1
        else:
            stream_in.n_taken = max(stream_in.n_taken, message.n)
            self._advance(stream_in)

    def _advance(self, stream_in: StreamIn) -> None:
        n = min(stream_in.n_taken, stream_in.n_sent) if stream_in.is_limited else stream_in.n_sent
        self._remote_node.advance(stream_in.stream, n)

    def send_items(self, number: int) -> None:
        """Send what there is of a task of the peer."""
        stream_in = self._streams_in.get(number)
        while stream_in is not None and stream_in.stream >= 0:
            at = stream_in.n_sent
            values: list[Value] = []
            self._objects.begin_message()
            while len(values) < MAX_BATCH and not self._objects.is_full:
                slot = self._remote_node.ahead(stream_in.stream, at + len(values))
                if slot is None:
                    break
                self._objects.hold_new(slot)
                values.append(self._objects.value(slot, is_result=True))
                self._objects.drop(slot)
            if not values:
                return
            stream_in.n_sent += len(values)
            self._peer.send(Items(number, at, values))
            self._advance(stream_in)

    def over(self, number: int) -> None:
        """It has ended, with all that it yielded told, or will not begin."""
        stream_in = self._streams_in.pop(number, None)
        if stream_in is not None and stream_in.stream >= 0:
            self._objects.drop(stream_in.stream)

    def look(self) -> None:
        """See whether there is anything new in any of them."""
        for number in list(self._streams_in):
            self.send_items(number)
        if self._streams_out:
            self._tell_taken()
