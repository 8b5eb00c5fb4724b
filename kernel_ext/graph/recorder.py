"""Reads a session's events into its graph, and sends the graph to the front ends that show it.

There are two threads, because of the GIL. While the user's cell runs Python, a thread that needs the GIL waits up to
5 ms for it each time, and the cell loses time whenever the GIL is taken from it. The *reader* needs the GIL once for
all that happens in `READ_SPAN_S` and only copies, so it keeps up with the ring whatever the cell does. The *folder*
folds the records, without the GIL, and derives states when it gets to it. While nothing happens both threads rarely
wake up. They end with the session.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import structs

from ...exceptions import CellmeshError, SessionError
from ...observe.function_names import name_of
from ...observe.nodes import is_clustered, names
from ...scheduler.ipc.messages import (
    ClusterReply,
    ClusterRequest,
    CollectivesBegin,
    EngineState,
    Message,
    TaskFailed,
    WorkerDied,
    WorkerOutput,
)
from ...scheduler.sync.condition import Condition
from ...scheduler.sync.threads import ServiceThread
from ...submit.actor_blueprint import blueprint_of
from ..output.log_lines import LogLines
from ..panel_messages import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    MESSAGE_BYTES,
    MESSAGES_PER_SECOND,
    NodeLabel,
    Resources,
    Sample,
    Store,
    encode,
)
from .collectives import Watched
from .events import EVENT_DTYPE
from .machine import THIS_NODE, Machine
from .model import SETTLE_S, Graph
from .samples import Samples
from .summary import counts_of, counts_of_cell
from .tables import Identity
from .view import GraphView

if TYPE_CHECKING:
    from ...session.session import Session
    from ...submit.actor_blueprint import Blueprint
    from ..cells.registry import CellRegistry

READ_RECORDS = 1 << 16  # at most, half the ring
READ_SPAN_S = 0.03  # what happens in that time is read together
SPARE_BUFFERS = 2  # kept: memory that was never used costs more than the copying
BACKLOG_RECORDS = 1 << 22  # read but not folded, 128 MB; then events count as lost
# The folder works for this share of the time: what a fold costs beside its records counts less the rarer folds are.
FOLD_SHARE = 0.028
FOLD_CREDIT_S = 0.5  # so much unused time counts: what begins after a quiet while is drawn at the full rate
QUIET_S = 0.1
UNWATCHED_INTERVAL_S = 0.3  # between folds while no front end looks, and at most
# Nothing wakes the reader when a local scheduler was killed; it looks this often whether the session is still there.
LOOK_INTERVAL_S = 3.0
RECONCILE_INTERVAL_S = 2.0
# While tasks run, and once more when they have ended; an idle session costs nothing.
SAMPLE_INTERVAL_S = 1.0
RECONCILE_TASKS = 20_000  # more unfinished tasks than that are not listed, which would hold up the kernel
N_WATCHED_MAX = 64  # groups whose collectives are read; the oldest give way
MESSAGE_BYTES_MIN = 20_000  # not worth a message

Send = Callable[[dict[str, Any], list[memoryview]], None]
T = TypeVar("T")


class Subscriber:
    """One front end: where to send to, what it knows, and how much may be sent now."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.view: GraphView | None = None  # made when the first message is
        self._allowance = float(BURST_BYTES)
        self._at = time.monotonic()

    def allowance(self) -> int:
        """Bytes that may be sent now."""
        now = time.monotonic()
        self._allowance = min(BURST_BYTES, self._allowance + (now - self._at) * BYTES_PER_SECOND)
        self._at = now
        return int(min(self._allowance, MESSAGE_BYTES))

    def use(self, n_bytes: int) -> None:
        """That much has been sent."""
        self._allowance -= n_bytes


