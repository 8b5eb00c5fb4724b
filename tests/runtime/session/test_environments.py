"""What processes find around them: runtime_env, and what the driver changes after its workers have started."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def look(name: str = "CM_TEST") -> tuple[str | None, int]:
    return os.environ.get(name), os.getpid()


@cellmesh.remote
def folder_and_value(module: str) -> tuple[str, object]:
    return os.getcwd(), importlib.import_module(module).VALUE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package `cm_pack` and a module `cm_mod`."""
    (tmp_path / "cm_pack").mkdir()
    (tmp_path / "cm_pack" / "__init__.py").write_text("VALUE = 'package'\n")
    (tmp_path / "cm_mod.py").write_text("VALUE = 1\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _place_kept() -> Iterator[None]:
    path, folder = list(sys.path), os.getcwd()
    yield
    sys.path[:] = path
    os.chdir(folder)
    for name in ("cm_pack", "cm_mod"):
        sys.modules.pop(name, None)


def env(value: str) -> dict:
    return {"runtime_env": {"env_vars": {"CM_TEST": value}}}


# ---------------------------------------------------------------- runtime_env
def test_workers_are_not_shared_between_environments(cm: ModuleType) -> None:
    seen: dict[str | None, set[int]] = {}
    for value in ("a", None, "b", "a", None, "b"):
        task = look.options(**env(value)) if value else look
        for found, pid in cm.get([task.remote() for _ in range(5)], timeout=30):
            assert found == value
            seen.setdefault(value, set()).add(pid)
    assert not seen["a"] & seen["b"] and not seen["a"] & seen[None] and not seen["b"] & seen[None]
    assert len(seen["a"]) <= 4  # but within one environment they are reused


def test_mixed_environments_under_load(cm: ModuleType) -> None:
    tasks = [look, look.options(**env("a")), look.options(**env("b"))]
    found = cm.get([tasks[i % 3].remote() for i in range(300)], timeout=50)
    assert [value for value, _ in found] == [None, "a", "b"] * 100


def test_actors_and_children_inherit(cm: ModuleType) -> None:
    @cm.remote
    class Parent:
        def see(self):
            return os.environ["CM_TEST"], cm.get(look.remote())[0]

        def merged(self):
            other = look.options(runtime_env={"env_vars": {"CM_OTHER": "more"}})
            return cm.get([other.remote(), other.remote("CM_OTHER")])

    parent = Parent.options(**env("inherited")).remote()
    assert cm.get(parent.see.remote(), timeout=30) == ("inherited", "inherited")
    assert [value for value, _ in cm.get(parent.merged.remote(), timeout=30)] == ["inherited", "more"]


def test_the_sessions_environment_is_the_default() -> None:
    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20, **env("session")):
        assert cellmesh.get(look.remote())[0] == "session"
        assert cellmesh.get(look.options(**env("own")).remote(), timeout=30)[0] == "own"
        with pytest.raises(cellmesh.exceptions.AlreadyInitializedError, match="runtime_env"):
            cellmesh.init(**env("other"))


def test_working_dir_and_py_modules(cm: ModuleType, package: Path) -> None:
    task = folder_and_value.options(runtime_env={"working_dir": str(package)})
    assert cm.get(task.remote("cm_mod")) == (str(package), 1)
    task = folder_and_value.options(runtime_env={"py_modules": [package / "cm_pack"]})
    assert cm.get(task.remote("cm_pack")) == (os.getcwd(), "package")
    with pytest.raises(ModuleNotFoundError):
        cm.get(folder_and_value.remote("cm_mod"))


