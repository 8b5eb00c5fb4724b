"""Some of the kills of `tests/engines/faults/kill_drill.py`; `make nightly` has two hundred."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from engines.faults.kill_drill import drills


def test_what_was_killed_on_the_way_changes_no_value(start: Callable[..., ModuleType]) -> None:
    start()
    assert not (wrong := drills(0, range(8))), "\n".join(wrong)
