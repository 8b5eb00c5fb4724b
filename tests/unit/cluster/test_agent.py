"""The agent's decisions: events in, actions out."""

from __future__ import annotations

from cellmesh.scheduler.cluster.agent import core, home_queue, strategies
from cellmesh.scheduler.cluster.agent.core import Settings
from cellmesh.scheduler.cluster.agent.events import (
    Action,
    BeginDrain,
    Congested,
    Connect,
    Connected,
    Direct,
    Disconnected,
    Ended,
    EndPeer,
    Event,
    FailUnrouted,
    GroupPlaced,
    HeadBack,
    HeadGone,
    HeadSaid,
    Looked,
    MemberCame,
    MemberLost,
    Pass,
    PeerDown,
    PeerFaulty,
    PeerProbed,
    PeerUp,
    PlaceHere,
    Probe,
    Request,
    ResetHeard,
    ResetSaid,
    Say,
    SayReset,
    Send,
    SendToBundles,
    Sent,
    SentBack,
    SessionEnds,
    Stop,
    TakeBack,
    Tell,
    Tick,
    Waiting,
    Waits,
    WantGroup,
    Warn,
)
from cellmesh.scheduler.cluster.agent.strategies import Wish
from cellmesh.scheduler.cluster.leases import holder
from cellmesh.scheduler.cluster.messages import (
    Ask,
    AskGroup,
    Came,
    Drain,
    End,
    FromHead,
    Grant,
    GrantedLease,
    Heard,
    Held,
    Infeasible,
    Leave,
    Lost,
    Member,
    Recall,
    Refused,
    Register,
    Registered,
    RegisterFirst,
    Report,
    Reset,
    Return,
    StoreReply,
    StoreRequest,
    Strategy,
    ToHead,
)

CPU = {"CPU": 10_000}
FREE = {"CPU": 40_000}
S, LATE = (1, 0), (2, 0)  # shapes


def who(node: int) -> Member:
    return Member(node, f"tcp://10.0.0.{node}:1", bytes([node]) * 32, f"host{node}", FREE)


def row(n: int, index: int = 1, demand: dict[str, int] = CPU, wish: Wish | None = None, **more: object) -> Waiting:
    """Tasks that could not run at home, or that ask where to."""
    asks = wish is not None
    text = strategies.to_text(wish) if wish is not None else ""
    return Waiting(index, demand, n, asks=asks, wish=text, **{"fits": False, **more})


class Driven:
    """An agent, node 1, with a clock and the checks after every step."""

    def __init__(self, **settings: object) -> None:
        self.core = core.start(who(1), 100.0, Settings(**settings))
        self.now = 100.0

    def __call__(self, *events: Event) -> list[Action]:
        actions: list[Action] = []
        for event in events:
            actions += core.step(self.core, event, self.now)
            core.check(self.core)
        return actions

    def hears(self, *messages: FromHead) -> list[Action]:
        return self(*(HeadSaid(self.core.attempt, message) for message in messages))

    def registered(self, *nodes: int, epoch: int = 1) -> list[Action]:
        return self.hears(Registered("c", epoch, [who(n) for n in (1, *nodes)], 1.0, 10.0))

    def up(self, *nodes: int) -> Driven:
        self(Tick(), Connected(1))
        self.registered(*nodes)
        return self

    def waiting(self, n: int) -> list[Action]:
        return self(Looked((row(n),) if n else ()))

    def passes(self, seconds: float, hears: bool = True) -> list[Action]:
        actions: list[Action] = []
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            if hears and self.core.link == "up":
                actions += self.hears(Heard(1, self.core.leases.is_wanted))
            actions += self(Tick())
        return actions


def sent_tasks(actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, Send)]


def told(actions: list[Action]) -> list[ToHead]:
    return [a.message for a in actions if isinstance(a, Tell) and not isinstance(a.message, Report)]


def grant(number: int, *held: tuple[int, int, int]) -> Grant:
    return Grant(number, [GrantedLease(lease, node, n) for lease, node, n in held])


