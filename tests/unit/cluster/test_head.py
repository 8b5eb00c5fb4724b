"""The global scheduler's logic: events in, actions out."""

from __future__ import annotations

import pytest
from cellmesh.scheduler.cluster.head import core
from cellmesh.scheduler.cluster.head.core import (
    Closed,
    Evict,
    Head,
    Perform,
    Received,
    Remember,
    Send,
    Settings,
    Stop,
    Tick,
)
from cellmesh.scheduler.cluster.messages import (
    CLUSTER_VERSION,
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
    Return,
    Status,
    StatusRequest,
    StoreRequest,
    Strategy,
    ToHead,
)
from msgspec.structs import replace

CPU = {"CPU": 10_000}


def who(node: int, cpus: int = 4, **labels: str) -> Member:
    return Member(node, f"tcp://10.0.0.{node}:1", bytes([node]) * 32, f"host{node}", {"CPU": cpus * 10_000}, labels)


class Driven:
    """A head with a clock and the checks after every step; connection n is node n's."""

    def __init__(self, head: Head | None = None) -> None:
        self.head = head or core.start("c", 1, 100.0)
        self.now = self.head.stepped
        self.numbers: dict[int, int] = {}

    def __call__(self, *events: core.Event) -> list[core.Action]:
        actions: list[core.Action] = []
        for event in events:
            actions += core.step(self.head, event, self.now)
            core.check(self.head)
        return actions

    def hears(self, node: int, *messages: ToHead) -> list[core.Action]:
        return self(*(Received(node, bytes([node]) * 32, message) for message in messages))

    def register(
        self, node: int, cpus: int = 4, *, epoch: int = 0, held: tuple[Held, ...] = (), **labels: str
    ) -> list[core.Action]:
        self.numbers[node] = self.numbers.get(node, 0) + 1
        return self.hears(node, Register(who(node, cpus, **labels), self.numbers[node], epoch, list(held)))

    def report(self, node: int, free: float, lent: float = 0) -> list[core.Action]:
        return self.hears(node, Report(node, 1, {"CPU": int(free * 10_000)}, {"CPU": int(lent * 10_000)}))

    def with_nodes(self, *cpus: int) -> Driven:
        for i, n in enumerate(cpus):
            self.register(i + 1, n)
            self.report(i + 1, n)
        return self

    def passes(self, seconds: float, *alive: int) -> list[core.Action]:
        """Time, in ticks, while some nodes go on reporting."""
        actions: list[core.Action] = []
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            for node in alive:
                account = self.head.ledger.accounts[node]
                actions += self.hears(node, Report(node, 1, account.free, account.lent))
            actions += self(Tick())
        return actions


def said(actions: list[core.Action], to: int) -> list[FromHead]:
    return [a.message for a in actions if isinstance(a, Send) and to in a.to and not isinstance(a.message, Heard)]


def granted(actions: list[core.Action], to: int) -> list[tuple[int, int]]:
    return [(p.node, p.n) for m in said(actions, to) if isinstance(m, Grant) for p in m.leases]


def leases(actions: list[core.Action], to: int) -> list[GrantedLease]:
    return [p for m in said(actions, to) if isinstance(m, Grant) for p in m.leases]


# ---- members
def test_a_node_that_registers_is_remembered_before_it_is_told_and_the_others_hear_of_it() -> None:
    head = Driven()
    assert head.register(1)[0] == Remember(who(1), False, False)
    actions = head.register(2)
    assert [type(a) for a in actions[:2]] == [Remember, Send] and said(actions, 1) == [Came(who(2))]
    assert said(actions, 2) == [Registered("c", 1, [who(1), who(2)], 1.0, 5.0)]


def test_who_may_not_register_is_told_why() -> None:
    head = Driven().with_nodes(4)
    refused = said(head(Received("x", b"k" * 32, Register(who(2), 1))), "x")
    assert isinstance(refused[0], Refused) and "key" in refused[0].reason
    old = said(head.hears(2, Register(who(2), 1, version=CLUSTER_VERSION + 1)), 2)
    assert isinstance(old[0], Refused) and str(CLUSTER_VERSION + 1) in old[0].reason
    thief = replace(who(1), key=bytes([9]) * 32)
    stolen = said(head(Received(9, bytes([9]) * 32, Register(thief, 1))), 9)
    assert isinstance(stolen[0], Refused) and "another machine" in stolen[0].reason
    future = said(head.hears(2, Register(who(2), 1, epoch=7)), 2)
    assert isinstance(future[0], Refused) and "old copy" in future[0].reason
    assert head.head.nodes.keys() == {1}


