"""Actors between this node and one other: those of ours that live there, theirs that live here, and stand-ins for
handles that travel.

An actor has its home in one segment. There its calls stand in line, and it is decided whether it starts again. It may
live on another machine: then its constructor ran there, and its calls go there, in the order in which their callers
made them. A handle that comes to another machine becomes a stand-in there, an actor without a process, whose calls go
to where the handle came from. So both are the same here: an actor whose calls go to the other node. See
objstore/core/proxy.h.

When an actor of theirs has ended here, they are told once, with the calls that had begun. All others that they have
sent and got no answer for had not, wherever those were at that moment, and stand in line again for the actor's next
life.
"""
from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from .groups import ON_NODE
from .messages import (MOST_AT_ONCE, Actor, ActorEnded, Checkpoint, Kill, Ref, Released, Result, Results, Task, Told,
                       Value)
from .objects import ELSEWHERE, ERROR, FAILED, FAILURE_STORE_FULL, LOST, PENDING, READY, ForeignFault

if TYPE_CHECKING:
    from .accepted import Accepted
    from .exchange import Exchange
    from .sent import Sent

DEAD = 4                                    # state of an actor
# What a call's value says that was under way, or stood in line, when its actor ended.
ACTOR_DIED, ACTOR_UNAVAILABLE, OUT_OF_MEMORY = 3, 4, 5
MOST_CALLS = 4096                           # of one actor under way: what does not wait there waits here


class There(Struct):
    """An actor here whose calls go there."""
    there: Told | None                      # the actor that gets them; None: it is being constructed
    is_stand_in: bool = False
    number: int = 0                         # of the constructor, while that runs
    lease: int = 0                          # the place it takes there for as long as it lives
    calls: dict[int, int] = field(default_factory=dict)     # under way: number -> slot of the task
    is_killed: bool = False                 # for good, before it was there


class Here(Struct):
    """An actor of theirs that lives here."""
    calls: set[int] = field(default_factory=set)            # their numbers
    begun: list[int] = field(default_factory=list)          # of calls that its end has ended
    has_ended: bool = False                 # and they have been told
    saved: tuple[int, int] = (-1, 0)        # slot and generation of the checkpoint that they know


class Waiting(Struct):
    """A call of theirs whose function has not come, or that stands behind such a one, or for which the segment has no
    room."""
    task: Task
    function: int
    refs: list[int]


