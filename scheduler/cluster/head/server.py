"""The head's process: a socket, a store, a clock and signals, wired to the logic in `core`.

This file decides who may connect, by keys: machines that have joined (files, see `keys`), and nodes that such a machine
has introduced (in memory; members of an earlier life are in the control store). Everything else is the core's.

Nothing is ever unpickled in this process: an audit hook ends the attempt.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from typing import assert_never

from ....objstore._core import set_process_name
from ...sync.token_bucket import TokenBucket
from ..messages import MAX_NODES, Join, Joined, Message, Refused, StoreReply, StoreRequest
from ..net import address
from ..net.events import Arrived, Ended, Refusal
from ..net.head_socket import MACHINE, NEWCOMER, NODE, HeadSocket, version_conflict
from ..net.keys import Cluster
from ..net.probe import Probes
from ..net.tokens import TokenError
from ..store.address import open_store
from ..store.control_store import AwayError, ControlStore, ControlStoreError, FullError
from . import core
from .exit_codes import AWAY, ENDED, STOPPED, UNUSABLE

MAX_INTRODUCED = 4 * MAX_NODES  # keys of nodes, of those that are gone too
GOODBYE_S = 1.0  # for the last messages to get out
LOG_LINES_PER_S, LOG_BURST = 1, 20  # of refusals; the others are counted
MAX_LINE_CHARS = 500


def never_unpickle() -> None:
    """From now on nothing in this process can unpickle what names a class or a function."""

    def refuse(event: str, arguments: object) -> None:
        if event == "pickle.find_class":
            raise RuntimeError("a control process never unpickles")

    sys.addaudithook(refuse)


def run(cluster: Cluster) -> int:
    """Serve until the cluster ends or a SIGTERM; the exit status."""
    never_unpickle()
    set_process_name("cellmesh-head")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # libzmq takes a descriptor for each connection
    try:
        place = cluster.control_store or os.path.join(cluster.path, "control.db")
        store = open_store(place, cluster.name)
        return HeadServer(cluster, store).run()
    except AwayError as error:  # it may come back; until then nothing can be promised to anybody
        print(f"the head cannot go on: {error}", file=sys.stderr)
        return AWAY
    except (OSError, address.AddressError, ControlStoreError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror and error.filename is None else error
        print(f"the head cannot be here: {said}", file=sys.stderr)
        return UNUSABLE


class HeadServer:
    """The loop. Decides nothing but who may connect."""

    def __init__(self, cluster: Cluster, store: ControlStore) -> None:
        self._cluster, self._store = cluster, store
        now = time.monotonic()
        members = store.members
        # Before a life is counted.
        self._socket = HeadSocket(cluster.head_pair(), *address.parse(cluster.address), self._role_of)
        epoch = store.begin_life()
        self.head = core.start(cluster.name, epoch, now, _settings(cluster), members, store.dead, store.found)
        self._machines = cluster.members()
        self._nodes = dict.fromkeys(member.key for member, _ in members)  # as an ordered set
        self._probes: Probes[int] = Probes()
        self._bucket = TokenBucket(LOG_LINES_PER_S, LOG_BURST, now)
        self._n_unsaid = 0
        self._status: int | None = None
        print(
            f"the head of {cluster.name} serves at {self._socket.endpoint}, life {epoch}", file=sys.stderr, flush=True
        )
        if store.warning:
            _log(store.warning)

    def run(self) -> int:
        """Serve; the exit status."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda signum, frame: None)  # the byte in the pipe is what counts
        poll = select.poll()
        for fd in (self._socket.fileno(), self._probes.fileno(), reader):
            poll.register(fd, select.POLLIN)
        while self._status is None:
            left_s = core.next_deadline(self.head) - time.monotonic()
            if any(fd == reader for fd, _ in poll.poll(max(0.0, left_s) * 1000)):
                self._status = STOPPED
            # All of them, before any node is judged.
            while self._status is None and (events := self._socket.receive_ready()):
                for event in events:
                    self._handle(event)
            for node, is_there in self._probes.answers() if self._status is None else ():
                self._step(core.Probed(node, is_there))
            if time.monotonic() >= core.next_deadline(self.head):
                self._step(core.Tick())
        self._probes.close()
        self._socket.close(GOODBYE_S)
        if self._status == ENDED:
            self._store.end()
        else:
            self._store.close()
        return self._status

    def _role_of(self, key: bytes) -> str:
        if key in self._nodes:
            return NODE
        if key in self._machines:
            return MACHINE
        return NEWCOMER if self._cluster.knows_token(key) else ""

    def _handle(self, event: Arrived | Ended | Refusal) -> None:
        match event:
            case Arrived(connection, key, Join() as message):
                self._socket.send(connection, self._let_in(key, message))
            case Arrived(connection, key, message):
                self._step(core.Received(connection, key, message))
            case Ended(connection):
                self._step(core.Closed(connection))
            case Refusal():
                self._refused(event)
            case _:
                assert_never(event)

    def _step(self, event: core.Event) -> None:
        for action in core.step(self.head, event, time.monotonic()):
            match action:
                case core.Send(to, message):
                    for connection in to:
                        if not self._send(connection, message):
                            self._step(core.Closed(connection))
                case core.Remember(member, draining, is_found):
                    self._store.remember(member, draining, is_found)
                case core.Evict(node, reason):
                    self._store.evict(node, reason)
                case core.Perform(to, request):
                    self._send(to, self._perform(request))
                case core.Probe(node, endpoint):
                    self._probes.probe(node, endpoint)
                case core.Say(text):
                    _log(text)
                case core.Stop():
                    self._status = ENDED
                case _:
                    assert_never(action)

    def _send(self, connection: core.Connection, message: Message) -> bool:
        assert isinstance(connection, bytes)  # the core has it from `_handle`
        return self._socket.send(connection, message)

    def _perform(self, request: StoreRequest) -> StoreReply:
        try:
            return self._store.perform(request)
        except (AwayError, FullError) as error:
            return StoreReply(request.number, False, error=str(error), full=isinstance(error, FullError))

    # ---- who may connect
    def _let_in(self, key: bytes, message: Join) -> Joined | Refused:
        if conflict := version_conflict(message.version):
            return Refused(conflict)
        if key in self._machines:
            if len(self._nodes) >= MAX_INTRODUCED:
                alive = {node.member.key for node in self.head.nodes.values()}
                self._nodes = {known: None for known in self._nodes if known in alive}
            self._nodes[message.key] = None
        elif message.key not in self._machines:  # else it says so again, because the answer was lost
            try:
                self._cluster.use_token(key)
            except TokenError as error:
                self._say(f"{message.hostname!r} was not let in: {error}")
                return Refused(str(error))
            self._cluster.let_in(message.key, message.hostname)
            self._machines.add(message.key)
            self._say(f"the machine {message.hostname!r} has joined")
        return Joined(self._cluster.name, self._socket.endpoint)

    def _refused(self, event: Refusal) -> None:
        if event.foreign:
            self._socket.send(event.connection, Refused(event.foreign))
        elif event.connection:
            self._socket.give_up(event.connection)
        self._say(f"refused, from key {event.key.hex()[:12]}: {event.foreign or event.reason}")

    def _say(self, text: str) -> None:
        """Log what others can have this process say, and not more of it than a person could read."""
        if not self._bucket.take(1, time.monotonic()):
            self._n_unsaid += 1
            return
        more = f" (and {self._n_unsaid:,} such lines that are left out)" if self._n_unsaid else ""
        self._n_unsaid = 0
        _log(text[:MAX_LINE_CHARS] + more)


def _settings(cluster: Cluster) -> core.Settings:
    usual = core.Settings()
    node_s, head_s = cluster.timeouts_s
    dead_after_s = node_s or usual.dead_after_s
    return core.Settings(min(usual.beat_s, dead_after_s / 5), dead_after_s, head_s or usual.gone_after_s)


def _log(text: str) -> None:
    """One line, in which nothing is obeyed by a terminal: others have chosen some of the words."""
    print("".join(letter if letter.isprintable() else "\ufffd" for letter in text), file=sys.stderr, flush=True)
