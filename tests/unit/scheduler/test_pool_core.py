"""The worker pool's logic: events in, actions out."""

from __future__ import annotations

import random

import pytest
from cellmesh.scheduler.local_scheduler import core, policy
from cellmesh.scheduler.local_scheduler.core import (
    AgentExited,
    DeclareDead,
    DemandSeen,
    DriverCame,
    DriverLost,
    EndSession,
    FailDeepest,
    Fork,
    ForkFailed,
    KeepSession,
    Notify,
    Pool,
    RestartZygote,
    Retire,
    ShutdownAsked,
    StartAgent,
    WorkerAttached,
    WorkerExited,
    WorkerForked,
    WorkerRetired,
    ZygoteLost,
)
from cellmesh.scheduler.local_scheduler.policy import Limits
from cellmesh.scheduler.local_scheduler.states import TRANSITIONS, ForbiddenTransition, WorkerState, next_state

TWO = Limits(n_keep=2, max_workers=6, max_starting=3)


class Driven:
    """A pool with a clock and the checks after every step."""

    def __init__(self, limits: Limits = TWO) -> None:
        self.pool = Pool(limits)
        self.now = 100.0

    def __call__(self, *events: core.Event) -> list[core.Action]:
        actions: list[core.Action] = []
        for event in events:
            actions += core.step(self.pool, event, self.now)
            core.check(self.pool)
        return actions

    def with_workers(self, n: int) -> Driven:
        """With `n` ready workers: pids 1000 + i, indices i."""
        for i in range(n):
            self.pool.n_forking += 1
            self(WorkerForked(1000 + i), WorkerAttached(1000 + i, i))
        return self


def test_a_new_pool_starts_the_workers_it_keeps() -> None:
    pool = Driven()
    assert pool(DemandSeen(0)) == [Fork(2)]
    assert pool(DemandSeen(0)) == []  # they are under way


def test_waiting_tasks_grow_the_pool_up_to_its_limits() -> None:
    pool = Driven().with_workers(2)
    assert pool(DemandSeen(10)) == [Fork(3)]  # no more starts at once
    pool(*(WorkerForked(pid) for pid in (1, 2, 3)))
    assert pool(DemandSeen(10)) == []
    pool(WorkerAttached(1, 10), WorkerAttached(2, 11), WorkerAttached(3, 12))
    assert pool(DemandSeen(10)) == [Fork(1)]  # no more processes


def test_once_all_processes_wait_for_tasks_that_none_can_begin_the_deepest_fails() -> None:
    pool = Driven().with_workers(TWO.max_workers)
    all_wait = DemandSeen(1, n_actors=1, n_blocked=TWO.max_workers - 1)
    assert pool(DemandSeen(1, n_blocked=TWO.max_workers - 1, n_busy=1)) == [], "one runs, and will end"
    assert pool(all_wait) == [], "a get() may have a timeout"
    pool.now += policy.ALL_WAIT_S
    assert core.next_deadline(pool.pool) == pool.now
    assert pool(all_wait) == [FailDeepest(TWO.max_workers)]
    pool.now += policy.ALL_WAIT_S / 10
    assert core.next_deadline(pool.pool) == pool.now
    assert pool(all_wait) == [FailDeepest(TWO.max_workers)], "that was not enough"
    assert pool(DemandSeen(0, n_blocked=1)) == []
    assert pool(all_wait) == []


def test_it_is_told_once_that_no_task_can_begin_while_actors_may_wait_too() -> None:
    pool = Driven().with_workers(TWO.max_workers)
    stuck = DemandSeen(1, n_actors=1, n_blocked=TWO.max_workers - 1, n_busy=1)
    (told,) = pool(stuck)
    assert (
        isinstance(told, Notify)
        and f": {TWO.max_workers} processes run" in told.text
        and "cellmesh.cancel(ref)" in told.text
    )
    pool(DemandSeen(0, n_actors=1, n_blocked=1))
    assert pool(stuck) == []
    pool(WorkerExited(1000, 0, 0), DemandSeen(0), DemandSeen(1), WorkerForked(1), WorkerAttached(1, 0))
    assert [type(action) for action in pool(stuck)] == [Notify], "again"


