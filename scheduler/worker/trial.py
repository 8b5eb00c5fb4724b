"""A trial: a package is imported in a process of its own first, to see whether the zygote may
(decision 126).

What a module leaves beside itself would be in every worker: a thread exists after a fork no more, but the locks that it
held do; a descriptor, a child process and a signal handler would be shared by all.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from ...objstore._core import set_process_name
from ..ipc.messages import Package
from ..system import processes
from . import warm

# An import may take, in the zygote and in a trial, which others have to leave CPUs for. The kernel's alarm ends it,
# wherever it hangs.
IMPORT_S, TRIAL_S = 60, 300
NICE = 10
MOST_CHARS = 500  # of a reason
KILL_TIMEOUT_S = 5.0  # what a package has started dies at once, but for what hangs in the kernel
CLEAN = b"\0"
OURS = __name__.partition(".")[0]
STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


class Trial(NamedTuple):
    """One that is under way. `report`: the descriptor that has its outcome once it has ended."""

    package: Package
    pid: int
    report: int
    limit_s: int


def begin(package: Package, sys_path: Sequence[str], to_close: Sequence[int] = (), limit_s: int = TRIAL_S) -> Trial:
    """Fork the process that imports the package; `to_close`: descriptors that are not its business.

    Raises
    ------
    OSError
        There can be no further process.
    """
    parent = os.getpid()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        for fd in (reader, *to_close):
            os.close(fd)
        _run(package, sys_path, writer, parent, limit_s)
    os.close(writer)
    return Trial(package, pid, reader, limit_s)


def verdict(trial: Trial, code: int) -> str:
    """Why workers are to import the package themselves, "" if the zygote may. `code`: how the process has ended."""
    with os.fdopen(trial.report, "rb") as pipe:
        said = pipe.read(4 * MOST_CHARS)
    if said:
        return "" if said == CLEAN else said.decode(errors="replace")
    if code == -signal.SIGALRM:
        return f"its import takes more than {trial.limit_s} s"
    if code >= 0:
        return f"its import ends the process, with exit status {code}"
    return f"its import ends the process, with {signal.Signals(-code).name}"


def import_package(package: Package, sys_path: Sequence[str], limit_s: int = IMPORT_S) -> None:
    """Import a package, and those of its modules that the program has.

    Raises
    ------
    ImportError
        Another one is found than the program has.
    Exception
        Whatever its code raises.
    """
    with _limited(limit_s), _searching(sys_path), warm.noting():
        file = getattr(importlib.import_module(package.name), "__file__", None)
        if file != package.file:
            raise ImportError(f"it is found at {file}, and the program has it from {package.file}")
        for name in package.modules:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name != name:
                    raise
                # The package makes this one itself, by other ways than an import.


@contextmanager
def _limited(limit_s: int) -> Generator[None, None, None]:
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def _searching(sys_path: Sequence[str]) -> Generator[None, None, None]:
    """Modules are searched where the program does."""
    before = list(sys.path)
    sys.path[:] = [*sys_path, *(path for path in before if path not in sys_path)]
    importlib.invalidate_caches()  # it may have been installed since
    try:
        yield
    finally:
        sys.path[:] = before


# ---------------------------------------------------------------- in the process of the trial
def _run(package: Package, sys_path: Sequence[str], report: int, parent: int, limit_s: int) -> NoReturn:
    own_pid = os.getpid()
    try:
        os.setsid()  # what it leaves is killed with its group, by the zygote
        processes.die_with_parent(parent)
        processes.adopt_orphans()
        set_process_name("cellmesh-trial")
        os.nice(NICE)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        reason = _try(package, sys_path, limit_s)
        if os.getpid() == own_pid:
            processes.kill_children(KILL_TIMEOUT_S)
            os.write(report, reason.encode(errors="replace")[:MOST_CHARS] or CLEAN)
    except BaseException:  # our bug: the log has it, and the verdict is that the process has ended
        traceback.print_exc()
        os._exit(1)
    finally:
        os._exit(0)  # also a child that the package has forked: it must not go on as we would


def _try(package: Package, sys_path: Sequence[str], limit_s: int) -> str:
    """Why the zygote must not import it, or ""."""
    before, modules = _leavings(), set(sys.modules)
    try:
        import_package(package, sys_path, limit_s)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return f"its import fails here: {type(error).__name__}: {error}"
    for what, values in _leavings().items():
        if more := [value for value in values if value not in before[what]]:
            return f"its import {what} ({', '.join(more[:3])})"
    if users := [name for name in sys.modules if name not in modules and not _is_installed(name)]:
        return f"its import brings in a module of your own ({users[0]}), which may change"
    try:
        warm.forget()
        import_package(package, sys_path, limit_s)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return f"it cannot be imported anew, as a runtime_env may need it: {type(error).__name__}: {error}"
    return ""


def _leavings() -> dict[str, list[str]]:
    """What a process has beside modules, by what would be said of it."""
    return {
        "starts a thread": sorted(_threads()),
        "leaves a descriptor open": [_target(fd) for fd in os.listdir("/proc/self/fd") if _target(fd)],
        "starts a process": [
            f"{pid}: {processes.command_of(pid) or processes.name_of(pid)}" for pid in processes.children(os.getpid())
        ],
        "handles signals": sorted(_handled()),
    }


def _threads() -> Iterator[str]:
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != os.getpid():
            with open(f"/proc/self/task/{thread}/comm") as file:
                yield file.read().strip()


def _target(fd: str) -> str:
    try:
        return f"{fd}: {os.readlink(f'/proc/self/fd/{fd}')}"
    except FileNotFoundError:  # the one by which they were listed
        return ""


def _handled() -> Iterator[str]:
    """Signals that are handled, blocked or ignored, by Python or by C code."""
    for signum in signal.valid_signals():
        handler = signal.getsignal(signum)
        if handler not in (signal.SIG_DFL, signal.SIG_IGN, None):
            yield f"{signal.Signals(signum).name}: {getattr(handler, '__qualname__', handler)}"
    with open("/proc/self/status") as file:
        masks = [line.split() for line in file if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    for name, mask in masks:
        for signum in signal.valid_signals():
            if int(mask, 16) >> (signum - 1) & 1:
                yield f"{signal.Signals(signum).name} is {_WORDS[name]}"


_WORDS = {"SigBlk:": "blocked", "SigIgn:": "ignored", "SigCgt:": "caught"}


def _is_installed(name: str) -> bool:
    """Whether a module is not the user's."""
    module = sys.modules.get(name)
    file = getattr(module, "__dict__", {}).get("__file__")
    return (
        not isinstance(file, str)
        or module is sys.modules["__main__"]  # by another name, as multiprocessing has it
        or name.partition(".")[0] == OURS
        or file.startswith(STANDARD_LIBRARY)
        or any(folder in file for folder in warm.INSTALLED)
    )
