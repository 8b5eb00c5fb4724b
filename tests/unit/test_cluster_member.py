"""The agent's decisions: events in, actions out."""
from __future__ import annotations

from cellmesh.scheduler.cluster import member as core
from cellmesh.scheduler.cluster import places
from cellmesh.scheduler.cluster.member import (BeginDrain, Congested, Connect, Connected, Disconnected, Drained, Ended,
                                               HeadBack, HeadGone, Looked, MemberCame, MemberLost, Pass, PeerFailed,
                                               Request, Sent, Settings, Stop, Tick, HeadSaid, Waits, WantGroup)
from cellmesh.scheduler.cluster.messages import (Ask, AskGroup, Came, Drain, End, FromHead, Grant, Heard, Held,
                                                 Infeasible, Leave, Lost, Member, Place, Recall, Refused, Register,
                                                 RegisterFirst, Registered, Report, Return, StoreReply, StoreRequest, Strategy,
                                                 ToHead)
from cellmesh.scheduler.cluster.places import GroupPlaced, Send, TakeBack, Tell, Demand, Warn

CPU = {"CPU": 10_000}
FREE = {"CPU": 40_000}


def who(node: int) -> Member:
    return Member(node, f"tcp://10.0.0.{node}:1", bytes([node]) * 32, f"host{node}", FREE)


class Driven:
    """An agent, node 1, with a clock and the checks after every step."""

    def __init__(self, **settings: object) -> None:
        self.member = core.start(who(1), 100.0, Settings(**settings))  # type: ignore[arg-type]
        self.now = 100.0

    def __call__(self, *events: core.Event) -> list[core.Action]:
        actions: list[core.Action] = []
        for event in events:
            actions += core.step(self.member, event, self.now)
            core.check(self.member)
        return actions

    def hears(self, *messages: FromHead) -> list[core.Action]:
        return self(*(HeadSaid(self.member.attempt, message) for message in messages))

    def registered(self, *nodes: int, epoch: int = 1) -> list[core.Action]:
        return self.hears(Registered("c", epoch, [who(n) for n in (1, *nodes)], 1.0, 10.0))

    def up(self, *nodes: int) -> Driven:
        self(Tick(), Connected(1))
        self.registered(*nodes)
        return self

    def waiting(self, n: int, free: dict[str, int] | None = None, shape: str = "s") -> list[core.Action]:
        wants = (Demand(shape, CPU, n),) if n else ()
        return self(Looked(wants, free or {}, n_queued=n))

    def passes(self, seconds: float, hears: bool = True) -> list[core.Action]:
        actions: list[core.Action] = []
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            if hears and self.member.link == "up":
                actions += self.hears(Heard(1, self.member.places.is_wanted))
            actions += self(Tick())
        return actions


def sent_tasks(actions: list[core.Action]) -> list[core.Action]:
    return [action for action in actions if isinstance(action, Send)]


def told(actions: list[core.Action]) -> list[ToHead]:
    return [a.message for a in actions if isinstance(a, Tell) and not isinstance(a.message, Report)]


def grant(number: int, *held: tuple[int, int, int]) -> Grant:
    return Grant(number, [Place(lease, node, n) for lease, node, n in held])


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
    assert times[0] <= 0.15 and times == sorted(times) and 0.5 <= times[-1] <= 0.6


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
    assert [type(m) for m in again] == [Ask, StoreRequest] and again[0].number != ask.number  # type: ignore[union-attr]


def test_what_is_said_on_an_earlier_connection_is_not_heard() -> None:
    agent = Driven().up(2)
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    assert agent(HeadSaid(1, Lost(2, "x")), HeadSaid(1, End("x"))) == []
    assert agent(Disconnected(1)) == [] and agent.member.link == "registering"


def test_a_head_of_an_earlier_life_is_not_obeyed() -> None:
    agent = Driven()
    agent(Tick(), Connected(1))
    agent.registered(epoch=3)
    agent(Disconnected(1))
    agent.now += 0.2
    agent(Tick(), Connected(2))
    agent.registered(epoch=2)
    assert agent.member.link == "down" and agent.member.epoch == 3


