"""What an agent and the process that stands for an engine say to each other, beside what peers say.

An engine (Ray's, Dask's) is a machine of the session: for the agent it is a peer, whose messages come over a socket of
this machine from a process of its own, which the agent has started. That process has the engine's library, and the
agent has not. There is no head between the two: `agent.engine_head` says what a head would.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from ..ipc.messages import EngineErrorKind, EngineLine, Name, Text
from .messages import MAX_NODES, Message, Shares, ToPeer


class EngineNode(Struct, frozen=True, array_like=True):
    """A machine of the engine's. `total`: what tasks may ask for there."""

    name: Name
    total: Shares


class EngineUp(Message, frozen=True, tag="engine_up"):
    """Process -> agent: the engine takes tasks; again whenever its machines have changed. `name`: what people call it.
    `grows`: it gets machines that tasks ask for and none has. `lacks`: what calls may ask for and it cannot do.
    `dashboard`: where people look at it."""

    name: Name
    nodes: Annotated[list[EngineNode], Meta(max_length=MAX_NODES)]
    grows: bool = False
    lacks: list[Name] = field(default_factory=list[Name])
    dashboard: Text = ""


class EngineUsed(Message, frozen=True, tag="engine_used"):
    """Process -> agent, when it has changed: what tasks have there that have begun, as far as is known, and actors."""

    used: Shares


class EngineSays(Message, frozen=True, tag="engine_says"):
    """Process -> agent: a sentence for the people at this node; "": none. `line`: what has become of the line to the
    engine."""

    text: Text
    line: EngineLine | None = None


class EngineDown(Message, frozen=True, tag="engine_down"):
    """Process -> agent, its last word: there is no engine, or none any more. `kind`: as in `EngineState`."""

    reason: Text
    kind: EngineErrorKind = "other"


ToEngine = ToPeer
FromEngine = ToPeer | EngineUp | EngineUsed | EngineSays | EngineDown
