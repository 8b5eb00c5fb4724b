"""Listings of what a session holds: tasks, actors, objects, workers, nodes; and who uses it. They look once, start no
session, and stop nothing.

    cm.state.list_tasks(filters=[("state", "=", "failed")])
    cm.state.summarize_tasks()
    cm.state.memory()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING

from .ids import short_id
from .objstore._core import PUT_BIT
from .observe import nodes, processes, states
from .observe.history import names_of, read_history
from .observe.holders import Places, holders
from .observe.named_holders import of_others
from .observe.objects import PAGE, largest_objects
from .observe.selecting import Filter, check_filters, counted_by_state, passes, select
from .observe.stacks import stack_of
from .observe.states import State
from .observe.tables import Row, Rows
from .scheduler.ipc.messages import AGENT_NAMESPACE
from .session.current import running
from .text import Shown, in_bytes, in_limits, in_one_line

if TYPE_CHECKING:
    pass

__all__ = [
    "get_log",
    "list_actors",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runs",
    "list_tasks",
    "list_workers",
    "memory",
    "metrics",
    "running_stacks",
    "stacks",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]

EVERY = 2**31 - 1  # as `limit`: more than there can be of anything


def __dir__() -> list[str]:
    return __all__


def list_tasks(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Unfinished tasks, and those that ended lately, the newest first.

    Parameters
    ----------
    filters : sequence of (column, operator, value)
        Operators: =, !=, <, >, <=, >=.
    limit : int
        How many rows at most.

    Returns
    -------
    Rows
        With task, name, state (waiting, queued, retrying, running, finished, failed, cancelled), detail (of one that
        is queued "sent", if it was sent to another machine and has not begun there, as far as is known; of one that
        runs "blocked", if it sleeps in get() or wait(); of one that has failed "crashed", if its process has ended),
        waits_for (of one that is queued and that its `max_in_flight` or `rate_limit` keeps from beginning: how; else
        ""), attempt, node (the machine where it runs, ran last or was sent), pid (there), origin (number of the cell),
        parent (task), actor (index, -1 for none), seconds (of its last run), retry_in_seconds (how long it waits for
        its next attempt, where that has a retry_delay).
    """
    client, node_name = running().client, nodes.namer(running())
    # The living first: a task that ends between the two looks is then found by both, not by neither.
    rows: dict[int, Row] = {
        t["seq"]: _task_row(
            t["seq"],
            t["name"],
            t["state"],
            in_limits(t, t["name"]),
            t["attempt"],
            node_name(t["node"]) if t["worker"] >= 0 else "",
            t["pid"],
            t["origin"],
            t["parent"],
            t["actor"],
            None,
            t["waits_s"],
        )
        for t in client.tasks(min(10 * limit, EVERY))
    }
    for task in read_history(client):
        if task.state in ("pending", "running"):  # the segment knows better, above
            if task.node and task.seq in rows and rows[task.seq]["state"] == State.RUNNING.word:
                rows[task.seq]["pid"] = task.pid  # but for what runs on another machine
            continue
        rows[task.seq] = _task_row(
            task.seq,
            task.name,
            task.state,
            "",
            task.attempt,
            node_name(task.node) if task.started_at else "",
            task.pid,
            task.origin,
            task.parent,
            task.actor,
            task.seconds,
        )
    return select((rows[seq] for seq in sorted(rows, reverse=True)), filters, limit, states.TASKS)


def _task_row(
    seq: int,
    name: str,
    state: str,
    waits_for: str,
    attempt: int,
    node: str,
    pid: int,
    origin: int,
    parent: int,
    actor: int,
    seconds: float | None,
    retry_in_s: float = 0.0,
) -> Row:
    state, detail = states.in_listing(state)
    return {
        "task": seq,
        "name": name,
        "state": state,
        "detail": detail,
        "waits_for": waits_for,
        "attempt": attempt,
        "node": node,
        "pid": pid,
        "origin": origin,
        "parent": parent,
        "actor": actor,
        "seconds": None if seconds is None else round(seconds, 6),
        "retry_in_seconds": round(retry_in_s, 3) or None,
    }