def test_a_head_that_hears_and_does_not_answer_is_left() -> None:
    agent = Driven().up()
    assert not [a for a in agent.passes(4.9, hears=False) if isinstance(a, Connect)]
    assert [a for a in agent.passes(0.4, hears=False) if isinstance(a, Connect)] == [Connect(2)]


def test_a_head_that_speaks_and_does_not_hear_is_left() -> None:
    """What it says to everybody is no answer: after as long as it takes to notice twice, it would call this node dead."""
    agent = Driven().up()
    actions: list[core.Action] = []
    for node in range(10, 64):
        actions += [*agent.passes(0.1, hears=False), *(agent.hears(Came(who(node))) if agent.member.link == "up" else ())]
    assert [a for a in actions if isinstance(a, Connect)] == [Connect(2)]


def test_the_own_pause_is_nobodys_silence() -> None:
    agent = Driven().up()
    agent.now += 30
    actions = agent(Tick())
    assert agent.member.link == "up" and any(isinstance(a, Tell) and isinstance(a.message, Report) for a in actions)


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
    [stop] = agent(Drained())
    assert isinstance(stop, Stop) and stop.kind == "head_gone" and agent(Tick()) == []


def test_a_node_with_a_driver_lives_on_and_notices_when_the_head_is_back() -> None:
    agent = Driven(has_driver=True).up()
    agent(Disconnected(1))
    assert [type(a) for a in agent.passes(70) if not isinstance(a, Connect)] == [HeadGone]
    agent(Connected(agent.member.attempt))
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
    assert agent(Drained()) == [Tell(Leave(1)), Stop("left", "it was told to drain")]


# ---- places
def test_a_flood_asks_once_sends_to_every_place_and_returns_what_is_left() -> None:
    agent = Driven().up(2)
    [ask] = told(agent.waiting(5))
    assert isinstance(ask, Ask) and ask.n == 5 and not told(agent.waiting(5))
    assert agent.hears(grant(ask.number, (50, 2, 4))) == [Send(50, 2, "s", 4)]
    agent.now += 1
    assert Send(50, 2, "s", 1) in agent(Ended(50, 1))
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
    ahead = agent.member.places.leases[50].in_flight
    assert 10 < ahead < 60  # about 20 ms of 2,000 tasks a second
    slow = Driven().up(2)
    slow.waiting(5000)
    slow.hears(grant(1, (50, 2, 2)))
    for _ in range(50):
        slow.now += 0.5
        slow.hears(Heard(1))
        slow(Ended(50, 1))
    assert slow.member.places.leases[50].in_flight == 2


def test_fewer_tasks_were_there_than_thought() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.hears(grant(1, (50, 2, 4)))
    agent(Sent(50, 4, 1))
    assert agent.member.places.leases[50].in_flight == 1


def test_places_that_nobody_wants_any_more_go_back_at_once() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.waiting(0)
    assert Ask(1, 1, CPU, 0) in told(agent.passes(0.3))
    assert told(agent.hears(grant(1, (50, 2, 4)))) == [Return({50: 4})]


def test_nearer_nodes_are_sent_to_first() -> None:
    agent = Driven().up(2, 3)
    agent(Looked((Demand("s", CPU, 2, near={3: 1 << 30}),), {}))
    assert agent.hears(grant(1, (50, 2, 1))) == [Send(50, 2, "s", 1)]
    agent(Ended(50, 1))
    agent.hears(grant(1, (51, 3, 1)))
    agent(Ended(50, 1), Looked((), {}))
    assert agent(Looked((Demand("s", CPU, 1, near={3: 1 << 30}),), {})) == [Send(51, 3, "s", 1)]


def test_one_more_goes_to_each_place_where_large_arguments_travel_along() -> None:
    agent = Driven().up(2)
    agent.waiting(10)
    assert agent.hears(grant(1, (50, 2, 2))) == [Send(50, 2, "s", 2)]
    assert Send(50, 2, "s", 2) in agent(Looked((Demand("s", CPU, 8, brings_much=True),), {}))
    assert not sent_tasks(agent(Looked((Demand("s", CPU, 6, brings_much=True),), {})))
    assert sent_tasks(agent(Ended(50, 1))) == [Send(50, 2, "s", 1)]


