"""The engine's side of what goes on between it and the session: a peer in the messages of peers, without a segment.

What another node would do with its segment this does with the engine: tasks become parcels; values up to
`MAX_INLINE_BYTES` travel in them, larger ones are put there once; results are told as they come, large ones stay with
the engine and are fetched when they are read. Pure: `receive` takes what the agent says, `told` what the engine tells;
messages go out through `send`, calls through the engine, and neither waits.

A task waits here until all is known that it refers to, and what that refers to, since its pocket can ask nobody.
Whatever is told of is let go of with the last task that needs it, functions after `KEEP_FUNCTION_S`. Calls of an actor
go to the engine in the order in which they came: one that waits holds back those behind it; see `actors`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import engine_limits as limits
from ..exceptions import EngineError, EngineUnsupportedError, ObjectLostError
from ..objstore._core import (
    ACTOR_FLAG_ORDERED,
    FAILURE_CANCELLED,
    FAILURE_NODE_DIED,
    FAILURE_OBJECT_LOST,
    FAILURE_OUT_OF_MEMORY,
    FAILURE_UNROUTED,
    FAILURE_WORKER_CRASHED,
    OBJECT_ERROR,
    OBJECT_FAILED,
    OBJECT_PENDING,
    RESOURCE_UNIT,
    TASK_FLAG_RETRY_EXCEPTIONS,
)
from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import (
    CHUNK_BYTES,
    Chunk,
    Fetch,
    Message,
    Ref,
    Result,
    Task,
    Told,
    Value,
)
from .actors import Actors, Living, exit_code_of
from .interface import ActorEnded, Blob, Came, Ended, Engine, Event, Failed, FailureKind, Handle, Lost, Parcel, Said
from .kept import KeptValues
from .parcels import (
    CLOSED,
    OWN,
    Done,
    Given,
    Key,
    Piece,
    Progress,
    Work,
    Yielded,
    decode_done,
    decode_progress,
    encode,
    places_of,
)

KEEP_FUNCTION_S = 60.0
KEEP_BLOB_S, MOST_SPARE_BYTES = 5.0, 256 << 20  # of values that no task here needs any more
ANY_NUMBER = 1 << 30  # of runs
WINDOW = 4  # chunks of one value that are asked for ahead
CODES: dict[FailureKind, int] = {
    "crashed": FAILURE_WORKER_CRASHED,
    "oom": FAILURE_OUT_OF_MEMORY,
    "node_died": FAILURE_NODE_DIED,
    "cancelled": FAILURE_CANCELLED,
    "object_lost": FAILURE_OBJECT_LOST,
    "unschedulable": FAILURE_UNROUTED,
    "env_failed": FAILURE_WORKER_CRASHED,
}
RERUN: frozenset[FailureKind] = frozenset({"crashed", "oom", "node_died"})


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
    """One that the engine has. `n_told`: how often home was told of it; `users`: as of `Object`. `asked`: pieces that
    home waits for; `data`: its bytes while they are read; `is_safe`: it is, or will be, put there from here."""

    key: Key
    value: Value
    blob: Blob | None = None
    n_told: int = 0
    users: int = 0
    asked: list[Fetch] = []
    data: bytes | memoryview | None = None
    is_safe: bool = False
    moves: bool = False  # to be put, once it has come


class Call(Struct):
    """A task of home's."""

    task: Task
    needs: list[Key]  # objects that it holds: function first, then its refs, then those of the actor that it makes
    missing: set[Key]
    handle: Handle | None = None
    given_at: float = 0.0  # when the engine was given it
    n_runs: int = 0
    is_cancelled: bool = False
    blobs: list[Blob] = field(default_factory=list)
    run: int = 0  # of which there are news
    n_news: int = 0  # that home was told
    past_runs: set[int] = set()  # that have died
    names: dict[Key, Key] = {}  # what its pocket calls what it has yielded, and refers to
    taken: int = 0  # of its items by its reader, or `CLOSED`
    uses: messages.Shares = {}  # of what the engine has, since it is known to have begun


