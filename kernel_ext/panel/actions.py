"""What each request of a panel does, to tasks and values of the graph and to trials of experiments."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...observe.stacks import stack_of
from ...tracebacks import readable_stack
from .. import panel_messages as pm
from ..cards.card import data_of, row_of
from ..cards.html import card_html, card_text
from ..graph.recorder import Recorder

if TYPE_CHECKING:
    from ...objstore._core import Ref
    from ...tune.experiment import Experiment
    from ..host import Host

FETCH_TIMEOUT_S = 60.0
LOGS_CHARS = 400_000  # in one answer; at one a second that leaves room for everything else


class RequestError(Exception):
    """A request cannot be granted; the text says why and what to do."""


def perform(request: pm.AnyRequest, host: Host) -> pm.Ok:
    """Do what a request asks for; the answer. May take a while.

    Raises
    ------
    RequestError, CellError, IndexError, CellmeshError, ValueError, OSError
        It cannot be granted; the text says why.
    """
    recorder = host.recorder
    if recorder is None:
        raise RequestError("No cellmesh session has run in this kernel yet.")
    match request:
        case pm.Card(row):
            facts = host.cards.of_row(recorder, row)
            return pm.CardReply(card_html(facts), card_text(facts), data_of(facts))
        case pm.Cancel(row, force):
            return _cancel(recorder, row, force)
        case pm.Retry(row):
            return _retry(recorder, row, host.namespace)
        case pm.Fetch(row, name):
            return _fetch(recorder, row, name, host.namespace)
        case pm.Stack(row):
            return _stack(recorder, row)
        case pm.Logs(after):
            return _logs(recorder, after)
        case pm.Memory():
            return _memory(recorder)
        case pm.Save(path):
            from .saving import record

            return pm.SaveReply(path, record(host).save(path))
        case pm.Steer(path, what, trial):
            experiment = _experiment(path)
            act = {"stop": experiment.stop, "pause": experiment.pause, "resume": experiment.resume}[what]
            act(None if trial < 0 else trial)
            return pm.Ok()
        case pm.TrialTask(path, trial):
            ref = _experiment(path).ref(trial)
            return pm.TrialTaskReply(-1 if ref is None else recorder.look(lambda graph: graph.row_of(ref.creator)))
    raise AssertionError(f"unhandled request {request}")


def _experiment(path: str) -> Experiment:
    """A handle on an experiment: one that the notebook has, which knows its results already, or another."""
    from ...tune.experiment import attach, living

    handles = [handle for handle in living() if str(handle.following.folder) == path]
    folder = Path(path)
    return handles[-1] if handles else attach(folder.name, str(folder.parent))


def _cancel(recorder: Recorder, number: int, force: bool) -> pm.CancelReply:
    from ...api import cancel

    row, ref = _find(recorder, number)
    if row["kind"] == "object":
        raise RequestError("An object made by put has no task to cancel.")
    if row["kind"] == "actor_creation":
        raise RequestError("An actor is ended with cellmesh.kill(actor).")
    if row["state"] in ("finished", "failed", "cancelled"):
        return pm.CancelReply("finished")
    if ref is None:
        raise RequestError("The task has just ended." if recorder.is_live else "The session has ended.")
    cancel(ref, force=force)
    return pm.CancelReply("running" if row["state"] == "running" else "pending")


def _retry(recorder: Recorder, number: int, namespace: dict[str, Any]) -> pm.RetryReply:
    from ..cells.retry import rebind, submit_again

    row, ref = _find(recorder, number)
    if row["state"] not in ("failed", "cancelled"):
        raise RequestError("Only a task that has failed or was cancelled can be submitted again.")
    if ref is None:
        raise RequestError("The notebook holds no future of this task any more; run its cell again.")
    return pm.RetryReply(rebind(namespace, submit_again([ref], namespace)))


def _fetch(recorder: Recorder, number: int, name: str, namespace: dict[str, Any]) -> pm.Ok:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise RequestError(f"{name!r} is no name for a variable.")
    row, ref = _find(recorder, number)
    if row["state"] in ("waiting", "queued", "running", "retrying"):
        raise RequestError(f"{row['function']} has not finished yet.")
    if ref is None:
        raise RequestError("The notebook holds no reference to this value any more; run its cell again.")
    namespace[name] = ref.client.get(ref, FETCH_TIMEOUT_S)
    return pm.Ok()


def _stack(recorder: Recorder, number: int) -> pm.StackReply:
    row = row_of(recorder, number)
    if row["state"] != "running" or not row["pid"]:
        raise RequestError(f"{row['function']} is not running now.")
    try:
        return pm.StackReply(readable_stack(stack_of(recorder.session.node.link, row["pid"])))
    except LookupError as reason:
        raise RequestError(str(reason)) from None


def _logs(recorder: Recorder, after: int) -> pm.LogsReply:
    first, lines = recorder.lines.since(after, recorder.now_s(), LOGS_CHARS)
    with recorder.lock:
        rows = {task: recorder.graph.row_of(task) for task in {line.task for line in lines}}
    return pm.LogsReply(
        first, [pm.LogLine(round(line.at, 3), rows[line.task], line.stream, line.pid, line.text) for line in lines]
    )


def _memory(recorder: Recorder) -> pm.MemoryReply:
    from .store_map import store_map

    if not recorder.is_live:
        raise RequestError("The session has ended, and its memory has been given back.")
    return store_map(recorder)


def _find(recorder: Recorder, number: int) -> tuple[dict[str, Any], Ref | None]:
    row = row_of(recorder, number)
    ref = recorder.session.client.ref_of(row["seq"]) if recorder.is_live else None
    return row, ref
