"""The engine's side of what goes on between it and the session: a peer in the messages of peers, without a segment.

What another node would do with its segment this does with the engine: tasks become parcels, and their results are told
as they come; what they refer to, and what they make, is `values`. Pure: `receive` takes what the agent says, `told`
what the engine tells; messages go out through `send`, calls through the engine, and neither waits.

A task waits here until all is known that it refers to, and what that refers to, since its pocket can ask nobody. Calls
of an actor go to the engine in the order in which they came: one that waits holds back those behind it, if they are to
begin in order; see `actors`. Calls of quick functions go together, by `flush`; see `packing`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from ..errors import engine_limits as limits
from ..exceptions import EngineError, EngineUnsupportedError
from ..objstore._core import (
    ACTOR_FLAG_ORDERED,
    FAILURE_UNPLACED,
    OBJECT_ERROR,
    OBJECT_FAILED,
    TASK_FLAG_RETRY_EXCEPTIONS,
)
from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import Chunk, Fetch, Kill, Message, Ref, Result, Task, Told, Value
from .actor.asked import Caller, CallsOut
from .actors import Actors, Living, exit_code_of, limits_of
from .bundles import Bundles, is_in
from .calls import (
    ANY_NUMBER,
    CODES,
    RERUN,
    Call,
    InUse,
    Pack,
    in_units,
    kind_of,
    lacking,
    limits_for,
    n_at_once,
    not_constructed,
    to_send,
)
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
    Parcel,
    Said,
    SetAside,
)
from .packing import SLOW_S, Packing
from .parcels import (
    CLOSED,
    Called,
    Done,
    Given,
    Key,
    Outcomes,
    Progress,
    Reads,
    Uncalled,
    Work,
    Yielded,
    decode_done,
    decode_outcomes,
    decode_progress,
    encode,
    places_of,
)
from .values import Fault, Values

MESSAGE_BYTES = 1 << 20  # of values in one message of results, about


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
        self._values = Values(engine, send, clock, self._forgotten)
        self._calls: dict[int, Call] = {}
        self._numbers: dict[Handle, int] = {}
        self._packs: dict[Handle, Pack] = {}
        self._packing = Packing(clock)
        self._ends: list[tuple[Call, Result]] = []  # of a parcel, that are told together
        self._end_bytes = 0
        self._actors = Actors()
        self._calls_out = CallsOut(
            self._values,
            lambda message: send(message, None),
            self._answer,
            self._hears,
            self._has_made,
        )
        self._bundles = Bundles(engine, lambda message: send(message, None))
        self._in_use = InUse()

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
            self._packing.sent(handle, kind_of(self._calls[numbers[0]].task))
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
        call = self._calls[task.number] = Call(task, needs, set())
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
        given: list[Given] = []
        blobs: list[Blob] = []
        for key in self._values.reachable(chain.from_iterable(call.needs for call in calls)):
            thing = self._values[key]
            assert thing.value is not None  # nothing is missing
            given.append(Given(*key, thing.value, -1 if thing.blob is None else len(blobs)))
            if thing.blob is not None:
                blobs.append(thing.blob)
        task, is_packed = calls[0].task, len(calls) > 1
        living = self._called(task)
        sent = [to_send(call, None if living is None else living.name) for call in calls]
        about = None if task.bundle is None else Ref(*calls[0].needs[-1])
        work = encode(Work(self._session, self._namespace, sent, given, about))
        left = calls[0].n_left
        by_exceptions = bool(task.flags & TASK_FLAG_RETRY_EXCEPTIONS)  # then the pocket tries again, and counts
        most_runs = 1 if by_exceptions or is_packed else left + 1 if left >= 0 else ANY_NUMBER
        n_results = 0 if is_packed else task.n_returns
        group = 0 if living is None else task.group
        parcel = Parcel(
            work,
            blobs,
            in_units(task.demand),
            most_runs,
            n_results,
            is_packed,
            limits=limits_for(task),
            group=group,
            bundle=None if task.bundle is None else self._bundles.of(task.bundle),
        )
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
        self._calls_out.forget(call)
        if call.handle is None:
            self._packing.discard(number)
        self._in_use.change(call.uses, {})
        self._values.drop([*call.needs, *call.names.values(), *chain.from_iterable(call.brought.values())])
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
        living = self._called(call.task)
        if living is not None and living.how.flags & ACTOR_FLAG_ORDERED:
            self._advance(living)
        elif not call.missing and living is not None and living.takes_calls:
            living.line.remove(call.task.number)
            self._submit(call)
        elif not call.missing and living is None:
            if (kind := kind_of(call.task)) is None:
                self._submit(call)
            else:
                self._packing.add(call.task.number, call.needs[0], kind)

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
        self._calls_out.forget(living)
        self._values.drop([*self._keep(living, []), *chain.from_iterable(living.brought.values())])
        living.brought.clear()
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
        own = self._values.new(replace(task.creates, refs=[Ref(*key) for key in inner]), None)
        own.n_told = 1
        how = task.creates.actor
        assert how is not None
        living = self._actors.begin(own.key, done.actor, how, actor, done.turn + 1)
        if living.end is None:
            living.uses = self._in_use.change({}, task.hold)
        return living

    def _keep(self, living: Living, keys: Iterable[Key]) -> list[Key]:
        """It refers to these, of what it was given, and to no others: which are let go of then."""
        kept = {key for key in keys if key in self._values}
        self._values.hold(kept - living.kept)
        before, living.kept = living.kept, kept
        return [*(before - kept)]

    def _note_made(self, who: Living | Call, made: dict[Key, Key], gone: list[Key]) -> None:
        """It may name again what it has made, but not what is gone."""
        self._values.hold(made.values())
        who.names.update(made)
        self._values.drop([who.names.pop(key) for key in gone])

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
        self._calls_out.forget(living)
        self._engine.kill(living.actor, False)
        self._in_use.change(living.uses, {})
        return [*living.kept, *living.names.values(), *chain.from_iterable(living.brought.values())]

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

    def _told_while_it_runs(self, call: Call, outcomes: Outcomes) -> None:
        """Of the parcel of a call that runs."""
        pack, handle = call.pack, call.handle
        if pack is None or handle is None:
            return
        self._take_outcomes(pack, outcomes, [])
        if pack.numbers == {call.task.number} and call.is_cancelled:
            self._engine.cancel(handle, False)

    # ---- what pockets tell
    def _has_ended(self, call: Call, done: Done, blobs: Sequence[Blob]) -> None:
        """A call has, with what it has not told before."""
        self._hear(call, Progress(call.task.number, done.run, done.at, done.news), done, blobs)

    def _said(self, progress: Progress, blobs: Sequence[Blob]) -> None:
        call = self._calls.get(progress.number)
        if call is None or progress.run in call.past_runs:
            self._engine.release(blobs)
        else:
            self._hear(call, progress, None, blobs)

    def _hear(self, call: Call, progress: Progress, done: Done | None, blobs: Sequence[Blob]) -> None:
        """A pocket tells of a task; `done`: it has ended."""
        if (living := self._called(call.task)) is not None:
            living.came.setdefault(call.task.number, deque()).append((progress, done, blobs))
            self._take_turns(living)
        elif done is None and progress.at > (call.n_news if progress.run == call.run else 0):
            call.early.append((progress, blobs))  # by another way than what was said before, which is to come yet
        else:
            if done is not None:  # what was said before that is lost
                for one, its_blobs in sorted(call.early, key=lambda one: one[0].at):
                    self._progressed(call, one, its_blobs)
                call.early = []
            if progress.others is not None:
                self._told_while_it_runs(call, progress.others)
            self._progressed(call, progress, blobs)
            early, call.early = call.early, []
            for one, its_blobs in early:
                self._hear(call, one, None, its_blobs)
            if done is not None:
                self._ended(call, done, blobs)

    def _take_turns(self, living: Living) -> None:
        """Take in what was told of its calls, as far as it is its turn."""
        while any([self._take_turn(living, number) for number in list(living.came)]):
            pass
        if living.end is not None and living.all_came:  # and something before that was lost with it
            for number in list(living.given):
                self._ended_with_its_actor(self._calls[number], 1)

    def _take_turn(self, living: Living, number: int) -> bool:
        """What comes next of a call; whether it was its turn."""
        call, came = self._calls[number], living.came[number]
        progress, done, blobs = came.popleft()
        left = self._progressed(call, progress, blobs)
        if left.news or (done is not None and done.turn != living.turn):
            came.appendleft((left, done, blobs))
            return len(left.news) < len(progress.news)
        if not came:
            del living.came[number]
        if done is not None:
            living.turn += 1
            self._ended(call, done, blobs)
        return True

    def _progressed(self, call: Call, progress: Progress, blobs: Sequence[Blob]) -> Progress:
        """What is left of it, as it is not its turn."""
        left = self._tell_news(call, progress, blobs)
        if 0 <= progress.taken < call.taken:  # it was lost, or said to a run before
            self._tell_taken(call)
        if progress.unanswered is not None and call.handle is not None:
            heard = progress.unanswered
            open_ones = {key: one for key, one in call.answers.items() if key[1] >= heard.get(key[0], key[1] + 1)}
            for message, is_late in open_ones.values():
                if is_late:
                    self._engine.say(call.handle, message)
            call.answers = {key: (message, True) for key, (message, _) in open_ones.items()}
        return left

    def _tell_news(self, call: Call, progress: Progress, blobs: Sequence[Blob]) -> Progress:
        if progress.run != call.run:
            self._calls_out.forget(call)
            call.past_runs.add(call.run)
            call.run, call.n_news = progress.run, 0
            self._values.drop([*call.names.values(), *chain.from_iterable(call.brought.values())])
            call.names.clear()
            call.answers.clear()
            call.brought.clear()
        living = self._called(call.task)
        for n, piece in enumerate(progress.news, progress.at):
            if n < call.n_news:
                self._engine.release([blobs[place] for place in places_of(piece)])
                continue
            if isinstance(piece, Yielded | Called):
                if living is not None and piece.turn != living.turn:
                    return replace(progress, at=n, news=progress.news[n - progress.at :], taken=-1)
                if living is not None:
                    living.turn += 1
                if isinstance(piece, Yielded):
                    self._tell_items(call, piece, blobs)
                else:
                    self._make_calls(call, piece, blobs)
            elif isinstance(piece, Uncalled):
                self._calls_out.cancel(piece)
            elif isinstance(piece, Reads):
                self._calls_out.read(piece)
            elif isinstance(piece, Kill):
                self._calls_out.kill(piece, living or call)
            else:
                self._send(piece, None)
                if isinstance(piece, messages.Begun) and call.handle is not None:
                    call.uses = self._in_use.change(call.uses, call.task.demand)
            call.n_news = n + 1
        return replace(progress, at=progress.at + len(progress.news), news=[], taken=-1)

    def _tell_items(self, call: Call, piece: Yielded, blobs: Sequence[Blob]) -> None:
        known = self._names(call)
        made = self._values.make_all(piece.made, blobs, known)
        values = [self._values.value_of(given, blobs, known) for given in piece.values]
        self._send(messages.Items(call.task.number, piece.at, values), None)
        self._note_made(self._called(call.task) or call, made, piece.gone)

    # ---- calls that they make
    def _make_calls(self, call: Call, piece: Called, blobs: Sequence[Blob]) -> None:
        known = self._names(call)
        made = self._values.make_all(piece.made, blobs, known)
        who = self._called(call.task) or call
        results = self._calls_out.call(who, piece, call.task.origin, known)
        self._note_made(who, made | results, piece.gone)

    def _hears(self, who: Caller) -> bool:
        if isinstance(who, Living):
            return who.end is None and self._actors.get(who.key) is who
        return who.handle is not None and self._calls.get(who.task.number) is who

    def _answer(self, who: Caller, number: int, at: int, message: bytes, keys: list[Key]) -> None:
        self._values.hold(keys)
        who.brought.setdefault(number, []).extend(keys)
        if isinstance(who, Living):
            self._engine.say(who.actor, message)
        else:
            who.answers[number, at] = message, False
            self._engine.say(who.handle, message)

    def _has_made(self, who: Caller, run: int, name: Key, actor: Key) -> None:
        """It has made an actor, in that run, which its pocket calls by that name."""
        if isinstance(who, Living) or who.run == run:
            self._note_made(who, {name: actor}, [])

    def _names(self, call: Call) -> dict[Key, Key]:
        """What a pocket calls what it has made before."""
        living = self._called(call.task)
        return call.names.copy() if living is None else {**living.names, living.name: living.key}

    def _ended(self, call: Call, done: Done, blobs: Sequence[Blob]) -> None:
        if kind_of(call.task) is not None:  # one that makes large values does so for longer
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
            self._calls_out.move(call, living)
            living.names, call.names = call.names, {}
            living.brought, call.brought = call.brought, {}
        if living is not None:
            unneeded = self._keep(living, done.kept)
            for number in living.brought.keys() - set(done.unanswered):
                unneeded += living.brought.pop(number)
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
