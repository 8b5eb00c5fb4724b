"""`cellmesh status | list | summary | memory | timeline | export | stack | logs | start | token | drain | stop |
doctor | engine | rl`: looks at this user's sessions on this machine, and ends them; begins clusters of machines, and
joins them (`start`, `cluster`); looks at clusters of other kinds (`engine`); trains policies (`rl`).

Sessions are found by their folders; the commands join one as another driver, look, and leave. Exit status: 0; 1 if
there is nothing to look at or something is not as it should be; 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import cluster, engine, rl, start
from .doctor import doctor
from .failures import CommandError
from .sessions import NO_SESSION, UsageError, chosen, each_session, found_sessions, id_of, joined

LISTS = ("tasks", "actors", "objects", "workers", "jobs", "runs", "nodes", "placement_groups")
WATCH_S = 2.0
STOP_S = 5.0  # that a session's processes have to end


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    if arguments is None and options.command != "rl":  # a process of its own, which looks
        from ..objstore import _core
        from ..scheduler.system.processes import LOOKER

        _core.set_process_name(LOOKER)
    if (every_s := getattr(options, "watch", None)) is not None:
        # Once, and not in each round.
        from .. import state  # noqa: F401 (so that later rounds find it imported)
        from ..startup import init, init_arguments  # noqa: F401 (so that later rounds find it imported)
        from .watching import watch

        return watch(lambda: _run(options), f"cellmesh {options.command}", every_s)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        return options.run(options)
    except UsageError as error:
        print(f"cellmesh {_name_of(options)}: {error}", file=sys.stderr)
        return 2
    except CommandError as error:
        print(f"cellmesh {_name_of(options)}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _name_of(options: argparse.Namespace) -> str:
    return f"{options.command} {options.what}" if options.command in ("engine", "rl") else options.command


def _parser() -> argparse.ArgumentParser:
    from .. import __version__

    parser = argparse.ArgumentParser(
        prog="cellmesh",
        description="Sessions of cellmesh on this machine, and clusters of machines.",
        epilog="Exit status: 0; 1 if there is nothing to look at or something is not as "
        "it should be; 2 for wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"cellmesh {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = argparse.ArgumentParser(add_help=False)
    one.add_argument("--session", metavar="ID", help="as `cellmesh status` shows it; default: every session")
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="for programs")
    seen = argparse.ArgumentParser(add_help=False)
    seen.add_argument(
        "--bytes", action="store_true", dest="exact", help="exact numbers: bytes, seconds, and ids in full"
    )
    seen.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=_pause,
        const=WATCH_S,
        metavar="SECONDS",
        help=f"again and again, until Ctrl-C (default: every {WATCH_S:g} s)",
    )

    def command(name: str, run: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", parents=parents)
        added.set_defaults(run=run)
        return added

    command("status", status, "what runs, and what it holds", one, as_json, seen)
    listing = command("list", list_rows, f"a table of {', '.join(LISTS[:-1])} or {LISTS[-1]}", one, as_json, seen)
    listing.add_argument("what", choices=LISTS)
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="rows at most (default: %(default)s)")
    listing.add_argument(
        "--filter",
        type=_filter,
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        dest="filters",
        help="only these rows; also != < > <= >=; may be given several times",
    )
    command(
        "summary", summary, "tasks by function: how many are in each state, and how long they took", one, as_json, seen
    )
    memory_command = command("memory", memory, "what holds the object store's memory", one, as_json, seen)
    memory_command.add_argument("--limit", type=_count, default=20, metavar="N", help="objects (default: %(default)s)")
    command("metrics", metrics, "what the sessions' programs count and measure, as Prometheus reads it", one, as_json)
    timeline_command = command("timeline", timeline, "the recent tasks as a trace for https://ui.perfetto.dev", one)
    timeline_command.add_argument("-o", "--output", metavar="FILE", help="default: cellmesh-timeline-ID.json")
    export_command = command("export", export, "a recording (run.cellmesh) as a web page that needs nothing else")
    export_command.add_argument("recording", metavar="FILE", help="as the panel or %%graph --save have written it")
    export_command.add_argument("output", nargs="?", default=argparse.SUPPRESS, metavar="PAGE", help="as -o")
    export_command.add_argument("-o", "--output", metavar="PAGE", help="default: the recording's name with .html")
    stack_command = command("stack", stack, "where the running tasks are now", one, as_json)
    stack_command.add_argument(
        "what",
        nargs="*",
        metavar="TASK",
        help="a function's name, an actor's or its class's, a task's "
        "number or a worker's pid; default: all that are not idle",
    )
    logs_command = command(
        "logs", logs, "what a session's own processes had to say, and what its tasks have printed last", one
    )
    logs_command.add_argument(
        "-f", "--follow", action="store_true", help="and what they go on to print, until it ends or Ctrl-C"
    )
    start.add_start(
        command(
            "start",
            start.start,
            "begin a cluster of machines, or join one, with a node that needs no driver",
            as_json,
        )
    )
    at = argparse.ArgumentParser(add_help=False)
    at.add_argument("--address", metavar="HOST:PORT", help="of the cluster's head; needed if there are several")
    token_command = command(
        "token",
        cluster.token,
        "make a token by which one machine can join; on the machine of the head",
        at,
        as_json,
    )
    token_command.add_argument(
        "--minutes", type=_count, default=10, metavar="N", help="how long it is good (default: %(default)s)"
    )
    drain_command = command("drain", cluster.drain, "have a node of a cluster leave when what runs there has ended", at)
    drain_command.add_argument(
        "node", metavar="NODE", help="its number, as `status` shows it, or the beginning; its host or session"
    )
    stop_command = command(
        "stop",
        stop,
        "end sessions, with all their processes, and clusters whose head was started here; notebooks stay",
    )
    stop_command.add_argument(
        "sessions",
        nargs="*",
        metavar="ID",
        help="of sessions or clusters, as `status` shows them; default: all sessions "
        "of this folder (XDG_RUNTIME_DIR), and the heads that were started from it",
    )
    stop_command.add_argument(
        "--head",
        action="store_true",
        help="also the heads of yours on this machine that were started from other folders",
    )
    stop_command.add_argument(
        "--force",
        action="store_true",
        help="kill every process at once: nothing ends what it does, and no cluster is told",
    )
    stop_command.add_argument("--dry-run", action="store_true", help="say what would end, and end nothing")
    engine.add_engine(
        command("engine", None, "clusters of other kinds, Ray's and Dask's, that can run a session's tasks"), as_json
    )
    rl.add_rl(command("rl", None, "reinforcement learning: train a policy, look at what it has learnt"), as_json)
    command(
        "doctor",
        doctor,
        "look for what keeps cellmesh from working well here, and through each session's tables",
        as_json,
    )
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= 1")
    return int(text)


def _pause(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between two looks, at least 0.1")
    return seconds


def _filter(text: str) -> tuple[str, str, Any]:
    for sign in ("!=", "<=", ">=", "=", "<", ">"):
        column, found, value = text.partition(sign)
        if found and column:
            try:
                return column, sign, json.loads(value)
            except json.JSONDecodeError:
                return column, sign, value
    raise argparse.ArgumentTypeError(f"{text!r} is not of the form COLUMN=VALUE, such as state=failed")


# ---------------------------------------------------------------- looking
def status(options: argparse.Namespace) -> int:
    """One paragraph for each session, and one for each cluster."""
    clusters = [] if options.session else cluster.look()
    code = each_session(options, _status, lambda found: _print_status(found, options.exact), clusters, of_none=0)
    if not options.json:
        for seen in clusters:
            cluster.show(seen)
    return code


def _status(folder: str) -> dict[str, Any]:
    from .. import state
    from ..observe.states import counted
    from ..scheduler.node import session_dir
    from ..scheduler.system.processes import name_of
    from ..session.current import running

    stats, (total, free) = running().client.stats(), running().client.resources()
    processes = [row for row in state.list_workers(limit=state.EVERY) if row["pid"] != os.getpid()]
    tasks = counted(running().client)
    drivers = [row["pid"] for row in processes if row["role"] == "driver" and name_of(row["pid"]) != "cellmesh-agent"]
    return {
        "folder": folder,
        "drivers": drivers,
        "total": total,
        "free": free,
        "store": {name: stats[f"{name}_bytes"] for name in ("used", "capacity")} | {"objects": stats["n_objects"]},
        "workers": Counter(row["state"] for row in processes if row["role"] == "worker"),
        "tasks": {**tasks, "finished": tasks["finished"] + stats["n_finished"]},
        "actors": Counter(row["state"] for row in state.list_actors(limit=state.EVERY)),
        "detached": running().detached_actors(),
        "member_of": session_dir.cluster_of(folder)[0],
    }


def _print_status(found: dict[str, Any], exact: bool) -> None:
    from ..observe.tables import in_words
    from ..session.session import detached_in_words
    from ..text import in_resources

    store = found["store"]
    print(f"session {found['session']}  ({found['folder']})")
    drivers = ", ".join(map(str, found["drivers"]))
    is_node = found["member_of"] and not found["detached"]
    kept = "a node of its cluster" if is_node else f"kept for {detached_in_words(found['detached'])}"
    print("  driver   " + (f"pid {drivers}" if drivers else f"none; {kept}"))
    if found["member_of"]:
        print(f"  cluster  {found['member_of']}")
    amounts = (
        (lambda held: ", ".join(f"{name}: {amount:.15g}" for name, amount in held.items())) if exact else in_resources
    )
    print(f"  free     {amounts(found['free'])}  of  {amounts(found['total'])}")
    used, capacity = (in_words("size", store[name], exact) for name in ("used", "capacity"))
    print(f"  store    {used} of {capacity}, {store['objects']:,} objects")
    for name in ("workers", "tasks", "actors"):
        words = {"actor": "serving actors"} if name == "workers" else {}
        print(
            f"  {name:<8} "
            f"{', '.join(f'{n} {words.get(state, state)}' for state, n in sorted(found[name].items())) or 'none'}"
        )


def list_rows(options: argparse.Namespace) -> int:
    """A table for each session."""
    from .. import state
    from ..exceptions import ClusterError
    from ..observe.tables import table

    def look(folder: str) -> dict[str, Any]:
        try:
            return {options.what: getattr(state, f"list_{options.what}")(filters=options.filters, limit=options.limit)}
        except ValueError as error:
            raise UsageError(str(error)) from None
        except ClusterError as error:
            raise CommandError(str(error)) from None

    def show(found: dict[str, Any]) -> None:
        print("\n".join([f"session {found['session']}", *table(found[options.what], options.exact)]))

    return each_session(options, look, show)


def summary(options: argparse.Namespace) -> int:
    """The tasks of each session by function."""
    from .. import state
    from ..observe.tables import table

    return each_session(
        options,
        lambda folder: {"tasks": state.summarize_tasks()},
        lambda found: print("\n".join([f"session {found['session']}", *table(found["tasks"], options.exact)])),
    )


def memory(options: argparse.Namespace) -> int:
    """What holds memory in each session."""
    from .. import state
    from ..session.current import running

    def look(folder: str) -> dict[str, Any]:
        if options.json:
            return {"store": running().client.stats(), "objects": state.list_objects(limit=options.limit)}
        return {"text": state.memory(options.limit, exact=options.exact)}

    return each_session(options, look, lambda found: print(f"session {found['session']}\n{found['text']}"))


def metrics(options: argparse.Namespace) -> int:
    """The metrics of each session."""
    from .. import state
    from ..observe.metrics import prometheus

    return each_session(
        options,
        lambda folder: {"metrics": state.metrics()},
        lambda found: print(prometheus(found["metrics"], session=found["session"]), end=""),
    )


def stack(options: argparse.Namespace) -> int:
    """Where the running tasks are now."""
    from .. import state

    asked: list[bool] = []
    others: set[str] = set()

    def look(folder: str) -> dict[str, Any]:
        found = state.running_stacks(options.what)
        asked.append(bool(found))
        others.update(row["name"] for row in (() if found else state.running_stacks()) if row["name"])
        return {"stacks": {row["pid"]: row["stack"] for row in found}, "workers": found}

    def show(found: dict[str, Any]) -> None:
        if found["workers"] or not options.what:
            print(f"session {found['session']}" + ("" if found["workers"] else ": every worker is idle"))
        for row in found["workers"]:
            print(f"--- {_worker_in_words(row)}\n{row['stack'].rstrip()}")

    status = each_session(options, look, show)
    if options.what and asked and not any(asked):
        there = f"what runs is {', '.join(sorted(others))}" if others else "every worker is idle"
        raise UsageError(f"no task, actor or worker {' or '.join(options.what)} runs now; {there}")
    return status


def _worker_in_words(row: dict[str, Any]) -> str:
    """'train_fold (task 12), pid 4711, for 3.2 s'."""
    from ..text import duration, in_one_line

    name = in_one_line(row["name"] or "no task")
    which = f" (task {row['task']})" if row["task"] else ""
    actor = f" of actor {in_one_line(row['actor'])!r}" if row["actor"] else ""
    since = [f"for {duration(row['seconds'])}"] if row["seconds"] is not None else []
    return ", ".join([f"{name}{which}{actor}", f"pid {row['pid']}", *since])


def timeline(options: argparse.Namespace) -> int:
    """Write the trace of each session into a file."""
    from ..api import timeline as write

    folders = found_sessions(options)
    if options.output and len(folders) > 1:
        raise UsageError(
            f"{len(folders)} sessions run, and --output names one file: choose one with --session "
            f"({', '.join(map(id_of, folders))})"
        )
    for folder in folders:
        path = options.output or f"cellmesh-timeline-{id_of(folder)}.json"
        with joined(folder):
            try:
                write(path)
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror}") from None
        print(f"{path}: open it at https://ui.perfetto.dev")
    return 0 if folders else 1


def export(options: argparse.Namespace) -> int:
    """Make a web page of a recording."""
    from ..observe.recording import RecordingError, open_recording

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
    """The log of each session, and what its tasks have printed last; on request what they print from now on."""
    from ..exceptions import SessionLostError
    from ..scheduler.node.session_dir import LOG_NAME

    folders = found_sessions(options)
    if options.follow and len(folders) > 1:
        raise UsageError(f"{len(folders)} sessions run: choose one with --session ({', '.join(map(id_of, folders))})")
    status = 0 if folders else 1
    for folder in folders:
        with open(os.path.join(folder, LOG_NAME), errors="replace") as log:
            text = log.read()
        print(text or f"session {id_of(folder)}: its own processes have had nothing to report\n", end="", flush=True)
        try:
            with joined(folder):
                _print_last_output(folder, options.follow)
        except SessionLostError:
            print(f"session {id_of(folder)} has ended meanwhile", file=sys.stderr)
            status = 1
    return status


def _print_last_output(folder: str, follow: bool) -> None:
    from ..observe import logs
    from ..output import driver
    from ..session.current import running

    of = running()
    pieces, rest = logs.last_output(of)
    if not rest.is_kept:
        what = "what its tasks print is not collected, as it was started with log_to_driver=False"
    else:
        what = "what its tasks have printed" if pieces else "its tasks have printed nothing"
    if rest.n_gone and not rest.folder:
        what += f" (the {rest.n_gone:,} characters before are gone; init(log_dir=...) keeps all)"
    print(
        f"session {id_of(folder)}: "
        f"{what}{f' (all of it is in {rest.folder})' if rest.folder else ''}{':' if pieces else ''}"
    )
    print(driver.as_text(pieces, of.client), end="", flush=True)
    if follow:
        driver.start(of)
        of.node.link.wait_lost()


# ---------------------------------------------------------------- ending
def stop(options: argparse.Namespace) -> int:
    """End clusters and sessions; drivers live on and are told at their next call."""
    from ..scheduler.node import session_dir
    from ..scheduler.node.handle import kill_session, stop_session

    survivors = []
    clusters, others = cluster.heads(options.sessions, options.head)
    names = [name for name in options.sessions if name not in {cluster.name for cluster in clusters}]
    folders = chosen(session_dir.alive(), names) if names or not options.sessions else []
    if not folders and not options.sessions:
        print(NO_SESSION)
    for what in (*(f"session {id_of(folder)}" for folder in folders), *map(cluster.in_words, clusters)):
        print(f"{what} {'would end' if options.dry_run else 'ends'}")
    cluster.tell_left(others)
    if options.dry_run:
        return 0
    cluster.end(clusters, options.force)
    for folder in folders:
        if not options.force:
            cluster.end_node(folder)
        left = kill_session(folder, STOP_S) if options.force else stop_session(folder, "`cellmesh stop`", STOP_S)
        print(f"session {id_of(folder)} has ended" if not left else f"session {id_of(folder)}: pids {left} do not end")
        survivors += left
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
