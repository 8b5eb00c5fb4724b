"""The local scheduler's process: sockets, pipes, signals and the segment, wired to the logic in `core`.

One thread selects and acts. A second one sleeps in the segment until the core wants attention and says so through an
eventfd. When nothing happens nothing runs: there is no tick.

Who has died is learnt from the kernel: a worker's exit from the zygote that reaps it, a driver's from its pidfd, a
letting go from the socket. The end of the session is the end of this process, which kills everything before.
"""
from __future__ import annotations

import _thread
import os
import resource
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ...objstore import _core
from .. import messages, offload_dir, processes, session_dir, transport
from ..budget import Budget
from ..fitting import pieces
from ..messages import (ClusterReply, ClusterRequest, ErrorFetched, ForkWorkers, FromPeer, FromZygote, Hello, MetricChanges, MetricsReply, MetricsRequest,
                        NodeEvent, Refused, SessionConfig, Shutdown, StackReply, StackRequest, TaskFailed, ToZygote, Welcome,
                        WorkerDied, WorkerOutput)
from ..metrics import Sums
from ..sizes import in_bytes
from ..transport import Channel, ConnectionLost, Listener, ProtocolError, Unreadable
from . import core, memory_monitor, policy
from .memory import IdleMemory
from .offloaded import Notices, Sweeper
from .worker_pipes import READ_BYTES, OutputPipe, WorkerPipes, readable_stack

KILL_TIMEOUT_S = 2.0  # of the 3 s in which nothing of a dead driver's session may be left
LEAVE_TIMEOUT_S = 0.5 # for the agent to say goodbye
REFUSALS_RATE, REFUSALS_BURST = 1 / 60, 20  # lines of the log, per second and at once
# Of a pipe of a worker that has ended: more than it holds (/proc/sys/fs/pipe-max-size), for what the worker has begun may write on.
LAST_READS = (1 << 20) // READ_BYTES + 1
SCHEDULER_FOLDER = os.path.dirname(os.path.dirname(__file__))


def run(config: SessionConfig, listen_fd: int, segment_fd: int, driver_fd: int, zygote: int, zygote_link: Channel) -> None:
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
    except BaseException:  # a bug: end loudly, and take everything along
        sys.excepthook(*sys.exc_info())
        print("what happened:", *server.pool.story, sep="\n  ", file=sys.stderr, flush=True)
        server.kill_everything()
        os._exit(70)
    sys.stderr.flush()
    os._exit(0)  # the other thread sleeps in the segment and need not be woken for this


