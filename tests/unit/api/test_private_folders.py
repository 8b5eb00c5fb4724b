"""Folders that are made on the way to ours are nobody else's business either."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.net import keys

from cellmesh import tune
from cellmesh.environment import pip_environment
from cellmesh.environment.packages import Package, pack, place_of
from cellmesh.startup.init_arguments import make_config


def of_init(name: str) -> Callable[[Path], object]:
    return lambda below: make_config({name: str(below / "x" / "y")})


def of_pip(below: Path) -> object:
    return pip_environment._root()


def of_keys(below: Path) -> object:
    return keys._make_root()


def of_a_package(below: Path) -> object:
    (below.parent / "module.py").write_text("")
    data = pack(str(below.parent / "module.py"))
    return place_of("/a/module.py", Package("another", None), lambda: str(below / "x"), lambda ref: data)


def of_an_experiment(**options: str) -> Callable[[Path], object]:
    return lambda below: tune.Tuner(lambda config: None, {}, storage_path=str(below / "x"), **options)._folder()


@pytest.mark.parametrize(
    "make",
    [
        of_init("log_dir"),
        of_init("offload_dir"),
        of_pip,
        of_keys,
        of_a_package,
        of_an_experiment(),
        of_an_experiment(name="named"),
    ],
    ids=["log_dir", "offload_dir", "pip", "keys", "package", "experiment", "named-experiment"],
)
def test_all_that_is_made_on_the_way_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(there / "x" / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(there / "x" / "state"))
    umask = os.umask(0o022)
    try:
        make(there)
    finally:
        os.umask(umask)
    made = [Path(folder) for folder, _, _ in os.walk(there)][1:]
    assert len(made) >= 2
    assert {oct(folder.stat().st_mode & 0o777) for folder in made} == {"0o700"}
    assert oct(there.stat().st_mode & 0o777) == "0o755", "it was there before"
