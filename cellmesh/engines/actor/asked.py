"""Calls of the session's actors that pockets have made, as the engine's side has them: it makes them at home, as a node
would, and says what becomes of them to the pocket, if that is there still. Pure.

What a call returns is an object of the engine's, pending until home has answered: so it can be named, in whatever a
task returns or gives on, before that, and when its caller has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from ...objstore._core import FAILURE_OBJECT_LOST, OBJECT_FAILED, OBJECT_PENDING
from ...scheduler.cluster.messages import Cancel, Kill, Message, Ref, Result, Task, Tasks, Told, Value
from ..actors import Living
from ..calls import Call
from ..parcels import Answered, Called, Given, Key, Uncalled, encode
from ..values import Fault, Object, Own, Values

Caller = Call | Living
LOST = Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST)


class Asked(Struct):
    """A call. `who` has made it, and its pocket calls it `named`. `own`: what it returns; `values`, `sources`: as of
    `Values.take`, once home has answered; `missing`: what of that is not known yet."""

    number: int
    who: Caller
    pocket: int
    named: int
    own: list[Key]
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
    say : callable (who, number, message)
        To the pocket of a caller, which calls the call so.
    is_there : callable (who) -> bool
        Whether a caller has a pocket still.
    refused : callable () -> Value
        What a call gives of an actor that is known by its own name alone.
    """

    def __init__(
        self,
        values: Values,
        send: Callable[[Message], None],
        say: Callable[[Caller, int, bytes], None],
        is_there: Callable[[Caller], bool],
        refused: Callable[[], Value],
    ) -> None:
        self._values, self._send, self._say = values, send, say
        self._is_there, self._refused = is_there, refused
        self._asked: dict[int, Asked] = {}
        self._n = 0

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
            own = [values.new(Value(OBJECT_PENDING), None).key for _ in results]
            values.hold(own)
            asked = self._asked[self._n] = Asked(self._n, who, piece.pocket, task.number, own)
            assert task.actor is not None
            actor = values.named(task.actor, known)
            if isinstance(thing := values[actor], Object):
                function, *refs = (values.tell(values.named(ref, known)) for ref in (task.function, *task.refs))
                tasks.append(
                    replace(
                        task,
                        number=self._n,
                        function=function,
                        refs=refs,
                        actor=Ref(*actor, yours=True),
                        origin=origin,
                        comes_home=True,
                    )
                )
            else:
                is_actor = thing.value.actor is not None
                refused.append((asked, self._refused() if is_actor else LOST))
            named.update(zip(results, own, strict=True))
            known.update(named)
        if tasks:
            self._send(Tasks(tasks))
        for asked, why in refused:
            asked.is_answered = asked.failed = True
            asked.values, asked.sources = [why] * len(asked.own), [None] * len(asked.own)
            self._settle(asked)
        return named

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
        asked.is_answered, asked.failed = True, bool(result.status)
        for value in result.values:
            taken, source = self._values.take(value)
            asked.values.append(taken)
            asked.sources.append(source)
        self._wait_for(asked, self._held(asked))
        self._go_on(asked)

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
            values = [given.pop(key) for key in asked.own]
            answer = Answered(asked.pocket, asked.named, asked.failed, values, list(given.values()), data)
            self._say(asked.who, asked.named, encode(answer))
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