def test_setup_hooks(cm: ModuleType, package: Path) -> None:
    def prepare():
        os.environ["CM_TEST"] = os.environ.get("CM_TEST", "") + "prepared"

    task = look.options(runtime_env={"worker_process_setup_hook": prepare})
    assert {value for value, _ in cm.get([task.remote() for _ in range(20)])} == {"prepared"}  # once each

    def fail():
        raise OSError("no licence")

    with pytest.raises(cm.exceptions.RuntimeEnvSetupError, match="OSError: no licence"):
        cm.get(look.options(runtime_env={"worker_process_setup_hook": fail}).remote())
    actor = cm.remote(type("Actor", (), {"see": lambda self: 1}))
    with pytest.raises(cm.exceptions.ActorDiedError, match="no licence"):
        cm.get(actor.options(runtime_env={"worker_process_setup_hook": fail}).remote().see.remote())


@pytest.mark.parametrize(
    "value",
    [
        {"pip": [1]},
        {"pip": "/nowhere.txt"},
        {"conda": "x"},
        {"env_vars": {"A": 1}},
        {"working_dir": "/nowhere"},
        {"py_modules": "x"},
        {"worker_process_setup_hook": 3},
    ],
)
def test_what_cannot_be_served_is_refused_by_name(value: dict) -> None:
    with pytest.raises(
        ValueError, match=r"runtime_env=.*must be a dict with some of the keys env_vars.*For conda"
    ) as raised:
        look.options(runtime_env=value)
    assert next(iter(value)) in str(raised.value)
    with pytest.raises(ValueError, match="runtime_env"):
        cellmesh.init(runtime_env=value)


@pytest.mark.parametrize("value", [{"working_dir": "/nowhere"}, {"py_modules": [os, "/nowhere"]}, {"pip": "/nowhere"}])
def test_a_folder_that_is_not_there_is_named(value: dict) -> None:
    for ask in (look.options, cellmesh.init):
        with pytest.raises(ValueError, match=r"There is no '/nowhere' on this machine$"):
            ask(runtime_env=value)


# ---------------------------------------------------------------- the driver's own
def test_what_the_driver_adds_to_its_path_later_reaches_workers(cm: ModuleType, package: Path) -> None:
    assert cm.get(look.remote())[0] is None
    sys.path.append(str(package))

    @cm.remote
    def use():
        import cm_mod

        return cm_mod.VALUE

    assert cm.get(use.remote()) == 1


def test_where_the_driver_goes_workers_follow(cm: ModuleType, tmp_path: Path) -> None:
    here = cm.remote(lambda: os.getcwd())
    assert cm.get(here.remote()) == os.getcwd()
    os.chdir(tmp_path)
    assert cm.get(cm.remote(lambda: os.getcwd()).remote()) == str(tmp_path)
    assert cm.get(here.remote()) == str(tmp_path)


def test_modules_that_the_driver_reloads_are_loaded_anew(cm: ModuleType, package: Path) -> None:
    sys.path.insert(0, str(package))
    import cm_mod

    value = cm.remote(lambda: importlib.import_module("cm_mod").VALUE)
    assert cm.get(value.remote()) == 1
    Keeps = cm.remote(type("Keeps", (), {"value": lambda self: importlib.import_module("cm_mod").VALUE}))
    keeps = Keeps.remote()
    assert cm.get(keeps.value.remote()) == 1
    (package / "cm_mod.py").write_text("VALUE = 'edited'\n")
    importlib.reload(cm_mod)
    from cellmesh.session.current import current

    current().forget_changed_code()  # as between two cells
    assert cm.get([value.remote() for _ in range(10)]) == ["edited"] * 10
    assert cm.get(keeps.value.remote()) == 1, "actors stay what they are"


def test_a_busy_worker_goes_when_its_task_has_ended(cm: ModuleType, tmp_path: Path, flag) -> None:
    @cm.remote
    def busy(started, go):
        started.set_by_me()
        go.wait()
        return os.getcwd()

    before = os.getcwd()
    running = busy.remote(flag("started"), flag("go"))
    pid = int(flag("started").wait())
    os.chdir(tmp_path)
    assert cm.get(cm.remote(lambda: os.getcwd()).remote()) == str(tmp_path)
    flag("go").set()
    assert cm.get(running) == before
    wait_until(lambda: pid not in {worker["pid"] for worker in cm.state.list_workers()})