def test_a_silent_node_is_declared_dead_once_and_its_number_refused_for_ever() -> None:
    head = Driven(core.start("c", 1, 100.0, Settings(dead_after_s=4.0))).with_nodes(
        4, 4
    )  # it says nothing, though its connection stands
    assert head.passes(8.5, 1) == [Send((1,), Heard(1, False, 4.8))] * 17
    actions = head.passes(0.5, 1)
    lost = Lost(2, "silent for 9 s")
    assert Evict(2, lost.reason) in actions and said(actions, 1) == said(actions, 2) == [lost]
    assert actions.index(Evict(2, "silent for 9 s")) < next(
        i for i, a in enumerate(actions) if isinstance(a, Send) and a.message == Lost(2, "silent for 9 s")
    )
    assert head.passes(5.0, 1) == [Send((1,), Heard(1, False, 4.8))] * 10
    assert said(head.register(2, epoch=1), 2) == [Lost(2, "silent for 9 s")]
    assert said(head.report(2, 4), 2) == [Lost(2, "silent for 9 s")]
    later = Driven(core.start("c", 2, 500.0, members=[(who(1), False)], dead={2: "silent for 9 s"}))
    assert said(later.register(2), 2) == [Lost(2, "silent for 9 s")]


def test_only_the_last_of_the_dead_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MOST_DEAD", 2)
    head = Driven().with_nodes(4, 4, 4, 4)
    for node in (2, 3, 4):
        head.hears(node, Leave(node))
    assert list(head.head.dead) == [3, 4]


def test_a_head_that_was_stopped_gives_everybody_the_whole_time_again() -> None:
    head = Driven().with_nodes(4, 4)
    head.now += 30.0
    assert not said(head(Tick()), 1)
    assert not said(head.passes(4.5, 1), 1)
    assert said(head.passes(1.0, 1), 1) == [Lost(2, "silent for 35 s")]


def test_a_node_that_is_known_to_no_store_and_says_that_it_was_registered_is_sent_away() -> None:
    assert isinstance(said(Driven(core.start("c", 5, 0.0)).register(1, epoch=4), 1)[0], Lost)


def test_actors_that_hold_nothing_are_spread_though_their_leases_come_back() -> None:
    head = Driven().with_nodes(1, 2, 4)
    chosen = []
    for number in range(1, 7):
        actions = head.hears(1, Ask(number, 1, {}, 1, Strategy("spread")))
        (lease,) = said(actions, 1)[0].leases
        chosen.append(lease.node)
        head.hears(1, Return({lease.lease: 1}))  # it lives, and needs no lease
    assert sorted(chosen) == [1, 2, 2, 3, 3, 3]
    for node, n in ((1, 0), (2, 0), (3, 3)):  # two have ended
        head.hears(node, Report(node, 2, {"CPU": 10_000}, n_running=n))
    assert [lease.node for lease in said(head.hears(1, Ask(9, 1, {}, 2, Strategy("spread"))), 1)[0].leases] == [2, 1]


def test_nodes_of_one_host_have_names_of_their_own_for_as_long_as_they_live() -> None:
    def join(head: Driven, node: int, number: int = 1, host: str = "elm") -> list[str]:
        actions = head.hears(node, Register(replace(who(node), hostname=host, name="oak"), number, number - 1))
        (registered,) = (m for m in said(actions, node) if isinstance(m, Registered))
        return [member.called for member in registered.members]

    head = Driven()
    assert join(head, 1) == ["elm"]
    assert join(head, 2) == ["elm", "elm-2"]
    assert join(head, 3, host="elm-3") == ["elm", "elm-2", "elm-3"]
    actions = head.hears(4, Register(replace(who(4), hostname="elm"), 1))
    assert said(actions, 1) == [Came(replace(who(4), hostname="elm", name="elm-4"))]
    assert next(a.member.called for a in actions if isinstance(a, Remember)) == "elm-4"
    head.hears(1, Leave(1))
    assert join(head, 4, 2) == ["elm-2", "elm-3", "elm-4"], "on a new connection, though a better name is free"
    assert join(head, 5) == ["elm-2", "elm-3", "elm-4", "elm"]
    later = Driven(core.start("c", 2, 500.0, members=[(node.member, False) for node in head.head.nodes.values()]))
    assert join(later, 4, 3) == ["elm-2", "elm-3", "elm-4", "elm"]


