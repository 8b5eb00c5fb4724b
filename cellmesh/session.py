"""The session of this process: its attachment to the node's segment, and what is tied to that.

A driver starts a session with `init`, or at first use; a worker is given one when it is forked. `current()` is where
every call of the API begins.
"""
from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from . import environment, exceptions, surroundings
from .scheduler.bell import Bell
from .scheduler.budget import Budget
from .surroundings import Surroundings, place
from .text import in_resources, warn_user
from .unfetched import KnownErrors, Unfetched, key_of, summary_of, text_of

if TYPE_CHECKING:
    from .objstore._core import Client, Ref, Shape
    from .exports import Export, Use
    from .notifier import Notifier
    from .packages import Package
    from .scheduler.launch import Launch

N_OBITUARIES = 256  # dead workers whose last lines are remembered
MOST_SHAPES = 1024  # of resources are remembered
OBITUARY_S = 0.2    # how long an error waits for them
N_FAILED = 1000     # tasks that have failed lately
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
        What tasks and actors run in unless they say otherwise, in the form of `environment.normal`.
    cluster : str
        The address of the cluster's head, "tcp://HOST:PORT", if the session takes part in one.
    cluster_folder : str
        Where this user's keys for it are.
    labels : dict of str to str
        Of this node of it.
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
    farewell : str
        What it said of the session's end, if that was not this process's doing.
    tracks_code : bool
        Whether `forget_changed_code` will be called; then what exported code uses is remembered.
    kept_calls : KeptCalls or None
        The notebook's: sees the calls of remote functions.
    """

    def __init__(self, node: Any, client: Client, config: Config, *, is_worker: bool = False, in_cluster: bool = False) -> None:
        self.node = node
        self.client = client
        self.config = config
        self.is_worker = is_worker
        self._is_to_join = in_cluster or bool(config.cluster)
        self.packages: dict[str, Package] = {}
        self.started_at = time.time()
        self.lost = self.farewell = ""
        self.tracks_code = False
        self.kept_calls: Any = None
        self.exports: weakref.WeakKeyDictionary[Export, dict[Any, Ref]] = weakref.WeakKeyDictionary()
        self.exported_uses: weakref.WeakKeyDictionary[Export, list[Use]] = weakref.WeakKeyDictionary()
        self.bound: weakref.WeakSet[Any] = weakref.WeakSet()  # whatever holds a submitter of this session; has unbind()
        self.method_functions: dict[tuple[str, str, tuple[type, ...]], Ref] = {}
        self._shapes: dict[Any, Shape] = {}
        self._notifier: Notifier | None = None
        self._prints = False
        # Of a session that was joined the workers are somebody else's too.
        self._surroundings = Surroundings() if not is_worker and not config.address else None
        self._context: Ref | None = None
        self.unfetched = Unfetched(lambda text: self.tell("unfetched_error", text))
        self.errors = KnownErrors()
        self._notices = Budget(NOTICES_PER_S, NOTICES_BURST, time.monotonic())
        self._lock = threading.Lock()
        self._heard = Bell()
        self._failed: deque[int] = deque(maxlen=N_FAILED)
        self._obituaries: dict[int, list[str]] = {}

    @property
    def in_cluster(self) -> bool:
        """Whether the session takes part in a cluster, or is about to."""
        known = self.client.in_cluster()
        return self._is_to_join if known is None else known

    @property
    def has_left_cluster(self) -> bool:
        """Whether the session took part in a cluster, and goes on alone."""
        return self.client.in_cluster() is False

    @property
    def namespace(self) -> str:
        """Where names of actors are looked up unless a call says otherwise."""
        return self.config.namespace

    @property
    def notifier(self) -> Notifier:
        """The thread that resumes coroutines; started at its first use."""
        with self._lock:
            if self._notifier is None:
                from .notifier import Notifier
                self._notifier = Notifier(self.client)
            return self._notifier

    def placed(self, demand: dict[str, float], hold: dict[str, float] | None, owner: str,
               options: Mapping[str, Any]) -> tuple[Shape, int | None]:
        """As `shape`, where the option `scheduling_strategy` says; and the number of the placement group, see `Place`.

        Raises
        ------
        ValueError
            The bundle has less than is asked for, or the node is not there.
        """
        if options.get("scheduling_strategy") is None and options.get("label_selector") is None:
            return self.shape(demand, hold, owner, options), None
        from .placement import place_of, raise_misfit
        place = place_of(self, options, owner)
        if not place.number:
            return self.shape(demand, hold, owner, options, place.route, place.wish), place.number
        env = environment.number_of(environment.effective(options, self.config.runtime_env), self.in_cluster)
        shape, fits = self.client.resource_class(demand, hold, env, place.number, place.bundle, place.captures)
        if not fits:
            raise_misfit(options, demand, owner)
        return shape, place.number

    def shape(self, demand: dict[str, float], hold: dict[str, float] | None, owner: str,
                       options: Mapping[str, Any] | None = None, route: int = 0, wish: str = "") -> Shape:
        """What the store knows by: resources, environment and route (see `placement.Place`); warns, once, of one that this node can
        never satisfy, where no other may."""
        env = 0 if options is None else environment.number_of(environment.effective(options, self.config.runtime_env), self.in_cluster)
        key = (*sorted(demand.items()), None, *sorted((hold or {}).items()), hold is None, env, route, wish)
        shape = self._shapes.get(key)
        if shape is None:
            shape, fits = self.client.resource_class(demand, hold, env, route=route, strategy=wish)
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape
            # Else the head says what no machine can run.
            stays_here = not self.in_cluster or (not wish and (env and not env & 1 or route))
            if stays_here and not fits:
                self._warn_of_infeasible(demand, owner)
        return shape

    def _warn_of_infeasible(self, demand: dict[str, float], owner: str) -> None:
        total, _ = self.client.resources()
        lacking = {name: amount for name, amount in demand.items() if amount > total.get(name, 0.0)}
        there = {name: total.get(name, 0.0) for name in lacking}
        warn_user(f"{owner!r} asks for {in_resources(lacking)}, but all this node has is {in_resources(there)}: it "
                  "will wait for ever. Ask for less, or start the session with more, cellmesh.shutdown() and "
                  "cellmesh.init(...).",
                  exceptions.InfeasibleResourcesWarning)

    def refresh_workers(self, autoreload: bool = False) -> None:
        """Give workers the import path and folder that this driver has now, and none of the modules it has reloaded.

        Looked at when code is exported and between cells of a notebook. Idle workers are replaced, busy ones when their
        tasks have ended; actors stay what they are.
        """
        if self._surroundings is not None and self._surroundings.changed(autoreload):
            self._context = self.client.set_context(place())  # kept: workers that start look at it

    def forget_changed_code(self, autoreload: bool = False) -> None:
        """Have functions and classes exported anew at their next use if a global they use is another object now.

        For the notebook, between cells. What is changed in place (an item of a list) is not noticed. `autoreload`: as for
        `Surroundings.changed`.
        """
        self.refresh_workers(autoreload)
        for export, used in list(self.exported_uses.items()):
            from .exports import MISSING
            if any(namespace.get(name, MISSING) is not value for namespace, name, value in used):
                del self.exported_uses[export]
                self.exports.pop(export, None)
                for bound in list(self.bound):
                    if bound.uses_export(export):
                        bound.unbind()

    def last_lines(self, task: int) -> list[str]:
        """What the worker that died with this task had written to stderr last.

        The notice is sent before the task fails, but by another way, so it may be some milliseconds behind.
        """
        self._heard.wait_for(lambda: task in self._obituaries, 0.0 if self.is_worker else OBITUARY_S)
        return self._obituaries.get(task, [])

    def hear_out(self, task: int) -> None:
        """Wait, for a moment at most, until what a task has printed that has failed is here: its worker tells of it behind that."""
        self._heard.wait_for(lambda: not task or task in self._failed, OBITUARY_S)

    def task_failed(self, record: tuple[Any, ...], task: int) -> None:
        """In a worker: a task has failed for good; drivers hear of it, as far as anybody could read that much."""
        from .scheduler.messages import TaskFailed
        if self._notices.take(1, time.monotonic()):
            self._send(TaskFailed(key_of(record), record[1][:256], text_of(record), summary_of(record), task))

    def error_fetched(self, record: tuple[Any, ...], task: int) -> None:
        """Somebody has got the error of a task."""
        if not self.is_worker:
            self.unfetched.fetched(key_of(record))
            self.errors.note(task, summary_of(record), text_of(record))
        elif self._notices.take(1, time.monotonic()):
            from .scheduler.messages import ErrorFetched
            self._send(ErrorFetched(key_of(record)))

    def _send(self, message: Any) -> None:
        from .scheduler.transport import ConnectionLost
        try:
            self.node.link.send(message)
        except ConnectionLost:  # the session ends; nobody is left to be told
            return

    def tell(self, kind: str, text: str) -> None:
        """In a driver: show people something, where the output of tasks is shown."""
        from .scheduler.messages import MAX_TEXT_CHARS, NodeEvent
        self.node.link.tell(NodeEvent(kind, text[:MAX_TEXT_CHARS]))  # type: ignore[arg-type]

    def hear(self, message: Any) -> None:
        """A message of the local scheduler. Called in the link's thread."""
        from .scheduler.messages import ErrorFetched, NodeEvent, TaskFailed, WorkerDied
        if isinstance(message, TaskFailed):
            self.unfetched.failed(message.key, message.name, message.text)
            self.errors.note(message.task, message.summary, message.text)
            self._failed.append(message.task)
        elif isinstance(message, ErrorFetched):
            self.unfetched.fetched(message.key)
        elif isinstance(message, NodeEvent) and message.kind == "session_ends":
            self.farewell = message.text
        elif isinstance(message, WorkerDied) and message.task:
            self._obituaries[message.task] = message.tail
            while len(self._obituaries) > N_OBITUARIES:
                del self._obituaries[next(iter(self._obituaries))]
        self._heard.ring()

    def keep_calls(self, kept: Any) -> None:
        """Have somebody see the calls of remote functions from now on; None: nobody."""
        self.kept_calls = kept
        self._unbind()

    def _unbind(self) -> None:
        for bound in list(self.bound):
            bound.unbind()

    def close(self, leave: bool = False) -> None:
        """Detach; a driver whose session it is ends all its processes, unless it is to `leave` them."""
        self._unbind()
        self.exports.clear()
        self.exported_uses.clear()
        self.method_functions.clear()
        self.client.close()
        self.unfetched.close()
        if self._notifier is not None:
            self._notifier.close()
        self.node.close(leave=leave)
        if not self.config.address and not self.is_worker and not leave:
            self.client.leave_memory()
        if self._prints:  # after the processes have ended: what they printed last is shown too
            from . import driver_output
            driver_output.stop(self)

    def detached_actors(self) -> list[str]:
        """What those that live are called: their names, or their classes' names."""
        return [row["meta"][1] or row["meta"][0] if row["meta"] else "?" for row in self.client.actors()
                if row["detached"] and row["state"] != "dead"]

    def take_over(self) -> None:
        """Give the workers of an earlier driver's session this one's surroundings, and say so."""
        self._context = self.client.set_context(place())
        print(f"cellmesh: an earlier run's session goes on, with {detached_in_words(self.detached_actors())}.", file=sys.stderr)

    def print_output(self) -> None:
        """Show what tasks print, until the session ends."""
        from . import driver_output
        driver_output.start(self)
        self._prints = True

    def why_lost(self) -> str:
        """Why this session is over, which this process has not ended. The segment says that it is before the link says why."""
        self._heard.wait_for(lambda: self.farewell or self.lost, OBITUARY_S)
        return self.farewell or f"The session's local scheduler is gone ({self.lost or 'the connection ended'})."

    def _on_lost(self, reason: str) -> None:
        self.lost = reason or "the connection ended"
        self._heard.ring()
        self.client.close()  # every wait and every call raises from now on
        self.client.wake()


