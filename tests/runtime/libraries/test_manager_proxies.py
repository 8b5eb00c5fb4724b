"""What a `multiprocessing.Manager` hands out works in tasks and actors."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from multiprocessing.managers import BaseManager, SyncManager
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

import cellmesh
from cellmesh.util.multiprocessing import Pool

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@pytest.fixture
def manager() -> Iterator[SyncManager]:
    with multiprocessing.get_context("fork").Manager() as made:
        yield made
    made._process.close()  # pytest holds what a fixture has given until later


@cellmesh.remote
def note(into: Any, key: str) -> int:
    into[key] = key.upper()
    return len(into)


def test_a_dict_a_queue_and_a_lock(manager: SyncManager, cm: ModuleType) -> None:
    shared, queue, lock = manager.dict(), manager.Queue(), manager.Lock()

    @cm.remote
    def use(parts: dict[str, Any], n: int) -> None:
        with parts["lock"]:
            parts["shared"]["n"] = parts["shared"].get("n", 0) + n
        parts["queue"].put(n)

    cm.get([use.remote({"shared": shared, "queue": queue, "lock": lock}, n) for n in range(5)])
    assert shared["n"] == 10 and sorted(queue.get() for _ in range(5)) == [0, 1, 2, 3, 4]


def test_as_an_argument_a_capture_and_a_result(manager: SyncManager, cm: ModuleType) -> None:
    shared = manager.dict()
    assert cm.get(note.remote(shared, "a")) == 1

    @cm.remote
    def captured() -> Any:
        shared["b"] = "B"
        return shared

    @cm.remote
    def nested() -> int:
        return cm.get(note.remote(shared, "c"))

    assert (
        cm.get(captured.remote())["b"] == "B"
        and cm.get(nested.remote()) == 3
        and dict(shared) == {"a": "A", "b": "B", "c": "C"}
    )


def test_a_proxy_that_a_proxy_holds(manager: SyncManager, cm: ModuleType) -> None:
    inner = manager.list([1])
    outer = manager.dict({"inner": inner})

    @cm.remote
    def append(to: Any) -> bytes:
        to["inner"].append(2)
        return bytes(multiprocessing.current_process().authkey)

    assert cm.get(append.remote(outer)) == bytes(multiprocessing.current_process().authkey) and list(inner) == [1, 2]


def test_in_an_actor_and_in_a_pool(manager: SyncManager, cm: ModuleType) -> None:
    events = manager.list()

    @cm.remote
    class Writer:
        def __init__(self, to: Any) -> None:
            self.to = to

        def write(self, what: str) -> None:
            self.to.append(what)

    cm.get(Writer.remote(events).write.remote("actor"))
    with Pool(2) as pool:
        pool.map(events.append, ["one", "two"])
    assert sorted(events) == ["actor", "one", "two"]


def test_the_key_is_in_no_pickle_for_others(manager: SyncManager, cm: ModuleType) -> None:
    shared, key = manager.dict(), bytes(multiprocessing.current_process().authkey)

    @cm.remote
    def captured() -> int:
        return len(shared)

    assert cm.get(captured.remote()) == 0
    data = cloudpickle.dumps(captured)
    assert key not in data and key not in pickle.dumps((captured, shared))
    assert cm.get(pickle.loads(data).remote()) == 0


class Counts:
    def __init__(self) -> None:
        self.n = 0

    def add(self, n: int) -> int:
        self.n += n
        return self.n


class CountManager(BaseManager):
    pass


CountManager.register("Counts", Counts)


def test_a_manager_of_the_user_s_with_a_key_of_its_own(cm: ModuleType) -> None:
    before = bytes(multiprocessing.current_process().authkey)
    with CountManager(authkey=b"its own", ctx=multiprocessing.get_context("fork")) as manager:
        counts = manager.Counts()

        @cm.remote
        def add(to: Any, n: int) -> Any:
            to.add(n)
            return to

        assert cm.get(add.remote(counts, 3)).add(1) == 4
    assert bytes(multiprocessing.current_process().authkey) == before
