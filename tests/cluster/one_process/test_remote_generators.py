"""Generators that run on another machine than their readers: real segments, schedulers and workers; only the network is
a queue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import Machines, machines
from support.waiting import wait_until

import cellmesh as cm

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote(num_returns="streaming")
def count(n: int, size: int = 0) -> Iterator[Any]:
    for i in range(n):
        yield np.full(size, float(i)) if size else i


def test_items_come_in_order_and_end(two: Machines) -> None:
    assert [cm.get(item) for item in count.remote(1000)] == list(range(1000))
    assert list(count.remote(0)) == []
    assert any(isinstance(message, messages.Items) for message in two.seen)


@pytest.mark.parametrize("size", [100, 20_000, 1_000_000])
def test_items_of_every_size(two: Machines, size: int) -> None:
    assert [float(cm.get(item).sum()) for item in count.remote(6, size)] == [i * size for i in range(6)]


def test_items_come_while_the_task_still_runs(two: Machines, tmp_path: Any) -> None:
    @cm.remote(num_returns="streaming")
    def waits(path: str) -> Iterator[str]:
        yield "first"
        while not os.path.exists(path):
            pass
        yield "last"

    stream = waits.remote(str(tmp_path / "go"))
    assert cm.get(next(stream)) == "first"
    (tmp_path / "go").touch()
    assert [cm.get(item) for item in stream] == ["last"]


def test_the_task_waits_for_its_reader(two: Machines, tmp_path: Any) -> None:
    @cm.remote(num_returns="streaming", generator_backpressure_num_objects=3)
    def marks(path: str, n: int) -> Iterator[int]:
        for i in range(n):
            with open(path, "a") as file:
                file.write(".")
            yield i

    path = tmp_path / "made"
    stream = marks.remote(str(path), 50)
    wait_until(lambda: path.exists() and path.stat().st_size == 3, 20)
    for i in range(50):
        assert path.stat().st_size <= i + 4
        assert cm.get(next(stream)) == i
    assert list(stream) == []


def test_an_error_is_the_last_item(two: Machines) -> None:
    @cm.remote(num_returns="streaming")
    def breaks() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    stream = breaks.remote()
    assert cm.get(next(stream)) == 1
    with pytest.raises(KeyError, match="broken"):
        cm.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)


def test_a_reader_that_stops_ends_the_generator(two: Machines, tmp_path: Any) -> None:
    @cm.remote(num_returns="streaming", generator_backpressure_num_objects=2)
    def endless(path: str) -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            open(path, "w").close()

    stream = endless.remote(str(tmp_path / "closed"))
    cm.get(next(stream))
    del stream
    wait_until((tmp_path / "closed").exists, 20)
    wait_until(lambda: not two.machines["a"].peers["b"].tasks_out, 20)


def test_a_method_that_yields(two: Machines) -> None:
    @cm.remote
    class Source:
        def __init__(self) -> None:
            self.n = 0

        @cm.method(num_returns="streaming")
        def take(self, n: int) -> Iterator[int]:
            for _ in range(n):
                self.n += 1
                yield self.n

    source = Source.remote()
    first, second = source.take.remote(3), source.take.remote(2)
    assert [cm.get(item) for item in second] == [4, 5]
    assert [cm.get(item) for item in first] == [1, 2, 3]


def test_a_repeated_task_neither_loses_nor_repeats_items() -> None:
    with machines(3) as three:
        stream = count.options(max_retries=3).remote(400, 10)
        taken = [float(cm.get(next(stream))[0]) for _ in range(5)]
        there = (
            next(name for name in "bc" if three.machines["a"].peers[name].tasks_out)
            if any(three.machines["a"].peers[name].tasks_out for name in "bc")
            else "b"
        )
        three.part(there)
        taken += [float(cm.get(item)[0]) for item in stream]
        assert taken == [float(i) for i in range(400)]


def test_a_repeated_task_goes_on_behind_what_its_reader_has_had() -> None:
    with machines(3) as three:
        stream = count.options(max_retries=3, generator_backpressure_num_objects=1).remote(10)
        taken = [cm.get(next(stream)) for _ in range(5)]
        three.part(next(name for name in "bc" if three.machines["a"].peers[name].tasks_out))
        assert taken + [cm.get(item, timeout=20) for item in stream] == list(range(10))


def test_a_reader_that_stops_while_the_task_waits_for_it_ends_the_generator(two: Machines) -> None:
    stream = count.options(generator_backpressure_num_objects=1).remote(10)
    peer = two.machines["a"].peers["b"]
    wait_until(lambda: any(stream.n_come for stream in peer.streams._streams_out.values()), 20)
    del stream
    wait_until(lambda: not peer.tasks_out, 20)