# ---- the head
def test_it_connects_registers_and_reports() -> None:
    agent = Driven()
    assert agent(Tick()) == [Connect(1)]
    assert agent(Connected(1)) == [Tell(Register(who(1), 1, 0, []))]
    actions = agent.registered(2)
    assert MemberCame(who(2)) in actions and MemberCame(who(1)) not in actions
    assert [a.message for a in actions if isinstance(a, Tell)] == [Report(1, 1, {}, {})]
    reports = [a for a in agent.passes(3.2) if isinstance(a, Tell) and isinstance(a.message, Report)]
    assert len(reports) == 3


def test_it_tries_again_with_pauses_that_grow() -> None:
    agent = Driven()
    agent(Tick())
    times = []
    for attempt in range(1, 8):
        began = agent.now
        agent(Disconnected(attempt))
        while not any(isinstance(a, Connect) for a in agent(Tick())):
            agent.now += 0.05
        times.append(round(agent.now - began, 1))
    assert times[0] <= 0.15 and times == sorted(times) and 2.0 <= times[-1] <= 2.1


def test_everything_is_told_and_asked_again_on_a_new_connection() -> None:
    agent = Driven().up(2)
    [ask] = told(agent.waiting(8))
    assert isinstance(ask, Ask) and ask.n == 8
    agent.hears(grant(ask.number, (50, 2, 3)))
    agent(Request(StoreRequest(9, 1, "kv", "put", "k")))
    agent(Disconnected(1))
    assert not told(agent(Ended(50, 1)))  # and a task is sent in its place without the head
    agent.now += 0.2
    assert agent(Tick()) == [Connect(2)]
    assert told(agent(Connected(2))) == [Register(who(1), 2, 1, [Held(50, 2, CPU, 3)])]
    again = told(agent.registered(2))
    assert [type(m) for m in again] == [Ask, StoreRequest] and again[0].number != ask.number


def test_what_is_said_on_an_earlier_connection_is_not_heard() -> None:
    agent = Driven().up(2)
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    assert agent(HeadSaid(1, Lost(2, "x")), HeadSaid(1, End("x"))) == []
    assert agent(Disconnected(1)) == [] and agent.core.link == "registering"


def test_a_head_of_an_earlier_life_is_not_obeyed() -> None:
    agent = Driven()
    agent(Tick(), Connected(1))
    agent.registered(epoch=3)
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    agent.registered(epoch=2)
    assert agent.core.link == "down" and agent.core.epoch == 3


def test_a_head_that_hears_and_does_not_answer_is_left() -> None:
    agent = Driven().up()
    assert not [a for a in agent.passes(4.9, hears=False) if isinstance(a, Connect)]
    assert [a for a in agent.passes(0.4, hears=False) if isinstance(a, Connect)] == [Connect(2)]


def test_a_head_that_speaks_and_does_not_hear_is_left() -> None:
    """What it says to all nodes is no answer: after as long as it takes to notice twice, it would call this node
    dead."""
    agent = Driven().up()
    actions: list[Action] = []
    for node in range(10, 64):
        actions += [
            *agent.passes(0.1, hears=False),
            *(agent.hears(Came(who(node))) if agent.core.link == "up" else ()),
        ]
    assert [a for a in actions if isinstance(a, Connect)] == [Connect(2)]


def test_the_own_pause_is_nobodys_silence() -> None:
    agent = Driven().up()
    agent.now += 30
    actions = agent(Tick())
    assert agent.core.link == "up" and any(isinstance(a, Tell) and isinstance(a.message, Report) for a in actions)


def test_a_connection_made_anew_beneath_it_is_registered_again() -> None:
    agent = Driven().up(2)
    assert told(agent.hears(RegisterFirst())) == [Register(who(1), 2, 1, [])]
    assert agent.hears(RegisterFirst()) == []  # one of the reports meanwhile


def test_a_head_that_is_gone_for_good_ends_a_node_without_a_driver() -> None:
    agent = Driven().up()
    agent(Disconnected(1))
    actions = agent.passes(70)
    drains = [a for a in actions if isinstance(a, BeginDrain)]
    assert len(drains) == 1 and "60 s" in drains[0].reason
    agent(Looked(has_guests=True))
    agent.now += home_queue.DRAINED_S
    assert not agent(Looked(has_guests=True)), "something of others is still here"
    agent(Looked())
    agent.now += home_queue.DRAINED_S
    [stop] = agent(Looked())
    assert isinstance(stop, Stop) and stop.kind == "head_gone" and agent(Tick()) == []


