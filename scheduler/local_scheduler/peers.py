"""The connections on node.sock: accepted, read, written to and cut off.

Nothing here waits: what a connection does not take is kept until it can be written. Nothing here knows what a message
means: `Peers` hands it to a function that it was given.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

from ..ipc import messages
from ..ipc.messages import FromPeer, Message, NodeEvent
from ..ipc.transport import Channel, ConnectionLost, Listener, ProtocolError, Unreadable
from ..sync.token_bucket import TokenBucket
from .loop import Loop

N_PACKETS = 64  # of one connection at a time, so that the others get their turn
# More packets than a worker's socket holds, of which each takes at least a few hundred bytes (net.core.wmem_default).
LAST_PACKETS = 1024
REFUSALS_PER_S, REFUSALS_BURST = 1 / 60, 20  # lines of the log


class Peer:
    """A process that is connected.

    Attributes
    ----------
    role : str
        "driver", "worker" or "agent"; "" until it has said `Hello`.
    pid : int
        0 until it has said `Hello`.
    is_owner : bool
        Whether the session is this driver's.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.role = ""
        self.pid = 0
        self.is_owner = False


class Peers:
    """All connections.

    Parameters
    ----------
    loop : Loop
    listener : Listener
        Of node.sock.
    take : callable
        Gets a peer and a message from it. Raises ProtocolError if the peer may not send that.
    lost : callable
        Gets a peer whose connection has ended.
    """

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        take: Callable[[Peer, Message], None],
        lost: Callable[[Peer], None],
    ) -> None:
        self._loop, self._listener, self._take, self._lost = loop, listener, take, lost
        self._peers: dict[int, Peer] = {}  # by descriptor of the connection
        self._refusals = Refusals()
        self._n_output_lost = 0  # messages since drivers were last told
        listener.set_blocking(False)
        loop.watch(listener.fileno(), self._accept)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers.values())

    def agent(self) -> Peer | None:
        """The cluster's agent, if it is connected."""
        return next((peer for peer in self if peer.role == "agent"), None)

    # ---- sending
    def post(self, peer: Peer, message: Message, fds: tuple[int, ...] = (), droppable: bool = False) -> None:
        """Send to one peer, unless its connection has ended."""
        if peer.channel.closed:
            return
        if not peer.channel.post(message, fds, droppable):
            self._n_output_lost += 1
        self._write_when_ready(peer)

    def tell_drivers(self, message: Message, droppable: bool = False, owner_too: bool = True) -> None:
        """Send to all drivers, and to the agent, which hears what they hear."""
        for peer in self:
            if peer.role in ("driver", "agent") and (owner_too or not peer.is_owner):
                self.post(peer, message, droppable=droppable)

    def tell_losses(self, peer: Peer) -> None:
        """Tell drivers how much output was dropped, now that one of them, `peer`, reads again."""
        if self._n_output_lost and peer.role == "driver":
            text = f"{self._n_output_lost:,} pieces of output were lost: they came faster than a driver reads them"
            self._n_output_lost = 0
            self.tell_drivers(NodeEvent("output_lost", text))

    def _write_when_ready(self, peer: Peer) -> None:
        self._loop.want_writing(peer.channel.fileno(), peer.channel.has_backlog)

    # ---- receiving
    def read_last(self, pid: int) -> None:
        """Take what a process that has ended sent last, also if it has not been accepted or has not greeted yet."""
        self._accept(self._listener.fileno())
        for peer in [peer for peer in self if peer.pid in (pid, 0)]:
            self._serve(peer.channel.fileno())

    def read_workers(self) -> None:
        """Take all that workers have sent by now."""
        self._accept(self._listener.fileno())
        for peer in [peer for peer in self if peer.role in ("worker", "")]:
            if not peer.channel.closed:
                self._serve(peer.channel.fileno(), LAST_PACKETS)

    def _accept(self, fd: int) -> None:
        while (channel := self._listener.accept(FromPeer)) is not None:
            if len(self._peers) >= messages.MAX_LINKS:
                channel.close()
                continue
            self._peers[channel.fileno()] = Peer(channel)
            self._loop.watch(channel.fileno(), self._serve)

    def _serve(self, fd: int, n_packets: int = N_PACKETS) -> None:
        peer = self._peers[fd]
        peer.channel.flush()
        try:
            for message, fds in peer.channel.arriving(n_packets):
                for given in fds:  # no message of this link has any
                    os.close(given)
                self._take(peer, message)
        except ConnectionLost:
            self._forget(peer)
            return
        except ProtocolError as error:
            # The owner, a worker or the agent cannot be replaced: it loses the message only.
            stays = isinstance(error, Unreadable) and (peer.is_owner or peer.role in ("worker", "agent"))
            outcome = "is not understood" if stays else "is cut off"
            self._refusals.tell(f"process {peer.pid or peer.channel.peer()[0]} {outcome}: {error}")
            if not stays:
                self._forget(peer)
                return
        if not peer.channel.closed:
            if not peer.channel.has_backlog:
                self.tell_losses(peer)
            self._write_when_ready(peer)

    def _forget(self, peer: Peer) -> None:
        fd = peer.channel.fileno()
        self._loop.forget(fd)
        del self._peers[fd]
        peer.channel.close()
        self._lost(peer)


class Refusals:
    """What the log says of peers that are refused: a line for each, and how many there were when there are many."""

    def __init__(self) -> None:
        self._bucket = TokenBucket(REFUSALS_PER_S, REFUSALS_BURST, time.monotonic())
        self._n_untold = 0

    def tell(self, line: str) -> None:
        if not self._bucket.take(1, time.monotonic()):
            self._n_untold += 1
            return
        more = (
            f" ({self._n_untold:,} more were refused before, since the last line of this kind)"
            if self._n_untold
            else ""
        )
        self._n_untold = 0
        print(f"{line}{more}", file=sys.stderr)