def test_what_needs_much_is_given_a_lease_where_others_take_every_small_room() -> None:
    head = Driven().with_nodes(1, 2)
    head.report(1, 0)
    flood = said(head.hears(1, Ask(1, 1, CPU, 99)), 1)[0].leases
    assert said(head.hears(1, Ask(2, 1, {"CPU": 20_000}, 3)), 1) == []
    given, large = [flood[0].lease], []
    for _ in range(3, 30):
        for _ in range(2):
            actions = head.hears(1, Return({given[-1]: 1}))  # and at once it is taken by the next
            given += [lease.lease for grant in said(actions, 1) if grant.number == 1 for lease in grant.leases]
        head.now += 0.3
        large += [
            lease
            for grant in said(head(Tick()), 1)
            if isinstance(grant, Grant) and grant.number == 2
            for lease in grant.leases
        ]
    assert [(lease.node, lease.n) for lease in large] == [(2, 1)], "one, until it comes back"
    actions = head.hears(1, Return({large[0].lease: 1}))
    for _ in range(6):
        head.hears(1, Return({given[-1]: 1}))
    assert head.head.ledger.asks[1, 2].n == 2


def test_what_actors_leave_no_room_for_gets_no_lease() -> None:
    head = Driven().with_nodes(1, 2)
    head.report(1, 0)
    head.hears(2, Report(2, 2, CPU, kept=CPU))
    given = [said(head.hears(1, Ask(1, 1, CPU, 99)), 1)[0].leases[0].lease]
    head.hears(1, Ask(2, 1, {"CPU": 20_000}, 1))
    for _ in range(20):
        given += [lease.lease for grant in said(head.hears(1, Return({given[-1]: 1})), 1) for lease in grant.leases]
        head.now += 0.3
        assert not [grant for grant in said(head(Tick()), 1) if isinstance(grant, Grant)]


def test_a_late_registration_of_an_earlier_connection_changes_nothing() -> None:
    head = Driven().with_nodes(4)
    head(Received("new", bytes([1]) * 32, Register(who(1), 5, 1)))
    assert head(Received("old", bytes([1]) * 32, Register(who(1), 4, 1))) == []
    assert head.head.nodes[1].connection == "new"
    assert said(head(Received("old", bytes([1]) * 32, Report(1, 9, CPU))), "old") == [RegisterFirst()]
    assert head(Closed("old")) == [] and head.head.nodes[1].connection == "new"


def test_a_connection_speaks_for_its_own_node_only() -> None:
    head = Driven().with_nodes(4, 4)
    answer = said(head(Received(1, bytes([1]) * 32, Leave(2))), 1)
    assert isinstance(answer[0], Refused) and 2 in head.head.nodes


def test_who_leaves_is_no_member_any_more() -> None:
    head = Driven().with_nodes(4, 4)
    actions = head.hears(2, Leave(2))
    assert Evict(2, "it has left") in actions and said(actions, 1) == [Lost(2, "it has left")]


def test_a_goodbye_counts_after_the_end_of_its_connection_and_nobody_says_it_for_another() -> None:
    head = Driven().with_nodes(4, 4)
    head(Closed(2))
    assert said(head(Received(2, bytes([1]) * 32, Leave(2))), 2) == [RegisterFirst()]
    assert said(head.hears(2, Leave(2)), 1) == [Lost(2, "it has left")]


