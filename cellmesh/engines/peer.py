"""The engine's side of what goes on between it and the session: a peer in the messages of peers, without a segment.

What another node would do with its segment this does with the engine: tasks become parcels, and their results are told
as they come; what they refer to, and what they make, is `values`. Pure: `receive` takes what the agent says, `told`
what the engine tells; messages go out through `send`, calls through the engine, and neither waits.

A task waits here until all is known that it refers to, and what that refers to, since its pocket can ask nobody. Calls
of an actor go to the engine in the order in which they came: one that waits holds back those behind it, if they are to
begin in order; see `actors`. Calls of quick functions go together, by `flush`; see `packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from ..errors import engine_limits as limits
from ..exceptions import EngineError, EngineUnsupportedError
from ..objstore._core import ACTOR_FLAG_ORDERED, FAILURE_UNPLACED, OBJECT_ERROR, OBJECT_FAILED
from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import Chunk, Fetch, Message, Ref, Result, Task, Told, Value
from .actors import Living, exit_code_of, limits_of
from .bundles import Bundles, is_in
from .calls import (
    CODES,
    RERUN,
    Call,
    Pack,
    in_units,
    kind_of,
    lacking,
    n_at_once,
    not_constructed,
    parcel_of,
    to_send,
)
from .heard import HeardCalls
from .interface import (
    ActorEnded,
    Blob,
    Came,
    Ended,
    Engine,
    Event,
    Failed,
    FailureKind,
    Handle,
    Lost,
    Said,
    SetAside,
)
from .packing import SLOW_S, Packing
from .parcels import CLOSED, Done, Key, Outcomes, Work, decode_done, decode_outcomes, decode_progress, encode
from .values import Fault, Values

MESSAGE_BYTES = 1 << 20  # of values in one message of results, about


class EnginePeer(HeardCalls):
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
        super().__init__(engine, Values(engine, send, clock, self._forgotten), send)
        self._name, self._session, self._namespace = name, session, namespace
        self._error_bytes, self._clock = error_bytes, clock
        self._numbers: dict[Handle, int] = {}
        self._packs: dict[Handle, Pack] = {}
        self._packing = Packing(clock)
        self._ends: list[tuple[Call, Result]] = []  # of a parcel, that are told together
        self._end_bytes = 0
        self._bundles = Bundles(engine, lambda message: send(message, None))

    def __len__(self) -> int:
        return len(self._calls)

    def sweep(self, now: float) -> None:
        """Let go of what has not been used for long. `now`: seconds, monotonic."""
        self._values.sweep(now)

    def news_of_used(self) -> messages.Shares | None:
        """What tasks that are known to have begun have there, and actors, if that is news."""
        return self._in_use.news()

    def flush(self) -> float | None:
        """Give the engine what has come by now, and can go together. Seconds until this is to be done again; None: once
        there is something else."""
        if not len(self._packing):
            return None
        nodes = self._engine.nodes()
        for numbers in self._packing.take(lambda number: n_at_once(self._calls[number].task, nodes)):
            handle = self._submit(*[self._calls[number] for number in numbers])
            self._packing.sent(handle, self._calls[numbers[0]].kind)
        return self._packing.wait_s()

    # ---------------------------------------------------------------- from the agent
    def receive(self, message: messages.ToPeer, frame: messages.Frame = b"") -> None:
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
                    self._values.sealed(ref)
            case Chunk():
                self._values.chunk(message, frame)
            case messages.Released(objects):
                self._values.released(objects)
            case Fetch():
                self._values.fetch(message)
            case messages.Want(objects):
                found = [self._values.own_of(told.slot, told.generation) for told in objects]
                self._send(messages.Sealed([Ref(*own.key, value=self._values.told_value(own)) for own in found]), None)
            case messages.Results(results):
                for result in results:
                    self._calls_out.answered(result)
            case messages.Items():
                self._calls_out.items(message)
            case messages.Returned(numbers):
                self._calls_out.returned(numbers)
            case messages.Found():
                self._calls_out.found(message)
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
            case messages.Reserve():
                about = self._values.resolve(message.about)
                self._values.hold([about])
                if not self._bundles.reserve(message, about):
                    self._values.drop([about])
            case messages.Unreserve():
                self._unplace(message)
            case _:
                pass
        self._proceed()
        if self._values.wants:
            wants, self._values.wants = self._values.wants, []
            self._send(messages.Want(wants), None)

    def _begin(self, task: Task) -> None:
        if task.number in self._calls:
            raise Fault(f"task {task.number} comes twice")
        refs = [task.function, *task.refs]
        if task.creates is not None:
            refs += task.creates.refs
        if task.checkpoint is not None:
            refs.append(task.checkpoint)
        needs = [self._values.resolve(ref) for ref in refs]
        self._values.hold(needs)
        self._values.note_function(needs[0])
        living = self._called(task)
        if living is not None and living.end is not None:
            self._values.drop(needs)
            return  # home knows by now
        if task.bundle is not None and self._engine.can.groups:
            about = self._bundles.about(task.bundle)
            if about is None:  # it is given back meanwhile
                self._values.drop(needs)
                self._send(messages.Returned([task.number]), None)
                return
            self._values.hold([about])
            needs.append(about)
        call = self._calls[task.number] = Call(task, needs, set(), kind_of(task))
        if lacks := lacking(task, self._engine):
            self._refuse(call, lacks)
        else:
            if living is not None:
                living.line.append(task.number)
            self._wait_for(call, needs)
            self._go_on(call)

    def _refuse(self, call: Call, what: str) -> None:
        self._raise(call, EngineUnsupportedError(limits.unsupported(self._name, what)))

    def _raise(self, call: Call, error: Exception) -> None:
        self._end(call, [self._error_value(error)] * call.task.n_returns)

    def _error_value(self, error: Exception) -> Value:
        data = self._error_bytes(error)
        return Value(OBJECT_ERROR, len(data), data)

    # ---- what tasks refer to
    def _wait_for(self, call: Call, keys: Iterable[Key]) -> None:
        for thing in self._values.missing(keys):
            call.missing.add(thing.key)
            thing.waiting.add(call.task.number)

    def _proceed(self) -> None:
        """Submit what has waited for what is known by now."""
        while self._values.known:
            thing = self._values.known.popleft()
            waiting, thing.waiting = thing.waiting, set()
            for number in sorted(waiting):
                call = self._calls.get(number)
                if number < 0:
                    self._calls_out.known(-number, thing)
                elif call is not None:
                    call.missing.discard(thing.key)
                    self._wait_for(call, thing.refs)
                    self._go_on(call)

    # ---------------------------------------------------------------- tasks
    def _submit(self, *calls: Call) -> Handle:
        """Give the engine that call, or several that go together."""
        given, blobs = self._values.given(chain.from_iterable(call.needs for call in calls))
        task, is_packed = calls[0].task, len(calls) > 1
        living = self._called(task)
        sent = [to_send(call, None if living is None else living.name) for call in calls]
        about = None if task.bundle is None else Ref(*calls[0].needs[-1])
        work = encode(Work(self._session, self._namespace, sent, given, about))
        parcel = parcel_of(calls, work, blobs, None if task.bundle is None else self._bundles.of(task.bundle))
        if task.creates is not None:
            handle = self._engine.create_actor(parcel, in_units(task.hold))
        elif living is not None:
            handle = self._engine.call(living.actor, parcel)
            living.given[task.number] = None
        else:
            handle = self._engine.submit(parcel)
        if is_packed:
            pack = self._packs[handle] = Pack({call.task.number for call in calls})
        else:
            pack, self._numbers[handle] = None, task.number
        for call in calls:
            call.handle, call.pack, call.blobs, call.given_at = handle, pack, blobs, self._clock()
        return handle

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
        elif call.pack is None or all(self._calls[number].is_cancelled for number in call.pack.numbers):
            self._engine.cancel(call.handle, False)
            living = self._called(call.task)
            if living is not None and limits_of(living.how):  # one that runs may be a coroutine
                self._engine.say(call.handle, encode(messages.Cancel([call.task.number])))
        elif not call.pack.is_withdrawn:
            call.pack.is_withdrawn = True
            self._engine.withdraw(call.handle)

    def _unplace(self, message: messages.Unreserve) -> None:
        """These bundles are not wanted any more, nor what runs in them."""
        for call in [call for call in self._calls.values() if is_in(call.task, message)]:
            call.is_unplaced = True
            if call.handle is None:
                self._end_unplaced(call)
            elif call.task.creates is not None:
                self._engine.kill(call.handle, True)
            else:
                self._engine.cancel(call.handle, True)
        self._values.drop(self._bundles.unreserve(message))

    def _end_unplaced(self, call: Call) -> None:
        assert call.task.bundle is not None
        value = Value(OBJECT_FAILED, code=FAILURE_UNPLACED, detail=call.task.bundle.group)
        self._end(call, [value] * call.task.n_returns)

    def _give_back(self, numbers: Iterable[int]) -> None:
        """What the engine has been given stays there: it may have begun."""
        found = [self._calls[number] for number in numbers if number in self._calls]
        self._return([call.task.number for call in found if call.handle is None and call.task.actor is None])

    def _return(self, waiting: list[int]) -> None:
        for number in waiting:
            self._packing.discard(number)
            self._values.drop(self._calls.pop(number).needs)
        if waiting:
            self._send(messages.Returned(waiting), None)

    def _end(self, call: Call, values: list[Value], done: Done | None = None, constructed: Ref | None = None) -> None:
        failed = done is None or done.failed
        times = (0, 0, 0)
        if done is not None:  # what it waited for the engine no pocket knows
            times = done.pid, max(0, int((self._clock() - call.given_at) * 1e6) - done.ran), done.ran
        self._ends.append((call, Result(call.task.number, int(failed), values, constructed, *times)))
        self._end_bytes += sum(len(value.data) for value in values)
        if call.pack is None or self._end_bytes > MESSAGE_BYTES:
            self._tell_ends()

    def _tell_ends(self) -> None:
        """Tell of those that have ended together; only then home may hear what is not needed any more."""
        ends, self._ends, self._end_bytes = self._ends, [], 0
        if ends:
            self._send(messages.Results([result for _, result in ends]), None)
        for call, _ in ends:
            self._take_out(call)

    def _take_out(self, call: Call) -> None:
        """Nothing more is to be told of it."""
        number, living = call.task.number, self._called(call.task)
        del self._calls[number]
        if call.handle is None:
            self._packing.discard(number)
        self._in_use.change(call.uses, {})
        self._values.drop([*call.needs, *self._forget(call)])
        for _, blobs in call.early:
            self._engine.release(blobs)
        if living is not None:
            living.given.pop(number, None)
            for _, _, blobs in living.came.pop(number, []):
                self._engine.release(blobs)
            if number in living.line:
                living.line.remove(number)
            self._advance(living)

    def _fail(self, call: Call, kind: FailureKind, code: int = 0) -> None:
        detail = exit_code_of(kind, code) if kind == "crashed" or call.task.creates is not None else 0
        self._end(call, [Value(OBJECT_FAILED, code=CODES[kind], detail=detail)] * call.task.n_returns)

    # ---- actors

    def _go_on(self, call: Call) -> None:
        """Submit it, if nothing is missing and it is its turn."""
        living = self._called(call.task)
        if living is not None and living.how.flags & ACTOR_FLAG_ORDERED:
            self._advance(living)
        elif not call.missing and living is not None and living.takes_calls:
            living.line.remove(call.task.number)
            self._submit(call)
        elif not call.missing and living is None:
            if call.kind is None:
                self._submit(call)
            else:
                self._packing.add(call.task.number, call.needs[0], call.kind)

    def _advance(self, living: Living) -> None:
        """Give the engine the calls whose turn it is; or tell of the end, once what becomes of its calls is known."""
        ordered = living.how.flags & ACTOR_FLAG_ORDERED
        while ordered and living.takes_calls and living.line and not self._calls[living.line[0]].missing:
            self._submit(self._calls[living.line.popleft()])
        if living.end is None or living.given or living.is_told:
            return
        living.is_told = True
        for number in living.line:  # home lets them stand in line again, as all of which it does not hear
            self._values.drop(self._calls.pop(number).needs)
        living.line.clear()
        self._values.drop([*self._keep(living, []), *self._forget(living)])
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
        own = self._values.new(replace(task.creates, refs=[Ref(*key) for key in inner]), None)
        own.n_told = 1
        how = task.creates.actor
        assert how is not None
        living = self._actors.begin(own.key, done.actor, how, actor, done.turn + 1)
        if living.end is None:
            living.uses = self._in_use.change({}, task.hold)
        return living

    def _kill(self, kill: messages.Kill) -> None:
        if kill.actor is not None:
            own = self._values.own_of(kill.actor.slot, kill.actor.generation)
            if (living := self._actors.get(own.key)) is not None and living.end is None:
                living.is_killed = True
                self._engine.kill(living.actor, True)
        elif (call := self._calls.get(kill.number)) is not None and call.task.creates is not None:
            if call.handle is None:
                self._return([kill.number])
            else:
                self._cancel_call(call)

    def _actor_ended(self, event: ActorEnded) -> None:
        living = self._actors.ended(event, event.actor in self._numbers)
        if living is not None:
            living.uses = self._in_use.change(living.uses, {})
            self._take_turns(living)
            self._advance(living)

    def _forgotten(self, key: Key) -> list[Key]:
        """Home does not know that any more; if it is an actor, what it kept."""
        living = self._actors.forget(key)
        if living is None or living.end is not None:
            return []
        self._engine.kill(living.actor, False)
        self._in_use.change(living.uses, {})
        return [*living.kept, *self._forget(living)]

    def _ended_with_its_actor(self, call: Call, n_runs: int) -> None:
        living = self._called(call.task)
        assert living is not None
        if n_runs:
            living.begun.append(call.task.number)
        self._take_out(call)

    # ---------------------------------------------------------------- from the engine
    def told(self, event: Event) -> None:
        """Take in what the engine tells of a parcel or a blob."""
        if isinstance(event, (Ended, Failed)):
            self._packing.ended(event.handle)
        match event:
            case Ended(handle, data, blobs) if handle in self._packs:
                pack = self._packs.pop(handle)
                outcomes = decode_outcomes(data)
                self._take_outcomes(pack, outcomes, list(blobs), alone=not outcomes.ended)  # it had no room for them
                assert not pack.numbers
            case Failed(handle) if handle in self._packs:
                for number in sorted(self._packs.pop(handle).numbers):
                    self._calls[number].n_runs += event.n_runs
                    self._begin_again(self._calls[number], alone=event.kind != "cancelled" or event.n_runs > 0)
            case Ended(handle, data, blobs):
                self._has_ended(self._calls[self._numbers.pop(handle)], decode_done(data), blobs)
            case Failed(handle):
                call = self._calls[self._numbers.pop(handle)]
                living = self._called(call.task)
                self._failed(call, event)
                if living is not None:
                    self._take_turns(living)
            case Said(message, blobs):
                self._said(decode_progress(message), blobs)
            case ActorEnded():
                self._actor_ended(event)
            case SetAside(group):
                self._bundles.set_aside(group)
            case Came(blob, data):
                self._values.came(blob, data)
            case Lost(blob):
                self._values.came(blob, None)
            case _:
                pass
        self._proceed()

    # ---- calls that went together
    def _take_outcomes(self, pack: Pack, outcomes: Outcomes, blobs: list[Blob], alone: bool = False) -> None:
        """What has become of some of them; of the others, and what is said again, this knows already. `alone`: those
        that have not begun are to share no parcel again."""
        for number, done in outcomes.ended:
            if number in pack.numbers:
                pack.numbers.discard(number)
                self._has_ended(self._calls[number], done, blobs)
            else:
                self._engine.release([blobs[given.blob] for given in (*done.values, *done.made) if given.blob >= 0])
        self._tell_ends()
        for number in outcomes.back:
            if number in pack.numbers:
                pack.numbers.discard(number)
                self._begin_again(self._calls[number], alone)

    def _begin_again(self, call: Call, alone: bool) -> None:
        """It has not come to its end with others. `alone`: and it is not to share theirs again."""
        call.handle = call.pack = None
        call.uses = self._in_use.change(call.uses, {})
        if call.is_cancelled:
            self._fail(call, "cancelled")
        elif alone:
            self._submit(call)
        else:
            self._go_on(call)

    def _told_of_others(self, call: Call, outcomes: Outcomes) -> None:
        pack, handle = call.pack, call.handle
        if pack is None or handle is None:
            return
        self._take_outcomes(pack, outcomes, [])
        if pack.numbers == {call.task.number} and call.is_cancelled:
            self._engine.cancel(handle, False)

    # ---- their ends
    def _ended(self, call: Call, done: Done, blobs: Sequence[Blob]) -> None:
        if call.kind is not None:  # one that makes large values does so for longer
            is_large = any(given.blob >= 0 for given in (*done.values, *done.made))
            self._packing.note_run(call.needs[0], SLOW_S if is_large else done.ran * 1e-6)
        # By the interrupt, or as it was not read on.
        is_cancelled = call.is_cancelled and (done.failed or call.task.stream >= 0)
        living, new = self._called(call.task), self._names(call)
        if is_cancelled:
            lost = done.values if living is not None else [*done.values, *done.made]
            self._engine.release([blobs[given.blob] for given in lost if given.blob >= 0])
        if is_cancelled and living is None:
            self._fail(call, "cancelled")
            return
        made = self._values.make_all(done.made, blobs, new)
        values = [] if is_cancelled else [self._values.value_of(given, blobs, new) for given in done.values]
        saved = None
        if done.saved is not None:
            self._values.secure(new[done.saved])
            saved = self._values.tell(new[done.saved])
        constructed, unneeded = None, list[Key]()
        if call.task.creates is not None and (living := self._constructed(call, done)) is not None:
            constructed = Ref(*living.key)
            self._constructs(call, living)
        if living is not None:
            unneeded = self._settle(living, done)
            self._note_made(living, made, done.gone)
        if is_cancelled:
            self._fail(call, "cancelled")
        else:
            self._end(call, values, done, constructed)
        if living is not None and saved is not None:
            self._send(messages.Checkpoint(Told(*living.key), saved), None)
        self._values.drop(unneeded)  # home hears of that behind what names it
        if constructed is not None and living is not None:
            self._advance(living)

    def _failed(self, call: Call, failed: Failed) -> None:
        kind, text = failed.kind, failed.text
        call.n_runs += failed.n_runs
        call.handle = None
        call.uses = self._in_use.change(call.uses, {})
        if kind == "object_lost":
            self._values.note_lost(call.blobs)
        if call.task.actor is not None and kind in RERUN:
            self._ended_with_its_actor(call, failed.n_runs)
            return
        if call.task.creates is not None:
            self._actors.failed(failed.handle)
        if call.is_unplaced:
            self._end_unplaced(call)
            return
        again = call.task.max_retries < 0 or call.n_runs <= call.task.max_retries
        if kind in RERUN and again and not call.is_cancelled:
            self._submit(call)
        elif kind == "env_failed":
            self._raise(call, EngineError(f"no worker of {self._name} can run this task: {text}"))
        elif call.task.creates is not None and kind not in RERUN:  # it would not be otherwise another time
            self._raise(call, not_constructed(self._name, kind, text))
        else:
            self._fail(call, kind, failed.code)
