"""What workers free of their heap, arrays above all, stays with them while they work, and goes when they are idle."""

from __future__ import annotations

import os
import resource
from types import ModuleType

import numpy as np
import psutil
import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = pytest.mark.timeout(60)

MB = 1 << 20
PAGE = 4096


@cellmesh.remote
def faults_of_arrays() -> float:
    """Pages that the kernel gives for each page of arrays, which are made and freed in turns."""
    array, n = np.ones(MB // 8), 20

    def once() -> None:
        _ = [array * 2, array * 3, array * 4]

    once()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n):
        once()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (n * 3 * MB / PAGE)


@cellmesh.remote
def many_arrays() -> int:
    """All at once; a pid."""
    _ = [np.ones(MB // 8) for _ in range(48)]
    return os.getpid()


def test_arrays_take_the_place_of_those_before_them(cm: ModuleType) -> None:
    assert cm.get(faults_of_arrays.remote()) < 0.25


def test_an_idle_worker_returns_it(cm: ModuleType) -> None:
    worker = psutil.Process(cm.get(many_arrays.remote()))
    wait_until(lambda: worker.memory_info().rss < 48 * MB)


def test_who_has_said_how_the_heap_is_kept_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(MB // 8))
    with cellmesh.init(num_cpus=1):
        assert cellmesh.get(faults_of_arrays.remote()) > 0.5
