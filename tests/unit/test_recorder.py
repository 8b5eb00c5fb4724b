"""The pace of the thread that keeps the graph."""
from __future__ import annotations

import pytest

from cellmesh.kernel_ext.recorder import Pace


def test_work_takes_its_share_of_the_time() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    at = spent = 0.0
    for _ in range(1000):
        spent += 0.004
        at += max(1 / 30, pace.wait(spent, at))
    assert spent / at == pytest.approx(0.05, rel=0.02)


def test_after_a_quiet_while_there_is_no_wait_at_first_but_credit_does_not_pile_up() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    pace.wait(0.0, 1000.0)
    assert pace.wait(0.05, 1000.0) == 0.0
    assert pace.wait(0.06, 1000.0) == pytest.approx(0.2)
    assert pace.wait(0.06, 1000.2) == pytest.approx(0.0, abs=1e-9)


def test_light_work_never_waits() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    assert not any(pace.wait(0.001 * turn, turn / 30) for turn in range(300))