# ---------------------------------------------------------------- the process's one session
# Called with each session that this process starts or joins, before anybody can use it, in the thread that does it.
when_started: list[Callable[[Session], None]] = []


@dataclass
class _Process:
    """The session of this process, and what became of others."""

    session: Session | None = None
    is_forked: bool = False                               # from a process with a session, and not shut down since
    parents: list[Session] = field(default_factory=list)  # of a forked child; kept, so that nothing is released
    starting: threading.RLock = field(default_factory=threading.RLock)


process = _Process()


def current() -> Session:
    """This process's session; the driver's is started if there is none.

    Raises
    ------
    ForkedClientError
        In a child of a process with a session.
    SessionLostError
        If the local scheduler has died.
    """
    session = process.session
    if session is None:
        return _start_implicitly()
    if session.lost:
        raise lost_error(session)
    return session


def current_or_none() -> Session | None:
    """This process's session if there is one; never starts one."""
    return process.session


def running() -> Session:
    """This process's session; for calls that do not start one.

    Raises
    ------
    NotInitializedError
        If there is none.
    """
    if process.session is None and not process.is_forked:
        raise exceptions.NotInitializedError("no cellmesh session runs in this process: call cellmesh.init(), or use "
                                             "any task, first")
    return current()


def of_client(client: Client) -> Session:
    """The session that a ref's client belongs to, if it is this process's."""
    session = process.session
    if session is None or session.client is not client:
        raise exceptions.SessionClosedError("this ref belongs to a session that has been shut down")
    return session


