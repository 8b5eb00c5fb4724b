"""The status feed: what an agent tells drivers that look at the cluster, and what it asks the head for that. Pure.

The head is asked only when a driver looks, once for all that do. A picture of all nodes that is kept up to date on each
of many nodes would cost too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ....objstore._core import RESOURCE_UNIT
from ...ipc.messages import ClusterNode, ClusterReply
from ..messages import SESSION_LABEL, Member, NodeStatus, Status

PATIENCE_S = 0.5  # with the head; then what is known here is told
FIRST_PATIENCE_S = 10.0  # until it has answered once: before that this node knows of itself only
UNASKED_S = 0.2  # between two replies without a question: many nodes may come at once
N_LOST = 100  # machines that are remembered


class StatusFeed:
    """Questions of this node's drivers.

    Parameters
    ----------
    me : Member

    Attributes
    ----------
    deadline : float
        When to call `due` at the latest.
    """

    def __init__(self, me: Member) -> None:
        self._me = me
        self._open: dict[int, float] = {}  # request -> when it is answered in any case
        self._number = 0  # of the question that the head was asked last
        self._is_asked = False  # and has not answered
        self._has_heard = False  # an answer, ever
        self._rows: dict[int, NodeStatus] = {}  # as it told
        self._ready = False  # an answer is there, for all that is open
        self._is_old = False  # that answer, or the one that is awaited, may be from before the latest news
        self._lost: dict[int, str] = {}
        self._told_at = -math.inf

    def asked(self, request: int, now: float) -> None:
        """A driver asks; 0: it waits for no answer of its own."""
        self._open.setdefault(request, now + (PATIENCE_S if self._has_heard else FIRST_PATIENCE_S))

    def news(self, now: float) -> None:
        """A machine has come, or was lost, of which drivers hear unasked."""
        self._is_old = self._is_asked or self._ready
        self.asked(0, now)

    def question(self) -> int:
        """The number of the question that the head is to be asked now; 0: none."""
        if not self._open or self._is_asked or self._ready:
            return 0
        self._is_asked, self._number = True, self._number + 1
        return self._number

    def answered(self, status: Status) -> None:
        """The head says how things are."""
        if status.number == self._number:
            self._rows = {row.member.node: row for row in status.nodes}
            self._is_asked, self._ready, self._has_heard = False, True, True

    def lost(self, node: int, reason: str) -> None:
        """A machine is lost, whatever the head has said of it."""
        self._lost[node] = reason
        while len(self._lost) > N_LOST:
            del self._lost[next(iter(self._lost))]

    @property
    def deadline(self) -> float:
        """When to answer without the head."""
        return min(self._open.values(), default=math.inf)

    def due(self, now: float, members: Iterable[Member]) -> list[ClusterReply]:
        """What is to be told now."""
        if not self._open or not (self._ready or now >= self.deadline):
            return []
        if self._open.keys() == {0} and now < self._told_at + UNASKED_S:
            self._open[0] = min(self._open[0], self._told_at + UNASKED_S)
            return []
        error = "" if self._ready else "the head of the cluster does not answer: this is what this machine knows"
        nodes = [_row(row, self._me.node) for row in (self._rows.values() if self._ready else self._known(members))]
        nodes.sort(key=lambda row: (not row.is_here, row.state == "dead", row.hostname, row.node))
        replies = [ClusterReply(request, nodes, error) for request in self._open]
        self._open.clear()
        self._told_at, self._ready, self._is_asked = now, False, False
        if self._is_old:
            self.news(now)
        return replies

    def _known(self, members: Iterable[Member]) -> list[NodeStatus]:
        rows = {who.node: NodeStatus(who, "alive", {}, 0, 0, 0, -1.0) for who in (self._me, *members)}
        for node, row in self._rows.items():
            if node in self._lost or node in rows:
                state = "dead" if node in self._lost else row.state
                rows[node] = NodeStatus(
                    row.member,
                    state,
                    row.free,
                    row.n_queued,
                    row.used_bytes,
                    row.size_bytes,
                    -1.0,
                    self._lost.get(node, row.reason),
                    row.usage,
                )
        return list(rows.values())


def _row(row: NodeStatus, me: int) -> ClusterNode:
    who, usage = row.member, row.usage
    labels = {name: value for name, value in who.labels.items() if name != SESSION_LABEL}
    return ClusterNode(
        f"{who.node:x}",
        who.labels.get(SESSION_LABEL, ""),
        who.called,
        row.state,
        who.node == me,
        _amounts(who.total),
        _amounts(row.free),
        labels,
        row.n_queued,
        row.used_bytes,
        row.size_bytes,
        usage.load,
        usage.memory_bytes,
        usage.memory_size,
        row.silent_s,
        row.reason,
        who.endpoint.removeprefix("tcp://"),
    )


def _amounts(shares: dict[str, int]) -> dict[str, float]:
    return {name: share / RESOURCE_UNIT for name, share in shares.items()}
