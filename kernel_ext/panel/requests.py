"""The kernel's end of the panel: subscriptions, and the answers to requests. `actions` does what a request asks for.

Requests come on the control channel, whose thread answers while a cell runs. It answers quick requests itself; a thread
of its own answers each of the others. The graph goes out on iopub, straight through the kernel's session. A comm's own
`send` would make ipykernel route the front end's next message to the main thread, where it would wait for the cell.

Every request makes JupyterLab believe that the kernel has become idle. So after an answer during a cell the kernel says
once more that it is busy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...exceptions import CellmeshError
from ...scheduler.sync.threads import ServiceThread
from .. import panel_messages as pm
from ..cards.i18n import speak
from ..cells.analysis.read import CellError
from ..graph.recorder import Recorder, Send
from .actions import RequestError, perform
from .learning_feed import LearningFeed
from .trial_feed import TrialFeed

if TYPE_CHECKING:
    from ..host import Host

N_JOBS_MAX = 16  # requests under way that take a while

Reply = Callable[[dict[str, Any]], None]


class Panels:
    """Answers requests of front ends, from the control channel and from widgets alike.

    Parameters
    ----------
    host : Host
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._subscribers: dict[str, Send] = {}
        self.trials = TrialFeed(self._began_at)
        self.learning = LearningFeed(self._began_at)
        self._jobs = threading.BoundedSemaphore(N_JOBS_MAX)

    # --- subscriptions

    def attach(self, recorder: Recorder) -> None:
        """A session has begun: every subscriber gets its graph."""
        for key, send in list(self._subscribers.items()):
            recorder.subscribe(key, send)
        self.trials.restart()
        self.learning.restart()

    def _began_at(self) -> float:
        """When the session began, as Unix time; 0 while there is none."""
        return self._host.recorder.unix_time(0.0) if self._host.recorder is not None else 0.0

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
        self.trials.subscribe(key, send)
        self.learning.subscribe(key, send)

    def unsubscribe(self, key: str) -> None:
        """Stop sending; harmless if it is not subscribed."""
        self._subscribers.pop(key, None)
        if self._host.recorder is not None:
            self._host.recorder.unsubscribe(key)
        self.trials.unsubscribe(key)
        self.learning.unsubscribe(key)

    # --- requests

    def answer(
        self,
        content: dict[str, Any],
        reply: Reply,
        subscribe: Callable[[str], None] | None = None,
        unsubscribe: Callable[[str], None] | None = None,
        key: str = "",
    ) -> None:
        """Answer one request: at once, or from another thread when it takes a while.

        Parameters
        ----------
        content : dict
            The request as it came.
        reply : callable
            Takes the answer's content; called once, from any thread.
        subscribe, unsubscribe : callable, optional
            What to do with the comm's id on open and resync, and on close; by default the graph goes to that comm.
        key : str
            The subscription that the request is about; "": that of its comm.
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
            case pm.WatchTrials(comm_id, path, metric):
                reply(msgspec.to_builtins(pm.Ok()))
                self.trials.watch(key or comm_id, path, metric)
            case pm.WatchLearning(comm_id, wanted):
                reply(msgspec.to_builtins(pm.Ok()))
                self.learning.watch(key or comm_id, wanted)
            case _:
                self._start(request, reply)

    def _subscribe_comm(self, comm_id: str) -> None:
        self.subscribe(comm_id, lambda data, buffers: self._host.iopub.send_comm(comm_id, data, buffers))

    def _start(self, request: pm.AnyRequest, reply: Reply) -> None:
        def run() -> None:
            if not self._jobs.acquire(blocking=False):  # here, where no interrupt can come between this and the release
                reply(_refusal("Busy", "Too many requests are under way; try again in a moment."))
                return
            try:
                reply(msgspec.to_builtins(perform(request, self._host)))
            except (RequestError, CellError, IndexError, CellmeshError, ValueError, OSError) as error:
                reply(_refusal(type(error).__name__, str(error)))
            except Exception as error:  # what fetching a value raised: the task's own error
                reply(_refusal(type(error).__name__, str(error)))
                raise
            finally:
                self._jobs.release()

        ServiceThread(run, "cellmesh-request").start()


def _refusal(name: str, text: str) -> dict[str, Any]:
    return msgspec.to_builtins(pm.Refusal(name, text))
