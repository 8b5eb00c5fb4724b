"""`runtime_env={"pip": [...]}`: installed once, never half, and not for ever. Nothing here is downloaded: the wheels
are made by the tests.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until, wheel

import cellmesh
from cellmesh.environment import pip_environment, runtime_env

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where environments go, also those of workers that start from now on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "cellmesh" / "environments"
    while pip_environment._in_use:
        os.close(pip_environment._in_use.popitem()[1])


@pytest.fixture
def session(cache: Path, cm: ModuleType) -> ModuleType:
    """A session whose workers have that cache."""
    return cm


def fake_installer(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A `uv` that runs this Python in place of installing; `target` is where to."""
    folder.mkdir()
    (folder / "uv").write_text(
        f"#!{sys.executable}\nimport os, sys, time\ntarget = sys.argv[sys.argv.index('--target') + 1]\n{script}\n"
    )
    (folder / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def complete(cache: Path) -> list[str]:
    return [name for name in os.listdir(cache) if "." not in name]


@cellmesh.remote
def version_of(name="cm_tiny"):
    import importlib

    return importlib.import_module(name).version


def with_pip(*lines: object) -> dict:
    return {"runtime_env": {"pip": [str(line) for line in lines]}}


# ---------------------------------------------------------------- tasks and actors
def test_tasks_and_actors_have_their_packages(session: ModuleType, cache: Path, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", version)
    links = ["--no-index", f"--find-links {tmp_path / 'wheels'}"]
    first = version_of.options(**with_pip(*links, "cm_tiny==1.0"))
    second = version_of.options(**with_pip(*links, "cm_tiny==2.0"))
    assert session.get([first.remote(), second.remote(), first.remote()]) == ["1.0", "2.0", "1.0"]
    with pytest.raises(ModuleNotFoundError):
        session.get(version_of.remote())
    assert len(complete(cache)) == 2 and stat.S_IMODE(cache.stat().st_mode) == 0o700

    class Uses:
        def __init__(self):
            import cm_tiny

            self.version = cm_tiny.version

        def see(self):
            import subprocess

            child = subprocess.run(
                [sys.executable, "-c", "import cm_tiny; print(cm_tiny.version)"], capture_output=True, text=True
            )
            return self.version, cellmesh.get(version_of.remote()), child.stdout.strip()

    uses = session.remote(Uses).options(**with_pip(*links, "cm_tiny==1.0")).remote()
    assert session.get(uses.see.remote()) == ("1.0", "1.0", "1.0"), "what it submits and what it starts have them, too"
    assert len(complete(cache)) == 2


def test_a_wheel_and_a_file_of_requirements(session: ModuleType, tmp_path: Path) -> None:
    path = wheel(tmp_path / "wheels")
    assert session.get(version_of.options(**with_pip("--no-index", path)).remote()) == "1.0"
    (tmp_path / "requirements.txt").write_text("# ours\n--no-index\n--find-links wheels\n\ncm_tiny\n")
    task = version_of.options(runtime_env={"pip": tmp_path / "requirements.txt"})
    assert session.get(task.remote()) == "1.0"


def test_what_cannot_be_installed_says_what_the_installer_said(
    session: ModuleType, cache: Path, tmp_path: Path
) -> None:
    task = version_of.options(**with_pip("--no-index", "cm_nowhere==3"))
    with pytest.raises(
        session.exceptions.RuntimeEnvSetupError,
        match=r"^(pip|uv) could not install --no-index, cm_nowhere==3: exit status \d+, .*cm_nowhere",
    ) as caught:
        session.get(task.remote())
    assert "cm_nowhere" in str(caught.value).partition("The last it said:")[2]
    assert complete(cache) == [] and not list(cache.glob("*.new"))
    with pytest.raises(session.exceptions.ActorDiedError, match="cm_nowhere"):
        actor = session.remote(type("A", (), {"see": lambda self: 1})).options(
            **with_pip("--no-index", "cm_nowhere==3")
        )
        session.get(actor.remote().see.remote())


def test_a_cancelled_installation_leaves_nothing(
    cache: Path, tmp_path: Path, flag: Callable[[str], Flag], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_installer(
        tmp_path / "bin",
        monkeypatch,
        f"open({str(tmp_path / 'pid')!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(tmp_path / 'pid')!r} + '.new', {str(tmp_path / 'pid')!r})\nwhile True: time.sleep(0.01)",
    )
    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20):
        ref = version_of.options(**with_pip("anything")).remote()
        wait_until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        cellmesh.cancel(ref)
        with pytest.raises(cellmesh.exceptions.TaskCancelledError):
            cellmesh.get(ref)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        assert complete(cache) == [] and not list(cache.glob("*.new"))


def test_an_installation_ends_with_its_worker(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_installer(
        tmp_path / "bin",
        monkeypatch,
        f"open({str(tmp_path / 'pid')!r}, 'a').write(f'{{os.getpid()}} ')\nwhile True: time.sleep(0.01)",
    )
    with cellmesh.init(num_cpus=1, object_store_memory=64 << 20):
        ref = version_of.options(max_retries=0, **with_pip("anything")).remote()
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith(" "))
        cellmesh.cancel(ref, force=True)
        pid = int((tmp_path / "pid").read_text())
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        fake = tmp_path / "bin" / "uv"
        fake.write_text(
            f"#!{sys.executable}\nimport os, sys\ntarget = sys.argv[sys.argv.index('--target') + 1]\nos.mkdir(target)\n"
            "open(target + '/cm_tiny.py', 'w').write('version = 9')\n"
        )
        assert cellmesh.get(version_of.options(**with_pip("anything")).remote()) == 9, (
            "what was left by it is no obstacle"
        )


def test_one_installs_and_the_others_wait(
    cache: Path, tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_installer(
        tmp_path / "bin",
        monkeypatch,
        f"open({str(counter.path)!r}, 'a').write('.')\ntime.sleep(0.2)\nos.mkdir(target)\n"
        "open(target + '/cm_tiny.py', 'w').write('version = 5')\n",
    )
    with cellmesh.init(num_cpus=4, object_store_memory=64 << 20):
        task = version_of.options(**with_pip("anything"))
        assert cellmesh.get([task.remote() for _ in range(8)]) == [5] * 8
    assert counter.value == 1


@pytest.mark.timeout(30)
def test_who_installs_waits_for_none_that_has_only_looked(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that look at once, one installs, and uses it for as long as it lives; the other may look at that moment,
    too.
    """
    fake_installer(tmp_path / "bin", monkeypatch, "os.mkdir(target)")
    os.makedirs(cache, 0o700)
    os.chmod(cache.parent, 0o700)
    looks = os.open(cache / f"{pip_environment.digest_of(['anything'])}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(looks, fcntl.LOCK_SH)
    assert os.path.isdir(pip_environment.provide(["anything"]))
    os.close(looks)


# ---------------------------------------------------------------- the folder
def test_a_time_limit(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_installer(tmp_path / "bin", monkeypatch, "print('resolving', flush=True)\nwhile True: time.sleep(0.01)")
    monkeypatch.setattr(pip_environment, "INSTALL_S", 0.5)
    with pytest.raises(cellmesh.exceptions.RuntimeEnvSetupError, match=r"it has not ended within 0.5 s"):
        pip_environment.provide(["anything"])
    assert complete(cache) == []


def test_who_waited_for_a_failure_has_it_and_who_comes_later_tries(
    cache: Path, tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_installer(
        tmp_path / "bin", monkeypatch, f"open({str(counter.path)!r}, 'a').write('.')\nsys.exit('no such thing')"
    )
    for n in (1, 2):
        with pytest.raises(cellmesh.exceptions.RuntimeEnvSetupError, match="no such thing"):
            pip_environment.provide(["anything"])
        assert counter.value == n
    failed = str(cache / pip_environment.digest_of(["anything"]))
    with pytest.raises(cellmesh.exceptions.RuntimeEnvSetupError, match="no such thing"):
        pip_environment._raise_recent_failure(failed, 0.0)
    pip_environment._raise_recent_failure(failed, float("inf"))
    pip_environment._raise_recent_failure(failed, 0.0)


def test_the_oldest_go_but_none_that_is_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_installer(tmp_path / "bin", monkeypatch, "os.mkdir(target)")
    monkeypatch.setattr(pip_environment, "MOST_ENVIRONMENTS", 3)
    folders = []
    for i in range(6):
        folders.append(pip_environment.provide([f"package-{i}"]))
        os.utime(folders[-1], (i, i))
        if i != 1:
            os.close(pip_environment._in_use.pop(os.path.basename(folders[-1])))
    pip_environment.sweep(str(cache))
    assert [os.path.exists(folder) for folder in folders] == [False, True, False, False, True, True]


def test_another_file_is_another_environment(cache: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path / "wheels")
    before = pip_environment.digest_of([str(path)])
    wheel(tmp_path / "wheels", code="more = 1")
    assert before != pip_environment.digest_of([str(path)]) != pip_environment.digest_of([])


def test_a_cache_that_others_could_write_to_is_not_used(cache: Path) -> None:
    os.makedirs(cache)
    cache.chmod(0o777)
    with pytest.raises(PermissionError, match="must be a folder of yours with mode 0700"):
        pip_environment.provide(["anything"])


def test_paths_among_the_requirements_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheel(tmp_path / "wheels")
    monkeypatch.chdir(tmp_path)
    given = [
        "six",
        " numpy>=1 ",
        "# no",
        f"./wheels/{path.name}",
        "--find-links=wheels",
        "-f wheels",
        "--no-index",
        "git+https://host/x/y",
        "x @ https://host/x.whl",
        "--index-url https://host/simple",
    ]
    assert pip_environment.lines_of(given) == (
        "six",
        "numpy>=1",
        str(path),
        f"--find-links {tmp_path / 'wheels'}",
        f"-f {tmp_path / 'wheels'}",
        "--no-index",
        "git+https://host/x/y",
        "x @ https://host/x.whl",
        "--index-url https://host/simple",
    )
    assert runtime_env.folders_of(runtime_env.normal({"pip": given})) == [str(path)]


def test_without_an_installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip_environment.installer()[1:3] == ["-m", "pip"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(cellmesh.exceptions.RuntimeEnvSetupError, match="neither uv nor pip"):
        pip_environment.installer()