def _start_implicitly() -> Session:
    from .lifecycle import init
    with process.starting:
        if process.session is None:
            init()
        assert process.session is not None
        return process.session


def start(config: Config, launched: Launch | None = None) -> Session:
    """Start or join a session and make it this process's. The caller has seen to it that there is none.

    `launched`: the beginning of one, when it has been made already.
    """
    from .scheduler.node import Node
    from .startup import cluster_config, left_note
    with process.starting:
        refuse_after_fork()
        if process.session is not None:  # by another thread, while this one was on its way here
            return process.session
        if config.address:
            node = Node.connect(config.address)
        else:
            node = Node.start(resources=config.resources, object_store_memory=config.object_store_memory,
                              log_to_driver=config.log_to_driver, namespace=config.namespace, log_dir=config.log_dir,
                              offload_dir=config.offload_dir, offload_limit=config.offload_limit, max_objects=config.max_objects,
                              max_tasks=config.max_tasks, left_note=left_note(config), cluster=cluster_config(config),
                              launched=launched)
        return _begin(node, config)


def adopt(address: str, config: Config) -> Session | None:
    """Make the session that an earlier driver has left this process's; None: it has ended, or somebody else has it.

    `config`: as it was started with.
    """
    from .scheduler.node import Node
    with process.starting:
        refuse_after_fork()
        if process.session is not None:
            return process.session
        node = Node.adopt(address)
        if node is None:
            return None
        _begin(node, config, leave=True).take_over()
        return process.session