def list_actors(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Actors, dead ones that still have handles included: index, id, class_name, name, namespace, state, node (the
    machine where it lives), pid (there; 0 on another machine), calls, restarts left, whether detached."""
    node_name = nodes.namer(running())

    def row(actor: Row) -> Row:
        class_name, name, namespace, *_ = actor["meta"] or ("", "", "")
        return {
            "actor": actor["index"],
            "id": actor["id"],
            "class_name": class_name,
            "name": name,
            "namespace": namespace,
            "state": actor["state"],
            "node": node_name(actor["node"]) if actor["pid"] or actor["node"] else "",
            "pid": actor["pid"],
            "pending_calls": actor["pending_calls"],
            "restarts_left": actor["restarts_left"],
            "detached": actor["detached"],
        }

    return select(
        (shown for shown in map(row, running().client.actors()) if shown["namespace"] != AGENT_NAMESPACE),
        filters,
        limit,
        states.ACTORS,
    )


def list_objects(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Living objects, the largest first: id, state, size in bytes, place (memory; shared: memory that stays writable;
    disk; slot: too small for either), made by which task or put, the name of that task as long as it is known, the
    pids that hold refs, uses by tasks and other objects."""
    return Rows(row for row, _ in _largest_rows(filters, limit))


def _largest_rows(filters: Sequence[Filter], limit: int, place: str = "") -> list[tuple[Row, Row]]:
    """Rows of the largest objects that pass, and what the client tells of each."""
    check_filters(filters, limit, states.OBJECTS)
    client = running().client
    pids = {c["index"]: c["pid"] for c in client.clients()}

    def row(o: Row) -> Row:
        made_by = f"{'put' if o['creator'] & PUT_BIT else 'task'} {o['creator'] & ~PUT_BIT}"
        return {
            "id": o["id"],
            "state": o["state"],
            "size": o["size"],
            "place": o["place"],
            "made_by": made_by,
            "name": names.get(o["creator"], ""),
            "held_by": [pids.get(i, 0) for i in o["holders"]],
            "used_by": o["pins"],
        }

    asks_names = any(len(condition) and condition[0] == "name" for condition in filters)
    names = {task.seq: task.name for task in read_history(client)} if asks_names else {}
    found = largest_objects(client, limit, place, lambda o: all(passes(row(o), *each) for each in filters))
    names = names_of(client, {o["creator"] for o in found if not o["creator"] & PUT_BIT})
    return [(row(o), o) for o in found]


def list_workers(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The processes of the session: index, role, pid, state (idle, busy, blocked, actor), task, actor, tasks
    finished, name of what it runs."""
    return select(processes.rows(running().client), filters, limit, states.WORKERS)


def list_jobs(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The programs that use the session: pid of the driver, program (its command line), notebook (if it is a kernel),
    node, state, started, ended.

    In a cluster those of all its machines, the latest first, and of those that have left the last 1,000: state is
    running, ended, or lost with its machine. Times are this machine's local time, by the clock of the driver's.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from .observe import drivers

    return select(drivers.jobs(running()), filters, limit, states.JOBS)


def list_runs(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """What drivers have done, the latest first: program (or notebook), node, state, started, seconds, tasks (with calls
    of actors: those that had ended in its session when it left), how many of them elsewhere, peak_bytes (the most that
    the object store has held).

    In a cluster the last 1,000 of all its machines, as of a minute ago at most, see `list_jobs`; without one nothing
    outlives its session, and only what goes on is listed.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from .observe import drivers

    return select(drivers.runs(running()), filters, limit, states.JOBS)


def list_nodes(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The machines that the session's tasks can run on, as `cellmesh.nodes` has them."""
    return select(nodes.rows(running()), filters, limit, states.NODES)


def list_placement_groups(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Placement groups: id, name, namespace, strategy, state (pending, reserved, removed), bundles, what of each is
    available, on which machine it is, "" as long as it is reserved nowhere, and at home, the machine whose tasks may
    run in it.

    In a cluster those of all its machines, as of a second ago; what is available is known of this machine's only.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from .observe import placement_groups

    return select(placement_groups.listing(running()), filters, limit, states.PLACEMENT_GROUPS)


def list_logs() -> Rows:
    """The files of what tasks have printed: pid of the worker, size in bytes, path. A worker has one for what Python
    prints, and one, *.descriptors.log, for what C code and child processes have written.

    Raises
    ------
    ValueError
        The session keeps none, as `init` was not given a `log_dir`.
    """
    from .observe import logs

    return Rows(logs.files(running().config.log_dir))


def get_log(
    task: int | None = None, *, actor: int | str | None = None, pid: int | None = None, tail: int = 1000
) -> str:
    """What a task, an actor or a worker has printed, from the files of `init(log_dir=...)`.

    Parameters
    ----------
    task : int
        The number of a task, as `list_tasks` has it.
    actor : int or str
        The index, the name or the id of a living actor, as `list_actors` has it.
    pid : int
        Of a worker, which may have ended.
    tail : int
        How many lines at most, the last ones; -1: all of it.

    Raises
    ------
    ValueError
        The session keeps no files; not just one of the three is given; there is no such actor; the task ran on another
        machine.
    """
    from .observe import logs

    if sum(value is not None for value in (task, actor, pid)) != 1:
        raise ValueError(
            "get_log() needs one of task=, actor= and pid=, as list_tasks(), list_actors() and list_workers() have them"
        )
    tasks = None if task is None else range(task, task + 1)
    remote = (
        next((found for found in read_history(running().client) if found.seq == task and found.node), None)
        if task is not None
        else None
    )
    if remote is not None:
        raise ValueError(
            f"get_log({task}): the task ran on {nodes.namer(running())(remote.node)}, in process {remote.pid} there, "
            "and the files of what it printed are there, if its node was started with any; the panel's Logs view has "
            "what came home of it"
        )
    if actor is not None:
        rows = [
            row
            for row in list_actors(limit=EVERY)
            if row["pid"] and actor in (row["actor"], row["id"], row["name"] or None)
        ]
        if not rows:
            raise ValueError(
                f"get_log(actor={actor!r}): no living actor has that index, name or id; pid= gives what one that has "
                "ended had printed"
            )
        pid = rows[0]["pid"]
        calls = list_tasks(filters=[("actor", "=", rows[0]["actor"])], limit=EVERY)
        # From the constructor on its process serves nothing else.
        tasks = range(min((call["task"] for call in calls), default=0), PUT_BIT)
    return logs.read(running().config.log_dir, pid, tasks, tail)


def metrics() -> Rows:
    """What the programs of the session count and measure with `cellmesh.util.metrics`: name, kind, tags, value (of a
    histogram the sum), count and buckets of histograms, description."""
    from .observe.metrics import rows

    return Rows(rows())


def summarize_tasks() -> Rows:
    """Tasks by name, what took longest first: how many are in each state, and of those that have run how long they did,
    in seconds: on average, 95 % of them at most, all together, and as a share of all tasks. Unfinished tasks, and those
    that ended lately."""
    return summary_of(list_tasks(limit=EVERY))


def summary_of(tasks: Sequence[Row]) -> Rows:
    """What `summarize_tasks` makes of rows of `list_tasks`."""
    seconds: dict[str, list[float]] = {}
    for row in tasks:
        if row["seconds"] is not None:
            seconds.setdefault(row["name"], []).append(row["seconds"])
    everything = sum(map(sum, seconds.values()))
    rows = []
    for counted in counted_by_state(tasks, "name"):
        ran = sorted(seconds.get(counted["name"], ()))
        total = sum(ran)
        times = (
            (round(total / len(ran), 6), ran[ceil(0.95 * len(ran)) - 1], round(total, 6)) if ran else (None, None, None)
        )
        rows.append(
            {
                **counted,
                **dict(zip(("mean_seconds", "p95_seconds", "total_seconds"), times, strict=True)),
                "share": round(total / everything, 4) if ran and everything else None,
            }
        )
    return Rows(sorted(rows, key=lambda row: -(row["total_seconds"] or 0.0)))


def summarize_actors() -> Rows:
    """How many actors of each class are in each state."""
    return counted_by_state(list_actors(limit=EVERY), "class_name")


def summarize_objects() -> Rows:
    """How many objects were made by puts and by tasks of each name, and how many bytes they take."""
    names = {row["task"]: row["name"] for row in list_tasks(limit=EVERY)}
    totals: dict[str, list[int]] = {}
    client, first = running().client, 0
    while page := client.objects(PAGE, 0, first):
        first = page[-1]["slot"] + 1
        for o in page:
            total = totals.setdefault("put" if o["creator"] & PUT_BIT else names.get(o["creator"], "?"), [0, 0])
            total[0] += 1
            total[1] += o["size"]
    ordered = sorted(totals.items(), key=lambda item: -item[1][1])
    return Rows({"made_by": maker, "objects": n, "size": size} for maker, (n, size) in ordered)


def stacks(pids: Iterable[int] = ()) -> dict[int, str]:
    """Where workers are now.

    Parameters
    ----------
    pids : iterable of int
        Which ones; none: all that execute a task or serve an actor.

    Returns
    -------
    dict of pid to text
        A stack for each thread; or why there is none.
    """
    workers = {row["pid"]: row for row in processes.rows(running().client) if row["role"] == "worker"}
    asked = list(pids) or [pid for pid, row in workers.items() if row["state"] != "idle"]
    return {pid: _stack(pid, workers) for pid in asked}


def running_stacks(what: Sequence[str] = ()) -> Rows:
    """Where tasks are that run now, and actors: pid, name (of the task, or the actor's class), task (its number, 0 for
    an actor that has nothing to do), seconds since it began, where that is known, and the stack.

    Parameters
    ----------
    what : sequence of str
        Names of tasks or actors, with or without what stands before the last dot, numbers of tasks, or pids; none: all.
    """
    client = running().client
    workers = {row["pid"]: row for row in processes.rows(client) if row["role"] == "worker"}
    actors = {row["actor"]: row for row in list_actors(limit=EVERY)}
    now = time.time()
    begun = {task.seq: task.started_at for task in read_history(client) if task.state == "running"}
    found = Rows()
    for pid, row in workers.items():
        actor = actors.get(row["actor"], {})
        names = {row["name"], row["name"].rpartition(".")[2], actor.get("name"), actor.get("class_name")} - {"", None}
        if (what and not {*names, str(pid), str(row["task"] or "")} & set(what)) or (
            not what and row["state"] == "idle"
        ):
            continue
        since = begun.get(row["task"])
        found.append(
            {
                "pid": pid,
                "name": row["name"],
                "task": row["task"],
                "actor": actor.get("name") or "",
                "seconds": max(0.0, now - since) if since is not None else None,
                "stack": _stack(pid, workers),
            }
        )
    return found


def _stack(pid: int, workers: Collection[int]) -> str:
    try:
        if pid not in workers:
            raise LookupError(f"process {pid} is no worker of this session (any more)")
        return stack_of(running().node.link, pid) or "It waits for work."
    except LookupError as reason:
        return str(reason)


STATE_AT = {"disk": "on disk", "shared": "shared"}  # said in place of the state


def memory(limit: int = 20, place: str = "", exact: bool = False, asks: bool = True) -> str:
    """What holds the object store's memory, in words: totals, then the largest objects, and who holds refs to them:
    which processes and what they run, and in this one, and in other drivers, which variables, attributes, closures and
    frames of the last traceback. `place`: only the objects there, "memory" (also what is shared), "shared", "disk" or
    "slot". `exact`: bytes, and ids in full. `asks`: whether to ask other drivers what they call it, which may take a
    second."""
    stats = running().client.stats()
    found = _largest_rows((), limit, place)
    names = holders(Places([o for _, o in found]))
    for id, others in (of_others(running(), [o["id"] for _, o in found]) if asks else {}).items():
        names.setdefault(id, []).extend(others)
    by_index = {row["index"]: row for row in processes.rows(running().client)}
    amount: Callable[[int], str] = (lambda n: f"{n} B") if exact else in_bytes
    head = (
        f"object store: {amount(stats['used_bytes'])} of {amount(stats['capacity_bytes'])} in "
        f"{stats['n_objects']} objects; at most {amount(stats['peak_bytes'])} so far"
    )
    if stats["n_offloaded"]:
        head += (
            f"\non disk: {amount(stats['offloaded_bytes'])} of {amount(stats['offload_limit_bytes'])} in "
            f"{stats['n_offloaded']} objects, in {stats['offload_folder']}"
        )
    if stats["n_shared"]:
        head += f"\nshared: {amount(stats['shared_bytes'])} in {stats['n_shared']} objects, which are never moved"
    lines = [
        f"  {amount(row['size']):>10}  {row['id'] if exact else short_id(row['id']):<8}  "
        f"{STATE_AT.get(row['place'], row['state']):<8} by {_maker(row)}, refs in "
        f"{processes.holders_in_words(o['holders'], by_index)}, used by {row['used_by']}"
        f"{': ' + ', '.join(names[row['id']]) if row['id'] in names else ''}"
        for row, o in found
    ]
    hint = "(who has fetched a value holds it too; variables are those of this process and of drivers that answer)"
    return Shown("\n".join([head, *lines, hint]))


def _maker(row: Row) -> str:
    """'load (task 12)', 'put 3'."""
    return f"{in_one_line(row['name'])} ({row['made_by']})" if row["name"] else row["made_by"]
