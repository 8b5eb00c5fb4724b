"""What the head lets in: tokens, machines, and the nodes that machines introduce."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.head import server as head_server
from cellmesh.scheduler.cluster.head.server import HeadServer
from cellmesh.scheduler.cluster.messages import CLUSTER_VERSION, Join, Joined, Member, Refused
from cellmesh.scheduler.cluster.net import sockets
from cellmesh.scheduler.cluster.net.events import Refusal
from cellmesh.scheduler.cluster.net.head_socket import MACHINE, NEWCOMER, NODE
from cellmesh.scheduler.cluster.net.keys import Cluster, pair_of
from cellmesh.scheduler.cluster.store.address import open_store
from cellmesh.scheduler.cluster.store.control_store import ControlStore


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sockets.address.socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Cluster.begin(f"127.0.0.1:{port}", sockets.new_pair)


@pytest.fixture
def store(cluster: Cluster) -> ControlStore:
    return open_store(os.path.join(cluster.path, "control.db"), cluster.name)


@pytest.fixture
def server(cluster: Cluster, store: ControlStore) -> Iterator[HeadServer]:
    server = HeadServer(cluster, store)
    yield server
    server._probes.close()
    server._socket.close()
    store.close()


def key() -> bytes:
    return sockets.new_pair().public


def token(cluster: Cluster) -> bytes:
    return pair_of(cluster.new_token(sockets.public_of), sockets.public_of).public


def test_a_token_lets_one_machine_in(cluster: Cluster, server: HeadServer) -> None:
    first, machine, other = token(cluster), key(), key()
    assert (server._role_of(first), server._role_of(machine)) == (NEWCOMER, "")
    assert server._let_in(first, Join(machine, "h")) == Joined(cluster.name, server._socket.endpoint)
    assert server._role_of(machine) == MACHINE and machine in Cluster(cluster.path).members(), (
        "later lives know it, too"
    )
    assert isinstance(server._let_in(first, Join(machine, "h")), Joined), "the answer may have been lost"
    refused = server._let_in(first, Join(other, "h"))
    assert isinstance(refused, Refused) and "has been used" in refused.reason and server._role_of(other) == ""


def test_another_version_does_not_use_a_token_up(cluster: Cluster, server: HeadServer) -> None:
    first, machine = token(cluster), key()
    refused = server._let_in(first, Join(machine, "h", CLUSTER_VERSION + 1))
    assert isinstance(refused, Refused) and f"that machine {CLUSTER_VERSION + 1}" in refused.reason
    assert isinstance(server._let_in(first, Join(machine, "h")), Joined)


def test_a_machine_introduces_nodes_and_not_machines(cluster: Cluster, server: HeadServer) -> None:
    node = key()
    assert isinstance(server._let_in(cluster.own_pair().public, Join(node, "h")), Joined)
    assert server._role_of(node) == NODE and node not in cluster.members()


def test_keys_of_nodes_that_are_gone_are_forgotten(
    cluster: Cluster, server: HeadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_server, "MAX_INTRODUCED", 3)
    nodes = [key() for _ in range(4)]
    for node in nodes:
        server._let_in(cluster.own_pair().public, Join(node, "h"))
    assert [server._role_of(node) for node in nodes] == ["", "", "", NODE], "none of them has registered"


def test_the_next_life_knows_the_nodes_of_the_last(cluster: Cluster, store: ControlStore) -> None:
    node = key()
    store.begin_life()
    store.remember(Member(7, "tcp://h:1", node, "h", {}), False)
    server = HeadServer(cluster, store)
    assert server._role_of(node) == NODE and server.head.epoch == 2
    server._probes.close()
    server._socket.close()
    store.close()


def test_a_flood_of_refusals_is_counted_and_not_written_down(
    server: HeadServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = head_server.time.monotonic()
    monkeypatch.setattr(head_server.time, "monotonic", lambda: now)
    for _ in range(1000):
        server._handle(Refusal(b"", bytes(32), "an unknown key\x1b[31m" + "x" * 10_000))
    lines = capsys.readouterr().err.splitlines()
    assert head_server.LOG_BURST - 2 <= len(lines) <= head_server.LOG_BURST and max(map(len, lines)) < 600
    assert not any("\x1b" in line for line in lines)
    monkeypatch.setattr(head_server.time, "monotonic", lambda: now + 5)
    server._handle(Refusal(b"", bytes(32), "another"))
    assert "such lines that are left out" in capsys.readouterr().err