def test_a_node_with_a_driver_lives_on_and_notices_when_the_head_is_back() -> None:
    agent = Driven(has_driver=True).up()
    agent(Disconnected(1))
    assert [type(a) for a in agent.passes(70) if not isinstance(a, Connect)] == [HeadGone, Direct]
    agent(Connected(agent.core.attempt))
    assert HeadBack() in agent.registered(epoch=2)


def test_who_was_declared_dead_stops_everything() -> None:
    agent = Driven().up(2)
    assert agent.hears(Lost(1, "silent for 10 s")) == [Stop("fenced", "silent for 10 s")]
    late = Driven()
    late(Tick(), Connected(1))
    assert late.hears(Lost(1, "x")) == [Stop("fenced", "x")]


def test_who_is_refused_stops_and_says_why() -> None:
    agent = Driven()
    agent(Tick(), Connected(1))
    assert agent.hears(Refused("another version")) == [Stop("refused", "another version")]


def test_members_come_and_go_also_while_nobody_listens() -> None:
    agent = Driven().up(2, 3)
    twice = (Came(who(4)), Came(who(4)), Lost(2, "x"), Lost(2, "x"))
    assert agent.hears(*twice) == [MemberCame(who(4)), MemberLost(2, "x")]
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    actions = agent.registered(4, 5)
    assert MemberCame(who(5)) in actions and [a.node for a in actions if isinstance(a, MemberLost)] == [3]


def test_draining_and_leaving() -> None:
    agent = Driven().up(2)
    assert [type(a) for a in agent.hears(Drain(1), Drain(1))] == [BeginDrain]
    agent(Looked())
    agent.now += home_queue.DRAINED_S
    actions = agent(Looked())
    assert actions[-2:] == [Tell(Leave(1)), Stop("left", "it was told to drain")]


def test_a_session_that_ends_says_so() -> None:
    assert Driven().up(2)(SessionEnds()) == [Tell(Leave(1)), Stop("left", "its session has ended")]


# ---- leases
def test_a_flood_asks_once_uses_all_of_every_lease_and_returns_what_is_left() -> None:
    agent = Driven().up(2)
    [ask] = told(agent.waiting(5))
    assert isinstance(ask, Ask) and ask.n == 5 and not told(agent.waiting(5))
    assert agent.hears(grant(ask.number, (50, 2, 4))) == [Send(50, 2, S, 4)]
    agent.now += 1
    assert Send(50, 2, S, 1) in agent(Ended(50, 1))
    agent.now += 1
    assert not told(agent(Ended(50, 4)))  # nothing waits; the next burst may come at once
    actions = told(agent.passes(0.3))
    assert Return({50: 4}) in actions and Ask(ask.number, 1, CPU, 0) in actions


def test_an_ask_is_repeated_when_the_need_has_doubled_or_halved() -> None:
    agent = Driven().up(2)
    agent.waiting(10)
    assert not told(agent.waiting(20)) and not told(agent.waiting(5))
    [more] = told(agent.waiting(21))
    assert isinstance(more, Ask) and more.n == 21 and more.number == 1


def test_short_tasks_are_sent_ahead_and_long_ones_are_not() -> None:
    agent = Driven().up(2)
    agent.waiting(5000)
    sent = sum(a.n for a in agent.hears(grant(1, (50, 2, 2))) if isinstance(a, Send))
    assert sent == 2
    for _ in range(50):
        agent.now += 0.001
        sent += sum(a.n for a in agent(Ended(50, 2)) if isinstance(a, Send))
    ahead = agent.core.leases.held[50].in_flight
    assert 10 < ahead < 60  # about 20 ms of 2,000 tasks a second
    slow = Driven().up(2)
    slow.waiting(5000)
    slow.hears(grant(1, (50, 2, 2)))
    for _ in range(50):
        slow.now += 0.5
        slow.hears(Heard(1))
        slow(Ended(50, 1))
    assert slow.core.leases.held[50].in_flight == 2


def test_fewer_tasks_were_there_than_thought() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.hears(grant(1, (50, 2, 4)))
    agent(Sent(50, 4, 1))
    assert agent.core.leases.held[50].in_flight == 1


