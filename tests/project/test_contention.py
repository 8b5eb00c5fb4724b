"""The model of benchmarks/contention.py: clients that think and queue for one lock."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("contention", Path(__file__).parents[2] / "benchmarks/contention.py")
assert SPEC is not None and SPEC.loader is not None
contention = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(contention)


def test_one_client_never_queues() -> None:
    assert contention.mva(1, think=3.0, service=1.0) == pytest.approx(1 / 4)


def test_two_clients_meet_as_often_as_theory_says() -> None:
    # Machine repair with two machines, exponential times: rate = (1 - p0) / service, p0 = 1 / (1 + 2r + 2r^2), r =
    # service / think.
    r = 1 / 3
    assert contention.mva(2, think=3.0, service=1.0) == pytest.approx(1 - 1 / (1 + 2 * r + 2 * r * r))


def test_many_clients_get_no_more_than_the_lock_gives() -> None:
    rates = [contention.mva(n, think=100.0, service=1.0) for n in (10, 100, 1000)]
    assert rates == sorted(rates) and rates[0] == pytest.approx(10 / 101, rel=0.01) and 0.999 < rates[-1] <= 1.0
