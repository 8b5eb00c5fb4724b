"""Listings of what a session holds: tasks, actors, objects, workers, nodes; and who uses it. They look once, start no session, and stop
nothing.

    cm.state.list_tasks(filters=[("state", "=", "failed")])
    cm.state.summarize_tasks()
    cm.state.memory()
"""
from __future__ import annotations

import html
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from . import api, attached, machines
from .history import PUT_BIT, read_history
from .holders import Places, holders
from .scheduler.messages import DESK_NAMESPACE
from .session import running
from .stacks import stack_of
from .text import in_bytes

if TYPE_CHECKING:
    from .objstore._core import Client

Row = dict[str, Any]
Filter = tuple[str, str, Any]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
SHOWN = 50  # rows that a display shows
EVERY = 2**31 - 1  # as `limit`: more than there can be of anything
PAGE = 4096  # objects looked at in one go


class Rows(list[Row]):
    """A list of dicts that displays itself as a table."""

    def __repr__(self) -> str:
        if not self:
            return "nothing"
        names = list(self[0])
        table = [names, *([str(row.get(name, "")) for name in names] for row in self[:SHOWN])]
        widths = [max(len(line[i]) for line in table) for i in range(len(names))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]
        return "\n".join([*lines, *([f"... {len(self) - SHOWN} more"] if len(self) > SHOWN else [])])

    def _repr_html_(self) -> str:
        if not self:
            return "<em>nothing</em>"
        names = list(self[0])
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(row.get(name, str())))}</td>' for name in names)}</tr>"
                       for row in self[:SHOWN])
        more = f"<p>... {len(self) - SHOWN} more</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


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
        With task, name, state (waiting, ready, running, blocked, finished, failed, cancelled, crashed), attempt, node (the
        machine where it runs, ran last or was sent), pid (there), origin (number of the cell), parent (task), actor (index, -1 for
        none), seconds (of its last run).
    """
    client, node_name = running().client, machines.namer(running())
    # The living first: a task that ends between the two looks is then found by both, not by neither.
    rows: dict[int, Row] = {
        t["seq"]: _task_row(t["seq"], t["name"], t["state"], t["attempt"], node_name(t["node"]) if t["worker"] >= 0 else "", t["pid"],
                            t["origin"], t["parent"], t["actor"], None) for t in client.tasks(min(10 * limit, EVERY))}
    for task in read_history(client):
        if task.state in ("pending", "running"):  # the segment knows better, above
            if task.node and task.seq in rows and rows[task.seq]["state"] == "running":
                rows[task.seq]["pid"] = task.pid  # but for what runs elsewhere
            continue
        rows[task.seq] = _task_row(task.seq, task.name, task.state, task.attempt, node_name(task.node) if task.started_at else "", task.pid,
                                   task.origin, task.parent, task.actor, task.seconds)
    return _select((rows[seq] for seq in sorted(rows, reverse=True)), filters, limit)


def _task_row(seq: int, name: str, state: str, attempt: int, node: str, pid: int, origin: int, parent: int,
              actor: int, seconds: float | None) -> Row:
    return {"task": seq, "name": name, "state": state, "attempt": attempt, "node": node, "pid": pid, "origin": origin,
            "parent": parent, "actor": actor, "seconds": None if seconds is None else round(seconds, 6)}


def list_actors(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Actors, dead ones that still have handles included: index, id, class_name, name, namespace, state, node (the machine where it
    lives), pid (there; 0 on another machine), calls, restarts left, whether detached."""
    node_name = machines.namer(running())

    def row(actor: Row) -> Row:
        class_name, name, namespace, *_ = actor["meta"] or ("", "", "")
        return {"actor": actor["index"], "id": actor["id"], "class_name": class_name, "name": name,
                "namespace": namespace, "state": actor["state"],
                "node": node_name(actor["node"]) if actor["pid"] or actor["node"] else "", "pid": actor["pid"],
                "pending_calls": actor["pending_calls"], "restarts_left": actor["restarts_left"],
                "detached": actor["detached"]}
    return _select((shown for shown in map(row, running().client.actors()) if shown["namespace"] != DESK_NAMESPACE), filters, limit)