def test_leases_that_nobody_wants_any_more_go_back_at_once() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.waiting(0)
    assert Ask(1, 1, CPU, 0) in told(agent.passes(0.3))
    assert told(agent.hears(grant(1, (50, 2, 4)))) == [Return({50: 4})]


def test_nearer_nodes_are_sent_to_first() -> None:
    agent = Driven().up(2, 3)
    agent(Looked((row(2, near={3: 1 << 30}),)))
    assert agent.hears(grant(1, (50, 2, 1))) == [Send(50, 2, S, 1)]
    agent(Ended(50, 1))
    agent.hears(grant(1, (51, 3, 1)))
    agent(Ended(50, 1), Looked())
    assert agent(Looked((row(1, near={3: 1 << 30}),))) == [Send(51, 3, S, 1)]


def test_one_more_goes_under_each_lease_where_large_arguments_travel_along() -> None:
    agent = Driven().up(2)
    agent.waiting(10)
    assert agent.hears(grant(1, (50, 2, 2))) == [Send(50, 2, S, 2)]
    assert Send(50, 2, S, 2) in agent(Looked((row(8, brings_much=True),)))
    assert not sent_tasks(agent(Looked((row(6, brings_much=True),))))
    assert sent_tasks(agent(Ended(50, 1))) == [Send(50, 2, S, 1)]


def test_leases_called_back_are_returned_when_their_task_ends() -> None:
    agent = Driven().up(2)
    agent.waiting(100)
    agent.hears(grant(1, (50, 2, 4)))
    assert not told(agent.hears(Recall({50: 1})))
    agent.now += 1
    agent.hears(Heard(1))
    assert told(agent(Ended(50, 2), Tick())) == [Return({50: 2})]
    assert agent(Ended(50, 2)) == [Send(50, 2, S, 1)]
    assert told(agent(Tick())) == [Return({50: 1})]


def test_the_leases_on_a_lost_node_are_gone() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.hears(grant(1, (50, 2, 4)), Lost(2, "x"))
    assert not agent.core.leases.held and agent(Ended(50, 1)) == []


def test_a_node_out_of_reach_is_avoided_for_a_while() -> None:
    agent = Driven().up(2, 3)
    agent.waiting(8)
    agent.hears(grant(1, (50, 2, 4)))
    actions = told(agent(PeerFaulty(2, "no answer", False)))
    assert actions[0] == Return({50: 4}) and isinstance(actions[1], Ask) and actions[1].avoid == [2]
    assert told(agent.hears(grant(1, (51, 2, 1)))) == [Return({51: 1})]  # it had been on its way
    assert not told(agent.passes(holder.AVOID_S + 0.1)), "nothing can go there as long as it is cut off"
    agent(ResetSaid(2), ResetHeard(2, Reset("you were away")))
    [again] = [m for m in told(agent.passes(0.1)) if isinstance(m, Ask)]
    assert again.avoid == []


def test_nothing_is_sent_to_a_congested_peer() -> None:
    agent = Driven().up(2)
    agent(Congested(2, True))
    agent.waiting(4)
    assert not [a for a in agent.hears(grant(1, (50, 2, 4))) if isinstance(a, Send)]
    assert Send(50, 2, S, 4) in agent(Congested(2, False))


def test_one_node_is_never_sent_more_than_its_credit() -> None:
    agent = Driven().up(2)
    agent.waiting(100_000)
    agent.hears(grant(1, (50, 2, 3000), (51, 2, 3000)))
    assert sum(lease.in_flight for lease in agent.core.leases.held.values()) == holder.MAX_IN_FLIGHT


def test_tasks_that_wait_elsewhere_come_back_when_there_is_room() -> None:
    agent = Driven().up(2)
    agent.waiting(2)
    agent.hears(grant(1, (50, 2, 2)))
    agent(Looked((), FREE))
    assert not [a for a in agent(Waits(50, 2)) if isinstance(a, TakeBack)]
    taken = [a for a in agent.passes(1.0) if isinstance(a, TakeBack)]
    assert taken == [TakeBack(50, 2, S, 2)]