class Pace:
    """Keeps work that comes in turns to a share of the time. Pure.

    Parameters
    ----------
    share : float
        Of one core.
    credit_s : float
        How much time in which it did not work it may make good for later.
    """

    def __init__(self, share: float, credit_s: float) -> None:
        self._share, self._credit_s = share, credit_s
        self._spent_s = self._at_s = 0.0
        self._owed_s = -credit_s

    def wait(self, spent_s: float, at_s: float) -> float:
        """How long to wait from the beginning of the turn that has just ended to the next.

        Parameters
        ----------
        spent_s : float
            CPU time used in all.
        at_s : float
            When the turn began.
        """
        self._owed_s = max(-self._credit_s, self._owed_s - (at_s - self._at_s))
        self._owed_s += (spent_s - self._spent_s) / self._share
        self._spent_s, self._at_s = spent_s, at_s
        return max(0.0, self._owed_s)


class Recorder:
    """The graph of one session, kept up to date by two threads while the session lives.

    Parameters
    ----------
    session : Session
    registry : CellRegistry
        Knows the cells.
    on_change : callable, optional
        Called from the folding thread after each refresh of the graph.

    Attributes
    ----------
    graph : Graph
        To be used under `lock`.
    samples : Samples
        Likewise.
    lines : LogLines
        What tasks have printed since the recorder began.
    """

    def __init__(self, session: Session, registry: CellRegistry, on_change: Callable[[], None] = lambda: None) -> None:
        self.session = session
        self.session_id = str(session.node.session_id)
        self._client = session.client
        self._on_change = on_change
        self.lock = threading.RLock()
        self._folding = threading.Lock()  # taken before `lock`, never after it
        clock = self._client.clock()
        self._unix_ns0 = clock.unix_ns
        self.graph = Graph(
            SessionDirectory(session, registry), ticks0=clock.ticks, seconds_per_tick=clock.ns_per_tick * 1e-9
        )
        self._facts = (Resources(), Store())
        self.samples, self.lines = Samples(), LogLines()
        self._machine = Machine()
        self._sampled_at, self._is_busy = -SAMPLE_INTERVAL_S, False
        self._is_clustered = is_clustered(session)
        self._subscribers: dict[Any, Subscriber] = {}
        self._told_of: deque[bytes] = deque(maxlen=N_WATCHED_MAX)  # groups whose ranks meet, see `CollectivesBegin`
        self._watched: deque[Watched] = deque(maxlen=N_WATCHED_MAX)
        self._changed = Condition()
        self._backlog_lock = threading.Lock()
        self._backlog: list[tuple[np.ndarray, int, int]] = []  # (buffer, records in it, lost before them)
        self._spare: list[np.ndarray] = []
        self._n_backlog = 0
        self._wanted = False  # a refresh is wanted although there are no events
        self._ended = self._stopped = False
        self._reconciled_at: float | None = None  # None: nothing to reconcile
        self._forget = session.node.link.add_listener(self._hear)  # which needs all of the above, from now on
        if self._is_clustered:
            session.node.link.send(ClusterRequest(0))
        self._threads = [ServiceThread(self._read, "cellmesh-events"), ServiceThread(self._fold, "cellmesh-graph")]
        for thread in self._threads:
            thread.start()

    # --- for others

    @property
    def facts(self) -> tuple[Resources, Store]:
        """What was found in the segment when it was last looked at."""
        return self._facts

    @property
    def is_live(self) -> bool:
        """Whether the session goes on."""
        return not self._ended

    def name_of_node(self, node: int) -> str:
        """What a machine is called; "" where there is only this one."""
        label = self.samples.nodes.get(node)
        return label.name if label is not None and (node or len(self.samples.nodes) > 1) else ""

    def cpus_of_node(self, node: int) -> tuple[float, float]:
        """How many CPUs of a machine tasks had when it was looked at last, and how many there are."""
        label, sample = self.samples.nodes.get(node), self.samples.latest(node)
        return (sample.cpus if sample is not None else 0.0), (label.cpus if label is not None else 0.0)

    def now_s(self) -> float:
        """Seconds since the session began."""
        return (time.time_ns() - self._unix_ns0) * 1e-9

    def unix_time(self, seconds: float) -> float:
        """A time of the graph as Unix time."""
        return self._unix_ns0 * 1e-9 + seconds

    def subscribe(self, key: Any, send: Send) -> None:
        """Send the graph to this front end from now on, beginning with a snapshot."""
        with self.lock:
            self._subscribers[key] = Subscriber(send)
        self.want()

    def unsubscribe(self, key: Any) -> None:
        """Stop sending; harmless if it is not subscribed."""
        with self.lock:
            self._subscribers.pop(key, None)

    def want(self) -> None:
        """Have the graph refreshed and sent soon."""
        self._wanted = True
        self._changed.notify_all()
        if self._ended:
            self._publish()  # the thread is gone; the graph stands still

    def look(self, at: Callable[[Graph], T]) -> T:
        """`at(graph)`, with every event read so far folded in and the graph locked meanwhile."""
        if self._take_backlog():
            self.want()  # else the folder, finding nothing left to fold, would not send what is new
        with self.lock:
            self._refresh()
            return at(self.graph)

    def counts_of_cell(self, number: int) -> dict[str, dict[str, int]]:
        """See `summary.counts_of_cell`."""
        return self.look(lambda graph: counts_of_cell(graph, number))

    def stop(self) -> None:
        """End the threads although the session goes on."""
        self._forget()
        self._stopped = True
        self._changed.notify_all()

    def _hear(self, message: Message) -> None:
        if isinstance(message, WorkerOutput) and message.text:
            stream = "stdout" if message.stream == "stdout" else "stderr"
            self.lines.add(self.now_s(), message.task, stream, message.pid, message.text)
        elif isinstance(message, TaskFailed | WorkerDied) and message.task:
            # The session has heard this before and knows the error; the event may have been read long ago.
            self.want()
        elif isinstance(message, CollectivesBegin):
            self._told_of.append(message.times)
            self.want()
        elif isinstance(message, ClusterReply) and message.nodes:
            with self.lock:
                self._note_nodes(message)
            self.want()
        elif isinstance(message, EngineState):
            with self.lock:
                self._note_engine(message)
            self.want()

    def _note_nodes(self, message: ClusterReply) -> None:
        """What is known of other machines: who they are, and what they do while there is work."""
        at_s, called = self.now_s(), names(message.nodes)
        for row in message.nodes:
            number = THIS_NODE if row.is_here else self.graph.remote.node(int(row.node, 16))
            known = self.samples.nodes.get(number)
            if row.state == "dead" and known is None:
                continue  # before this recorder began
            is_new = known is None or not known.id
            ended = (
                None if row.state != "dead" else known.ended if known and known.ended is not None else round(at_s, 2)
            )
            self.samples.nodes[number] = NodeLabel(
                called[row.node],
                row.total.get("CPU", 0.0),
                row.total.get("GPU", 0.0),
                row.memory_size,
                row.size_bytes,
                row.node,
                row.state,
                row.reason,
                round(at_s, 2) if is_new or known is None else known.since,
                ended,
            )
            if not row.is_here and ended is None and self._is_busy and row.silent_s >= 0:
                taken = {name: max(0.0, row.total.get(name, 0.0) - row.free.get(name, 0.0)) for name in ("CPU", "GPU")}
                self.samples.add(
                    Sample(
                        number,
                        round(at_s, 2),
                        row.load,
                        taken["CPU"],
                        taken["GPU"],
                        row.memory_bytes,
                        row.used_bytes,
                        queued=row.n_queued,
                    )
                )
        if self.session.engine is not None:
            self._note_engine(self.session.engine)

    def _note_engine(self, engine: EngineState) -> None:
        """What is known of the session's engine. Each life of its process is a machine, whose line was lost with it."""
        labels, address = self.samples.nodes, self.session.config.cluster or ""
        lives = [number for number, label in labels.items() if number != THIS_NODE and not label.memory]
        for number in lives:
            is_now = number == max(lives) and (labels[number].state == "dead") == (engine.line == "lost")
            labels[number] = structs.replace(
                labels[number],
                window=engine.window,
                dashboard=engine.dashboard,
                address=address,
                line=engine.line if is_now else "",
                line_since=round(max(0.0, engine.since - self.unix_time(0.0)), 2) if is_now else 0.0,
            )

    # --- the reader

    def _read(self) -> None:
        cursor = 0
        try:
            while not self._stopped:
                buffer = self._spare.pop() if self._spare else np.empty(READ_RECORDS, EVENT_DTYPE)
                read = self._client.follow_events(cursor, buffer, LOOK_INTERVAL_S, READ_SPAN_S)
                cursor = read.cursor
                self._put(buffer, read.n, read.lost)
        except SessionError:
            if not self._client.closed:
                raise
        finally:
            self._ended = True
            self._changed.notify_all()

    def _put(self, buffer: np.ndarray, count: int, lost: int) -> None:
        with self._backlog_lock:
            if self._n_backlog + count > BACKLOG_RECORDS:
                lost, count = lost + count, 0
            if count or lost:
                self._backlog.append((buffer, count, lost))
                self._n_backlog += count
            else:
                self._spare.append(buffer)
        if count or lost:
            self._changed.notify_all()

    # --- the folder

    def _fold(self) -> None:
        pause_s = None  # None: until there is something
        pace = Pace(FOLD_SHARE, FOLD_CREDIT_S)
        before = 0.0
        while True:
            self._changed.wait_for(lambda: self._backlog or self._wanted or self._ended or self._stopped, pause_s)
            self._wanted = False
            ended = self._ended or self._stopped
            if time.monotonic() - before > QUIET_S and not ended:
                # What begins is shown with the first message, once it is old enough: the second one travels later, a
                # whole delayed acknowledgement on the way to the page.
                self._changed.wait_for(lambda: self._ended or self._stopped, SETTLE_S)
            before = started = time.monotonic()
            self._take_backlog()
            if ended:
                with self.lock:
                    if self._client.closed:
                        self.graph.end(self.now_s())
                self._publish()
                self._forget()
                return
            pause_s = 1 / MESSAGES_PER_SECOND if self._publish() else SAMPLE_INTERVAL_S if self._is_busy else None
            interval = UNWATCHED_INTERVAL_S
            if self._subscribers:
                interval = min(max(pace.wait(time.thread_time(), started), 1 / MESSAGES_PER_SECOND), interval)
            self._changed.wait_for(
                lambda: self._wanted or self._ended or self._stopped, started + interval - time.monotonic()
            )

    def _take_backlog(self) -> bool:
        """Fold what has been read; whether there was anything."""
        with self._folding:
            with self._backlog_lock:
                backlog, self._backlog, self._n_backlog = self._backlog, [], 0
            for buffer, count, lost in backlog:  # one at a time, so that requests get the lock in between
                with self.lock:
                    self.graph.fold(buffer[:count], lost)
                self._spare.append(buffer)
            del self._spare[SPARE_BUFFERS:]
            if self._reconciled_at is None and any(lost for _, _, lost in backlog):
                self._reconciled_at = 0.0
            return bool(backlog)

    def _refresh(self) -> None:
        changed = self.graph.refresh(self.now_s())
        for subscriber in self._subscribers.values():
            if subscriber.view is not None:
                subscriber.view.mark(changed)

    def _publish(self) -> bool:
        """Refresh the graph and send what is due; whether there is more to come without new events."""
        with self.lock:
            if self.is_live:
                self._look()
            self._refresh()
            more = not self.graph.is_settled() or self._reconciled_at is not None
            for subscriber in self._subscribers.values():
                more |= self._tell(subscriber)
        self._on_change()
        return more

    def _tell(self, subscriber: Subscriber) -> bool:
        """Send a front end what it does not know, within its allowance; whether there is more for it."""
        allowed = subscriber.allowance()
        if allowed < MESSAGE_BYTES_MIN:
            return True
        if subscriber.view is None:
            subscriber.view = GraphView(self.graph, self.session_id)
        message = subscriber.view.next(
            self.now_s(), allowed, *self._facts, self.samples, self.lines.count, self.session.errors
        )
        if message is None:
            return False
        data, buffers = encode(*message)
        # What the header costs, more or less.
        subscriber.use(sum(map(len, buffers)) + 1000 + 100 * len(message[0].collectives))
        subscriber.send(data, buffers)
        return message[0].behind > 0

    def _look(self) -> None:
        """Ask the segment for what is not in the events."""
        try:
            self.graph.correct_clock(self._client.clock().ns_per_tick * 1e-9, self.now_s())
            total, available = self._client.resources()
            stats = self._client.stats()
            self._facts = (
                Resources(total, available),
                Store(stats["used_bytes"], stats["capacity_bytes"], stats["n_objects"]),
            )
            self._look_at_collectives()
            now = time.monotonic()
            self._sample(now, total, available, stats)
            if self._reconciled_at is not None and now > self._reconciled_at + RECONCILE_INTERVAL_S:
                if stats["n_tasks"] <= RECONCILE_TASKS:
                    at_s = self.now_s()
                    numbers = [task["seq"] for task in self._client.tasks(2 * RECONCILE_TASKS)]
                    self.graph.reconcile(np.array(numbers, np.uint64), at_s)
                    self._reconciled_at = None
                else:
                    self._reconciled_at = now
        except SessionError:
            if not self._client.closed:
                raise

    def _look_at_collectives(self) -> None:
        """Read what ranks have noted of their collectives, which they do while a front end looks."""
        while self._told_of:
            try:
                ref = pickle.loads(self._told_of.popleft())
            except CellmeshError:  # the group has ended before anybody looked
                continue
            self._watched.append(Watched(self._client.get([ref], 0)[0]))
        workers = self.graph.worker_lives.by_pid()
        for watched in list(self._watched):
            watched.times.watched[0] = bool(self._subscribers)
            watched.read(self.graph.collectives, workers, self._unix_ns0 * 1e-9)
            if watched.has_ended(workers):
                self._watched.remove(watched)

    def _sample(self, now: float, total: dict[str, float], available: dict[str, float], stats: dict[str, Any]) -> None:
        """Note what the machine is doing, from the first task of a stretch of work until just after its last."""
        counts = counts_of(self.graph)
        was_busy, self._is_busy = self._is_busy, counts.running + counts.queued + counts.waiting > 0
        if (self._is_busy or was_busy) and (now >= self._sampled_at + SAMPLE_INTERVAL_S or not self._is_busy):
            self._sampled_at = now
            if THIS_NODE not in self.samples.nodes:
                self.samples.nodes[THIS_NODE] = self._machine.label(total, stats)
            self.samples.add(self._machine.sample(self.now_s(), total, available, stats))
            if self._is_clustered:
                self.session.node.link.send(ClusterRequest(0))  # answered to `_hear`


class SessionDirectory:
    """Answers the graph's questions from the segment and the cell registry."""

    def __init__(self, session: Session, registry: CellRegistry) -> None:
        self._client = session.client
        self._registry = registry

    def function(self, slot: int, generation: int) -> tuple[str, str] | None:
        return name_of(self._client, slot, generation)

    def cell(self, number: int) -> tuple[str, str]:
        cell = self._registry.cell(number)
        return cell.label, cell.cell_id

    def actor(self, index: int) -> Identity:
        try:
            meta = next((actor["meta"] for actor in self._client.actors(index)), None)
        except SessionError:
            return Identity()
        return _identity(blueprint_of(meta)) if meta else Identity()


def _identity(blueprint: Blueprint) -> Identity:
    name, member = blueprint.name, blueprint.member
    if member is None:
        return Identity(name)
    rank, *_ = member
    return Identity(name, f"{blueprint.namespace} {name.removesuffix(f'[{rank}]')}", rank)
