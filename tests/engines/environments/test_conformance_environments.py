"""The conformance suite: `runtime_env`. See `conformance`."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until, wheel

import cellmesh as cm
from cellmesh.environment import packages
from cellmesh.exceptions import ActorDiedError, RuntimeEnvSetupError

PATIENCE_S = 60.0
capability = pytest.mark.capability


def get(what: Any) -> Any:
    return cm.get(what, timeout=PATIENCE_S)


def env(value: str, name: str = "CM_THERE") -> dict[str, Any]:
    return {"runtime_env": {"env_vars": {name: value}}}


@cm.remote
def look(name: str = "CM_THERE") -> tuple[str | None, int]:
    return os.environ.get(name), os.getpid()


@cm.remote
def place(module: str) -> tuple[str, list[str], object]:
    return os.getcwd(), sys.path, importlib.import_module(module).VALUE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the driver's, on a machine that no worker of the engine is on."""
    monkeypatch.setattr(packages, "machine", lambda: "a machine with folders of its own")
    folder = tmp_path / "project"
    (folder / "cm_pack").mkdir(parents=True)
    (folder / "cm_pack" / "__init__.py").write_text("VALUE = 'of a package'\n")
    (folder / "cm_helpers.py").write_text("VALUE = 'of a module'\n")
    (folder / "data.txt").write_text("of a file")
    return folder


@pytest.fixture
def away() -> Iterator[dict[str, Any]]:
    """Of a `runtime_env`: its processes have folders of their own, as on another machine."""
    folder = mkdtemp(dir="/tmp")  # a session's may not have long paths
    yield {"env_vars": {"XDG_RUNTIME_DIR": folder}}

    def is_removed() -> bool:  # an actor that ends does so, too
        shutil.rmtree(folder, ignore_errors=True)
        return not os.path.exists(folder)

    wait_until(is_removed)


@capability("environments")
def test_variables_are_of_the_tasks_that_ask_for_them(on_engine: ModuleType) -> None:
    pids: dict[str | None, set[int]] = {}
    for value in ("a", None, "b", "a", None, "b"):
        task = look.options(**env(value)) if value else look
        for found, pid in get([task.remote() for _ in range(5)]):
            assert found == value
            pids.setdefault(value, set()).add(pid)
    assert not pids["a"] & pids["b"]
    assert not (pids["a"] | pids["b"]) & pids[None]


@capability("environments")
def test_many_at_a_time(on_engine: ModuleType) -> None:
    tasks = [look, look.options(**env("a")), look.options(**env("b"))]
    found = get([tasks[n % 3].remote() for n in range(300)])
    assert [value for value, _ in found] == [None, "a", "b"] * 100


@capability("environments")
def test_a_task_that_a_task_submits_has_its_environment(on_engine: ModuleType) -> None:
    @on_engine.remote
    def outer() -> list[Any]:
        return on_engine.get([look.remote(), look.options(**env("outer")).remote()])

    (first, pid), second = get(outer.options(**env("outer")).remote())
    assert (first, pid) == second == ("outer", pid)


@capability("environments")
def test_large_values_go_in_and_come_out(on_engine: ModuleType) -> None:
    @on_engine.remote(**env("a"))
    def double(values: np.ndarray) -> np.ndarray:
        return 2 * values

    ref = on_engine.put(np.ones(200_000))
    assert get(double.remote(double.remote(ref))).sum() == 800_000


@capability("environments")
def test_a_folder_of_the_drivers(on_engine: ModuleType, project: Path, away: dict[str, Any]) -> None:
    @on_engine.remote
    def inner() -> str:
        return importlib.import_module("cm_helpers").VALUE

    @on_engine.remote(runtime_env={"working_dir": project, **away})
    def outer() -> tuple[str, str, str]:
        return os.getcwd(), Path("data.txt").read_text(), on_engine.get(inner.remote())

    where, data, value = get(outer.remote())
    assert (data, value) == ("of a file", "of a module")
    assert where.startswith(away["env_vars"]["XDG_RUNTIME_DIR"])
    assert os.path.basename(where) == "project"

    @on_engine.remote
    def here() -> str:
        return os.getcwd()

    assert where not in get([here.remote() for _ in range(20)])


@capability("environments")
def test_nothing_of_a_folder_is_left_for_the_next_task(
    on_engine: ModuleType, project: Path, away: dict[str, Any]
) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "cm_helpers.py").write_text("VALUE = 'of the other'\n")
    for folder, value in ((project, "of a module"), (other, "of the other"), (project, "of a module")):
        where, path, found = get(place.options(runtime_env={"working_dir": folder, **away}).remote("cm_helpers"))
        assert (where, found) == (path[0], value)
    for _ in range(20):
        with pytest.raises(ModuleNotFoundError, match="cm_helpers"):
            get(place.remote("cm_helpers"))