# ---- leases
def test_leases_are_granted_at_once_late_and_never_twice() -> None:
    head = Driven().with_nodes(1, 4)
    first = head.hears(1, Ask(1, 1, CPU, 6))
    assert granted(first, 1) == [(2, 4)] and head.head.ledger.n_asked == 2
    assert head.report(2, 4) == [Send((2,), Heard(1, True, 6.0))]  # its tasks are on their way: that room is given away
    assert not granted(head.report(2, 0, lent=4), 1)  # and now they run
    assert granted(head.hears(1, Return({leases(first, 1)[0].lease: 1})), 1) == [(2, 1)]  # a late grant


def test_a_lease_is_free_again_when_it_is_returned_before_its_node_says_so() -> None:
    head = Driven().with_nodes(1, 4)
    [lease] = leases(head.hears(1, Ask(1, 1, CPU, 4)), 1)
    head.report(2, 0, lent=4)
    head.hears(1, Return({lease.lease: 4}))
    assert head.head.ledger.table[2].room == {"CPU": 40_000}


def test_room_is_given_in_turn() -> None:
    head = Driven().with_nodes(0, 0, 8)
    head.report(3, 0)
    head.hears(1, Ask(1, 1, CPU, 100))
    head.hears(2, Ask(1, 2, CPU, 100))
    actions = head.report(3, 8)
    assert sum(n for _, n in granted(actions, 1)) == sum(n for _, n in granted(actions, 2)) == 4


def test_an_ask_is_replaced_and_withdrawn() -> None:
    head = Driven().with_nodes(1, 4)
    head.report(2, 0)
    head.hears(1, Ask(1, 1, CPU, 100), Ask(1, 1, CPU, 3))
    assert head.head.ledger.n_asked == 3
    head.hears(1, Ask(1, 1, CPU, 0))
    assert not head.head.ledger.asks and not granted(head.report(2, 4), 1)


def test_what_can_run_nowhere_is_told_once_and_granted_when_a_node_comes_that_can() -> None:
    head = Driven().with_nodes(1, 4)
    many = Ask(1, 1, {"CPU": 80_000}, 1)
    assert said(head.hears(1, many), 1) == [
        Infeasible(1, "A task needs 8 CPU on one node; the largest of 2 has 4 CPU.")
    ]
    assert not [m for m in said(head.passes(3.0, 1, 2), 1) if isinstance(m, Infeasible)]
    head.register(3, 8)
    assert granted(head.report(3, 8), 1) == [(3, 1)]


def test_a_lost_node_ends_the_leases_on_it_and_frees_those_that_it_held() -> None:
    head = Driven().with_nodes(4, 4, 4)
    head.hears(1, Ask(1, 1, CPU, 8))
    head.hears(2, Ask(1, 2, CPU, 4))
    assert head.head.ledger.n_granted == 8 + 4
    head.hears(1, Leave(1))
    assert {(lease.holder, lease.node) for lease in head.head.ledger.leases.values()} == set()
    assert head.head.ledger.n_asked == 0 or head.head.ledger.asks


def test_leases_are_called_back_for_one_who_has_waited_and_no_more_than_an_equal_share() -> None:
    head = Driven().with_nodes(0, 0, 8)
    [lease] = leases(head.hears(1, Ask(1, 1, CPU, 8)), 1)
    head.report(3, 0, lent=8)
    head.hears(2, Ask(1, 2, CPU, 100))
    actions = head.passes(3.0, 1, 2, 3)
    assert [m for m in said(actions, 1) if isinstance(m, Recall)] == [Recall({lease.lease: 4})]
    assert granted(head.hears(1, Return({lease.lease: 4})), 2) == [(3, 4)]


def test_groups_are_given_all_bundles_or_none() -> None:
    head = Driven().with_nodes(1, 4, 4)
    group = AskGroup(7, 1, [CPU, CPU, CPU, CPU], "STRICT_PACK")
    [answer] = [m for m in said(head.hears(1, group), 1) if isinstance(m, Grant)]
    assert [p.node for p in answer.leases] == [2, 2, 2, 2] and len({p.lease for p in answer.leases}) == 4
    assert not granted(head.hears(1, AskGroup(8, 1, [{"CPU": 30_000}] * 2, "STRICT_SPREAD")), 1)
    assert head.head.ledger.table[3].room == {"CPU": 40_000}
    actions = head.hears(1, Return({p.lease: 1 for p in answer.leases}))
    assert sorted(granted(actions, 1)) == [(2, 1), (3, 1)]


