"""Where a task is to run, as its user says it (`Wish`), and what that means to the head (`messages.Strategy`). Pure.

A wish is part of a task's resource class, as text, since it may name what does not exist yet or any more: an agent
reads it each time it looks at what waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from .. import placement
from ..messages import SESSION_LABEL, Labels, Member, Strategy

N_DIGITS = 4  # so many of a number's beginning may stand for it


class Wish(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`node`: which one, see `find`. `labels`, `preferred`: see `placement.holds`."""

    kind: Literal["pack", "spread", "node"] = "pack"
    node: str = ""
    soft: bool = False
    labels: Labels = {}
    preferred: Labels = {}


def to_text(wish: Wish) -> str:
    """For the segment; equal for equal wishes."""
    return msgspec.json.encode(wish, order="sorted").decode()


def from_text(text: str) -> Wish:
    """The opposite; `ValueError` for what is none."""
    return msgspec.json.decode(text, type=Wish)


def resolve(wish: Wish, members: Iterable[Member]) -> Strategy | None:
    """What the head is told; None: there is no node of that name, and no other will do.

    Where a host has several nodes, none of which is called like it, it is the one with the lowest number; a node that
    is not there is number 0.
    """
    if wish.kind != "node":
        return Strategy(wish.kind, labels=wish.labels, preferred=wish.preferred)
    named = [who.node for who in find(wish.node, members)]
    return Strategy("node", node=min(named, default=0), soft=wish.soft) if named or wish.soft else None


def find(name: str, members: Iterable[Member]) -> list[Member]:
    """Those that a user may mean: by the id of the node's session, or its name; the name of its host; or else the
    node's number or at least four digits of its beginning, also behind its name, as listings show those of one name, of
    which one has been lost."""
    there = list(members)
    host, _, digits = name.rpartition(" ")
    exact = [who for who in there if name in (who.labels.get(SESSION_LABEL), who.called)] or [
        who for who in there if name == who.hostname
    ]
    return exact or [
        who
        for who in there
        if len(digits) >= N_DIGITS and host in ("", who.called) and f"{who.node:x}".startswith(digits.lower())
    ]


def may_run_on(strategy: Strategy, member: Member) -> bool:
    """Whether a task may run there, whatever room there is."""
    return placement.allows(strategy, placement.Candidate(member.node, {}, labels=member.labels))
