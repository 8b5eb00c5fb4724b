"""Actors between this node and one other, the peer: actors of this node that live there, actors of the peer that live
here, and stand-ins for handles that travel.

An actor has its home in one segment (decision 52). Its calls stand in line there, and that segment decides whether it
starts again. It may live on another machine: then its constructor ran there, and its calls go there, in the order in
which their callers made them. A handle that comes to another machine becomes a stand-in there, an actor without a
process, whose calls go to where the handle came from. So both are the same here: an actor whose calls go to the other
node. See objstore/core/clients/remote_node.h.

When an actor of the peer has ended here, the peer is told once, with the calls that had begun. All other calls that it
has sent and that have no answer had not begun, wherever they were at that moment, and stand in line again for the
actor's next life.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from ....objstore._core import (
    ACTOR_DEAD,
    FAILURE_ACTOR_DIED,
    FAILURE_ACTOR_UNAVAILABLE,
    FAILURE_OUT_OF_MEMORY,
    FAILURE_STORE_FULL,
    OBJECT_ERROR,
    OBJECT_FAILED,
    OBJECT_PENDING,
    OBJECT_READY,
    PLACE_LOST,
    PLACE_REMOTE,
)
from ..messages import (
    MOST_AT_ONCE,
    Actor,
    ActorEnded,
    Checkpoint,
    Home,
    Kill,
    Ref,
    Released,
    Result,
    Results,
    Task,
    Told,
    Value,
)
from .bundles import ON_NODE
from .objects import ForeignFault

if TYPE_CHECKING:
    from ....objstore._core import SubmittedTask
    from .peer import Peer
    from .tasks_in import TaskIn
    from .tasks_out import TaskOut

# What the value of a call says that was under way, or stood in line, when its actor ended.
ENDED_WITH_ITS_ACTOR = (FAILURE_ACTOR_DIED, FAILURE_ACTOR_UNAVAILABLE, FAILURE_OUT_OF_MEMORY)
MOST_CALLS = 4096  # of one actor under way: what does not wait there waits here


class NameTaken(Exception):
    """There is a living actor of that name."""


class There(Struct):
    """An actor here whose calls go there."""

    there: Told | None  # the actor that gets them, as often as it was told of; None: it is being constructed
    is_stand_in: bool = False
    home: tuple[int, int] = (-1, 0)  # slot and generation of its object, if it is one of this node
    number: int = 0  # of the constructor, while that runs
    lease: int = 0  # under which it lives there, for as long as it does
    calls: dict[int, int] = {}  # under way: number -> slot of the task
    is_killed: bool = False  # for good, before it was there
    has_waiting: bool = False  # calls, when there was looked last


class Here(Struct):
    """An actor of the peer that lives here."""

    calls: set[int] = set()  # by their numbers
    begun: list[int] = []  # of calls that its end has ended
    has_ended: bool = False  # and the peer has been told
    saved: tuple[int, int] = (-1, 0)  # slot and generation of the checkpoint that the peer knows


class Waiting(Struct):
    """A call of the peer whose function has not come, or that stands behind such a one, or for which the segment has no
    room."""

    task: Task
    function: int
    refs: list[int]


class Actors:
    """The actors' part of a `Peer`, whose objects and tasks it shares."""

    def __init__(self, peer: Peer) -> None:
        self._peer: Peer = weakref.proxy(peer)  # the one that this is a part of
        self._remote_node, self._objects = peer.remote_node, peer.objects
        self._there: dict[int, There] = {}  # by index here
        self._lives: dict[
            tuple[int, int], int
        ] = {}  # (slot, generation) there -> index here, of actors that live there
        self._here: dict[int, Here] = {}  # by the slot of its object here
        self._lines: dict[int, deque[Waiting]] = {}  # calls that wait, by their actor's slot here
        self._given: dict[int, tuple[int, int]] = {}  # checkpoints that actors being constructed begin with, by slot
        self._saved: list[tuple[int, int]] = []  # checkpoints on their way here, in order: (index, slot)
        self._nothing: int | None = None  # an object, for stand-ins: they have no function

    @property
    def n_here(self) -> int:
        """Actors of the peer that live here."""
        return len(self._here)

    @property
    def n_there(self) -> int:
        """Actors whose calls go there."""
        return len(self._there)

    @property
    def has_waiting(self) -> bool:
        """Whether calls of one of these were waiting here at the last `look`."""
        return any(actor.has_waiting for actor in self._there.values())

    # ---- of this node, there
    def begin(self, index: int, slot: int, number: int) -> Value:
        """An actor of this node is to live there; returns what the peer has to know of it."""
        self._there[index] = There(None, home=(slot, self._remote_node.generation(slot)), number=number)
        return self._objects.value(slot)

    def at_home(self, key: tuple[int, int]) -> int | None:
        """The slot of an actor of this node that lives there, as the peer calls it, which tells of it once more."""
        found = self._living(key)
        if found is None:
            return None
        actor, slot, n_told = found
        actor.there = Told(*key, n_told + 1)
        return slot

    def _living(self, key: tuple[int, int]) -> tuple[There, int, int] | None:
        """It, its slot, and how often it was told of."""
        index = self._lives.get(key)
        if index is None:
            return None
        actor = self._there[index]
        slot, generation = actor.home
        if actor.there is None or self._remote_node.generation(slot) != generation:
            return None  # its last handle here has gone
        return actor, slot, actor.there.n

    def checkpoint_of(self, slot: int) -> Ref | None:
        """What an actor of this node begins with."""
        (saved,) = self._remote_node.checkpoints([slot])
        return None if saved < 0 else self._objects.tell(saved)

    def saved(self, message: Checkpoint) -> None:
        """An actor of this node there has saved something, which is to be here when that machine is lost."""
        slot = self._objects.resolve(message.state)
        if slot is None:
            return  # the one before counts
        index = self._lives.get((message.actor.slot, message.actor.generation))
        if index is not None:
            self._objects.hold(slot)
            self._saved.append((index, slot))

    def _bring_saved(self) -> None:
        waiting: list[tuple[int, int]] = []
        for index, slot in self._saved:
            actor, saved = self._there.get(index), self._remote_node.inspect(slot)
            is_lost = saved.state not in (OBJECT_PENDING, OBJECT_READY) or saved.place == PLACE_LOST
            if actor is not None and not is_lost and (saved.state == OBJECT_PENDING or saved.place == PLACE_REMOTE):
                self._peer.transfers.fetch(slot)
                waiting.append((index, slot))
                continue
            if actor is not None and not is_lost:
                self._remote_node.checkpoint(index, slot)
            self._objects.drop(slot)
        self._saved = waiting

    def _tell_saved(self) -> None:
        checkpoints = self._remote_node.checkpoints(list(self._here))
        for (slot, here), found in zip(self._here.items(), checkpoints, strict=True):
            saved = (found, self._remote_node.generation(found)) if found >= 0 else here.saved
            if saved != here.saved:
                here.saved = saved
                self._objects.begin_message()
                self._peer.send(Checkpoint(self._objects.told(slot), self._objects.tell(found)))

    def constructed(self, task_out: TaskOut, result: Result) -> None:
        """The constructor of an actor of this node has ended there."""
        peer, value = self._peer, result.values[0]
        if value.there is not None:
            raise ForeignFault(f"what the constructor of actor {task_out.actor} gives lies there")
        actor = self._there[task_out.actor]
        if value.state == OBJECT_READY:
            if result.actor is None or result.actor.yours:
                raise ForeignFault(f"it has constructed actor {task_out.actor} and does not say which it is")
            peer.tasks_out.take_result(task_out.results[0], value, result.number)
            actor.there = Told(result.actor.slot, result.actor.generation)
            self._lives[actor.there.slot, actor.there.generation] = task_out.actor
            self._remote_node.bind(task_out.task)
            if task_out.record is not None and self._remote_node.kept(task_out.record.resource_class).kept:
                actor.lease, task_out.lease = task_out.lease, 0
            if actor.is_killed:
                peer.send(Kill(actor.there, 0, True))
            return
        del self._there[task_out.actor]
        if value.state == OBJECT_ERROR and len(value.data) == value.size:
            self._construction_failed(task_out, value, result.number)
        else:
            self._remote_node.lose_actor(task_out.actor, value.detail, False, [], [])

    def _construction_failed(self, task_out: TaskOut, error: Value, number: int) -> None:
        """Its result holds the error, or, as that was sealed in the actor's first life, an object of its own."""
        (result,) = task_out.results
        is_first = not self._remote_node.sealed([result])
        slot = result if is_first else self._remote_node.create()
        self._peer.tasks_out.take_result(slot, error, number)
        self._remote_node.construction_failed(task_out.task, slot)
        if not is_first:
            self._remote_node.drop([slot])

    def returned(self, task_out: TaskOut) -> None:
        """The constructor of an actor of this node has not begun there, and will not."""
        actor = self._there.pop(task_out.actor)
        if actor.is_killed:
            self._remote_node.lose_actor(task_out.actor, 0, True, [], [])
        else:
            self._remote_node.give_back(task_out.task)

    def answered(self, index: int, number: int) -> None:
        """A call that had been sent there has ended."""
        self._there[index].calls.pop(number, None)

    def look(self) -> None:
        """See what is to be done with actors whose calls go there."""
        if self._saved:
            self._bring_saved()
        if self._here:
            self._tell_saved()
        if not self._there:
            return
        for actor in self._there.values():
            actor.has_waiting = False
        for news in self._remote_node.actor_news(list(self._there)):
            actor = self._there[news.actor]
            actor.has_waiting = news.has_calls
            if news.is_killed and actor.there is None:
                actor.is_killed |= news.for_good
                self._peer.send(Kill(None, actor.number, news.for_good))
            elif news.is_killed and actor.there is not None:
                self._peer.send(Kill(actor.there, 0, news.for_good))
            if actor.there is None:
                continue
            if news.has_calls:
                self._send_calls(news.actor, actor, actor.there)
            if news.has_ended and not actor.calls and (actor.is_stand_in or not news.is_killed):
                self._let_go(news.actor, actor)

    def _send_calls(self, index: int, actor: There, there: Told) -> None:
        peer = self._peer
        while not peer.is_congested and len(actor.calls) < MOST_CALLS:
            records = self._remote_node.calls(index, min(MOST_CALLS - len(actor.calls), MOST_AT_ONCE))
            actor.calls.update((record.number, record.task) for record in records)
            peer.tasks_out.send_calls(records, index, there)
            if not records:
                return

    def _let_go(self, index: int, actor: There) -> None:
        """No handle is left here, or it was killed: it ends here, and there when the peer hears of it."""
        del self._there[index]
        self._remote_node.lose_actor(index, 0, True, [], [])
        if actor.there is not None and not actor.is_stand_in:
            del self._lives[actor.there.slot, actor.there.generation]
            self._peer.send(Released([actor.there]))
        self._peer.tasks_out.free_lease(actor.lease)

    def ended(self, message: ActorEnded) -> None:
        """An actor of this node that lived there has ended."""
        peer = self._peer
        index = self._lives.pop((message.actor.slot, message.actor.generation), None)
        if index is None:
            return  # it was let go of here, and the two have crossed
        actor = self._there.pop(index)
        peer.tasks_out.forget(actor.calls)
        begun = [actor.calls.pop(number) for number in message.begun if number in actor.calls]
        others = list(actor.calls.values())
        self._remote_node.lose_actor(index, message.code, message.for_good, begun, others)
        assert actor.there is not None
        peer.send(Released([actor.there]))
        peer.tasks_out.free_lease(actor.lease)

    # ---- of the peer, here
    def host(self, task: Task, function: int, refs: list[int]) -> tuple[SubmittedTask, int] | None:
        """Begin an actor of the peer: its constructor, and the actor's slot, which the client holds. None: no room."""
        saved = None if task.checkpoint is None else self._objects.resolve(task.checkpoint)
        if task.checkpoint is not None and saved is None:
            return None
        found = self._create(task, function, refs, saved, None)
        if found is not None and saved is not None:
            self._given[found[1]] = saved, self._remote_node.generation(saved)
        return found

    def make(self, task: Task, home: Home, function: int, refs: list[int]) -> bool:
        """Make an actor of this node, as the peer asks, which is told of it. False: there is no room."""
        try:
            found = self._create(task, function, refs, None, astuple(home))
        except NameTaken:
            self._peer.send(Results([Result(task.number, 1, [])]))
            return True
        if found is None:
            return False
        made, slot = found
        self._remote_node.drop(made.results)  # nobody reads it; its task keeps it
        self._objects.begin_message()
        self._peer.send(Results([Result(task.number, 0, [], actor=self._objects.tell(slot))]))
        self._objects.drop(slot)  # as told, it is held now
        return True

    def _create(
        self, task: Task, function: int, refs: list[int], saved: int | None, home: tuple[Any, ...] | None
    ) -> tuple[SubmittedTask, int] | None:
        peer, value = self._peer, task.creates
        if value is None or value.actor is None or value.state != OBJECT_READY or len(value.data) != value.size:
            raise ForeignFault(f"task {task.number} is to construct what is no actor")
        inner = self._objects.resolve_all(value.refs)
        if inner is None:
            return None
        pool = peer.bundles.pool(task.bundle)
        slot = self._remote_node.create()
        self._objects.hold_new(slot)
        try:
            self._remote_node.seal(slot, OBJECT_READY, value.data, inner, True)
            shape = peer.shape_of(task.demand, task.hold, task.env, pool, task.priority)
            made = self._remote_node.host(
                slot,
                _spec(value.actor),
                function,
                shape,
                task.arguments,
                refs,
                task.n_dependencies,
                task.flags,
                task.attempt,
                peer.tasks_in.origin_of(task),
                saved,
                pool.group,
                home,
            )
            if made is None:
                raise NameTaken
        except BaseException:
            self._objects.drop(slot)
            raise
        return made, slot

    def hosted(self, task_in: TaskIn, is_constructed: bool) -> Ref | None:
        """The constructor of an actor of the peer has ended."""
        given = self._given.pop(task_in.actor, (-1, 0))
        if not is_constructed:
            self._objects.drop(task_in.actor)
            return None
        ref = self._objects.tell(task_in.actor, value=False)
        self._objects.drop(task_in.actor)  # as told, it is held now
        self._here[task_in.actor] = Here(saved=given)
        return ref

    def _called(self, task: Task) -> int | None:
        """The slot of the actor that a call of the peer is for; None: it has ended, as the peer knows by now, or has
        been let go of here, which the call is answered with."""
        assert task.actor is not None
        key = task.actor.slot, task.actor.generation
        slot = self._objects.own(*key) if task.actor.yours else self.at_home(key)
        if slot is None:
            gone = Value(OBJECT_FAILED, code=FAILURE_ACTOR_DIED)
            self._peer.send(Results([Result(task.number, 1, [gone] * task.n_returns)]))
            self._peer.send(Released([Told(*key)]))
            return None
        if self._remote_node.actor(slot) is None:
            raise ForeignFault(f"it calls object {task.actor.slot}, which is no actor here")
        here = self._here.get(slot)
        return None if here is not None and here.has_ended else slot

    def refuse(self, task: Task) -> None:
        """There is no room for what a call of the peer is given: it fails."""
        if self._called(task) is not None:
            full = Value(OBJECT_FAILED, code=FAILURE_STORE_FULL)
            self._peer.send(Results([Result(task.number, 1, [full] * task.n_returns)]))

    def accept(self, task: Task, function: int, refs: list[int]) -> None:
        """A call of the peer, of an actor here."""
        slot = self._called(task)
        if slot is None:
            return
        line = self._lines.get(slot)
        if line is not None or not self._submit(slot, task, function, refs):
            for ref in (function, *refs):
                self._objects.hold(ref)
            self._lines.setdefault(slot, deque()).append(Waiting(task, function, refs))

    def _submit(self, slot: int, task: Task, function: int, refs: list[int]) -> bool:
        if self._objects.is_coming(function) or not self._peer.tasks_in.submit(task, function, refs, slot):
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

    def give_up(self) -> bool:
        """Calls that wait here will not begin; whether there were any."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for waiting in line:
                self._drop(waiting)
        return bool(lines)

    def _drop(self, waiting: Waiting) -> None:
        for ref in (waiting.function, *waiting.refs):
            self._objects.drop(ref)

    def finished(self, task_in: TaskIn, failed: bool) -> bool:
        """A call has ended. True: because its actor has, of which the peer is told as a whole."""
        here = self._here.get(task_in.actor)
        if here is not None:
            here.calls.discard(task_in.number)
        if here is None or not failed:
            return False
        code = self._remote_node.inspect(task_in.results[0]).failure if task_in.results else 0
        actor = self._remote_node.actor(task_in.actor)
        if code not in ENDED_WITH_ITS_ACTOR or actor is None or actor.state != ACTOR_DEAD:
            return False
        if code != FAILURE_ACTOR_UNAVAILABLE:
            here.begun.append(task_in.number)
        return True

    def sweep(self) -> None:
        """The same, now and then."""
        self.advance()
        self._tell_ended()

    def _tell_ended(self) -> None:
        """Tell of actors of the peer that have ended, with all of their calls."""
        for slot, here in self._here.items():
            if here.has_ended or here.calls:
                continue
            actor = self._remote_node.actor(slot)
            if actor is None or actor.state != ACTOR_DEAD:
                continue
            here.has_ended = True
            for waiting in self._lines.pop(slot, ()):
                self._drop(waiting)
            self._peer.send(ActorEnded(self._objects.told(slot), actor.death_detail, actor.for_good, here.begun))

    def released(self, slot: int) -> None:
        """The peer knows nothing of an object of this node any more."""
        self._here.pop(slot, None)
        for waiting in self._lines.pop(slot, ()):  # the peer cannot have told of a call and then of that
            self._drop(waiting)

    def kill(self, message: Kill, constructor: TaskIn | None) -> None:
        """End an actor here: of the peer, or one of which it has a handle."""
        if message.actor is not None and message.lives_here:
            if (found := self._living((message.actor.slot, message.actor.generation))) is not None:
                self._remote_node.kill(found[1], message.no_restart)
        elif message.actor is not None:
            slot = self._objects.own(message.actor.slot, message.actor.generation)
            if self._remote_node.actor(slot) is None:
                raise ForeignFault(f"it kills object {slot}, which is no actor here")
            self._remote_node.kill(slot, message.no_restart)
        elif constructor is not None and constructor.kept is not None:
            self._remote_node.kill(constructor.actor, message.no_restart)
        else:
            self._peer.tasks_in.return_held(message.number)

    # ---- handles
    def describe(self, slot: int) -> Actor | None:
        """What another machine must know of an actor here; None: the object is a value."""
        found = self._remote_node.actor(slot)
        if found is None:
            return None
        flags, concurrency, limits = found.spec
        return Actor(flags, concurrency, list(limits))

    def stand_in(self, slot: int, value: Value, refs: list[int]) -> None:
        """An object here that has been told of is an actor of the peer."""
        assert value.actor is not None
        if value.state != OBJECT_READY or len(value.data) != value.size or self._objects.origin(slot) is None:
            raise ForeignFault("it tells of an actor that is none")
        if self._nothing is None:
            self._nothing = self._remote_node.create()
            self._objects.hold_new(self._nothing)
            self._remote_node.seal(self._nothing, OBJECT_READY, b"", [])
        resources = self._peer.shape_of({}, {}, 0, ON_NODE, 0)
        index = self._remote_node.stand_in(slot, value.data, refs, _spec(value.actor), self._nothing, resources)
        if index is not None:
            self._there[index] = There(self._objects.origin(slot), is_stand_in=True)


def _spec(actor: Actor) -> tuple[int, int, tuple[int, ...]]:
    return actor.flags, actor.concurrency, tuple(actor.limits)