class EnginePeer:
    """See above.

    Parameters
    ----------
    engine : Engine
        Connected.
    name : str
        What people call it.
    session, namespace : str
        Of the session.
    send : callable (message, frame)
        To the agent.
    error_bytes : callable (exception, name of the task) -> bytes
        How an error is written that home raises again.
    clock : callable () -> float
        Seconds, monotonic.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        session: str,
        namespace: str,
        send: Callable[[Message, bytes | memoryview | None], None],
        error_bytes: Callable[[Exception], bytes],
        clock: Callable[[], float],
    ) -> None:
        self._engine, self._name = engine, name
        self._session, self._namespace = session, namespace
        self._send, self._error_bytes, self._clock = send, error_bytes, clock
        self._objects: dict[Key, Object] = {}
        self._own: dict[Key, Own] = {}
        self._of_blob: dict[Blob, Own] = {}
        self._n_own = 0
        self._calls: dict[int, Call] = {}
        self._numbers: dict[Handle, int] = {}
        self._actors = Actors()
        self._functions: set[Key] = set()
        self._spare = KeptValues(MOST_SPARE_BYTES)  # of home's: for the next task
        self._spare_blobs: dict[Key, Blob] = {}
        self._bad: set[Blob] = set()  # that a task has not found
        self._wants: list[Told] = []
        self._known: deque[Object] = deque()
        self._used: Counter[str] = Counter()
        self._told_used: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._calls)

    # ---------------------------------------------------------------- from the agent
    def receive(self, message: messages.ToPeer, frame: bytes = b"") -> None:
        """Take in what the agent says.

        Raises
        ------
        Fault
            It cannot be.
        """
        match message:
            case messages.Tasks(tasks):
                for task in tasks:
                    self._begin(task)
            case messages.Sealed(refs):
                for ref in refs:
                    self._sealed(ref)
            case Chunk():
                self._chunk(message, frame)
            case messages.Released(objects):
                self._released(objects)
            case Fetch():
                self._fetch(message)
            case messages.Want(objects):
                found = [self._own_of(told.slot, told.generation) for told in objects]
                self._send(messages.Sealed([Ref(*own.key, value=self._told_value(own)) for own in found]), None)
            case messages.Kill():
                self._kill(message)
            case messages.Cancel(numbers):
                self._cancel(numbers)
            case messages.GiveBack(numbers):
                self._give_back(numbers)
            case messages.Flush(number):
                self._send(messages.Flushed(number), None)
            case messages.Reset(reason):
                raise Fault(f"the session ends what is between the two: {reason}")
            case messages.Find(number):
                self._send(messages.Found(number), None)
            case messages.Taken(number, n, closed):
                if (call := self._calls.get(number)) is not None:
                    self._take_items(call, CLOSED if closed else n)
            case _:
                pass  # of groups, of which there are none
        self._proceed()
        if self._wants:
            wants, self._wants = self._wants, []
            self._send(messages.Want(wants), None)

    def _begin(self, task: Task) -> None:
        if task.number in self._calls:
            raise Fault(f"task {task.number} comes twice")
        refs = [task.function, *task.refs]
        if task.creates is not None:
            refs += task.creates.refs
        if task.checkpoint is not None:
            refs.append(task.checkpoint)
        needs = [self._resolve(ref) for ref in refs]
        self._hold(needs)
        self._functions.add(needs[0])
        living = self._called(task)
        if living is not None and living.end is not None:
            self._drop(needs)
            return  # home knows by now
        call = self._calls[task.number] = Call(task, needs, set())
        if lacks := _lacking(task, self._engine):
            self._refuse(call, lacks)
        else:
            if living is not None:
                living.line.append(task.number)
            self._wait_for(call, needs)
            self._go_on(call)

    def _refuse(self, call: Call, what: str) -> None:
        self._raise(call, EngineUnsupportedError(limits.unsupported(self._name, what)))

    def _raise(self, call: Call, error: Exception) -> None:
        data = self._error_bytes(error)
        self._end(call, [Value(OBJECT_ERROR, len(data), data)] * call.task.n_returns)

    # ---- what tasks refer to
    def _resolve(self, ref: Ref) -> Key:
        key = ref.slot, ref.generation
        if ref.yours:
            self._own_of(*key)
            return key
        thing = self._objects.get(key)
        if thing is None:
            thing = self._objects[key] = Object(key)
            if ref.value is None:
                self._wants.append(Told(*key))
        thing.n_told += 1
        if ref.value is not None:
            self._take(thing, ref.value)
        return key

    def _take(self, thing: Object, value: Value) -> None:
        if thing.is_known or thing.gathered is not None:  # this side has been told of these all the same
            for inner in value.refs:
                self._let_go(self._resolve(inner))
        else:
            self._fill(thing, value)

    def _fill(self, thing: Object, value: Value) -> None:
        thing.refs = [self._resolve(ref) for ref in value.refs]
        self._hold(thing.refs)
        names = [Ref(*key) for key in thing.refs]
        thing.value = replace(value, refs=names, there=None)
        if value.state == OBJECT_PENDING:
            thing.value = None
        elif value.actor is not None or value.state == OBJECT_FAILED or len(value.data) == value.size:
            self._note_known(thing)
        elif self._spare.forget(thing.key):
            thing.blob = self._spare_blobs.pop(thing.key)
            self._note_known(thing)
        else:
            thing.gathered = bytearray(value.size)
            self._ask_ahead(thing)

    def _note_known(self, thing: Object) -> None:
        thing.is_known = True
        self._known.append(thing)

    def _sealed(self, ref: Ref) -> None:
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

    def _chunk(self, chunk: Chunk, frame: bytes) -> None:
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

    def _wait_for(self, call: Call, keys: Iterable[Key]) -> None:
        for key in self._reachable(keys):
            thing = self._objects.get(key)
            if thing is not None and not thing.is_known:
                call.missing.add(key)
                thing.waiting.add(call.task.number)

    def _reachable(self, keys: Iterable[Key]) -> Iterator[Key]:
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

    def _refs_of(self, key: Key) -> list[Key]:
        if (thing := self._objects.get(key)) is not None:
            return thing.refs
        own = self._own.get(key)
        return [(ref.slot, ref.generation) for ref in own.value.refs] if own is not None else []

    def _proceed(self) -> None:
        """Submit what has waited for what is known by now."""
        while self._known:
            thing = self._known.popleft()
            waiting, thing.waiting = thing.waiting, set()
            for number in sorted(waiting):
                call = self._calls.get(number)
                if call is not None:
                    call.missing.discard(thing.key)
                    self._wait_for(call, thing.refs)
                    self._go_on(call)

    # ---- letting go
    def _hold(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key in self._objects:
                self._objects[key].users += 1
                self._objects[key].idle_since = None
            else:
                self._own[key].users += 1

    def _drop(self, keys: Iterable[Key]) -> None:
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

    def _let_go(self, key: Key) -> None:
        """Nobody here needs what was just told of."""
        self._hold([key])
        self._drop([key])

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
        is_new, gone = self._spare.use(key, size, self._clock())
        if is_new:
            self._spare_blobs[key] = blob
            self._engine.release([self._spare_blobs.pop(each) for each in gone])
        else:  # it is too large
            self._engine.release([blob])

    def sweep(self, now: float) -> None:
        """Let go of functions and values that have not been used for long. `now`: seconds, monotonic."""
        if gone := self._spare.old(now - KEEP_BLOB_S):
            self._engine.release([self._spare_blobs.pop(key) for key in gone])
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
                self._drop(self._release(self._objects.pop(key)))

    # ---------------------------------------------------------------- tasks
    def _submit(self, call: Call) -> None:
        task = call.task
        given: list[Given] = []
        call.blobs = []
        for key in self._reachable(call.needs):
            thing = self._objects.get(key) or self._own[key]
            assert thing.value is not None  # nothing is missing
            given.append(Given(*key, thing.value, -1 if thing.blob is None else len(call.blobs)))
            if thing.blob is not None:
                call.blobs.append(thing.blob)
        function, *refs = (Ref(*key) for key in call.needs)
        more = refs[len(task.refs) :]
        left = task.max_retries - call.n_runs if task.max_retries >= 0 else -1
        sent = replace(task, function=function, refs=refs[: len(task.refs)], max_retries=left)
        living = self._called(task)
        if task.creates is not None:
            checkpoint = more.pop() if task.checkpoint is not None else None
            sent = replace(sent, creates=replace(task.creates, refs=more), checkpoint=checkpoint)
        elif living is not None:
            sent = replace(sent, actor=Ref(*living.name, yours=True))
        work = Work(self._session, self._namespace, sent, given)
        by_exceptions = bool(task.flags & TASK_FLAG_RETRY_EXCEPTIONS)  # then the pocket tries again, and counts
        parcel = Parcel(
            encode(work),
            call.blobs,
            _in_units(task.demand),
            1 if by_exceptions else left + 1 if left >= 0 else ANY_NUMBER,
            task.n_returns,
        )
        if task.creates is not None:
            call.handle = self._engine.create_actor(parcel, _in_units(task.hold))
        elif living is not None:
            call.handle = self._engine.call(living.actor, parcel)
            living.given[task.number] = None
        else:
            call.handle = self._engine.submit(parcel)
        self._numbers[call.handle] = task.number
        call.given_at = self._clock()

    def _cancel(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            call = self._calls.get(number)
            if call is None or call.is_cancelled:
                continue
            self._cancel_call(call)

    def _cancel_call(self, call: Call) -> None:
        call.is_cancelled = True
        if call.handle is None:
            self._fail(call, "cancelled")
            return
        if call.task.stream >= 0:  # which ends a generator where a task that runs cannot be stopped
            self._take_items(call, CLOSED)
        if call.task.creates is not None:
            self._engine.kill(call.handle, True)
        else:
            self._engine.cancel(call.handle, False)

    def _take_items(self, call: Call, n: int) -> None:
        """Its reader has taken so many."""
        call.taken = max(call.taken, n)
        self._tell_taken(call)

    def _tell_taken(self, call: Call) -> None:
        if call.handle is not None:
            n, closed = (0, True) if call.taken == CLOSED else (call.taken, False)
            self._engine.say(call.handle, encode(messages.Taken(call.task.number, n, closed)))

    def _give_back(self, numbers: Iterable[int]) -> None:
        """What the engine has been given stays there: it may have begun."""
        found = [self._calls[number] for number in numbers if number in self._calls]
        self._return([call.task.number for call in found if call.handle is None and call.task.actor is None])

    def _return(self, waiting: list[int]) -> None:
        for number in waiting:
            self._drop(self._calls.pop(number).needs)
        if waiting:
            self._send(messages.Returned(waiting), None)

    def _end(self, call: Call, values: list[Value], done: Done | None = None, constructed: Ref | None = None) -> None:
        failed = done is None or done.failed
        times = (0, 0, 0)
        if done is not None:  # what it waited for the engine no pocket knows
            times = done.pid, max(0, int((self._clock() - call.given_at) * 1e6) - done.ran), done.ran
        self._send(messages.Results([Result(call.task.number, int(failed), values, constructed, *times)]), None)
        self._take_out(call)

    def _take_out(self, call: Call) -> None:
        """Nothing more is to be told of it."""
        number, living = call.task.number, self._called(call.task)
        del self._calls[number]
        self._uses(call.uses, {})
        self._drop([*call.needs, *call.names.values()])
        if living is not None:
            living.given.pop(number, None)
            for _, blobs in living.said.pop(number, []):
                self._engine.release(blobs)
            if number in living.line:
                living.line.remove(number)
            self._advance(living)

    def _fail(self, call: Call, kind: FailureKind, code: int = 0) -> None:
        detail = exit_code_of(kind, code) if kind == "crashed" or call.task.creates is not None else 0
        self._end(call, [Value(OBJECT_FAILED, code=CODES[kind], detail=detail)] * call.task.n_returns)

    # ---- actors
    def _called(self, task: Task) -> Living | None:
        """The actor that a task is a call of, if it is one."""
        if task.actor is None:
            return None
        living = self._actors.get((task.actor.slot, task.actor.generation))
        if living is None:
            raise Fault(f"it calls object {task.actor.slot}, which is no actor here")
        return living

    def _go_on(self, call: Call) -> None:
        """Submit it, if nothing is missing and it is its turn."""
        if (living := self._called(call.task)) is not None:
            self._advance(living)
        elif not call.missing:
            self._submit(call)

    def _advance(self, living: Living) -> None:
        """Give the engine the calls whose turn it is; or tell of the end, once what becomes of its calls is known."""
        while living.end is None and living.line and not self._calls[living.line[0]].missing:
            self._submit(self._calls[living.line.popleft()])
        if living.end is None or living.given or living.is_told:
            return
        living.is_told = True
        for number in living.line:  # home lets them stand in line again, as all of which it does not hear
            self._drop(self._calls.pop(number).needs)
        living.line.clear()
        self._keep(living, [])
        self._note_made(living, {}, list(living.names))
        end = living.end
        code, for_good = exit_code_of(end.kind, end.code, end.has_left), end.has_left
        self._send(messages.ActorEnded(Told(*living.key), code, for_good, living.begun), None)

    def _constructed(self, call: Call, done: Done) -> Living | None:
        """A constructor has run; None: it has made no actor."""
        task, actor = call.task, call.handle
        assert task.creates is not None
        assert actor is not None
        if done.failed or done.actor is None:
            self._actors.failed(actor)
            self._engine.kill(actor, True)
            return None
        inner = call.needs[1 + len(task.refs) :][: len(task.creates.refs)]
        own = self._new(replace(task.creates, refs=[Ref(*key) for key in inner]), None)
        own.n_told = 1
        living = self._actors.begin(own.key, done.actor, actor)
        if living.end is None:
            living.uses = self._uses({}, task.hold)
        return living

    def _keep(self, living: Living, keys: Iterable[Key]) -> None:
        """It refers to these, of what it was given, and to no others."""
        kept = {key for key in keys if key in self._objects or key in self._own}
        self._hold(kept - living.kept)
        before, living.kept = living.kept, kept
        self._drop(before - kept)

    def _note_made(self, who: Living | Call, made: dict[Key, Key], gone: list[Key]) -> None:
        """It may name again what it has made, but not what is gone."""
        self._hold(made.values())
        who.names.update(made)
        self._drop([who.names.pop(key) for key in gone])

    def _kill(self, kill: messages.Kill) -> None:
        if kill.actor is not None:
            own = self._own_of(kill.actor.slot, kill.actor.generation)
            if (living := self._actors.get(own.key)) is not None and living.end is None:
                self._engine.kill(living.actor, True)
        elif (call := self._calls.get(kill.number)) is not None and call.task.creates is not None:
            if call.handle is None:
                self._return([kill.number])
            else:
                self._cancel_call(call)

    def _actor_ended(self, event: ActorEnded) -> None:
        living = self._actors.ended(event, event.actor in self._numbers)
        if living is not None:
            living.uses = self._uses(living.uses, {})
            self._advance(living)

    def _ended_with_its_actor(self, call: Call, n_runs: int) -> None:
        living = self._called(call.task)
        assert living is not None
        if n_runs:
            living.begun.append(call.task.number)
        self._take_out(call)

    # ---------------------------------------------------------------- from the engine
    def told(self, event: Event) -> None:
        """Take in what the engine tells of a parcel or a blob."""
        match event:
            case Ended(handle, data, blobs):
                call = self._calls[self._numbers.pop(handle)]
                if (living := self._called(call.task)) is not None:
                    living.came[call.task.number] = data, list(blobs)
                    self._end_in_order(living)
                else:
                    self._ended(call, decode_done(data), list(blobs))
            case Failed(handle):
                call = self._calls[self._numbers.pop(handle)]
                living = self._called(call.task)
                self._failed(call, event)
                if living is not None:
                    self._end_in_order(living)
            case Said(message, blobs):
                self._said(decode_progress(message), blobs)
            case ActorEnded():
                self._actor_ended(event)
            case Came(blob, data):
                self._came(blob, data)
            case Lost(blob):
                self._came(blob, None)
            case _:
                pass

    def _end_in_order(self, living: Living) -> None:
        """What a call has told of what its actor has is true once the calls before it have told theirs."""
        while living.given:
            number = next(iter(living.given))
            for progress, blobs in living.said.pop(number, []):
                self._progressed(self._calls[number], progress, blobs)
            if number not in living.came:
                break
            data, blobs = living.came.pop(number)
            self._ended(self._calls[number], decode_done(data), blobs)

    def _said(self, progress: Progress, blobs: Sequence[Blob]) -> None:
        call = self._calls.get(progress.number)
        if call is None or progress.run in call.past_runs:
            self._engine.release(blobs)
        elif (living := self._called(call.task)) is not None and next(iter(living.given), None) != progress.number:
            living.said.setdefault(progress.number, []).append((progress, blobs))
        else:
            self._progressed(call, progress, blobs)

    def _progressed(self, call: Call, progress: Progress, blobs: Sequence[Blob]) -> None:
        self._tell_news(call, progress.run, progress.at, progress.news, blobs)
        if 0 <= progress.taken < call.taken:  # it was lost, or said to a run before
            self._tell_taken(call)

    def _tell_news(self, call: Call, run: int, at: int, news: list[Piece], blobs: Sequence[Blob]) -> None:
        if run != call.run:
            call.past_runs.add(call.run)
            call.run, call.n_news = run, 0
            self._drop(call.names.values())
            call.names.clear()
        for n, piece in enumerate(news, at):
            if n < call.n_news:
                self._engine.release([blobs[place] for place in places_of(piece)])
            elif isinstance(piece, Yielded):
                self._tell_items(call, piece, blobs)
            else:
                self._send(piece, None)
                if isinstance(piece, messages.Begun) and call.handle is not None:
                    call.uses = self._uses(call.uses, call.task.demand)
        call.n_news = max(call.n_news, at + len(news))

    def _tell_items(self, call: Call, piece: Yielded, blobs: Sequence[Blob]) -> None:
        known = self._names(call)
        made = self._make_all(piece.made, blobs, known)
        values = [self._value_of(given, blobs, known) for given in piece.values]
        self._send(messages.Items(call.task.number, piece.at, values), None)
        self._note_made(self._called(call.task) or call, made, piece.gone)

    def _names(self, call: Call) -> dict[Key, Key]:
        """What a pocket calls what it has made before."""
        living = self._called(call.task)
        return call.names.copy() if living is None else {**living.names, living.name: living.key}

    def _make_all(self, objects: Sequence[Given], blobs: Sequence[Blob], known: dict[Key, Key]) -> dict[Key, Key]:
        """What a pocket has made; goes to what is `known`."""
        made: dict[Key, Key] = {}
        for given in objects:
            own = self._make(given, blobs, known)
            known[given.slot, given.generation] = made[given.slot, given.generation] = own.key
        return made

    def _value_of(self, given: Given, blobs: Sequence[Blob], known: dict[Key, Key]) -> Value:
        """A value that a task has returned or yielded, for home."""
        if given.blob < 0:
            return replace(given.value, refs=[self._tell(self._named(ref, known)) for ref in given.value.refs])
        own = self._make(given, blobs, known)
        value = replace(self._told_value(own), there=Ref(*own.key))
        own.n_told += 1
        return value

    def _ended(self, call: Call, done: Done, blobs: list[Blob]) -> None:
        self._tell_news(call, done.run, done.at, done.news, blobs)
        if call.is_cancelled and (done.failed or call.task.stream >= 0):  # by the interrupt, or as it was not read on
            self._engine.release([blobs[given.blob] for given in (*done.values, *done.made) if given.blob >= 0])
            self._fail(call, "cancelled")
            return
        living, new = self._called(call.task), self._names(call)
        made = self._make_all(done.made, blobs, new)
        values = [self._value_of(given, blobs, new) for given in done.values]
        saved = None
        if done.saved is not None:
            self._secure(new[done.saved])
            saved = self._tell(new[done.saved])
        constructed = None
        if call.task.creates is not None and (living := self._constructed(call, done)) is not None:
            constructed = Ref(*living.key)
        if living is not None:
            self._keep(living, done.kept)
            self._note_made(living, made, done.gone)
        self._end(call, values, done, constructed)
        if living is not None and saved is not None:
            self._send(messages.Checkpoint(Told(*living.key), saved), None)
        if constructed is not None and living is not None:
            self._advance(living)

    def _make(self, given: Given, blobs: Sequence[Blob], new: dict[Key, Key]) -> Own:
        refs = [Ref(*self._named(ref, new)) for ref in given.value.refs]
        return self._new(replace(given.value, refs=refs), blobs[given.blob] if given.blob >= 0 else None)

    def _named(self, ref: Ref, new: dict[Key, Key]) -> Key:
        """What a pocket refers to: what it was given, by that name, or what it has made."""
        key = ref.slot, ref.generation
        if not ref.yours:
            return new[key]
        if key not in self._objects and key not in self._own:  # it was given to an earlier task, which has kept it
            return self._new(Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST), None).key
        return key

    def _new(self, value: Value, blob: Blob | None) -> Own:
        """An object of the engine's. `value`: with its refs as they are known here."""
        self._n_own += 1
        key = self._n_own % OWN, OWN + self._n_own // OWN
        own = self._own[key] = Own(key, value, blob)
        self._hold((ref.slot, ref.generation) for ref in value.refs)
        return own

    def _tell(self, key: Key) -> Ref:
        if key in self._objects:
            return Ref(*key, yours=True)
        own = self._own[key]
        own.n_told += 1
        return Ref(*key, value=self._told_value(own) if own.n_told == 1 else None)

    def _told_value(self, own: Own) -> Value:
        return replace(own.value, refs=[self._tell((ref.slot, ref.generation)) for ref in own.value.refs])

    def _failed(self, call: Call, failed: Failed) -> None:
        kind, text = failed.kind, failed.text
        call.n_runs += failed.n_runs
        call.handle = None
        call.uses = self._uses(call.uses, {})
        if kind == "object_lost":
            self._bad.update(call.blobs)
        if call.task.actor is not None and kind in RERUN:
            self._ended_with_its_actor(call, failed.n_runs)
            return
        if call.task.creates is not None:
            self._actors.failed(failed.handle)
        again = call.task.max_retries < 0 or call.n_runs <= call.task.max_retries
        if kind in RERUN and again and not call.is_cancelled:
            self._submit(call)
        elif kind == "env_failed":
            self._raise(call, EngineError(f"no worker of {self._name} can run this task: {text}"))
        elif call.task.creates is not None and kind not in RERUN:  # it would not be otherwise another time
            self._raise(call, _not_constructed(self._name, kind, text))
        else:
            self._fail(call, kind, failed.code)

    # ---- what there is in use
    def _uses(self, before: messages.Shares, now: messages.Shares) -> messages.Shares:
        """Something uses other amounts than before, of what the engine has; which."""
        self._used.subtract(before)
        self._used.update(now)
        return now

    def news_of_used(self) -> messages.Shares | None:
        """What tasks that are known to have begun have there, and actors, if that is news."""
        self._used = +self._used
        if self._used == self._told_used:
            return None
        self._told_used = self._used.copy()
        return dict(self._used)

    # ---- what home reads of the engine's
    def _own_of(self, slot: int, generation: int) -> Own:
        own = self._own.get((slot, generation))
        if own is None:
            raise Fault(f"it names object {slot}, of which it was not told")
        return own

    def _fetch(self, fetch: Fetch) -> None:
        own = self._own_of(fetch.slot, fetch.generation)
        own.asked.append(fetch)
        if own.data is not None:
            self._serve(own)
        elif own.blob is None:
            own.data = own.value.data
            self._serve(own)
        else:
            self._get(own, own.blob)

    def _secure(self, key: Key) -> None:
        """See to it that this, with what it refers to, outlives the worker that has made it."""
        for own in (self._own.get(found) for found in self._reachable([key])):
            if own is not None and own.blob is not None and not own.is_safe:
                own.is_safe = own.moves = True
                self._get(own, own.blob)

    def _get(self, own: Own, blob: Blob) -> None:
        if blob not in self._of_blob:
            self._of_blob[blob] = own
            self._engine.fetch(blob)

    def _came(self, blob: Blob, data: bytes | memoryview | None) -> None:
        own = self._of_blob.pop(blob, None)
        if own is None:
            return  # released meanwhile
        if own.moves and data is not None:
            own.moves, own.blob = False, self._engine.put(data)
            self._engine.release([blob])
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

    def _released(self, objects: Iterable[Told]) -> None:
        for told in objects:
            own = self._own_of(told.slot, told.generation)
            if told.n > own.n_told:
                raise Fault(f"it releases object {told.slot} more often than it was told of it")
            own.n_told -= told.n
            self._drop(self._forget(own))

    def _forget(self, own: Own) -> list[Key]:
        """What it refers to, if nobody needs it any more."""
        if own.n_told or own.users:
            return []
        del self._own[own.key]
        kept: list[Key] = []
        if (living := self._actors.forget(own.key)) is not None and living.end is None:
            self._engine.kill(living.actor, False)
            self._uses(living.uses, {})
            kept = [*living.kept, *living.names.values()]
        if own.blob is not None:
            self._bad.discard(own.blob)
            self._of_blob.pop(own.blob, None)
            self._engine.release([own.blob])
        return [*kept, *((ref.slot, ref.generation) for ref in own.value.refs)]


def _lacking(task: Task, engine: Engine) -> str:
    """What a task wants that the engine cannot do; "" if it can."""
    actor = task.creates.actor if task.creates is not None else None
    wanted = {
        limits.ACTORS: actor is not None,
        limits.CONCURRENT_ACTORS: actor is not None and (actor.concurrency > 1 or not actor.flags & ACTOR_FLAG_ORDERED),
        limits.GENERATORS: task.stream >= 0,
        limits.GROUPS: task.bundle is not None,
    }
    return next((what for what in engine.can.lacks if wanted.get(what)), "")


def _not_constructed(engine: str, kind: FailureKind, text: str) -> Exception:
    """Why an actor cannot begin, however often that is tried."""
    if kind == "object_lost":
        return ObjectLostError("an argument of the actor is gone, together with the process that held it")
    return EngineError(f"{engine} cannot begin this actor ({kind}): {text}")


def _in_units(shares: messages.Shares) -> dict[str, float]:
    return {name: amount / RESOURCE_UNIT for name, amount in shares.items()}


def amounts(total: Any) -> dict[str, int]:
    """Amounts of resources as messages have them."""
    return {name: int(amount * RESOURCE_UNIT) for name, amount in total.items() if amount > 0}
