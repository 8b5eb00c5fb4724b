"""`cellmesh status | list | memory | timeline | export | stack | logs | start | token | drain | stop | doctor`: looks at this user's
sessions on this machine, and ends them; begins clusters of machines, and joins them (`cluster_cli`).

Sessions are found by their folders; the commands join one as another driver, look, and leave. Exit status: 0; 1 if
there is nothing to look at or something is not as it should be; 2 for wrong usage.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from . import cluster_cli

LISTS = ("tasks", "actors", "objects", "workers", "jobs", "runs", "nodes", "placement_groups")
N_SHOWN = 3  # violated invariants of a session: one stray write breaks several
REST_S, WAKES_PER_S = 1.0, 20  # an idle process wakes less than twice a second, one that spins a thousand times
NO_SESSION = "No cellmesh session of yours runs on this machine."


class UsageError(Exception):
    """What was asked for does not exist; the text says what does."""


class SilentSession(cluster_cli.CommandError):
    """A session is there and lets nobody in; the text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    if arguments is None:  # a process of its own
        from .objstore import _core
        from .scheduler.processes import LOOKER
        _core.set_process_name(LOOKER)
    try:
        return options.run(options)
    except UsageError as error:
        print(f"cellmesh {options.command}: {error}", file=sys.stderr)
        return 2
    except cluster_cli.CommandError as error:
        print(f"cellmesh {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from . import __version__
    parser = argparse.ArgumentParser(prog="cellmesh", description="Sessions of cellmesh on this machine, and clusters of machines.",
                                     epilog="Exit status: 0; 1 if there is nothing to look at or something is not as "
                                            "it should be; 2 for wrong usage.")
    parser.add_argument("--version", action="version", version=f"cellmesh {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = argparse.ArgumentParser(add_help=False)
    one.add_argument("--session", metavar="ID", help="as `cellmesh status` shows it; default: every session")
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="for programs")

    def command(name: str, run: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", parents=parents)
        added.set_defaults(run=run)
        return added

    command("status", status, "what runs, and what it holds", one, as_json)
    listing = command("list", list_rows, f"a table of {', '.join(LISTS[:-1])} or {LISTS[-1]}", one, as_json)
    listing.add_argument("what", choices=LISTS)
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="rows at most (default: %(default)s)")
    listing.add_argument("--filter", type=_filter, action="append", default=[], metavar="COLUMN=VALUE", dest="filters",
                         help="only these rows; also != < > <= >=; may be given several times")
    memory_command = command("memory", memory, "what holds the object store's memory", one, as_json)
    memory_command.add_argument("--limit", type=_count, default=20, metavar="N", help="objects (default: %(default)s)")
    command("metrics", metrics, "what the sessions' programs count and measure, as Prometheus reads it", one, as_json)
    timeline_command = command("timeline", timeline, "the recent tasks as a trace for https://ui.perfetto.dev", one)
    timeline_command.add_argument("-o", "--output", metavar="FILE", help="default: cellmesh-timeline-ID.json")
    export_command = command("export", export, "a recording (run.cellmesh) as a web page that needs nothing else")
    export_command.add_argument("recording", metavar="FILE", help="as the panel or %%graph --save have written it")
    export_command.add_argument("output", nargs="?", default=argparse.SUPPRESS, metavar="PAGE", help="as -o")
    export_command.add_argument("-o", "--output", metavar="PAGE", help="default: the recording's name with .html")
    stack_command = command("stack", stack, "where the workers are now", one, as_json)
    stack_command.add_argument("pids", nargs="*", type=int, metavar="PID", help="default: all that are not idle")
    logs_command = command("logs", logs, "what a session's own processes had to say", one)
    logs_command.add_argument("-f", "--follow", action="store_true",
                              help="and what its tasks print, until it ends or Ctrl-C")
    cluster_cli.add_start(command("start", cluster_cli.start, "begin a cluster of machines, or join one, with a node that needs no "
                                                              "driver", as_json))
    at = argparse.ArgumentParser(add_help=False)
    at.add_argument("--address", metavar="HOST:PORT", help="of the cluster's head; needed if there are several")
    token_command = command("token", cluster_cli.token, "make a token by which one machine can join; on the machine of the head", at,
                            as_json)
    token_command.add_argument("--minutes", type=_count, default=10, metavar="N", help="how long it is good (default: %(default)s)")
    drain_command = command("drain", cluster_cli.drain, "have a node of a cluster leave when what runs there has ended", at)
    drain_command.add_argument("node", metavar="NODE", help="its number, as `status` shows it, or the beginning; its host or session")
    stop_command = command("stop", stop, "end sessions, with every process of theirs, and clusters whose head is here; notebooks stay")
    stop_command.add_argument("sessions", nargs="*", metavar="ID", help="of sessions or clusters, as `status` shows them; default: all")
    command("doctor", doctor, "look for what keeps cellmesh from working well here, and through each session's tables", as_json)
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= 1")
    return int(text)


def _filter(text: str) -> tuple[str, str, Any]:
    for sign in ("!=", "<=", ">=", "=", "<", ">"):
        column, found, value = text.partition(sign)
        if found and column:
            try:
                return column, sign, json.loads(value)
            except json.JSONDecodeError:
                return column, sign, value
    raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN=VALUE, such as state=failed")


# ---------------------------------------------------------------- sessions
def _sessions(options: argparse.Namespace) -> list[str]:
    """Those that are asked for; none: a line on stderr has said so."""
    from .scheduler import session_dir
    found = session_dir.alive()
    wanted = [options.session] if options.session else []
    if not found and not wanted:
        print(NO_SESSION, file=sys.stderr)
    return _chosen(found, wanted)


def _chosen(found: list[str], wanted: list[str]) -> list[str]:
    by_id = {_id(folder): folder for folder in found}
    if unknown := [name for name in wanted if name not in by_id]:
        raise UsageError(f"no such session: {', '.join(unknown)}; there is {', '.join(by_id) or 'none'}")
    return [by_id[name] for name in wanted] or found


def _id(folder: str) -> str:
    from .scheduler.session_dir import id_of
    return id_of(folder)


@contextmanager
def _joined(folder: str, log_to_driver: bool = False) -> Iterator[None]:
    from .lifecycle import init, shutdown
    from .scheduler.node import JoinError
    from .scheduler.session_dir import SOCKET_NAME
    try:
        init(os.path.join(folder, SOCKET_NAME), log_to_driver=log_to_driver)
    except JoinError as error:
        raise SilentSession(str(error)) from None
    try:
        yield
    finally:
        shutdown()


def _each(options: argparse.Namespace, look: Any, show: Any, more: Sequence[dict[str, Any]] = (), of_none: int = 1) -> int:
    """Look at each session and show it, or all of them, and `more`, as JSON; the exit status, `of_none` if there is nothing to show."""
    from .asking import NoAnswerError
    from .exceptions import SessionLostError
    found: list[dict[str, Any]] = []
    is_any_silent = False
    for folder in _sessions(options):
        try:
            with _joined(folder):
                found.append({"session": _id(folder), **look(folder)})
        except SessionLostError:
            print(f"session {_id(folder)} has ended meanwhile", file=sys.stderr)
            continue
        except (SilentSession, NoAnswerError) as error:
            print(f"session {_id(folder)}: {error}", file=sys.stderr)
            is_any_silent = True
            continue
        if not options.json:
            show(found[-1])
    if options.json:
        print(json.dumps([*found, *more], default=str))
    return 1 if is_any_silent else 0 if found else of_none


# ---------------------------------------------------------------- looking
def status(options: argparse.Namespace) -> int:
    """One paragraph for each session, and one for each cluster."""
    clusters = [] if options.session else cluster_cli.look()
    code = _each(options, _status, _print_status, clusters, of_none=0)
    if not options.json:
        for seen in clusters:
            cluster_cli.show(seen)
    return code


def _status(folder: str) -> dict[str, Any]:
    from . import state
    from .scheduler import session_dir
    from .scheduler.processes import name_of
    from .session import running
    stats, (total, free) = running().client.stats(), running().client.resources()
    processes = [row for row in state.list_workers(limit=state.EVERY) if row["pid"] != os.getpid()]
    tasks = Counter(row["state"] for row in running().client.tasks())
    drivers = [row["pid"] for row in processes if row["role"] == "driver" and name_of(row["pid"]) != "cellmesh-agent"]
    return {"folder": folder, "drivers": drivers,
            "total": total, "free": free,
            "store": {name: stats[f"{name}_bytes"] for name in ("used", "capacity")} | {"objects": stats["n_objects"]},
            "workers": Counter(row["state"] for row in processes if row["role"] == "worker"),
            "tasks": {**tasks, "finished": tasks["finished"] + stats["n_finished"]},
            "actors": Counter(row["state"] for row in state.list_actors(limit=state.EVERY)),
            "detached": running().detached_actors(), "member_of": session_dir.cluster_of(folder)[0]}


def _print_status(found: dict[str, Any]) -> None:
    from .session import detached_in_words
    from .text import in_bytes, in_resources
    store = found["store"]
    print(f"session {found['session']}  ({found['folder']})")
    drivers = ", ".join(map(str, found["drivers"]))
    is_node = found["member_of"] and not found["detached"]
    kept = "a node of its cluster" if is_node else f"kept for {detached_in_words(found['detached'])}"
    print("  driver   " + (f"pid {drivers}" if drivers else f"none; {kept}"))
    if found["member_of"]:
        print(f"  cluster  {found['member_of']}")
    print(f"  free     {in_resources(found['free'])}  of  {in_resources(found['total'])}")
    print(f"  store    {in_bytes(store['used'])} of {in_bytes(store['capacity'])}, {store['objects']} objects")
    for name in ("workers", "tasks", "actors"):
        words = {"actor": "serving actors"} if name == "workers" else {}
        print(f"  {name:<8} {', '.join(f'{n} {words.get(state, state)}' for state, n in sorted(found[name].items())) or 'none'}")


def list_rows(options: argparse.Namespace) -> int:
    """A table for each session."""
    from . import state
    from .exceptions import ClusterError

    def look(folder: str) -> dict[str, Any]:
        try:
            return {options.what: getattr(state, f"list_{options.what}")(filters=options.filters, limit=options.limit)}
        except ValueError as error:
            raise UsageError(str(error)) from None
        except ClusterError as error:
            raise cluster_cli.CommandError(str(error)) from None

    def show(found: dict[str, Any]) -> None:
        print(f"session {found['session']}\n{found[options.what]!r}")
    return _each(options, look, show)


def memory(options: argparse.Namespace) -> int:
    """What holds memory in each session."""
    from . import state
    from .session import running

    def look(folder: str) -> dict[str, Any]:
        if options.json:
            return {"store": running().client.stats(), "objects": state.list_objects(limit=options.limit)}
        return {"text": state.memory(options.limit)}
    return _each(options, look, lambda found: print(f"session {found['session']}\n{found['text']}"))


def metrics(options: argparse.Namespace) -> int:
    """The metrics of each session."""
    from . import state
    from .metrics import prometheus
    return _each(options, lambda folder: {"metrics": state.metrics()},
                 lambda found: print(prometheus(found["metrics"], session=found["session"]), end=""))


def stack(options: argparse.Namespace) -> int:
    """Where the workers are now."""
    from . import state

    def show(found: dict[str, Any]) -> None:
        print(f"session {found['session']}" + ("" if found["stacks"] else ": every worker is idle"))
        for pid, text in found["stacks"].items():
            print(f"--- pid {pid}\n{text.rstrip()}")
    return _each(options, lambda folder: {"stacks": state.stacks(options.pids)}, show)


def timeline(options: argparse.Namespace) -> int:
    """Write the trace of each session into a file."""
    from .api import timeline as write
    folders = _sessions(options)
    if options.output and len(folders) > 1:
        raise UsageError(f"{len(folders)} sessions run, and --output names one file: choose one with --session "
                         f"({', '.join(map(_id, folders))})")
    for folder in folders:
        path = options.output or f"cellmesh-timeline-{_id(folder)}.json"
        with _joined(folder):
            try:
                write(path)
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror}") from None
        print(f"{path}: open it at https://ui.perfetto.dev")
    return 0 if folders else 1