def test_the_last_half_of_the_processes_is_for_the_deepest_of_tasks_that_wait() -> None:
    pool = Driven().with_workers(TWO.max_workers // 2)
    assert pool(DemandSeen(5, n_blocked=2, n_busy=1)) == []
    assert pool(DemandSeen(5, n_blocked=3)) == [Fork(1)]
    assert pool(DemandSeen(5, n_blocked=3)) == [], "one at a time"
    assert Driven().with_workers(TWO.max_workers // 2)(DemandSeen(5, n_blocked=1, n_busy=2)) == [Fork(3)]


def test_of_actors_alone_the_driver_tells() -> None:
    assert Driven().with_workers(TWO.max_workers)(DemandSeen(1, n_actors=TWO.max_workers)) == []


def test_starts_under_way_count_for_the_tasks_that_wait() -> None:
    pool = Driven().with_workers(2)
    assert pool(DemandSeen(1)) == [Fork(1)]
    assert pool(DemandSeen(1)) == []
    assert pool(DemandSeen(2)) == [Fork(1)]


def test_workers_that_serve_actors_are_replaced() -> None:
    assert Driven().with_workers(2)(DemandSeen(0, n_actors=1)) == [Fork(1)]


def test_surplus_idle_workers_leave_after_a_while() -> None:
    pool = Driven().with_workers(4)
    idle = frozenset(range(4))
    assert pool(DemandSeen(0, idle)) == []
    assert core.next_deadline(pool.pool) == pool.now + policy.LOOK_S
    pool.now += policy.IDLE_S
    retired = pool(DemandSeen(0, idle))
    assert retired == [Retire(0), Retire(1)]
    pool(WorkerRetired(0), WorkerRetired(1))
    assert pool(WorkerExited(1000, 0, 0), WorkerExited(1001, 0, 1)) == [
        DeclareDead(0, 1000, 0, unexpected=False),
        DeclareDead(1, 1001, 0, unexpected=False),
    ]
    assert pool(DemandSeen(0, frozenset({2, 3}))) == []
    assert core.next_deadline(pool.pool) is None  # nothing to wake up for


def test_a_worker_seen_busy_is_not_idle_long() -> None:
    pool = Driven().with_workers(3)
    pool(DemandSeen(0, frozenset({0, 1, 2})))
    pool.now += policy.IDLE_S - 1
    pool(DemandSeen(0, frozenset({1, 2})), DemandSeen(0, frozenset({0, 1, 2})))
    pool.now += 2
    assert pool(DemandSeen(0, frozenset({0, 1, 2}))) == [Retire(1)]


def test_a_worker_that_would_not_retire_stays_ready() -> None:
    pool = Driven().with_workers(3)
    pool(DemandSeen(0, frozenset({0, 1, 2})))
    pool.now += policy.IDLE_S
    assert pool(DemandSeen(0, frozenset({0, 1, 2}))) == [Retire(0)]  # refused: no WorkerRetired
    assert pool.pool.workers[1000].state is WorkerState.READY
    assert pool(DemandSeen(0, frozenset({1, 2}))) == []


def test_a_death_is_reported_and_the_worker_replaced() -> None:
    pool = Driven().with_workers(2)
    assert pool(WorkerExited(1001, -9, 1, ("boom",))) == [DeclareDead(1, 1001, -9, unexpected=True)]
    assert pool(DemandSeen(0)) == [Fork(1)]


def test_a_worker_that_attached_and_died_before_it_was_ready_is_a_failed_start_too() -> None:
    pool = Driven()
    pool(DemandSeen(0), WorkerForked(5))
    assert pool(WorkerExited(5, -11, 4)) == [DeclareDead(4, 5, -11, unexpected=True)]
    assert pool.pool.n_failures == 1


def test_a_process_that_the_pool_has_forgotten_still_gives_its_slot_back() -> None:
    assert Driven()(WorkerExited(5, -9, 4)) == [DeclareDead(4, 5, -9, unexpected=True)]


def test_an_unknown_process_that_holds_no_slot_is_nobodys_business() -> None:
    assert Driven()(WorkerExited(99, 0)) == []


def test_failed_starts_back_off_and_are_told() -> None:
    pool = Driven()
    told: list[Notify] = []
    waits = []
    for n in range(1, 13):
        (fork,) = pool(DemandSeen(0))
        assert isinstance(fork, Fork)
        pool.pool.n_forking = 1  # only one of them is followed here
        pool(WorkerForked(n))
        told += pool(WorkerExited(n, 1, None, ("ImportError: no module named x",)))
        assert pool(DemandSeen(0)) == []  # not before the time
        deadline = core.next_deadline(pool.pool)
        assert deadline is not None
        waits.append(deadline - pool.now)
        pool.now = deadline
    assert waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8]) and waits[-1] == policy.MAX_BACKOFF_S
    assert len(told) == 3  # the third, the sixth, the twelfth
    assert "exit status 1" in told[0].text and "ImportError: no module named x" in told[0].text
    pool(DemandSeen(0), WorkerForked(50))
    assert pool(WorkerAttached(50, 0)) == [Notify("workers_start_again", "Workers start again.")]
    assert core.next_deadline(pool.pool) is None


