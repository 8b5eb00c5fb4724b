"""Objects between this node and one other, the peer: which of this node's it knows, and which of its have a slot here.

Objects keep their home: the segment where they were made. A machine that hears of one makes a slot of its own for it,
an *import*, and the one that has told of it keeps it, with the remote node's hold, until it hears that it is released.
An import can be told of in turn, so a machine that is two steps away holds the import, which holds the object: no node
has to know them all, and what a lost machine held goes with its remote node. Bytes travel with the news of an object if
they are few, otherwise when they are read (`transfers`).

What comes from the other machine is checked, never believed: a slot that it names must be one that it has been told of.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ....objstore._core import (
    FAILURE_CANNOT_LEAVE,
    FAILURE_OBJECT_LOST,
    FAILURE_SHARED_STAYS,
    FAILURE_STORE_FULL,
    FAILURE_UNROUTED,
    OBJECT_ERROR,
    OBJECT_FAILED,
    OBJECT_PENDING,
    OBJECT_READY,
    PLACE_HERE,
    StoreError,
)
from ..messages import MAX_BATCH, MAX_INLINE_BYTES, Message, Ref, Released, Sealed, Told, Value, Want
from .capacity import is_full

if TYPE_CHECKING:
    from .lineage import Lineage
    from .peer import Peer

# References inside values inside values travel along so deep; further ones are asked for.
DEPTH = 4
# Bytes of values in one message, about, as others wait for the link, too; and references in one value, at most.
MESSAGE_BYTES = 2 << 20
MOST_REFS = 500_000


class ForeignFault(Exception):
    """The other machine names what it cannot know: it is not to be spoken with any more."""


class Objects:
    """The objects' part of a `Peer`. `most_bytes`: there is no room here for larger ones."""

    def __init__(self, peer: Peer, lineage: Lineage, most_bytes: int) -> None:
        self._peer: Peer = weakref.proxy(peer)  # the one that this is a part of
        self._remote_node = peer.remote_node
        self._lineage, self._most_bytes = lineage, most_bytes
        self._imports: dict[tuple[int, int], int] = {}  # (slot, generation) there -> slot here
        self._origin: dict[int, Told] = {}  # and back; `n`: how often this node has been told
        self._told: dict[int, Told] = {}  # slots here that the peer knows; `n`: how often it has been told
        self._held: Counter[int] = Counter()  # why the remote node holds a slot: so many reasons
        self._awaited: set[int] = set()  # told while pending
        self._wants: list[Told] = []  # to be asked for when the message that is being read is done
        self._refused: list[Told] = []  # to be released, as there is no room here to name them
        self._room = 0  # bytes of values that still go into the message that is being written

    @property
    def n_imports(self) -> int:
        """Objects of the peer that have a slot here."""
        return len(self._imports)

    def imports(self) -> list[tuple[int, int]]:
        """They, as the peer calls them."""
        return list(self._imports)

    # ---- messages and their size
    def begin_message(self) -> None:
        """So many bytes of values go into it."""
        self._room = MESSAGE_BYTES

    def add_bytes(self, n: int) -> None:
        """Of something else that goes into it."""
        self._room -= n

    @property
    def is_full(self) -> bool:
        """Whether the message that is being written has enough in it."""
        return self._room <= 0

    def send_all(self, message: Callable[[list[Any]], Message], items: Iterable[Any]) -> None:
        """Say that of all of them, in as many messages as it takes. `items` may tell of objects while they are made."""
        batch: list[Any] = []
        self.begin_message()
        for item in items:
            batch.append(item)
            if self._room <= 0 or len(batch) == MAX_BATCH:
                self._peer.send(message(batch))
                batch = []
                self.begin_message()
        if batch:
            self._peer.send(message(batch))

    # ---- telling of objects
    def tell(self, slot: int, depth: int = DEPTH, value: bool = True) -> Ref:
        """What an object here is called towards the other, which is told of it."""
        origin = self._origin.get(slot)
        if origin is not None:
            return Ref(origin.slot, origin.generation, yours=True)
        told = self._told.get(slot)
        if told is not None:
            self._told[slot] = Told(told.slot, told.generation, told.n + 1)
            return Ref(slot, told.generation)
        self.hold(slot)
        generation = self._remote_node.generation(slot)
        self._told[slot] = Told(slot, generation, 1)
        is_told_now = value and ((depth and self._room > 0) or self._peer.actors.describe(slot) is not None)
        return Ref(slot, generation, value=self.value(slot, depth) if is_told_now else None)

    def value(self, slot: int, depth: int = DEPTH, is_result: bool = False) -> Value:
        """What an object holds; if it is pending, the other will be told once it is sealed. If a task of the peer has
        made it (`is_result`), the peer is told where its bytes are if those are many."""
        try:
            found = self._remote_node.inspect(slot)
        except TypeError:  # shared; or a stream, or an actor with very many methods, deep inside a value
            error = self._remote_node.shared_error(slot)
            if error is None:
                return Value(OBJECT_FAILED, code=FAILURE_CANNOT_LEAVE)
            return Value(OBJECT_ERROR, len(error), error)
        if found.state == OBJECT_PENDING and not self._remote_node.await_sealed(slot):
            found = self._remote_node.inspect(slot)
        state, size, refs = found.state, found.size, found.refs
        if state == OBJECT_PENDING:
            self._awaited.add(slot)
            return Value(OBJECT_PENDING)
        if state == OBJECT_FAILED:
            return Value(
                OBJECT_FAILED,
                code=found.failure,
                detail=self._peer.bundles.detail(found.failure, found.failure_detail),
            )
        if len(refs) > MOST_REFS:
            return Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST)
        is_large = size > MAX_INLINE_BYTES
        data = b"" if is_large else self._remote_node.read(slot, 0, size)
        self._room -= len(data) + 16 * len(refs)
        return Value(
            state,
            size,
            data,
            [self.tell(ref, depth - 1) for ref in refs],
            there=self.tell(slot, value=False) if is_result and is_large else None,
            actor=self._peer.actors.describe(slot) if found.is_actor else None,
        )

    def look(self) -> None:
        """Tell of what was pending."""
        sealed = self._remote_node.sealed(list(self._awaited)) if self._awaited else []
        self._awaited.difference_update(sealed)
        self._send_values(sealed)

    def wanted(self, objects: list[Told]) -> None:
        """The peer asks what these objects hold."""
        self._send_values([self.own(ref.slot, ref.generation) for ref in objects])

    def _send_values(self, slots: list[int]) -> None:
        self.send_all(Sealed, (Ref(slot, self._told[slot].generation, value=self.value(slot)) for slot in slots))

    def released(self, objects: list[Told]) -> None:
        """The peer knows nothing of these any more."""
        for ref in objects:
            slot = self.own(ref.slot, ref.generation)
            told = self._told[slot]
            if ref.n > told.n:
                raise ForeignFault(f"it releases object {slot} more often than it was told of it")
            if ref.n < told.n:
                self._told[slot] = Told(slot, told.generation, told.n - ref.n)
                continue
            del self._told[slot]
            self._awaited.discard(slot)
            self._peer.actors.released(slot)
            self._peer.transfers.released(slot, told.generation)
            self.drop(slot)

    def own(self, slot: int, generation: int) -> int:
        """The slot of an object that the peer has been told of, and names."""
        told = self._told.get(slot)
        if told is None or told.generation != generation:
            raise ForeignFault(f"it names object {slot}, of which it was not told")
        return slot

    def told(self, slot: int) -> Told:
        """What the peer knows an object of this node as, of which it has been told."""
        return self._told[slot]

    # ---- hearing of objects
    def origin(self, slot: int) -> Told | None:
        """What an object here is there, if it is the peer's."""
        return self._origin.get(slot)

    def imported(self, key: tuple[int, int]) -> int | None:
        """The slot here of an object of the peer, by slot and generation there."""
        return self._imports.get(key)

    def is_known(self, slot: int) -> bool:
        """Whether the peer knows of an object here, be it the peer's or this node's."""
        return slot in self._told or slot in self._origin

    def resolve(self, ref: Ref) -> int | None:
        """The slot here of an object that the other has named; None: there is no room for one."""
        if ref.yours:
            return self.own(ref.slot, ref.generation)
        known = self._imports.get((ref.slot, ref.generation))
        if known is not None:
            origin = self._origin[known]
            self._origin[known] = Told(origin.slot, origin.generation, origin.n + 1)
            return known
        own = self._peer.actors.at_home((ref.slot, ref.generation))
        if own is not None:
            self.resolve_all(ref.value.refs if ref.value is not None else [])  # this node has been told of these
            return own
        try:
            slot = self._remote_node.create()
        except StoreError as error:
            if not is_full(error):
                raise
            self._refused.append(Told(ref.slot, ref.generation, 1))
            self.resolve_all(ref.value.refs if ref.value is not None else [])  # this node has been told of these
            return None
        self.hold_new(slot)
        self._adopt(slot, ref)
        if ref.value is None:
            self._wants.append(Told(ref.slot, ref.generation))
        else:
            self._fill(slot, ref.value, ref)
        return slot

    def resolve_all(self, refs: list[Ref]) -> list[int] | None:
        """The same of several; None: there is no room for all of them, and those for which there is are not needed."""
        slots = [self.resolve(ref) for ref in refs]
        found = [slot for slot in slots if slot is not None]
        return found if len(found) == len(slots) else None

    def _adopt(self, slot: int, ref: Ref) -> None:
        if (ref.slot, ref.generation) in self._imports:
            raise ForeignFault(f"it makes object {ref.slot} twice")
        self._imports[ref.slot, ref.generation] = slot
        self._origin[slot] = Told(ref.slot, ref.generation, 1)

    def ask_wanted(self) -> None:
        """Ask for what the peer has named without telling what it is."""
        if self._wants:
            wants, self._wants = self._wants, []
            self.send_all(Want, wants)

    def sealed(self, refs: list[Ref]) -> None:
        """The peer tells what objects of its own hold."""
        for ref in refs:
            slot = self._imports.get((ref.slot, ref.generation))
            if slot is not None and ref.value is not None:  # else it was released meanwhile, and the two have crossed
                self._fill(slot, ref.value, ref)
            elif ref.value is not None:
                self.resolve_all(
                    ref.value.refs
                )  # this node has been told of these, whatever becomes of what they are in

    def take_result(self, slot: int, value: Value) -> None:
        """A value that a task of this node has made there: it is the peer's if its bytes stay there."""
        if value.there is not None:
            self.hold(slot)
            self._adopt(slot, value.there)
        self._fill(slot, value, value.there)

    def _fill(self, slot: int, value: Value, ref: Ref | None) -> None:
        """What an object here is to hold has been told. `ref`: where its bytes lie, if not in the value."""
        refs = self.resolve_all(value.refs)
        if value.state == OBJECT_PENDING:
            return
        if refs is None:
            self._remote_node.seal_failed(slot, FAILURE_STORE_FULL, 0)
        elif value.state == OBJECT_FAILED:
            # The detail of these is a number of the peer's segment.
            is_foreign = value.code in (FAILURE_UNROUTED, FAILURE_SHARED_STAYS)
            self._remote_node.seal_failed(slot, value.code, -1 if is_foreign else value.detail)
        elif value.actor is not None:
            self._peer.actors.stand_in(slot, value, refs)
        elif len(value.data) == value.size:
            self.seal(slot, value.state, value.data, refs)
        elif ref is None or value.data:
            raise ForeignFault(f"a value of {value.size} bytes comes with {len(value.data)}")
        elif value.state == OBJECT_READY and not refs:
            self._seal_remote(slot, value.size)
        elif value.size > self._most_bytes:
            self._remote_node.seal_failed(slot, FAILURE_STORE_FULL, 0)
        else:
            self._peer.transfers.gather((ref.slot, ref.generation), slot, value.size, value.state, refs)
            return
        self._peer.tasks_in.function_came(slot)

    def _seal_remote(self, slot: int, size: int) -> None:
        try:
            if self._remote_node.seal_remote(slot, size):
                self._peer.transfers.elsewhere.add(slot)
        except ValueError as error:
            raise ForeignFault(str(error)) from error

    def seal(self, slot: int, state: int, data: bytes | bytearray, refs: list[int]) -> None:
        """What has come is the value of an object here."""
        try:
            self._remote_node.seal(slot, state, data, refs)
        except StoreError:
            self._remote_node.seal_failed(slot, FAILURE_STORE_FULL, 0)

    def arrived(self, slot: int) -> None:
        """All of an object of the peer is here."""
        self._lineage.forget(slot)

    # ---- looking
    def is_coming(self, slot: int) -> bool:
        """Whether what an object holds has not been told yet."""
        return self._remote_node.inspect(slot).state == OBJECT_PENDING

    def size_and_place(self, slot: int) -> tuple[int, int]:
        """Size and place of a task's argument."""
        try:
            found = self._remote_node.inspect(slot)
        except TypeError:  # a stream
            return 0, PLACE_HERE
        return found.size, found.place

    # ---- holds
    def hold_new(self, slot: int) -> None:
        """An object that the remote node has made, and holds."""
        self._held[slot] += 1

    def hold(self, slot: int) -> None:
        """Keep an object, until it is dropped as often."""
        if not self._held[slot]:
            self._remote_node.hold(slot, self._remote_node.generation(slot))
        self._held[slot] += 1

    def drop(self, slot: int) -> None:
        """One reason less."""
        self._held[slot] -= 1
        if not self._held[slot]:
            del self._held[slot]
            self._remote_node.drop([slot])

    def release_unused(self) -> None:
        """Release objects of the peer that nothing here refers to any more."""
        imports = [slot for slot in self._origin if self._held[slot] == 1 and slot not in self._told]
        released: list[Told] = []
        for slot in self._remote_node.unused(imports):
            origin = self._origin.pop(slot)
            del self._imports[origin.slot, origin.generation]
            self._peer.transfers.elsewhere.discard(slot)
            self._lineage.forget(slot)
            released.append(origin)
            self.drop(slot)
        self.send_all(Released, released + self._refused)
        self._refused.clear()
