"""What the processes of this node ask of their agent: names of actors in the whole cluster, entries of the control
store, which machines there are.

The agent serves an actor of this segment, and a request is a call of it. So a worker asks as a driver does, waits as
for any value, and gets an error when the agent dies. Requests and answers are tuples of text and bytes: nothing is ever
unpickled here.

    claim, find, names     of actors: below
    store                  a request to the control store (`ALLOWED`): ("reply", done, value, more, keys, values), or
                           ("full", why)
    nodes                  ("nodes", a `ClusterReply`, encoded)
    each                   or ("error", why), or ("gone", why): the head cannot be asked

A name is claimed in the control store before its actor is made, for the node where the actor has its home; it is free
again once that actor is dead, or its node lost. To find a name, the agent asks the store for the node, and that node
for the handle.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from ...ipc.messages import AGENT_NAMESPACE, MAX_NAME_CHARS, ClusterReply
from ..messages import MAX_KEY_CHARS, StoreReply, StoreRequest

if TYPE_CHECKING:
    from ....objstore._core import Client
    from ..peer.peer import Peer

NAME = "agent"
# From a claim to an actor of that name: its maker is about to make it.
GRACE_S = 10.0
LOOK_S = 1.0
MAX_WAITING = 200  # requests; others wait in the mailbox
# What processes may ask of the control store themselves: operations by table.
ALLOWED = {
    "kv": ("get", "put", "claim", "swap", "delete", "keys"),
    "jobs": ("latest",),
    "runs": ("latest",),
    "groups": ("latest",),
}


class RequestHooks:
    """What the agent's client needs for calls: their functions are requests."""

    @staticmethod
    def load_function(value: tuple[str, str, Any]) -> tuple[str, str, Any]:
        """The request itself."""
        return value


class Waiting(Struct):
    """A call that waits for an answer from elsewhere."""

    task: int
    request: str
    name: str = ""
    namespace: str = ""
    node: int = 0  # that has been asked; 0: the head


class Claim(Struct):
    """A name of an actor of this node."""

    name: str
    namespace: str
    since: float
    is_there: bool = False


