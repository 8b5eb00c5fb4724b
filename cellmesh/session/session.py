"""Class `Session`: a process's attachment to the node's segment, and what is tied to that.

`current` has the one session of this process; `cellmesh.startup` begins and ends it.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from .. import exceptions
from ..environment import runtime_env
from ..environment.driver_env import DriverEnv
from ..environment.imported import Imported
from ..exit_codes import how_it_ended
from ..scheduler.sync.condition import Condition
from ..scheduler.sync.token_bucket import TokenBucket
from ..text import in_resources, warn_user
from .sent_arguments import SentArguments
from .unfetched_errors import KnownErrors, UnfetchedErrors, key_of, summary_of, text_of

if TYPE_CHECKING:
    from ..environment.packages import Package
    from ..objstore._core import Client, Ref, Shape
    from ..scheduler.ipc.messages import EngineState, EventKind
    from ..submit.export import Export
    from ..tasks.call_log import KeptCalls
    from ..tasks.periodic import Periodic
    from .notifier import Notifier

MOST_LAST_OUTPUTS = 256  # dead workers whose last lines are remembered
MOST_SHAPES = 1024  # of resources are remembered
LAST_OUTPUT_S = 0.2  # how long an error waits for them
DRAIN_S = 1.0  # how long the end of a session waits for what tasks have printed
N_FAILED = 1000  # tasks that have failed lately
NOTICES_PER_S, NOTICES_BURST = 20, 200  # of failed tasks and fetched errors that a worker tells drivers


@dataclass(frozen=True)
class Config:
    """What a session was started with, defaults filled in.

    Attributes
    ----------
    resources : dict of str to float
        What tasks may ask for: "CPU", "GPU", "memory" (bytes) and custom ones.
    object_store_memory : int
        Bytes for values.
    namespace : str
        Where names of actors are looked up.
    log_to_driver : bool
        Whether what workers print is shown.
    address : str
        Of the session that was joined; "" for one that was started.
    log_dir : str
        The folder where workers write all that tasks print; "" for none.
    offload_dir : str, optional
        The folder in which objects lie that memory has no room for; None: where there is a real disk.
    offload_limit : int, bytes, optional
        How much may lie there; None: half of what is free.
    max_objects, max_tasks : int
        How many objects there can be at a time, and how many unfinished tasks.
    runtime_env : dict
        What tasks and actors run in unless they say otherwise, in the form of `runtime_env.normal`.
    cluster : str
        The address of the cluster's head, "tcp://HOST:PORT", if the session takes part in one.
    cluster_folder : str
        Where this user's keys for it are.
    labels : dict of str to str
        Of this node of it.
    engine_options : dict
        What the engine at that address is told.
    """

    resources: dict[str, float]
    object_store_memory: int
    namespace: str
    log_to_driver: bool = True
    address: str = ""
    log_dir: str = ""
    offload_dir: str | None = None
    offload_limit: int | None = None
    max_objects: int = 0
    max_tasks: int = 0
    runtime_env: dict[str, Any] = field(default_factory=dict)
    cluster: str = ""
    cluster_folder: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    engine_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerNode:
    """A worker's view of its node, in place of the driver's `scheduler.node.Node`."""

    link: Any
    session_id: str
    session_dir: str

    def close(self, timeout_s: float = 0.0) -> None:
        """Nothing: the session is the driver's."""