def test_places_called_back_are_returned_when_their_task_ends() -> None:
    agent = Driven().up(2)
    agent.waiting(100)
    agent.hears(grant(1, (50, 2, 4)))
    assert not told(agent.hears(Recall({50: 1})))
    agent.now += 1
    agent.hears(Heard(1))
    assert told(agent(Ended(50, 2), Tick())) == [Return({50: 2})]
    assert agent(Ended(50, 2)) == [Send(50, 2, "s", 1)]
    assert told(agent(Tick())) == [Return({50: 1})]


def test_the_places_on_a_lost_node_are_gone() -> None:
    agent = Driven().up(2)
    agent.waiting(4)
    agent.hears(grant(1, (50, 2, 4)), Lost(2, "x"))
    assert not agent.member.places.leases and agent(Ended(50, 1)) == []


def test_a_node_out_of_reach_is_avoided_for_a_while() -> None:
    agent = Driven().up(2, 3)
    agent.waiting(8)
    agent.hears(grant(1, (50, 2, 4)))
    actions = told(agent(PeerFailed(2)))
    assert actions[0] == Return({50: 4}) and isinstance(actions[1], Ask) and actions[1].avoid == [2]
    assert told(agent.hears(grant(1, (51, 2, 1)))) == [Return({51: 1})]  # it had been on its way
    later = [m for m in told(agent.passes(places.AVOID_S + 0.1)) if isinstance(m, Ask)]
    assert later[-1].avoid == []


def test_nothing_is_sent_to_a_congested_peer() -> None:
    agent = Driven().up(2)
    agent(Congested(2, True))
    agent.waiting(4)
    assert not [a for a in agent.hears(grant(1, (50, 2, 4))) if isinstance(a, Send)]
    assert Send(50, 2, "s", 4) in agent(Congested(2, False))


def test_one_node_is_never_sent_more_than_its_credit() -> None:
    agent = Driven().up(2)
    agent.waiting(100_000)
    agent.hears(grant(1, (50, 2, 3000), (51, 2, 3000)))
    assert sum(lease.in_flight for lease in agent.member.places.leases.values()) == places.MAX_IN_FLIGHT


def test_tasks_that_wait_elsewhere_come_back_when_there_is_room() -> None:
    agent = Driven().up(2)
    agent.waiting(2)
    agent.hears(grant(1, (50, 2, 2)))
    agent(Looked((), FREE))
    assert not [a for a in agent(Waits(50, 2)) if isinstance(a, TakeBack)]
    taken = [a for a in agent.passes(1.0) if isinstance(a, TakeBack)]
    assert taken == [TakeBack(50, 2, "s", 2)]


def test_places_go_back_sooner_while_others_wait() -> None:
    agent = Driven().up(2)
    agent.waiting(1)
    agent.hears(Heard(1, wanted=True), grant(1, (50, 2, 1)))
    agent.now += 0.05
    agent(Ended(50, 1), Looked((), FREE))
    agent.now += places.WANTED_LINGER_S
    assert Return({50: 1}) in told(agent(Tick()))


def test_room_that_somebody_waits_for_is_reported_at_once() -> None:
    agent = Driven().up(2)
    agent.now += 0.1
    assert not agent(Looked((), FREE))
    told_at_once = [a.message for a in agent.hears(Heard(1, wanted=True)) if isinstance(a, Tell)]
    assert [m.free for m in told_at_once if isinstance(m, Report)] == [FREE]
    assert not agent(Looked((), {"CPU": 50_000}))  # not again so soon


def test_what_can_run_nowhere_is_passed_on() -> None:
    agent = Driven().up(2)
    agent.waiting(1)
    assert agent.hears(Infeasible(1, "no")) == [Warn("s", "no")]


def test_groups_are_asked_for_placed_and_given_back() -> None:
    agent = Driven().up(2)
    assert told(agent(WantGroup("g", (CPU, CPU), "SPREAD"))) == [AskGroup(1, 1, [CPU, CPU], "SPREAD")]
    places_of = (Place(50, 1, 1), Place(51, 2, 1))
    assert agent.hears(Grant(1, list(places_of))) == [GroupPlaced("g", places_of)]
    agent.passes(1.0)
    assert agent.member.places.leases.keys() == {50, 51}
    assert told(agent(WantGroup("g", ()))) == [Return({50: 1, 51: 1})]
    agent(WantGroup("h", (CPU,)))
    assert told(agent(WantGroup("h", ()))) == [AskGroup(2, 1, [])]