def test_a_refused_fork_counts_as_a_failed_start() -> None:
    pool = Driven()
    pool(DemandSeen(0), ForkFailed("EAGAIN"), ForkFailed("EAGAIN"))
    assert pool.pool.n_failures == 2 and pool.pool.n_forking == 0
    assert pool(DemandSeen(5)) == []


def test_a_lost_zygote_is_replaced_but_not_for_ever() -> None:
    pool = Driven().with_workers(2)
    for _ in range(policy.N_RESTARTS):
        notice, restart = pool(ZygoteLost(-9))
        assert isinstance(notice, Notify) and restart == RestartZygote()
    assert isinstance(pool(ZygoteLost(-9))[-1], EndSession)


def test_restarts_of_the_zygote_are_forgiven_with_time() -> None:
    pool = Driven()
    for _ in range(10):
        assert pool(ZygoteLost(-9))[-1] == RestartZygote()
        pool.now += policy.RESTART_WINDOW_S / policy.N_RESTARTS + 1


def test_the_session_ends_with_its_owner_only() -> None:
    pool = Driven().with_workers(1)
    assert pool(DriverLost(300, 9, owner=False)) == [DeclareDead(9, 300, 0, unexpected=False)]
    assert pool(DriverLost(301, None, owner=False)) == []
    assert isinstance(pool(DriverLost(302, 8, owner=True))[-1], EndSession)
    assert pool(DemandSeen(5)) == [] and core.next_deadline(pool.pool) is None


def test_with_a_detached_actor_it_goes_on_without_its_owner() -> None:
    pool = Driven().with_workers(1)
    died, keep, notice = pool(DriverLost(302, 8, owner=True, n_detached=1))
    assert died == DeclareDead(8, 302, 0, unexpected=False) and isinstance(keep, KeepSession)
    assert isinstance(notice, Notify) and "302" in notice.text
    assert not any(isinstance(action, EndSession) for action in pool(DemandSeen(0))), "it is kept for somebody"
    assert isinstance(pool(DemandSeen(0, is_kept=False))[-1], EndSession)


def test_who_adopts_it_is_its_owner() -> None:
    pool = Driven().with_workers(1)
    pool(DriverLost(302, 8, owner=True, n_detached=2))
    pool(DriverCame(400))
    assert not any(isinstance(action, EndSession) for action in pool(DemandSeen(0, is_kept=False))), (
        "its driver keeps it"
    )
    assert isinstance(pool(DriverLost(400, 8, owner=True))[-1], EndSession)