def test_strategies_are_kept() -> None:
    head = Driven()
    for node, zone in ((1, "a"), (2, "a"), (3, "b")):
        head.register(node, 4, zone=zone)
        head.report(node, 4)
    assert granted(head.hears(1, Ask(1, 1, CPU, 9, Strategy("labels", labels={"zone": "b"}))), 1) == [(3, 4)]
    assert granted(head.hears(1, Ask(2, 1, CPU, 1, Strategy("node", node=2))), 1) == [(2, 1)]
    assert sorted(granted(head.hears(1, Ask(3, 1, CPU, 4, Strategy("spread"))), 1)) == [(1, 3), (2, 1)]


# ---- draining, restarts, the rest
def test_a_draining_node_is_given_nothing_and_its_leases_are_called_back() -> None:
    head = Driven().with_nodes(1, 4)
    [lease] = leases(head.hears(1, Ask(1, 1, CPU, 2)), 1)
    actions = head(Received("command", b"", Drain(2)))
    assert said(actions, 2) == [Drain(2)] and Recall({lease.lease: 0}) in said(actions, 1)
    assert Remember(who(2), True, False) in actions
    assert not granted(head.hears(1, Ask(2, 1, CPU, 1)), 1)
    assert isinstance(said(head(Received("command", b"", Drain(9))), "command")[0], Refused)
    again = Driven(core.start("c", 2, 0.0, members=[(who(2), True)]))
    assert Drain(2) in said(again.register(2, epoch=1), 2)


def test_after_a_restart_nothing_is_given_twice_and_nobody_is_judged_before_their_time() -> None:
    head = Driven(core.start("c", 2, 0.0, members=[(who(1), False), (who(2, 4), False), (who(3), False)]))
    head.register(2, 4, epoch=1)
    head.report(2, 1, lent=3)  # leases of node 1, which has not said so yet
    assert not said(head.hears(2, Ask(1, 2, {"CPU": 90_000}, 1)), 2)  # not hopeless: others may come
    head.register(3, 4, epoch=1)
    head.report(3, 0)
    assert granted(head.hears(3, Ask(1, 3, CPU, 4)), 3) == [(2, 1)]
    kept = Held(123, 2, CPU, 3)
    head.register(1, 4, epoch=1, held=(kept,))
    assert not head.head.ledger.is_careful and head.head.ledger.leases[123].n == 3
    assert head.head.ledger.table[2].room == {"CPU": 0}
    head.hears(1, Return({123: 3}))
    assert granted(head.report(2, 4, lent=0), 3) == []  # given by the return already
    assert head.head.ledger.n_granted == 4


def test_a_member_that_does_not_come_back_after_a_restart_is_lost_after_the_grace() -> None:
    head = Driven(core.start("c", 2, 0.0, members=[(who(1), False), (who(2), False)]))
    head.register(1, epoch=1)
    head.report(1, 4)
    assert not said(head.passes(4.5, 1), 1)
    assert said(head.passes(0.5, 1), 1) == [Lost(2, "silent for 5 s")] and not head.head.ledger.is_careful


def test_a_grant_that_never_arrived_is_undone_when_the_agent_comes_back() -> None:
    head = Driven().with_nodes(1, 4)
    [lease] = leases(head.hears(1, Ask(1, 1, CPU, 3)), 1)
    head(Closed(1))
    head.register(1, 1, epoch=1, held=(Held(lease.lease, 2, CPU, 1),))
    assert head.head.ledger.n_granted == 1
    head.register(1, 1, epoch=1)
    assert head.head.ledger.n_granted == 0 and head.head.ledger.table[2].room == {"CPU": 40_000}


def test_nothing_is_given_to_or_on_a_node_that_is_not_connected() -> None:
    head = Driven().with_nodes(1, 4, 4)
    head(Closed(2))
    assert granted(head.hears(1, Ask(1, 1, CPU, 8)), 1) == [(3, 4)]
    head.register(2, 4, epoch=1)
    assert granted(head.report(2, 4), 1) == [(2, 4)]


