"""Objects: what comes back, whether it was copied, and when its memory is freed."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import re
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cellmesh.kernel_ext.graph.events import EVENT_DTYPE, EventKind
from support.waiting import wait_until

import cellmesh
from cellmesh.ids import short_id
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def total(array) -> float:
    return float(np.sum(array))


@cellmesh.remote
def ones(n: int):
    return np.ones(n)


def used(cm: ModuleType) -> int:
    gc.collect()
    return current().client.stats()["used_bytes"]


def test_get_is_a_function_like_others(cm: ModuleType) -> None:
    """It is made in C; nobody should notice."""
    assert str(
        inspect.signature(cm.get)
    ) == "(refs, timeout=None, *, return_exceptions=False, readonly=False)" and inspect.getdoc(cm.get).startswith(
        "The value of a ref"
    )
    assert pickle.loads(pickle.dumps(cm.get)) is cm.get
    ref, get = cm.put(3), cm.get
    assert cm.get(refs=ref, timeout=1) == 3 and cm.get(refs=[ref]) == [3] and cm.get([]) == []
    assert cm.get(cm.remote(lambda refs: get(refs[0])).remote([ref])) == 3
    for args, kwargs in ((), {}), ((ref, 1, 2), {}), ((ref,), {"wait": 1}), ((3,), {}), (([3],), {}), (([ref, 3],), {}):
        with pytest.raises(TypeError, match="get"):
            cm.get(*args, **kwargs)


def test_views_that_all_readers_share_are_read_only(cm: ModuleType) -> None:
    ref = cm.put(np.arange(1 << 20))
    first, second = cm.get(ref, readonly=True), cm.get([ref], readonly=True)[0]
    assert np.shares_memory(first, second) and first.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    assert cm.get(total.remote(ref)) == float(np.arange(1 << 20).sum())


def test_tiny_arrays_inside_other_objects_are_copies_that_may_be_written_to(cm: ModuleType) -> None:
    limits = cm.get(cm.put(SimpleNamespace(points=np.zeros((2, 2)), data=np.zeros(1000))), readonly=True)
    limits.points[0] = 1  # matplotlib does so with the limits of its axes
    assert limits.points.sum() == 2 and not limits.data.flags.writeable


def test_views_outlive_refs_and_the_session(cm: ModuleType) -> None:
    array = cm.get(cm.put(np.arange(100_000)))
    part = array[1000:1010]
    del array
    gc.collect()
    assert part.tolist() == list(range(1000, 1010))
    cm.shutdown()
    assert part.tolist() == list(range(1000, 1010))
    del part


def test_results_are_views_too(cm: ModuleType) -> None:
    array = cm.get(ones.remote(1 << 20))
    assert array.flags.writeable and array.sum() == 1 << 20


def test_arrow_and_pandas_come_without_a_copy(cm: ModuleType) -> None:
    import pandas as pd
    import pyarrow as pa

    before = pa.total_allocated_bytes()
    table = pa.table({"a": np.arange(1 << 20), "s": ["x"] * (1 << 20)})
    ref = cm.put(table)
    allocated = pa.total_allocated_bytes()
    back = cm.get(ref)
    assert back.equals(table) and pa.total_allocated_bytes() - allocated < 1 << 16 and allocated >= before
    frame = pd.DataFrame({"a": np.arange(1000), "b": ["x"] * 1000, "at": pd.date_range("2024-01-01", periods=1000)})
    ref = cm.put(frame)
    first, second = cm.get(ref, readonly=True), cm.get(cm.remote(lambda frame: frame).remote(ref))
    pd.testing.assert_frame_equal(first, frame)
    pd.testing.assert_frame_equal(second, frame)
    for name in "a", "at":
        assert np.shares_memory(first[name].to_numpy(), cm.get(ref, readonly=True)[name].to_numpy())
    del back, table


def test_a_slice_of_a_table_is_stored_alone(cm: ModuleType) -> None:
    import pyarrow as pa

    table = pa.table({"a": np.arange(1 << 20)})
    before = used(cm)
    ref = cm.put(table.slice(5, 10))
    assert used(cm) - before < 1 << 16
    assert cm.get(ref).column("a").to_pylist() == list(range(5, 15))


@pytest.mark.parametrize("dtype", ["M8[25s]", "m8[ns]", ">f8", "U4", "V8", [("at", "M8[us]"), ("is", "f4")]], ids=str)
def test_arrays_of_times_strings_and_structures_are_views_too(cm: ModuleType, dtype) -> None:
    array = np.frombuffer(bytes(range(240)) * 8192, dtype)
    ref = cm.put(array)
    first, second = cm.get([ref, ref], readonly=True)
    assert np.shares_memory(first, second) and first.ctypes.data % 64 == 0 and not first.flags.writeable
    assert cm.get(ref).flags.writeable and cm.get(ref).ctypes.data % 64 == 0
    assert first.dtype == array.dtype and first.tobytes() == array.tobytes()
    result = cm.remote(lambda array: array.copy()).remote(ref)
    assert np.shares_memory(*cm.get([result, result], readonly=True)) and cm.get(result).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5),
        np.array(3),
        np.array([], "i4"),
        np.asfortranarray(np.ones((3, 4))),
        np.arange(10)[::-2],
        np.array(["a", "bc"]),
        np.array([{}, None], dtype=object),
        np.zeros(3, [("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-01"], "M8[D]"),
    ],
    ids=repr,
)
def test_arrays_of_every_kind(cm: ModuleType, value: object) -> None:
    back = cm.get(cm.put(value))
    assert type(back) is type(value) and back.dtype == value.dtype and back.shape == value.shape
    assert (back == value).all()


def test_aliases_and_cycles_survive(cm: ModuleType) -> None:
    shared = [1]
    a, b = cm.get(cm.put([shared, shared]))
    assert a is b
    cycle: list = []
    cycle.append(cycle)
    back = cm.get(cm.put(cycle))
    assert back[0] is back


def test_memory_is_freed_with_the_last_ref(cm: ModuleType) -> None:
    before = used(cm)
    ref = cm.put(np.ones(1 << 20))
    assert used(cm) - before >= 8 << 20
    del ref
    wait_until(lambda: used(cm) - before < 1 << 20, 10)


def in_a_cycle(value: object) -> None:
    cycle: list = [value]
    cycle.append(cycle)


def test_what_only_cycles_hold_goes_before_the_store_is_full() -> None:
    """The collector counts Python objects, of which there are few here."""

    @cellmesh.remote
    def fill() -> bool:
        for _ in range(10):
            in_a_cycle(cellmesh.put(np.ones(4 << 20)))
        return True

    with cellmesh.init(num_cpus=1, object_store_memory=128 << 20, offload_limit=0):
        for _ in range(10):
            in_a_cycle(cellmesh.put(np.ones(4 << 20)))
        gc.collect()
        assert cellmesh.get(fill.remote())


def test_workers_that_wait_for_each_others_cycles_collect_their_own_meanwhile() -> None:
    """Each has a store half full of them and is busy. Without it a put here and there waits out its patience, 8 s."""

    @cellmesh.remote
    def slowest_put(n: int) -> float:
        slowest = 0.0
        for _ in range(n):
            began = time.monotonic()
            in_a_cycle(cellmesh.get(cellmesh.put(np.ones(1 << 20))))
            slowest = max(slowest, time.monotonic() - began)
        return slowest

    with cellmesh.init(num_cpus=2, object_store_memory=64 << 20, offload_limit=0):
        assert max(cellmesh.get([slowest_put.remote(20) for _ in range(6)])) < 8.0


def test_an_idle_worker_lets_go_of_what_only_cycles_hold(cm: ModuleType) -> None:
    @cm.remote
    def keep(array: np.ndarray) -> None:
        in_a_cycle(array)

    ref = cm.put(np.ones(4 << 20))
    cm.get([keep.remote(ref), keep.remote(ref)])
    del ref
    wait_until(lambda: used(cm) < 1 << 20, what="the array is freed")


def test_refs_inside_objects_count(cm: ModuleType) -> None:
    before = used(cm)
    outer = cm.put([cm.put(np.ones(1 << 20))])
    gc.collect()
    assert used(cm) - before >= 8 << 20
    inner = cm.get(outer)[0]
    del outer
    assert cm.get(inner).sum() == 1 << 20
    del inner
    wait_until(lambda: used(cm) - before < 1 << 20, 10)


def test_arguments_of_tasks_count_while_they_wait(cm: ModuleType, flag) -> None:
    @cm.remote
    def gate(started, go):
        started.set()
        go.wait()

    first = gate.remote(flag("started"), flag("go"))
    ref = cm.put(np.ones(1 << 20))

    @cm.remote
    def after(_, array):
        return float(array.sum())

    result = after.remote(first, ref)
    del ref
    flag("started").wait()
    flag("go").set()
    assert cm.get(result) == 1 << 20


def test_a_large_argument_is_stored_once_and_freed(cm: ModuleType) -> None:
    before = used(cm)
    array = np.ones(1 << 20)
    assert cm.get([total.remote(array) for _ in range(3)]) == [1 << 20] * 3
    wait_until(lambda: used(cm) - before < 1 << 20, 10)


def test_put_in_a_loop_does_not_fill_the_store(cm: ModuleType) -> None:
    for i in range(100):  # 800 MB through a store of 256 MB
        assert cm.get(cm.put(np.full(1 << 20, i)))[-1] == i


def test_an_object_that_does_not_fit(cm: ModuleType) -> None:
    with pytest.raises(cm.exceptions.ObjectStoreFullError, match="object_store_memory"):
        cm.put(np.zeros(300 << 20, dtype="u1"))
    with pytest.raises(cm.exceptions.ObjectStoreFullError):
        cm.get(cm.remote(lambda: np.zeros(300 << 20, dtype="u1")).remote(), timeout=30)
    assert cm.get(cm.put(1)) == 1


def test_a_full_store_names_what_fills_it(cm: ModuleType) -> None:
    import __main__

    # Less than half of the store, as a small object of an earlier test may lie anywhere.
    __main__.the_big_one = cm.put(np.zeros(120 << 20, dtype="u1"))
    view = cm.get(__main__.the_big_one)  # so it cannot go to disk
    try:
        with pytest.raises(cm.exceptions.ObjectStoreFullError) as caught:
            cm.put(np.zeros(150 << 20, dtype="u1"))
        assert "an object of 157 MB does not fit" in str(caught.value) and "the_big_one" in str(caught.value)
    finally:
        del __main__.the_big_one, view


@pytest.mark.parametrize(
    "value",
    [[1, 2], list(range(50_000)), np.arange(3), np.arange(1000), b"x" * 70_000, {"a": np.zeros(20_000)}],
    ids=["small list", "large list", "small array", "array", "bytes", "dict with an array"],
)
def test_what_is_given_twice_is_one_value_and_takes_room_once(cm: ModuleType, value: object) -> None:
    @cm.remote
    def are_same(a: object, b: object, others: list[object], *, c: object) -> tuple[bool, bool]:
        return a is b, a is c

    cm.get(are_same.remote(0, 0, [], c=0))
    client = current().client
    before = client.stats()["n_events"]
    assert cm.get(are_same.remote(value, value, list(range(100_000)), c=value)) == (True, True)
    kinds = np.frombuffer(client.events(before, 1 << 16).records, EVENT_DTYPE)["kind"]
    assert np.count_nonzero(kinds == EventKind.PUT) == 2, "one for the value, one for the list"


@pytest.mark.parametrize("filler, stays", [(0, True), (100_000, False)], ids=["small", "large"])
def test_what_arguments_share_stays_shared_in_small_calls_and_within_one_argument(
    cm: ModuleType, filler: int, stays: bool
) -> None:
    @cm.remote
    def share(a: list, b: list, pair: tuple, k: dict) -> list[bool]:
        return [a[0] is b[0], a[0] is k["x"], a is pair[0], pair[0][0] is pair[1][0], a == pair[0] and b == pair[1]]

    shared: list[int] = [1]
    a, b = [shared, list(range(filler))], [shared]
    assert cm.get(share.remote(a, b, (a, b), {"x": shared})) == [stays, stays, stays, True, True]


def test_who_makes_too_much_waits_for_who_takes_it(cm: ModuleType) -> None:
    refs = [ones.remote(8 << 20) for _ in range(12)]  # 64 MiB each, into 256 MiB
    while refs:
        done, refs = cm.wait(refs, timeout=30)
        assert cm.get(done[0])[-1] == 1.0
        del done


def test_refs_have_ids(cm: ModuleType) -> None:
    one, two = cm.put(1), cm.put(1)
    assert len(one.hex()) == 32 and one.hex() != two.hex() and one != two
    assert repr(one) == f"ObjectRef({one.hex()})" and {one: 1}[one] == 1


# ---------------------------------------------------------------- wait
def test_wait_keeps_the_order_and_returns_at_most_what_was_asked(cm: ModuleType) -> None:
    refs = [cm.put(i) for i in range(5)]
    assert cm.wait(refs) == (refs[:1], refs[1:])
    assert cm.wait(refs, num_returns=3) == (refs[:3], refs[3:])
    assert cm.wait(refs, num_returns=5) == (refs, [])
    assert cm.wait([]) == ([], [])


def test_wait_for_the_first_of_many(cm: ModuleType, flag) -> None:
    @cm.remote
    def gate(go):
        go.wait()

    slow = gate.remote(flag("go"))
    quick = cm.put(1)
    assert cm.wait([slow, quick], timeout=20) == ([quick], [slow])
    assert cm.wait([slow], timeout=0) == ([], [slow])
    flag("go").set()
    assert cm.wait([slow], timeout=20) == ([slow], [])


def test_get_with_a_timeout_says_what_is_missing(cm: ModuleType, flag) -> None:
    @cm.remote
    def slow_one(started, go):
        started.set()
        go.wait()

    slow = slow_one.remote(flag("started"), flag("go"))
    flag("started").wait()
    with pytest.raises(TimeoutError, match=r"gave up after 0\.05 s: 1 of 2 refs.*'slow_one'.*runs in pid"):
        cm.get([cm.put(1), slow], timeout=0.05)
    with pytest.raises(cm.exceptions.GetTimeoutError):
        cm.get(slow, timeout=0)
    waits = cm.remote(num_cpus=0)(lambda refs: cm.get(refs)).remote([slow])
    wait_until(lambda: waits.client.info(waits)["blocked"])
    with pytest.raises(cm.exceptions.GetTimeoutError, match=r"which waits in get\(\) or wait\(\) in pid \d+"):
        cm.get(waits, timeout=0)
    flag("go").set()
    assert cm.get(slow, timeout=20) is None


def test_as_completed(cm: ModuleType, flag) -> None:
    @cm.remote
    def gate(go, value):
        go.wait()
        return value

    refs = [gate.remote(flag("a"), "a"), gate.remote(flag("b"), "b"), cm.put("c")]
    completed = iter(cm.as_completed(refs, timeout=30))
    assert cm.get(next(completed)) == "c"
    flag("b").set()
    assert cm.get(next(completed)) == "b"
    flag("a").set()
    assert [cm.get(ref) for ref in completed] == ["a"]
    with pytest.raises(TimeoutError):
        list(cm.as_completed([gate.remote(flag("never"), 0)], timeout=0.05))
    flag("never").set()


# ---------------------------------------------------------------- memory of the operating system
def committed() -> int:
    """Bytes of the segment that have pages."""
    return os.fstat(current().node.fd).st_blocks * 512


@pytest.mark.session("own")
def test_pages_are_fetched_ahead_of_the_next_large_object(cm: ModuleType) -> None:
    client = current().client
    before = committed()
    ref = cm.put(np.full(16 << 20, 1, dtype="u1"))
    wait_until(lambda: client.idle_memory()[0] >= 16 << 20)
    ahead = committed() - before
    assert 32 << 20 <= ahead < 36 << 20 and client.check() == []
    second = cm.put(np.full(16 << 20, 2, dtype="u1"))
    assert [int(cm.get(r).sum()) >> 24 for r in (ref, second)] == [1, 2]
    wait_until(lambda: committed() - before >= 48 << 20)


def test_nothing_is_fetched_ahead_where_too_little_of_the_store_would_be_left(cm: ModuleType) -> None:
    client = current().client
    ref = cm.put(np.ones(210 << 20, dtype="u1"))  # of 256 MiB
    wait_until(lambda: client.stats()["ahead_bytes"] == 0)
    assert client.idle_memory()[0] == 0 and committed() < 218 << 20
    assert int(cm.get(ref).sum()) == 210 << 20


def test_idle_memory_goes_back_and_comes_again(cm: ModuleType) -> None:
    of = current()
    refs = [cm.put(np.full(4 << 20, i, dtype="u1")) for i in range(20)]
    wait_until(lambda: of.client.idle_memory()[0] >= 4 << 20)  # fetched ahead
    kept = refs[::5]
    before = committed()
    del refs
    gc.collect()
    of.client.flush()
    idle, _ = of.client.idle_memory()
    assert idle > 60 << 20
    assert 39 << 20 < of.client.give_back(40 << 20) <= 44 << 20
    assert committed() < before - (38 << 20) and of.client.idle_memory()[0] <= idle - (39 << 20)
    while of.client.give_back(1 << 30):
        continue
    assert of.client.idle_memory()[0] == 0 and of.client.check() == []
    assert [cm.get(ref)[0] for ref in kept] == [0, 5, 10, 15]
    again = [cm.put(np.full(4 << 20, i, dtype="u1")) for i in range(20)]
    assert all((cm.get(ref) == i).all() for i, ref in enumerate(again))


@pytest.mark.slow
def test_after_a_peak_the_local_scheduler_gives_memory_back_by_itself(cm: ModuleType) -> None:
    """Ten seconds after: the policy's own (test_idle_memory.py), so a nightly test."""
    refs = [cm.put(np.full(8 << 20, i, dtype="u1")) for i in range(20)]
    assert committed() > 160 << 20
    kept = refs[3]
    del refs
    wait_until(lambda: committed() < 80 << 20, deadline=45)  # an eighth of 256 MiB stays, and what the tables take
    assert (cm.get(kept) == 3).all() and current().client.check() == []