def export(options: argparse.Namespace) -> int:
    """Make a web page of a recording."""
    from .recording import RecordingError, open_recording
    path = options.output or f"{options.recording.removesuffix('.cellmesh')}.html"
    try:
        if not path.endswith((".html", ".htm")):
            raise UsageError(f"{path}: a page's name ends in .html")
        open_recording(options.recording).save(path)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    except RecordingError as error:
        raise UsageError(str(error)) from None
    print(f"{path}: open it in a browser")
    return 0


def logs(options: argparse.Namespace) -> int:
    """The log of each session, and on request what its tasks print."""
    from .scheduler.session_dir import LOG_NAME
    folders = _sessions(options)
    if options.follow and len(folders) > 1:
        raise UsageError(f"{len(folders)} sessions run: choose one with --session ({', '.join(map(_id, folders))})")
    for folder in folders:
        with open(os.path.join(folder, LOG_NAME), errors="replace") as log:
            text = log.read()
        print(text or f"session {_id(folder)}: its processes have said nothing", end="" if text else "\n", flush=True)
        if options.follow:
            _follow(folder)
    return 0 if folders else 1


def _follow(folder: str) -> None:
    from .session import running
    with _joined(folder, log_to_driver=True):
        running().node.link.wait_lost()


# ---------------------------------------------------------------- ending
def stop(options: argparse.Namespace) -> int:
    """End clusters and sessions; drivers live on and are told at their next call."""
    from .scheduler import session_dir
    from .scheduler.node import stop_session
    survivors = []
    names = cluster_cli.end(options.sessions)
    folders = _chosen(session_dir.alive(), names) if names or not options.sessions else []
    if not folders and not options.sessions:
        print(NO_SESSION)
    for folder in folders:
        cluster_cli.end_node(folder)
        left = stop_session(folder, "`cellmesh stop`", timeout_s=5.0)
        print(f"session {_id(folder)} has ended" if not left else f"session {_id(folder)}: pids {left} do not end")
        survivors += left
    return 1 if survivors else 0


