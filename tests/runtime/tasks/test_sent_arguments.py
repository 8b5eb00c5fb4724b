"""Large arguments that are given to several calls."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag

import cellmesh
from cellmesh.exceptions import RepeatedArgumentWarning
from cellmesh.session.current import current
from cellmesh.session.sent_arguments import is_immutable

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
N = 300_000


@cellmesh.remote
def total(values: Any, go: Flag | None = None) -> int:
    if go is not None:
        go.wait()
    return int(sum(values.column(0).to_pylist()) if hasattr(values, "column") else np.sum(values))


@cellmesh.remote
def length(text: Any, go: Flag | None = None) -> int:
    if go is not None:
        go.wait()
    return len(text)


def used() -> int:
    gc.collect()
    client = current().client
    client.flush()
    return client.stats()["used_bytes"]


def read_only(n: int = N) -> np.ndarray:
    array = np.ones(n)
    array.flags.writeable = False
    return array


def test_calls_that_wait_share_one_object(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    """Whatever it is: what is stored is compared."""
    pandas = pytest.importorskip("pandas")
    before = used()
    for i, value in enumerate((np.ones(N), pandas.DataFrame({"a": np.ones(N)}), [1.5] * N)):
        refs = [total.remote(value, flag(f"go {i}")) for _ in range(5)]
        assert used() - before < 1.5 * 8 * N + 100_000
        flag(f"go {i}").set()
        assert [int(one) for one in cm.get(refs)] == [int(np.sum(value))] * 5
        del refs
        assert used() - before < 100_000, "nothing is kept of what can change"


def test_what_changes_between_calls_is_sent_as_it_is(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    array, refs = np.zeros(N), []
    for i in range(4):
        array[-1] = i
        refs.append(total.remote(array, flag("go")))
    flag("go").set()
    assert cm.get(refs) == [0, 1, 2, 3]


def test_a_read_only_array_is_stored_once_while_it_lives(cm: ModuleType) -> None:
    def large() -> set[str]:
        return {row["id"] for row in cm.state.list_objects() if row["size"] > array.nbytes}  # noqa: F821  (deleted at the end)

    before, array = used(), read_only()
    for _ in range(5):
        assert cm.get(total.remote(array)) == N
        assert len(seen := large()) == 1
    for _ in range(5):
        assert cm.get(total.remote(array)) == N and large() == seen, "it is the same object"
    assert cm.get(total.remote(array[:])) == N, "a view of it is another value"
    gc.collect()
    del array
    assert used() - before < 100_000


def test_a_read_only_array_that_was_changed_all_the_same(cm: ModuleType) -> None:
    array = read_only()
    assert cm.get(total.remote(array)) == N
    array.flags.writeable = True
    array[0] = 3
    array.flags.writeable = False
    assert cm.get(total.remote(array)) == N + 2


def test_arrow_data(cm: ModuleType) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    before, table = used(), pyarrow.table({"a": np.arange(N)})
    for _ in range(3):
        assert cm.get(total.remote(table)) == N * (N - 1) // 2
    assert used() - before < 1.1 * table.nbytes
    del table
    assert used() - before < 100_000


def test_bytes_and_texts_of_calls_that_wait(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    before = used()
    for i, value in enumerate((b"x" * 500_000, "y" * 500_000)):
        refs = [length.remote(value, flag(f"go {i}")) for _ in range(4)]
        assert used() - before < 600_000
        flag(f"go {i}").set()
        assert cm.get(refs) == [500_000] * 4
        del refs
    assert used() - before < 100_000


def test_an_id_that_is_used_again(cm: ModuleType) -> None:
    for i in range(20):
        assert cm.get(total.remote(np.full(N, i))) == N * i
        assert cm.get(length.remote(b"%d" % (i % 10) * 400_000)) == 400_000


def test_what_can_change_and_what_cannot() -> None:
    array = np.ones(10)
    view = array[:]
    view.flags.writeable = False
    assert not is_immutable(array) and not is_immutable(view), "its base can be written to"
    assert is_immutable(read_only()) and is_immutable(read_only()[2:]) and is_immutable(np.frombuffer(b"abcd", "u1"))
    assert not is_immutable(np.frombuffer(bytearray(b"abcd"), "u1"))
    hidden = np.frombuffer(memoryview(bytearray(8)).toreadonly(), "u1")
    assert not is_immutable(hidden), "others write to its memory"


class Counted:
    """Counts how often it is pickled."""

    def __init__(self, data: Any) -> None:
        self.data, self.n = data, 0

    def __reduce__(self) -> tuple[Any, ...]:
        self.n += 1
        return list, ([self.data],)


@cellmesh.remote
def size_of(*values: Any, **named: Any) -> int:
    return sum(len(value[0]) for value in (*values, *named.values()) if isinstance(value, list))


@pytest.mark.parametrize(
    "data", [b"x" * 300, b"x" * 300_000, np.ones(300_000), "y" * 300_000], ids=["few", "bytes", "array", "text"]
)
def test_the_one_argument_that_needs_pickle_is_pickled_once(cm: ModuleType, data: Any) -> None:
    value, second, third, fourth = (Counted(data) for _ in range(4))
    assert cm.get(size_of.remote(value)) == len(data) and value.n == 1
    assert cm.get(size_of.remote(1, None, second, "few", cm.put(2))) == len(data) and second.n == 1
    assert cm.get(size_of.remote(b"z" * 100_000, named=third)) == len(data) and third.n == 1
    assert cm.get(size_of.remote(cm.put(fourth))) == len(data) and fourth.n == 1


def test_the_one_that_needs_pickle_has_refs_and_arrays_in_it(cm: ModuleType) -> None:
    ref, array = cm.put(7), np.arange(100_000)

    @cm.remote
    def look(value: Any, other: int) -> tuple[int, int, int]:
        return cm.get(value[0][0]), int(value[0][1].sum()), other

    for held in ([ref, array], [ref, array[:9]], [ref, array, ref, array]):
        value = Counted(held)
        assert cm.get(look.remote(value, 5)) == (7, int(held[1].sum()), 5) and value.n == 1


def test_the_store_takes_back_what_was_kept_when_it_is_full() -> None:
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20, offload_limit=0)
    try:
        kept = [read_only(2_000_000) for _ in range(3)]
        for array in kept:
            assert cellmesh.get(total.remote(array)) == 2_000_000
        assert used() > 40_000_000
        ref = cellmesh.put(np.ones(6_000_000))
        assert cellmesh.get(total.remote(ref)) == 6_000_000
    finally:
        cellmesh.shutdown()


def test_a_value_that_is_sent_again_and_again_is_told_once(cm: ModuleType) -> None:
    sales, other = np.ones(2_000_000), np.ones(2_000_000)
    with pytest.warns(
        RepeatedArgumentWarning,
        match=r"^sales \(16 MB\) was sent 1[01] times: ref = cellmesh.put\(sales\) sends it once",
    ) as told:
        for _ in range(15):
            cm.get(total.remote(sales))
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(15):
            other[0] = i
            assert cm.get(total.remote(other)) == 1_999_999 + i
        frozen = read_only(2_000_000)
        for _ in range(15):
            cm.get(total.remote(frozen))
        for _ in range(15):
            cm.get(total.remote(np.ones(2_000_000)))
