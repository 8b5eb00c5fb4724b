"""The peer: what goes on between this node and one other. Tasks run there or here for the other, and objects, actors
and generators follow them.

A `Peer` owns a remote node, the client that stands for the other machine in this segment
(objstore/core/clients/remote_node.h). It knows neither sockets nor threads: messages go out through `send`, come in
through `receive`, and `look` is to be called when the segment has news.

Each subject is a part of it: the `objects` that one side has told the other of, their bytes (`transfers`), tasks of
this node that run there (`tasks_out`) and of that node that run here (`tasks_in`), `actors`, `streams` and `bundles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from ....objstore._core import DIED_WITH_NODE, RemoteNode
from .. import messages
from ..messages import (
    ActorEnded,
    Begun,
    Blocked,
    Cancel,
    Checkpoint,
    Chunk,
    Copied,
    Fetch,
    Find,
    Found,
    GiveBack,
    Items,
    Kill,
    Queued,
    Redirect,
    Released,
    Reserve,
    Reserved,
    Results,
    Returned,
    Sealed,
    Taken,
    Tasks,
    Unreserve,
    Want,
)
from .actors import Actors
from .bundles import Bundles, Pool
from .generators import Streams
from .objects import ForeignFault, Objects
from .tasks_in import TasksIn
from .tasks_out import TasksOut
from .transfers import Transfers

if TYPE_CHECKING:
    from ....objstore._core import Client, Runs
    from .broadcast import Tree
    from .lineage import Lineage


class Peer:
    """This node's side of what it has to do with one other node.

    Parameters
    ----------
    client : Client
        The agent's.
    send : callable (message, frame)
        Takes what is for the other node; `frame`: bytes behind the message, or None. Never waits.
    shape_of : callable (demand, hold, environment, pool, priority) -> bytes
        The resource class of a demand, amounts in ten-thousandths by name; raises `ValueError` for one that no task may
        have. `hold`: what an actor keeps of it; None: it is no actor's. `pool`: as `Bundles.pool` gives it.
    bring : callable (slot)
        Has an object brought here that lies on another machine.
    lineage : Lineage
        Remembers how results were made that lie there.
    runs : Runs
        The client's: when tasks ran here.
    node : int
        The other's number.
    tree : Tree
        Which nodes have which large objects of this node.
    reach : callable (node) -> Peer or None
        What there is with another node.
    origin_here : callable (number) -> int
        This node's number for a cell of the other, see `cell_numbers`.
    origin_told : callable (number) -> (int, bool)
        What to call a cell towards the other, and whether it is a cell of the peer.

    Attributes
    ----------
    is_congested : bool
        The other node reads more slowly than this one writes; set by the shell.
    found : list of (number, slot or None)
        What `find` has found; taken by `AgentRequests`.
    """

    def __init__(
        self,
        client: Client,
        send: Callable[[messages.Message, bytes | None], None],
        shape_of: Callable[[dict[str, int], dict[str, int] | None, int, Pool, int], bytes],
        bring: Callable[[int], None],
        lineage: Lineage,
        runs: Runs,
        node: int,
        tree: Tree,
        reach: Callable[[int], Peer | None],
        origin_here: Callable[[int], int] = int,
        origin_told: Callable[[int], tuple[int, bool]] = lambda number: (number, False),
    ) -> None:
        self.remote_node = RemoteNode(client, node)
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
        self.tasks_out = TasksOut(self, lineage, origin_told)
        self.tasks_in = TasksIn(self, client, runs, origin_here)

    @property
    def is_quiet(self) -> bool:
        """Whether `sweep` would find nothing to do, whatever has happened."""
        return not self.objects.n_imports and not self.tasks_in and not self.actors.n_here

    @property
    def is_at_work(self) -> bool:
        """Whether tasks of the peer are here."""
        return bool(self.tasks_in)

    @property
    def is_guest(self) -> bool:
        """Whether tasks of the peer are here, or objects that it is reading."""
        return bool(self.tasks_in) or self.transfers.is_leaving

    @property
    def has_bundles(self) -> bool:
        """Whether placement groups of this node have bundles there."""
        return self.bundles.has_asked

    def send(self, message: messages.Message, frame: bytes | None = None) -> None:
        """Tell the other node."""
        self._send(message, frame)

    # ---- names
    def find(self, number: int, name: str, namespace: str) -> None:
        """Ask for a living actor there; see `found`."""
        self.send(Find(number, name, namespace))

    def _find(self, number: int, name: str, namespace: str) -> None:
        try:
            slot = self.remote_node.find_actor(name, namespace)
        except ValueError as error:
            raise ForeignFault(f"it asks for an actor whose name is none: {error}") from error
        self.objects.begin_message()
        self.send(Found(number, None if slot is None else self.objects.tell(slot)))

    # ---- from outside
    def receive(
        self, message: messages.ToPeer, frame: messages.Frame = b"", has_room: Callable[[], bool] = lambda: True
    ) -> None:
        """Take in what the other node says.

        Raises
        ------
        ForeignFault
            It says what it cannot know. The peer is to be closed.
        """
        match message:
            case Tasks(tasks):
                self.tasks_in.run(tasks, has_room)
            case Results(results):
                self.tasks_out.results(results)
            case Returned(numbers):
                self.tasks_out.returned(numbers)
            case Items():
                self.streams.items(message)
            case Taken():
                self.streams.taken(message)
            case Blocked(numbers):
                self.tasks_out.blocked(numbers)
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
                self.actors.kill(message, self.tasks_in.get(message.number))
            case Begun(tasks):
                self.tasks_out.begun(tasks)
            case Queued(numbers):
                self.tasks_out.note_queued(numbers)
            case GiveBack(numbers):
                self.tasks_in.give_back(numbers)
            case Cancel(numbers):
                self.tasks_in.cancel(numbers)
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
            case messages.Output() | messages.Died() | messages.Flush() | messages.Flushed() | messages.Reset():
                pass  # the agent's links and its shell take these
            case _:
                assert_never(message)
        self.objects.ask_wanted()

    def look(self) -> None:
        """Something in the segment has changed: results, what was pending, what is read, what is cancelled."""
        self.streams.look()
        self.tasks_in.look()
        self.objects.look()
        self.transfers.look()
        self.tasks_out.cancel_unwanted()
        self.actors.look()

    def sweep(self, now: float) -> None:
        """Release what nothing here refers to any more. To be called now and then, unless `is_quiet`. `now`: seconds,
        monotonic."""
        self.transfers.sweep(now)
        self.streams.look()  # a reader may end without a word
        self.tasks_in.sweep(now)
        self.actors.sweep()
        self.tasks_out.cancel_unwanted(again=True)
        self.tasks_in.tell_begun()
        self.objects.release_unused()

    def came(self, slot: int) -> None:
        """All of an object here is known now, which was gathered: a value of a task of this node, or what tasks of the
        peer wait for."""
        self.tasks_out.came(slot)
        self.tasks_in.function_came(slot)

    def close(self) -> None:
        """The other node is gone. Its tasks are retried, what it held is let go of, what it has begun here ends, and
        results that lay there are made again."""
        self.transfers.close()
        self.tasks_in.close()
        self._lineage.lost(list(self.transfers.elsewhere))
        self.remote_node.close(DIED_WITH_NODE)
