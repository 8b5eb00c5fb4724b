"""Workers begin with what their program has imported, where that does no harm."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from cellmesh.scheduler.ipc.messages import Package, PackagesImported, PackagesReply, PackagesRequest
from support.waiting import wait_until

from cellmesh.session.current import current
from cellmesh.session.scheduler_client import ask

Install = Callable[..., PackagesImported]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """install(name="its code") makes modules in a folder of installed ones, and the message that they are imported."""
    site = tmp_path / "site-packages"
    site.mkdir()

    def install(**code: str) -> PackagesImported:
        for name, text in code.items():
            (site / f"{name}.py").write_text(textwrap.dedent(text))
        packages = [Package(name, str(site / f"{name}.py"), [name]) for name in code]
        return PackagesImported(packages, [str(site), *sys.path])

    return install


class Newborn:
    """An actor has a process of its own."""

    def has(self, name: str) -> bool:
        return name in sys.modules

    def imports(self, name: str, folder: str) -> object:
        import importlib

        sys.path.append(folder)
        return importlib.import_module(name).value

    def parent(self) -> int:
        return os.getppid()


def newborn(cm: ModuleType):
    return cm.remote(num_cpus=0)(Newborn).remote()


def tell(imported: PackagesImported) -> dict[str, str]:
    """Tell that a program has imported something; what becomes of each, with the reason, once that is certain."""
    current().node.link.send(imported)
    return wait_until(settled, what="the packages have been tried")


def settled() -> dict[str, str]:
    packages = ask(current().node.link, PackagesRequest, PackagesReply, 5.0).packages
    done = bool(packages) and all(package.state in ("warm", "cold") for package in packages)
    return {package.name: package.reason or package.state for package in packages} if done else {}


def test_a_new_worker_has_what_is_clean_and_imports_the_rest_itself(
    cm: ModuleType, install: Install, tmp_path: Path
) -> None:
    old = newborn(cm)
    assert not cm.get(old.has.remote("warm_clean"))
    became = tell(
        install(
            warm_clean="value = 1",
            warm_threads="""
                import threading
                threading.Thread(target=threading.Event().wait, daemon=True).start()
                value = 2
                """,
            warm_opens="value, file = 3, open(__file__)",
        )
    )
    assert became.pop("warm_clean") == "warm"
    assert became.pop("warm_threads").startswith("its import starts a thread")
    assert became.pop("warm_opens").startswith("its import leaves a descriptor open") and not became
    new = newborn(cm)
    has = [cm.get(new.has.remote(f"warm_{name}")) for name in ("clean", "threads", "opens")]
    assert has == [True, False, False]
    site = str(tmp_path / "site-packages")
    assert [cm.get(new.imports.remote(f"warm_{name}", site)) for name in ("clean", "threads", "opens")] == [1, 2, 3]
    assert not cm.get(old.has.remote("warm_clean"))


def test_idle_workers_are_replaced_by_such_that_have_it(cm: ModuleType, install: Install) -> None:
    @cm.remote
    def has() -> tuple[bool, int]:
        return "warm_soon" in sys.modules, os.getpid()

    before = {pid for _, pid in cm.get([has.remote() for _ in range(8)])}
    tell(install(warm_soon=""))
    wait_until(lambda: cm.get(has.remote())[0], what="a task finds it imported")
    after = {pid for there, pid in cm.get([has.remote() for _ in range(8)]) if there}
    assert after and not after & before


def test_workers_are_forked_while_a_trial_goes_on(cm: ModuleType, install: Install) -> None:
    address = f"\0warm workers of {os.getpid()}"
    package = f"""
        import socket
        with socket.socket(socket.AF_UNIX) as there:
            there.connect({address!r})
            there.recv(1)
        """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(30)
        current().node.link.send(install(warm_slow=package))
        with listener.accept()[0]:
            assert not cm.get(newborn(cm).has.remote("warm_slow"))
        for _ in ("the trial, anew", "the zygote"):
            listener.accept()[0].close()
    wait_until(lambda: cm.get(newborn(cm).has.remote("warm_slow")), what="a worker has it")


def test_what_ends_the_zygote_is_not_tried_again_and_the_rest_is(
    cm: ModuleType, install: Install, tmp_path: Path
) -> None:
    times = tmp_path / "times"
    became = tell(
        install(
            warm_before="",
            warm_ends=f"""
                import os
                with open({str(times)!r}, "a") as file:
                    file.write("x")
                if os.stat({str(times)!r}).st_size == 3:  # after both of its trial
                    os._exit(1)
                """,
            warm_after="",
        )
    )
    assert became == {
        "warm_before": "warm",
        "warm_ends": "the process that forks workers has ended in its import",
        "warm_after": "warm",
    }
    new = newborn(cm)
    assert [cm.get(new.has.remote(name)) for name in became] == [True, False, True]


def test_a_worker_with_a_runtime_env_imports_anew(cm: ModuleType, install: Install, tmp_path: Path) -> None:
    code = "import os; value = os.environ.get('WARM_COLOUR', 'none')"
    assert tell(install(warm_reads=code, warm_shadowed="value = 'installed'"))["warm_reads"] == "warm"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "warm_shadowed.py").write_text("value = 'own'")
    site = str(tmp_path / "site-packages")

    def values(runtime_env: dict[str, object]) -> list[object]:
        actor = cm.remote(num_cpus=0, runtime_env=runtime_env)(Newborn).remote()
        return cm.get([actor.imports.remote(name, site) for name in ("warm_reads", "warm_shadowed")])

    assert values({"env_vars": {"WARM_COLOUR": "red"}}) == ["red", "installed"]
    assert values({"working_dir": str(tmp_path / "own")}) == ["none", "own"]


def test_what_cannot_be_imported_anew_stays_cold(cm: ModuleType, install: Install) -> None:
    once = "import sys\nassert not hasattr(sys, 'warm_once'), 'once is enough'\nsys.warm_once = True"
    (became,) = tell(install(warm_once=once)).values()
    assert became == "it cannot be imported anew, as a runtime_env may need it: AssertionError: once is enough"


def test_exit_functions_of_a_warm_package_stay_out_of_workers_and_their_own_run(
    cm: ModuleType, install: Install, tmp_path: Path
) -> None:
    class Leaves:
        def make(self, path: str) -> None:
            weakref.finalize(self, Path(path).touch)

    package = f"""
        import atexit, pathlib, weakref
        class Holder: pass
        holder = Holder()
        atexit.register(pathlib.Path({str(tmp_path / "theirs")!r}).touch)
        weakref.finalize(holder, pathlib.Path({str(tmp_path / "theirs too")!r}).touch)
        """
    tell(install(warm_at_exit=package))
    for path in tmp_path.glob("theirs*"):  # of the trial, which has let go of it
        path.unlink()
    actor = cm.remote(num_cpus=0)(Leaves).remote()
    cm.get(actor.make.remote(str(tmp_path / "own")))
    del actor
    wait_until((tmp_path / "own").exists, what="the actor's process ends")
    assert not list(tmp_path.glob("theirs*"))


# A program of which pytest is no part: what it imports is learned without its doing.
PROGRAM = """
import json, subprocess, sys
import warm_by_name
from warm_by_function import function as f
import cellmesh

