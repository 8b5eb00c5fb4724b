"""`cellmesh status | list | memory | stop | doctor`: looks at this user's sessions on this machine, and ends them.

Sessions are found by their folders; the commands join one as another driver, look, and leave.
"""
from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

LISTS = ("tasks", "actors", "objects", "workers", "nodes")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status: 0, or 1 if something is not as it should be, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="cellmesh", description="Sessions of cellmesh on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("status", help="what runs, and what it holds").set_defaults(run=status)
    listing = commands.add_parser("list", help="tasks, actors, objects, workers or nodes of a session")
    listing.add_argument("what", choices=LISTS)
    listing.add_argument("--limit", type=int, default=50, help="rows at most (default: %(default)s)")
    listing.set_defaults(run=list_rows)
    commands.add_parser("memory", help="what holds the object store's memory").set_defaults(run=memory)
    stop_command = commands.add_parser("stop", help="end sessions, with every process of theirs; notebooks stay")
    stop_command.add_argument("sessions", nargs="*", help="ids as `status` shows them; default: all")
    stop_command.set_defaults(run=stop)
    commands.add_parser("doctor", help="look for what keeps cellmesh from working well here").set_defaults(run=doctor)
    options = parser.parse_args(arguments)
    return options.run(options)


def _sessions() -> list[Path]:
    from .scheduler import session_dir
    return session_dir.alive()


def _id(folder: Path) -> str:
    return folder.name.removeprefix("session-")


@contextmanager
def _joined(folder: Path) -> Iterator[None]:
    from .api import init, shutdown
    from .scheduler.session_dir import SOCKET_NAME
    init(str(folder / SOCKET_NAME), log_to_driver=False)
    try:
        yield
    finally:
        shutdown()


def status(options: argparse.Namespace) -> int:
    """One paragraph for each session."""
    folders = _sessions()
    if not folders:
        print("No cellmesh session of yours runs on this machine.")
    for folder in folders:
        with _joined(folder):
            _print_status(folder)
    return 0


def _print_status(folder: Path) -> None:
    from . import api, state
    from .session import running
    from .text import in_bytes, in_resources
    total, free = api.cluster_resources(), api.available_resources()
    stats = running().client.stats()
    processes = state.list_workers()
    drivers = [str(row["pid"]) for row in processes if row["role"] == "driver" and row["pid"] != os.getpid()]
    workers = Counter(row["state"] for row in processes if row["role"] == "worker")
    tasks = Counter(row["state"] for row in running().client.tasks())
    actors = Counter(row["state"] for row in state.list_actors())
    print(f"session {_id(folder)}  ({folder})")
    print(f"  driver   pid {', '.join(drivers) or 'none'}")
    print(f"  free     {in_resources(free)}  of  {in_resources(total)}")
    print(f"  store    {in_bytes(stats['used_bytes'])} of {in_bytes(stats['capacity_bytes'])}, {stats['n_objects']} "
          "objects")
    print(f"  workers  {_counts(workers)}")
    print(f"  tasks    {_counts(tasks)}; {stats['n_finished']} finished")
    print(f"  actors   {_counts(actors)}")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counter.items())) or "none"


def list_rows(options: argparse.Namespace) -> int:
    """A table for each session."""
    from . import state
    for folder in _sessions():
        with _joined(folder):
            print(f"session {_id(folder)}")
            print(repr(getattr(state, f"list_{options.what}")(limit=options.limit)))
    return 0


def memory(options: argparse.Namespace) -> int:
    """What holds memory in each session."""
    from . import state
    for folder in _sessions():
        with _joined(folder):
            print(f"session {_id(folder)}")
            print(state.memory())
    return 0


def stop(options: argparse.Namespace) -> int:
    """End sessions; their drivers live on and are told at their next call."""
    from .scheduler import processes, session_dir
    folders = {_id(folder): folder for folder in _sessions()}
    unknown = [name for name in options.sessions if name not in folders]
    if unknown:
        print(f"no such session: {', '.join(unknown)}; there is {', '.join(folders) or 'none'}", file=sys.stderr)
        return 2
    survivors = []
    for name in options.sessions or folders:
        left = processes.kill_session(name, timeout_s=5.0)
        session_dir.remove(folders[name])
        print(f"session {name} has ended" if not left else f"session {name}: pids {left} do not end")
        survivors += left
    return 1 if survivors else 0


# ---------------------------------------------------------------- doctor
def doctor(options: argparse.Namespace) -> int:
    """Check what cellmesh needs, one line each."""
    bad = 0
    for what, problem in _examinations():
        print(f"{'ok ' if not problem else 'NOT'}  {what}{f': {problem}' if problem else ''}")
        bad += bool(problem)
    return 1 if bad else 0


def _examinations() -> Iterator[tuple[str, str]]:
    from . import machine
    from .text import in_bytes
    yield f"Python {sys.version.split()[0]}", "" if sys.version_info >= (3, 11) else "3.11 or newer is needed"
    yield f"{sys.platform}", "" if sys.platform == "linux" else "cellmesh runs on Linux"
    yield f"{machine.usable_cpus()} CPUs may be used", ""
    yield f"{in_bytes(machine.usable_memory())} of memory may be used", \
        "" if machine.usable_memory() > 1 << 30 else "less than 1 GiB is little for numpy in several processes"
    yield "the compiled core loads", _problem_of(_load_core)
    yield "memory segments can be made (memfd)", _problem_of(_make_segment)
    yield "the folder for sessions", _problem_of(_runtime_root)
    yield "processes may be watched (pidfd)", _problem_of(_open_pidfd)
    for module in ("numpy", "pyarrow", "cloudpickle", "msgspec", "IPython", "ipykernel"):
        yield f"module {module}", "" if find_spec(module) else f"not installed: pip install {module.lower()}"
    there = shutil.which("jupyter") or find_spec("jupyterlab")
    yield "JupyterLab", "" if there else "not installed: pip install jupyterlab"


def _problem_of(attempt: object) -> str:
    try:
        attempt()  # type: ignore[operator]
    except (OSError, ImportError, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _load_core() -> None:
    from .objstore import _core  # noqa: F401


def _make_segment() -> None:
    from .objstore import _core
    os.close(_core.create_segment(1 << 20))


def _runtime_root() -> None:
    from .scheduler import session_dir
    session_dir.runtime_root()


def _open_pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


if __name__ == "__main__":
    sys.exit(main())