def test_a_lease_of_what_is_to_be_spread_is_not_used_by_what_comes_later() -> None:
    agent = Driven().up(2)
    spread = row(1, demand={}, wish=Wish("spread"))
    agent(Looked((spread,), FREE))
    assert agent.hears(grant(1, (50, 2, 1))) == [Send(50, 2, S, 1)]
    actions = agent(Ended(50, 1), Looked((spread,), FREE))
    assert not sent_tasks(actions) and [m for m in told(actions) if not isinstance(m, Report)] == [
        Ask(2, 1, {}, 1, Strategy("spread")),
        Return({50: 1}),
    ]
    agent.hears(grant(2, (51, 2, 1)))
    assert sent_tasks(agent(Looked((row(2, demand={}, wish=Wish("spread")),), FREE), Ended(51, 1))) == [
        Send(51, 2, S, 1)
    ], "what waits"


def test_leases_go_back_sooner_while_others_wait() -> None:
    agent = Driven().up(2)
    agent.waiting(1)
    agent.hears(Heard(1, wanted=True), grant(1, (50, 2, 1)))
    agent.now += 0.05
    agent(Ended(50, 1), Looked((), FREE))
    agent.now += holder.WANTED_LINGER_S
    assert Return({50: 1}) in told(agent(Tick()))


def test_room_that_somebody_waits_for_is_reported_at_once() -> None:
    agent = Driven().up(2)
    agent.now += 0.1
    assert not agent(Looked((), FREE))
    told_at_once = [a.message for a in agent.hears(Heard(1, wanted=True)) if isinstance(a, Tell)]
    assert [m.free for m in told_at_once if isinstance(m, Report)] == [FREE]
    assert not agent(Looked((), {"CPU": 50_000}))  # not again so soon


def test_who_asks_for_what_may_stay_says_first_how_it_is_at_home() -> None:
    agent = Driven().up(2)
    agent.now += 0.1
    spread = row(1, wish=Wish("spread"))
    first, second = (a.message for a in agent(Looked((spread,), n_running=4)) if isinstance(a, Tell))
    assert isinstance(first, Report) and (first.free, first.n_running) == ({}, 4) and isinstance(second, Ask)
    agent.now += 0.1
    actions = agent(Looked((spread, row(1, 2)), FREE))
    assert [type(a.message) for a in actions if isinstance(a, Tell)] == [Ask], (
        "what does not care where it runs has looked at home itself"
    )


def test_what_can_run_nowhere_is_passed_on() -> None:
    agent = Driven().up(2)
    agent.waiting(1)
    assert agent.hears(Infeasible(1, "no")) == [Warn(S, "no")]


def test_groups_are_asked_for_placed_and_given_back() -> None:
    agent = Driven().up(2)
    assert told(agent(WantGroup("g", (CPU, CPU), "SPREAD"))) == [AskGroup(1, 1, [CPU, CPU], "SPREAD")]
    leases_of = (GrantedLease(50, 1, 1), GrantedLease(51, 2, 1))
    assert agent.hears(Grant(1, list(leases_of))) == [GroupPlaced("g", leases_of)]
    agent.passes(1.0)
    assert agent.core.leases.held.keys() == {50, 51}
    assert told(agent(WantGroup("g", ()))) == [Return({50: 1, 51: 1})]
    agent(WantGroup("h", (CPU,)))
    assert told(agent(WantGroup("h", ()))) == [AskGroup(2, 1, [])]


def test_a_request_is_answered_once_and_repeated_until_it_is() -> None:
    agent = Driven().up()
    request = StoreRequest(9, 1, "names", "claim", "a")
    assert agent(Request(request)) == [Tell(request)]
    reply = StoreReply(9, True)
    assert agent.hears(reply, reply) == [Pass(reply)]


def test_leases_returned_while_nobody_listens_are_told_when_somebody_does() -> None:
    agent = Driven().up(2)
    agent.waiting(1)
    agent.hears(grant(1, (50, 2, 1)))
    agent(Ended(50, 1), Looked((), FREE))
    agent(Disconnected(1))
    agent.now += 0.05
    agent(Tick())
    agent.now += 0.1
    agent(Tick())
    assert told(agent(Connected(2))) == [Register(who(1), 2, 1, [Held(50, 2, CPU, 1)])]
    agent.now += 0.2
    assert not told(agent(Tick())) and not agent.core.leases.held
    assert Return({50: 1}) in told(agent.registered(2))


