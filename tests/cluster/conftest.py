"""Nodes in one process, for tests of what goes on between them; see `machines`."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from machines import Machines, machines


@pytest.fixture
def two() -> Iterator[Machines]:
    with machines(2) as them:
        yield them


@pytest.fixture
def three() -> Iterator[Machines]:
    with machines(3) as them:
        yield them
