"""Modules that workers have from their birth: `cellmesh.util.preload`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from cellmesh.scheduler.node.handle import WorkerModules
from support.waiting import wait_until

from cellmesh import tune
from cellmesh.exceptions import ActorDiedError
from cellmesh.startup import worker_modules
from cellmesh.util import preload

RARE = "xml.dom.pulldom"  # which nothing of ours imports


class Newborn:
    """An actor has a process of its own."""

    def has(self, name: str) -> bool:
        return name in sys.modules

    def asks_for(self, name: str) -> None:
        preload(name)

    def parent(self) -> int:
        return os.getppid()


class Plain:
    """An actor that uses nothing of ours."""

    def has_imported(self) -> list[str]:
        """Modules of ours that this process has imported itself: what its zygote had is frozen, and not in the list."""
        modules = [each for each in gc.get_objects() if isinstance(each, ModuleType)]
        return [module.__name__ for module in modules if module.__name__.startswith("cellmesh")]


def is_there(cm: ModuleType, name: str) -> bool:
    actor = cm.remote(num_cpus=0)(Newborn).remote()
    return cm.get(actor.has.remote(name))


def test_new_workers_have_what_was_asked_for_and_so_do_those_of_the_next_zygote(cm: ModuleType) -> None:
    old = cm.remote(num_cpus=0)(Newborn).remote()
    assert not cm.get(old.has.remote(RARE))
    preload(RARE, "no_such_module_anywhere")
    wait_until(lambda: is_there(cm, RARE))
    assert not cm.get(old.has.remote(RARE))
    preload(RARE)

    cm.get(old.asks_for.remote("wave"))  # from a worker
    wait_until(lambda: is_there(cm, "wave"))

    zygote = cm.get(old.parent.remote())
    os.kill(zygote, signal.SIGKILL)

    def are_there() -> bool:
        try:
            return is_there(cm, RARE) and is_there(cm, "wave")
        except ActorDiedError:  # it had begun in one of the workers that end with the zygote
            return False

    wait_until(are_there)


def test_a_new_worker_has_all_of_ours_that_an_actor_needs(cm: ModuleType) -> None:
    plain = cm.remote(num_cpus=0)(Plain)
    wait_until(lambda: not cm.get(plain.remote().has_imported.remote()), what="a worker that imports nothing of ours")


@pytest.mark.parametrize("name", ["", "a b", "import os", "a" * 1000, 3])
def test_a_name_that_is_none(cm: ModuleType, name: object) -> None:
    with pytest.raises(ValueError, match=r"preload\(.*the name of a module"):
        preload(name)
    with pytest.raises(ValueError, match="65 modules, and a session preloads at most 64"):
        preload(*["os"] * 65)


@pytest.fixture
def as_a_program(modules_of_programs: Callable[[], WorkerModules], monkeypatch: pytest.MonkeyPatch) -> None:
    """The session goes by what has been imported here, as it does for programs."""
    monkeypatch.setattr(worker_modules, "worker_modules", modules_of_programs)


@pytest.fixture
def without_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that imports it after the session has begun."""
    monkeypatch.delitem(sys.modules, tune.__name__)


def test_workers_have_what_an_experiment_runs_from_their_birth_if_its_program_has_imported_tune(
    as_a_program: None, cm: ModuleType
) -> None:
    assert all(is_there(cm, name) for name in ("cellmesh.tune.running.host", "cellmesh.tune.trainable", "numpy.random"))


def test_workers_import_what_an_experiment_runs_while_its_program_imports_the_rest(
    without_tune: None, as_a_program: None, cm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_there(cm, "cellmesh.tune.running.host")
    monkeypatch.delitem(vars(tune), "Tuner", raising=False)
    assert tune.Tuner is not None
    wait_until(lambda: is_there(cm, "cellmesh.tune.running.host") and is_there(cm, "cellmesh.tune.trainable"))
