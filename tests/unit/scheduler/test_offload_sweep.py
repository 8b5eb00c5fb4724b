"""What the local scheduler says about objects on disk, and what it deletes."""

from __future__ import annotations

import itertools
from pathlib import Path

from cellmesh.scheduler.local_scheduler.offload_sweep import FIRST_STEP_BYTES, Notices, Sweeper
from cellmesh.scheduler.node.offload_dir import SCRATCH
from support.waiting import wait_until


def test_notices_come_at_the_first_object_and_at_each_doubling() -> None:
    notices, told = Notices(), []
    for mb in range(0, 1100, 10):
        if notices.look(mb * 1_000_000):
            told.append(mb)
    assert told[0] == 10 and told[1] == -(-FIRST_STEP_BYTES // 10_000_000) * 10
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(told)) and len(told) == 4
    assert not notices.look(0), "what has come back is no news"


def test_the_sweeper_deletes_what_nobody_wants_and_nothing_else(tmp_path: Path) -> None:
    for name in ("wanted", "unwanted", "gone"):
        (tmp_path / name).touch()
    (tmp_path / f"{SCRATCH}x").mkdir()  # which is no object's

    def unwanted(names: list[str]) -> list[str]:
        (tmp_path / "gone").unlink(missing_ok=True)
        return [name for name in names if name != "wanted"]

    sweeper = Sweeper(str(tmp_path), unwanted)
    sweeper.ask()
    wait_until(lambda: not (tmp_path / "unwanted").exists())
    (tmp_path / "unwanted").touch()
    sweeper.ask()  # while it may still run
    wait_until(lambda: {path.name for path in tmp_path.iterdir()} == {"wanted", f"{SCRATCH}x"})
    wait_until(lambda: not sweeper._runs)


def test_a_folder_that_is_gone_is_nothing_to_do(tmp_path: Path) -> None:
    Sweeper(str(tmp_path / "gone"), lambda names: list(names)).sweep()