def list_objects(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Living objects, the largest first: id, state, bytes, place (memory, disk, slot: too small for either), made by,
    the pids that hold refs, uses by tasks and other objects."""
    return Rows(row for row, _ in _largest_rows(filters, limit))


def _largest_rows(filters: Sequence[Filter], limit: int, place: str = "") -> list[tuple[Row, Row]]:
    """Rows of the largest objects that pass, and what the client tells of each."""
    _check(filters, limit)
    client = running().client
    pids = {c["index"]: c["pid"] for c in client.clients()}

    def row(o: Row) -> Row:
        made_by = f"{'put' if o['creator'] & PUT_BIT else 'task'} {o['creator'] & ~PUT_BIT}"
        return {"id": o["id"], "state": o["state"], "size": o["size"], "place": o["place"], "made_by": made_by,
                "held_by": [pids.get(i, 0) for i in o["holders"]], "used_by": o["pins"]}
    found = largest_objects(client, limit, place, lambda o: all(_passes(row(o), *each) for each in filters))
    return [(row(o), o) for o in found]


def largest_objects(client: Client, limit: int, place: str = "", passes: Callable[[Row], bool] = lambda o: True) -> list[Row]:
    """What the client tells of the largest objects that pass. Of ten million no list is made: a page at a time, and once
    there are `limit` of them only larger ones are asked for."""
    kept: list[Row] = []
    first = at_least = 0
    while page := client.objects(PAGE, at_least, first, place):
        first = page[-1]["slot"] + 1
        kept += filter(passes, page)
        if len(kept) >= 2 * limit:
            kept = nlargest(limit, kept, key=_size)
            at_least = _size(kept[-1]) + 1
    return nlargest(limit, kept, key=_size)


def _size(o: Row) -> int:
    return o["size"]


def list_workers(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The processes of the session: index, role, pid, state (idle, busy, blocked, actor), task, actor, tasks
    finished, name of what it runs."""
    return _select(attached.rows(running().client), filters, limit)


def list_jobs(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The programs that use the session: pid of the driver, program (its command line), notebook (if it is a kernel), node, state, started, ended.

    In a cluster those of all its machines, the latest first, and of those that have left the last 1,000: state is running, ended, or lost
    with its machine. Times are this machine's local time, by the clock of the driver's.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from . import drivers
    return _select(drivers.jobs(running()), filters, limit)


def list_runs(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """What drivers have done, the latest first: program (or notebook), node, state, started, seconds, tasks (with calls of actors: those that
    had ended in its session when it left), how many of them elsewhere, peak_bytes (the most that the object store has held).

    In a cluster the last 1,000 of all its machines, as of a minute ago at most, see `list_jobs`; without one nothing outlives its session, and only what
    goes on is listed.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from . import drivers
    return _select(drivers.runs(running()), filters, limit)


def list_nodes(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """The machines that the session's tasks can run on, as `cellmesh.nodes` has them."""
    return _select(api.nodes(), filters, limit)


def list_placement_groups(*, filters: Sequence[Filter] = (), limit: int = 1000) -> Rows:
    """Placement groups: id, name, namespace, strategy, state (pending, reserved, removed), bundles, what of each is available, on which
    machine it is, "" as long as it is reserved nowhere, and at home, the machine whose tasks may run in it.

    In a cluster those of all its machines, as of a second ago; what is available is known of this machine's only.

    Raises
    ------
    ClusterError
        The head of the cluster does not answer.
    """
    from . import placement
    return _select(placement.listing(running()), filters, limit)


def list_logs() -> Rows:
    """The files of what tasks have printed, one for each worker: pid, size in bytes, path.

    Raises
    ------
    ValueError
        The session keeps none, as `init` was not given a `log_dir`.
    """
    from . import logs
    return Rows(logs.files(running().config.log_dir))


def get_log(task: int | None = None, *, actor: int | str | None = None, pid: int | None = None, tail: int = 1000) -> str:
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
        The session keeps no files; not just one of the three is given; there is no such actor; the task ran on another machine.
    """
    from . import logs
    if sum(value is not None for value in (task, actor, pid)) != 1:
        raise ValueError("get_log() needs one of task=, actor= and pid=, as list_tasks(), list_actors() and list_workers() have them")
    tasks = None if task is None else range(task, task + 1)
    away = next((found for found in read_history(running().client) if found.seq == task and found.node), None) if task is not None else None
    if away is not None:
        raise ValueError(f"get_log({task}): the task ran on {machines.namer(running())(away.node)}, in process {away.pid} there, and the files of "
                         "what it printed are there, if its node was started with any; the panel's Logs view has what came home of it")
    if actor is not None:
        rows = [row for row in list_actors(limit=EVERY) if row["pid"] and actor in (row["actor"], row["id"], row["name"] or None)]
        if not rows:
            raise ValueError(f"get_log(actor={actor!r}): no living actor has that index, name or id; pid= gives what one that has "
                             "ended had printed")
        pid = rows[0]["pid"]
        calls = list_tasks(filters=[("actor", "=", rows[0]["actor"])], limit=EVERY)
        # From the constructor on its process serves nothing else.
        tasks = range(min((call["task"] for call in calls), default=0), PUT_BIT)
    return logs.read(running().config.log_dir, pid, tasks, tail)


def metrics() -> Rows:
    """What the programs of the session count and measure with `cellmesh.util.metrics`: name, kind, tags, value (of a histogram the
    sum), count and buckets of histograms, description."""
    from .metrics import rows
    return Rows(rows())


def summarize_tasks() -> Rows:
    """How many tasks of each name are in each state."""
    return _summary(list_tasks(limit=EVERY), "name")


def summarize_actors() -> Rows:
    """How many actors of each class are in each state."""
    return _summary(list_actors(limit=EVERY), "class_name")


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
    of = running()
    workers = {row["pid"]: row["state"] for row in of.client.clients() if row["role"] == "worker"}
    asked = list(pids) or [pid for pid, state in workers.items() if state != "idle"]
    texts = {}
    for pid in asked:
        try:
            if pid not in workers:
                raise LookupError(f"process {pid} is no worker of this session (any more)")
            texts[pid] = stack_of(of.node.link, pid) or "It waits for work."
        except LookupError as reason:
            texts[pid] = str(reason)
    return texts


def memory(limit: int = 20, place: str = "") -> str:
    """What holds the object store's memory, in words: totals, then the largest objects, and who holds refs to them:
    which processes and what they run, and in this one which variables, attributes, closures and frames of the last traceback.
    `place`: only the objects there, "memory", "disk" or "slot"."""
    stats = running().client.stats()
    found = _largest_rows((), limit, place)
    names = holders(Places([o for _, o in found]))
    processes = {row["index"]: row for row in attached.rows(running().client)}
    head = (f"object store: {in_bytes(stats['used_bytes'])} of {in_bytes(stats['capacity_bytes'])} in "
            f"{stats['n_objects']} objects; at most {in_bytes(stats['peak_bytes'])} so far")
    if stats["n_on_disk"]:
        head += (f"\non disk: {in_bytes(stats['disk_bytes'])} of {in_bytes(stats['disk_limit_bytes'])} in "
                 f"{stats['n_on_disk']} objects, in {stats['disk_folder']}")
    lines = [f"  {in_bytes(row['size']):>10}  {row['id']}  {'on disk' if row['place'] == 'disk' else row['state']:<8} by "
             f"{row['made_by']}, refs in "
             f"{attached.holders_in_words(o['holders'], processes)}, used by {row['used_by']}"
             f"{': ' + ', '.join(names[row['id']]) if row['id'] in names else ''}" for row, o in found]
    hint = "(who has fetched a value holds it too; which variables do is known of this process only)"
    return "\n".join([head, *lines, hint])


def _summary(rows: Rows, column: str) -> Rows:
    """How many rows there are for each value of a column and each state."""
    counts = Counter((row[column], row["state"]) for row in rows)
    states = sorted({state for _, state in counts})
    return Rows({column: name, **{state: counts[name, state] for state in states}}
                for name in sorted({name for name, _ in counts}))


def _select(rows: Iterable[Row], filters: Sequence[Filter], limit: int) -> Rows:
    _check(filters, limit)
    kept = Rows()
    for row in rows:
        if all(_passes(row, *condition) for condition in filters):
            kept.append(row)
            if len(kept) >= limit:
                break
    return kept


def _check(filters: Sequence[Filter], limit: int) -> None:
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit={limit!r}: must be a whole number >= 1")
    for condition in filters:
        if not isinstance(condition, tuple | list) or len(condition) != 3:
            raise ValueError(f"filters={filters!r}: must be a list of (column, operator, value), such as "
                             "[('state', '=', 'failed')]")


def _passes(row: Row, column: str, sign: str, value: Any) -> bool:
    if column not in row or sign not in OPERATORS:
        raise ValueError(f"filter ({column!r}, {sign!r}, {value!r}): columns are {', '.join(row)}, operators "
                         f"{', '.join(OPERATORS)}")
    return OPERATORS[sign](row[column], value)