@capability("environments")
def test_modules_of_the_drivers(on_engine: ModuleType, project: Path, away: dict[str, Any]) -> None:
    task = place.options(runtime_env={"py_modules": [project / "cm_pack", project / "cm_helpers.py"], **away})
    assert get(task.remote("cm_pack"))[2] == "of a package"
    assert get(task.remote("cm_helpers"))[2] == "of a module"


@capability("environments")
def test_packages_are_installed_there(on_engine: ModuleType, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "1.0")
    lines = ["--no-index", f"--find-links {tmp_path / 'wheels'}", "cm_tiny==1.0"]

    @on_engine.remote(runtime_env={"pip": lines, "env_vars": {"XDG_CACHE_HOME": str(tmp_path / "cache")}})
    def version() -> str:
        return importlib.import_module("cm_tiny").version

    assert get([version.remote() for _ in range(4)]) == ["1.0"] * 4
    assert len([path for path in (tmp_path / "cache/cellmesh/environments").iterdir() if path.is_dir()]) == 1


@capability("environments")
def test_a_function_that_sets_it_up(on_engine: ModuleType) -> None:
    def prepare() -> None:
        os.environ["CM_THERE"] = os.environ.get("CM_THERE", "") + "prepared"

    task = look.options(runtime_env={"worker_process_setup_hook": prepare})
    assert {value for value, _ in get([task.remote() for _ in range(20)])} == {"prepared"}  # once each

    def fail() -> None:
        raise OSError("no licence")

    with pytest.raises(RuntimeEnvSetupError, match="OSError: no licence"):
        get(look.options(runtime_env={"worker_process_setup_hook": fail}).remote())
    assert get(look.remote())[0] is None


class Looks:
    def look(self, n_items: int = 1) -> Iterator[tuple[str | None, object]]:
        for _ in range(n_items):
            yield os.environ.get("CM_THERE"), importlib.import_module("cm_helpers").VALUE

    def has(self) -> tuple[str | None, str | None]:
        return os.environ.get("CM_THERE"), cm.get(look.remote())[0]


@capability("environments")
@pytest.mark.parametrize("n_calls", [1, 2])
def test_actors(on_engine: ModuleType, project: Path, away: dict[str, Any], n_calls: int) -> None:
    environment = {"working_dir": project, "env_vars": {**away["env_vars"], "CM_THERE": "actor"}}
    actor = on_engine.remote(Looks).options(runtime_env=environment, max_concurrency=n_calls).remote()
    assert get(actor.has.remote()) == ("actor", "actor")
    (ref,) = actor.look.options(num_returns="streaming").remote()
    assert get(ref) == ("actor", "of a module")
    assert get(look.remote())[0] is None

    def fail() -> None:
        raise OSError("no licence")

    with pytest.raises(ActorDiedError, match="no licence"):
        get(on_engine.remote(Looks).options(runtime_env={"worker_process_setup_hook": fail}).remote().has.remote())


@capability("environments")
def test_a_generator_is_not_far_ahead_of_its_reader(on_engine: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "items"
    folder.mkdir()

    @on_engine.remote(num_returns="streaming", generator_backpressure_num_objects=2, **env("generator"))
    def items(ended: Flag) -> Iterator[tuple[str | None, np.ndarray]]:
        try:
            for n in range(1000):
                (folder / str(n)).touch()
                yield os.environ.get("CM_THERE"), np.full(20_000, n)
        finally:
            ended.set()

    ended = Flag(tmp_path / "ended")
    reader = items.remote(ended)
    for n in range(5):
        value, array = get(next(reader))
        assert (value, array[0]) == ("generator", n)
    assert len(os.listdir(folder)) < 50
    del reader
    ended.wait()
    assert len(os.listdir(folder)) < 50


@capability("environments")
def test_what_it_prints_is_there_while_it_runs(
    on_engine: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @on_engine.remote(**env("prints"))
    def speak(goes_on: Flag) -> None:
        print(f"begins with {os.environ['CM_THERE']}")
        goes_on.wait()
        print("ends")

    said: list[str] = []

    def has_said(text: str) -> bool:
        said.append(capsys.readouterr().out)
        return text in "".join(said)

    goes_on = Flag(tmp_path / "goes on")
    ref = speak.remote(goes_on)
    wait_until(lambda: has_said("begins with prints"), PATIENCE_S)
    goes_on.set()
    get(ref)
    wait_until(lambda: has_said("ends"), PATIENCE_S)


@capability("own_environments")
def test_a_task_that_a_task_submits_asks_for_another_one(on_engine: ModuleType) -> None:
    @on_engine.remote
    def outer() -> Any:
        return on_engine.get(look.options(**env("inner")).remote())[0]

    assert get(outer.remote()) == "inner"


@capability("own_environments")
def test_so_it_does_in_an_environment(on_engine: ModuleType) -> None:
    @on_engine.remote(**env("outer"))
    def outer() -> Any:
        return on_engine.get(look.options(**env("inner")).remote())[0]

    assert get(outer.remote()) == "inner"