def test_shutdown_ends_it_once() -> None:
    pool = Driven()
    notice, end = pool(ShutdownAsked())
    assert isinstance(notice, Notify) and not notice.owner_too and isinstance(end, EndSession)
    assert pool(ShutdownAsked()) == []


def test_an_end_that_the_owner_did_not_ask_for_is_told() -> None:
    notice, end = Driven()(ShutdownAsked(by="signal SIGTERM"))
    assert isinstance(notice, Notify) and notice.owner_too and isinstance(end, EndSession) and "SIGTERM" in end.reason


@pytest.mark.parametrize("state", list(WorkerState))
@pytest.mark.parametrize("event", ["attached", "retired", "exited", "nonsense"])
def test_only_the_table_allows_transitions(state: WorkerState, event: str) -> None:
    if (state, event) in TRANSITIONS:
        next_state(state, event)
    else:
        with pytest.raises(ForbiddenTransition, match=event):
            next_state(state, event)


def test_a_forbidden_event_leaves_the_pool_sound() -> None:
    pool = Driven().with_workers(1)
    with pytest.raises(ForbiddenTransition):
        pool(WorkerAttached(1000, 5))
    core.check(pool.pool)


def test_a_broken_invariant_tells_the_story() -> None:
    pool = Driven().with_workers(1)
    pool.pool.n_forking = -1
    with pytest.raises(core.BrokenInvariant, match="WorkerForked"):
        core.check(pool.pool)


@pytest.mark.parametrize("seed", range(200))
def test_any_interleaving_keeps_the_invariants_and_ends_with_the_workers_kept(seed: int) -> None:
    """A world of workers that start, fail, work, die and idle at random; then it calms down."""
    rng = random.Random(seed)
    pool = Driven(Limits(rng.randint(1, 4), rng.randint(6, 12), rng.randint(1, 4)))
    World(pool, rng).run(300)


class World:
    """Performs the actions at random times, as zygote, workers and segment would."""

    def __init__(self, pool: Driven, rng: random.Random) -> None:
        self.pool, self.rng = pool, rng
        self.forks = 0
        self.starting: set[int] = set()
        self.said_hello: set[int] = set()
        self.attached: dict[int, int] = {}
        self.leaving: set[int] = set()
        self.next_pid = 1
        self.dead: set[int] = set()

    def send(self, event: core.Event) -> None:
        for action in self.pool(event):
            match action:
                case Fork(n):
                    self.forks += n
                case Retire(index):
                    pid = next(p for p, i in self.attached.items() if i == index)
                    if self.rng.random() < 0.8:
                        self.leaving.add(pid)
                        self.send(WorkerRetired(index))
                case DeclareDead(index):
                    assert index not in self.attached.values()

    def end(self, pid: int, code: int) -> None:
        index = self.attached.pop(pid, None)
        self.starting.discard(pid)
        self.leaving.discard(pid)
        self.send(WorkerExited(pid, code, index))

    def fork_one(self) -> None:
        self.forks -= 1
        pid, self.next_pid = self.next_pid, self.next_pid + 1
        self.send(WorkerForked(pid))
        self.starting.add(pid)

    def attach(self, pid: int) -> None:
        self.starting.discard(pid)
        self.attached[pid] = next(i for i in range(256) if i not in self.attached.values())
        self.send(WorkerAttached(pid, self.attached[pid]))

    def run(self, n_steps: int) -> None:
        rng = self.rng
        for _ in range(n_steps):
            self.pool.now += rng.expovariate(1.0)
            choice = rng.random()
            if choice < 0.3:
                idle = frozenset(i for p, i in self.attached.items() if p not in self.leaving and rng.random() < 0.5)
                self.send(DemandSeen(rng.choice([0, 0, 1, 3, 50]), idle, rng.randint(0, len(self.attached))))
            elif choice < 0.55 and self.forks:
                if rng.random() < 0.1:
                    self.forks -= 1
                    self.send(ForkFailed("EAGAIN"))
                else:
                    self.fork_one()
            elif choice < 0.75 and self.starting:
                pid = rng.choice(sorted(self.starting))
                self.end(pid, 1) if rng.random() < 0.2 else self.attach(pid)
            elif choice < 0.85 and self.attached:
                self.end(rng.choice(sorted(self.attached)), rng.choice([0, -9, 3]))
            elif choice < 0.95 and self.leaving:
                self.end(rng.choice(sorted(self.leaving)), 0)
        self.calm_down()

    def calm_down(self) -> None:
        """No more failures, nothing to do: the pool must come to rest at exactly the workers it keeps."""
        for _ in range(100):
            while self.forks:
                self.fork_one()
            for pid in sorted(self.starting):
                self.attach(pid)
            for pid in sorted(self.leaving):
                self.end(pid, 0)
            idle = frozenset(i for p, i in self.attached.items() if p not in self.leaving)
            self.send(DemandSeen(0, idle))
            deadline = core.next_deadline(self.pool.pool)
            if deadline is None and not self.forks and not self.leaving:
                break
            self.pool.now = max(self.pool.now, deadline or 0.0)
        assert len(self.attached) == self.pool.pool.limits.n_keep == self.pool.pool.n_alive


