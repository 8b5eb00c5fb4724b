"""What the holder of leases has its agent do. Pure; `agent/events.py` has the agent's other actions."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

from ..messages import GrantedLease, ToHead

Group = Hashable  # whatever the shell tells placement groups by
Shape = tuple[int, int]  # a resource class of the segment, and the node that its strategy names, or 0


class Tell(Struct, frozen=True):
    """A message to the head, on the connection of the last `Connect`."""

    message: ToHead


class Send(Struct, frozen=True):
    """Take up to `n` waiting tasks of that shape and send them to the node, which may be the own one; then `Sent`, at
    once."""

    lease: int
    node: int
    shape: Shape
    n: int


class TakeBack(Struct, frozen=True):
    """Ask the node for `n` of the tasks that wait there; `Ended` for those that came back."""

    lease: int
    node: int
    shape: Shape
    n: int


class GroupPlaced(Struct, frozen=True):
    """The bundles of a placement group are reserved; `leases` in their order."""

    group: Group
    leases: tuple[GrantedLease, ...]


class Warn(Struct, frozen=True):
    """Tasks of that shape, or that group, can run nowhere as things are: for people, once."""

    shape: Shape | Group
    reason: str


Action = Tell | Send | TakeBack | GroupPlaced | Warn