def test_requests_go_to_the_control_store_and_strangers_make_none() -> None:
    head = Driven().with_nodes(4)
    request = StoreRequest(5, 1, "kv", "get", "x")
    assert head.hears(1, request) == [Perform(1, request)]
    assert said(head(Received("x", b"", request)), "x") == [RegisterFirst()]


def test_status_says_who_is_there_and_who_was() -> None:
    head = Driven().with_nodes(4, 4)
    head.hears(2, Leave(2))
    [status] = said(head(Received("command", b"", StatusRequest(3))), "command")
    assert isinstance(status, Status)
    assert [(n.member.node, n.state, n.reason) for n in status.nodes] == [(1, "alive", ""), (2, "dead", "it has left")]


def test_the_end_is_told_to_all() -> None:
    head = Driven().with_nodes(4, 4)
    actions = head(Received("command", b"", End("enough")))
    assert said(actions, 1) == said(actions, 2) == [End("enough")] and actions[-1] == Stop("enough")
    assert head.report(1, 4) == []


def test_many_nodes_at_rest_report_rarely_and_are_judged_by_what_they_were_told() -> None:
    head = Driven().with_nodes(*[4] * 10)
    assert [a.message for a in head.report(1, 4) if isinstance(a, Send)] == [Heard(1, False, 20.0)]
    rarely = range(1, 11)
    assert not any(isinstance(a, Evict) for a in head.passes(24.5, *rarely[1:])), "it may just have missed its report"
    assert [a.node for a in head.passes(1.0, *rarely[1:]) if isinstance(a, Evict)] == [1]
    for node in rarely[2:]:
        head.hears(node, Leave(node))
    assert [a.message for a in head.report(2, 4) if isinstance(a, Send)] == [Heard(1, False, 20.0)], (
        "a node that has been told may go by it"
    )


def test_settings_say_when_to_tick() -> None:
    head = core.start("c", 1, 10.0, Settings(beat_s=2.0))
    assert core.next_deadline(head) == 16.0
    core.step(head, Received("x", b"", StatusRequest(1)), 10.9)
    assert core.next_deadline(head) == 16.0  # messages do not put it off


def test_a_head_at_rest_looks_when_a_report_could_be_overdue_and_often_while_one_is() -> None:
    head = Driven().with_nodes(4, 4)
    settings, heard = head.head.settings, head.now
    rest_s, overdue_s = settings.rest_s(2), head.head.nodes[1].overdue_s(settings)
    head(Tick())
    assert core.next_deadline(head.head) == heard + overdue_s
    head.now = heard + rest_s
    head.report(1, 4)
    head.now = core.next_deadline(head.head)
    head(Tick())
    assert core.next_deadline(head.head) == head.now + settings.tick_s, "node 2 is late"
    head.report(2, 4)
    head.now += settings.tick_s
    head(Tick())
    assert core.next_deadline(head.head) == heard + rest_s + overdue_s, "node 1 is the next that could be"


# ---- who has no connection
def test_a_node_whose_processes_have_ended_is_lost_after_the_grace_and_not_for_a_broken_connection() -> None:
    head = Driven().with_nodes(4, 4)
    assert head(Closed(2)) == [core.Probe(2, who(2).endpoint)]
    head.now += core.GRACE_S
    assert head(core.Probed(2, False)) == [], "it may be a firewall that refuses"
    assert core.Probe(2, who(2).endpoint) in head.register(2, 4, epoch=1)
    head(core.Probed(2, True), Closed(2))
    assert head(core.Probed(2, False)) == [], "it may come back"
    head.now += core.GRACE_S
    assert core.Probe(2, who(2).endpoint) in head(Tick())
    [lost] = said(head(core.Probed(2, False)), 1)
    assert isinstance(lost, Lost) and "its processes have ended" in lost.reason


