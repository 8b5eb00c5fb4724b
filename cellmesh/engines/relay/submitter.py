"""The end of the line where the engine is: does there what is asked for at home, and keeps what the engine tells until
home has it. Pure; see `pieces`.

Home calls parcels, actors, groups and blobs by numbers of its own, so that it need not wait for the engine's; of blobs
that the engine makes, the submitter chooses the number, below 0.
"""

from __future__ import annotations

import itertools
import pickle
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from ..interface import (
    ActorEnded,
    Blob,
    Came,
    Ended,
    Engine,
    EngineNode,
    Event,
    Failed,
    Lost,
    NodesChanged,
    Parcel,
    Said,
    SetAside,
)
from .pieces import Incoming, Outgoing
from .prints import Prints


class Names:
    """What home and the engine call the same things."""

    def __init__(self) -> None:
        self._theirs: dict[Hashable, Hashable] = {}
        self._ours: dict[Hashable, int] = {}

    def add(self, number: int, theirs: Hashable) -> None:
        """Home's number for what the engine calls so."""
        self._theirs[number], self._ours[theirs] = theirs, number

    def theirs(self, number: Hashable) -> Hashable:
        """The engine's for a number; None, which it does not know: for what is over."""
        return self._theirs.get(number)

    def ours(self, theirs: Hashable) -> int | None:
        """Home's; None: it is over."""
        return self._ours.get(theirs)

    def drop(self, number: int) -> None:
        """It is over."""
        del self._ours[self._theirs.pop(number)]


class Submitter:
    """See above.

    Parameters
    ----------
    engine : Engine
        Connected, or to be, with `tell`.
    prints : Prints, optional
        How much of what tasks print is kept.
    """

    def __init__(self, engine: Engine, prints: Prints | None = None) -> None:
        self._engine, self._prints = engine, prints or Prints()
        self._calls, self._events = Incoming(), Outgoing()
        self._told: deque[Event] = deque()
        self._runs, self._groups, self._blobs = Names(), Names(), Names()
        self._actors: set[int] = set()  # of which neither the constructor nor the process has ended
        self._half: set[int] = set()  # of which one of the two has
        self._asked: dict[Blob, deque[int]] = {}  # that are fetched, by home's number as it was then
        self._numbers = itertools.count(-1, -1)

    def tell(self, event: Event) -> None:
        """Called by the engine, in any thread. What it is about may have no number yet: so it is looked at later."""
        self._told.append(self._prints.admit(event) if isinstance(event, Said) else event)

    @property
    def has_news(self) -> bool:
        """Whether there is something that home is not known to have."""
        return bool(self._told) or bool(self._events) or self._prints.has_notice

    def give(self, batch: bytes) -> int:
        """Do what is asked for. Returns up to which number the pieces of that have come."""
        for head, data in self._calls.take(batch):
            name, *given = pickle.loads(head)
            getattr(self, f"_{name}")(*given, *([data] if name == "put" else []))
        return self._calls.n

    def came(self, n: int) -> None:
        """Home has the pieces up to that number."""
        self._events.came(n)
        self._prints.came(n)

    def take(self) -> bytes:
        """What home is not known to have, or the first of it."""
        while self._told:
            event = self._told.popleft()
            if (found := self._translated(event)) is not None:
                data: bytes | memoryview = b""
                if isinstance(found, Came):
                    found, data = replace(found, data=b""), memoryview(found.data)
                number = self._events.add(pickle.dumps(found), data)
                if isinstance(event, Said):
                    self._prints.sent(event, number)
        if self._prints.has_notice:
            self._events.add(pickle.dumps(self._prints.notice()))
        return self._events.batch()

    # ---- what home asks for
    def _submit(self, number: int, parcel: Parcel) -> None:
        self._runs.add(number, self._engine.submit(self._named(parcel)))

    def _create_actor(self, number: int, parcel: Parcel, keeps: dict[str, float]) -> None:
        self._actors.add(number)
        self._runs.add(number, self._engine.create_actor(self._named(parcel), keeps))

    def _call(self, number: int, actor: int, parcel: Parcel) -> None:
        self._runs.add(number, self._engine.call(self._runs.theirs(actor), self._named(parcel)))

    def _named(self, parcel: Parcel) -> Parcel:
        bundle = parcel.bundle
        return replace(
            parcel,
            blobs=[self._blobs.theirs(blob) for blob in parcel.blobs],
            bundle=bundle and replace(bundle, group=self._groups.theirs(bundle.group)),
        )

    def _cancel(self, handle: int, force: bool) -> None:
        self._engine.cancel(self._runs.theirs(handle), force)

    def _withdraw(self, handle: int) -> None:
        self._engine.withdraw(self._runs.theirs(handle))

    def _kill(self, actor: int, force: bool) -> None:
        self._engine.kill(self._runs.theirs(actor), force)

    def _say(self, handle: int, message: bytes) -> None:
        self._engine.say(self._runs.theirs(handle), message)

    def _put(self, number: int, data: memoryview) -> None:
        self._blobs.add(number, self._engine.put(data))

    def _fetch(self, number: int) -> None:
        blob = self._blobs.theirs(number)
        self._asked.setdefault(blob, deque()).append(number)
        self._engine.fetch(blob)

    def _release(self, numbers: Sequence[int]) -> None:
        self._engine.release([self._blobs.theirs(number) for number in numbers])
        for number in numbers:
            self._blobs.drop(number)

    def _reserve(self, number: int, bundles: Any, strategy: Any) -> None:
        self._groups.add(number, self._engine.reserve(bundles, strategy))

    def _unreserve(self, group: int) -> None:
        self._engine.unreserve(self._groups.theirs(group))
        self._groups.drop(group)

    # ---- what the engine tells
    def _translated(self, event: Event) -> Event | list[EngineNode] | None:
        """As home calls things; None: it does not want to know any more."""
        match event:
            case Ended(handle, _, blobs):
                return replace(event, handle=self._over(handle, False), blobs=self._adopted(blobs))
            case Failed(handle):
                return replace(event, handle=self._over(handle, True))
            case ActorEnded(actor):
                number = self._runs.ours(actor)
                if number is None:
                    return None
                self._half_over(number)
                return replace(event, actor=number)
            case Said(_, blobs):
                return replace(event, blobs=self._adopted(blobs))
            case Came(blob) | Lost(blob):
                numbers = self._asked[blob]
                found = replace(event, blob=numbers.popleft())
                if not numbers:
                    del self._asked[blob]
                return found
            case SetAside(group):
                number = self._groups.ours(group)
                return None if number is None else SetAside(number)
            case NodesChanged():
                return self._engine.nodes()
            case _:
                return event

    def _adopted(self, blobs: Sequence[Blob]) -> list[int]:
        numbers = [next(self._numbers) for _ in blobs]
        for number, blob in zip(numbers, blobs, strict=True):
            self._blobs.add(number, blob)
        return numbers

    def _over(self, handle: Hashable, has_failed: bool) -> int:
        """A parcel has ended: its number."""
        number = self._runs.ours(handle)
        assert number is not None  # one end of each follows
        if number in self._actors and not has_failed:
            self._half_over(number)
        else:
            self._actors.discard(number)
            self._half.discard(number)
            self._runs.drop(number)
        return number

    def _half_over(self, number: int) -> None:
        """Of an actor, the constructor has ended, or the process: once both have, it is over."""
        if number in self._half:
            self._half.remove(number)
            self._actors.remove(number)
            self._runs.drop(number)
        else:
            self._half.add(number)