def call_handlers(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    """Wait, and call the handler of each descriptor that is ready.

    A handler may forget others, and what it opens then may get their numbers: an event is for nobody but the handler that it
    was waited for with.
    """
    for key, _ in selector.select(timeout_s):
        now = selector.get_map().get(key.fd)
        if now is not None and now.data == key.data:
            key.data(key.fd)


class Peer:
    """A connection on node.sock."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.role = ""            # until `Hello`
        self.pid = 0
        self.is_owner = False


class Refusals:
    """What the log says of peers that are refused: a line each, and of many how many there were."""

    def __init__(self) -> None:
        self._budget = Budget(REFUSALS_RATE, REFUSALS_BURST, time.monotonic())
        self._n_untold = 0

    def tell(self, line: str) -> None:
        if not self._budget.take(1, time.monotonic()):
            self._n_untold += 1
            return
        more = f" ({self._n_untold:,} more were refused before, since the last line of this kind)" if self._n_untold else ""
        self._n_untold = 0
        print(f"{line}{more}", file=sys.stderr)


class Server:
    """The loop and its handlers. Decides nothing: see `core`."""

    def __init__(self, config: SessionConfig, listener: Listener, segment_fd: int, driver_fd: int, zygote: int,
                 zygote_link: Channel) -> None:
        self._config, self._listener = config, listener
        self._segment_fd, self._driver_fd = segment_fd, driver_fd
        self._driver_pid = config.driver_pid
        self._zygote, self._zygote_link = zygote, zygote_link
        self._client = _core.Client(segment_fd, _core.ROLE_SCHEDULER, None)
        self._selector = selectors.DefaultSelector()
        self._peers: dict[int, Peer] = {}               # by descriptor of the connection
        self._pipes: dict[int, WorkerPipes] = {}        # by pid of the worker
        self._asked: dict[int, list[tuple[Peer, int]]] = {}  # by pid: who waits for its stack, and the request
        self._refusals = Refusals()
        self._metrics = Sums()
        self._n_owners_killed = 0
        self._owner_known = False
        self._guests: set[int] = set()                  # pids of drivers that joined
        self._n_output_lost = 0
        self._look = True                               # the demand may have changed
        self._done = False
        _raise_descriptor_limit()
        self._memory = IdleMemory(self._client.stats()["capacity_bytes"])
        self._client.notice_idle(self._memory.keep)
        self._disk = Sweeper(config.offload_dir, self._client.unwanted_files) if config.offload_dir else None
        self._disk_notices = Notices()
        self._n_freed_on_disk = 0
        if self._disk is not None:
            self._held = offload_dir.hold(config.offload_dir)  # until this process ends
            self._client.notice_offload(self._disk_notices.at_bytes)
        self._share = memory_monitor.threshold()        # of the memory that may be used
        self._next_look = time.monotonic() if self._share < 1 else None
        self._ended_for_memory: dict[int, list[str]] = {}  # by pid: what the error will say
        self._for_agent: deque[ClusterRequest] = deque(maxlen=messages.MAX_LINKS)  # asked before it has greeted
        self._agent = 0                                 # its pid, if the session takes part in a cluster
        self._is_alone = False                          # it did, and does no more
        self.pool = core.Pool(policy.limits_for(config.total.get("CPU", 1.0)), stays=config.stays)

    # ---- the loop
    def run(self) -> None:
        """Serve until the session has ended."""
        self._listener.set_blocking(False)
        self._watch(self._listener.fileno(), self._accept)
        self._watch(self._zygote_link.fileno(), self._read_zygote)
        self._watch(self._driver_fd, self._owner_ended)
        self._watch(self._catch_signals(), self._read_signals)
        self._watch(self._start_demand_thread(), self._demand_changed)
        if self._config.cluster is not None:
            self._client.direct(_core.ROUTE_UNDIRECTED)
            self._start_agent()
        self._fetch_memory(self._client.stats())        # a driver need not wait for us with its first large object
        try:
            self._serve()
        except _core.StoreError as error:  # overwritten by somebody: there is nothing left to serve
            print(f"the session ends: {error}", file=sys.stderr)
            self._tell_drivers(NodeEvent("session_ends", f"The session ends: {error}"))
        self.kill_everything()
        session_dir.remove(self._config.session_dir)

    def _serve(self) -> None:
        while not self._done:
            if self._look:
                self._look = False
                self._see_demand()
            call_handlers(self._selector, self._timeout())
            self._pass_deadlines()

    def _watch(self, fd: int, handler: Callable[[int], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, handler)

    def _timeout(self) -> float | None:
        deadlines = [p.stacks.deadline for p in self._pipes.values() if p.stacks.deadline is not None]
        deadlines += [pipe.note_at for p in self._pipes.values() for pipe in p.outputs if pipe.note_at is not None]
        if (deadline := core.next_deadline(self.pool)) is not None:
            deadlines.append(deadline)
        if self._memory.deadline is not None:
            deadlines.append(self._memory.deadline)
        if self._next_look is not None:
            deadlines.append(self._next_look)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _pass_deadlines(self) -> None:
        now = time.monotonic()
        deadline = core.next_deadline(self.pool)
        if deadline is not None and now >= deadline:
            self._look = True
        for pid, pipes in self._pipes.items():
            if pipes.stacks.deadline is not None and now >= pipes.stacks.deadline:
                self._answer_stack(pid, pipes)
            for pipe in pipes.outputs:
                if pipe.note_at is not None and now >= pipe.note_at:
                    self._relay_raw(pid, pipe.stream, pipe.note())
        if self._memory.deadline is not None and now >= self._memory.deadline:
            self._look_at_memory(now)
        if self._next_look is not None and now >= self._next_look:
            self._next_look = now + self._guard_memory()

    def _step(self, event: core.Event) -> None:
        for action in core.step(self.pool, event, time.monotonic()):
            self._perform(action)
        if not isinstance(event, core.DemandSeen):
            self._look = True

    def _see_demand(self) -> None:
        self._tell_of_stopped_owner()
        if self._is_alone:
            for row in self._client.surplus():
                if row[5]:  # they may run on other machines only, and there are none any more
                    self._client.fail_unrouted(row[0], False)
        n_actors = sum(entry["role"] == "worker" and entry["actor"] >= 0 for entry in self._client.clients())
        is_kept = self.pool.has_owner or bool(self._guests) or self._client.n_detached() > 0
        self._step(core.DemandSeen(self._client.workers_wanted(), frozenset(self._client.idle_workers()), n_actors, is_kept))

    # ---- actions
    def _perform(self, action: core.Action) -> None:
        match action:
            case core.Fork(n):
                self._zygote_link.post(ForkWorkers(n))
            case core.Retire(index):
                if self._client.retire(index):
                    self._step(core.WorkerRetired(index))
            case core.DeclareDead():
                self._declare_dead(action)
            case core.Notify(kind, text, owner_too):
                self._tell_drivers(NodeEvent(kind, text), owner_too=owner_too)
            case core.RestartZygote():
                self._restart_zygote()
            case core.StartAgent():
                self._start_agent()
            case core.KeepSession():
                session_dir.leave(self._config.session_dir, self._config.left_note)
            case core.EndSession(reason):
                print(f"the session ends: {reason}", file=sys.stderr)
                self._done = True

    def _declare_dead(self, action: core.DeclareDead) -> None:
        if action.unexpected:
            task = next((entry["task"] for entry in self._client.clients() if entry["index"] == action.index), 0)
            tail = [*self._ended_for_memory.get(action.pid, ()), *self._tail_of(action.pid)][:messages.N_TAIL_LINES]
            self._tell_drivers(WorkerDied(action.pid, action.index, action.code, task, tail), droppable=True)
        code = _core.DIED_OF_MEMORY if self._ended_for_memory.pop(action.pid, None) else action.code
        self._client.client_died(action.index, code)
        if self._disk is not None:
            self._disk.ask()  # it may have been writing a file

    def _guard_memory(self) -> float:
        """End a worker if memory runs out; seconds until the next look."""
        usages = memory_monitor.usages()
        short = memory_monitor.is_short(usages, self._share)
        if short is None or self._ended_for_memory:
            return memory_monitor.next_look_s(usages, self._share)
        candidates = [
            memory_monitor.Candidate(entry["pid"], entry["task"] or entry["last_task"], entry["parent"], entry["retriable"],
                                     entry["actor"] >= 0, memory_monitor.private_bytes(entry["pid"]))
            for entry in self._client.clients()
            if entry["role"] == "worker" and (entry["task"] or entry["actor"] >= 0) and entry["pid"] in self.pool.workers]
        victim = memory_monitor.choose(candidates)
        if victim is None:
            return memory_monitor.PAUSE_S
        what = "the actor" if victim.is_actor else f"the task {victim.task}"
        self._ended_for_memory[victim.pid] = memory_monitor.report(victim, what, short)
        if self._client.signal(victim.pid, signal.SIGKILL):
            processes.kill_group(victim.pid)
        return memory_monitor.PAUSE_S

    def _tell_drivers(self, message: messages.Message, droppable: bool = False, owner_too: bool = True) -> None:
        for peer in self._peers.values():
            if peer.role in ("driver", "agent") and (owner_too or not peer.is_owner):
                if not peer.channel.post(message, droppable=droppable):
                    self._n_output_lost += 1
                self._want_writing(peer)

    def _want_writing(self, peer: Peer) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.channel.has_backlog else 0)
        if self._selector.get_key(peer.channel.fileno()).events != events:
            self._selector.modify(peer.channel.fileno(), events, self._serve_peer)

    # ---- the segment and the system
    def _start_demand_thread(self) -> int:
        wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

        def watch() -> None:
            try:
                while not self._client.closed:
                    if self._client.next_demand(None):
                        os.eventfd_write(wakeup, 1)
            except BaseException:  # without this thread no worker would ever be started again
                sys.excepthook(*sys.exc_info())
                os.kill(os.getpid(), signal.SIGTERM)

        _thread.start_new_thread(watch, ())
        return wakeup

    def _demand_changed(self, fd: int) -> None:
        os.eventfd_read(fd)
        self._look = True
        if self._memory.deadline is None:
            self._look_at_memory(time.monotonic())
        stats = self._client.stats()
        self._fetch_memory(stats)
        if self._disk is not None:
            self._look_at_disk(self._disk, stats)

    def _look_at_disk(self, disk: Sweeper, stats: dict[str, Any]) -> None:
        self._held = offload_dir.still_held(self._held, self._config.offload_dir)
        if stats["n_freed_on_disk"] != self._n_freed_on_disk:
            self._n_freed_on_disk = stats["n_freed_on_disk"]
            disk.ask()
        if self._disk_notices.look(stats["disk_bytes"]):
            self._client.notice_offload(self._disk_notices.at_bytes)
            self._tell_drivers(NodeEvent("objects_on_disk", (
                f"The object store is full: {in_bytes(stats['disk_bytes'])} of objects lie on disk now, of at most "
                f"{in_bytes(stats['disk_limit_bytes'])} in {stats['disk_folder']}. They come back when they are used. To have "
                "more in memory, drop refs that are no longer needed, or start with a larger object_store_memory.")))

    def _look_at_memory(self, now: float) -> None:
        surplus = self._memory.look(now, *self._client.idle_memory())
        if surplus:
            self._client.give_back(surplus)
        if self._memory.deadline is None:
            self._client.notice_idle(self._memory.keep)

    def _fetch_memory(self, stats: dict[str, Any]) -> None:
        if stats["ahead_bytes"]:
            free = memory_monitor.left(memory_monitor.usages(), self._share)
            self._client.prepare(self._memory.ahead(int(free)))

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, lambda signum, frame: None)  # the byte in the pipe is what counts
        return reader

    def _read_signals(self, fd: int) -> None:
        arrived = os.read(fd, 4096)
        if signal.SIGTERM in arrived:
            self._step(core.ShutdownAsked(by="signal SIGTERM to its local scheduler"))
        self._reap()

    def _reap(self) -> None:
        """Children of this process: the zygote, and whoever lost his parent."""
        for pid, code in processes.reap(lambda pid: pid in self.pool.workers):
            if pid == self._zygote:
                self._lose_zygote(code)
            elif pid == self._agent:
                self._lose_agent(code)
            elif pid in self.pool.workers or self._index_of(pid) is not None:
                self._worker_exited(pid, code)

    def _owner_ended(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)
        self._lose_owner()

    def _lose_owner(self) -> None:
        for peer in self._peers.values():
            peer.is_owner = False
        index = self._index_of(self._driver_pid)
        self._step(core.DriverLost(self._driver_pid, index, owner=True, n_detached=self._client.n_detached()))
        self._driver_pid = 0  # which may soon be another process's

    def _adopt(self, peer: Peer) -> bool:
        """Make the session the peer's, unless it has an owner, or is to do without."""
        if self.pool.has_owner or self.pool.stays:
            return False
        try:
            pidfd = os.pidfd_open(peer.pid)
        except ProcessLookupError:  # it has ended already
            return False
        self._driver_pid, self._owner_known, peer.is_owner = peer.pid, True, True
        self._watch(pidfd, self._owner_ended)
        session_dir.return_to(self._config.session_dir)
        self._step(core.DriverCame(peer.pid))
        return True

    # ---- the zygote
    def _read_zygote(self, fd: int) -> None:
        try:
            received = self._zygote_link.receive_ready()
        except (ConnectionLost, ProtocolError):
            self._selector.unregister(fd)  # it has ended; SIGCHLD says how
            return
        for message, fds in received:
            match message:
                case messages.WorkerForked(pid):
                    self._add_pipes(pid, fds)
                    self._step(core.WorkerForked(pid))
                case messages.ForkFailed(reason):
                    self._step(core.ForkFailed(reason))
                case messages.WorkerExited(pid, code):
                    self._worker_exited(pid, code)

    def _lose_zygote(self, code: int) -> None:
        if self._zygote_link.fileno() in self._selector.get_map():
            self._read_zygote(self._zygote_link.fileno())  # what it still said
        if self._zygote_link.fileno() in self._selector.get_map():
            self._selector.unregister(self._zygote_link.fileno())
        self._zygote_link.close()
        self._step(core.ZygoteLost(code))

    def _restart_zygote(self) -> None:
        self._zygote_link, there = transport.pair(FromZygote, ToZygote)
        self._zygote = self._spawn("cellmesh.scheduler.worker.zygote", there.fileno(), self._segment_fd)
        there.close()
        self._watch(self._zygote_link.fileno(), self._read_zygote)

    def _spawn(self, module: str, *fds: int) -> int:
        """Start a process of ours, which is told these descriptors, one of the configuration, and whose child it is; its pid."""
        config_fd = processes.memory_file("cellmesh-config", self._config.to_bytes())
        passed = (*fds, config_fd)
        for fd in passed:
            os.set_inheritable(fd, True)
        pid = os.posix_spawn(sys.executable, [sys.executable, "-P", "-m", module, *map(str, passed), str(os.getpid())], os.environ)
        for fd in passed:
            os.set_inheritable(fd, False)
        os.close(config_fd)
        return pid

    # ---- the agent
    def _start_agent(self) -> None:
        self._agent = self._spawn("cellmesh.scheduler.cluster.agent", self._segment_fd)

    def _lose_agent(self, code: int) -> None:
        held = tuple(entry["index"] for entry in self._client.clients() if entry["pid"] == self._agent)
        self._agent = 0
        if code == 0:
            self._is_alone = True
            self._client.direct(_core.ROUTE_NEVER)
        self._step(core.AgentExited(code, held))

    # ---- workers
    def _index_of(self, pid: int) -> int | None:
        return next((entry["index"] for entry in self._client.clients() if entry["pid"] == pid), None)

    def _worker_exited(self, pid: int, code: int) -> None:
        self._accept(self._listener.fileno())  # one that died young may not have been greeted yet
        for fd in [fd for fd, peer in self._peers.items() if peer.pid in (pid, 0)]:
            self._serve_peer(fd)  # what it sent last is part of the report
        if (pipes := self._pipes.get(pid)) is not None:
            for pipe in pipes.outputs:
                self._read_output(pid, pipe, n_reads=LAST_READS)
                self._relay_raw(pid, pipe.stream, pipe.note())
            self._read_last_stack(pid, pipes)
        self._step(core.WorkerExited(pid, code, self._index_of(pid), self._tail_of(pid)))
        if (pipes := self._pipes.pop(pid, None)) is not None:
            for fd in pipes.fds():
                if fd in self._selector.get_map():
                    self._selector.unregister(fd)
            pipes.close()

    def _add_pipes(self, pid: int, fds: list[int]) -> None:
        stdout, stderr, stacks = fds
        pipes = self._pipes[pid] = WorkerPipes(stdout, stderr, stacks, time.monotonic())
        for pipe in pipes.outputs:
            self._watch(pipe.fd, lambda fd, pipe=pipe: self._read_output(pid, pipe))
        self._watch(pipes.stacks.fd, lambda fd: self._read_stack(pipes))

    def _tail_of(self, pid: int) -> tuple[str, ...]:
        pipes = self._pipes.get(pid)
        return pipes.tail.lines() if pipes is not None else ()

    def _read_output(self, pid: int, pipe: OutputPipe, n_reads: int = 1) -> None:
        for _ in range(n_reads):
            text = pipe.read(time.monotonic())
            if text is None:
                if pipe.fd in self._selector.get_map():
                    self._selector.unregister(pipe.fd)
                return
            self._relay_raw(pid, pipe.stream, text)

    def _relay_raw(self, pid: int, stream: str, text: str) -> None:
        if not text or not self._config.log_to_driver:
            return
        entry = next((e for e in self._client.clients() if e["pid"] == pid), None)
        task, origin = (entry["last_task"], entry["origin"]) if entry is not None else (0, 0)
        for piece in pieces(text):
            self._relay(WorkerOutput(task, origin, stream, pid, piece))

    def _relay(self, message: WorkerOutput) -> None:
        if self._config.log_to_driver:
            self._tell_drivers(message, droppable=True)

    # ---- stacks
    def _ask_stack(self, peer: Peer, request: StackRequest) -> None:
        pipes = self._pipes.get(request.pid)
        if pipes is None:
            error = f"process {request.pid} is no worker of this session (any more)"
            peer.channel.post(StackReply(request.request, error=error))
            return
        self._asked.setdefault(request.pid, []).append((peer, request.request))
        if pipes.stacks.deadline is None:
            pipes.stacks.expect(time.monotonic() + messages.STACK_TIMEOUT_S)
            self._client.signal(request.pid, signal.SIGUSR2)

    def _read_stack(self, pipes: WorkerPipes) -> None:
        if not pipes.stacks.read(time.monotonic()):
            self._selector.unregister(pipes.stacks.fd)

    def _read_last_stack(self, pid: int, pipes: WorkerPipes) -> None:
        """A crash in C code dumps the stack as well: to be read with the worker's last words."""
        pipes.stacks.read_to_the_end(time.monotonic())
        if pid in self._asked:
            self._answer_stack(pid, pipes)
        elif text := readable_stack(pipes.stacks.take(), SCHEDULER_FOLDER):
            pipes.tail.add(text + "\n")
            self._relay_raw(pid, "stderr", text + "\n")

    def _answer_stack(self, pid: int, pipes: WorkerPipes) -> None:
        dump = pipes.stacks.take()
        text = readable_stack(dump, SCHEDULER_FOLDER)  # "": it waits for work, which is no code of the user's
        for peer, request in self._asked.pop(pid, []):
            if peer.channel.closed:
                continue
            if dump:
                peer.channel.post(StackReply(request, text))
            else:
                error = f"process {pid} does not answer; it is stopped or has just ended"
                peer.channel.post(StackReply(request, error=error))
            self._want_writing(peer)

    # ---- peers
    def _accept(self, fd: int) -> None:
        channel = self._listener.accept(FromPeer)
        if channel is None:
            return
        if len(self._peers) >= messages.MAX_LINKS:
            channel.close()
            return
        self._peers[channel.fileno()] = Peer(channel)
        self._watch(channel.fileno(), self._serve_peer)

    def _serve_peer(self, fd: int) -> None:
        peer = self._peers[fd]
        peer.channel.flush()
        try:
            for message, fds in peer.channel.arriving():
                for given in fds:  # nobody has any to give
                    os.close(given)
                self._obey(peer, message)
        except ConnectionLost:
            self._forget(peer)
            return
        except ProtocolError as error:
            stays = isinstance(error, Unreadable) and (peer.is_owner or peer.role in ("worker", "agent"))  # nobody could take its place
            self._refusals.tell(f"process {peer.pid or peer.channel.peer()[0]} {'is not understood' if stays else 'is cut off'}: {error}")
            if not stays:
                self._forget(peer)
                return
        if not peer.channel.closed:
            self._tell_losses(peer)
            self._want_writing(peer)

    def _obey(self, peer: Peer, message: messages.Message) -> None:
        match message:
            case Hello():
                self._greet(peer, message)
            case WorkerOutput() if peer.role == "worker":
                if message.stream == "stderr" and (pipes := self._pipes.get(peer.pid)) is not None:
                    pipes.tail.add(message.text)
                self._relay(message)
            case WorkerOutput() if peer.role == "agent":
                self._relay(message)
            case NodeEvent() if peer.role == "agent":
                self._tell_drivers(message)
            case TaskFailed() | ErrorFetched() if peer.role == "worker":
                self._tell_drivers(message, droppable=True)
            case StackRequest() if peer.role == "driver":
                self._ask_stack(peer, message)
            case MetricChanges():
                self._metrics.add(message.changes)  # beyond `MAX_SERIES` in all, what is new is left out
            case MetricsRequest() if peer.role == "driver":
                peer.channel.post(MetricsReply(message.request, self._metrics.all()))
                self._want_writing(peer)
            case ClusterRequest() if peer.role == "driver":
                self._ask_agent(peer, message)
            case ClusterReply() if peer.role == "agent":
                self._tell_drivers(message)
            case Shutdown() if peer.is_owner or (peer.role == "driver" and message.by):
                self._step(core.ShutdownAsked(message.by))
            case _:
                raise ProtocolError(f"a {peer.role or 'stranger'} may not send {type(message).__name__}")

    def _ask_agent(self, peer: Peer, request: ClusterRequest) -> None:
        agent = next((other for other in self._peers.values() if other.role == "agent"), None)
        if agent is not None:
            agent.channel.post(request)
            self._want_writing(agent)
        elif self._agent:
            self._for_agent.append(request)
        else:
            peer.channel.post(ClusterReply(request.request, error="this session takes part in no cluster at this moment"))
            self._want_writing(peer)

    def _greet(self, peer: Peer, hello: Hello) -> None:
        if peer.role:
            raise ProtocolError("a second greeting")
        if hello.version != messages.PROTOCOL_VERSION:
            reason = (f"this session speaks version {messages.PROTOCOL_VERSION} of cellmesh's protocol, process "
                      f"{hello.pid} speaks {hello.version}: use the same cellmesh in both")
            peer.channel.post(Refused(reason))
            raise ProtocolError(reason)
        peer.role = hello.role
        peer.pid = peer.channel.peer()[0] or hello.pid  # the kernel knows, except across namespaces
        if hello.role == "agent":
            if peer.pid != self._agent:
                raise ProtocolError("it says that it is the agent, and is not")
            for request in self._for_agent:
                peer.channel.post(request)
            self._for_agent.clear()
            return
        if hello.role == "worker":
            self._step(core.WorkerAttached(peer.pid, hello.index))
            return
        adopted = hello.adopt and self._adopt(peer)
        if peer.pid != self._driver_pid:
            if not hello.adopt:  # else it leaves again: another one has adopted the session first
                self._watch_guest(peer.pid)
        elif not adopted:
            peer.is_owner, self._owner_known = not self._owner_known, True
        welcome = Welcome(self._config.session, os.getpid(), self._config.namespace, self._config.total, adopted=adopted)
        peer.channel.post(welcome, (self._segment_fd,) if hello.want_fd else ())

    def _forget(self, peer: Peer) -> None:
        fd = peer.channel.fileno()
        self._selector.unregister(fd)
        del self._peers[fd]
        peer.channel.close()
        if peer.is_owner and not self._done and not self._client.n_detached():  # else what is its ends with its process
            self._lose_owner()

    def _watch_guest(self, pid: int) -> None:
        """A driver that joined keeps its place in the segment until its process ends: connections come and go."""
        if pid in self._guests:
            return
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._guest_ended(pid)
            return
        self._guests.add(pid)

        def ended(fd: int) -> None:
            self._selector.unregister(fd)
            os.close(fd)
            self._guests.discard(pid)
            self._guest_ended(pid)

        self._watch(pidfd, ended)

    def _guest_ended(self, pid: int) -> None:
        self._look = True  # it may have been the last for whom the session was kept
        for entry in self._client.clients():
            if entry["pid"] == pid and entry["role"] == "driver":
                self._step(core.DriverLost(pid, entry["index"], owner=False))

    def _tell_losses(self, peer: Peer) -> None:
        if self._n_output_lost and peer.role == "driver" and not peer.channel.has_backlog:
            text = f"{self._n_output_lost:,} pieces of output were lost: they came faster than a driver reads them"
            self._n_output_lost = 0
            self._tell_drivers(NodeEvent("output_lost", text))

    def _tell_of_stopped_owner(self) -> None:
        """Whoever is stopped while it holds the segment's lock holds up everybody. This process waits with them next."""
        stopped, is_driver, n_killed, killed, grace_s = self._client.stopped_owner()
        if n_killed > self._n_owners_killed:
            self._tell_drivers(NodeEvent("lock_owner_killed", f"process {killed} was stopped while it held the object store's lock, "
                                         f"and did not go on within {grace_s:g} s. It has been killed, so that others can go on."))
        elif stopped:
            waits = "" if is_driver else f" It will be killed in {grace_s:g} s, unless it goes on."
            self._tell_drivers(NodeEvent("lock_owner_stopped", f"process {stopped} is stopped, by a debugger for example, while it holds the object "
                                         f"store's lock, so everybody waits for it.{waits}"))
        self._n_owners_killed = n_killed

    # ---- the end
    def kill_everything(self) -> None:
        """SIGKILL to every process of the session, and to what they started, until nothing is left."""
        if self._agent:  # the cluster need not wait until its silence is noticed
            processes.end_politely(self._agent, LEAVE_TIMEOUT_S)
        self._client.end_session()  # whoever else is attached stops waiting
        processes.kill_quietly(self._zygote)  # first: it could fork
        for pid in self.pool.workers:
            processes.kill_group(pid)
        for pid in processes.kill_children(KILL_TIMEOUT_S):
            print(f"process {pid} does not die", file=sys.stderr)


def _raise_descriptor_limit() -> None:
    """Four descriptors a worker come close to the usual soft limit of 1,024. Only here: workers keep what they had."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