def test_a_node_that_has_ended_while_there_was_no_head_is_lost_as_soon_as_that_is_seen() -> None:
    head = Driven().with_nodes(4, 4)
    assert head(core.Probed(2, True)) == [Remember(who(2), False, True)] and head(core.Probed(2, True)) == []
    head = Driven(core.start("c", 2, 0.0, members=[(who(n), False) for n in (1, 2, 3)], found={2}))
    head.register(1, epoch=1)
    assert head(Tick()) == [core.Probe(2, who(2).endpoint), core.Probe(3, who(3).endpoint)]
    assert head(core.Probed(2, False)) == [], "it may come"
    head.now += core.GRACE_S
    assert said(head(core.Probed(2, False)), 1) == [
        Lost(2, f"its processes have ended: nobody listens at {who(2).endpoint}")
    ]
    assert head(core.Probed(3, False)) == [], "that may be a firewall"


def test_a_node_that_answers_probes_lives_without_a_connection_and_one_that_does_not_is_lost() -> None:
    head = Driven().with_nodes(4, 4)
    head(Closed(2))
    for _ in range(6):
        assert not said(head.passes(0.5, 1), 1)
        head(core.Probed(2, True))
    assert not said(head.passes(2.0, 1), 1)
    assert said(head.passes(0.5, 1), 1) == [Lost(2, "silent for 5 s")]


def test_a_node_at_the_address_of_one_without_a_connection_takes_its_place() -> None:
    head = Driven().with_nodes(4, 4)
    head(Closed(2))
    new = replace(who(3), endpoint=who(2).endpoint)
    assert Lost(2, f"another node is at its address, {new.endpoint}") in said(head.hears(3, Register(new, 1)), 1)
    assert head.head.nodes.keys() == {1, 3}


# ---- how soon a loss is known, with the usual settings
LATE = (0.0, 0.3, 1.0, 2.4, 4.7, 5.9)  # seconds since the last report of a node; one at rest reports every six
ROUND_TRIP_S = 0.05


def lost_after_s(late_s: float, closed_after_s: float, probed: bool | None, back_after_s: float = 20.0) -> float | None:
    """After how long node 2 is lost, whose last report was `late_s` before; None: it is not.

    Its connection ends after `closed_after_s`, and its machine answers a probe so: by that word, or (None) not at all.
    It registers again, or if its connection has not ended reports, after `back_after_s`.
    """
    head = Driven().with_nodes(4, 4)
    head(core.Probed(2, True), Tick())
    start = head.now + late_s
    due = [(start + closed_after_s, "closed"), (start + back_after_s, "back")]
    while True:
        head.now, what = min([*due, (max(core.next_deadline(head.head), head.now), "tick")])
        due = [event for event in due if event != (head.now, what)]
        if what == "closed":
            actions = head(Closed(2))
        elif what == "probed":
            assert probed is not None
            actions = head(core.Probed(2, probed))
        elif what == "back":
            actions = head.report(2, 4) if closed_after_s > back_after_s else head.register(2, epoch=1)
        else:
            actions = [*head.report(1, 4), *head(Tick())]
        if any(isinstance(action, Evict) for action in actions):
            return head.now - start
        if what == "back":
            break
        if probed is not None and any(isinstance(action, core.Probe) for action in actions):
            due.append((head.now + ROUND_TRIP_S, "probed"))
    return None


@pytest.mark.parametrize("late_s", LATE)
def test_a_node_whose_processes_are_killed_is_lost_within_a_second(late_s: float) -> None:
    after_s = lost_after_s(late_s, closed_after_s=ROUND_TRIP_S, probed=False)
    assert after_s is not None and after_s <= 1.0


@pytest.mark.parametrize("late_s", LATE)
def test_a_node_whose_cable_is_pulled_is_lost_within_five_seconds(late_s: float) -> None:
    after_s = lost_after_s(late_s, closed_after_s=core.BREAKS_AFTER_S, probed=None)
    assert after_s is not None and after_s <= 5.0


@pytest.mark.parametrize("late_s", LATE)
@pytest.mark.parametrize("closed_after_s", [4.0, ROUND_TRIP_S], ids=["connection stands", "connection breaks"])
def test_a_node_that_is_stopped_for_three_seconds_is_not_lost(late_s: float, closed_after_s: float) -> None:
    assert lost_after_s(late_s, closed_after_s, probed=True, back_after_s=3.0) is None
