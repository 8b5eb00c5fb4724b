"""What is shared stays on its machine: tasks that need it run there, and whoever would read it elsewhere is told."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cluster.one_process.machines import Machines, machines

import cellmesh as cm
from cellmesh.exceptions import SharedArrayError

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
NAMED = r"shape \(3, 4\) and dtype float32"


@cm.remote
def write(value: Any) -> int:
    array = value
    while not hasattr(array, "shape"):
        array = cm.get(array) if isinstance(array, cm.ObjectRef) else array[0]
    array[...] += 1
    return os.getppid()


@cm.remote
def parent_pid() -> int:
    return os.getppid()


@cm.remote
def make() -> Any:
    return [cm.shared_array((3, 4), "f4")]


@cm.remote
class Holder:
    def take(self, value: Any) -> Any:
        return value.sum()

    def make(self) -> Any:
        return cm.shared_arrays({"left": (3, int), "right": ((2, 2), bool)})


@pytest.mark.own_interpreter  # workers here begin later than the others get something to do
def test_tasks_that_need_it_run_where_it_is() -> None:
    with machines(2, cpus_at_home=1):
        array = cm.shared_array((3, 4), "f4")

        @cm.remote
        def captures() -> int:
            array[...] += 1
            return os.getppid()

        refs = [write.remote(array), write.remote([array]), write.remote(cm.put(array)), captures.remote()]
        refs += [write.remote(array[i % 3]) for i in range(30)]
        others = [parent_pid.remote() for _ in range(60)]
        here = set(cm.get(refs))
        assert len(here) == 1 and len({*here, *cm.get(others)}) == 2, "the others do go there"
        assert (array == 14).all()


def test_a_call_of_an_actor_elsewhere_raises(two: Machines) -> None:
    holder, array = Holder.remote(), cm.shared_array((3, 4), "f4")
    for argument in (array, cm.put(array), array[1:]):
        with pytest.raises(SharedArrayError, match=NAMED) as caught:
            cm.get(holder.take.remote(argument))
        assert "put(array.copy())" in str(caught.value)
    assert cm.get(holder.take.remote(array.copy())) == 0


def test_what_is_made_elsewhere_cannot_be_read_here(two: Machines) -> None:
    with pytest.raises(SharedArrayError, match=NAMED):
        cm.get(make.remote())
    holder = Holder.remote()
    with pytest.raises(SharedArrayError, match=r"'left' of shape \(3,\) and dtype int64, the shared array 'right'"):
        cm.get(holder.make.remote())


def test_deep_inside_a_value_it_is_refused_where_it_is_read(two: Machines) -> None:
    array = cm.shared_array((3, 4), "f4")
    deep = cm.put([cm.put([array])])
    with pytest.raises(SharedArrayError, match=NAMED):
        cm.get(write.remote([deep]))
    assert not array.any()
