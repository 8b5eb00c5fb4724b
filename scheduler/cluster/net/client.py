"""What a command or a notebook says to the head of a cluster: let me in; how are you; drain that node; end.

Each is a short conversation, in which no wait is longer than its caller allows.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar, assert_never

from ..messages import Drain, End, Join, Joined, Message, Refused, Status, StatusRequest
from . import address, keys, sockets
from .events import Connected, Disconnected, LinkEvent, Received, Rejected, Unreachable
from .head_link import HeadLink
from .keys import Cluster, KeyPair
from .tokens import Token

TIMEOUT_S = 10.0
LINGER_S = 0.5  # for what has been said last to get out
M = TypeVar("M")


class ClusterError(ConnectionError):
    """The head does not answer, or says no; the text says why and what to do."""


class NotAdmitted(ClusterError, PermissionError):
    """The head is there, and does not let this machine in."""


class AnotherHead(ClusterError):
    """Another head, or another program, is at its address."""


class _Broken(ClusterError):
    """The connection has ended before the answer came."""


def hostname() -> str:
    """The name of this machine, as others are told."""
    return socket.gethostname()[:256]


# ---------------------------------------------------------------- which cluster
def find(where: str) -> Cluster | None:
    """The cluster with its head at that address, of which this user has keys on this machine; None: there is none.

    `where`: "HOST:PORT", "tcp://HOST:PORT", or "auto" for the only one.

    Raises
    ------
    AddressError
        It is neither.
    ClusterError
        "auto", and there is not one cluster.
    """
    known = keys.known()
    if where == "auto":
        if len(known) != 1:
            which = ", ".join(cluster.address for cluster in known) or "none"
            raise ClusterError(
                f"'auto' means the one cluster that this machine is part of, and there is {which}: give HOST:PORT"
            )
        return known[0]
    wanted = address.join(*address.parse(where))
    return next((cluster for cluster in known if cluster.address == wanted), None) or next(
        (cluster for cluster in known if address.same(cluster.address, wanted)), None
    )


def find_or_join(where: str, token: str | None, timeout_s: float = TIMEOUT_S) -> Cluster:
    """The cluster at that address; if this machine is no part of it, or not any more, it joins with the token's text.

    A token that is there is no reason to use it: who runs a notebook again has the same one in its environment, used
    up.

    Raises
    ------
    AddressError, TokenError
        As their texts say.
    ClusterError
        There is no token and no key, or the head does not let us in.
    """
    cluster = find(where)
    if cluster is not None and (token is None or is_admitted(cluster, timeout_s)):
        return cluster
    if token is None:
        raise NotAdmitted(
            f"this machine has no key for the cluster at {where}, and no join token is there: `cellmesh "
            f"token` on the head's machine makes one; give it to `cellmesh start --address {where}`, or "
            f"put it into a file of mode 0600 and the file's path into {keys.TOKEN_VARIABLE}"
        )
    return join(where, Token.parse(token), timeout_s)


def is_admitted(cluster: Cluster, timeout_s: float = TIMEOUT_S) -> bool:
    """Whether the head at that address takes this machine's key; not if it is another cluster's by now, or has sent
    this machine away.

    Raises
    ------
    ClusterError
        Nothing answers there.
    """
    try:
        with talk(cluster, timeout_s) as head:
            head.status()
    except (NotAdmitted, AnotherHead):
        return False
    return True


def given_token() -> str | None:
    """The text of the token in the file that CELLMESH_TOKEN_FILE names, if it does."""
    path = os.environ.get(keys.TOKEN_VARIABLE)
    return keys.read_token_file(path) if path else None


# ---------------------------------------------------------------- conversations
def join(where: str, token: Token, timeout_s: float = TIMEOUT_S) -> Cluster:
    """Join the cluster at "HOST:PORT" with a token; what this machine has from then on.

    Raises
    ------
    ClusterError
        The head does not answer, is another one, or says no.
    """
    at = address.join(*address.parse(where))
    own = sockets.new_pair()
    with Conversation(keys.pair_of(token, sockets.public_of), token.head_key, at, timeout_s) as conversation:
        joined = conversation.ask(Join(own.public, hostname()), Joined, again=True)  # the token may be used up by now
    return Cluster.joined(joined.cluster, at, token.head_key, own)


def talk(cluster: Cluster, timeout_s: float = TIMEOUT_S) -> Conversation:
    """With the head of a cluster that this machine is part of; raises ClusterError."""
    return Conversation(cluster.own_pair(), cluster.head_key, cluster.address, timeout_s)


class Conversation:
    """One connection with a head, and each answer within some seconds. Every method raises ClusterError if the head
    does not answer, or says no."""

    def __init__(self, pair: KeyPair, head_key: bytes, at: str, timeout_s: float) -> None:
        self._at, self._timeout_s = at, timeout_s
        self._link = HeadLink(pair, head_key, address.endpoint(*address.parse(at)))

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *unused: object) -> None:
        self._link.close(LINGER_S)

    def status(self) -> Status:
        """How the cluster is."""
        return self.ask(StatusRequest(1), Status)

    def drain(self, node: int) -> None:
        """Have a node take nothing new, and leave when it has finished."""
        self._tell(Drain(node))
        self.status()  # it has heard of it

    def end(self, reason: str) -> None:
        """End the cluster, with every session in it that has no driver."""
        self._tell(End(reason))
        self._wait(lambda event: isinstance(event, Disconnected))

    def _tell(self, said: Message) -> None:
        """Say it once there is a connection."""
        if not self._link.is_connected:
            self._wait(lambda event: isinstance(event, Connected))
        self._link.send(said)

    def ask(self, said: Message, kind: type[M], again: bool = False) -> M:
        """Say it, and wait for the answer of that kind. `again`: say it once more on the next connection where one has
        broken before the answer came, as it does not matter how often it arrives."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            self._tell(said)
            try:
                answer = self._wait(lambda event: isinstance(event, Received) and isinstance(event.message, kind))
            except _Broken:
                if again and time.monotonic() < deadline:
                    continue
                raise
            assert isinstance(answer, Received)
            message: M = answer.message
            return message

    def _wait(self, is_it: Callable[[LinkEvent], bool]) -> LinkEvent:
        deadline = time.monotonic() + self._timeout_s
        while (left := deadline - time.monotonic()) > 0:
            for event in self._link.wait(left):
                if is_it(event):
                    return event
                self._refuse(event)
        trouble = "it does not answer" if self._link.is_connected else "nobody answers there"
        raise ClusterError(f"the head at {self._at} cannot be reached: {trouble} (waited {self._timeout_s:g} s)")

    def _refuse(self, event: LinkEvent) -> None:
        match event:
            case Unreachable():
                raise ClusterError(f"the head at {self._at} cannot be reached: nobody listens there now")
            case Disconnected(_, reason):
                raise _Broken(f"the head at {self._at}: {reason}")
            case Received(message=Refused(reason)):
                raise NotAdmitted(f"the head at {self._at} says no: {reason}")
            case Rejected(_, final=True):
                raise NotAdmitted(
                    f"the head at {self._at} does not know this key: the machine has been sent away, or "
                    "the join token is not one that the head has made lately"
                )
            case Rejected():
                raise AnotherHead(
                    f"who listens at {self._at} is not the head with the expected key: another cluster "
                    "has that address by now, or another program"
                )
            case Connected() | Received():
                pass  # nothing that was asked for
            case _:
                assert_never(event)
