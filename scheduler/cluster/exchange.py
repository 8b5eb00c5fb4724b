"""What goes on between this node and one other: tasks that run there or here for the other, and what follows them.

An `Exchange` owns a proxy, the client that stands for the other machine in this segment (objstore/core/proxy.h). It
knows neither sockets nor threads: messages go out through `send`, come in through `receive`, and `look` is to be called
when the segment has news.

Each subject is a part of it: the `objects` that one side has told the other of, their bytes (`transfers`), tasks that
have been `sent` there or `accepted` here, `actors`, and `streams`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import messages
from .accepted import AcceptedTasks
from .actors import Actors
from .groups import Bundles, Place
from .messages import (ActorEnded, Begun, Blocked, Cancel, Checkpoint, Chunk, Copied, Fetch, Find, Found, GiveBack,
                       Items, Kill, Queued, Redirect, Released, Reserve, Reserved, Results, Returned, Sealed, Taken,
                       Tasks, Unreserve, Want)
from .objects import ForeignFault, Objects
from .sent import SentTasks
from .streams import Streams
from .transfers import Transfers

if TYPE_CHECKING:
    from ...objstore import _core
    from .broadcast import Tree
    from .lineage import Lineage

# What a proxy's tasks and actors end with (exceptions.DIED_WITH_ITS_MACHINE): no exit status.
NODE_DIED = -2000


class Exchange:
    """This node's side of what it has to do with one other node.

    Parameters
    ----------
    client : _core.Client
        The agent's.
    send : callable (message, frame)
        Takes what is for the other node; `frame`: bytes behind the message, or None. Never waits.
    shape_of : callable (demand, hold, environment, place) -> bytes
        The resource class of a demand, amounts in ten-thousandths by name; raises `ValueError` for one that no task may
        have. `hold`: what an actor keeps of it; None: it is no actor's. `place`: as `Bundles.place` gives it.
    bring : callable (slot)
        Has an object brought here that lies on another machine.
    lineage : Lineage
        Remembers how results were made that lie there.
    runs : _core.Runs
        Of the client: when tasks ran here.
    node : int
        The other's number.
    tree : Tree
        Who has which of our large objects.
    reach : callable (node) -> Exchange or None
        What there is with another node.
    origin_here : callable (number) -> int
        This node's number for a cell of the other, see `origins`.
    origin_told : callable (number) -> (int, bool)
        What to call a cell towards the other, and whether it is a cell of theirs.

    Attributes
    ----------
    is_congested : bool
        They read more slowly than we write; for whoever knows to say.
    found : list of (number, slot or None)
        What `find` has found; for whoever has asked.
    """

    def __init__(self, client: _core.Client, send: Callable[[messages.Message, bytes | None], None],
                 shape_of: Callable[[dict[str, int], dict[str, int] | None, int, Place], bytes], bring: Callable[[int], None],
                 lineage: Lineage, runs: _core.Runs, node: int, tree: Tree, reach: Callable[[int], Exchange | None],
                 origin_here: Callable[[int], int] = int,
                 origin_told: Callable[[int], tuple[int, bool]] = lambda number: (number, False)) -> None:
        from ...objstore import _core
        self.proxy = _core.Proxy(client, node)
        self.shape_of = shape_of
        self._send = send
        self._lineage = lineage
        self.is_congested = False
        self.found: list[tuple[int, int | None]] = []
        self.objects = Objects(self, lineage, client.stats()["capacity_bytes"])
        self.transfers = Transfers(self, node, bring, tree, reach)
        self.streams = Streams(self)
        self.actors = Actors(self)
        self.bundles = Bundles(self, client)
        self.sent = SentTasks(self, lineage, origin_told)
        self.accepted = AcceptedTasks(self, client, runs, origin_here)

    @property
    def is_quiet(self) -> bool:
        """Whether `sweep` would find nothing to do, whatever has happened."""
        return not self.objects.n_imports and not self.accepted and not self.actors.n_here

    def send(self, message: messages.Message, frame: bytes | None = None) -> None:
        """Tell the other node."""
        self._send(message, frame)

    # ---- names
    def find(self, number: int, name: str, namespace: str) -> None:
        """Ask for a living actor there; see `found`."""
        self.send(Find(number, name, namespace))

    def _find(self, number: int, name: str, namespace: str) -> None:
        try:
            slot = self.proxy.find_actor(name, namespace)
        except ValueError as error:
            raise ForeignFault(f"it asks for an actor whose name is none: {error}") from error
        self.objects.begin_message()
        self.send(Found(number, None if slot is None else self.objects.tell(slot)))

    # ---- from outside
    def receive(self, message: messages.Message, frame: bytes = b"",
                has_room: Callable[[], bool] = lambda: True) -> None:
        """Take in what the other node says.

        Raises
        ------
        ForeignFault
            It says what it cannot know. The exchange is to be closed.
        """
        match message:
            case Tasks(tasks):
                self.accepted.run(tasks, has_room)
            case Results(results):
                self.sent.results(results)
            case Returned(numbers):
                self.sent.returned(numbers)
            case Items():
                self.streams.items(message)
            case Taken():
                self.streams.taken(message)
            case Blocked(numbers):
                self.sent.blocked(numbers)
            case ActorEnded():
                self.actors.ended(message)
            case Reserve():
                self.bundles.reserve(message)
            case Reserved():
                self.bundles.reserved(message)
            case Unreserve():
                self.bundles.unreserve(message)
            case Find(number, name, namespace):
                self._find(number, name, namespace)
            case Found(number, actor):
                self.found.append((number, None if actor is None else self.objects.resolve(actor)))
            case Checkpoint():
                self.actors.saved(message)
            case Kill():
                self.actors.kill(message, self.accepted.get(message.number))
            case Begun(tasks):
                self.sent.begun(tasks)
            case Queued(numbers):
                self.sent.note_queued(numbers)
            case GiveBack(numbers):
                self.accepted.give_back(numbers)
            case Cancel(numbers):
                self.accepted.cancel(numbers)
            case Released(objects):
                self.objects.released(objects)
            case Want(objects):
                self.objects.wanted(objects)
            case Sealed(refs):
                self.objects.sealed(refs)
            case Fetch():
                self.transfers.asked(message)
            case Chunk():
                self.transfers.chunk(message, frame)
            case Redirect():
                self.transfers.redirected(message)
            case Copied(slot, generation):
                self.transfers.copied((slot, generation))
        self.objects.ask_wanted()

    def look(self) -> None:
        """Something in the segment has changed: results, what was pending, what is read, what is cancelled."""
        self.streams.look()
        self.accepted.look()
        self.objects.look()
        self.transfers.look()
        self.sent.cancel_unwanted()
        self.actors.look()

    def sweep(self, now: float) -> None:
        """Release what nobody here refers to any more. To be called now and then, unless `is_quiet`. `now`: seconds,
        monotonic."""
        self.transfers.sweep(now)
        self.streams.look()  # a reader may go without a word
        self.accepted.sweep(now)
        self.actors.sweep()
        self.sent.cancel_unwanted(again=True)
        self.accepted.tell_begun()
        self.objects.release_unused()

    def came(self, slot: int) -> None:
        """All of an object here is known now, which was gathered: a value of a task of ours, or what tasks of theirs
        wait for."""
        self.sent.came(slot)
        self.accepted.function_came(slot)

    def close(self) -> None:
        """The other node is gone. Its tasks are retried, what it held is let go of, what it has begun here ends, and
        results that lay there are made again."""
        self.transfers.close()
        self.accepted.close()
        self._lineage.lost(list(self.transfers.elsewhere))
        self.proxy.close(NODE_DIED)
