"""As many tasks as there is room for, and one more."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType

import cellmesh
import pytest

pytestmark = pytest.mark.timeout(120)
MILLION = 1_000_000


@pytest.fixture
def cm() -> Iterator[ModuleType]:
    """A session of its own, so that nothing else is in its tables."""
    cellmesh.init(num_cpus=1)
    yield cellmesh
    cellmesh.shutdown()


@cellmesh.remote
def held_until(go: object) -> None:
    go.wait()


@cellmesh.remote
def double(x: int) -> int:
    return 2 * x


def test_a_million_tasks_wait_and_are_drained_and_those_beyond_the_limit_are_refused(cm: ModuleType, flag: Callable) -> None:
    go = flag("go")
    holding = held_until.remote(go)  # the only CPU: everything else is queued
    refs = [double.remote(i) for i in range(MILLION)]
    with pytest.raises(cm.exceptions.StoreLimitError, match=r"unfinished tasks \(at most 1,048,576\).*Submit fewer at a time"):
        for i in count(MILLION):
            refs.append(double.remote(i))
    go.set()
    assert len(refs) > MILLION and cm.get(refs) == list(range(0, 2 * len(refs), 2))
    del refs
    assert cm.get([holding, double.remote(4)]) == [None, 8]
