"""Nodes in one process, for tests of what goes on between them, see `machines`; and two ends of a line, see
`loopback`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cellmesh.scheduler.cluster.net.keys import KeyPair
from cellmesh.scheduler.cluster.net.peers import Peers
from cluster.one_process.machines import Machines, machines
from support.loopback import Line, closing, member, peers

Ends = tuple[Peers, Peers, KeyPair, KeyPair]


@pytest.fixture
def two() -> Iterator[Machines]:
    with machines(2) as them:
        yield them


@pytest.fixture
def three() -> Iterator[Machines]:
    with machines(3) as them:
        yield them


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Nodes 1 and 2, which know each other."""
    (a, a_keys), (b, b_keys) = peers(), peers()
    a.add(member(2, b, b_keys))
    b.add(member(1, a, a_keys))
    with closing(a, b):
        yield a, b, a_keys, b_keys


@pytest.fixture
def line(ends: Ends) -> Iterator[Line]:
    """What lies between 1 and 2 when 1 sends."""
    a, b, _, b_keys = ends
    line = Line(b.endpoint)
    a.add(member(2, b, b_keys, line.endpoint))
    yield line
    line.close()
