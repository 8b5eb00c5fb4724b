"""Which members an agent can use: those that cannot be reached and since when, those that have been given up, those
that get less for a while. Pure; `core` keeps a `Reach` and tells it what it knows of members.

A member that no connection can be made with is probed: when nothing listens at its address its processes have ended,
and it is given up after `GRACE_S`. When nothing answers, a cable may have been pulled, and it is given up a little
later than the head calls a silent node dead: the head's word, if there is one, comes first. A
member that has said what it cannot know, or does not read, is given up at once.

To give a member up is to *reset* what is between the two: what was sent there runs again, what came from there ends,
and the other side is told, which does the same and answers in kind (`peer_reset`).
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from ..messages import Member, Reset
from ..net.probe import GRACE_S
from ..net.sockets import BREAKS_AFTER_S
from .events import Action, EndPeer, PeerFaulty, Probe, Say, SayReset
from .peer_reset import PeerResets

# Longer than the head takes to call a silent member dead: a member that this node alone cannot reach for so long is of
# no use to it.
LATER_S = 1.0
SAY_AGAIN_S = 0.2  # between two attempts to say a reset to a node that does not read
REFUSED_S = 0.2  # so long nothing more goes to a node that has sent tasks back
MAX_REASON_CHARS = 1000


class Reach(Struct):
    """`unreachable`: members without a connection, since when; `probe_at`: when to probe each next. `choked`: those
    that read more slowly than is sent; `refused`: those that have sent tasks back, until when they get no more."""

    unreachable: dict[int, float] = {}
    probe_at: dict[int, float] = {}
    resets: PeerResets = field(default_factory=PeerResets)
    say_at: float = inf  # when to say those again that found no room
    choked: set[int] = set()
    refused: dict[int, float] = {}

    def is_cut(self, node: int) -> bool:
        """Whether nothing goes there, and nothing from there counts."""
        return node in self.resets

    def is_congested(self, node: int) -> bool:
        """Whether no more tasks go there for now."""
        return node in self.choked or node in self.refused


def patience_s(dead_after_s: float) -> float:
    """How long a member may be out of reach, for a head that calls silent members dead after so long."""
    return max(GRACE_S, dead_after_s - BREAKS_AFTER_S) + LATER_S


# ---------------------------------------------------------------- what the shell sees
def went_down(reach: Reach, node: int, reason: str, now: float) -> list[Action]:
    """There is no connection with it."""
    reach.unreachable.setdefault(node, now)
    return [Say(f"node {node:x} cannot be reached: {reason}")]


def came_up(reach: Reach, node: int) -> None:
    """There is one again."""
    reach.unreachable.pop(node, None)
    reach.probe_at.pop(node, None)


def probed(reach: Reach, node: int, is_there: bool, now: float) -> PeerFaulty | None:
    """The answer to a probe; what is to be made of it."""
    since = reach.unreachable.get(node)
    if since is None or is_there or now - since < GRACE_S:
        return None
    return PeerFaulty(node, "its processes have ended: nobody listens at its address", for_good=False)


def due(
    reach: Reach, members: dict[int, Member], dead_after_s: float, now: float
) -> tuple[list[PeerFaulty], list[Action]]:
    """What the passing of time brings: whom to give up, and what else to do."""
    given_up: list[PeerFaulty] = []
    actions: list[Action] = []
    limit_s = patience_s(dead_after_s)
    for node, since in reach.unreachable.items():
        if now >= since + limit_s:
            given_up.append(PeerFaulty(node, f"it could not be reached for {limit_s:g} s", for_good=False))
        elif now >= reach.probe_at.get(node, -inf):
            reach.probe_at[node] = now + GRACE_S
            if node in members:
                actions.append(Probe(node, members[node].endpoint))
    if now >= reach.say_at:
        actions += _say_owed(reach, now)
    return given_up, actions


def caught_up(reach: Reach, now: float) -> list[int]:
    """Nodes that had sent tasks back, long enough ago."""
    nodes = [node for node, until in reach.refused.items() if now >= until]
    for node in nodes:
        del reach.refused[node]
    return nodes


def next_deadline(reach: Reach, dead_after_s: float) -> float:
    """When to call `due` and `caught_up` at the latest."""
    due = min(reach.refused.values(), default=inf) if reach.refused else inf
    if reach.unreachable:
        limit_s = patience_s(dead_after_s)
        for node, since in reach.unreachable.items():
            due = min(due, since + limit_s, reach.probe_at.get(node, -inf))
    return min(due, reach.say_at)


# ---------------------------------------------------------------- to give up, and to begin again
def cut(reach: Reach, fault: PeerFaulty, is_member: bool, now: float) -> list[Action]:
    """Give a node up; nothing if it has been."""
    node = fault.node
    came_up(reach, node)
    if node in reach.resets:
        return []
    actions: list[Action] = [Say(f"node {node:x} is cut off: {fault.reason}"), EndPeer(node)]
    if is_member:
        reset = Reset(fault.reason[:MAX_REASON_CHARS], fault.for_good)
        reach.resets.begin(node, reset)
        reach.say_at = min(reach.say_at, now + SAY_AGAIN_S)
        actions.append(SayReset(node, reset))  # and no other: what is said twice would be answered twice
    return actions


def _say_owed(reach: Reach, now: float) -> list[Action]:
    """Say all resets again that have found no room."""
    owed = reach.resets.owed()
    reach.say_at = now + SAY_AGAIN_S if owed else inf
    return [SayReset(node, reset) for node, reset in owed]


def said(reach: Reach, node: int) -> list[Action]:
    """Ours is on its way."""
    return _over(node) if node in reach.resets and reach.resets.said(node) else []


def heard(reach: Reach, node: int, reset: Reset) -> list[Action]:
    """Theirs has come, and ours has begun."""
    return _over(node) if node in reach.resets and reach.resets.heard(node, reset) else []


def forget(reach: Reach, node: int) -> None:
    """It is no member any more."""
    came_up(reach, node)
    reach.resets.forget(node)
    reach.choked.discard(node)
    reach.refused.pop(node, None)


def _over(node: int) -> list[Action]:
    return [Say(f"node {node:x} can be used again")]
