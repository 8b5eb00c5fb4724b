"""`runtime_env={"pip": [...]}`: packages in a folder of their own, which a worker puts before everything else that it
imports.

    <cache>/cellmesh/environments/<digest>/          what was installed, once for each list of requirements and Python
    <cache>/cellmesh/environments/<digest>.new/      while it is installed
    <cache>/cellmesh/environments/<digest>.turn      held by who installs
    <cache>/cellmesh/environments/<digest>.lock      held together by those who use it or wait for it, alone to delete

All of it is for this user alone (mode 0700). What is complete is renamed, so nothing that is half installed is ever
used.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..exceptions import RuntimeEnvSetupError

INSTALL_S = 900.0  # an installation may take
MOST_ENVIRONMENTS = 20  # are kept; the one that was used last the longest time ago goes first
TAIL_LINES, TAIL_CHARS = 20, 4000  # of what the installer has said, in an error

_in_use: dict[str, int] = {}  # by digest: the lock, which this process holds until it ends


def lines_of(value: Any) -> tuple[str, ...]:
    """The requirements that a user means: a list of them, or the path of a file with one in each line.

    Raises
    ------
    OSError
        There is no such file.
    """
    if isinstance(value, (str, os.PathLike)):
        with open(value, encoding="utf-8") as file:
            given: Sequence[str] = file.read().splitlines()
        folder = os.path.dirname(os.path.abspath(value))
    else:
        given, folder = value, os.getcwd()
    lines = (line.strip() for line in given)
    return tuple(_absolute(line, folder) for line in lines if line and not line.startswith("#"))


def local_files(lines: Sequence[str]) -> list[str]:
    """Those of the requirements that are files or folders of this machine."""
    return [line for line in lines if os.path.isabs(line) and os.path.exists(line)]


def _absolute(line: str, folder: str) -> str:
    """A line with the path in it, if there is one, from the root."""
    if line.startswith("-"):  # "--find-links wheels"
        option, _, path = re.sub(r"[ =]+", " ", line, count=1).partition(" ")
        found = os.path.normpath(os.path.join(folder, path)) if path else ""
        return f"{option} {found}" if found and os.path.exists(found) else line
    found = os.path.normpath(os.path.join(folder, line))
    return found if os.sep in line and os.path.exists(found) else line


# ---------------------------------------------------------------- in a worker
def enter(lines: Sequence[str]) -> None:
    """Have this process import from an environment with these requirements, for good; it is installed if it is not
    there yet.

    Raises
    ------
    RuntimeEnvSetupError
        They could not be installed.
    """
    import importlib
    import site

    folder = provide(lines)
    before = list(sys.path)
    site.addsitedir(folder)
    added = [path for path in sys.path if path not in before]
    sys.path[:] = [*added, *before]
    importlib.invalidate_caches()
    for variable, path in (("PYTHONPATH", folder), ("PATH", os.path.join(folder, "bin"))):  # for what it starts
        os.environ[variable] = os.pathsep.join(filter(None, (path, os.environ.get(variable))))


def provide(lines: Sequence[str]) -> str:
    """The folder of an environment, installed if it is not there yet. It stays as long as this process."""
    root = _root()
    digest = digest_of(lines)
    folder, asked_at = os.path.join(root, digest), time.time()
    lock = _in_use.get(digest)
    if lock is None:
        lock = _in_use[digest] = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Until this process ends, so nobody may ever wait for the others to let go.
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        if not os.path.isdir(folder):
            with _turn(folder):
                if not os.path.isdir(folder):  # who had the turn before has not installed it
                    _raise_recent_failure(folder, asked_at)
                    _install(lines, folder)
                    sweep(root)
        os.utime(folder)  # used
    except BaseException:
        os.close(_in_use.pop(digest))
        raise
    return folder


def digest_of(lines: Sequence[str]) -> str:
    """What an environment is known by: its requirements, the files among them as they are now, and this Python."""
    import hashlib
    import sysconfig

    files = [(path, os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in local_files(lines)]
    told = repr((list(lines), files, sys.version, sysconfig.get_platform(), sys.prefix))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def sweep(root: str) -> None:
    """Delete the environments that are too many, and what installers that died have left; nothing that a process
    uses.
    """
    names = os.listdir(root)
    complete = sorted(
        (name for name in names if "." not in name), key=lambda name: os.stat(os.path.join(root, name)).st_mtime
    )
    n_too_many = len(complete) - MOST_ENVIRONMENTS
    for name in [*(name for name in names if name.endswith(".new")), *complete]:
        if n_too_many <= 0 and not name.endswith(".new"):
            return
        with _alone(os.path.join(root, f"{name.removesuffix('.new')}.lock")) as is_alone:
            if is_alone:
                shutil.rmtree(os.path.join(root, name))
                n_too_many -= not name.endswith(".new")


@contextmanager
def _turn(folder: str) -> Iterator[None]:
    """One after the other."""
    lock = os.open(f"{folder}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Whether nobody else uses what a lock is for, until the end of the block."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
        except BlockingIOError:
            is_alone = False
        yield is_alone
    finally:
        os.close(lock)


def _root() -> str:
    from ..scheduler.node import private_dir

    root = os.path.join(private_dir.user_cache(), "cellmesh", "environments")
    private_dir.make_with_parents(os.path.dirname(root))
    private_dir.make(root)
    return root


# ---------------------------------------------------------------- installing
def _install(lines: Sequence[str], folder: str) -> None:
    fresh = f"{folder}.new"
    if os.path.isdir(fresh):  # the process that was at it has died
        shutil.rmtree(fresh)
    os.mkdir(fresh, 0o700)
    try:
        requirements, said = os.path.join(fresh, "requirements.txt"), os.path.join(fresh, "installer.log")
        with open(requirements, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        command = [*installer(), "--target", os.path.join(fresh, "site"), "--requirement", requirements]
        print(f"cellmesh: installs {', '.join(lines)} for a runtime_env", file=sys.stderr)
        with open(said, "wb") as log:
            outcome = _run(command, log)
        if outcome:
            name, last = "pip" if command[0] == sys.executable else "uv", _tail(said)
            _fail(
                folder,
                f"{name} could not install {', '.join(lines)}: "
                f"{outcome}{last and f', {last.splitlines()[-1].strip()}'}. The last it said:\n{last}",
            )
        os.rename(os.path.join(fresh, "site"), folder)
    finally:
        shutil.rmtree(fresh)


def installer() -> list[str]:
    """The command that installs: uv where it is there, which is faster, else pip of this Python."""
    from importlib.util import find_spec

    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, "--no-progress"]
    if find_spec("pip") is not None:
        return [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ]
    raise RuntimeEnvSetupError(
        f"there is neither uv nor pip for {sys.executable} to install packages with: install one of them, "
        f"or run {sys.executable} -m ensurepip"
    )


def _run(command: Sequence[str], log: Any) -> str:
    """Run the installer; "" or why it has failed.

    It ends with the process that waits for it: the task is cancelled, the worker dies.
    """
    from ..objstore._core import set_death_signal

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=partial(set_death_signal, signal.SIGKILL),
        cwd="/",
        env={**os.environ, "PIP_USER": "0"},
    )  # which does not go with --target
    try:
        status = process.wait(INSTALL_S)
    except subprocess.TimeoutExpired:
        return f"it has not ended within {INSTALL_S:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"exit status {status}" if status else ""


def _fail(folder: str, why: str) -> None:
    with open(f"{folder}.failed", "w", encoding="utf-8") as file:
        file.write(why)
    raise RuntimeEnvSetupError(why)


def _raise_recent_failure(folder: str, asked_at: float) -> None:
    """A worker that has waited while another one tried the same in vain raises its error."""
    path = f"{folder}.failed"
    try:
        failed_at = os.stat(path).st_mtime
    except FileNotFoundError:
        return
    if failed_at >= asked_at:
        with open(path, encoding="utf-8") as file:
            raise RuntimeEnvSetupError(file.read())
    os.unlink(path)


def _tail(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read()[-TAIL_CHARS:].splitlines()[-TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines)
