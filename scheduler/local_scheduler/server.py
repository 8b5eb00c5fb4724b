"""The local scheduler's process: wires sockets, pipes, signals and the segment to the decisions in `core`.

One thread runs the loop. A second one sleeps in the segment until something in there wants attention, and says so
through an eventfd. When nothing happens nothing runs: there is no tick.

The kernel tells which process has died: the zygote reaps workers, and a pidfd tells of a driver. The session ends when
this process ends, which kills everything before.
"""

from __future__ import annotations

import _thread
import os
import resource
import signal
import sys
import time
from typing import assert_never

from ...objstore._core import DIED_OF_MEMORY, ROLE_SCHEDULER, ROUTE_UNDIRECTED, Client, StoreError
from ..ipc import messages
from ..ipc.messages import (
    ClusterReply,
    ClusterRequest,
    CollectivesBegin,
    Drain,
    Drained,
    EngineState,
    ErrorFetched,
    FromZygote,
    Hello,
    HoldersReply,
    HoldersRequest,
    LastOutputRequest,
    Message,
    MetricChanges,
    MetricsReply,
    MetricsRequest,
    NodeEvent,
    PackagesImported,
    PackagesReply,
    PackagesRequest,
    PreloadModules,
    Refused,
    SessionConfig,
    Shutdown,
    StackRequest,
    TaskFailed,
    TaskRetried,
    WorkerDied,
    WorkerOutput,
)
from ..ipc.transport import Channel, Listener, ProtocolError
from ..node import session_dir
from ..system import processes
from . import core, policy
from .children import LEAVE_S, Agent, Zygote, let_leave
from .drivers import Drivers
from .lock_owner import LockOwner
from .loop import Loop
from .memory_shell import MemoryShell
from .metric_sums import Sums
from .peers import Peer, Peers
from .stacks import Stacks
from .states import WorkerState
from .time_limits import TimeLimits
from .worker_pipes import OutputRelay

KILL_TIMEOUT_S = 2.0  # of the 3 s after which nothing of a dead driver's session may be left
GOODBYE_TIMEOUT_S = 0.5  # for the agent


def run(
    config: SessionConfig, listen_fd: int, segment_fd: int, driver_fd: int, zygote: int, zygote_link: Channel
) -> None:
    """Serve a session until it ends, and end with it.

    Parameters
    ----------
    listen_fd, segment_fd, driver_fd : int
        The listening socket, the segment, a pidfd of the driver.
    zygote : int
        Its pid.
    """
    server = Server(config, Listener.inherit(listen_fd), segment_fd, driver_fd, zygote, zygote_link)
    try:
        server.run()
    except BaseException as error:  # a bug: end loudly, and take everything along
        sys.excepthook(type(error), error, error.__traceback__)
        print("what happened:", *server.pool.story, sep="\n  ", file=sys.stderr, flush=True)
        server.kill_everything()
        os._exit(70)
    sys.stderr.flush()
    os._exit(0)  # the other thread sleeps in the segment and need not be woken for this