class AgentRequests:
    """The agent's side of its requests.

    Parameters
    ----------
    client : Client
        The agent's, with `RequestHooks`.
    node : int
        This one.
    ask : callable (StoreRequest)
        Asks the head; `reply` takes the answer.
    peer : callable (node) -> Peer or None
        What there is with another node; its `found` is for `look`.
    guarded : callable (node, function, ...) -> object
        Calls a function that tells another node something; where that cannot be, `lost` has been called then.
    ask_nodes : callable (number)
        Asks which machines there are; `nodes` takes the answer. Numbers are below 0, those of drivers above.
    """

    def __init__(
        self,
        client: Client,
        node: int,
        ask: Callable[[StoreRequest], None],
        peer: Callable[[int], Peer | None],
        guarded: Callable[..., object],
        ask_nodes: Callable[[int], None],
    ) -> None:
        self._client, self._node = client, node
        self._ask_head, self._peer, self._guarded, self._ask_nodes = ask, peer, guarded, ask_nodes
        self._ref = client.serve(("AgentRequests", NAME, AGENT_NAMESPACE, 0, b"", ()), NAME, AGENT_NAMESPACE)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Waiting] = {}
        # requests that the head has not answered, also where no call waits for them any more
        self._asked: set[int] = set()
        self._claims: dict[str, Claim] = {}
        # Names of the agent before this one, to be claimed as soon as that counts as dead; and requests for them.
        self._again = self._outlived()
        self._claiming: dict[int, str] = {}
        self._gone = ""  # why the head cannot be asked
        self._look_at = 0.0

    def look(self) -> None:
        """Take what has been asked, and what other nodes have found."""
        for number, waiting in list(self._waiting.items()):
            if waiting.node and waiting.request == "find":
                self._look_at_node(number, waiting)
        while len(self._waiting) < MAX_WAITING and len(self._asked) < MAX_WAITING:
            task = self._client.next(0.0)
            if task < 0:
                return
            self._serve(task)

    def _look_at_node(self, number: int, waiting: Waiting) -> None:
        peer = self._peer(waiting.node)
        if peer is None:
            return
        for found, slot in [entry for entry in peer.found if entry[0] == number]:
            peer.found.remove((found, slot))
            self._answer(number, ("none",) if slot is None else ("actor", self._client.ref_at(slot)))

    def _serve(self, task: int) -> None:
        (_, request, _), arguments, _ = self._client.load(task)
        number = next(self._numbers)
        if request == "nodes" and not arguments:
            self._waiting[-number] = Waiting(task, request, node=self._node)
            self._ask_nodes(-number)
        elif self._gone:
            self._client.finish(task, ("gone", self._gone))
        elif request == "store":
            self._serve_store(task, number, arguments)
        elif request in ("claim", "find", "names") and list(map(type, arguments)) == [str, str]:
            self._serve_name(task, number, request, *arguments)
        else:
            self._client.finish(task, ("error", f"the cluster's agent does not know the request {request!r}"))

    def _serve_store(self, task: int, number: int, arguments: tuple[Any, ...]) -> None:
        names = ("table", "operation", "key", "value", "expected")
        try:
            fields = dict(zip(names, arguments, strict=True))
            request = msgspec.convert(
                {"type": "store_request", "number": number, "node": self._node, **fields}, StoreRequest
            )
            if request.operation not in ALLOWED.get(request.table, ()):
                raise ValueError(f"{request.operation} is not for {request.table}")
        except (ValueError, TypeError) as error:  # msgspec's are ValueErrors
            self._client.finish(task, ("error", f"that is no request to the control store: {error}"))
            return
        self._waiting[number] = Waiting(task, "store")
        self._ask(request)

    def _serve_name(self, task: int, number: int, request: str, name: str, namespace: str) -> None:
        key = _key(name, namespace)
        if max(len(name), len(namespace)) > MAX_NAME_CHARS or len(key) > MAX_KEY_CHARS:
            why = (
                f"{name[:50]!r}... in namespace {namespace[:50]!r} is too long: at most {MAX_NAME_CHARS} characters "
                "each"
            )
            self._client.finish(task, ("error", why))
            return
        if request == "claim" and key in self._claims and self._is_alive(self._claims[key]):
            self._client.finish(task, ("no",))
            return
        self._waiting[number] = Waiting(task, request, name, namespace)
        if request == "claim" and key in self._claims:  # of one that has died: it is still ours
            self._claims[key] = Claim(name, namespace, time.monotonic())
            self._answer(number, ("yes",))
        elif request == "claim":
            self._ask_claim(number, key)
        elif request == "find":
            self._ask(StoreRequest(number, self._node, "names", "get", key))
        else:
            self._ask(StoreRequest(number, self._node, "names", "keys", ""))

    def _ask_claim(self, number: int, key: str) -> None:
        self._ask(StoreRequest(number, self._node, "names", "claim", key, str(self._node).encode(), lives_with=True))

    def _ask(self, request: StoreRequest) -> None:
        self._asked.add(request.number)
        self._ask_head(request)

    def tell(self, table: Literal["jobs", "runs", "groups"], key: str, value: bytes | None) -> bool:
        """Have an entry put into the control store, or, None, deleted; False: not now."""
        if self._gone or len(self._asked) >= MAX_WAITING:
            return False
        operation: Literal["put", "delete"] = "delete" if value is None else "put"
        self._ask(
            StoreRequest(
                next(self._numbers), self._node, table, operation, key, value or b"", lives_with=table == "groups"
            )
        )
        return True

    def nodes(self, reply: ClusterReply) -> None:
        """Which machines there are, for a request of this node."""
        if reply.request in self._waiting:
            self._answer(reply.request, ("nodes", msgspec.msgpack.encode(reply)))

    def reply(self, reply: StoreReply) -> None:
        """What the head says."""
        self._asked.discard(reply.number)
        if (key := self._claiming.pop(reply.number, None)) is not None and reply.done:
            self._claims[key] = self._again.pop(key)
        waiting = self._waiting.get(reply.number)
        if waiting is None:
            return
        if reply.error:
            self._answer(reply.number, ("full" if reply.full else "error", reply.error))
        elif waiting.request == "store":
            self._answer(
                reply.number, ("reply", reply.done, reply.value, reply.more, tuple(reply.keys), tuple(reply.values))
            )
        elif waiting.request == "claim":
            if reply.done:
                name, namespace = waiting.name, waiting.namespace
                self._claims[_key(name, namespace)] = Claim(name, namespace, time.monotonic())
            self._answer(reply.number, ("yes",) if reply.done else ("no",))
        elif waiting.request == "names":
            self._answer(reply.number, ("names", *(tuple(json.loads(key)) for key in reply.keys)))
        else:
            self._find(reply, waiting)

    def _find(self, reply: StoreReply, waiting: Waiting) -> None:
        node = int(reply.value) if reply.done else 0
        if node == self._node:  # as a task on an engine asks, which has another segment
            ref = self._client.get_actor(waiting.name, waiting.namespace)
            self._answer(reply.number, ("none",) if ref is None else ("actor", ref))
            return
        peer = self._peer(node)
        if peer is None:
            self._answer(reply.number, ("none",))
            return
        waiting.node = node
        self._guarded(node, peer.find, reply.number, waiting.name, waiting.namespace)

    def lost(self, node: int) -> None:
        """What was between this node and that one has ended, and for us its actors with it."""
        for number, waiting in list(self._waiting.items()):
            if waiting.node == node and waiting.request == "find":
                self._answer(number, ("none",))

    def refuse(self, reason: str) -> None:
        """The head is gone; "": it is back."""
        self._gone = f"the head of the cluster cannot be asked: {reason}" if reason else ""
        for number, waiting in list(self._waiting.items()):
            if self._gone and not waiting.node:
                self._answer(number, ("gone", self._gone))

    def _answer(self, number: int, answer: tuple[Any, ...]) -> None:
        self._client.finish(self._waiting.pop(number).task, answer)

    def _is_alive(self, claim: Claim) -> bool:
        return self._client.get_actor(claim.name, claim.namespace) is not None

    def _outlived(self) -> dict[str, Claim]:
        """The living actors of this node that have names: an earlier agent claimed those."""
        rows = [row["meta"] or ("", "", "") for row in self._client.actors()]
        claims = [
            Claim(name, namespace, 0.0, True)
            for _, name, namespace, *_ in rows
            if name and namespace != AGENT_NAMESPACE
        ]
        return {_key(claim.name, claim.namespace): claim for claim in claims if self._is_alive(claim)}

    def _claim_again(self) -> None:
        for key, claim in list(self._again.items()):
            if not self._is_alive(claim):
                del self._again[key]
            elif key not in self._claiming.values() and len(self._asked) < MAX_WAITING // 2:
                number = next(self._numbers)
                self._claiming[number] = key
                self._ask_claim(number, key)

    def sweep(self, now: float) -> None:
        """Give names back whose actors are dead. `now`: seconds, monotonic."""
        if now < self._look_at or self._gone or len(self._asked) >= MAX_WAITING:
            return
        self._look_at = now + LOOK_S
        self._claim_again()
        for key, claim in list(self._claims.items()):
            if self._is_alive(claim):
                claim.is_there = True
            elif claim.is_there or now - claim.since > GRACE_S:
                del self._claims[key]
                self._ask(StoreRequest(next(self._numbers), self._node, "names", "delete", key))
                return  # one at a time: requests are bounded


def _key(name: str, namespace: str) -> str:
    """The key of an actor's name in the control store."""
    return json.dumps([namespace, name])