# ---------------------------------------------------------------- shares of one's own shapes
def flooded(demand: dict[str, int] | None = None) -> Driven:
    """A lease for four on node 2 is held for one shape, of which there is always more."""
    agent = Driven().up(2, 3)
    agent(Looked((row(50, demand=demand or CPU),)))
    agent.hears(grant(1, (1, 2, 4)))
    return agent


def kept(agent: Driven) -> int:
    return agent.core.leases.held[1].keep


def beside(agent: Driven, want: Waiting, seconds: float) -> list[Action]:
    """Another shape waits beside the flood for so long."""
    actions = agent(Looked((row(50), want)))
    return actions + agent.passes(seconds)


def test_a_shape_that_waits_in_vain_gets_leases_of_another_one_of_the_same_node() -> None:
    agent = flooded()
    beside(agent, row(10, 2), 0.3)
    assert kept(agent) == 4, "what comes back by itself comes earlier"
    agent.passes(0.3)
    assert kept(agent) == 2, "an equal share"
    flight = agent.core.leases.held[1].in_flight
    back = agent(Ended(1, flight)) + agent.passes(0.05)
    assert Return({1: 2}) in told(back) and sum(send.n for send in sent_tasks(back) if isinstance(send, Send)) <= flight
    number = agent.core.leases.lines[LATE].number
    assert {send.shape for send in sent_tasks(agent.hears(grant(number, (2, 2, 2)))) if isinstance(send, Send)} == {
        LATE
    }
    agent.passes(2.0)
    assert kept(agent) == 2, "and no more than that"


def test_a_few_that_wait_get_what_they_want() -> None:
    agent = flooded()
    beside(agent, row(1, 2), 0.6)
    assert kept(agent) == 3


def test_nothing_is_called_back_for_what_would_not_run_there() -> None:
    for want in (
        row(5, 2, CPU | {"GPU": 10_000}),
        row(5, 2, wish=Wish("node", "host3")),
        row(5, 2, wish=Wish(labels={"zone": "in(a)"})),
    ):
        agent = flooded()
        beside(agent, want, 2.0)
        assert kept(agent) == 4, want
    agent = flooded()
    beside(agent, row(5, 2), 0.2)
    agent.hears(Infeasible(agent.core.leases.lines[LATE].number, "no machine is so large"))
    agent.passes(2.0)
    assert kept(agent) == 4


def test_a_group_that_was_asked_for_again_is_not_left_with_the_head() -> None:
    agent = Driven().up(2, 3)
    first = told(agent(WantGroup("g", (CPU, CPU), "PACK")))
    assert first == [AskGroup(1, 1, [CPU, CPU], "PACK", [])]
    again = told(agent(PeerFaulty(3, "no answer", False)))
    assert again == [AskGroup(1, 1, [CPU, CPU], "PACK", [3])], "the grant of the first may be on its way already"
    actions = agent.hears(grant(1, (7, 2, 2)))
    assert AskGroup(1, 1, []) in told(actions)


def test_a_rate_at_home_that_is_old_keeps_nothing_back() -> None:
    agent = Driven().up(2)
    for n in (0, 200, 400):
        agent.now += 0.1
        agent(Looked(n_ended=n))
    assert not told(agent(Looked((row(5),), n_ended=400))), "home will have begun them soon"
    agent.now += 3.0
    assert [type(message) for message in told(agent(Tick()))][-1:] == [Ask]


# ---------------------------------------------------------------- what waits at home
def asks(actions: list[Action]) -> list[Ask]:
    return [message for message in told(actions) if isinstance(message, Ask) and message.n]


def test_what_finds_no_room_at_home_leaves_after_a_moment_and_what_could_never_run_there_at_once() -> None:
    agent = Driven().up(2)
    assert not asks(agent(Looked((row(3, fits=True),)))), "a worker may take them within microseconds"
    assert core.next_look(agent.core) == agent.now + home_queue.SETTLE_S
    agent.now = core.next_look(agent.core)
    [ask] = asks(agent(Looked((row(3, fits=True),))))
    assert ask.n == 3
    assert core.next_look(agent.core) == agent.now + home_queue.LOOK_S
    assert [ask.n for ask in asks(agent(Looked((row(3, fits=True), row(1, 2)))))] == [1]
    agent(Looked())
    agent.now += 10
    assert not asks(agent(Looked((row(3, 3, fits=True),)))), "each class has its own time"