class Server:
    """Turns what happens into events for the core, performs its actions, and gives each message to the part that it is
    for."""

    def __init__(
        self,
        config: SessionConfig,
        listener: Listener,
        segment_fd: int,
        driver_fd: int,
        zygote: int,
        zygote_link: Channel,
    ) -> None:
        _raise_descriptor_limit()
        self._config = config
        self._client = client = Client(segment_fd, ROLE_SCHEDULER, None)
        self._loop = loop = Loop()
        self._must_look = True  # the demand may have changed
        self._is_done = False
        self.pool = core.Pool(policy.limits_for(config.total.get("CPU", 1.0)), stays=config.stays)
        self._peers = peers = Peers(loop, listener, self._take, self._peer_lost)
        self._zygote = Zygote(loop, config, segment_fd, zygote, zygote_link, self._take_from_zygote)
        self._drivers = Drivers(
            client, loop, peers, config, self.pool, segment_fd, driver_fd, self._step, self._look_soon
        )
        self._agent = Agent(client, peers, config, segment_fd)
        self._output = OutputRelay(client, loop, peers, config)
        self._stacks = Stacks(client, loop, peers)
        self._memory = MemoryShell(client, peers, config, self.pool)
        self._times = TimeLimits(client, self.pool)
        self._lock_owner = LockOwner(client, peers)
        self._metrics = Sums()

    # ---- the loop
    def run(self) -> None:
        """Serve until the session has ended."""
        for timed in (self, self._stacks, self._output, self._memory, self._times):
            self._loop.add_timed(timed)
        self._loop.watch(_catch_signals(), self._read_signals)
        self._loop.watch(self._start_demand_thread(), self._demand_changed)
        if self._config.has_agent:
            self._client.direct(ROUTE_UNDIRECTED)
            self._agent.start()
        self._memory.fetch_ahead(self._client.stats())  # a driver need not wait for us with its first large object
        try:
            while not self._is_done:
                if self._must_look:
                    self._must_look = False
                    self._see_demand()
                self._loop.run_once()
            self._let_leave()
        except StoreError as error:  # a process has overwritten the segment: there is nothing left to serve
            print(f"the session ends: {error}", file=sys.stderr)
            self._peers.tell_drivers(NodeEvent("session_ends", f"The session ends: {error}"))
        self.kill_everything()
        session_dir.remove(self._config.session_dir)

    @property
    def deadline(self) -> float | None:
        """When the core wants to see the demand again."""
        return core.next_deadline(self.pool)

    def pass_deadline(self, now: float) -> None:
        self._look_soon()

    def _look_soon(self) -> None:
        self._must_look = True

    def _step(self, event: core.Event) -> None:
        for action in core.step(self.pool, event, time.monotonic()):
            self._perform(action)
        if not isinstance(event, core.DemandSeen):
            self._look_soon()

    def _see_demand(self) -> None:
        self._agent.fail_unroutable()
        n_actors, n_blocked, n_busy = self._client.count_workers()
        is_kept = self.pool.has_owner or self._drivers.has_guests or self._client.n_detached() > 0
        next_start_s = self._client.next_start()
        self._step(
            core.DemandSeen(
                n_wanted=self._client.workers_wanted(),
                idle=frozenset(self._client.idle_workers()),
                n_actors=n_actors,
                is_kept=is_kept,
                next_start_s=next_start_s,
                n_blocked=n_blocked,
                n_busy=n_busy,
            )
        )

    # ---- actions of the core
    def _perform(self, action: core.Action) -> None:
        match action:
            case core.Fork(n):
                self._zygote.fork(n)
            case core.Retire(index):
                if self._client.retire(index):
                    self._step(core.WorkerRetired(index))
            case core.FailDeepest(n_processes):
                self._client.fail_deepest(n_processes)
            case core.DeclareDead():
                self._declare_dead(action)
            case core.Notify(kind, text, owner_too):
                self._peers.tell_drivers(NodeEvent(kind, text), owner_too=owner_too)
            case core.RestartZygote():
                self._zygote.restart()
            case core.StartAgent():
                self._agent.start()
            case core.KeepSession():
                session_dir.leave(self._config.session_dir, self._config.left_note)
            case core.EndSession(reason):
                print(f"the session ends: {reason}", file=sys.stderr)
                self._is_done = True
            case _:
                assert_never(action)

    def _declare_dead(self, action: core.DeclareDead) -> None:
        if action.unexpected:
            self._tell_death(action)
        self._times.forget_worker(action.pid)
        code = DIED_OF_MEMORY if self._memory.forget_worker(action.pid) else action.code
        again = self._client.client_died(action.index, code)["again"]
        if action.pid and again.number and again.n_before == 1:
            died_of_memory = code == DIED_OF_MEMORY
            retried = TaskRetried(again.number, action.code, died_of_memory, again.n_before + 1, again.most)
            self._peers.tell_drivers(retried, droppable=True)
        self._memory.client_died()

    def _tell_death(self, action: core.DeclareDead) -> None:
        pid = action.pid
        entry = next((entry for entry in self._client.clients() if entry["index"] == action.index), None)
        task, is_actor = (entry["task"], entry["actor"] >= 0) if entry is not None else (0, False)
        # Of an actor all lines count: one call leads to another.
        printed = self._output.tail(pid, task if task and not is_actor else None)
        tail = [*self._memory.why_ended(pid), *self._times.why_ended(pid), *printed][: messages.N_TAIL_LINES]
        self._peers.tell_drivers(WorkerDied(pid, action.index, action.code, task, tail), droppable=True)

    # ---- the segment and the system
    def _start_demand_thread(self) -> int:
        wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

        def watch() -> None:
            try:
                while not self._client.closed:
                    if self._client.next_demand(None):
                        os.eventfd_write(wakeup, 1)
            except BaseException as error:  # without this thread no worker would ever be started again
                sys.excepthook(type(error), error, error.__traceback__)
                os.kill(os.getpid(), signal.SIGTERM)

        _thread.start_new_thread(watch, ())
        return wakeup

    def _demand_changed(self, fd: int) -> None:
        os.eventfd_read(fd)
        if self._is_done:
            return
        self._lock_owner.look()
        if core.can_start(self.pool):
            self._look_soon()
        self._times.look()
        self._memory.look()

    def _read_signals(self, fd: int) -> None:
        arrived = os.read(fd, 4096)
        if signal.SIGTERM in arrived:
            self._step(core.ShutdownAsked(by="signal SIGTERM to its local scheduler"))
        self._reap()

    def _reap(self) -> None:
        """Collect children of this process that have ended: the zygote, the agent, and processes whose parent has
        ended."""
        for pid, code in processes.reap(lambda pid: pid in self.pool.workers):
            if pid == self._zygote.pid:
                self._zygote.ended()
                self._step(core.ZygoteLost(code))
            elif pid == self._agent.pid:
                if self._is_done:  # it has been told to leave
                    self._agent.pid = 0
                else:
                    self._step(core.AgentExited(code, self._agent.ended(code)))
            elif pid in self.pool.workers or self._index_of(pid) is not None:
                self._worker_exited(pid, code)

    # ---- workers
    def _take_from_zygote(self, message: FromZygote, fds: list[int]) -> None:
        match message:
            case messages.WorkerForked(pid):
                stdout, stderr, stacks, held, start = fds
                self._output.add_worker(pid, stdout, stderr, held)
                self._stacks.add_worker(pid, stacks)
                self._step(core.WorkerForked(pid))
                if not self._is_done:
                    os.eventfd_write(start, 1)
                os.close(start)
            case messages.ForkFailed(reason):
                self._step(core.ForkFailed(reason))
            case messages.WorkerExited(pid, code):
                self._worker_exited(pid, code)
            case messages.PackageState():
                if self._zygote.note(message):
                    self._client.replace_workers()
            case _:
                assert_never(message)

    def _worker_exited(self, pid: int, code: int) -> None:
        self._peers.read_last(pid)  # what it sent last is part of the report
        self._output.take_held(pid)
        self._output.read_last(pid)
        if stack := self._stacks.read_last(pid):
            self._output.add_crash(pid, stack)
        self._step(core.WorkerExited(pid, code, self._index_of(pid), self._output.tail(pid)))
        self._output.forget_worker(pid)
        self._stacks.forget_worker(pid)

    def _index_of(self, pid: int) -> int | None:
        return next((entry["index"] for entry in self._client.clients() if entry["pid"] == pid), None)

    # ---- messages of peers
    def _take(self, peer: Peer, message: Message) -> None:
        is_of_worker = isinstance(message, Hello) and message.role == "worker"
        if self._is_done and not is_of_worker and not (isinstance(message, WorkerOutput) and peer.role):
            return
        match message:
            case Hello():
                self._greet(peer, message)
            case WorkerOutput() if peer.role == "worker":
                self._output.take(peer.pid, message)
            case WorkerOutput() if peer.role == "agent":
                self._output.relay(message)
            case EngineState() if peer.role == "agent":
                self._drivers.engine = message
                self._peers.tell_drivers(message)
            case NodeEvent() | ClusterReply() if peer.role == "agent":
                self._peers.tell_drivers(message)
            case WorkerDied() if peer.role == "agent":
                self._peers.tell_drivers(message, droppable=True)
            case HoldersRequest() | HoldersReply() if peer.role == "driver":
                self._peers.tell_drivers(message, droppable=True)
            case TaskFailed() | ErrorFetched() | CollectivesBegin() if peer.role == "worker":
                self._peers.tell_drivers(message, droppable=True)
            case Drain() if peer.role in ("driver", "agent"):
                self._drain(peer, message)
            case Drained() if peer.role == "agent":
                self._agent.drained(message.request)
            case StackRequest() if peer.role == "driver":
                self._stacks.ask(peer, message)
            case LastOutputRequest() if peer.role == "driver":
                self._output.send_last(peer, message.request)
            case MetricChanges():
                self._metrics.add(message.changes)  # beyond `MAX_SERIES` in all, what is new is left out
            case MetricsRequest() if peer.role == "driver":
                self._peers.post(peer, MetricsReply(message.request, self._metrics.all()))
            case ClusterRequest() if peer.role == "driver":
                self._agent.ask(peer, message)
            case PreloadModules() if peer.role in ("driver", "worker"):
                self._zygote.preload(message.names)
            case PackagesImported() if peer.role == "driver":
                self._zygote.warm(message)
            case PackagesRequest() if peer.role == "driver":
                self._peers.post(peer, PackagesReply(message.request, self._zygote.packages()))
            case Shutdown() if peer.is_owner or (peer.role == "driver" and message.by):
                self._step(core.ShutdownAsked(message.by))
            case _:
                raise ProtocolError(f"a {peer.role or 'stranger'} may not send {type(message).__name__}")

    def _greet(self, peer: Peer, hello: Hello) -> None:
        if peer.role:
            raise ProtocolError("a second greeting")
        if hello.version != messages.PROTOCOL_VERSION:
            reason = (
                f"this session speaks version {messages.PROTOCOL_VERSION} of cellmesh's protocol, process "
                f"{hello.pid} speaks {hello.version}: use the same cellmesh in both"
            )
            self._peers.post(peer, Refused(reason))
            raise ProtocolError(reason)
        peer.role = hello.role
        peer.pid = peer.channel.peer()[0] or hello.pid  # the kernel knows, except across namespaces
        match hello.role:
            case "agent":
                self._agent.greet(peer)
            case "worker":
                if peer.pid not in self.pool.workers:
                    raise ProtocolError("it says that it is a worker, and is not")
                self._step(core.WorkerAttached(peer.pid, hello.index))
            case "driver":
                self._drivers.greet(peer, hello)
            case _:
                assert_never(hello.role)

    def _drain(self, peer: Peer, request: Drain) -> None:
        """Relay what lies in the sockets and pipes of workers.

        A worker sends what a task has printed before the task's result is there. So this is the output of all tasks
        whose results anybody has, here; the agent has it sent from where others ran.
        """
        self._peers.read_workers()
        self._output.read_all()
        self._peers.tell_losses(peer)
        if peer.role == "agent" or not self._agent.drain(peer, request):
            self._peers.post(peer, Drained(request.request))

    def _peer_lost(self, peer: Peer) -> None:
        # While detached actors live, only the end of the owner's process is its end.
        if peer.is_owner and not self._is_done and not self._client.n_detached():
            self._drivers.lose_owner()

    # ---- the end
    def _let_leave(self) -> None:
        """Have the agent and the workers leave, those that run nothing."""
        self._end_agent()
        self._peers.read_workers()
        for worker in self.pool.workers.values():
            if worker.state is WorkerState.STARTING:
                processes.kill_quietly(worker.pid)
        for pid in let_leave(self._client, self._loop, self.pool.workers):
            text = (
                f"Process {pid} was to leave and has not within {LEAVE_S:g} s; it is killed. What it has registered "
                "with atexit, or a process that it has started with multiprocessing, goes on and on."
            )
            self._peers.tell_drivers(NodeEvent("session_ends", text))

    def _end_agent(self) -> None:
        if self._agent.pid:  # the cluster need not wait until its silence is noticed
            processes.end_politely(self._agent.pid, GOODBYE_TIMEOUT_S)

    def kill_everything(self) -> None:
        """SIGKILL to every process of the session, and to what they started, until nothing is left."""
        self._end_agent()
        self._client.end_session()  # other processes that are attached stop waiting
        processes.kill_quietly(self._zygote.pid)  # first: it could fork
        for pid in self.pool.workers:
            processes.kill_group(pid)
        for pid in processes.kill_children(KILL_TIMEOUT_S):
            print(f"process {pid} does not die", file=sys.stderr)


def _catch_signals() -> int:
    """A descriptor from which the numbers of arrived signals can be read."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, lambda signum, frame: None)  # the byte in the pipe is what counts
    return reader


def _raise_descriptor_limit() -> None:
    """Four descriptors and a connection a worker come close to the usual soft limit of 1,024. Workers keep what they
    had."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