def _begin(node: Any, config: Config, leave: bool = False) -> Session:
    from .hooks import Hooks
    from .objstore import _core
    try:
        process.session = _attach(node, _core.Client(node.fd, _core.ROLE_DRIVER, Hooks()), config)
    except BaseException:
        node.close(leave=leave)
        raise
    return process.session


def detached_in_words(detached: list[str]) -> str:
    """'the detached actor 'a'', by what `Session.detached_actors` returns."""
    return f"the detached actor{'s' * (len(detached) != 1)} {', '.join(map(repr, detached))}"


def _attach(node: Any, client: Client, config: Config) -> Session:
    if config.address:
        config = replace(config, resources=client.resources()[0], namespace=config.namespace or node.namespace, **_sizes(client))
    session = Session(node, client, config)
    node.link.on_lost(session._on_lost)
    node.link.add_listener(session.hear)
    for listener in list(when_started):
        listener(session)
    if config.log_to_driver:
        session.print_output()
    return session


def _sizes(client: Client) -> dict[str, int]:
    stats = client.stats()
    return {"object_store_memory": stats["capacity_bytes"], "max_objects": stats["max_objects"], "max_tasks": stats["max_tasks"]}


def adopt_worker(client: Client, link: Any, config: Any) -> Session:
    """Make a worker's attachment its session. Called once in each worker, by the scheduler's worker.

    Parameters
    ----------
    client : Client
        Of role worker.
    link : Link
        The worker's connection to the local scheduler.
    config : SessionConfig
        As `scheduler.messages` has it.
    """
    total = dict(config.total)
    if total.get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # tasks see the GPUs that they asked for
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers with a thread per core each are in each other's way
    if os.environ.get("CELLMESH_COMPAT_RAY"):  # set by compat.ray.install() in the driver
        from .compat.alias import install
        install()
    if config.cluster is not None:
        surroundings.node = os.uname().nodename
    _take_surroundings(client)
    own = Config(resources=total, namespace=config.namespace, log_to_driver=config.log_to_driver, **_sizes(client))
    process.session = Session(WorkerNode(link, config.session, config.session_dir), client, own, is_worker=True,
                              in_cluster=config.cluster is not None)
    return process.session


