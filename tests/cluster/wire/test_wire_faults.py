"""Every message between machines times six faults of the line between two of them.

Between agents a line breaks right before, in the middle of or right after a message of each kind: it comes once and in
its place, and nothing is kept. At the head's door, a newcomer that asks to be let in is let in once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from cellmesh.scheduler.cluster import messages as contract
from cellmesh.scheduler.cluster.head.server import HeadServer
from cellmesh.scheduler.cluster.messages import Chunk, Member, Queued
from cellmesh.scheduler.cluster.net import address, head_link, reliable, sockets
from cellmesh.scheduler.cluster.net import client as commands
from cellmesh.scheduler.cluster.net.events import Faulty, Received, Rejected
from cellmesh.scheduler.cluster.net.head_link import HeadLink
from cellmesh.scheduler.cluster.net.head_socket import NODE
from cellmesh.scheduler.cluster.net.keys import Cluster
from cellmesh.scheduler.cluster.net.peers import Peers
from cellmesh.scheduler.cluster.store.address import open_store
from cluster.wire.message_faults import FAULTS, Mishaps, example, kinds
from support.loopback import HEARD, closing, heard, messages, wait


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "RECONNECT_MS", 1)
    monkeypatch.setattr(sockets, "MAX_RECONNECT_MS", 2)
    monkeypatch.setattr(reliable, "ACKNOWLEDGE_MESSAGES", 1)  # so that every message has an answer that may be lost


@pytest.fixture
def between() -> Iterator[tuple[Peers, Peers, Mishaps]]:
    """One end, another, and the line on which the first writes to it."""
    ours, theirs = sockets.new_pair(), sockets.new_pair()
    a, b = (Peers(keys, "127.0.0.1", contract.ToPeer) for keys in (ours, theirs))
    line = Mishaps(b.endpoint)
    with closing(a, b, line):
        a.add(Member(2, line.endpoint, theirs.public, "b", {}))
        b.add(Member(1, a.endpoint, ours.public, "a", {}))
        yield a, b, line


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", kinds(contract.ToPeer), ids=lambda kind: kind.__name__)
def test_between_agents_it_comes_once_and_in_its_place(
    kind: type, fault: str, between: tuple[Peers, Peers, Mishaps]
) -> None:
    a, b, line = between
    before, message, after = Queued([1]), example(kind), Queued([2])
    payload = [os.urandom(5000)] if kind is Chunk else []
    a.send(2, before)
    wait(a, b, line, until=lambda: messages(b) and not a._peers[2].outgoing.kept_bytes)
    line.arm(fault)
    a.send(2, message, *payload)
    if fault == "twice while the first is not read":
        wait(a, line, until=lambda: line.n_connections >= 2)  # the other end reads nothing meanwhile
    elif fault == "out of order":
        wait(a, line, until=lambda: line.kept)
    a.send(2, after)
    wait(a, b, line, until=lambda: len(messages(b)) == 3 and not a._peers[2].outgoing.kept_bytes)
    line.deliver_late()
    a.send(2, before)
    wait(a, b, line, until=lambda: len(messages(b)) == 4 and not a._peers[2].outgoing.kept_bytes)
    assert messages(b) == [before, message, after, before]
    assert [[bytes(part) for part in event.payload] for event in heard(b, Received)] == [[], payload, [], []]
    assert line.n_mishaps == 1 and line.n_connections >= 2, "the fault has been"
    assert not heard(a, Faulty) + heard(b, Faulty)


# ---------------------------------------------------------------- the door
class Door:
    """A head, as `wait` wants it."""

    def __init__(self, cluster: Cluster) -> None:
        self.store = open_store(os.path.join(cluster.path, "control.db"), cluster.name)
        self.server = HeadServer(cluster, self.store)
        self.fileno = self.server._socket.fileno

    def receive_ready(self) -> list[Any]:
        for event in (events := self.server._socket.receive_ready()):
            self.server._handle(event)
        return events

    def close(self) -> None:
        self.server._socket.close()
        self.store.close()


class Newcomer(HeadLink):
    """A node that its machine introduces, on a line which meets its fault as soon as it asks to be let in."""

    def __init__(self, cluster: Cluster, line: Mishaps, fault: str, is_back: bool) -> None:
        self._fault: tuple[str, bool] | None = (fault, is_back)
        self._line = line
        self.keys = sockets.new_pair()
        super().__init__(self.keys, cluster.head_key, line.endpoint, cluster.own_pair(), "h")

    def _connection_changed(self, event: int, value: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED and self._fault is not None:
            self._line.arm(*self._fault)
            self._fault = None
        super()._connection_changed(event, value)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sockets.address.socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Cluster.begin(f"127.0.0.1:{port}", sockets.new_pair)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "out of order"])  # nothing follows it
@pytest.mark.parametrize("kind", [*kinds(contract.ToDoor), *kinds(contract.FromDoor)], ids=lambda kind: kind.__name__)
def test_who_asks_to_be_let_in_is_let_in_once(
    kind: type, fault: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_refused = kind is contract.Refused
    assert kind in (contract.Join, contract.Joined) or is_refused, f"what becomes of {kind.__name__}?"
    if is_refused:
        monkeypatch.setattr(
            head_link, "Join", lambda key, hostname: contract.Join(key, hostname, contract.CLUSTER_VERSION + 1)
        )
    door = Door(cluster)
    line = Mishaps(door.server._socket.endpoint)
    node = Newcomer(cluster, line, fault, is_back=kind is not contract.Join)
    with closing(node, door, line):
        if fault == "twice while the first is not read":
            wait(node, door, line, until=lambda: line.n_mishaps)
            wait(node, line, until=lambda: line.n_connections >= 2)
        if kind is not contract.Join and fault == "late":
            wait(node, door, line, until=lambda: line.kept)
            node.reconnect("no answer in time")
        wait(
            node,
            door,
            line,
            until=lambda: (
                [event for event in heard(node, Rejected) if event.final] if is_refused else node.is_connected
            ),
        )
        line.deliver_late()
        known = [] if is_refused else [node.keys.public]
        wait(node, door, line, until=lambda: is_refused or door.server._role_of(node.keys.public) == NODE)
        assert list(door.server._nodes) == known and not door.server.head.nodes and line.n_mishaps == 1


@pytest.mark.parametrize("kind", [contract.Join, contract.Joined], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("fault", ["lost", "answer lost", "twice"])
def test_a_token_is_used_up_by_who_has_it_though_the_answer_is_lost(
    kind: type, fault: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(cluster)
    line = Mishaps(door.server._socket.endpoint)
    token = cluster.new_token(sockets.public_of)
    ask = commands.HeadLink.send

    def armed(link: HeadLink, message: Any) -> bool:
        if not line.n_mishaps:
            line.arm(fault, is_back=kind is contract.Joined)
        return ask(link, message)

    def served(link: HeadLink, timeout_s: float) -> list[Any]:
        wait(link, door, line, until=lambda: heard(link), deadline_s=timeout_s)
        events = HEARD[link][:]
        HEARD[link].clear()
        return events

    monkeypatch.setattr(commands.HeadLink, "send", armed)
    monkeypatch.setattr(commands.HeadLink, "wait", served)
    monkeypatch.setattr(address, "endpoint", lambda *parts: line.endpoint)
    n = len(door.server._machines)
    with closing(door, line):
        joined = commands.join(cluster.address, token)
        assert (
            len(door.server._machines) == n + 1
            and joined.own_pair().public in door.server._machines
            and line.n_mishaps == 1
        )
