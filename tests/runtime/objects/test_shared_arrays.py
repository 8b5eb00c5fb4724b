"""Arrays that stay writable: every way in which they travel, and when their memory is given back."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Counter
from support.waiting import wait_until

import cellmesh
from cellmesh import state
from cellmesh.exceptions import ObjectStoreFullError, WorkerCrashedError
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def fill(array: Any, value: Any) -> bool:
    array[...] = value
    return array.flags.writeable


@cellmesh.remote
class Keeper:
    def __init__(self, array: Any = None) -> None:
        self.array = array

    def keep(self, array: Any) -> None:
        self.array = array

    def fill(self, value: Any) -> None:
        self.array[...] = value

    def give(self) -> Any:
        return self.array

    def pid(self) -> int:
        return os.getpid()


def n_shared() -> int:
    gc.collect()
    return current().client.stats()["n_shared"]


class Box:
    def __init__(self, content: Any) -> None:
        self.content = content


# ---------------------------------------------------------------- what is made
def test_it_is_a_plain_array_of_zeros(cm: ModuleType) -> None:
    for again in range(2):  # the second time in memory that has been used
        array = cm.shared_array((300, 7), "int32")
        assert type(array) is np.ndarray and array.shape == (300, 7) and array.dtype == np.int32
        assert array.flags.writeable and array.flags.c_contiguous and array.ctypes.data % 64 == 0
        assert not array.any(), again
        array[...] = -1
        large = cm.shared_array(1 << 20)
        assert not large.any(), again
        large[...] = 1
        del array, large


@pytest.mark.parametrize("dtype", ["?", "u1", "<f2", ">i4", "c16", "M8[us]", "U5", "S3", [("x", "f8"), ("y", "i2", 3)]])
def test_dtypes(cm: ModuleType, dtype: Any) -> None:
    array = cm.shared_array(4, dtype)
    assert array.dtype == np.dtype(dtype) and array.shape == (4,)
    there = cm.get(cm.put([array]))[0]
    there[1] = np.ones(1, np.dtype(dtype))[0]
    assert array[1] == there[1] and array.dtype == there.dtype and np.shares_memory(array, there)


def test_several_arrays_in_one_object(cm: ModuleType) -> None:
    arrays = cm.shared_arrays({"w": ((3, 5), float), "n": (7, np.uint8), "none": (0, "f4"), "one": ((), int)})
    assert {name: (a.shape, a.dtype.str) for name, a in arrays.items()} == {
        "w": ((3, 5), "<f8"), "n": ((7,), "|u1"), "none": ((0,), "<f4"), "one": ((), "<i8")
    }  # fmt: skip
    assert n_shared() == 1 and all(a.ctypes.data % 64 == 0 and a.flags.writeable for a in arrays.values())
    assert cm.get([fill.remote(a, 2) for a in arrays.values()]) == [True] * 4
    assert arrays["w"].sum() == 30 and arrays["n"].sum() == 14 and arrays["one"] == 2
    w = arrays.pop("w")
    del arrays
    assert n_shared() == 1 and w.sum() == 30
    del w
    assert n_shared() == 0
    assert cm.shared_arrays({}) == {}


# ---------------------------------------------------------------- how it travels
WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "itself": lambda a: a,
    "a slice": lambda a: a[2:5, 1:],
    "a column": lambda a: a[:, 3],
    "every second": lambda a: a[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T,
    "one element": lambda a: a[1, 1:2],
    "flat": lambda a: a.reshape(-1),
    "another dtype": lambda a: a.view("float32"),
    "a real part": lambda a: a.view("complex128").imag,
    "stretched": lambda a: np.lib.stride_tricks.as_strided(a, (3, 6, 8), (0, 64, 8)),
    "over a memoryview": lambda a: np.asarray(memoryview(a)),
    "as other libraries give it": lambda a: np.from_dlpack(a),  # what it is based on says nothing, as torch's
    "over bytes": lambda a: np.frombuffer(memoryview(a).cast("B"), "int16"),
}


@pytest.mark.parametrize("way", WAYS)
def test_views_travel_as_what_they_are(cm: ModuleType, way: str) -> None:
    array = cm.shared_array((6, 8))
    view = WAYS[way](array)
    expected = np.zeros_like(array)
    WAYS[way](expected)[...] = 3
    assert cm.get(fill.remote(view, 3)) is True
    assert np.array_equal(array, expected)
    there = cm.get(cm.put(view))
    assert there.shape == view.shape and there.strides == view.strides and there.dtype == view.dtype
    assert there.ctypes.data == view.ctypes.data and type(there) is np.ndarray


def test_what_may_not_be_written_stays_so(cm: ModuleType) -> None:
    array = cm.shared_array(3)
    view = array[:]
    view.flags.writeable = False
    there = cm.get(cm.put([view, array]))
    assert [a.flags.writeable for a in there] == [False, True]
    array[0] = 4
    assert there[0][0] == 4


def test_inside_other_values(cm: ModuleType) -> None:
    array = cm.shared_array(4)

    @cm.remote
    def write(plain: Any, pickled: Any, *rest: Any, by_name: Any) -> Any:
        plain["x"][0][0] = 1
        pickled.content[1] = 2
        rest[0][2] = 3
        by_name[3] = 4
        return {"again": (array_of(plain), Box(pickled.content))}

    def array_of(plain: Any) -> Any:
        return plain["x"][0]

    got = cm.get(write.remote({"x": [array]}, Box(array), array, by_name=array))
    assert array.tolist() == [1, 2, 3, 4]
    got["again"][0][0], got["again"][1].content[1] = 10, 20
    assert array.tolist() == [10, 20, 3, 4]
    twice = cm.get(cm.put([array, array]))
    assert twice[0] is twice[1], "identity is kept, as in any value"


def test_captured_by_a_function_or_a_class(cm: ModuleType) -> None:
    array = cm.shared_array(1 << 18)  # 2 MB: a capture of so much would warn

    @cm.remote
    def add(n: int) -> None:
        array[0] += n

    @cm.remote
    class Adder:
        def add(self, n: int) -> None:
            array[1] += n

    for n in range(5):
        cm.get(add.remote(n))
        array[2] += 1  # a change that calls for no new export
    adder = Adder.remote()
    cm.get([adder.add.remote(n) for n in range(5)])
    assert array[:3].tolist() == [10, 10, 5]


def test_actors_keep_it(cm: ModuleType) -> None:
    array = cm.shared_array(4)
    keeper, other = Keeper.remote(array), Keeper.remote()
    cm.get([keeper.fill.remote(1), other.keep.remote([array[2:]])])
    assert array.sum() == 4
    given = cm.get(keeper.give.remote())
    given[0] = 9
    assert array[0] == 9 and np.shares_memory(given, array)


def test_a_task_makes_it_and_another_writes(cm: ModuleType) -> None:
    @cm.remote
    def make() -> Any:
        array = cellmesh.shared_array(5)
        array[0] = 1
        return array

    made = make.remote()
    assert cm.get(fill.remote(made, 7)) is True
    assert cm.get(made).tolist() == [7] * 5
    assert n_shared() == 1
    del made
    wait_until(lambda: n_shared() == 0)


def test_put_gives_the_same_memory(cm: ModuleType) -> None:
    array = cm.shared_array((1 << 17,))
    ref = cm.put(array)
    got = cm.get(ref)
    got[5] = 1
    assert array[5] == 1 and cm.get(fill.remote(ref, 2)) and array.sum() == 2 * (1 << 17)
    del array, got
    assert n_shared() == 1 and cm.get(ref)[0] == 2
    del ref
    wait_until(lambda: n_shared() == 0)


def test_streams_and_queues(cm: ModuleType) -> None:
    array = cm.shared_array(3)

    @cm.remote(num_returns="streaming")
    def parts() -> Any:
        for i in range(3):
            array[i] = i + 1
            yield array[i : i + 1]

    for ref in parts.remote():
        cm.get(ref)[0] *= 10
    assert array.tolist() == [10, 20, 30]


def test_copies_are_copies(cm: ModuleType) -> None:
    array = cm.shared_array(3)
    for other in (copy.deepcopy(array), copy.copy(array), array.copy(), array + 0, pickle.loads(pickle.dumps(array))):
        other[...] = 5
        assert not array.any() and not np.shares_memory(array, other)
    there = cm.get(cm.put(array.copy()))
    there[...] = 5
    assert not array.any()


def test_others_arrays_are_not_taken_for_it(cm: ModuleType) -> None:
    array, got = cm.shared_array(100), cm.get(cm.put(np.ones(100_000)))
    reaches_out = np.lib.stride_tricks.as_strided(array, (200,), (8,), writeable=False)
    assert not np.shares_memory(cm.get(cm.put(got[10:])), got)
    assert not np.shares_memory(cm.get(cm.put(reaches_out[:0])), got)


# ---------------------------------------------------------------- when it is given back
def test_freed_with_the_last_reference(cm: ModuleType) -> None:
    array = cm.shared_array(1000)
    view = array[10:]
    refs = [cm.put(array), cm.put([view])]
    keeper = Keeper.remote(array)
    cm.get(keeper.fill.remote(1))
    del array, view
    assert n_shared() == 1
    del refs
    assert n_shared() == 1
    cm.kill(keeper)
    del keeper
    wait_until(lambda: n_shared() == 0)
    assert current().client.check() == []


def test_freed_after_the_death_of_a_worker(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def die(array: Any) -> None:
        own = cellmesh.shared_array(1 << 17)
        own[...] = array[0] = 1
        os.kill(os.getpid(), signal.SIGKILL)

    array = cm.shared_array(10)
    with pytest.raises(WorkerCrashedError):
        cm.get(die.remote(array))
    wait_until(lambda: n_shared() == 1)
    assert array[0] == 1
    del array
    wait_until(lambda: n_shared() == 0)
    assert current().client.check() == []


def test_a_retried_task_finds_it_as_it_was_left(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(max_retries=2)
    def step(array: Any) -> list[float]:
        array[counter.add()] += 1
        if array.sum() < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return array.tolist()

    array = cm.shared_array(5)
    assert cm.get(step.remote(array)) == array.tolist() and array.sum() == 3


def test_freed_after_the_death_of_a_driver(cm: ModuleType) -> None:
    """Another driver of the session makes one, is killed, and what a detached actor holds is all that stays."""
    keeper = Keeper.options(name="keeper", lifetime="detached").remote()
    cm.get(keeper.pid.remote())
    namespace = cm.get_runtime_context().namespace
    program = (
        "import os, signal, cellmesh as cm\n"
        f"cm.init(address='auto', namespace={namespace!r})\n"
        "kept, lost = cm.shared_array(4), cm.shared_array(5)\n"
        "kept[...] = 3; lost[...] = 1; ref = cm.put(lost)\n"
        "cm.get(cm.get_actor('keeper').keep.remote(kept))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: n_shared() == 1)
    array = cm.get(keeper.give.remote())
    assert array.tolist() == [3] * 4
    array[0] = 1
    cm.kill(keeper)


def test_views_outlive_the_session() -> None:
    cellmesh.init(num_cpus=1)
    array = cellmesh.shared_array(4)
    cellmesh.shutdown()
    array[...] = 2
    assert array.sum() == 8
    cellmesh.init(num_cpus=1)
    got = cellmesh.get(cellmesh.put(array))  # of a session that has ended: a value as any other
    assert got.tolist() == [2] * 4
    got[...] = 3
    assert array.sum() == 8
    cellmesh.shutdown()


# ---------------------------------------------------------------- a full store, listings
def test_a_full_store_says_so_and_moves_others() -> None:
    cellmesh.init(num_cpus=1, object_store_memory=32 << 20)
    try:
        with pytest.raises(ObjectStoreFullError, match="larger than the whole store"):
            cellmesh.shared_array(64 << 20, "u1")
        refs = [cellmesh.put(np.full(1 << 20, i, "f8")) for i in range(3)]
        array = cellmesh.shared_array(16 << 20, "u1")  # others move to disk, it does not
        array[...] = 1
        refs += [cellmesh.put(np.full(1 << 20, i, "f8")) for i in range(3)]
        places = {o["place"] for o in state.list_objects() if o["size"] > 8 << 20}
        assert places >= {"shared", "disk"} and current().client.stats()["shared_bytes"] >= 16 << 20
        assert array.all() and [cellmesh.get(ref)[0] for ref in refs] == [0, 1, 2] * 2
        with pytest.raises(ObjectStoreFullError, match=r"Of these .* are shared, which are never moved"):
            more = [cellmesh.shared_array(8 << 20, "u1") for _ in range(4)]
            assert not more
    finally:
        cellmesh.shutdown()


def test_it_is_counted_and_named(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = cm.shared_array(100_000)
    monkeypatch.setattr(sys.modules["__main__"], "weights", weights, raising=False)  # as a notebook's variable
    (row,) = state.list_objects(filters=[("place", "=", "shared")])
    assert row["size"] >= 800_000 and row["held_by"] == [os.getpid()]
    text = state.memory()
    assert "shared: 800" in text and "weights" in text, text
    assert "weights" in state.memory(place="shared")
    del weights
    monkeypatch.undo()
    assert n_shared() == 0 and "shared" not in state.memory()


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((-1,), ValueError, "at least 0"),
        (((2, -3),), ValueError, r"\(2, -3\)"),
        ((1 << 43,), ValueError, r"2\*\*45"),
        (((1 << 40, 1 << 40),), ValueError, r"2\*\*45"),
        (((1,) * 33,), ValueError, "at most 32"),
        ((2.5,), TypeError, "whole number"),
        (("abc",), TypeError, "whole number"),
        ((3, object), TypeError, "Numbers, times"),
        ((3, [("a", object)]), TypeError, "Numbers, times"),
        ((3, "U"), TypeError, "fixed width"),
        ((3, "no such"), TypeError, "no such"),
    ],
)
def test_bad_input(cm: ModuleType, arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        cm.shared_array(*arguments)
    with pytest.raises(error, match=text):
        cm.shared_arrays({"x": (*arguments, float)[:2]})
    assert n_shared() == 0


def test_bad_dicts(cm: ModuleType) -> None:
    for bad, text in (([1], "dict of names"), ({"x": 3}, r"'x' needs \(shape, dtype\)"), ({"y": (1, 2, 3)}, "'y'")):
        with pytest.raises(TypeError, match=text):
            cm.shared_arrays(bad)


def test_it_starts_a_session() -> None:
    assert not cellmesh.is_initialized()
    try:
        assert cellmesh.shared_array(2).tolist() == [0, 0] and cellmesh.is_initialized()
    finally:
        cellmesh.shutdown()