class Session:
    """A process's attachment to a node.

    Attributes
    ----------
    node : Node or WorkerNode
    client : Client
        The C core's view of the segment.
    config : Config
    is_worker : bool
    started_at : float
        Unix time.
    lost : str
        Why the local scheduler is gone; "" while it is there.
    end_reason : str
        What it said of the session's end, if that was not this process's doing.
    kept_calls : KeptCalls or None
        The notebook's: sees the calls of remote functions.
    engine : EngineState or None
        What is known of the engine that its tasks run on, if there is one.
    is_pocket : bool
        It is that of tasks which run on an engine.
    """

    is_pocket: bool = False

    def __init__(
        self, node: Any, client: Client, config: Config, *, is_worker: bool = False, in_cluster: bool = False
    ) -> None:
        self.node = node
        self.client = client
        self.config = config
        self.is_worker = is_worker
        # What tasks and actors run in unless they say otherwise. Their processes take the namespace from it where those
        # of one session work for several drivers: it has been joined, or takes part in a cluster.
        self.environment: dict[str, Any] = (
            {**config.runtime_env, runtime_env.NAMESPACE: config.namespace}
            if config.address or config.cluster
            else config.runtime_env
        )
        self._is_to_join = in_cluster or bool(config.cluster)
        self.packages: dict[str, Package] = {}
        self.started_at: float = time.time()
        self.lost: str = ""
        self.end_reason: str = ""
        self.kept_calls: KeptCalls | None = None
        self.engine: EngineState | None = None
        self.exports: weakref.WeakSet[Export] = weakref.WeakSet()
        self.bound: weakref.WeakSet[Any] = (
            weakref.WeakSet()
        )  # all that hold a submitter of this session; each has unbind()
        self.sent: SentArguments = SentArguments()
        self.method_functions: dict[tuple[str, str, tuple[type, ...]], Ref] = {}
        self._shapes: dict[Any, Shape] = {}
        self._notifier: Notifier | None = None
        self.periodic: set[Periodic] = set()  # calls that come again and again
        self.ends_showing: list[Callable[[], None]] = []  # of what tasks print: called before the session ends
        # The workers of a session that was joined belong to others, too.
        self._driver_env = DriverEnv() if not is_worker and not config.address else None
        self._imported = Imported() if self._driver_env is not None else None
        self._context: Ref | None = None
        self._context_lock = threading.RLock()  # a signal handler may set a level
        self._stop_watching: Callable[[], None] = lambda: None
        if self._driver_env is not None:
            from ..environment import log_levels

            self._stop_watching = log_levels.on_change(self._levels_set)
        self.unfetched_errors: UnfetchedErrors = UnfetchedErrors(lambda text: self.tell("unfetched_error", text))
        self.errors: KnownErrors = KnownErrors()
        self._notices = TokenBucket(NOTICES_PER_S, NOTICES_BURST, time.monotonic())
        self._lock = threading.Lock()
        self._heard = Condition()
        self._n_drains = self._n_drained = 0
        self._killed: set[int] = set()  # pids of workers that this process has killed and not heard the end of
        self._failed: deque[int] = deque(maxlen=N_FAILED)
        self._last_outputs: dict[int, list[str]] = {}

    @property
    def in_cluster(self) -> bool:
        """Whether the session takes part in a cluster, or is about to."""
        known = self.client.in_cluster()
        return self._is_to_join if known is None else known

    @property
    def asks_agent(self) -> bool:
        """Whether an agent knows names of actors, and what processes share by other names."""
        return self.in_cluster

    def agent(self) -> Ref | None:
        """By which it is called; None: it is not there."""
        from ..scheduler.cluster.agent.requests import NAME
        from ..scheduler.ipc.messages import AGENT_NAMESPACE

        return self.client.get_actor(NAME, AGENT_NAMESPACE)

    @property
    def has_left_cluster(self) -> bool:
        """Whether the session took part in a cluster, and goes on alone."""
        return self.client.in_cluster() is False

    @property
    def namespace(self) -> str:
        """Where names of actors are looked up unless a call says otherwise."""
        return runtime_env.namespace_of_driver(self.config.namespace)

    @property
    def notifier(self) -> Notifier:
        """The thread that resumes coroutines; started at its first use."""
        with self._lock:
            if self._notifier is None:
                from .notifier import Notifier

                self._notifier = Notifier(self.client)
            return self._notifier

    def environment_number(self, options: Mapping[str, Any]) -> int:
        """What the store knows the environment of a task with these options by."""
        return runtime_env.number_of(runtime_env.effective(options, self.environment), self.in_cluster)

    def package_dir(self) -> str:
        """Below which folders of other machines are unpacked here."""
        return self.node.session_dir

    def shape(
        self,
        demand: dict[str, float],
        hold: dict[str, float] | None,
        owner: str,
        env: int = 0,
        route: int = 0,
        wish: str = "",
        terms: Mapping[str, Any] | None = None,
    ) -> Shape:
        """What the store knows by: resources, environment, route and terms.

        See `scheduling_strategies.Place` and `options.terms_of`.

        Warns, once, of a shape that this node can never satisfy, where no other node may.
        """
        terms = terms or {}
        key = (
            *sorted(demand.items()),
            None,
            *sorted((hold or {}).items()),
            hold is None,
            env,
            route,
            wish,
            *terms.items(),
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape, fits = self.client.resource_class(demand, hold, env, route=route, strategy=wish, **terms)
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape
            # Else the head says what no machine can run.
            stays_here = not self.in_cluster or (not wish and ((env and not env & 1) or route))
            if stays_here and not fits:
                self._warn_of_infeasible(demand, owner)
        return shape

    def _warn_of_infeasible(self, demand: dict[str, float], owner: str) -> None:
        total, _ = self.client.resources()
        lacking = {name: amount for name, amount in demand.items() if amount > total.get(name, 0.0)}
        there = {name: total.get(name, 0.0) for name in lacking}
        warn_user(
            f"{owner!r} asks for {in_resources(lacking)}, but all this node has is {in_resources(there)}: it "
            "will wait for ever. Ask for less, or start the session with more, cellmesh.shutdown() and "
            "cellmesh.init(...).",
            exceptions.InfeasibleResourcesWarning,
        )

    def make_actor(
        self,
        function: Ref,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        demand: dict[str, float],
        hold: dict[str, float] | None,
        options: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> Ref | None:
        """Of a task that runs on an engine: make an actor at its home. `how`: as of `Client.create_actor`. Its handle;
        None: its name is taken.
        """
        raise NotImplementedError(f"an actor is made in the segment of session {self.node.session_id}")

    def called(self, actor: Ref) -> Ref:
        """The actor of a handle, as calls by that handle name it."""
        return actor

    def refresh_workers(self, autoreload: bool = False) -> None:
        """Give workers the import path, folder and environment variables that this driver has now, and none of the
        modules it has reloaded.

        Looked at when code is exported and between cells of a notebook. Idle workers are replaced, busy ones when their
        tasks have ended; actors stay what they are. Levels of loggers, which are set at once, are only looked at once
        more, with whether there are handlers.
        """
        if self._driver_env is None:
            return
        with self._context_lock:
            is_other_place = self._driver_env.changed(autoreload)
            are_other_levels = self._driver_env.levels_changed(are_told=True)
            if is_other_place or are_other_levels:
                self._set_context(retires=is_other_place)
        self.tell_imported()

    def tell_imported(self) -> None:
        """Have new workers begin with what the program has imported by now.

        Also after a cell of a notebook, for the next one's tasks.
        """
        if self._imported is not None and (news := self._imported.news()) is not None:
            self._send(news)

    def _set_context(self, retires: bool) -> None:
        assert self._driver_env is not None  # a driver whose session it is
        self._context = self.client.set_context(self._driver_env.context(), retires)  # kept: workers look at it

    def _levels_set(self) -> None:
        """Somebody has set the level of a logger; workers follow at once."""
        if self._driver_env is None or self.client.closed:  # over, or this is a forked child
            return
        try:
            with self._context_lock:
                if self._driver_env.levels_changed():
                    self._set_context(retires=False)
        except (exceptions.SessionError, exceptions.StoreCorruptedError):
            pass  # it has just ended: no worker logs any more

    def forget_changed_code(self, autoreload: bool = False) -> None:
        """Let go of copies of functions and classes that use what is another object now, or was changed in place.

        For the notebook, between cells: their next use would notice, but may never come. `autoreload`: as for
        `DriverEnv.changed`.
        """
        self.refresh_workers(autoreload)
        for export in list(self.exports):
            if export.forget_old():
                self._forget_export(export)

    def export_anew(self) -> None:
        """Have all functions and classes exported again at their next use."""
        for export in list(self.exports):
            export.made = None
            self._forget_export(export)

    def _forget_export(self, export: Export) -> None:
        self.exports.discard(export)
        for bound in list(self.bound):
            if bound.uses_export(export):
                bound.unbind()

    def last_lines(self, task: int) -> list[str]:
        """What the worker that died with this task had printed last.

        The notice is sent before the task fails, but by another way, so it may be some milliseconds behind.
        """
        self._heard.wait_for(lambda: task in self._last_outputs, 0.0 if self.is_worker else LAST_OUTPUT_S)
        return self._last_outputs.get(task, [])

    def hear_out(self, task: int) -> None:
        """Wait, for a moment at most, until what a task has printed that has failed is here: its worker tells of it
        behind that.
        """
        self._heard.wait_for(lambda: not task or task in self._failed, LAST_OUTPUT_S)

    def note_killed(self, pid: int) -> None:
        """This process has killed a worker, of which a driver hears the last lines; 0: none."""
        if pid and not self.is_worker:
            self._killed.add(pid)

    def refuse_on_engine(self, what: str, remedy: str) -> None:
        """Refuse what a task cannot do that runs on an engine, unless this is none.

        Raises
        ------
        EngineUnsupportedError
            This is one.
        """
        if self.is_pocket:
            raise exceptions.EngineUnsupportedError(f"{what} is of a task that runs on an engine, where {remedy}")

    def hear_printed(self) -> None:
        """Wait, for a moment at most, until what all tasks have printed whose values are there is here, and what those
        had printed that this process has killed.
        """
        from ..scheduler.ipc.messages import Drain

        deadline = time.monotonic() + DRAIN_S
        if self._killed:  # that one has ended may have been told before it was noted here
            try:
                self._killed &= {entry["pid"] for entry in self.client.clients() if entry["role"] == "worker"}
            except exceptions.SessionError:  # it is over, and nobody is left to be asked
                return
            self._heard.wait_for(lambda: not self._killed or self.lost, DRAIN_S)
            self._killed.clear()
        self._n_drains += 1
        asked = self._n_drains
        self._send(Drain(asked))
        if not self._heard.wait_for(lambda: self._n_drained >= asked or self.lost, deadline - time.monotonic()):
            self.tell(
                "output_lost",
                f"the local scheduler has not passed on within {DRAIN_S:g} s what tasks have printed: the last lines "
                "may be missing",
            )

    def task_failed(self, record: tuple[Any, ...], task: int) -> None:
        """In a worker: a task has failed for good; drivers hear of it, as far as anybody could read that much."""
        from ..scheduler.ipc.messages import TaskFailed

        _, function_name, *_ = record
        if self._notices.take(1, time.monotonic()):
            self._send(TaskFailed(key_of(record), function_name[:256], text_of(record), summary_of(record), task))

    def error_fetched(self, record: tuple[Any, ...], task: int) -> None:
        """Somebody has got the error of a task."""
        if not self.is_worker:
            self.unfetched_errors.fetched(key_of(record))
            self.errors.note(task, summary_of(record), text_of(record))
        elif self._notices.take(1, time.monotonic()):
            from ..scheduler.ipc.messages import ErrorFetched

            self._send(ErrorFetched(key_of(record)))

    def collectives_begin(self, times: bytes) -> None:
        """In a worker: drivers are to hear of a group's `CollectiveTimes`, of which this is a pickled ref."""
        from ..scheduler.ipc.messages import CollectivesBegin

        self._send(CollectivesBegin(times))

    def _send(self, message: Any) -> None:
        from ..scheduler.ipc.transport import ConnectionLost

        try:
            self.node.link.send(message)
        except ConnectionLost:  # the session ends; nobody is left to be told
            return

    def tell(self, kind: EventKind, text: str, origin: int = 0) -> None:
        """In a driver: show people something, where the output of tasks is shown; `origin`: under the cell of that
        number.
        """
        from ..scheduler.ipc.messages import MAX_TEXT_CHARS, NodeEvent

        self.node.link.tell(NodeEvent(kind, text[:MAX_TEXT_CHARS], origin))

    def hear(self, message: Any) -> None:
        """A message of the local scheduler. Called in the link's thread."""
        from ..scheduler.ipc.messages import (
            Drained,
            EngineState,
            ErrorFetched,
            NodeEvent,
            TaskFailed,
            WorkerDied,
        )

        if isinstance(message, Drained):
            self._n_drained = message.request
        elif isinstance(message, TaskFailed):
            self.unfetched_errors.failed(message.key, message.name, message.text)
            self.errors.note(message.task, message.summary, message.text)
            self._failed.append(message.task)
        elif isinstance(message, ErrorFetched):
            self.unfetched_errors.fetched(message.key)
        elif isinstance(message, NodeEvent) and message.kind == "session_ends":
            self.end_reason = message.text
        elif isinstance(message, EngineState):
            self.engine = message
            self._unbind()  # the next call of a function sees it
        elif isinstance(message, WorkerDied):
            if message.index >= 0:  # else the number is one of another machine
                self._killed.discard(message.pid)
            if message.task:
                self._last_outputs[message.task] = message.tail
                self.errors.note(message.task, f"its process {how_it_ended(message.code)}", is_supposed=True)
                while len(self._last_outputs) > MOST_LAST_OUTPUTS:
                    del self._last_outputs[next(iter(self._last_outputs))]
        self._heard.notify_all()

    def engine_known(self, timeout: float | None = None) -> bool:
        """Wait until something is known of the engine, or the session has ended; whether that came in time."""
        return self._heard.wait_for(lambda: self.engine is not None or self.lost, timeout)

    def keep_calls(self, kept: KeptCalls | None) -> None:
        """Have the calls of remote functions noted there from now on; None: nowhere."""
        self.kept_calls = kept
        self._unbind()

    def _unbind(self) -> None:
        for bound in list(self.bound):
            bound.unbind()

    def close(self, leave: bool = False) -> None:
        """Detach; a driver whose session it is ends all its processes, unless it is to `leave` them."""
        for periodic in list(self.periodic):
            periodic.stop()
        if self.ends_showing and not self.lost:
            self.hear_printed()
        self._stop_watching()
        self._stop_watching = lambda: None  # it holds what leads back here
        for end in self.ends_showing:  # while the tasks that have printed can still be named
            end()
        self._unbind()
        self.export_anew()
        self.sent.clear()
        self.method_functions.clear()
        self.client.close()
        for periodic in list(self.periodic):
            periodic.cancel()
        self.unfetched_errors.close()
        if self._notifier is not None:
            self._notifier.close()
        self.node.close(leave=leave)
        if not self.config.address and not self.is_worker and not leave:
            self.client.leave_memory()

    def detached_actors(self) -> list[str]:
        """What those that live are called: their names, or their classes' names."""
        return [
            row["meta"][1] or row["meta"][0] if row["meta"] else "?"
            for row in self.client.actors()
            if row["detached"] and row["state"] != "dead"
        ]

    def take_over(self) -> None:
        """Give the workers of an earlier driver's session this driver's import path and folder, and say so."""
        self._set_context(retires=True)
        print(
            f"cellmesh: an earlier run's session goes on, with {detached_in_words(self.detached_actors())}.",
            file=sys.stderr,
        )

    def why_lost(self) -> str:
        """Why this session is over, which this process has not ended. The segment says that it is before the link says
        why.
        """
        self._heard.wait_for(lambda: self.end_reason or self.lost, LAST_OUTPUT_S)
        return self.end_reason or f"The session's local scheduler is gone ({self.lost or 'the connection ended'})."

    def on_lost(self, reason: str) -> None:
        self.lost = reason or "the connection ended"
        self._heard.notify_all()
        self.client.close()  # every wait and every call raises from now on
        self.client.wake()


def detached_in_words(detached: list[str]) -> str:
    """'the detached actor 'a'', by what `Session.detached_actors` returns."""
    return f"the detached actor{'s' * (len(detached) != 1)} {', '.join(map(repr, detached))}"


class Sizes(TypedDict):
    """How large a session's store is, as `Config` has it."""

    object_store_memory: int
    max_objects: int
    max_tasks: int


def sizes_of(client: Client) -> Sizes:
    """How large a session's store is, as `Config` has it."""
    stats = client.stats()
    return {
        "object_store_memory": stats["capacity_bytes"],
        "max_objects": stats["max_objects"],
        "max_tasks": stats["max_tasks"],
    }
