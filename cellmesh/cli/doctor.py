"""`cellmesh doctor`: what keeps cellmesh from working well here, and whether the sessions are sound."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from .sessions import SilentSession, id_of, joined

if TYPE_CHECKING:
    from ..scheduler.ipc.messages import PackageState

N_SHOWN = 3  # violated invariants of a session: one stray write breaks several
ANSWER_S = 5.0
REST_S, WAKES_PER_S = 1.0, 20  # an idle process wakes less than twice a second, one that spins a thousand times


def doctor(options: argparse.Namespace) -> int:
    """Check what cellmesh needs, and the sessions that run, one line each."""
    found = list(_examinations())
    if options.json:
        print(json.dumps([{"what": what, "problem": problem} for what, problem in found]))
    else:
        for what, problem in found:
            print(f"{'ok ' if not problem else 'NOT'}  {what}{f': {problem}' if problem else ''}")
    return 1 if any(problem for _, problem in found) else 0


def _examinations() -> Iterator[tuple[str, str]]:
    from ..scheduler.node import session_dir
    from ..scheduler.system import capacity
    from ..text import in_bytes

    yield f"Python {sys.version.split()[0]}", "" if sys.version_info >= (3, 11) else "3.11 or newer is needed"
    yield f"{sys.platform}", "" if sys.platform == "linux" else "cellmesh runs on Linux"
    yield f"{capacity.usable_cpus()} CPUs may be used", ""
    yield (
        f"{in_bytes(capacity.usable_memory())} of memory may be used",
        "" if capacity.usable_memory() > 1e9 else "less than 1 GB is little for numpy in several processes",
    )
    yield "the compiled core loads", _problem_of(_load_core)
    yield "memory segments can be made (memfd)", _problem_of(_make_segment)
    yield "the folder for sessions", _problem_of(_runtime_root)
    yield "processes may be watched (pidfd)", _problem_of(_open_pidfd)
    yield "connections between machines can be encrypted (CURVE)", _problem_of(_connect_machines)
    for module in ("numpy", "pyarrow", "cloudpickle", "msgspec", "IPython", "ipykernel"):
        yield f"module {module}", "" if find_spec(module) else f"not installed: pip install {module.lower()}"
    there = shutil.which("jupyter") or find_spec("jupyterlab")
    yield "JupyterLab", "" if there else "not installed: pip install jupyterlab"
    for folder in session_dir.alive():
        problem = _problem_of_session(folder)
        yield f"session {id_of(folder)}: its tables are sound", problem
        if not problem:
            yield f"session {id_of(folder)}: it rests while nothing is to do", _restlessness_of_session(folder)
            yield from ((f"session {id_of(folder)}: {what}", "") for what in _packages_of_session(folder))


def _problem_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (OSError, ImportError, ValueError, RuntimeError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _problem_of_session(folder: str) -> str:
    from ..exceptions import CellmeshError
    from ..session.current import running

    try:
        with joined(folder):
            wrong = running().client.check()
    except (CellmeshError, SilentSession, OSError) as problem:
        return f"it cannot be looked at: {problem}"
    n_more = len(wrong) - N_SHOWN
    return "; ".join(wrong[:N_SHOWN]) + (f"; and at least {n_more} more" if n_more > 0 else "")


def _restlessness_of_session(folder: str) -> str:
    """Which of the session's own processes run though no task does; of a session at work nothing can be said."""
    from ..exceptions import CellmeshError
    from ..scheduler.system import processes
    from ..session.current import running
    from ..session.scheduler_client import NoAnswerError

    try:
        with joined(folder):
            client = running().client
            if any(row["task"] for row in client.clients()) or client.workers_wanted():
                return ""
            if any(package.state in ("waiting", "importing") for package in _packages()):
                return ""
    except (CellmeshError, SilentSession, NoAnswerError, OSError) as problem:
        return f"it cannot be looked at: {problem}"
    time.sleep(REST_S)  # what joining it has set going
    own = {
        pid: name
        for pid in processes.session_processes(id_of(folder))
        if (name := processes.name_of(pid)).startswith(("cellmesh-", "cm:"))
    }
    before = {pid: processes.wakes(pid) for pid in own}
    time.sleep(REST_S)
    restless = {pid: n for pid in own if (n := processes.wakes(pid) - before[pid]) > REST_S * WAKES_PER_S}
    return "; ".join(f"process {pid} ({own[pid]}) has run {n} times in {REST_S:g} s" for pid, n in restless.items())


def _packages_of_session(folder: str) -> Iterator[str]:
    """Which packages that its program has imported new workers have, and which they import themselves, and why."""
    from ..exceptions import CellmeshError
    from ..session.scheduler_client import NoAnswerError

    try:
        with joined(folder):
            packages = _packages()
    except (CellmeshError, SilentSession, NoAnswerError, OSError) as problem:
        yield f"which packages new workers have is not known: {problem}"
        return
    in_words = {"warm": "new workers have {}", "waiting": "tries to import {}", "importing": "imports {}"}
    for state, words in in_words.items():
        if names := [package.name for package in packages if package.state == state]:
            yield words.format(", ".join(names))
    for package in packages:
        if package.state == "cold":
            yield f"workers import {package.name} themselves, as {package.reason}"


def _packages() -> list[PackageState]:
    """What has become of the packages that the program of the session has imported that this process has joined."""
    from ..scheduler.ipc.messages import PackagesReply, PackagesRequest
    from ..session.current import running
    from ..session.scheduler_client import ask

    return ask(running().node.link, PackagesRequest, PackagesReply, ANSWER_S).packages


def _load_core() -> None:
    from ..objstore import _core  # noqa: F401 (that it can be imported is what is looked at)


def _make_segment() -> None:
    from ..objstore import _core

    os.close(_core.create_segment(1 << 20))


def _runtime_root() -> None:
    from ..scheduler.node import session_dir

    session_dir.runtime_root()


def _connect_machines() -> None:
    from ..scheduler.cluster.net import sockets

    sockets.require_encryption()


def _open_pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))
