"""What the processes of this node ask of their agent: names of actors in the whole cluster.

The agent serves an actor of this segment, the *desk*; whoever wants something calls it, as any actor: so a worker asks as a driver does, waits as
for any value, and an agent that dies answers with an error. Requests and answers are tuples of text: nothing is ever unpickled here.

A name is claimed in the control store before its actor is made, for the node where the actor has its home; it is free again once that actor is
dead, or its node lost. Who looks for a name asks the store for the node, and the node for the handle.
"""
from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..messages import DESK_NAMESPACE, MAX_NAME_CHARS
from .messages import MAX_KEY_CHARS, StoreReply, StoreRequest

if TYPE_CHECKING:
    from ...objstore import _core
    from .exchange import Exchange

NAME = "desk"
# From a claim to an actor of that name: its maker is about to make it.
GRACE_S = 10.0
LOOK_S = 1.0
MAX_WAITING = 200               # requests; others wait in the mailbox


class DeskHooks:
    """What the agent's client needs for calls: their functions are requests."""

    @staticmethod
    def load_function(value: tuple[str, str, Any]) -> tuple[str, str, Any]:
        """The request itself."""
        return value


class Waiting(Struct):
    """A call that waits for an answer from elsewhere."""
    task: int
    request: str
    name: str
    namespace: str
    node: int = 0                   # that has been asked; 0: the head


class Claim(Struct):
    """A name of an actor of this node."""
    name: str
    namespace: str
    since: float
    is_there: bool = False


class Desk:
    """The agent's part in it.

    Parameters
    ----------
    client : _core.Client
        The agent's, with `DeskHooks`.
    node : int
        This one.
    ask : callable (StoreRequest)
        Of the head; answered by `reply`.
    exchange : callable (node) -> Exchange or None
        What there is with another node; its `found` is for `look`.
    """

    def __init__(self, client: _core.Client, node: int, ask: Callable[[StoreRequest], None], exchange: Callable[[int], Exchange | None]) -> None:
        self._client, self._node, self._ask, self._exchange = client, node, ask, exchange
        self._ref = client.serve(("Desk", NAME, DESK_NAMESPACE, 0, b"", ()), NAME, DESK_NAMESPACE)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Waiting] = {}
        self._claims: dict[str, Claim] = {}
        self._gone = ""             # why the head cannot be asked
        self._look_at = 0.0

    def look(self) -> None:
        """Take what has been asked, and what other nodes have found."""
        for number, waiting in list(self._waiting.items()):
            if waiting.node:
                self._look_at_node(number, waiting)
        while len(self._waiting) < MAX_WAITING:
            task = self._client.next(0.0)
            if task < 0:
                return
            self._serve(task)

    def _look_at_node(self, number: int, waiting: Waiting) -> None:
        exchange = self._exchange(waiting.node)
        if exchange is None:  # lost meanwhile, and its actors with it
            self._answer(number, ("none",))
            return
        for found, slot in [entry for entry in exchange.found if entry[0] == number]:
            exchange.found.remove((found, slot))
            self._answer(number, ("none",) if slot is None else ("actor", self._client.ref_at(slot)))

    def _serve(self, task: int) -> None:
        (_, request, _), arguments, _ = self._client.load(task)
        if self._gone:
            self._client.finish(task, ("error", self._gone))
            return
        if request not in ("claim", "find", "names") or len(arguments) != 2 or not all(isinstance(text, str) for text in arguments):
            self._client.finish(task, ("error", f"the cluster's agent does not know the request {request!r}"))
            return
        name, namespace = arguments
        key, number = json.dumps([namespace, name]), next(self._numbers)
        if max(len(name), len(namespace)) > MAX_NAME_CHARS or len(key) > MAX_KEY_CHARS:
            self._client.finish(task, ("error", f"{name[:50]!r}... in namespace {namespace[:50]!r} is too long: at most {MAX_NAME_CHARS} characters each"))
            return
        if request == "claim" and key in self._claims and self._is_alive(self._claims[key]):
            self._client.finish(task, ("no",))
            return
        self._waiting[number] = Waiting(task, request, name, namespace)
        if request == "claim" and key in self._claims:  # of one that has died: it is still ours
            self._claims[key] = Claim(name, namespace, time.monotonic())
            self._answer(number, ("yes",))
        elif request == "claim":
            self._ask(StoreRequest(number, self._node, "names", "claim", key, str(self._node).encode(), lives_with=True))
        elif request == "find":
            self._ask(StoreRequest(number, self._node, "names", "get", key))
        else:
            self._ask(StoreRequest(number, self._node, "names", "keys", ""))

    def reply(self, reply: StoreReply) -> None:
        """What the head says."""
        waiting = self._waiting.get(reply.number)
        if waiting is None:
            return
        if reply.error:
            self._answer(reply.number, ("error", reply.error))
        elif waiting.request == "claim":
            if reply.done:
                self._claims[json.dumps([waiting.namespace, waiting.name])] = Claim(waiting.name, waiting.namespace, time.monotonic())
            self._answer(reply.number, ("yes",) if reply.done else ("no",))
        elif waiting.request == "names":
            self._answer(reply.number, ("names", *(tuple(json.loads(key)) for key in reply.keys)))
        else:
            self._find(reply, waiting)

    def _find(self, reply: StoreReply, waiting: Waiting) -> None:
        node = int(reply.value) if reply.done else 0
        exchange = self._exchange(node) if node != self._node else None
        if exchange is None:
            self._answer(reply.number, ("none",))
            return
        waiting.node = node
        exchange.find(reply.number, waiting.name, waiting.namespace)

    def refuse(self, reason: str) -> None:
        """The head is gone; "": it is back."""
        self._gone = f"the head of the cluster cannot be asked: {reason}" if reason else ""
        for number, waiting in list(self._waiting.items()):
            if self._gone and not waiting.node:
                self._answer(number, ("error", self._gone))

    def _answer(self, number: int, answer: tuple[Any, ...]) -> None:
        self._client.finish(self._waiting.pop(number).task, answer)

    def _is_alive(self, claim: Claim) -> bool:
        return self._client.get_actor(claim.name, claim.namespace) is not None

    def sweep(self, now: float) -> None:
        """Give names back whose actors are dead. `now`: seconds, monotonic."""
        if now < self._look_at or self._gone or len(self._waiting) >= MAX_WAITING:
            return
        self._look_at = now + LOOK_S
        for key, claim in list(self._claims.items()):
            if self._is_alive(claim):
                claim.is_there = True
            elif claim.is_there or now - claim.since > GRACE_S:
                del self._claims[key]
                self._ask(StoreRequest(next(self._numbers), self._node, "names", "delete", key))
                return  # one at a time: requests are bounded