# ---------------------------------------------------------------- a session in a cluster
def test_an_agent_that_dies_is_started_again_later_and_later_and_the_drivers_are_told() -> None:
    pool = Driven()
    pauses = []
    for n in range(1, 7):
        actions = pool(AgentExited(-9, (7, 9)))
        assert actions[:2] == [DeclareDead(7, 0, -9, unexpected=False), DeclareDead(9, 0, -9, unexpected=False)]
        assert [a.kind for a in actions[2:] if isinstance(a, Notify)] == (["cluster"] if n in (1, 3, 6) else [])
        deadline = core.next_deadline(pool.pool)
        assert deadline is not None and StartAgent() not in pool(DemandSeen(0))
        pauses.append(round(deadline - pool.now, 3))
        pool.now = deadline
        assert pool(DemandSeen(0)).count(StartAgent()) == 1 and StartAgent() not in pool(DemandSeen(0))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    pool.now += policy.RESTART_WINDOW_S + 1
    assert "signal 9." in pool(AgentExited(-9))[0].text and core.next_deadline(pool.pool) == pool.now + 0.1


def test_an_agent_without_a_cluster_ends_the_session_that_was_there_for_it() -> None:
    with_driver = Driven()
    assert [type(a) for a in with_driver(AgentExited(0))] == [Notify] and core.next_deadline(with_driver.pool) is None
    pool = Driven()
    pool.pool.stays = True
    assert [type(a) for a in pool(AgentExited(0))] == [Notify], "its driver is still there"
    assert isinstance(pool(DriverLost(5, 3, owner=True))[-1], EndSession)
    pool = Driven()
    pool.pool.stays = True
    pool(DriverLost(5, 3, owner=True))
    assert isinstance(pool(AgentExited(0))[-1], EndSession)


def test_a_session_that_stays_needs_no_driver() -> None:
    pool = Driven()
    pool.pool.stays = True
    assert pool(DriverLost(5, 3, owner=True)) == [DeclareDead(3, 5, 0, unexpected=False)]
    assert not any(isinstance(a, EndSession) for a in pool(DemandSeen(0, is_kept=False)))
    assert isinstance(pool(ShutdownAsked("somebody"))[-1], EndSession)


def test_the_next_start_at_a_rate_is_a_deadline_and_at_rest_there_is_none() -> None:
    pool = Driven().with_workers(2)
    pool(DemandSeen(0, frozenset({0, 1})))
    assert core.next_deadline(pool.pool) is None
    pool(DemandSeen(0, frozenset({0, 1}), next_start_s=0.25))
    assert core.next_deadline(pool.pool) == pool.now + 0.25
    pool.now += 0.25
    pool(DemandSeen(0, frozenset({0, 1})))
    assert core.next_deadline(pool.pool) is None