def test_what_begins_at_home_is_not_asked_for() -> None:
    agent = Driven().up(2)
    [ask] = asks(agent(Looked((row(5, n_startable=2),))))
    assert ask.n == 3
    agent.passes(1.0)
    agent(Looked((row(1, 2, n_startable=3),)))
    assert agent.core.load.n_queued == 0, "tasks that cannot travel are among those that can start"


def test_tasks_that_ask_are_told_where_once_the_head_has_told_who_is_there() -> None:
    agent = Driven()
    agent(Tick(), Connected(1))
    assert agent(Looked((row(1, wish=Wish("node", "host2")),))) == []
    assert Direct(True) in agent.registered(2)
    [ask] = asks(agent(Looked((row(1, wish=Wish("node", "host2")),))))
    assert ask.strategy == Strategy("node", node=2)
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    assert Direct(True) not in agent.registered(2), "they still are"


def test_a_task_for_this_very_node_begins_here_and_one_for_a_node_that_is_not_there_fails() -> None:
    agent = Driven().up(2)
    assert PlaceHere(1, 4, False) in agent(Looked((row(4, wish=Wish("node", "host1"), fits=True),)))
    [ask] = asks(agent(Looked((row(4, 2, wish=Wish("node", "host1")),))))
    assert Warn((2, 1), "too large") in agent.hears(Infeasible(ask.number, "too large")), "nobody else would say why"
    assert FailUnrouted(1, False) in agent(Looked((row(4, wish=Wish("node", "nowhere")),)))
    assert [a.strategy for a in asks(agent(Looked((row(4, 3, wish=Wish("node", "nowhere", soft=True)),))))] == [
        Strategy("node", soft=True)
    ]
    assert FailUnrouted(1, False) in agent(Looked((Waiting(1, CPU, 1, asks=True, wish="{"),)))


def test_tasks_that_cannot_travel_begin_here_if_they_may() -> None:
    agent = Driven().up(2)
    assert PlaceHere(1, 2, True) in agent(Looked((row(0, wish=Wish("spread"), n_staying=2),)))
    assert FailUnrouted(1, True) in agent(Looked((row(0, wish=Wish("node", "host2"), n_staying=2),)))
    assert FailUnrouted(1, True) in agent(Looked((row(0, wish=Wish(labels={"zone": "a"}), n_staying=2),)))


def test_tasks_of_a_placement_group_go_to_its_bundles() -> None:
    agent = Driven().up(2)
    assert agent(Looked((row(4, in_group=True),))) == [SendToBundles(1, 4)]


def test_tasks_that_have_ended_elsewhere_are_not_counted_as_ended_at_home() -> None:
    agent = Driven().up(2)
    agent.waiting(9)
    agent.hears(grant(1, (50, 2, 1), (51, 1, 1)))
    agent.now += 1
    agent(Ended(50, 1), Ended(51, 1, is_elsewhere=False), Looked(n_ended=2))
    assert agent.core.home.n_elsewhere == 1 and agent.core.leases.n_ended == 1


# ---------------------------------------------------------------- who can be reached
FAULT = PeerFaulty(2, "it says what it cannot know", True)


def cut_off(actions: list[Action]) -> list[int]:
    return [action.node for action in actions if isinstance(action, EndPeer)]


def test_whose_processes_have_ended_is_given_up_after_a_moment() -> None:
    agent = Driven().up(2)
    agent(PeerDown(2, "broken"))
    assert Probe(2, who(2).endpoint) in agent(Tick())
    assert not cut_off(agent(PeerProbed(2, False))), "a process that lives may just connect again"
    probes = [a for a in agent.passes(1.1) if isinstance(a, Probe)]
    assert len(probes) == 2, "again and again"
    assert not cut_off(agent(PeerProbed(2, True)))
    assert cut_off(agent(PeerProbed(2, False))) == [2]
    assert not cut_off(agent(PeerProbed(2, False))) and not cut_off(agent.passes(20)), "once"