# ---------------------------------------------------------------- doctor
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
    from . import machine
    from .scheduler import session_dir
    from .text import in_bytes
    yield f"Python {sys.version.split()[0]}", "" if sys.version_info >= (3, 11) else "3.11 or newer is needed"
    yield f"{sys.platform}", "" if sys.platform == "linux" else "cellmesh runs on Linux"
    yield f"{machine.usable_cpus()} CPUs may be used", ""
    yield f"{in_bytes(machine.usable_memory())} of memory may be used", \
        "" if machine.usable_memory() > 1e9 else "less than 1 GB is little for numpy in several processes"
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
        yield f"session {_id(folder)}: its tables are sound", problem
        if not problem:
            yield f"session {_id(folder)}: it rests while nothing is to do", _restlessness_of_session(folder)


def _problem_of(attempt: object) -> str:
    try:
        attempt()  # type: ignore[operator]
    except (OSError, ImportError, ValueError, RuntimeError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _problem_of_session(folder: str) -> str:
    from .exceptions import CellmeshError
    from .session import running
    try:
        with _joined(folder):
            wrong = running().client.check()
    except (CellmeshError, SilentSession, OSError) as problem:
        return f"it cannot be looked at: {problem}"
    n_more = len(wrong) - N_SHOWN
    return "; ".join(wrong[:N_SHOWN]) + (f"; and at least {n_more} more" if n_more > 0 else "")


def _restlessness_of_session(folder: str) -> str:
    """Which of the session's own processes run though no task does; of a session at work nothing can be said."""
    from .exceptions import CellmeshError
    from .scheduler import processes
    from .session import running
    try:
        with _joined(folder):
            client = running().client
            if any(row["task"] for row in client.clients()) or client.workers_wanted():
                return ""
    except (CellmeshError, SilentSession, OSError) as problem:
        return f"it cannot be looked at: {problem}"
    time.sleep(REST_S)  # what joining it has set going
    own = {pid: name for pid in processes.session_processes(_id(folder)) if (name := processes.name_of(pid)).startswith(("cellmesh-", "cm:"))}
    before = {pid: processes.wakes(pid) for pid in own}
    time.sleep(REST_S)
    restless = {pid: n for pid in own if (n := processes.wakes(pid) - before[pid]) > REST_S * WAKES_PER_S}
    return "; ".join(f"process {pid} ({own[pid]}) has run {n} times in {REST_S:g} s" for pid, n in restless.items())


def _load_core() -> None:
    from .objstore import _core  # noqa: F401


def _make_segment() -> None:
    from .objstore import _core
    os.close(_core.create_segment(1 << 20))


def _runtime_root() -> None:
    from .scheduler import session_dir
    session_dir.runtime_root()


def _connect_machines() -> None:
    from .scheduler.cluster import sockets
    sockets.require_encryption()


def _open_pidfd() -> None:
    os.close(os.pidfd_open(os.getpid()))


if __name__ == "__main__":
    sys.exit(main())
