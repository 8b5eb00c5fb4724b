"""The bytes of objects, to and from one other node: a part of its `Peer`.

An object that lies there *arrives* when it is read here: memory for it is made in the arena, chunks are asked for, a
few ahead, and put where they belong. An object that is asked for here is read from the arena chunk by chunk, as fast as
the other takes them; what lies on a third machine itself is brought from there first.

A large object that many want is handed on (`broadcast`): its home may answer the first question with another node,
which is asked for that home's object then. Such a source may have gone, or be slow: the rest comes from the home, which
answers `direct` questions itself.

What goes on with one node makes something to be said to another one; that is noted with the other's transfers (`later`,
`again`) and said when they look, so a peer that does not read, or says what it cannot know, is at fault alone.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ....objstore._core import (
    FAILURE_OBJECT_LOST,
    OBJECT_ERROR,
    OBJECT_READY,
    PLACE_HERE,
    PLACE_LOST,
    PLACE_REMOTE,
    StoreError,
)
from .. import messages
from ..messages import CHUNK_BYTES, Chunk, Copied, Fetch, Frame, Redirect
from .broadcast import HOME, Key, Tree
from .capacity import is_full
from .objects import ForeignFault

if TYPE_CHECKING:
    from ....objstore._core import RemoteNode
    from .peer import Peer

# Chunks of one object asked for ahead: as many as keep a fast link busy for a few milliseconds.
WINDOW = 4
JOURNEYS = 1 << 31
# Of at least so many bytes, an object may come from another node than its home.
BROADCAST_BYTES = 8 << 20
# So long without a byte from such a node, in seconds, and the home is asked.
PATIENCE_S = 5.0
# Questions for bytes that wait here, of one node. A sound one has some for each object that it reads.
MOST_WAITING = 100_000


class Arrival(Struct):
    """An object whose bytes are coming. `memory`: where they go; 0: into `gathered`, as references in them are to be
    pinned at once."""

    slot: int
    size: int
    state: int
    refs: list[int]
    number: int  # of the journey, for the record
    memory: int = 0
    gathered: bytearray | None = None
    asked: int = 0  # bytes
    come: int = 0
    source: int = HOME  # another node that has it, or will
    checked: tuple[int, float] | None = None  # how much had come when

    def read(self, remote_node: RemoteNode, at: int, n: int) -> bytes:
        """Some of what has come."""
        if self.gathered is not None:
            return bytes(self.gathered[at : at + n])
        return bytes(remote_node.peek(self.slot, self.memory, at, n))


class Transfers:
    """What comes and goes.

    Parameters
    ----------
    peer : Peer
        The one that this is a part of.
    node : int
        The other's number.
    bring : callable (slot)
        Has an object brought here that lies on another machine.
    tree : Tree
        Which nodes have which objects of this node.
    reach : callable (node) -> Peer or None
        What there is with another node.
    """

    def __init__(
        self,
        peer: Peer,
        node: int,
        bring: Callable[[int], None],
        tree: Tree,
        reach: Callable[[int], Peer | None],
    ) -> None:
        self._peer: Peer = weakref.proxy(peer)
        self._remote_node, self._objects = peer.remote_node, peer.objects
        self._node, self._bring, self._tree, self._reach = node, bring, tree, reach
        self.elsewhere: set[int] = set()  # imports whose bytes lie there
        self._arrivals: dict[Key, Arrival] = {}  # by slot and generation there
        self._handed_on: set[Key] = set()  # those of them that come from other nodes
        self._leaving: dict[int, int] = {}  # what is fetched from here: slot -> number of the journey
        self._n_journeys = 0
        self._deferred: dict[int, list[Fetch]] = {}  # what lies on a third machine, and is asked for here
        self._line: deque[Fetch] = deque()  # what the peer asks for and does not read yet
        self._later: list[messages.Message] = []
        self._waiting: dict[
            Key, list[tuple[int, Fetch]]
        ] = {}  # for bytes of arrivals: by the node that waits, and for which
        self._n_waiting = 0

    @property
    def n_coming(self) -> int:
        """Bytes that have not come yet of what is on its way here."""
        return sum(arrival.size - arrival.come for arrival in self._arrivals.values())

    def later(self, message: messages.Message) -> None:
        """Say that when it is this node's turn."""
        self._later.append(message)

    def _journey(self) -> int:
        self._n_journeys = (self._n_journeys + 1) % JOURNEYS
        return self._n_journeys

    # ---- to here
    def gather(self, key: Key, slot: int, size: int, state: int, refs: list[int]) -> None:
        """Have a value come that cannot stay where it is, as references are in it."""
        if key not in self._arrivals:  # of which one can be told twice: once as it is asked for, once as it is sealed
            self._begin(key, Arrival(slot, size, state, refs, self._journey(), gathered=bytearray(size)))

    def fetch(self, slot: int) -> None:
        """Bring an object that lies there, for a reader."""
        self._fetch(slot, True)

    def guess(self, slot: int) -> bool:
        """The same for a reader to come, if there is unused memory. Whether it is on its way."""
        return self._fetch(slot, False)

    def size(self, slot: int) -> int:
        """The size of an object that lies there; 0: it is on its way."""
        return 0 if self._key(slot) in self._arrivals else self._remote_node.inspect(slot).size

    def _key(self, slot: int) -> Key | None:
        origin = self._objects.origin(slot) if slot in self.elsewhere else None
        return None if origin is None else (origin.slot, origin.generation)

    def _fetch(self, slot: int, is_wanted: bool) -> bool:
        key = self._key(slot)
        if key is None or key in self._arrivals:
            return False
        try:
            memory = self._remote_node.begin(slot, is_wanted)
        except StoreError:
            return False  # its readers wait for room; the next look tries again
        if memory:
            size = self._remote_node.inspect(slot).size
            self._begin(key, Arrival(slot, size, OBJECT_READY, [], self._journey(), memory))
        return bool(memory)

    def _fetch_wanted(self) -> None:
        for slot in self._remote_node.wanted(list(self.elsewhere)) if self.elsewhere else ():
            self.fetch(slot)

    def _begin(self, key: Key, arrival: Arrival) -> None:
        self._arrivals[key] = arrival
        self._remote_node.transfer(arrival.slot, arrival.size, arrival.number, True)
        for slot in (arrival.slot, *arrival.refs):
            self._objects.hold(slot)
        if arrival.size < BROADCAST_BYTES:
            self._ask_ahead(key, arrival)
        else:
            self._ask(key, arrival)  # the answer may be that another node has it

    def _ask(self, key: Key, arrival: Arrival, direct: bool = False) -> None:
        n = min(CHUNK_BYTES, arrival.size - arrival.asked)
        source = self._reach(arrival.source) if arrival.source != HOME else None
        if source is not None:
            source.transfers.later(Fetch(*key, arrival.asked, n, home=self._node))
        elif arrival.source == HOME:
            self._peer.send(Fetch(*key, arrival.asked, n, direct=direct))
        arrival.asked += n

    def _ask_ahead(self, key: Key, arrival: Arrival) -> None:
        while arrival.asked < arrival.size and arrival.asked < arrival.come + WINDOW * CHUNK_BYTES:
            self._ask(key, arrival)

    def chunk(self, chunk: Chunk, frame: Frame) -> None:
        """Bytes have come, of an object of the peer or a copy that it has."""
        if chunk.home:
            home = self._reach(chunk.home)
            if home is not None:
                home.transfers.copy_came(self._node, chunk, frame)
            return
        key = chunk.slot, chunk.generation
        arrival = self._arrivals.get(key)
        if arrival is None and not chunk.found:
            return  # further chunks of what has been given up
        if arrival is not None and not chunk.found:
            self._give_up(key, arrival)
        elif arrival is None or arrival.source != HOME or not self._take(key, arrival, chunk.at, frame):
            raise ForeignFault(f"it sends bytes of object {chunk.slot} that nobody has asked for")

    def copy_came(self, source: int, chunk: Chunk, frame: Frame) -> None:
        """Another node has sent bytes of an object of this one's, or has none. What does not fit may be late: it is no
        fault."""
        key = chunk.slot, chunk.generation
        arrival = self._arrivals.get(key)
        if arrival is None or arrival.source != source:
            return  # given up, or come from elsewhere
        if not chunk.found or not self._take(key, arrival, chunk.at, frame):
            self._ask_home(key, arrival)

    def _take(self, key: Key, arrival: Arrival, at: int, frame: Frame) -> bool:
        if at != arrival.come or at + len(frame) > arrival.asked:
            return False
        if arrival.gathered is None:
            self._remote_node.fill(arrival.slot, arrival.memory, at, frame)
        else:
            arrival.gathered[at : at + len(frame)] = frame
        arrival.come += len(frame)
        if arrival.come == arrival.size:
            self._arrive(key, arrival)
        else:
            self._ask_ahead(key, arrival)
            self._serve_waiting(key, arrival.come)
        return True

    def _arrive(self, key: Key, arrival: Arrival) -> None:
        if arrival.gathered is None:
            self._remote_node.end(arrival.slot, arrival.memory, True)
            self.elsewhere.discard(arrival.slot)
            self._objects.arrived(arrival.slot)
        else:
            self._objects.seal(arrival.slot, arrival.state, arrival.gathered, arrival.refs)
            self._peer.came(arrival.slot)
        if arrival.size >= BROADCAST_BYTES:
            self.later(Copied(*key))
        self._forget(key, arrival, True)

    def _give_up(self, key: Key, arrival: Arrival) -> None:
        """The object is lost there, too."""
        if arrival.gathered is None:
            self._remote_node.end(arrival.slot, arrival.memory, False)
            self._remote_node.move(arrival.slot, True)
        else:
            self._remote_node.seal_failed(arrival.slot, FAILURE_OBJECT_LOST, 0)
            self._peer.came(arrival.slot)
        self._forget(key, arrival, False)

    def _forget(self, key: Key, arrival: Arrival, is_complete: bool) -> None:
        self._remote_node.transferred(arrival.slot, arrival.number, True, is_complete)
        del self._arrivals[key]
        self._handed_on.discard(key)
        self._serve_waiting(key, arrival.size)
        for slot in (arrival.slot, *arrival.refs):
            self._objects.drop(slot)

    # ---- to here, from others than the home
    def redirected(self, to: Redirect) -> None:
        """That node has the object, or will."""
        key = to.slot, to.generation
        arrival = self._arrivals.get(key)
        if (
            arrival is None
            or arrival.come
            or arrival.source != HOME
            or arrival.size < BROADCAST_BYTES
            or to.node == self._node
        ):
            raise ForeignFault(f"it tells who has object {to.slot}, which nobody has asked")
        arrival.source, arrival.asked = to.node, 0
        self._handed_on.add(key)
        if self._reach(to.node) is None:
            self._ask_home(key, arrival)
        else:
            self._ask_ahead(key, arrival)

    def _ask_home(self, key: Key, arrival: Arrival) -> None:
        """The rest is to come from the home."""
        arrival.source, arrival.asked, arrival.checked = HOME, arrival.come, None
        self._handed_on.discard(key)
        n = min(CHUNK_BYTES, arrival.size - arrival.asked)
        self.later(Fetch(*key, arrival.asked, n, direct=True))
        arrival.asked += n

    def _look_at_sources(self) -> None:
        for key in [key for key in self._handed_on if self._reach(self._arrivals[key].source) is None]:
            self._ask_home(key, self._arrivals[key])

    def _check_sources(self, now: float) -> None:
        for key in list(self._handed_on):
            arrival = self._arrivals[key]
            if arrival.checked is None or arrival.checked[0] != arrival.come:
                arrival.checked = arrival.come, now
            elif now - arrival.checked[1] > PATIENCE_S:
                self._ask_home(key, arrival)

    # ---- from here
    def asked(self, fetch: Fetch) -> None:
        """The peer wants some bytes, for itself or for another node."""
        if len(self._line) >= MOST_WAITING:
            raise ForeignFault(f"it asks for {MOST_WAITING:,} pieces at once")
        self._line.append(fetch)
        self._serve()

    def _serve(self) -> None:
        while self._line and not self._peer.is_congested:
            fetch = self._line.popleft()
            if fetch.home:
                self._serve_copy(fetch)
            elif not self._serve_own(fetch):
                self._line.appendleft(fetch)
                return

    def _serve_own(self, fetch: Fetch) -> bool:
        """False: it lies on disk, and there is no room for it in memory yet; the next look tries again."""
        peer = self._peer
        slot = self._objects.own(fetch.slot, fetch.generation)
        try:
            found = self._remote_node.inspect(slot)
        except TypeError as error:
            raise ForeignFault(str(error)) from error
        size, place = found.size, found.place
        if size >= BROADCAST_BYTES and (source := self._source(fetch)):
            peer.send(Redirect(fetch.slot, fetch.generation, source))
        elif slot in self._deferred or place == PLACE_REMOTE:
            self._deferred.setdefault(slot, []).append(fetch)
            self._bring(slot)
        elif place == PLACE_LOST:
            self._send_lost(fetch)
        else:
            try:
                frame = self._remote_node.read(slot, fetch.at, fetch.n)
            except ValueError as error:
                raise ForeignFault(str(error)) from error
            except StoreError as error:
                if error.code == "lost":  # on disk
                    self._send_lost(fetch)
                elif not is_full(error):
                    raise
                return error.code == "lost"
            peer.send(Chunk(fetch.slot, fetch.generation, fetch.at), frame)
            self._note_leaving(slot, size, fetch)
        return True

    def _send_lost(self, fetch: Fetch) -> None:
        self._peer.send(Chunk(fetch.slot, fetch.generation, fetch.at, found=False, home=fetch.home))

    def _source(self, fetch: Fetch) -> int:
        """The other node from which the peer is to get an object of this node."""
        key = fetch.slot, fetch.generation
        if fetch.direct:
            self._tree.failed(key, self._node)
        elif fetch.at == 0:
            return self._tree.ask(key, self._node)
        return HOME

    def _note_leaving(self, slot: int, size: int, fetch: Fetch) -> None:
        if fetch.at == 0:
            self._leaving[slot] = self._journey()
            self._remote_node.transfer(slot, size, self._leaving[slot], False)
        if fetch.at + fetch.n >= size and slot in self._leaving:
            self._remote_node.transferred(slot, self._leaving.pop(slot), False, True)

    def _serve_deferred(self) -> None:
        for slot in list(self._deferred):
            if self._remote_node.inspect(slot).place == PLACE_REMOTE:
                self._bring(slot)  # there may have been no room for it
            else:
                self._line.extendleft(reversed(self._deferred.pop(slot)))  # in their order, before later ones

    def copied(self, key: Key) -> None:
        """The peer has all of an object of this node."""
        self._tree.has(key, self._node)

    def released(self, slot: int, generation: int) -> None:
        """The peer knows nothing of an object of this node any more."""
        self._deferred.pop(slot, None)
        self._tree.left((slot, generation), self._node)
        self._line = deque(fetch for fetch in self._line if fetch.home or fetch.slot != slot)
        if slot in self._leaving:  # the peer does not want the rest of it
            self._remote_node.transferred(slot, self._leaving.pop(slot), False, False)

    # ---- from here, of another one's objects
    def _serve_copy(self, fetch: Fetch) -> None:
        home = self._reach(fetch.home)
        frame, is_there = (None, False) if home is None else home.transfers.copy(fetch, self._node)
        if frame is not None:
            self._peer.send(Chunk(fetch.slot, fetch.generation, fetch.at, home=fetch.home), frame)
        elif not is_there:
            self._send_lost(fetch)

    def copy(self, fetch: Fetch, asker: int) -> tuple[bytes | None, bool]:
        """Some bytes of an object of this node's, if they are here; and whether they are or will be: then the question
        comes `again`."""
        key = fetch.slot, fetch.generation
        slot = self._objects.imported(key)
        found = self._remote_node.inspect(slot) if slot is not None else None
        arrival = self._arrivals.get(key)
        end = fetch.at + fetch.n
        if end > (arrival.size if arrival is not None else found.size if found is not None else 0):
            return None, False
        if arrival is None:
            if slot is None or found is None or found.place != PLACE_HERE:
                return None, False
            if found.state not in (OBJECT_READY, OBJECT_ERROR):
                return None, False
            try:
                return self._remote_node.read(slot, fetch.at, fetch.n), True
            except StoreError:  # it is on disk: as if it were not here
                return None, False
        if end <= arrival.come:
            return arrival.read(self._remote_node, fetch.at, fetch.n), True
        if self._n_waiting >= MOST_WAITING:
            return None, False
        self._waiting.setdefault(key, []).append((asker, fetch))
        self._n_waiting += 1
        return None, True

    def _serve_waiting(self, key: Key, come: int) -> None:
        if key not in self._waiting:
            return
        waiting = self._waiting.pop(key)
        left = [entry for entry in waiting if entry[1].at + entry[1].n > come]
        self._n_waiting -= len(waiting) - len(left)
        if left:
            self._waiting[key] = left
        for node, fetch in waiting:
            asker = self._reach(node) if fetch.at + fetch.n <= come else None
            if asker is not None:
                asker.transfers.again(fetch)

    def again(self, fetch: Fetch) -> None:
        """What the peer has asked for may be there by now."""
        self._line.append(fetch)

    # ---- from outside
    def look(self) -> None:
        """Something has changed: what is read here, what has come from others."""
        self._fetch_wanted()
        if self._handed_on:
            self._look_at_sources()
        self._say_later()
        if self._deferred:
            self._serve_deferred()
        self._serve()

    def _say_later(self) -> None:
        while self._later:
            self._peer.send(self._later.pop(0))

    @property
    def is_leaving(self) -> bool:
        """Whether the other is reading something that lies here."""
        return bool(self._leaving or self._line or self._waiting or self._later)

    def sweep(self, now: float) -> None:
        """The same, now and then."""
        self.look()
        self._check_sources(now)

    def close(self) -> None:
        """The other node is gone."""
        for arrival in self._arrivals.values():
            self._remote_node.transferred(arrival.slot, arrival.number, True, False)
            if arrival.gathered is None:
                self._remote_node.end(arrival.slot, arrival.memory, False)
        for slot, number in self._leaving.items():
            self._remote_node.transferred(slot, number, False, False)
        self._arrivals.clear()
        self._handed_on.clear()
        for key in list(self._waiting):
            self._serve_waiting(key, messages.MAX_NUMBER)
        self._tree.lost(self._node)
