"""Calls of the session's actors that pockets have made, as the engine's side has them: it makes them at home, as a node
would, and says what becomes of them to the pocket, if that is there still. Pure.

What a call returns is an object of the engine's, pending until home has answered: so it can be named, in whatever a
task returns or gives on, before that, and when its caller has ended. An actor that a pocket makes is home's from the
beginning (decision 153); the pocket gets its handle, and names it to nobody before. The session's agent, of which each
pocket has a stand-in, is looked for once somebody calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from ...scheduler.cluster.messages import Cancel, Find, Found, Kill, Message, Ref, Result, Task, Tasks, Told, Value
from ...scheduler.ipc.messages import AGENT_NAMESPACE
from ..actors import Living
from ..calls import Call
from ..parcels import AGENT, Answered, Called, Given, Key, Uncalled, encode
from ..values import Fault, Object, Own, Values

Caller = Call | Living
LOST = Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST)
TAKEN = Value(OBJECT_FAILED, code=FAILURE_ACTOR_DIED)  # that name, see `calling`
FULL = Value(OBJECT_FAILED, code=FAILURE_STORE_FULL)


class Asked(Struct):
    """A call. `who` has made it, in its `run`, and its pocket calls it `named`. `own`: what it returns; `values`,
    `sources`: as of `Values.take`, once home has answered; `missing`: what of that is not known yet. `makes`: it
    constructs an actor that its pocket calls so."""

    number: int
    who: Caller
    pocket: int
    named: int
    own: list[Key]
    run: int = 0
    makes: Key | None = None
    failed: bool = False
    values: list[Value] = []
    sources: list[Key | None] = []
    missing: set[Key] = field(default_factory=set[Key])
    is_answered: bool = False
    to_come: set[Key] = field(default_factory=set[Key])  # objects whose bytes are read
    data: dict[Key, bytes | memoryview | None] = field(default_factory=dict[Key, "bytes | memoryview | None"])


class CallsOut:
    """See above.

    Parameters
    ----------
    values : Values
    send : callable (message)
        To the agent.
    say : callable (who, number, message, keys)
        To the pocket of a caller, which calls the call so. `keys`: what it may refer to from then on.
    is_there : callable (who) -> bool
        Whether a caller has a pocket still.
    made : callable (who, run, name, key)
        Who has made an actor, which its pocket calls by that name, holds it from now on.
    refused : callable () -> Value
        What a call gives of an actor that is known by its own name alone.
    """

    def __init__(
        self,
        values: Values,
        send: Callable[[Message], None],
        say: Callable[[Caller, int, bytes, list[Key]], None],
        is_there: Callable[[Caller], bool],
        made: Callable[[Caller, int, Key, Key], None],
        refused: Callable[[], Value],
    ) -> None:
        self._values, self._send, self._say = values, send, say
        self._is_there, self._made, self._refused = is_there, made, refused
        self._asked: dict[int, Asked] = {}
        self._n = 0
        self._agent: Key | None = None
        self._is_looking = False  # for it
        self._for_agent: list[Task] = []  # calls, until it is known

    def __len__(self) -> int:
        return len(self._asked)

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
            actor, why = (None, None) if task.actor is None else self._called(task.actor, known)
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
            asked.is_answered = asked.failed = True
            asked.values, asked.sources = [why] * len(asked.own), [None] * len(asked.own)
            self._settle(asked)
        return named

    def _called(self, ref: Ref, known: dict[Key, Key]) -> tuple[Ref | None, Value | None]:
        """What home calls an actor that a pocket calls; or why it cannot be called."""
        if (ref.slot, ref.generation) == AGENT:
            return Ref(*AGENT), None
        actor = self._values.named(ref, known)
        if isinstance(thing := self._values[actor], Object):
            return Ref(*actor, yours=True), None
        return None, self._refused() if thing.value.actor is not None else LOST

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

    def kill(self, piece: Kill) -> None:
        """A pocket kills an actor."""
        assert piece.actor is not None
        key = piece.actor.slot, piece.actor.generation
        if key in self._values and isinstance(self._values[key], Object):
            self._send(Kill(Told(*key), 0, piece.no_restart))

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
            self._has_made(asked, result.actor, TAKEN)
            return
        asked.is_answered, asked.failed = True, bool(result.status)
        for value in result.values:
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
        if self._is_there(asked.who):
            if actor is not None and asked.makes is not None:
                self._made(asked.who, asked.run, asked.makes, key)
            answer = Answered(asked.pocket, asked.named, actor is None, [Given(*key, value)], [], [])
            self._say(asked.who, asked.named, encode(answer), [])
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
        if self._is_there(asked.who):  # then it gets the bytes along
            for key in self._values.reachable(asked.own):
                if (blob := self._values[key].blob) is not None:
                    asked.to_come.add(key)
                    self._values.read(blob, partial(self._has_come, asked, key))
        if not asked.to_come:
            self._tell(asked)

    def _has_come(self, asked: Asked, key: Key, data: bytes | memoryview | None) -> None:
        asked.to_come.discard(key)
        asked.data[key] = data
        if not asked.to_come:
            self._tell(asked)

    def _tell(self, asked: Asked) -> None:
        del self._asked[asked.number]
        if self._is_there(asked.who):
            data: list[bytes] = []
            given = {key: self._given(asked, key, data) for key in self._values.reachable(asked.own)}
            keys = [*given]
            values = [given.pop(key) for key in asked.own]
            answer = Answered(asked.pocket, asked.named, asked.failed, values, list(given.values()), data)
            self._say(asked.who, asked.named, encode(answer), keys)
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