def test_a_full_store_names_what_a_function_or_class_captures(one_cpu: ModuleType) -> None:
    big, small, text = np.ones(80_000_000, np.uint8), np.ones(2_000_000, np.uint8), "x" * 30

    @one_cpu.remote
    def use() -> int:
        return len(big) + len(small) + len(text)

    @one_cpu.remote
    class Holds:
        table = big

        def get(self) -> int:
            return len(small)

    for code, kind in ((use, "function 'use'"), (Holds, "class 'Holds'")):
        with (
            pytest.raises(one_cpu.exceptions.ObjectStoreFullError) as raised,
            pytest.warns(one_cpu.exceptions.LargeClosureWarning),
        ):
            code.remote()
        variable = "big" if code is use else "table"
        said = str(raised.value)
        assert (
            f"the {kind}, which captures {variable!r} (80 MB), 'small' (2 MB), does not fit" in said
            and "'text'" not in said
        )
        assert (
            "larger than the whole store" in said and "with more than 82 MB" in said and "Drop references" not in said
        )
        assert not re.search(r"\d{5,}", re.sub(r"session-\w+", "", said)), "in units"


def test_a_full_store_says_who_holds_what_when_a_value_would_fit(one_cpu: ModuleType) -> None:
    one_cpu.shutdown()
    one_cpu.init(num_cpus=1, object_store_memory=64 << 20, offload_limit=0)
    held = one_cpu.put(np.ones(50_000_000, np.uint8))
    with pytest.raises(one_cpu.exceptions.ObjectStoreFullError) as raised:
        one_cpu.put(np.ones(30_000_000, np.uint8))
    said = str(raised.value)
    assert "an object of 30 MB does not fit: the object store holds 67" in said and "50 MB are in use" in said
    assert "Drop references" in said and short_id(held.hex()) in said
