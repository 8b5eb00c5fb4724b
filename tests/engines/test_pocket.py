"""The pocket in an engine's worker, seen from tasks that run in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cellmesh.exceptions import ObjectLostError, ObjectStoreFullError

PATIENCE_S = 30.0


def make_another(store_bytes: int) -> None:
    """In a task: the next one has a pocket of that size, as if it were another session's."""
    from cellmesh.engines import pocket

    assert pocket._pocket is not None
    pocket.STORE_BYTES, pocket._pocket.session_id = store_bytes, "another"


def test_what_has_no_room_in_a_pocket_fails_and_the_next_task_runs(start: Callable[..., ModuleType]) -> None:
    cm = start()
    another = cm.remote(make_another)

    @cm.remote
    def size(values: np.ndarray) -> int:
        return len(values)

    @cm.remote
    def sizes(refs: list[object]) -> int:
        return len(cm.get(refs[0]))

    large = cm.put(np.zeros(1 << 20))
    assert cm.get(size.remote(large), timeout=PATIENCE_S) == 1 << 20
    cm.get(another.remote(4 << 20), timeout=PATIENCE_S)
    for ref in (size.remote(large), sizes.remote([large])):
        with pytest.raises(ObjectStoreFullError):
            cm.get(ref, timeout=PATIENCE_S)
    assert cm.get(size.remote(np.zeros(1 << 16)), timeout=PATIENCE_S) == 1 << 16


def test_a_pocket_keeps_nothing_of_what_has_ended(start: Callable[..., ModuleType]) -> None:
    cm = start()
    another = cm.remote(make_another)

    @cm.remote
    def use(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, cm.get(cm.put(values))])

    cm.get(another.remote(8 << 20), timeout=PATIENCE_S)
    values = np.zeros(1 << 17)  # a megabyte, of which each task has seven at least
    for _ in range(20):
        assert len(cm.get(use.remote(values), timeout=PATIENCE_S)) == 1 << 18


def test_a_task_knows_its_session(start: Callable[..., ModuleType]) -> None:
    cm = start(namespace="ours")

    @cm.remote
    def where() -> tuple[str, int]:
        context = cm.get_runtime_context()
        return context.namespace, os.getpid()

    namespace, pid = cm.get(where.remote(), timeout=PATIENCE_S)
    assert namespace == "ours"
    assert pid != os.getpid()


def test_a_ref_that_a_task_has_kept_for_another_is_lost_to_it(
    start: Callable[..., ModuleType],
) -> None:
    cm = start()

    @cm.remote
    def keep(refs: list[Any]) -> int:
        vars(sys)["kept"] = refs
        return os.getpid()

    @cm.remote
    def give() -> list[Any]:
        return vars(sys)["kept"]

    pid = cm.get(keep.remote([cm.put(1)]), timeout=PATIENCE_S)
    (ref,) = cm.get(give.remote(), timeout=PATIENCE_S)
    with pytest.raises(ObjectLostError):
        cm.get(ref, timeout=PATIENCE_S)
    assert cm.get(keep.remote([]), timeout=PATIENCE_S) == pid


def test_a_call_that_finds_no_room_in_its_actors_pocket_fails_and_the_next_one_runs(
    start: Callable[..., ModuleType],
) -> None:
    cm = start()

    @cm.remote
    class Full:
        def fill(self, refs: list[Any]) -> None:
            from cellmesh.engines import pocket

            assert pocket._pocket is not None
            tasks_in, self.refs = pocket._pocket._peer.tasks_in, refs
            submit = tasks_in.submit

            def full(*task: Any) -> bool:
                tasks_in.submit = submit
                return False

            tasks_in.submit = full

        def give(self) -> list[Any]:
            return self.refs

    full, ref = Full.remote(), cm.put(1)
    cm.get(full.fill.remote([ref]), timeout=PATIENCE_S)
    with pytest.raises(ObjectStoreFullError):
        cm.get(full.give.remote(), timeout=PATIENCE_S)
    assert cm.get(full.give.remote(), timeout=PATIENCE_S) == [ref]
