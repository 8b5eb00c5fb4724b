"""The worker pool's logic: `step(pool, event, now) -> actions`. No clock, no socket and no process in here.

The segment decides which task runs where. This module decides the rest: how many workers there should be, what an exit
means, and when the session is over. The shell (`server.py`) turns what it sees into events and performs the actions in
order.

Every event may change what should be done about the demand, so the shell sends `DemandSeen` after any other event.
Time comes back through `next_deadline`: the shell sends `DemandSeen` when it has passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..ipc.messages import EventKind
from . import policy
from .policy import Limits
from .states import WorkerState, next_state

N_STORY = 200  # events kept for reports


# ---- events
class DemandSeen(Struct, frozen=True):
    """What the segment says: tasks that could run if there were workers for them (beyond the idle ones), the indices of
    idle workers, how many workers serve an actor, whether a driver or a detached actor is left to keep the session for,
    in how many seconds a task may begin that waits for nothing but its rate (`rate_limit`), None: there is none,
    how many workers run a task, of no actor, that sleeps in `get` or `wait`, and how many run a task or a call that
    does not."""

    n_wanted: int
    idle: frozenset[int] = frozenset()
    n_actors: int = 0
    is_kept: bool = True
    next_start_s: float | None = None
    n_blocked: int = 0
    n_busy: int = 0


class WorkerForked(Struct, frozen=True):
    """The zygote has forked a worker that was asked for."""

    pid: int


class ForkFailed(Struct, frozen=True):
    """The zygote could not fork one that was asked for."""

    reason: str


class WorkerAttached(Struct, frozen=True):
    """A worker is ready: attached to the segment as client `index`."""

    pid: int
    index: int


class WorkerRetired(Struct, frozen=True):
    """The idle worker `index` has been asked to leave, and will."""

    index: int


class WorkerExited(Struct, frozen=True):
    """A worker has ended. `index` from the segment: the client slot it holds, None if it never got that far."""

    pid: int
    code: int
    index: int | None = None
    tail: tuple[str, ...] = ()


class ZygoteLost(Struct, frozen=True):
    """The zygote has ended; its workers end with it and are reported one by one."""

    code: int


class DriverLost(Struct, frozen=True):
    """A driver's process has ended. `owner`: the one whose session it is, which may also have let go of its connection.

    `index` from the segment: the client slot it holds, None if none. `n_detached`: how many detached actors live.
    """

    pid: int
    index: int | None
    owner: bool
    n_detached: int = 0


class DriverCame(Struct, frozen=True):
    """A driver has adopted a session that had no driver any more."""

    pid: int


class AgentExited(Struct, frozen=True):
    """The agent, which connects the session with its cluster, has ended. `indices` from the segment: the client slots
    that it held.

    It ends with status 0 when the session is no member of the cluster any more, and never will be again.
    """

    code: int
    indices: tuple[int, ...] = ()


class ShutdownAsked(Struct, frozen=True):
    """The session is to end. `by`: the process that ends it, if not its owner, whose wish is not announced."""

    by: str = ""


Event = (
    DemandSeen
    | WorkerForked
    | ForkFailed
    | WorkerAttached
    | WorkerRetired
    | WorkerExited
    | ZygoteLost
    | DriverLost
    | DriverCame
    | AgentExited
    | ShutdownAsked
)


# ---- actions
class Fork(Struct, frozen=True):
    """Ask the zygote for `n` workers."""

    n: int


class Retire(Struct, frozen=True):
    """Ask the idle worker `index` to leave; `WorkerRetired` if it was still idle."""

    index: int


class FailDeepest(Struct, frozen=True):
    """Fail the task that is waited for at the greatest depth: all `n_processes` wait, so it can never begin."""

    n_processes: int


class DeclareDead(Struct, frozen=True):
    """Tell the segment that client `index` is no more. `unexpected`: tell the drivers as well, before."""

    index: int
    pid: int
    code: int
    unexpected: bool


class Notify(Struct, frozen=True):
    """Tell the drivers something that people should read; `kind` as in `messages.NodeEvent`."""

    kind: EventKind
    text: str
    owner_too: bool = True


class RestartZygote(Struct, frozen=True):
    """Start another zygote."""


class StartAgent(Struct, frozen=True):
    """Start another agent."""


class KeepSession(Struct, frozen=True):
    """The session has no owner any more: let other drivers find and adopt it."""


class EndSession(Struct, frozen=True):
    """Kill every process of the session, remove its folder, end."""

    reason: str


Action = Fork | Retire | FailDeepest | DeclareDead | Notify | RestartZygote | StartAgent | KeepSession | EndSession


# ---- state
class Worker(Struct, frozen=True):
    """One worker process."""

    pid: int
    state: WorkerState = WorkerState.STARTING
    index: int | None = None


class Pool(Struct):
    """The local scheduler's state. Changed by `step` alone."""

    limits: Limits
    workers: dict[int, Worker] = field(default_factory=dict[int, Worker])  # by pid
    pid_of: dict[int, int] = field(default_factory=dict[int, int])  # by index: the attached ones
    n_forking: int = 0  # asked of the zygote, not answered yet
    demand: DemandSeen = DemandSeen(0)  # when last looked
    looked_at: float = 0.0
    idle_since: dict[int, float] = field(default_factory=dict[int, float])  # by index, as far as has been looked
    has_told_stuck: bool = False  # that no task can begin; until there are fewer processes
    all_wait_since: float | None = None  # all processes that may be there, and tasks that need one
    n_failures: int = 0  # starts in a row that failed
    no_start_before: float = 0.0
    zygote_restarts: list[float] = field(default_factory=list[float])  # times, within RESTART_WINDOW_S
    has_owner: bool = True
    stays: bool = False  # without an owner, too
    n_agent_failures: int = 0  # in a row
    agent_failed_at: float = 0.0
    start_agent_at: float | None = None  # the next one
    ended: bool = False
    story: deque[str] = field(default_factory=lambda: deque(maxlen=N_STORY))

    @property
    def n_starting(self) -> int:
        """Starts under way: asked for, or forked and not attached."""
        return self.n_forking + sum(w.state is WorkerState.STARTING for w in self.workers.values())

    @property
    def n_alive(self) -> int:
        """Processes that exist or have been asked for."""
        return self.n_forking + len(self.workers)

    @property
    def n_plain(self) -> int:
        """The processes that serve no actor."""
        return max(0, self.n_alive - self.demand.n_actors)


