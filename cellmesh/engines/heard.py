"""What pockets tell of calls, as the engine's side takes it in: each thing once, in the order in which it was told, and
of an actor by turns (see `actors`), whatever way it has come by.

What a call has made, which its pocket may name again, and what answers to its own calls have brought, is held for it
from then on, until it has ended or its pocket says that it is gone. Pure, as the `peer` is that this is a part of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import Kill, Message, Task
from .actor.asked import Caller, CallsOut
from .actors import Actors, Living
from .calls import Call, InUse
from .interface import Blob, Engine
from .parcels import CLOSED, Called, Done, Key, Outcomes, Progress, Reads, Uncalled, Yielded, encode, places_of
from .values import Fault, Values


class HeardCalls(ABC):
    """See above.

    Parameters
    ----------
    engine : Engine
    values : Values
    send : callable (message, frame)
        To the agent.
    """

    def __init__(
        self, engine: Engine, values: Values, send: Callable[[Message, bytes | memoryview | None], None]
    ) -> None:
        self._engine, self._values, self._send = engine, values, send
        self._calls: dict[int, Call] = {}
        self._actors = Actors()
        self._in_use = InUse()
        self._calls_out = CallsOut(
            values, lambda message: send(message, None), self._answer, self._is_there, self._has_made
        )

    # ---- what becomes of them
    @abstractmethod
    def _ended(self, call: Call, done: Done, blobs: Sequence[Blob]) -> None: ...

    @abstractmethod
    def _ended_with_its_actor(self, call: Call, n_runs: int) -> None: ...

    @abstractmethod
    def _told_of_others(self, call: Call, outcomes: Outcomes) -> None:
        """Of the parcel of a call that runs."""

    # ---- who
    def _called(self, task: Task) -> Living | None:
        """The actor that a task is a call of, if it is one."""
        if task.actor is None:
            return None
        living = self._actors.get((task.actor.slot, task.actor.generation))
        if living is None:
            raise Fault(f"it calls object {task.actor.slot}, which is no actor here")
        return living

    # ---- what is told of it
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
                self._told_of_others(call, progress.others)
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
            self._values.drop(self._forget(call))
            call.past_runs.add(call.run)
            call.run, call.n_news = progress.run, 0
            call.answers.clear()
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

    def _take_items(self, call: Call, n: int) -> None:
        """Its reader has taken so many."""
        call.taken = max(call.taken, n)
        self._tell_taken(call)

    def _tell_taken(self, call: Call) -> None:
        if call.handle is not None:
            n, closed = (0, True) if call.taken == CLOSED else (call.taken, False)
            self._engine.say(call.handle, encode(messages.Taken(call.task.number, n, closed)))

    # ---- calls that they make
    def _make_calls(self, call: Call, piece: Called, blobs: Sequence[Blob]) -> None:
        known = self._names(call)
        made = self._values.make_all(piece.made, blobs, known)
        who = self._called(call.task) or call
        results = self._calls_out.call(who, piece, call.task.origin, known)
        self._note_made(who, made | results, piece.gone)

    def _is_there(self, who: Caller) -> bool:
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

    # ---- what they may refer to
    def _names(self, call: Call) -> dict[Key, Key]:
        """What a pocket calls what it has made before."""
        living = self._called(call.task)
        return call.names.copy() if living is None else {**living.names, living.name: living.key}

    def _note_made(self, who: Living | Call, made: dict[Key, Key], gone: list[Key]) -> None:
        """It may name again what it has made, but not what is gone."""
        self._values.hold(made.values())
        who.names.update(made)
        self._values.drop([who.names.pop(key) for key in gone])

    def _keep(self, living: Living, keys: Iterable[Key]) -> list[Key]:
        """It refers to these, of what it was given, and to no others: which are let go of then."""
        kept = {key for key in keys if key in self._values}
        self._values.hold(kept - living.kept)
        before, living.kept = living.kept, kept
        return [*(before - kept)]

    def _forget(self, who: Caller) -> list[Key]:
        """It has ended, or its run has: what was held for it."""
        self._calls_out.forget(who)
        held = [*who.names.values(), *chain.from_iterable(who.brought.values())]
        who.names.clear()
        who.brought.clear()
        return held

    def _constructs(self, call: Call, living: Living) -> None:
        """What was held for a constructor is the actor's."""
        self._calls_out.move(call, living)
        living.names, call.names = call.names, {}
        living.brought, call.brought = call.brought, {}

    def _settle(self, living: Living, done: Done) -> list[Key]:
        """A call has ended that says what its actor refers to: what of that it was given is not needed any more."""
        unneeded = self._keep(living, done.kept)
        for number in living.brought.keys() - set(done.unanswered):
            unneeded += living.brought.pop(number)
        return unneeded
