"""A node's segment as its agent's shell sees it, and what else the agent does for the processes that use it: agent
requests, placement groups, job records, what tasks of other nodes print.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from ....objstore._core import RESOURCE_UNIT, ROUTE_DIRECTED, ROUTE_UNDIRECTED, Client, Runs
from ...ipc.messages import ClusterReply, EngineState, NodeEvent, SessionConfig, WorkerDied, WorkerOutput
from ...system.load import MachineLoad
from .. import messages
from ..peer.broadcast import Tree
from ..peer.bundles import Pool
from ..peer.cell_numbers import CellNumbers
from ..peer.lineage import Lineage
from ..peer.peer import Peer
from ..peer.prefetch import prefetch
from .events import Looked, Request, Waiting
from .groups import GroupKey, Groups
from .job_records import JobRecords
from .local_tasks import LocalTasks
from .requests import AgentRequests

if TYPE_CHECKING:
    from ...ipc.transport import Channel
    from .shell import Shell

MOST_SHAPES = 1024  # of tasks of others are remembered

Amounts = tuple[tuple[str, int], ...]


class NodeSegment:
    """See `shell.Segment`. `attach` is to be called before all else.

    Parameters
    ----------
    client : Client
        The agent's.
    config : SessionConfig
    me : messages.Member
    home : Channel
        Where the local scheduler passes messages to the drivers.
    """

    def __init__(self, client: Client, config: SessionConfig, me: messages.Member, home: Channel) -> None:
        self._client, self._me, self._home = client, me, home
        self.local_tasks = LocalTasks(client)
        self._lineage = Lineage(client, self._bring)
        self._runs = Runs(client)
        self._tree = Tree()
        self._cell_numbers = CellNumbers()
        self._load, self._usage, self._usage_at = MachineLoad(), messages.Usage(), 0.0
        self._shapes: dict[tuple[Amounts, Amounts | None, int, Pool, int], bytes] = {}
        self._owner = 0 if config.stays else config.driver_pid

    def attach(self, shell: Shell) -> None:
        """The shell that this one is for."""
        self._shell = shell
        self._requests = AgentRequests(
            self._client,
            self._me.node,
            lambda request: shell.step(Request(request)),
            self._peer,
            shell.guarded,
            lambda number: shell.status_feed.asked(number, time.monotonic()),
        )
        self._records = JobRecords(
            self._client,
            self._me,
            self._owner,
            self._requests.tell,
            lambda: shell.core.home.n_elsewhere,
            lambda: shell.core.called,
        )
        self._groups = Groups(self._client, self._me.node, shell.step, self._peer, shell.guarded)

    # ---- what waits, and how things are
    def survey(self, now: float) -> Looked:
        """What the core is to know."""
        peers = self._peers
        waiting = tuple(
            Waiting(
                row.resource_class,
                row.demand,
                row.n_ready,
                row.n_startable,
                row.n_staying,
                row.asks,
                row.strategy,
                row.in_group,
                row.fits,
                self._by_node(row.near),
                any(row.resource_class in peer.tasks_out.heavy for peer in peers.values()),
            )
            for row in self._client.surplus()
        )
        capacity = self._client.capacity()
        stats = self._client.stats()
        return Looked(
            waiting,
            capacity.free,
            capacity.lent,
            capacity.kept,
            capacity.n_running,
            capacity.n_lent,
            stats["used_bytes"],
            stats["capacity_bytes"],
            stats["n_finished"],
            any(peer.is_guest for peer in peers.values()),
            self._usage_now(now),
        )

    def _by_node(self, near: dict[int, int]) -> dict[int, int]:
        """Bytes by node instead of by remote node."""
        if not near:
            return {}
        nodes = {peer.remote_node.index: node for node, peer in self._peers.items()} | {-1: self._me.node}
        return {nodes[at]: size for at, size in near.items() if at in nodes}

    def _usage_now(self, now: float) -> messages.Usage:
        if now >= self._usage_at + self._shell.core.beat_s / 2:
            self._usage, self._usage_at = messages.Usage(self._load.processors(), *self._load.memory()), now
        return self._usage

    def place_here(self, index: int, n: int, staying: bool) -> None:
        """Tasks that ask where to begin do so here."""
        self._client.place_here(index, n, staying)

    def fail_unrouted(self, index: int, staying: bool) -> None:
        """Tasks that ask where to begin can begin nowhere."""
        self._client.fail_unrouted(index, staying)

    def direct(self, directs: bool) -> None:
        """Tasks that ask where to begin wait for the head's answer, or, if they may run anywhere, not any more."""
        self._client.direct(ROUTE_DIRECTED if directs else ROUTE_UNDIRECTED)

    # ---- time
    def look(self) -> bool:
        """The segment has news."""
        has_more = self._lineage.look()
        self._requests.look()
        prefetch(self._peers.values(), self._client.stats)
        return has_more

    def sweep(self, now: float) -> None:
        """Some time has passed."""
        self._lineage.sweep()
        self._requests.sweep(now)
        self._records.look(now)

    @property
    def deadline(self) -> float:
        """When to look at placement groups, whatever happens."""
        return self._groups.deadline

    def look_at_groups(self, now: float) -> None:
        """See what has become of placement groups."""
        for node, peer in list(self._peers.items()):
            self._shell.guarded(node, peer.bundles.look)
            heard, peer.bundles.heard = peer.bundles.heard, []
            for message in heard:
                self._groups.heard(node, message.group, message.indexes, message.given, now)
        self._groups.look(now)

    def group_placed(self, key: GroupKey, leases: tuple[messages.GrantedLease, ...], now: float) -> None:
        """The head has granted the bundles of a placement group."""
        self._groups.placed(key, leases, now)

    # ---- the others
    @property
    def _peers(self) -> Mapping[int, Peer]:
        return cast("Mapping[int, Peer]", self._shell.peers)  # made by `begin`

    def _peer(self, node: int) -> Peer | None:
        return cast("Peer | None", self._shell.peer(node))

    def begin(self, node: int, send: Callable[[messages.Message, bytes | None], None]) -> Peer:
        """What goes on with a node from now on."""
        return Peer(
            self._client,
            send,
            self._shape_of,
            self._bring,
            self._lineage,
            self._runs,
            node,
            self._tree,
            self._peer,
            lambda number: self._cell_numbers.here(node, number),
            lambda number: self._cell_numbers.told(node, number),
        )

    def ended(self, node: int) -> None:
        """What was between this node and that one has ended."""
        self._groups.lost(node)
        self._requests.lost(node)

    def _bring(self, slot: int) -> None:
        for node, peer in list(self._peers.items()):
            self._shell.guarded(node, peer.transfers.fetch, slot)

    def _shape_of(
        self, demand: dict[str, int], hold: dict[str, int] | None, env: int, pool: Pool, priority: int
    ) -> bytes:
        key = tuple(sorted(demand.items())), None if hold is None else tuple(sorted(hold.items())), env, pool, priority
        if key not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key], _ = self._client.resource_class(
                _amounts(demand), None if hold is None else _amounts(hold), env, *pool, priority=priority
            )
        return self._shapes[key]

    # ---- the processes that use it
    def answered(self, reply: messages.StoreReply) -> None:
        """The control store answers."""
        self._requests.reply(reply)

    def refuse(self, reason: str) -> None:
        """The head cannot be asked; "": it can again."""
        self._requests.refuse(reason)

    def post(self, message: NodeEvent | ClusterReply | EngineState) -> None:
        """For the drivers; a reply with a number below 0 is for a caller of the agent's actor."""
        if not isinstance(message, ClusterReply):
            self._home.post(message, droppable=isinstance(message, NodeEvent))
        elif message.request < 0:
            self._requests.nodes(message)
        else:
            self._home.post(message)

    def printed(self, message: WorkerOutput, has_room: Callable[[int], int]) -> None:
        """What tasks of others have printed here goes to them. Not what is ours, nor what has come from them."""
        where = self._cell_numbers.there(message.origin)
        peer = self._peers.get(where[0]) if where is not None else None
        if where is not None and peer is not None and has_room(where[0]):
            self._shell.guarded(where[0], peer.tasks_in.tell_output, message, where[1])

    def worked_for_us(self) -> list[int]:
        """The nodes where tasks of this one have run."""
        return [node for node, peer in self._peers.items() if peer.tasks_out.has_sent]

    def died(self, message: WorkerDied) -> None:
        """A worker has died here, which may have run a task of another node."""
        for node, peer in list(self._peers.items()):
            self._shell.guarded(node, peer.tasks_in.tell_death, message)

    def say(self, text: str) -> None:
        """A line for the log."""
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """The session ends by itself: what is on record of it is completed."""
        self._records.close()


def shares(amounts: dict[str, float]) -> messages.Shares:
    """Amounts of resources as messages have them."""
    return {name: int(amount * RESOURCE_UNIT) for name, amount in amounts.items() if amount > 0}


def _amounts(of: messages.Shares) -> dict[str, float]:
    return {name: amount / RESOURCE_UNIT for name, amount in of.items()}