class BrokenInvariant(AssertionError):
    """Our bug. Its text ends with the pool's story."""


def step(pool: Pool, event: Event, now: float) -> list[Action]:
    """Take in one event at time `now` (seconds, monotonic) and return what is to be done, in that order."""
    pool.story.append(f"{now:.3f} {event}")
    return [] if pool.ended else _HANDLERS[type(event)](pool, event, now)


def next_deadline(pool: Pool) -> float | None:
    """When to send `DemandSeen` although nothing has happened; None: not at all, as for a pool at its usual size."""
    if pool.ended:
        return None
    deadlines = [] if pool.start_agent_at is None else [pool.start_agent_at]
    if pool.n_failures and _n_missing(pool):
        deadlines.append(pool.no_start_before)
    if pool.n_plain > pool.limits.n_keep:
        deadlines.append(pool.looked_at + policy.LOOK_S)  # that workers have become idle is not reported
    if pool.all_wait_since is not None:
        deadlines.append(max(pool.all_wait_since + policy.ALL_WAIT_S, pool.looked_at + policy.ALL_WAIT_S / 10))
    if pool.demand.next_start_s is not None:
        deadlines.append(pool.looked_at + pool.demand.next_start_s)
    return min(deadlines, default=None)


def can_start(pool: Pool) -> bool:
    """Whether it could start a worker now. Otherwise news of tasks without a worker change nothing before a start has
    succeeded or failed, and many tasks tell such news all the time."""
    return pool.n_starting < pool.limits.max_starting


def _n_missing(pool: Pool) -> int:
    return policy.n_to_start(
        pool.limits,
        n_wanted=pool.demand.n_wanted,
        n_plain=pool.n_plain,
        n_alive=pool.n_alive,
        n_starting=pool.n_starting,
        n_blocked=pool.demand.n_blocked,
        n_busy=pool.demand.n_busy,
    )


# ---- one handler per event
def _demand_seen(pool: Pool, event: DemandSeen, now: float) -> list[Action]:
    if not pool.has_owner and not event.is_kept and not pool.stays:
        return _end(pool, "its driver has left it, and no detached actor is alive any more")
    pool.demand, pool.looked_at = event, now
    ready = {index for index in event.idle if index in pool.pid_of and _worker(pool, index).state is WorkerState.READY}
    pool.idle_since = {index: pool.idle_since.get(index, now) for index in sorted(ready)}
    actions: list[Action] = []
    n = _n_missing(pool) if now >= pool.no_start_before else 0
    if n:
        pool.n_forking += n
        actions.append(Fork(n))
    actions += [Retire(index) for index in policy.to_retire(pool.limits, pool.idle_since, now)]
    actions += _all_wait(pool, event, now)
    if pool.start_agent_at is not None and now >= pool.start_agent_at:
        pool.start_agent_at = None
        actions.append(StartAgent())
    return actions