@cellmesh.remote
def has():
    import sys
    return [name for name in sys.modules if name.startswith(("warm_", "own_"))]

import own_module
cellmesh.init(num_cpus=1)
cellmesh.get(has.remote())
while len(found := cellmesh.get(has.remote())) < 4:
    pass
said = subprocess.run([sys.executable, "-m", "cellmesh.cli", "doctor", "--json"], capture_output=True, text=True).stdout
print(json.dumps([sorted(found), [row["what"].partition(": ")[2] for row in json.loads(said)]]))
"""


def test_what_a_script_imports_is_learned_and_the_doctor_names_it(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "warm_by_name").mkdir(parents=True)
    (site / "warm_by_name" / "__init__.py").touch()
    (site / "warm_by_name" / "part.py").touch()
    (site / "warm_by_function.py").write_text("def function(): pass")
    (site / "warm_by_own.py").touch()
    (site / "warm_handles.py").write_text("import signal; signal.signal(signal.SIGUSR1, print)")
    (tmp_path / "own_module.py").write_text("import warm_by_own, warm_by_name.part, warm_handles")
    (tmp_path / "program.py").write_text(PROGRAM)
    path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop("PYTHONSAFEPATH", None)
    run = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    found, told = json.loads(run.stdout)
    assert found == ["warm_by_function", "warm_by_name", "warm_by_name.part", "warm_by_own"]
    (warm,) = [line for line in told if line.startswith("new workers have ")]
    assert sorted(warm.removeprefix("new workers have ").split(", ")) == [
        "warm_by_function",
        "warm_by_name",
        "warm_by_own",
    ]
    (cold,) = [line for line in told if line.startswith("workers import ")]
    assert cold.startswith("workers import warm_handles themselves, as its import handles signals (SIGUSR1")