class Actors:
    """The actors' part of an `Exchange`, whose objects and tasks it shares."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Exchange = weakref.proxy(exchange)  # whose part this is
        self._proxy, self._objects = exchange.proxy, exchange.objects
        self._there: dict[int, There] = {}              # by index here
        self._lives: dict[tuple[int, int], int] = {}    # (slot, generation) there -> index here; who lives there
        self._here: dict[int, Here] = {}                # by the slot of its object here
        self._lines: dict[int, deque[Waiting]] = {}     # calls that wait, by their actor's slot here
        self._given: dict[int, tuple[int, int]] = {}    # checkpoints that actors being constructed begin with, by slot
        self._saved: list[tuple[int, int]] = []         # of ours: (index, slot), checkpoints on their way, in order
        self._nothing: int | None = None                # an object, for stand-ins: they have no function

    @property
    def n_here(self) -> int:
        """Actors of theirs that live here."""
        return len(self._here)

    # ---- ours, there
    def begin(self, index: int, slot: int, number: int) -> Value:
        """An actor of ours is to live there; returns what they have to know of it."""
        self._there[index] = There(None, number=number)
        return self._objects.value(slot)

    def checkpoint_of(self, slot: int) -> Ref | None:
        """What an actor of ours begins with."""
        saved, = self._proxy.checkpoints([slot])
        return None if saved < 0 else self._objects.tell(saved)

    def saved(self, message: Checkpoint) -> None:
        """One of ours there has saved something: it is to be here when that machine is lost."""
        slot = self._objects.resolve(message.state)
        if slot is None:
            return  # the one before counts
        index = self._lives.get((message.actor.slot, message.actor.generation))
        if index is not None:
            self._objects.hold(slot)
            self._saved.append((index, slot))

    def _bring_saved(self) -> None:
        waiting = []
        for index, slot in self._saved:
            ours, (state, _, _, _, _, place, _) = self._there.get(index), self._proxy.look(slot)
            is_lost = state not in (PENDING, READY) or place == LOST
            if ours is not None and not is_lost and (state == PENDING or place == ELSEWHERE):
                self._exchange.transfers.fetch(slot)
                waiting.append((index, slot))
                continue
            if ours is not None and not is_lost:
                self._proxy.checkpoint(index, slot)
            self._objects.drop(slot)
        self._saved = waiting

    def _tell_saved(self) -> None:
        checkpoints = self._proxy.checkpoints(list(self._here))
        for (slot, here), found in zip(self._here.items(), checkpoints, strict=True):
            saved = (found, self._proxy.generation(found)) if found >= 0 else here.saved
            if saved != here.saved:
                here.saved = saved
                self._objects.begin_message()
                self._exchange.send(Checkpoint(self._objects.told(slot), self._objects.tell(found)))

    def constructed(self, sent: Sent, result: Result) -> None:
        """Its constructor has ended there."""
        exchange, value = self._exchange, result.values[0]
        if value.there is not None:
            raise ForeignFault(f"what the constructor of actor {sent.actor} gives lies there")
        ours = self._there[sent.actor]
        if value.state == READY:
            if result.actor is None or result.actor.yours:
                raise ForeignFault(f"it has constructed actor {sent.actor} and does not say which it is")
            exchange.sent.take_result(sent.results[0], value, result.number)
            ours.there = Told(result.actor.slot, result.actor.generation)
            self._lives[ours.there.slot, ours.there.generation] = sent.actor
            self._proxy.bind(sent.task)
            if self._proxy.kept(sent.record[2])[0]:
                ours.lease, sent.lease = sent.lease, 0
            if ours.is_killed:
                exchange.send(Kill(ours.there, 0, True))
            return
        del self._there[sent.actor]
        if value.state == ERROR and len(value.data) == value.size:
            exchange.sent.take_result(sent.results[0], value, result.number)
            self._proxy.construction_failed(sent.task)
        else:
            self._proxy.lose_actor(sent.actor, value.detail, False, [], [])

    def returned(self, sent: Sent) -> None:
        """Its constructor has not begun there."""
        ours = self._there.pop(sent.actor)
        if ours.is_killed:
            self._proxy.lose_actor(sent.actor, 0, True, [], [])
        else:
            self._proxy.give_back(sent.task)

    def answered(self, index: int, number: int) -> None:
        """A call that had been sent there has ended."""
        self._there[index].calls.pop(number, None)

    def look(self) -> None:
        """What is there to do with actors whose calls go there?"""
        if self._saved:
            self._bring_saved()
        if self._here:
            self._tell_saved()
        if not self._there:
            return
        for index, has_calls, has_ended, is_killed, for_good in self._proxy.actor_news(list(self._there)):
            ours = self._there[index]
            if is_killed and ours.there is None:
                ours.is_killed |= bool(for_good)
                self._exchange.send(Kill(None, ours.number, bool(for_good)))
            elif is_killed and ours.there is not None:
                self._exchange.send(Kill(ours.there, 0, bool(for_good)))
            if ours.there is None:
                continue
            if has_calls:
                self._send_calls(index, ours, ours.there)
            if has_ended and not ours.calls and (ours.is_stand_in or not is_killed):
                self._let_go(index, ours)

    def _send_calls(self, index: int, ours: There, there: Told) -> None:
        exchange = self._exchange
        while not exchange.is_congested and len(ours.calls) < MOST_CALLS:
            records = self._proxy.calls(index, min(MOST_CALLS - len(ours.calls), MOST_AT_ONCE))
            ours.calls.update((number, task) for task, number, *_ in records)
            exchange.sent.send_calls(records, index, there)
            if not records:
                return

    def _let_go(self, index: int, ours: There) -> None:
        """Nobody here has a handle any more, or it was killed: it ends here, and there when they hear of it."""
        del self._there[index]
        self._proxy.lose_actor(index, 0, True, [], [])
        if ours.there is not None and not ours.is_stand_in:
            del self._lives[ours.there.slot, ours.there.generation]
            self._exchange.send(Released([ours.there]))
        self._exchange.sent.free_lease(ours.lease)

    def ended(self, message: ActorEnded) -> None:
        """One of ours that lived there has ended."""
        exchange = self._exchange
        index = self._lives.pop((message.actor.slot, message.actor.generation), None)
        if index is None:
            return  # we have let go of it, and the two have crossed
        ours = self._there.pop(index)
        exchange.sent.forget(ours.calls)
        begun = [ours.calls.pop(number) for number in message.begun if number in ours.calls]
        others = list(ours.calls.values())
        self._proxy.lose_actor(index, message.code, message.for_good, begun, others)
        assert ours.there is not None
        exchange.send(Released([ours.there]))
        exchange.sent.free_lease(ours.lease)

    # ---- theirs, here
    def host(self, task: Task, function: int, refs: list[int]) -> tuple[int, int, list[int], int] | None:
        """Begin an actor of theirs. Returns what `Proxy.submit` does, and the actor's slot, which the proxy holds; None:
        there is no room for it."""
        exchange, value = self._exchange, task.creates
        assert value is not None
        if value.actor is None or value.state != READY or len(value.data) != value.size:
            raise ForeignFault(f"task {task.number} is to construct what is no actor")
        inner = self._objects.resolve_all(value.refs)
        saved = None if task.checkpoint is None else self._objects.resolve(task.checkpoint)
        if inner is None or task.checkpoint is not None and saved is None:
            return None
        place = exchange.bundles.place(task.bundle)
        slot = self._proxy.create()
        self._objects.hold_new(slot)
        try:
            self._proxy.seal(slot, READY, value.data, inner, True)
            shape = exchange.shape_of(task.demand, task.hold, task.env, place)
            made = self._proxy.host(slot, _spec(value.actor), function, shape, task.arguments, refs,
                                    task.n_dependencies, task.flags, task.attempt, exchange.accepted.origin_of(task), saved,
                                    place.group)
        except BaseException:
            self._objects.drop(slot)
            raise
        if saved is not None:
            self._given[slot] = saved, self._proxy.generation(saved)
        return *made, slot

    def hosted(self, accepted: Accepted, is_constructed: bool) -> Ref | None:
        """The constructor of one of theirs has ended."""
        given = self._given.pop(accepted.actor, (-1, 0))
        if not is_constructed:
            self._objects.drop(accepted.actor)
            return None
        ref = self._objects.tell(accepted.actor, value=False)
        self._objects.drop(accepted.actor)  # as told, it is held now
        self._here[accepted.actor] = Here(saved=given)
        return ref

    def _called(self, task: Task) -> int | None:
        """The slot of the actor that a call of theirs is for; None: it has ended, as they know by now."""
        assert task.actor is not None
        slot = self._objects.own(task.actor.slot, task.actor.generation) if task.actor.yours else None
        if slot is None or self._proxy.actor(slot) is None:
            raise ForeignFault(f"it calls object {task.actor.slot}, which is no actor here")
        here = self._here.get(slot)
        return None if here is not None and here.has_ended else slot

    def refuse(self, task: Task) -> None:
        """There is no room for what a call of theirs is given: it fails."""
        if self._called(task) is not None:
            full = Value(FAILED, code=FAILURE_STORE_FULL)
            self._exchange.send(Results([Result(task.number, 1, [full] * task.n_returns)]))

    def accept(self, task: Task, function: int, refs: list[int]) -> None:
        """A call of theirs, of an actor here."""
        slot = self._called(task)
        if slot is None:
            return
        line = self._lines.get(slot)
        if line is not None or not self._submit(slot, task, function, refs):
            for ref in (function, *refs):
                self._objects.hold(ref)
            self._lines.setdefault(slot, deque()).append(Waiting(task, function, refs))

    def _submit(self, slot: int, task: Task, function: int, refs: list[int]) -> bool:
        if self._objects.is_coming(function) or not self._exchange.accepted.submit(task, function, refs, slot):
            return False
        if slot in self._here:
            self._here[slot].calls.add(task.number)
        return True

    def advance(self) -> None:
        """Calls that wait here, for their function or for room: each actor's in order."""
        for slot, line in list(self._lines.items()):
            while line and self._submit(slot, line[0].task, line[0].function, line[0].refs):
                self._drop(line.popleft())
            if not line:
                del self._lines[slot]

    def _drop(self, waiting: Waiting) -> None:
        for ref in (waiting.function, *waiting.refs):
            self._objects.drop(ref)

    def finished(self, accepted: Accepted, failed: bool) -> bool:
        """A call has ended. True: because its actor has, of which they are told as a whole."""
        here = self._here.get(accepted.actor)
        if here is not None:
            here.calls.discard(accepted.number)
        if here is None or not failed:
            return False
        code = self._proxy.look(accepted.results[0])[3] if accepted.results else 0
        if code not in (ACTOR_DIED, ACTOR_UNAVAILABLE, OUT_OF_MEMORY) or self._proxy.actor(accepted.actor)[1] != DEAD:
            return False
        if code != ACTOR_UNAVAILABLE:
            here.begun.append(accepted.number)
        return True

    def sweep(self) -> None:
        """The same, now and then."""
        self.advance()
        self._tell_ended()

    def _tell_ended(self) -> None:
        """Those of theirs that have ended, with all of their calls."""
        for slot, here in self._here.items():
            if here.has_ended or here.calls:
                continue
            _, state, code, for_good, *_ = self._proxy.actor(slot)
            if state != DEAD:
                continue
            here.has_ended = True
            for waiting in self._lines.pop(slot, ()):
                self._drop(waiting)
            self._exchange.send(ActorEnded(self._objects.told(slot), code, for_good, here.begun))

    def released(self, slot: int) -> None:
        """They know nothing of an object of ours any more."""
        self._here.pop(slot, None)
        for waiting in self._lines.pop(slot, ()):  # nobody can have told of a call and then of that
            self._drop(waiting)

    def kill(self, message: Kill, constructor: Accepted | None) -> None:
        """End an actor here: theirs, or one of which they have a handle."""
        if message.actor is not None:
            slot = self._objects.own(message.actor.slot, message.actor.generation)
            if self._proxy.actor(slot) is None:
                raise ForeignFault(f"it kills object {slot}, which is no actor here")
            self._proxy.kill(slot, message.no_restart)
        elif constructor is not None and constructor.kept is not None:
            self._proxy.kill(constructor.actor, message.no_restart)
        else:
            self._exchange.accepted.return_held(message.number)

    # ---- handles
    def describe(self, slot: int) -> Actor | None:
        """What another machine must know of an actor here; None: the object is a value."""
        found = self._proxy.actor(slot)
        return None if found is None else Actor(*found[4])

    def stand_in(self, slot: int, value: Value, refs: list[int]) -> None:
        """An object here that has been told of is an actor of theirs."""
        assert value.actor is not None
        if value.state != READY or len(value.data) != value.size or self._objects.origin(slot) is None:
            raise ForeignFault("it tells of an actor that is none")
        if self._nothing is None:
            self._nothing = self._proxy.create()
            self._objects.hold_new(self._nothing)
            self._proxy.seal(self._nothing, READY, b"", [])
        resources = self._exchange.shape_of({}, {}, 0, ON_NODE)
        index = self._proxy.stand_in(slot, value.data, refs, _spec(value.actor), self._nothing, resources)
        if index is not None:
            self._there[index] = There(self._objects.origin(slot), is_stand_in=True)


def _spec(actor: Actor) -> tuple[int, int, tuple[int, ...]]:
    return actor.flags, actor.concurrency, tuple(actor.limits)