def _all_wait(pool: Pool, event: DemandSeen, now: float) -> list[Action]:
    """What to do if there may be no more processes, none is free, and tasks need one."""
    full = pool.n_alive >= pool.limits.max_workers
    if not (full and event.n_wanted and event.n_blocked and not pool.n_starting):
        pool.all_wait_since = None
        pool.has_told_stuck = pool.has_told_stuck and full
        return []
    if event.n_busy:  # perhaps an actor, whose call waits for such a task, too
        pool.all_wait_since = None
        if pool.has_told_stuck or event.n_blocked + event.n_actors < pool.limits.max_workers:
            return []
        pool.has_told_stuck = True
        text = (
            f"No task can begin now: {pool.n_alive} processes run, as many as there may be, {event.n_blocked} with "
            f"tasks that wait in get() or wait(), and {event.n_actors} as actors. If the actors wait for such tasks, "
            "this is for ever: cellmesh.cancel(ref) ends a task with all that it has started."
        )
        return [Notify("tasks_wait", text)]
    if pool.all_wait_since is None:
        pool.all_wait_since = now
    return [FailDeepest(pool.n_alive)] if now >= pool.all_wait_since + policy.ALL_WAIT_S else []


def _worker_forked(pool: Pool, event: WorkerForked, now: float) -> list[Action]:
    pool.n_forking -= 1
    pool.workers[event.pid] = Worker(event.pid)
    return []


def _fork_failed(pool: Pool, event: ForkFailed, now: float) -> list[Action]:
    pool.n_forking -= 1
    return _start_failed(pool, f"the operating system refuses further processes ({event.reason})", (), now)


def _worker_attached(pool: Pool, event: WorkerAttached, now: float) -> list[Action]:
    _change(pool, event.pid, "attached", index=event.index)
    pool.pid_of[event.index] = event.pid
    told = pool.n_failures >= policy.N_FAILURES_TOLD
    pool.n_failures, pool.no_start_before = 0, 0.0
    return [Notify("workers_start_again", "Workers start again.")] if told else []


def _worker_retired(pool: Pool, event: WorkerRetired, now: float) -> list[Action]:
    _change(pool, pool.pid_of[event.index], "retired")
    pool.idle_since.pop(event.index, None)
    return []


def _worker_exited(pool: Pool, event: WorkerExited, now: float) -> list[Action]:
    worker = pool.workers.get(event.pid)
    if worker is not None:
        _change(pool, event.pid, "exited")
        if worker.index is not None:
            del pool.pid_of[worker.index]
            pool.idle_since.pop(worker.index, None)
    index = event.index if event.index is not None or worker is None else worker.index
    actions: list[Action] = []
    if index is not None:
        # A worker leaves with status 0 when it was told to, or when its actor has ended.
        actions.append(DeclareDead(index, event.pid, event.code, unexpected=event.code != 0))
    if worker is not None and worker.state is WorkerState.STARTING:
        how = f"signal {-event.code}" if event.code < 0 else f"exit status {event.code}"
        actions += _start_failed(pool, f"a worker ended with {how} before it was ready", event.tail, now)
    return actions


def _start_failed(pool: Pool, what: str, tail: tuple[str, ...], now: float) -> list[Action]:
    pool.n_failures += 1
    pause = policy.backoff_s(pool.n_failures)
    pool.no_start_before = now + pause
    if not policy.tells_failure(pool.n_failures):
        return []
    said = "".join(f"\n  {line}" for line in tail) or " (nothing)"
    text = (
        f"Workers do not start, {pool.n_failures} times in a row by now: {what}. Tasks wait until one does; "
        f"the next attempt is in {pause:.3g} s. Its last words:{said}"
    )
    return [Notify("workers_do_not_start", text)]


def _zygote_lost(pool: Pool, event: ZygoteLost, now: float) -> list[Action]:
    pool.n_forking = 0
    how = f"signal {-event.code}" if event.code < 0 else f"exit status {event.code}"
    pool.zygote_restarts = [t for t in pool.zygote_restarts if now - t < policy.RESTART_WINDOW_S] + [now]
    if len(pool.zygote_restarts) > policy.N_RESTARTS:
        return _end(pool, f"the process that forks workers has ended again and again (now with {how})")
    text = (
        f"The process that forks workers has ended with {how} and took all workers with it. Another one starts; "
        "what ran is retried where that is allowed."
    )
    return [Notify("zygote_restarted", text), RestartZygote()]


