"""Refs, generators, handles, functions, classes and groups: copied, and pickled by others than cellmesh."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh import exceptions
from cellmesh.session.current import current
from cellmesh.util import placement_group, remove_placement_group

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """What is let go of goes at once, or something has kept it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@cellmesh.remote
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self, n: int = 1) -> int:
        self.n += n
        return self.n


@cellmesh.remote
def add(x: int, y: int) -> int:
    return x + y


@cellmesh.remote
def own_name() -> str | None:
    return cellmesh.get_runtime_context().get_task_name()


@cellmesh.remote
def numbers(n: int) -> Iterator[int]:
    yield from range(n)


@cellmesh.remote(num_cpus=0)
def loaded(data: bytes) -> Any:
    """In another process of the session."""
    value = pickle.loads(data)
    return cellmesh.get(value.add.remote()) if isinstance(value, cellmesh.ActorHandle) else cellmesh.get(value)


def n_objects() -> int:
    client = current().client
    client.flush()
    return client.stats()["n_objects"]


def living_actors() -> int:
    return sum(row["state"] not in ("dead", "ended") for row in current().client.actors())


WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda it: pickle.loads(pickle.dumps(it)),
    lambda it: pickle.loads(cloudpickle.dumps(it)),
    lambda it: pickle.loads(pickle.dumps(it, protocol=2)),
]
WAY_NAMES = ["copy", "deepcopy", "pickle", "cloudpickle", "protocol 2"]
every_way = pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)


