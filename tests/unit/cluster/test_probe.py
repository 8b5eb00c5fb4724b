"""Probes of addresses: who answers is the system, not the process that listens there."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest
from cellmesh.scheduler.cluster.net.probe import Probes


@pytest.fixture
def probes() -> Iterator[Probes]:
    probes = Probes()
    yield probes
    probes.close()


def endpoint(listener: socket.socket) -> str:
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def answers(probes: Probes) -> list[tuple[object, bool]]:
    assert select.select([probes], [], [], 10)[0], "the descriptor is readable when there is an answer"
    return list(probes.answers())


def test_a_port_on_which_a_process_listens_that_does_nothing_is_told_from_one_on_which_none_does(
    probes: Probes,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = endpoint(listener)
        probes.probe("busy", where)
        assert answers(probes) == [("busy", True)] and probes.answers() == []
        probes.probe("busy", where)
        assert answers(probes) == [("busy", True)], "as often as one likes"
        listener.settimeout(10)
        with listener.accept()[0] as visitor:
            assert visitor.recv(1) == b"", "nothing is said, and it is over"
    probes.probe("gone", where)
    assert answers(probes) == [("gone", False)]


def test_where_nothing_answers_nothing_is_told(probes: Probes) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        with socket.create_connection(full.getsockname()), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(full.getsockname())
            probes.probe("mute", endpoint(full))  # its queue is full: what asks is dropped
            probes.probe("name", "tcp://localhost:1")  # to resolve it could take long
            probes.probe("nonsense", "tcp://127.0.0.1")
            with socket.create_server(("127.0.0.1", 0)) as other:
                probes.probe("other", endpoint(other))
                assert answers(probes) == [("other", True)] and probes.answers() == []


def test_of_two_probes_at_one_the_later_counts_and_a_forgotten_one_not(probes: Probes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as closed:
        where = endpoint(closed)
        closed.close()
        probes.probe(1, where)
        probes.probe(1, endpoint(listener))
        probes.probe(2, where)
        probes.forget(2)
        probes.forget(3)
        assert answers(probes) == [(1, True)] and probes.answers() == []
