"""Calls of the session's actors that pockets have made, as the engine's side has them: it makes them at home, as a node
would, and says what becomes of them to the pocket, if that is there still. Pure.

What a call returns is an object of the engine's, pending until home has answered: so it can be named, in whatever a
task returns or gives on, before that, and when its caller has ended. What a call yields the pocket is told as it comes,
in its order, and nobody else can read it: with the caller's end it is not read on. An actor that a pocket makes is
home's from the beginning (decision 153); the pocket gets its handle, and names it to nobody before. The session's
agent, of which each pocket has a stand-in, is looked for once somebody calls it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from ...objstore._core import (
    FAILURE_ACTOR_DIED,
    FAILURE_OBJECT_LOST,
    FAILURE_STORE_FULL,
    OBJECT_FAILED,
    OBJECT_PENDING,
)
from ...scheduler.cluster.agent.requests import NAME
from ...scheduler.cluster.messages import (
    Cancel,
    Find,
    Found,
    Items,
    Kill,
    Message,
    Ref,
    Result,
    Taken,
    Task,
    Tasks,
    Told,
    Value,
)
from ...scheduler.ipc.messages import AGENT_NAMESPACE
from ..actors import Living
from ..calls import Call
from ..parcels import AGENT, SELF, Answered, Called, Given, Key, Reads, Uncalled, encode
from ..values import Fault, Object, Own, Values

Caller = Call | Living
LOST = Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST)
GONE = Value(OBJECT_FAILED, code=FAILURE_ACTOR_DIED)  # the actor; of one that is made: its name is, see `calling`
FULL = Value(OBJECT_FAILED, code=FAILURE_STORE_FULL)


class Asked(Struct):
    """A call, or `of` one some of what that yields. `who` has made it, in its `run`, and its pocket calls it `named`.
    `own`: what it returns; `values`, `sources`: as of `Values.take`, once home has answered; `missing`: what of that is
    not known yet. `makes`: it constructs an actor that its pocket calls so. `at`: how many items came before; `line`:
    what the pocket is to be told of the call, in order."""

    number: int
    who: Caller
    pocket: int
    named: int
    own: list[Key]
    run: int = 0
    makes: Key | None = None
    of: Asked | None = None
    at: int = 0
    line: deque[Asked] = field(default_factory=deque["Asked"])
    failed: bool = False
    values: list[Value] = []
    sources: list[Key | None] = []
    missing: set[Key] = field(default_factory=set[Key])
    is_answered: bool = False
    to_come: set[Key] = field(default_factory=set[Key])  # objects whose bytes are read
    data: dict[Key, bytes | memoryview | None] = field(default_factory=dict[Key, "bytes | memoryview | None"])
    is_settled: bool = False  # all is here that its pocket is to be told


class CallsOut:
    """See above.

    Parameters
    ----------
    values : Values
    send : callable (message)
        To the agent.
    say : callable (who, number, at, message, keys)
        To the pocket of a caller, which calls the call so, and had so many items before. `keys`: what it may refer to
        from then on.
    is_there : callable (who) -> bool
        Whether a caller has a pocket still.
    made : callable (who, run, name, key)
        Who has made an actor, which its pocket calls by that name, holds it from now on.
    """

    def __init__(
        self,
        values: Values,
        send: Callable[[Message], None],
        say: Callable[[Caller, int, int, bytes, list[Key]], None],
        is_there: Callable[[Caller], bool],
        made: Callable[[Caller, int, Key, Key], None],
    ) -> None:
        self._values, self._send, self._say = values, send, say
        self._is_there, self._made = is_there, made
        self._asked: dict[int, Asked] = {}
        self._read: dict[int, Asked] = {}  # of these, those that yield, and are read on
        self._n = 0
        self._agent: Key | None = None
        self._is_looking = False  # for it
        self._for_agent: list[Task] = []  # calls, until it is known

    def __len__(self) -> int:
        return len(self._asked)

    def _hears(self, asked: Asked) -> bool:
        """Whether who has made that call can be told of it."""
        who = asked.who
        return self._is_there(who) and (isinstance(who, Living) or who.run == asked.run)

    # ---- to home
    def call(self, who: Caller, piece: Called, origin: int, known: dict[Key, Key]) -> dict[Key, Key]:
        """A pocket has made these calls. `origin`: the cell that they come from; `known`: what the pocket calls what it
        has made. Returns the same for what they return."""
        values, named = self._values, dict[Key, Key]()
        tasks: list[Task] = []
        refused: list[tuple[Asked, Value]] = []
        for task, results in zip(piece.tasks, piece.results, strict=True):
            self._n += 1
            makes = None if task.home is None else results[0]
            own = [] if makes is not None else [values.new(Value(OBJECT_PENDING), None).key for _ in results]
            values.hold(own)
            run = 0 if isinstance(who, Living) else who.run
            asked = self._asked[self._n] = Asked(self._n, who, piece.pocket, task.number, own, run, makes)
            if task.stream >= 0:
                self._read[self._n] = asked
            actor, why = (None, None) if task.actor is None else self._called(task.actor, who, known)
            if why is None:
                function, *refs = (values.tell(values.named(ref, known)) for ref in (task.function, *task.refs))
                call = replace(
                    task, number=self._n, function=function, refs=refs, actor=actor, origin=origin, comes_home=True
                )
                (tasks if actor != Ref(*AGENT) else self._for_agent).append(call)
            else:
                refused.append((asked, why))
            if makes is None:
                named.update(zip(results, own, strict=True))
                known.update(named)
        if tasks:
            self._send(Tasks(tasks))
        self._look_for_agent()
        for asked, why in refused:
            self._answer(asked, True, [why] * len(asked.own))
        return named

    def _called(self, ref: Ref, who: Caller, known: dict[Key, Key]) -> tuple[Ref | None, Value | None]:
        """What home calls an actor that a pocket calls, or, if it lives here, what is told of it once more; or why it
        cannot be called."""
        if (ref.slot, ref.generation) == AGENT:
            return Ref(*AGENT), None
        actor = self._actor(ref, who, known)
        thing = self._values[actor]
        if isinstance(thing, Own) and thing.value.actor is None:
            return None, LOST
        if isinstance(thing, Own) and not thing.n_told:  # home has let go of it
            return None, GONE
        return self._values.tell(actor), None

    def _actor(self, ref: Ref, who: Caller, known: dict[Key, Key]) -> Key:
        """The actor that a pocket names."""
        if (ref.slot, ref.generation) == SELF and isinstance(who, Living):
            return who.key
        return self._values.named(ref, known)

    def _look_for_agent(self) -> None:
        if not self._for_agent:
            return
        if self._agent is None:
            if not self._is_looking:
                self._is_looking = True
                self._send(Find(0, NAME, AGENT_NAMESPACE))
            return
        agent, calls, self._for_agent = Ref(*self._agent, yours=True), self._for_agent, []
        self._send(Tasks([replace(call, actor=agent) for call in calls]))

    def found(self, found: Found) -> None:
        """Home says which one its agent is.

        Raises
        ------
        Fault
            It has none.
        """
        if found.actor is None or self._agent is not None or not self._is_looking:
            raise Fault("it finds what was not looked for, or does not find itself")
        self._agent = self._values.resolve(found.actor)
        self._values.hold([self._agent])
        self._look_for_agent()

    def cancel(self, piece: Uncalled) -> None:
        """The values of these are not wanted any more."""
        there = [
            asked.number
            for asked in self._asked.values()
            if asked.pocket == piece.pocket and asked.named in piece.numbers and not asked.is_answered
        ]
        if there:
            self._send(Cancel(there))

    def read(self, piece: Reads) -> None:
        """So many items have been taken."""
        for number, asked in list(self._read.items()):
            if asked.pocket == piece.pocket and asked.named == piece.number:
                self._send(Taken(number, piece.n, piece.closed))
                if piece.closed:
                    del self._read[number]

    def forget(self, who: Caller) -> None:
        """It reads nothing any more of what its calls yield: its run has ended."""
        for number in [number for number, asked in self._read.items() if asked.who is who] if self._read else ():
            del self._read[number]
            self._send(Taken(number, 0, closed=True))

    def kill(self, piece: Kill, who: Caller) -> None:
        """A pocket kills an actor."""
        assert piece.actor is not None
        key = self._actor(Ref(piece.actor.slot, piece.actor.generation, yours=True), who, {})
        thing = self._values[key]
        lives_here = isinstance(thing, Own)
        if not lives_here or (thing.value.actor is not None and thing.n_told):
            self._send(Kill(Told(*key), 0, piece.no_restart, lives_here))

    # ---- from home
    def answered(self, result: Result) -> None:
        """Home says what has become of a call.

        Raises
        ------
        Fault
            It is none, or has been answered.
        """
        asked = self._asked.get(result.number)
        if asked is None or asked.is_answered or len(result.values) != len(asked.own):
            raise Fault(f"it answers call {result.number}, which it was not given, or was answered")
        if asked.makes is not None:
            self._has_made(asked, result.actor, GONE)
            return
        self._answer(asked, bool(result.status), result.values)

    def items(self, message: Items) -> None:
        """Home says what a call has yielded.

        Raises
        ------
        Fault
            It is none that yields, or other items come next.
        """
        call = self._asked.get(message.number)
        if call is None or call.is_answered or call.of is not None or call.makes is not None or message.at != call.at:
            raise Fault(f"it sends items of call {message.number} that cannot be")
        call.at += len(message.values)
        own = [self._values.new(Value(OBJECT_PENDING), None).key for _ in message.values]
        self._values.hold(own)
        self._n += 1
        part = Asked(self._n, call.who, call.pocket, call.named, own, call.run, of=call, at=message.at, line=call.line)
        self._asked[self._n] = part
        self._answer(part, False, message.values)

    def _answer(self, asked: Asked, failed: bool, values: Sequence[Value]) -> None:
        asked.is_answered, asked.failed = True, failed
        self._read.pop(asked.number, None)
        asked.line.append(asked)
        for value in values:
            taken, source = self._values.take(value)
            asked.values.append(taken)
            asked.sources.append(source)
        self._wait_for(asked, self._held(asked))
        self._go_on(asked)

    def returned(self, numbers: Iterable[int]) -> None:
        """Home has no room for these, which were to make actors."""
        for number in numbers:
            if (asked := self._asked.get(number)) is None or asked.makes is None:
                raise Fault(f"it returns call {number}")
            self._has_made(asked, None, FULL)

    def _has_made(self, asked: Asked, actor: Ref | None, why: Value) -> None:
        """`why`: there is none."""
        del self._asked[asked.number]
        key, value = (0, 0), why
        if actor is not None:
            key = self._values.resolve(actor)
            thing = self._values[key]
            assert thing.value is not None  # of an actor it is told at once
            value = thing.value
            self._values.hold([key])
        if self._hears(asked):
            if actor is not None and asked.makes is not None:
                self._made(asked.who, asked.run, asked.makes, key)
            answer = Answered(asked.pocket, asked.named, actor is None, [Given(*key, value)], [], [])
            self._say(asked.who, asked.named, 0, encode(answer), [])
        if actor is not None:
            self._values.drop([key])

    def known(self, number: int, thing: Object | Own) -> None:
        """Something is known that a call has waited for."""
        if (asked := self._asked.get(number)) is not None:
            asked.missing.discard(thing.key)
            self._wait_for(asked, thing.refs)
            self._go_on(asked)

    def _held(self, asked: Asked) -> list[Key]:
        """What its values are, and refer to, is held for it."""
        held = [source for source in asked.sources if source is not None]
        for value, source in zip(asked.values, asked.sources, strict=True):
            if source is None:
                held += [(ref.slot, ref.generation) for ref in value.refs]
        return held

    def _wait_for(self, asked: Asked, keys: Iterable[Key]) -> None:
        for thing in self._values.missing(keys):
            asked.missing.add(thing.key)
            thing.waiting.add(-asked.number)

    def _go_on(self, asked: Asked) -> None:
        if not asked.missing:
            held = self._held(asked)
            self._settle(asked)
            self._values.drop(held)

    def _settle(self, asked: Asked) -> None:
        for key, value, source in zip(asked.own, asked.values, asked.sources, strict=True):
            self._values.settle(key, value, source)
        if self._hears(asked):  # then it gets the bytes along
            for key in self._values.reachable(asked.own):
                if (blob := self._values[key].blob) is not None:
                    asked.to_come.add(key)
                    self._values.read(blob, partial(self._has_come, asked, key))
        if not asked.to_come:
            self._is_here(asked)

    def _has_come(self, asked: Asked, key: Key, data: bytes | memoryview | None) -> None:
        asked.to_come.discard(key)
        asked.data[key] = data
        if not asked.to_come:
            self._is_here(asked)

    def _is_here(self, asked: Asked) -> None:
        """All is that its pocket is to be told, once it is its turn."""
        asked.is_settled = True
        while asked.line and asked.line[0].is_settled:
            self._tell(asked.line.popleft())

    def _tell(self, asked: Asked) -> None:
        del self._asked[asked.number]
        if self._hears(asked):
            data: list[bytes] = []
            given = {key: self._given(asked, key, data) for key in self._values.reachable(asked.own)}
            keys = [*given]
            values, is_over = [given.pop(key) for key in asked.own], asked.of is None
            answer = Answered(
                asked.pocket, asked.named, asked.failed, values, list(given.values()), data, asked.at, is_over
            )
            # An item is the pocket's own: home knows it by no name.
            self._say(asked.who, asked.named, asked.at, encode(answer), keys if is_over else [*given])
        self._values.drop(asked.own)

    def _given(self, asked: Asked, key: Key, data: list[bytes]) -> Given:
        thing = self._values[key]
        assert thing.value is not None  # nothing is missing
        if key not in asked.data:
            return Given(*key, thing.value)
        if (found := asked.data[key]) is None:
            return Given(*key, LOST)
        data.append(bytes(found))
        return Given(*key, thing.value, len(data) - 1)

    def move(self, before: Caller, now: Caller) -> None:
        """What the one has called is the other's."""
        for asked in self._asked.values():
            if asked.who is before:
                asked.who = now
