"""Calls of an actor group: to all members, with one argument or one each, to parts; and what becomes of their refs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import GetTimeoutError, TaskCancelledError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class Worker:
    def __init__(self, base: int = 0) -> None:
        self.base = base

    def rank(self) -> int:
        return cellmesh.current_group().rank

    def add(self, x: Any = 0, *, y: int = 0) -> Any:
        return self.base + self.rank() + x + y

    def where_it_lies(self, array: np.ndarray) -> tuple[int, float]:
        return array.shape[0], float(array[0])

    def fail(self, rank: int) -> int:
        if self.rank() in (rank, rank + 1):
            raise KeyError("no such layer")
        return self.rank()

    def wait_for(self, flag: Flag) -> None:
        flag.wait()

    def hold(self, started: Any) -> None:
        started.add()
        threading.Event().wait()

    @cellmesh.method(num_returns=2)
    def two(self) -> tuple[int, int]:
        return 1, 2

    def name(self) -> str:
        return "a method"


def made(cm: ModuleType) -> Any:
    return cm.group(Worker, 4, base=10)


def test_a_call_reaches_every_member_in_rank_order(cm: ModuleType) -> None:
    workers = made(cm)
    refs = workers.add.remote(1, y=100)
    assert type(refs) is cm.RefGroup and refs.ranks == (0, 1, 2, 3)
    values = cm.get(refs)
    assert values == [111, 112, 113, 114] and type(values) is list
    assert cm.get(refs[3]) == 114 and cm.get(list(refs)) == values
    assert [cm.get(ref) for ref in refs] == values
    assert cm.get({"a": refs, "b": [refs]}) == {"a": values, "b": [values]}
    assert repr(refs) == "<refs of Worker.add by rank 0-3: all ready>"


def test_refs_are_waited_for_as_those_in_a_list(cm: ModuleType) -> None:
    workers = made(cm)
    refs = workers.add.remote()
    ready, rest = cm.wait(refs, num_returns=4)
    assert ready == list(refs) and rest == []
    assert sorted(value for _, value in cm.as_completed(refs, with_results=True)) == [10, 11, 12, 13]
    part = refs[1:3]
    assert type(part) is cm.RefGroup and part.ranks == (1, 2) and cm.get(part) == [11, 12]


def test_a_large_argument_is_stored_once(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    workers, looked = made(cm), flag("looked")
    workers.wait_for.remote(looked)  # no call ends, and lets go of its argument, before it is looked
    array = np.ones(1 << 20)
    refs = workers.where_it_lies.remote(array)
    assert len(workers[0]._cellmesh_ref.client.objects(100, array.nbytes)) == 1
    looked.set()
    assert cm.get(refs) == [(1 << 20, 1.0)] * 4


def test_scatter_gives_each_member_its_own(cm: ModuleType) -> None:
    workers = made(cm)
    assert cm.get(workers.add.scatter([1, 2, 3, 4], y=100)) == [111, 113, 115, 117]
    assert cm.get(workers.add.scatter(workers.rank.remote())) == [10, 12, 14, 16]
    assert cm.get(workers[1:3].add.scatter(iter([5, 6]))) == [16, 18]
    with pytest.raises(ValueError, match=r"Worker\.add\.scatter\(\): 3 items for 4 members, of ranks 0-3"):
        workers.add.scatter([1, 2, 3])


def test_reduce_makes_one_value_of_all_in_rank_order(cm: ModuleType) -> None:
    workers = made(cm)
    total = workers.add.reduce(np.add, np.arange(3))
    assert type(total) is cm.ObjectRef
    assert cm.get(total).tolist() == [46, 50, 54]
    words = workers.add.reduce(cm.remote(lambda a, b: f"({a} {b})"), 0)
    assert cm.get(words) == "((10 11) (12 13))"
    assert cm.get(workers[:3].add.reduce(lambda a, b: f"({a} {b})", 0)) == "((10 11) 12)"
    assert cm.get(workers[2:3].add.reduce(max)) == 12
    with pytest.raises(ValueError, match="the part has no members"):
        workers[4:].add.reduce(max)


def test_map_is_a_task_for_each_value(cm: ModuleType) -> None:
    workers = made(cm)

    @cm.remote
    def double(x: int) -> int:
        return 2 * x

    doubled = workers.add.remote().map(double)
    assert type(doubled) is cm.RefGroup and doubled.ranks == (0, 1, 2, 3)
    assert cm.get(doubled) == [20, 22, 24, 26]
    assert cm.get(workers.add.remote().map(str)) == ["10", "11", "12", "13"]
    with pytest.raises(TypeError, match="needs a function, plain or remote, not 3"):
        doubled.map(3)


def test_refs_and_groups_travel(cm: ModuleType) -> None:
    workers = made(cm)

    @cm.remote
    def use(group: Any, refs: Any) -> Any:
        return cm.get(group.add.remote(1)), group.ranks, type(refs) is cm.RefGroup, cm.get(refs), refs.ranks

    @cm.remote
    def values(*found: int) -> int:
        return sum(found)

    refs = workers.add.remote()
    assert cm.get(use.remote(workers[2:], refs)) == ([13, 14], (2, 3), True, [10, 11, 12, 13], (0, 1, 2, 3))
    assert cm.get(values.remote(*refs)) == 46


def test_parts_are_groups(cm: ModuleType) -> None:
    workers = made(cm)
    assert len(workers) == 4 and workers.ranks == (0, 1, 2, 3)
    assert workers[[3, 0]].ranks == (3, 0) and cm.get(workers[[3, 0]].add.remote()) == [13, 10]
    assert workers[1:][[0, 2]].ranks == (1, 3)
    assert workers[3] == list(workers)[3] == workers[2:][1]
    assert isinstance(workers[-1], cm.ActorHandle) and cm.get(workers[-1].rank.remote()) == 3
    assert workers[:2] == workers[[0, 1]] and workers[:2] != workers
    assert cm.get(workers[9:].add.remote()) == []
    with pytest.raises(IndexError, match=r"Worker group\[4\]: out of range, there are 4 places \(0 to 3\)"):
        workers[4]
    assert workers.where(lambda member: member.rank % 2 and member.state == "alive").ranks == (1, 3)


def test_dimensions_have_names(cm: ModuleType) -> None:
    grid = cm.group(Worker, dp=2, pp=2, base=5)
    assert grid.shape == {"dp": 2, "pp": 2} and grid.at(pp=1).ranks == (1, 3)
    assert cm.get(grid.at(dp=1).add.remote()) == [7, 8] and grid.at(dp=1).at(pp=0).ranks == (2,)
    assert [member.coordinates for member in grid.at(dp=1).members] == [{"dp": 1, "pp": 0}, {"dp": 1, "pp": 1}]
    assert repr(grid).startswith("<group Worker (dp=2, pp=2) of 4 members: ")


def test_the_first_failure_is_raised_with_its_rank(cm: ModuleType) -> None:
    workers = made(cm)
    with pytest.raises(KeyError, match=r"The task 'Worker\[[23]\]\.fail' raised it"):
        cm.get(workers.fail.remote(2))
    results = cm.get(workers.fail.remote(2), return_exceptions=True)
    assert [type(one).__name__ for one in results] == ["int", "int", "TaskError(KeyError)", "TaskError(KeyError)"]
    assert [one.task_name for one in results[2:]] == ["Worker[2].fail", "Worker[3].fail"]
    with pytest.raises(KeyError, match=r"Worker\[[23]\]\.fail"):
        cm.get(workers.fail.reduce(max, 2))


def test_cancelling_the_refs_cancels_all(cm: ModuleType, counter: Any) -> None:
    workers = made(cm)
    refs = workers.hold.remote(counter)
    wait_until(lambda: counter.value == 4)
    with pytest.raises(GetTimeoutError):
        cm.get(refs, timeout=0)
    cm.cancel(refs)
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            cm.get(ref, timeout=30)
    assert cm.get(workers.rank.remote(), timeout=30) == [0, 1, 2, 3]


def test_a_method_whose_name_is_the_groups_is_found_by_index(cm: ModuleType) -> None:
    workers = made(cm)
    assert cm.get(workers["name"].remote()) == ["a method"] * 4

    class Hides:
        def where(self) -> int:
            return cellmesh.current_group().rank

    with pytest.warns(UserWarning, match=r"Hides\): where is the group's own, and .* as group\['where'\]\.remote"):
        hides = cm.group(Hides, 2)
    assert cm.get(hides["where"].remote()) == [0, 1] and hides.where(lambda member: member.rank).ranks == (1,)
    assert cm.get(workers.add.options(name="shown").remote()) == [10, 11, 12, 13]
    assert "rank" in dir(workers) and "at" in dir(workers)


@pytest.mark.parametrize(
    "use, error, words",
    [
        (lambda w: w.ad, AttributeError, "did you mean 'add'"),
        (lambda w: w.add(1), TypeError, r"use \.add\.remote\(\.\.\.\), which calls every member"),
        (lambda w: w.add.remote(1, 2), TypeError, r"too many positional arguments"),
        (lambda w: w.two, ValueError, "needs one value for each call, and 'two' gives num_returns=2"),
        (lambda w: setattr(w, "base", 1), AttributeError, "'base' cannot be set on a group"),
        (lambda w: cellmesh.get(w), TypeError, "calls of its methods return refs"),
        (lambda w: w.add.remote(threading.Lock()), TypeError, r"the argument 'x' of the task 'Worker\[0\]\.add'"),
        (lambda w: w.add.options(num_cpu=1), ValueError, "unknown option"),
        (lambda w: w.add.scatter(5), TypeError, r"Worker\.add\.scatter\(5\): needs an item for each member"),
        (lambda w: w.add.scatter([1, 2, 3]), ValueError, r"3 items for 4 members, of ranks 0-3"),
        (lambda w: w.add.reduce("max"), TypeError, "needs a function, plain or remote, not 'max'"),
        (lambda w: w.where(5), TypeError, r"where\(5\): needs a function of a member"),
        (lambda w: w[4], IndexError, r"out of range, there are 4 places \(0 to 3\)"),
        (lambda w: w.restart(4), IndexError, r"restart\(4\): the ranks are 0-3"),
    ],
)
def test_misuse_is_told(cm: ModuleType, use: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    workers = made(cm)
    with pytest.raises(error, match=words):
        use(workers)


def test_a_decorated_class_has_group(cm: ModuleType) -> None:
    actor_class = cm.remote(num_cpus=0)(Worker)
    assert cm.get(actor_class.group(2, base=1).add.remote()) == [1, 2]
    assert cm.get(actor_class.options(max_concurrency=2).group(dp=2).add.remote()) == [0, 1]
    assert "group" in dir(actor_class)
