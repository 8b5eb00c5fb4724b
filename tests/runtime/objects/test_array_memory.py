"""Large results that were written where they lie: the second call of a function writes into the segment."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = pytest.mark.timeout(60)
N = 1 << 18  # float64: 2 MiB


@pytest.fixture
def cm() -> Iterator[ModuleType]:
    """One worker, so that it is known who has learned what, and free memory with pages, as arrays are not placed
    elsewhere.
    """
    cellmesh.init(num_cpus=1, object_store_memory=256 << 20)
    cellmesh.put(np.ones(16 * N))
    yield cellmesh
    cellmesh.shutdown()


def stats() -> dict:
    from cellmesh.session.current import current

    gc.collect()
    client = current().client
    client.flush()
    assert client.check() == []
    return client.stats()


def owns_its_memory(array: np.ndarray) -> bool:
    """In a task: whether the array is the worker's private memory."""
    start = array.ctypes.data
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= start < high:
                return "memfd:cellmesh" not in line
    raise AssertionError("not mapped")


@cellmesh.remote
def make(i: int, order: str = "C"):
    array = np.full((N // 4, 4), float(i), order=order)
    array[0, 1] = -1.0
    return array


@cellmesh.remote
def place(n: int):
    """Where an array is while the function runs, told in the array."""
    array = np.ones(n)
    array[0] = owns_its_memory(array)
    return array


def test_the_second_result_is_written_in_place(cm: ModuleType) -> None:
    private = [bool(cm.get(place.remote(N))[0]) for _ in range(4)]
    assert private == [True, False, False, False]
    assert cm.get(place.remote(2 * N))[0] == 1.0, "another size is private at first"


def test_zeros_are_written_in_place_and_are_zero(cm: ModuleType) -> None:
    @cellmesh.remote
    def zeros(shape: tuple[int, ...], dirty: float) -> np.ndarray:
        array = np.zeros(shape)
        assert not array.any()
        array[..., 0] = owns_its_memory(array)
        array[..., 1] = dirty
        return array

    answers = [
        cm.get(zeros.remote((N // 4, 4), 7.0))[0].tolist() for _ in range(4)
    ]  # into pages that held the last one
    assert answers[0] == [1, 7, 0, 0] and answers[2:] == [[0, 7, 0, 0]] * 2
    assert np.array_equal(cm.get(zeros.remote((N // 2, 2), 1.0)), np.tile([0.0, 1.0], (N // 2, 1)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_values_layout_and_flags_are_the_same(cm: ModuleType, order: str) -> None:
    for i in range(4):
        array = cm.get(make.remote(i, order))
        assert array.shape == (N // 4, 4) and array.flags[f"{order}_CONTIGUOUS"] and array.flags.writeable
        assert array[0].tolist() == [i, -1.0, i, i] and (array[1:] == i).all()


def test_results_are_independent_and_freed(cm: ModuleType) -> None:
    cm.get(make.remote(0))
    wait_until(lambda: stats()["used_bytes"] < 8 * N)  # it has been let go of
    before = stats()["used_bytes"]
    refs = [make.remote(i) for i in range(20)]
    assert [cm.get(ref)[7, 3] for ref in refs] == list(range(20))
    part = cm.get(refs[5])[10:20]
    del refs
    wait_until(lambda: stats()["used_bytes"] < before + 2 * 8 * N)
    assert (part == 5.0).all()
    del part
    wait_until(lambda: stats()["used_bytes"] <= before)


def test_what_a_function_keeps_is_copied(cm: ModuleType) -> None:
    @cm.remote
    class Keeper:
        def __init__(self) -> None:
            self.array = np.zeros(N)

        def step(self) -> np.ndarray:
            self.array = self.array + 1.0
            return self.array

        def view(self) -> np.ndarray:
            return self.array[:]

    keeper = Keeper.remote()
    steps = cm.get([keeper.step.remote() for _ in range(5)])
    assert [step[3] for step in steps] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert cm.get(keeper.view.remote())[0] == 5.0


def test_several_returns(cm: ModuleType) -> None:
    @cm.remote(num_returns=2)
    def both(i: int):
        return np.full(N, i), np.full(N, -i)

    for i in range(3):
        up, down = cm.get(both.remote(i))
        assert (up == i).all() and (down == -i).all()


def test_a_forked_child_and_its_parent_do_not_see_each_others_writes(cm: ModuleType) -> None:
    @cm.remote
    def forks():
        array = np.full(N, 1.0)
        told, tell = os.pipe()
        go, start = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(go, 1)  # the parent has written
            seen = array[5]
            array[6] = 3.0
            os.write(tell, b"1" if seen == 1.0 and array[6] == 3.0 else b"0")
            os._exit(0)
        array[5] = 2.0
        os.write(start, b"x")
        right = os.read(told, 1) == b"1"
        os.waitpid(child, 0)
        for fd in (told, tell, go, start):
            os.close(fd)
        array[0] = right and array[5] == 2.0 and array[6] == 1.0
        return array

    before = stats()["used_bytes"]
    for _ in range(4):
        array = cm.get(forks.remote())
        assert array[0] == 1.0 and array[5] == 2.0 and array[6:].min() == array.max() / 2
    del array
    wait_until(lambda: stats()["used_bytes"] <= before + 4096)


def test_a_killed_worker_leaves_no_array(cm: ModuleType, tmp_path) -> None:
    @cm.remote
    def dies_once(path: str, dies: bool):
        array = np.full(N, 4.0)
        if dies and not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return array

    for dies in (False, False, True, False):
        array = cm.get(dies_once.remote(str(tmp_path / "once"), dies))
        assert (array == 4.0).all()
    del array
    wait_until(lambda: stats()["used_bytes"] < 8 * N)


def test_temporaries_and_growing_arrays_are_right(cm: ModuleType) -> None:
    @cm.remote
    def work():
        first = np.full(N, 2.0)
        first.resize(2 * N, refcheck=False)
        second = np.full(N, 3.0)
        return first[:N] + second + (first[N:].sum() == 0.0)

    for _ in range(4):
        assert (cm.get(work.remote()) == 6.0).all()


class Pair(list):
    pass


@pytest.mark.parametrize("container", [list, tuple, Pair])
def test_items_of_a_container_that_a_cache_keeps_are_copied(cm: ModuleType, container: type) -> None:
    kept: list = []

    @cm.remote(num_returns=2)
    def both(i: int):
        for array in (array for pair in kept for array in pair):
            array[:] = 1000.0
        kept.append(container([np.full(N, float(i)), np.full(N, -float(i))]))
        return kept[-1]

    values = [cm.get(both.remote(i)) for i in range(5)]
    assert all((up == i).all() and (down == -i).all() for i, (up, down) in enumerate(values))


def test_items_of_a_container_that_an_actor_keeps_are_copied(cm: ModuleType) -> None:
    @cm.remote
    class Keeper:
        n = 0

        @cm.method(num_returns=2)
        def step(self):
            self.n += 1
            self.state = [np.full(N, float(self.n)), np.full(N, -float(self.n))]
            return self.state

        def spoil(self) -> None:
            for array in self.state:
                array[:] = 1000.0

    keeper = Keeper.remote()
    for i in range(1, 6):
        up, down = cm.get(keeper.step.remote())
        cm.get(keeper.spoil.remote())
        assert (up == i).all() and (down == -i).all()


def test_an_array_twice_in_a_container_is_two_objects(cm: ModuleType) -> None:
    @cm.remote(num_returns=2)
    def twice(i: int):
        array = np.full(N, float(i))
        return [array, array]

    for i in range(4):
        first, second = cm.get(twice.remote(i))
        assert (first == i).all() and (second == i).all()