def test_who_does_not_answer_at_all_is_given_up_later_than_the_head_would() -> None:
    agent = Driven().up(2)  # a head that waits for 10 s, of which the connection took 2 to break
    agent(PeerDown(2, "broken"), PeerDown(2, "no connection can be made"))
    assert not cut_off(agent.passes(8.9)) and cut_off(agent.passes(0.2)) == [2]


def test_who_can_be_reached_again_is_kept() -> None:
    agent = Driven().up(2)
    agent(PeerDown(2, "broken"))
    agent.passes(5)
    agent(PeerUp(2))
    assert not cut_off(agent(PeerProbed(2, False))) and not cut_off(agent.passes(20))
    assert not [a for a in agent.passes(1) if isinstance(a, Probe)]


def test_who_is_given_up_is_told_until_it_hears_and_used_again_when_it_has_answered() -> None:
    agent = Driven().up(2)
    reset = Reset("does not read")
    actions = agent(PeerFaulty(2, reset.reason, False))
    assert cut_off(actions) == [2] and SayReset(2, reset) in actions and agent.core.reach.is_cut(2)
    assert [a for a in agent.passes(0.5) if isinstance(a, SayReset)] == 2 * [SayReset(2, reset)], "it found no room"
    agent(ResetSaid(2))
    assert not [a for a in agent.passes(1) if isinstance(a, SayReset)]
    assert not cut_off(agent(FAULT)), "nothing more can be wrong with it"
    assert agent.core.reach.is_cut(2)
    agent(ResetHeard(2, Reset("you said so")))
    assert not agent.core.reach.is_cut(2)


def test_of_two_that_are_given_up_at_once_each_is_told_once() -> None:
    """Or the second word would be answered, and the answer, and so on for ever."""
    agent = Driven().up(2, 3)
    agent(PeerDown(2, "broken"), PeerDown(3, "broken"))
    assert [a.node for a in agent.passes(9.05) if isinstance(a, SayReset)] == [2, 3]


def test_who_hears_that_it_is_given_up_answers_in_kind() -> None:
    agent = Driven().up(2)
    actions = agent(ResetHeard(2, Reset("does not read")))
    assert cut_off(actions) == [2] and SayReset(2, Reset("it says: does not read")) in actions
    assert agent.core.reach.is_cut(2)
    assert Say("node 2 can be used again") in agent(ResetSaid(2)) and not agent.core.reach.is_cut(2)


def test_who_has_said_what_cannot_be_is_given_up_for_good() -> None:
    agent = Driven().up(2)
    agent(FAULT, ResetSaid(2), ResetHeard(2, Reset("you said so")))
    agent.passes(10)
    assert agent.core.reach.is_cut(2)
    agent.waiting(1)
    [ask] = asks(agent.passes(0.1)) or asks(agent.waiting(1)) or [agent.core.leases.lines[S]]
    assert list(ask.avoid) == [2], "and the head is asked for no lease there"
    agent.hears(Lost(2, "x"))
    assert not agent.core.reach.is_cut(2)


def test_who_sends_tasks_back_gets_none_for_a_moment() -> None:
    agent = Driven().up(2)
    agent(SentBack(2))
    agent.waiting(4)
    assert not sent_tasks(agent.hears(grant(1, (50, 2, 4))))
    agent(Congested(2, True), Congested(2, False))
    assert not sent_tasks(agent(Tick())), "that it reads does not say that it has room"
    agent.passes(0.25)
    number = agent.core.leases.lines[S].number
    assert sent_tasks(agent.hears(grant(number, (51, 2, 4)))) == [Send(51, 2, S, 4)]


def test_a_lost_node_is_forgotten_whatever_was_the_matter_with_it() -> None:
    agent = Driven().up(2)
    agent(PeerDown(2, "broken"), SentBack(2), Congested(2, True))
    agent.hears(Lost(2, "x"))
    assert not cut_off(agent.passes(20)) and not agent.core.leases.congested and not agent.core.reach.choked
    assert agent(PeerDown(2, "broken")) == [] and agent(SentBack(2)) == []
