"""The values that go to and fro between a session and an engine: those of home that tasks there refer to, and those
that the engine has made, with their bytes, and who needs them still. Pure, as the `peer` is that this is a part of.

Values of up to `MAX_INLINE_BYTES` travel in messages. A larger one of home's is put there once; one of the engine's
stays there, and is fetched when it is read. Whatever was told of is let go of with the last task that needs it,
functions after `KEEP_FUNCTION_S`; large values stay for `KEEP_BLOB_S` more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..objstore._core import FAILURE_OBJECT_LOST, OBJECT_FAILED, OBJECT_PENDING
from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import CHUNK_BYTES, Chunk, Fetch, Frame, Message, Ref, Told, Value
from .interface import Blob, Engine
from .kept import KeptValues
from .parcels import OWN, Given, Key

KEEP_FUNCTION_S = 60.0
KEEP_BLOB_S, MOST_SPARE_BYTES = 5.0, 256 << 20  # of values that no task here needs any more
WINDOW = 4  # chunks of one value that are asked for ahead


class Fault(Exception):
    """The agent says what it cannot mean; what is between the two is to be ended."""


class Object(Struct):
    """One of home's. `n_told`: how often this side was told of it. `users`: tasks, and objects that refer to it, for as
    long as they need it. `value`: once it is known, without its bytes where those are a `blob`."""

    key: Key
    n_told: int = 0
    users: int = 0
    value: Value | None = None
    refs: list[Key] = []
    blob: Blob | None = None
    is_known: bool = False
    gathered: bytearray | None = None
    asked: int = 0
    come: int = 0
    waiting: set[int] = set()  # numbers of tasks that wait for it
    idle_since: float | None = None  # of a function


class Own(Struct):
    """One that the engine has, or that a call gives which a pocket has made: then its value is pending at first, and
    its bytes may be those of another object, its `source`. `n_told`: how often home was told of it; `users`, `waiting`:
    as of `Object`. `asked`: pieces that home waits for; `data`: its bytes while they are read; `is_safe`: it is, or
    will be, put there from here."""

    key: Key
    value: Value
    blob: Blob | None = None
    n_told: int = 0
    users: int = 0
    asked: list[Fetch] = []
    data: bytes | memoryview | None = None
    is_safe: bool = False
    moves: bool = False  # to be put, once it has come
    is_read: bool = False  # its bytes are on their way here
    source: Key | None = None
    waiting: set[int] = set()

    @property
    def is_known(self) -> bool:
        """Whether it is not pending."""
        return self.value.state != OBJECT_PENDING

    @property
    def refs(self) -> list[Key]:
        """What it refers to."""
        return [(ref.slot, ref.generation) for ref in self.value.refs]


class Values:
    """See above.

    Parameters
    ----------
    engine : Engine
        Connected.
    send : callable (message, frame)
        To the agent.
    clock : callable () -> float
        Seconds, monotonic.
    forgotten : callable (key) -> iterable of Key
        Called with what home does not know any more of the engine's: what it kept, if it is an actor.

    Attributes
    ----------
    known : deque of Object or Own
        Of which is known what they hold since somebody has looked.
    wants : list of Told
        Of home's, which are to be asked for.
    """

    def __init__(
        self,
        engine: Engine,
        send: Callable[[Message, bytes | memoryview | None], None],
        clock: Callable[[], float],
        forgotten: Callable[[Key], Iterable[Key]],
    ) -> None:
        self._engine, self._send, self._clock, self._forgotten = engine, send, clock, forgotten
        self._objects: dict[Key, Object] = {}
        self._own: dict[Key, Own] = {}
        self._readers: dict[Blob, list[Callable[[bytes | memoryview | None], None]]] = {}
        self._n_own = 0
        self._functions: set[Key] = set()
        self._spare: KeptValues[Blob] = KeptValues(MOST_SPARE_BYTES)  # of home's: for the next task
        self._bad: set[Blob] = set()  # that a task has not found
        self.wants: list[Told] = []
        self.known: deque[Object | Own] = deque()

    def __contains__(self, key: Key) -> bool:
        return key in self._objects or key in self._own

    def __getitem__(self, key: Key) -> Object | Own:
        return self._objects.get(key) or self._own[key]

    def missing(self, keys: Iterable[Key]) -> list[Object | Own]:
        """Those that these are or refer to, and that are not known."""
        return [thing for key in self.reachable(keys) if not (thing := self[key]).is_known]

    def note_function(self, key: Key) -> None:
        """That is one, which is kept for longer."""
        self._functions.add(key)

    def note_lost(self, blobs: Iterable[Blob]) -> None:
        """A task has not found one of these."""
        self._bad.update(blobs)

    # ---- what home has
    def resolve(self, ref: Ref) -> Key:
        """The key of what home names, of which this side is told."""
        key = ref.slot, ref.generation
        if ref.yours:
            self.own_of(*key)
            return key
        thing = self._objects.get(key)
        if thing is None:
            thing = self._objects[key] = Object(key)
            if ref.value is None:
                self.wants.append(Told(*key))
        thing.n_told += 1
        if ref.value is not None:
            self._take(thing, ref.value)
        return key

    def _take(self, thing: Object, value: Value) -> None:
        if thing.is_known or thing.gathered is not None:  # this side has been told of these all the same
            for inner in value.refs:
                self.let_go(self.resolve(inner))
        else:
            self._fill(thing, value)

    def _fill(self, thing: Object, value: Value) -> None:
        thing.refs = [self.resolve(ref) for ref in value.refs]
        self.hold(thing.refs)
        names = [Ref(*key) for key in thing.refs]
        thing.value = replace(value, refs=names, there=None)
        if value.state == OBJECT_PENDING:
            thing.value = None
        elif value.actor is not None or value.state == OBJECT_FAILED or len(value.data) == value.size:
            self._note_known(thing)
        elif (blob := self._spare.forget(thing.key)) is not None:
            thing.blob = blob
            self._note_known(thing)
        else:
            thing.gathered = bytearray(value.size)
            self._ask_ahead(thing)

    def _note_known(self, thing: Object) -> None:
        thing.is_known = True
        self.known.append(thing)

    def sealed(self, ref: Ref) -> None:
        """Home says what one of its own holds."""
        thing = self._objects.get((ref.slot, ref.generation))
        if ref.value is not None:
            self._take(
                thing or Object((0, 0), is_known=True), ref.value
            )  # or it was let go of, and the two have crossed

    def _ask_ahead(self, thing: Object) -> None:
        assert thing.value is not None
        size = thing.value.size
        while thing.asked < size and thing.asked < thing.come + WINDOW * CHUNK_BYTES:
            n = min(CHUNK_BYTES, size - thing.asked)
            self._send(Fetch(*thing.key, thing.asked, n, direct=True), None)
            thing.asked += n

    def chunk(self, chunk: Chunk, frame: Frame) -> None:
        """Some bytes of one have come."""
        thing = self._objects.get((chunk.slot, chunk.generation))
        if thing is None or thing.gathered is None or thing.value is None:
            return  # it has been let go of meanwhile
        if not chunk.found:
            thing.value, thing.gathered = Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST), None
            self._note_known(thing)
            return
        if chunk.at != thing.come or chunk.at + len(frame) > thing.asked:
            raise Fault(f"it sends bytes of object {chunk.slot} that nobody has asked for")
        thing.gathered[chunk.at : chunk.at + len(frame)] = frame
        thing.come += len(frame)
        if thing.come < thing.value.size:
            self._ask_ahead(thing)
            return
        thing.blob = self._engine.put(memoryview(thing.gathered))
        thing.gathered = None
        self._note_known(thing)

    # ---- what the engine has
    def make_all(self, objects: Sequence[Given], blobs: Sequence[Blob], known: dict[Key, Key]) -> dict[Key, Key]:
        """What a pocket has made; goes to what is `known`."""
        made: dict[Key, Key] = {}
        for given in objects:
            own = self._make(given, blobs, known)
            known[given.slot, given.generation] = made[given.slot, given.generation] = own.key
        return made

    def value_of(self, given: Given, blobs: Sequence[Blob], known: dict[Key, Key]) -> Value:
        """A value that a task has returned or yielded, for home."""
        if given.blob < 0:
            return replace(given.value, refs=[self.tell(self.named(ref, known)) for ref in given.value.refs])
        own = self._make(given, blobs, known)
        value = replace(self.told_value(own), there=Ref(*own.key))
        own.n_told += 1
        return value

    def _make(self, given: Given, blobs: Sequence[Blob], new: dict[Key, Key]) -> Own:
        refs = [Ref(*self.named(ref, new)) for ref in given.value.refs]
        return self.new(replace(given.value, refs=refs), blobs[given.blob] if given.blob >= 0 else None)

    def named(self, ref: Ref, new: dict[Key, Key]) -> Key:
        """What a pocket refers to: what it was given, by that name, or what it has made."""
        key = ref.slot, ref.generation
        if not ref.yours:
            return new[key]
        if key not in self._objects and key not in self._own:  # it was given to an earlier task, which has kept it
            return self.new(Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST), None).key
        return key

    def new(self, value: Value, blob: Blob | None) -> Own:
        """An object of the engine's. `value`: with its refs as they are known here."""
        self._n_own += 1
        key = self._n_own % OWN, OWN + self._n_own // OWN
        own = self._own[key] = Own(key, value, blob)
        self.hold((ref.slot, ref.generation) for ref in value.refs)
        return own

    # ---- what calls give that pockets have made
    def take(self, value: Value) -> tuple[Value, Key | None]:
        """A value that such a call gives, as home tells of it, or the object whose bytes it has. It, and what it refers
        to, is held from now on."""
        there = value.there
        if there is None:
            refs = [self.resolve(ref) for ref in value.refs]
            self.hold(refs)
            return replace(value, refs=[Ref(*key) for key in refs]), None
        if there.yours:
            for ref in value.refs:  # this side has been told of these all the same
                self.let_go(self.resolve(ref))
        source = self.resolve(replace(there, value=replace(value, there=None)))
        self.hold([source])
        return value, source

    def settle(self, key: Key, value: Value, source: Key | None) -> None:
        """What one holds that was pending is known, as of `take`."""
        own = self._own[key]
        if source is not None:
            thing = self[source]
            assert thing.value is not None  # nothing is missing
            value = thing.value
            if thing.blob is not None:
                own.source, own.blob = source, thing.blob
                self.hold([source])
        own.value = value
        self.hold(own.refs)
        self.known.append(own)
        if own.n_told:
            self._send(messages.Sealed([Ref(*key, value=self.told_value(own))]), None)

    def tell(self, key: Key) -> Ref:
        """What home calls that; if it has not heard of it, what it holds comes along."""
        if key in self._objects:
            return Ref(*key, yours=True)
        own = self._own[key]
        own.n_told += 1
        return Ref(*key, value=self.told_value(own) if own.n_told == 1 else None)

    def told_value(self, own: Own) -> Value:
        """What that holds, for home."""
        return replace(own.value, refs=[self.tell((ref.slot, ref.generation)) for ref in own.value.refs])

    # ---- what refers to what
    def reachable(self, keys: Iterable[Key]) -> Iterator[Key]:
        """These and what they refer to, each once, after what it refers to itself."""
        seen: set[Key] = set()
        todo = [(key, False) for key in keys]
        todo.reverse()
        while todo:
            key, is_done = todo.pop()
            if is_done:
                yield key
            elif key not in seen:
                seen.add(key)
                todo.append((key, True))
                todo += [(inner, False) for inner in self._refs_of(key)]

    def given(self, keys: Iterable[Key]) -> tuple[list[Given], list[Blob]]:
        """These and what they refer to, of which nothing is missing, for a pocket; and the large ones of them."""
        given: list[Given] = []
        blobs: list[Blob] = []
        for key in self.reachable(keys):
            thing = self[key]
            assert thing.value is not None
            given.append(Given(*key, thing.value, -1 if thing.blob is None else len(blobs)))
            if thing.blob is not None:
                blobs.append(thing.blob)
        return given, blobs

    def _refs_of(self, key: Key) -> list[Key]:
        if (thing := self._objects.get(key)) is not None:
            return thing.refs
        own = self._own.get(key)
        return own.refs if own is not None else []

    # ---- letting go
    def hold(self, keys: Iterable[Key]) -> None:
        """Somebody needs these."""
        for key in keys:
            if key in self._objects:
                self._objects[key].users += 1
                self._objects[key].idle_since = None
            else:
                self._own[key].users += 1

    def drop(self, keys: Iterable[Key]) -> None:
        """Somebody needs these no more."""
        todo = list(keys)
        while todo:
            key = todo.pop()
            if key in self._own:
                self._own[key].users -= 1
                todo += self._forget(self._own[key])
                continue
            self._objects[key].users -= 1
            if not self._objects[key].users and key not in self._functions:
                todo += self._release(self._objects.pop(key))

    def let_go(self, key: Key) -> None:
        """Nobody here needs what was just told of."""
        self.hold([key])
        self.drop([key])

    def _release(self, thing: Object) -> list[Key]:
        self._send(messages.Released([Told(*thing.key, thing.n_told)]), None)
        if thing.blob is not None:
            self._put_aside(thing.key, thing.blob, thing.value.size if thing.value is not None else 0)
        return thing.refs

    def _put_aside(self, key: Key, blob: Blob, size: int) -> None:
        """Home need not keep that value any more; the engine does for a while, for a task that names it again."""
        if blob in self._bad:
            self._bad.discard(blob)
            self._engine.release([blob])
            return
        is_new, gone = self._spare.use(key, blob, size, self._clock())
        self._engine.release(gone if is_new else [blob])  # or it is too large

    def sweep(self, now: float) -> None:
        """Let go of functions and values that have not been used for long. `now`: seconds, monotonic."""
        if gone := self._spare.old(now - KEEP_BLOB_S):
            self._engine.release(gone)
        for key in list(self._functions):
            thing = self._objects.get(key)
            if thing is None:
                self._functions.discard(key)
            elif thing.users:
                thing.idle_since = None
            elif thing.idle_since is None:
                thing.idle_since = now
            elif now - thing.idle_since > KEEP_FUNCTION_S:
                self._functions.discard(key)
                self.drop(self._release(self._objects.pop(key)))

    def released(self, objects: Iterable[Told]) -> None:
        """Home does not know these any more."""
        for told in objects:
            own = self.own_of(told.slot, told.generation)
            if told.n > own.n_told:
                raise Fault(f"it releases object {told.slot} more often than it was told of it")
            own.n_told -= told.n
            self.drop(self._forget(own))

    def _forget(self, own: Own) -> list[Key]:
        """What it refers to, if nobody needs it any more."""
        if own.n_told or own.users:
            return []
        del self._own[own.key]
        kept = self._forgotten(own.key)
        if own.source is not None:
            kept = [*kept, own.source]
        elif own.blob is not None:
            self._bad.discard(own.blob)
            self._engine.release([own.blob])
        return [*kept, *own.refs]

    # ---- what home reads of the engine's
    def own_of(self, slot: int, generation: int) -> Own:
        """The one that home names, of those that the engine has."""
        own = self._own.get((slot, generation))
        if own is None:
            raise Fault(f"it names object {slot}, of which it was not told")
        return own

    def fetch(self, fetch: Fetch) -> None:
        """Home reads one."""
        own = self.own_of(fetch.slot, fetch.generation)
        own.asked.append(fetch)
        if own.data is not None:
            self._serve(own)
        elif own.blob is None:
            own.data = own.value.data
            self._serve(own)
        else:
            self._get(own, own.blob)

    def secure(self, key: Key) -> None:
        """See to it that this, with what it refers to, outlives the worker that has made it."""
        for own in (self._own.get(found) for found in self.reachable([key])):
            if own is not None and own.blob is not None and not own.is_safe:
                own.is_safe = own.moves = True
                self._get(own, own.blob)

    def _get(self, own: Own, blob: Blob) -> None:
        if not own.is_read:
            own.is_read = True
            self.read(blob, lambda data: self._has_come(own, blob, data))

    def read(self, blob: Blob, then: Callable[[bytes | memoryview | None], None]) -> None:
        """Have the bytes of a blob; `then` gets them, or None if they are lost."""
        readers = self._readers.setdefault(blob, [])
        readers.append(then)
        if len(readers) == 1:
            self._engine.fetch(blob)

    def came(self, blob: Blob, data: bytes | memoryview | None) -> None:
        """The bytes of a blob have come; None: they are lost."""
        for then in self._readers.pop(blob):
            then(data)

    def _has_come(self, own: Own, blob: Blob, data: bytes | memoryview | None) -> None:
        own.is_read = False
        if self._own.get(own.key) is not own:
            return  # released meanwhile
        if own.moves and data is not None:
            own.moves, own.blob = False, self._engine.put(data)
            if own.source is None:
                self._engine.release([blob])
            else:
                source, own.source = own.source, None
                self.drop([source])
            if not own.asked:
                return
        own.data = data
        self._serve(own)

    def _serve(self, own: Own) -> None:
        asked, own.asked = own.asked, []
        for fetch in asked:
            if own.data is None:
                self._send(Chunk(*own.key, fetch.at, found=False), None)
                continue
            self._send(Chunk(*own.key, fetch.at), memoryview(own.data)[fetch.at : fetch.at + fetch.n])
            if fetch.at + fetch.n >= own.value.size:
                own.data = None