# ---------------------------------------------------------------- copies hold what they refer to
@every_way
def test_the_copy_of_a_ref_holds_its_object(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    before = n_objects()
    ref = cm.put([1, 2])
    copied = way({"config": [ref]})
    assert copied["config"][0] == ref and hash(copied["config"][0]) == hash(ref)
    del ref
    assert cm.get(copied["config"][0]) == [1, 2] and n_objects() == before + 1
    del copied
    assert n_objects() == before


@every_way
def test_the_copy_of_a_handle_keeps_its_actor(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    counter = Counter.remote()
    copied = way({"counter": counter, "other": counter})
    assert cm.get(counter.add.remote()) == 1 and copied["counter"] == counter
    del counter
    assert cm.get([copied["counter"].add.remote(), copied["other"].add.remote()]) == [2, 3] and living_actors() == 1
    del copied
    wait_until(lambda: living_actors() == 0)


@every_way
def test_the_copy_of_a_method_keeps_its_actor(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    method = way([Counter.remote().add])[0]
    assert cm.get(method.remote(5)) == 5 and living_actors() == 1
    del method
    wait_until(lambda: living_actors() == 0)


@every_way
def test_the_copy_of_a_generator_reads_the_same_stream(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    generator = numbers.remote(3)
    copied = way({"stream": generator})["stream"]
    assert cm.get(next(generator)) == 0 and cm.get(next(copied)) == 1
    del generator
    assert [cm.get(ref) for ref in copied] == [2] and cm.get(copied.completed()) == 3


@pytest.mark.parametrize("way", WAYS[:2], ids=WAY_NAMES[:2])
def test_the_copy_of_a_closed_generator_is_closed(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    generator = numbers.remote(3)
    generator.close()
    assert list(way(generator)) == []


@every_way
def test_the_copy_of_a_function_calls_it_with_its_options(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    assert cm.get(way([add])[0].remote(1, 2)) == 3
    assert cm.get(way([own_name.options(name="shown")])[0].remote()) == "shown"


@every_way
def test_the_copy_of_a_class_makes_actors(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    copied = way([Counter.options(name="one")])[0].remote()
    assert cm.get(copied.add.remote(2)) == 2 and cm.get_actor("one") == copied


@every_way
def test_the_copy_of_a_group_is_that_group(cm: ModuleType, way: Callable[[Any], Any]) -> None:
    group = placement_group([{"CPU": 1}])
    copied = way([group])[0]
    assert copied == group and copied.bundle_specs == [{"CPU": 1}] and copied.wait(30)
    remove_placement_group(copied)


def test_a_queue_of_multiprocessing(cm: ModuleType) -> None:
    queue: Any = multiprocessing.get_context("fork").Queue()
    ref, counter = cm.put("value"), Counter.remote()
    queue.put({"ref": ref, "counter": counter, "add": add})
    taken = queue.get(timeout=30)
    queue.close()
    queue.join_thread()
    assert (
        cm.get(taken["ref"]) == "value"
        and cm.get(taken["counter"].add.remote()) == 1
        and cm.get(taken["add"].remote(1, 1)) == 2
    )


# ---------------------------------------------------------------- a pickle names, and does not hold
def test_a_pickle_does_not_hold(cm: ModuleType) -> None:
    before = n_objects()
    ref = cm.put("value")
    data = pickle.dumps(ref)
    pickle.dumps(ref), cloudpickle.dumps(ref)  # to be hashed, as caches do
    first, second = pickle.loads(data), pickle.loads(data)
    assert cm.get([first, second]) == ["value"] * 2
    del ref, first, second
    with pytest.raises(
        exceptions.ObjectLostError, match=r"has been freed: no ref to it was left.*put\(\).*keep the ref"
    ):
        pickle.loads(data)
    assert n_objects() == before
    others = [cm.put(i) for i in range(100)]  # in its place
    with pytest.raises(exceptions.ObjectLostError):
        pickle.loads(data)
    del others


def test_the_pickle_of_a_handle_does_not_keep_the_actor(cm: ModuleType) -> None:
    counter = Counter.remote()
    data = pickle.dumps(counter)
    del counter
    wait_until(lambda: living_actors() == 0)
    with pytest.raises(exceptions.ObjectLostError, match="has been freed"):
        pickle.loads(data)


def test_what_others_have_pickled_is_loaded_in_tasks(cm: ModuleType) -> None:
    ref, counter = add.remote(1, 2), Counter.remote()
    assert cm.get([loaded.remote(pickle.dumps(ref)), loaded.remote(pickle.dumps(counter))]) == [3, 1]
    unheld = pickle.dumps(cm.put(1))
    n_objects()  # flushes: what this process has let go of is gone for the worker as well
    with pytest.raises(exceptions.ObjectLostError):
        cm.get(loaded.remote(unheld))


def test_a_task_returns_a_pickle(cm: ModuleType) -> None:
    @cm.remote
    class Keeper:
        def __init__(self) -> None:
            self.ref = cm.put("kept")

        def pickled(self) -> bytes:
            return pickle.dumps(self.ref)

    keeper = Keeper.remote()
    ref = pickle.loads(cm.get(keeper.pickled.remote()))
    cm.kill(keeper)
    assert cm.get(ref) == "kept"


@pytest.mark.session("own")
def test_another_session(cm: ModuleType) -> None:
    ref, group = cm.put(1), placement_group([{"CPU": 1}])
    data, data_of_group = pickle.dumps(ref), pickle.dumps(group)
    there = current().node.session_dir
    cm.shutdown()
    with pytest.raises(exceptions.SessionClosedError, match="shut down"):
        pickle.dumps(ref)
    assert copy.deepcopy(ref) is ref
    with pytest.raises(
        exceptions.NotInitializedError, match=rf"session in {there}.*cellmesh.init\('{there}/node.sock'\)"
    ):
        pickle.loads(data)
    assert not cm.is_initialized()
    cm.init(num_cpus=1)
    with pytest.raises(exceptions.SessionError, match="the session of this process is another one"):
        pickle.loads(data)
    with pytest.raises(exceptions.SessionError, match="placement group 1"):
        pickle.loads(data_of_group).wait()


LOADS = """
import pickle, sys, cellmesh
data = bytes.fromhex(sys.stdin.readline())
try:
    pickle.loads(data)
except cellmesh.exceptions.NotInitializedError:
    assert not cellmesh.is_initialized()
cellmesh.init(sys.argv[1])
loaded = pickle.loads(data)
print(cellmesh.get(loaded["ref"]), cellmesh.get(loaded["counter"].add.remote()), flush=True)
sys.stdin.readline()
print(cellmesh.get(loaded["ref"]), cellmesh.get(loaded["counter"].add.remote()), flush=True)
"""


def test_another_program_of_the_session(cm: ModuleType) -> None:
    before = n_objects()
    ref, counter = cm.put("value"), Counter.remote()
    with subprocess.Popen(
        [sys.executable, "-c", LOADS, current().node.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        print(pickle.dumps({"ref": ref, "counter": counter}).hex(), file=other.stdin, flush=True)
        assert other.stdout.readline() == "value 1\n"
        del ref, counter
        n_objects()
        print(file=other.stdin, flush=True)
        assert other.stdout.readline() == "value 2\n"
    wait_until(lambda: living_actors() == 0)
    wait_until(lambda: n_objects() <= before + 2)  # code of the class, and of its method


def test_a_forked_child_is_told_what_to_do(cm: ModuleType) -> None:
    ref = cm.put("value")
    data = pickle.dumps(ref)
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            assert pickle.dumps(ref) == data  # on its way back
            pickle.loads(data)
        except BaseException as error:  # it never leaves
            os.write(write, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"ForkedClientError"
    os.close(read), os.close(write)


# ---------------------------------------------------------------- code needs no session
CALLS = """
import pickle, sys
function, cls = pickle.loads(bytes.fromhex(sys.stdin.readline()))
import cellmesh
cellmesh.init(num_cpus=1)
counter = cls.remote()
print(cellmesh.get(function.remote(5)), cellmesh.get(counter.add.remote(2)))
cellmesh.shutdown()
"""


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_functions_and_classes_are_loaded_anywhere(cm: ModuleType, dumps: Callable[[Any], bytes]) -> None:
    @cm.remote
    def factorial(n: int) -> int:
        return n * cellmesh.get(factorial.remote(n - 1)) if n else 1

    assert cm.get(factorial.remote(3)) == 6  # it has been exported here
    data = dumps((factorial, Counter))
    cm.shutdown()
    done = subprocess.run([sys.executable, "-c", CALLS], input=data.hex(), capture_output=True, text=True, check=True)
    assert done.stdout == "120 2\n"


def test_a_function_that_captures_a_ref_names_it(cm: ModuleType) -> None:
    ref = cm.put(40)

    @cm.remote
    def plus_two() -> int:
        return cellmesh.get(ref) + 2

    copied = pickle.loads(pickle.dumps(plus_two))
    assert cm.get(copied.remote()) == 42


def test_an_exception_does_not_take_a_ref_along(cm: ModuleType) -> None:
    class Holding(Exception):
        pass

    @cm.remote
    def fails() -> None:
        raise Holding("text", cellmesh.put(1))

    with pytest.raises(exceptions.TaskError, match="text") as caught:
        cm.get(fails.remote())
    assert not isinstance(caught.value, Holding)
    assert "cannot take an ObjectRef along" in caught.value.note
