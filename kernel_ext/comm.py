"""The kernel's end of the panel: Jupyter plumbing only.

Requests come on the control channel, whose thread answers while a cell runs; quick ones are answered there, the others
by a thread of their own. The graph goes out on iopub, straight through the kernel's session: a comm's own `send` would
make ipykernel route the front end's next message to the main thread, where it waits for the cell.

Every request makes JupyterLab believe that the kernel has become idle. So after an answer during a cell the kernel says
once more that it is busy.
"""
from __future__ import annotations

import keyword
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..exceptions import CellmeshError
from ..scheduler.threads import ServiceThread
from ..stacks import stack_of
from ..tracebacks import readable_stack
from . import panel_messages as pm
from .card import data_of, row_of
from .card_html import card_html, card_text
from .cells import CellError
from .recorder import Recorder, Send
from .words import speak

if TYPE_CHECKING:
    from ..objstore._core import Ref
    from .host import Host

FETCH_TIMEOUT_S = 60.0
LOGS_CHARS = 400_000  # in one answer; at one a second that leaves room for everything else
N_JOBS_MAX = 16  # requests under way that take a while

Reply = Callable[[dict[str, Any]], None]


class RequestError(Exception):
    """A request cannot be granted; the text says why and what to do."""


class Panels:
    """Answers requests of front ends, from the control channel and from widgets alike.

    Parameters
    ----------
    host : Host
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._subscribers: dict[str, Send] = {}
        self._jobs = threading.BoundedSemaphore(N_JOBS_MAX)

    # --- subscriptions

    def attach(self, recorder: Recorder) -> None:
        """A session has begun: everybody who is subscribed gets its graph."""
        for key, send in list(self._subscribers.items()):
            recorder.subscribe(key, send)

    def subscribe(self, key: str, send: Send) -> None:
        """Send the graph from now on, beginning with a snapshot; an empty one while there is no session."""
        self._subscribers.pop(key, None)
        if len(self._subscribers) >= pm.N_SUBSCRIPTIONS_MAX:
            self.unsubscribe(next(iter(self._subscribers)))  # the one opened longest ago
        self._subscribers[key] = send
        recorder = self._host.recorder
        if recorder is not None:
            recorder.subscribe(key, send)
        else:
            send(*pm.encode(pm.Snapshot(), pm.NOTHING))

    def unsubscribe(self, key: str) -> None:
        """Stop sending; harmless if it is not subscribed."""
        self._subscribers.pop(key, None)
        if self._host.recorder is not None:
            self._host.recorder.unsubscribe(key)

    # --- requests

    def answer(self, content: dict[str, Any], reply: Reply, subscribe: Callable[[str], None] | None = None,
               unsubscribe: Callable[[str], None] | None = None) -> None:
        """Answer one request: at once, or from another thread when it takes a while.

        Parameters
        ----------
        content : dict
            The request as it came.
        reply : callable
            Takes the answer's content; called once, from any thread.
        subscribe, unsubscribe : callable, optional
            What to do with the comm's id on open and resync, and on close; by default the graph goes to that comm.
        """
        try:
            request = pm.parse_request(content)
        except msgspec.ValidationError as error:
            reply(_refusal("BadRequest", str(error)))
            return
        match request:
            case pm.Hello(language):
                speak(language)
                recorder = self._host.recorder
                is_active = recorder is not None and recorder.is_live
                session = recorder.session_id if recorder is not None and is_active else ""
                reply(msgspec.to_builtins(pm.HelloReply(self._host.version, is_active, session)))
            case pm.Open(comm_id) | pm.Resync(comm_id):
                reply(msgspec.to_builtins(pm.Ok()))
                (subscribe or self._subscribe_comm)(comm_id)
            case pm.Close(comm_id):
                (unsubscribe or self.unsubscribe)(comm_id)
                reply(msgspec.to_builtins(pm.Ok()))
            case _:
                self._start(request, reply)

    def _subscribe_comm(self, comm_id: str) -> None:
        self.subscribe(comm_id, lambda data, buffers: self._host.send_comm(comm_id, data, buffers))

    def _start(self, request: pm.AnyRequest, reply: Reply) -> None:
        def run() -> None:
            if not self._jobs.acquire(blocking=False):  # here, where no interrupt can come between this and the release
                reply(_refusal("Busy", "Too many requests are under way; try again in a moment."))
                return
            try:
                reply(msgspec.to_builtins(self._do(request)))
            except (RequestError, CellError, IndexError, CellmeshError, ValueError, OSError) as error:
                reply(_refusal(type(error).__name__, str(error)))
            except Exception as error:  # what fetching a value raised: the task's own error
                reply(_refusal(type(error).__name__, str(error)))
                raise
            finally:
                self._jobs.release()

        ServiceThread(run, "cellmesh-request").start()

    def _do(self, request: pm.AnyRequest) -> pm.Ok:
        recorder = self._host.recorder
        if recorder is None:
            raise RequestError("No cellmesh session has run in this kernel yet.")
        match request:
            case pm.Card(row):
                facts = self._host.cards.of_row(recorder, row)
                return pm.CardReply(card_html(facts), card_text(facts), data_of(facts))
            case pm.Cancel(row, force):
                return self._cancel(recorder, row, force)
            case pm.Retry(row):
                return self._retry(recorder, row)
            case pm.Fetch(row, name):
                return self._fetch(recorder, row, name)
            case pm.Stack(row):
                return self._stack(recorder, row)
            case pm.Logs(after):
                return self._logs(recorder, after)
            case pm.Memory():
                return self._memory(recorder)
            case pm.Save(path):
                from .saving import record
                return pm.SaveReply(path, record(recorder, self._host.cards).save(path))
        raise AssertionError(f"unhandled request {request}")

    def _cancel(self, recorder: Recorder, number: int, force: bool) -> pm.CancelReply:
        from ..api import cancel
        row, ref = self._find(recorder, number)
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

    def _retry(self, recorder: Recorder, number: int) -> pm.RetryReply:
        from .retry import rebind, submit_again
        row, ref = self._find(recorder, number)
        if row["state"] not in ("failed", "cancelled"):
            raise RequestError("Only a task that has failed or was cancelled can be submitted again.")
        if ref is None:
            raise RequestError("The notebook holds no future of this task any more; run its cell again.")
        return pm.RetryReply(rebind(self._host.namespace, submit_again([ref], self._host.namespace)))

    def _fetch(self, recorder: Recorder, number: int, name: str) -> pm.Ok:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise RequestError(f"{name!r} is no name for a variable.")
        row, ref = self._find(recorder, number)
        if row["state"] in ("waiting", "ready", "running", "retrying"):
            raise RequestError(f"{row['function']} has not finished yet.")
        if ref is None:
            raise RequestError("The notebook holds no reference to this value any more; run its cell again.")
        self._host.namespace[name] = ref.client.get(ref, FETCH_TIMEOUT_S)
        return pm.Ok()

    def _stack(self, recorder: Recorder, number: int) -> pm.StackReply:
        row = row_of(recorder, number)
        if row["state"] != "running" or not row["pid"]:
            raise RequestError(f"{row['function']} is not running now.")
        try:
            return pm.StackReply(readable_stack(stack_of(recorder.session.node.link, row["pid"])))
        except LookupError as reason:
            raise RequestError(str(reason)) from None

    def _logs(self, recorder: Recorder, after: int) -> pm.LogsReply:
        first, lines = recorder.lines.since(after, recorder.now_s(), LOGS_CHARS)
        with recorder.lock:
            rows = {task: recorder.graph.row_of(task) for task in {line.task for line in lines}}
        return pm.LogsReply(first, [pm.LogLine(round(line.at, 3), rows[line.task], line.stream, line.pid, line.text)
                                    for line in lines])

    def _memory(self, recorder: Recorder) -> pm.MemoryReply:
        from .store_map import store_map
        if not recorder.is_live:
            raise RequestError("The session has ended, and its memory has been given back.")
        return store_map(recorder)

    def _find(self, recorder: Recorder, number: int) -> tuple[dict[str, Any], Ref | None]:
        row = row_of(recorder, number)
        ref = recorder.session.client.ref_of(row["seq"]) if recorder.is_live else None
        return row, ref


def _refusal(name: str, text: str) -> dict[str, Any]:
    return msgspec.to_builtins(pm.Refusal(name, text))
