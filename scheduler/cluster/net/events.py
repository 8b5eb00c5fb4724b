"""What sockets between machines tell their owners. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

HEAD = 0  # as a node in events


class Received(NamedTuple):
    """A message from a node, and the frames that came with it."""

    node: int
    message: Any
    payload: list[memoryview]


class Connected(NamedTuple):
    """What is sent reaches the node, which has proved to be it."""

    node: int


class Disconnected(NamedTuple):
    """It does not (any more); a new connection is being made, and `Connected` says when there is one."""

    node: int
    reason: str


class Room(NamedTuple):
    """There is room again after `Peers.room` has found none."""

    node: int


class Faulty(NamedTuple):
    """The node has sent what no sound node sends. Nothing more is taken from it."""

    node: int
    reason: str


class Rejected(NamedTuple):
    """What is at the head's address does not let this node in. `final`: it is the head, which does not know this
    machine."""

    reason: str
    final: bool


class Unreachable(NamedTuple):
    """Nothing answers at the head's address for now; the next attempt follows by itself."""


class Arrived(NamedTuple):
    """At the head: a message over a connection, from the owner of that key."""

    connection: bytes
    key: bytes
    message: Any


class Ended(NamedTuple):
    """At the head: a connection has ended. Not told of each: a node that is cut off is found out by its silence."""

    connection: bytes


class Refusal(NamedTuple):
    """At the head: something has been refused. `connection`: b"" if it was the handshake. `foreign`: a sentence for a
    peer of another version, which was refused for that alone."""

    connection: bytes
    key: bytes
    reason: str
    foreign: str = ""


PeerEvent = Received | Connected | Disconnected | Room | Faulty
LinkEvent = Received | Connected | Disconnected | Rejected | Unreachable
HeadEvent = Arrived | Ended | Refusal