def test_a_request_is_answered_once_and_repeated_until_it_is() -> None:
    agent = Driven().up()
    request = StoreRequest(9, 1, "names", "claim", "a")
    assert agent(Request(request)) == [Tell(request)]
    reply = StoreReply(9, True)
    assert agent.hears(reply, reply) == [Pass(reply)]


def test_places_returned_while_nobody_listens_are_told_when_somebody_does() -> None:
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
    assert not told(agent(Tick())) and not agent.member.places.leases
    assert Return({50: 1}) in told(agent.registered(2))


# ---------------------------------------------------------------- shares of one's own shapes
def flooded(demand: dict[str, int] | None = None) -> Driven:
    """Four places on node 2 are held for one shape, of which there is always more."""
    agent = Driven().up(2)
    agent(Looked((Demand("flood", demand or CPU, 50),), {}, n_queued=50))
    agent.hears(grant(1, (1, 2, 4)))
    return agent


def kept(agent: Driven) -> int:
    return agent.member.places.leases[1].keep


def beside(agent: Driven, want: Demand, seconds: float) -> list[core.Action]:
    """Another shape waits beside the flood for so long."""
    actions = agent(Looked((Demand("flood", CPU, 50), want), {}, n_queued=60))
    return actions + agent.passes(seconds)


def test_a_shape_that_waits_in_vain_gets_places_of_another_one_of_the_same_node() -> None:
    agent = flooded()
    beside(agent, Demand("late", CPU, 10), 0.3)
    assert kept(agent) == 4, "what comes back by itself comes earlier"
    agent.passes(0.3)
    assert kept(agent) == 2, "an equal share"
    flight = agent.member.places.leases[1].in_flight
    back = agent(Ended(1, flight)) + agent.passes(0.05)
    assert Return({1: 2}) in told(back) and sum(send.n for send in sent_tasks(back) if isinstance(send, Send)) <= flight
    number = agent.member.places.lines["late"].number
    assert {send.shape for send in sent_tasks(agent.hears(grant(number, (2, 2, 2)))) if isinstance(send, Send)} == {"late"}
    agent.passes(2.0)
    assert kept(agent) == 2, "and no more than that"


def test_a_few_that_wait_get_what_they_want() -> None:
    agent = flooded()
    beside(agent, Demand("late", CPU, 1), 0.6)
    assert kept(agent) == 3


def test_nothing_is_called_back_for_what_would_not_run_there() -> None:
    for want in (Demand("late", CPU | {"GPU": 10_000}, 5), Demand("late", CPU, 5, Strategy("node", 3)), Demand("late", CPU, 5, Strategy(labels={"zone": "in(a)"}))):
        agent = flooded()
        beside(agent, want, 2.0)
        assert kept(agent) == 4, want
    agent = flooded()
    beside(agent, Demand("late", CPU, 5), 0.2)
    agent.hears(Infeasible(agent.member.places.lines["late"].number, "no machine is so large"))
    agent.passes(2.0)
    assert kept(agent) == 4


def test_a_group_that_was_asked_for_again_is_not_left_with_the_head() -> None:
    agent = Driven().up(2, 3)
    first = told(agent(WantGroup("g", (CPU, CPU), "PACK")))
    assert first == [AskGroup(1, 1, [CPU, CPU], "PACK", [])]
    again = told(agent(PeerFailed(3)))
    assert again == [AskGroup(1, 1, [CPU, CPU], "PACK", [3])], "the grant of the first may be on its way already"
    actions = agent.hears(grant(1, (7, 2, 2)))
    assert AskGroup(1, 1, []) in told(actions)


def test_a_rate_at_home_that_is_old_keeps_nothing_back() -> None:
    agent = Driven().up(2)
    for n in (0, 200, 400):
        agent.now += 0.1
        agent(Looked((), {}, n_ended=n))
    assert not told(agent(Looked((Demand("s", CPU, 5),), {}, n_queued=5, n_ended=400))), "home will have begun them soon"
    agent.now += 3.0
    assert [type(message) for message in told(agent(Tick()))][-1:] == [Ask]
