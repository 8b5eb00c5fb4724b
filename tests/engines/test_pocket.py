"""The pocket in an engine's worker, seen from tasks that run in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until

from cellmesh.engines.kept import KeptValues
from cellmesh.engines.parcels import OWN, Key
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


def test_a_pocket_copies_a_large_value_once_until_it_is_idle(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def use(values: np.ndarray) -> tuple[int, int, float]:
        from cellmesh.engines import pocket

        assert pocket._pocket is not None
        return os.getpid(), pocket._pocket.n_copied, float(values[-1])

    @cm.remote
    def n_kept() -> tuple[int, int]:
        from cellmesh.engines import pocket

        assert pocket._pocket is not None
        pocket.KEEP_S = 0.0
        return os.getpid(), len(pocket._pocket.kept)

    first, second = cm.put(np.full(1 << 17, 1.0)), cm.put(np.full(1 << 17, 2.0))
    seen: dict[int, int] = {}
    for n in range(20):
        pid, n_copied, last = cm.get(use.remote((first, second)[n % 2]), timeout=PATIENCE_S)
        assert last == 1.0 + n % 2
        seen[pid] = n_copied
    assert all(n_copied <= 2 for n_copied in seen.values()), seen

    def are_idle() -> bool:
        pid, n = cm.get(n_kept.remote(), timeout=PATIENCE_S)
        if not n:
            seen.pop(pid, None)
        return not seen

    wait_until(are_idle, deadline=PATIENCE_S)
    assert cm.get(use.remote(first), timeout=PATIENCE_S)[2] == 1.0


@pytest.mark.parametrize(
    ("uses", "kept"),
    [
        ([((1, 1), 40), ((2, 1), 40)], [(1, 1), (2, 1)]),
        ([((1, 1), 40), ((2, 1), 40), ((1, 1), 40), ((3, 1), 40)], [(1, 1), (3, 1)]),
        ([((1, 1), 40), ((2, 1), 101)], [(1, 1)]),
        ([((1, OWN), 40)], []),
    ],
)
def test_a_pocket_keeps_what_was_used_last(uses: list[tuple[Key, int]], kept: list[Key]) -> None:
    values, held = KeptValues[Key](100), set[Key]()
    for now, (key, size) in enumerate(uses):
        is_new, gone = values.use(key, key, size, float(now))
        assert (key in held) <= (not is_new)
        held = (held | ({key} if is_new else set())) - set(gone)
    assert sorted(held) == kept
    assert sorted(values.clear()) == kept
    assert not len(values)


def test_what_is_forgotten_or_old_is_kept_no_more_and_takes_no_room() -> None:
    values = KeptValues[str](100)
    for slot, now in ((1, 0.0), (2, 1.0), (3, 2.0)):
        assert values.use((slot, 1), f"value {slot}", 30, now) == (True, [])
    assert values.forget((2, 1)) == "value 2"
    assert values.forget((2, 1)) is None
    assert values.use((1, 1), "value 1", 30, 3.0) == (False, [])
    assert values.old(2.5) == ["value 3"]
    assert values.use((4, 1), "value 4", 70, 4.0) == (True, []), "30 of 100 are taken"
    assert values.use((5, 1), "value 5", 1, 5.0) == (True, ["value 1"])