def _take_surroundings(client: Client) -> None:
    """What the driver has changed since it started the session."""
    context = client.context()
    if context is None:
        return
    path, folder, surroundings.keep_frames = context
    sys.path[:] = [*path, *(own for own in sys.path if own not in path)]
    if os.path.isdir(folder):
        os.chdir(folder)


def shutdown() -> None:
    """End this process's session, if there is one. In a worker: nothing, as the session is the driver's."""
    with process.starting:
        process.is_forked = False
        session = process.session
        if session is None or session.is_worker:
            return
        process.session = None
        session.close()


def leave() -> None:
    """At the end of this process: end its session, unless a detached actor lives, which goes on then."""
    session = process.session
    if session is None or session.is_worker or session.config.address or session.lost:
        return shutdown()
    detached = session.detached_actors()
    if not detached:
        return shutdown()
    print(f"cellmesh: the session goes on, with {detached_in_words(detached)}. The next run finds it again; `cellmesh stop "
          f"{session.node.session_id}` ends it.", file=sys.stderr)
    process.session = None
    session.close(leave=True)


def lost_error(session: Session) -> exceptions.SessionLostError:
    """Why nothing works any more."""
    return exceptions.SessionLostError(
        f"{session.why_lost()} Every task, actor and object has gone with it. Call cellmesh.init() to begin anew, then run again "
        "what made the values you need")


def refuse_after_fork() -> None:
    """Raises ForkedClientError in a child of a process with a session."""
    if process.is_forked:
        raise forked_error()


def forked_error() -> exceptions.ForkedClientError:
    return exceptions.ForkedClientError(
        "this process was forked from one that uses cellmesh, and a session cannot be shared that way. Start processes "
        "with multiprocessing's 'spawn' method or subprocess, run the work as a cellmesh task, or call "
        "cellmesh.shutdown() here first to begin a session of this process's own")


def _after_fork_in_child() -> None:
    process.starting = threading.RLock()
    if process.session is not None:
        for bound in list(process.session.bound):
            bound.unbind()
        process.parents.append(process.session)
        process.session = None
        process.is_forked = True


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(leave)