def _driver_lost(pool: Pool, event: DriverLost, now: float) -> list[Action]:
    died: list[Action] = [] if event.index is None else [DeclareDead(event.index, event.pid, 0, unexpected=False)]
    if not event.owner:
        return died
    whose = f"the driver whose session it is (process {event.pid})"
    if pool.stays:
        pool.has_owner = False
        return died
    if not event.n_detached:
        return _end(pool, f"{whose} has ended")
    pool.has_owner = False
    what = "a detached actor lives" if event.n_detached == 1 else f"{event.n_detached} detached actors live"
    return [
        *died,
        KeepSession(),
        Notify("driver_left", f"{whose[0].upper()}{whose[1:]} has ended. The session goes on, as {what}."),
    ]


def _driver_came(pool: Pool, event: DriverCame, now: float) -> list[Action]:
    pool.has_owner = True
    return []


def _agent_exited(pool: Pool, event: AgentExited, now: float) -> list[Action]:
    died: list[Action] = [DeclareDead(index, 0, event.code, unexpected=False) for index in event.indices]
    if event.code == 0:
        was_for_it, pool.stays = pool.stays, False
        if was_for_it and not pool.has_owner:
            return [*died, *_end(pool, "it is not part of its cluster any more")]
        text = "This session is not part of its cluster any more, and goes on alone. `cellmesh logs` says why."
        return [*died, Notify("cluster", text)]
    if now - pool.agent_failed_at > policy.RESTART_WINDOW_S:
        pool.n_agent_failures = 0
    pool.n_agent_failures, pool.agent_failed_at = pool.n_agent_failures + 1, now
    pause = policy.backoff_s(pool.n_agent_failures)
    pool.start_agent_at = now + pause
    how = f"signal {-event.code}" if event.code < 0 else f"exit status {event.code}"
    times = f", {pool.n_agent_failures} times in a row by now" if pool.n_agent_failures > 1 else ""
    text = (
        f"The agent, which connects this session with its cluster, has ended with {how}{times}. Another one starts in "
        f"{pause:.3g} s; what ran on other machines is retried where that is allowed. `cellmesh logs` shows its last "
        "words."
    )
    tells = pool.n_agent_failures == 1 or policy.tells_failure(pool.n_agent_failures)
    return [*died, Notify("cluster", text)] if tells else died


def _shutdown_asked(pool: Pool, event: ShutdownAsked, now: float) -> list[Action]:
    if event.by:
        return _end(pool, f"{event.by} has ended it")
    return _end(pool, "the driver whose session it is has shut it down", owner_too=False)


def _end(pool: Pool, reason: str, owner_too: bool = True) -> list[Action]:
    pool.ended = True
    return [Notify("session_ends", f"The session ends: {reason}.", owner_too), EndSession(reason)]


_HANDLERS: dict[type[Event], Callable[[Pool, Any, float], list[Action]]] = {
    DemandSeen: _demand_seen,
    WorkerForked: _worker_forked,
    ForkFailed: _fork_failed,
    WorkerAttached: _worker_attached,
    WorkerRetired: _worker_retired,
    WorkerExited: _worker_exited,
    ZygoteLost: _zygote_lost,
    DriverLost: _driver_lost,
    DriverCame: _driver_came,
    AgentExited: _agent_exited,
    ShutdownAsked: _shutdown_asked,
}


def _worker(pool: Pool, index: int) -> Worker:
    return pool.workers[pool.pid_of[index]]


def _change(pool: Pool, pid: int, event: str, index: int | None = None) -> None:
    worker = pool.workers[pid]
    state = next_state(worker.state, event)
    if state is None:
        del pool.workers[pid]
    else:
        pool.workers[pid] = replace(worker, state=state, index=worker.index if index is None else index)


def check(pool: Pool) -> None:
    """The invariants, as assertions.

    Raises
    ------
    BrokenInvariant
        With the first one that does not hold and the pool's story.
    """
    attached = {w.pid: w.index for w in pool.workers.values() if w.state is not WorkerState.STARTING}
    starting = [w for w in pool.workers.values() if w.state is WorkerState.STARTING]
    facts = {
        "workers stand under their own pid": all(pid == w.pid for pid, w in pool.workers.items()),
        "attached workers, and only they, have an index": {p: i for i, p in pool.pid_of.items()} == attached
        and all(w.index is None for w in starting),
        "starts asked for are not negative": pool.n_forking >= 0,
        "the pool keeps its limits": pool.n_alive <= pool.limits.max_workers
        and pool.n_starting <= pool.limits.max_starting,
        "only ready workers are idle": all(
            index in pool.pid_of and _worker(pool, index).state is WorkerState.READY for index in pool.idle_since
        ),
        "a start is put off only after a failure": pool.no_start_before == 0.0 or pool.n_failures > 0,
    }
    for fact, holds in facts.items():
        if not holds:
            raise BrokenInvariant(f"{fact}: broken. What happened:\n" + "\n".join(pool.story))
