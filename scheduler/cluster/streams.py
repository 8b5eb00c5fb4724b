"""Generators between this node and one other: items of tasks of ours that run there, and of theirs that run here.

The stream is at home, where its reader is; the task has a stream of its own where it runs, of the same limit. What is
sealed there goes home at once, as results do; what the reader has taken at home is taken there, so the task is never
further ahead of its reader than on one machine. See objstore/core/stream.h.
"""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from msgspec import Struct

from .messages import MAX_BATCH, Items, Taken, Value
from .objects import ForeignFault

if TYPE_CHECKING:
    from .exchange import Exchange

EXISTS, CLOSED = -1, -2                     # what `Proxy.item` answers in place of a slot
FORSAKEN = (1 << 63) - 1                    # `Proxy.taken`: nobody reads on


class Ours(Struct):
    """A task of ours there that yields."""
    task: int                               # its slot here
    n_come: int = 0
    n_taken: int = 0                        # by the reader, as they have been told
    is_closed: bool = False                 # nobody reads on, as they have been told


class Theirs(Struct):
    """The stream here of a task of theirs."""
    stream: int                             # its slot; -1: nobody reads on
    is_limited: bool
    n_sent: int = 0
    n_taken: int = 0                        # by its reader, who may have had items of an attempt before, not made again


class Streams:
    """The generators' part of an `Exchange`, whose objects and tasks it shares."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange = weakref.proxy(exchange)  # whose part this is
        self._proxy, self._objects = exchange.proxy, exchange.objects
        self._ours: dict[int, Ours] = {}        # by number
        self._theirs: dict[int, Theirs] = {}    # by number

    # ---- ours, there
    def begin(self, task: int, number: int) -> int:
        """A task of ours is going there; returns its stream's limit."""
        self._ours[number] = Ours(task)
        return int(self._proxy.stream_limit(task))

    def forget(self, number: int) -> None:
        """It does not run there any more."""
        self._ours.pop(number, None)

    def items(self, message: Items) -> None:
        """Some of its items have come."""
        ours = self._ours.get(message.number)
        if ours is None or message.at > ours.n_come:
            raise ForeignFault(f"it sends items of task {message.number} that cannot be")
        for index, value in enumerate(message.values, message.at):
            slot = self._proxy.item(ours.task, index)
            if slot >= 0:
                self._exchange.sent.take_result(slot, value, message.number)
            else:  # it has come in an earlier attempt, or nobody reads on
                self._pass_over(value)
            if slot == CLOSED:
                self._close(message.number, ours)
        ours.n_come = max(ours.n_come, message.at + len(message.values))

    def _close(self, number: int, ours: Ours) -> None:
        if not ours.is_closed:
            ours.is_closed = True
            self._exchange.send(Taken(number, ours.n_taken, closed=True))

    def _pass_over(self, value: Value) -> None:
        # Told of these we have been.
        self._objects.resolve_all([*value.refs, *([] if value.there is None else [value.there])])

    def _tell_taken(self) -> None:
        for number, ours in self._ours.items():
            n = self._proxy.taken(ours.task, ours.n_come)
            if n == FORSAKEN:
                self._close(number, ours)
            elif n > ours.n_taken:
                ours.n_taken = n
                self._exchange.send(Taken(number, n))

    # ---- theirs, here
    def accept(self, number: int, stream: int, limit: int) -> None:
        """A task of theirs has been submitted, whose stream the proxy holds."""
        self._objects.hold_new(stream)
        self._theirs[number] = Theirs(stream, limit > 0)

    def taken(self, message: Taken) -> None:
        """What its reader has taken."""
        theirs = self._theirs.get(message.number)
        if theirs is None or theirs.stream < 0:
            return  # it has ended, and the two have crossed
        if message.closed:
            self._objects.drop(theirs.stream)
            theirs.stream = -1
        else:
            theirs.n_taken = max(theirs.n_taken, message.n)
            self._advance(theirs)

    def _advance(self, theirs: Theirs) -> None:
        n = min(theirs.n_taken, theirs.n_sent) if theirs.is_limited else theirs.n_sent
        self._proxy.advance(theirs.stream, n)

    def send_items(self, number: int) -> None:
        """What there is of a task of theirs."""
        theirs = self._theirs.get(number)
        while theirs is not None and theirs.stream >= 0:
            at, values = theirs.n_sent, []
            self._objects.begin_message()
            while len(values) < MAX_BATCH and not self._objects.is_full:
                slot = self._proxy.ahead(theirs.stream, at + len(values))
                if slot is None:
                    break
                self._objects.hold_new(slot)
                values.append(self._objects.value(slot, is_result=True))
                self._objects.drop(slot)
            if not values:
                return
            theirs.n_sent += len(values)
            self._exchange.send(Items(number, at, values))
            self._advance(theirs)

    def over(self, number: int) -> None:
        """It has ended, with all that it yielded told, or will not begin."""
        theirs = self._theirs.pop(number, None)
        if theirs is not None and theirs.stream >= 0:
            self._objects.drop(theirs.stream)

    def look(self) -> None:
        """Is there anything new in any of them?"""
        for number in list(self._theirs):
            self.send_items(number)
        if self._ours:
            self._tell_taken()
