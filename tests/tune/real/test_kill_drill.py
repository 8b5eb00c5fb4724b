"""Some of the kills of `tests/tune/kill_drill.py`; `make nightly` has three hundred."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import cloudpickle
import pytest
from tune.kill_drill import NAME, begin, drills, outcome, tuner

import cellmesh
from cellmesh.tune import journal


@pytest.mark.parametrize("block", range(4))
def test_what_was_killed_goes_on_as_if_it_had_not_been(block: int) -> None:
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    try:
        assert not (wrong := drills(1, range(15 * block, 15 * block + 15, 5))), "\n".join(wrong)
    finally:
        cellmesh.shutdown()


@pytest.mark.parametrize(("policy", "step"), [("asha", 2), ("hyperband", 3)])
def test_from_any_record_on_it_goes_on_as_if_nothing_had_been(policy: str, step: int, tmp_path: Path) -> None:
    """A controller that has died between any two records, those that follow from one event included."""
    module = sys.modules["tune.kill_drill"]
    cloudpickle.register_pickle_by_value(module)
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    try:
        whole = tuner(policy, tmp_path, n_trials=3, num_to_keep=None).fit()
        expected = outcome(whole)
        lines = (tmp_path / NAME / journal.FILE).read_bytes().splitlines(keepends=True)
        for n in range(1, len(lines), step):
            storage = tmp_path / str(n)
            shutil.copytree(tmp_path / NAME, storage / NAME)
            (storage / NAME / journal.FILE).write_bytes(b"".join(lines[:n]) + lines[n][: n % 7])
            assert outcome(begin(policy, storage).wait(timeout=60)) == expected, f"from record {n} on"
    finally:
        cellmesh.shutdown()
        cloudpickle.unregister_pickle_by_value(module)
