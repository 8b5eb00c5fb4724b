"""The global scheduler's logic: events in, actions out."""
from __future__ import annotations

import pytest
from msgspec.structs import replace

from cellmesh.scheduler.cluster import head as core
from cellmesh.scheduler.cluster.head import Bury, Closed, Head, Perform, Received, Remember, Send, Settings, Stop, Tick
from cellmesh.scheduler.cluster.messages import (CLUSTER_VERSION, Ask, AskGroup, Came, Drain, End, FromHead, Grant,
                                                 Heard, Held, Infeasible, Leave, Lost, Member, Place, Recall, Refused,
                                                 Register, Registered, RegisterFirst, Report, Return, Status,
                                                 StatusRequest, StoreRequest, Strategy, ToHead)

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

    def register(self, node: int, cpus: int = 4, *, epoch: int = 0, held: tuple[Held, ...] = (),
                 **labels: str) -> list[core.Action]:
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
    return [(p.node, p.n) for m in said(actions, to) if isinstance(m, Grant) for p in m.places]


def leases(actions: list[core.Action], to: int) -> list[Place]:
    return [p for m in said(actions, to) if isinstance(m, Grant) for p in m.places]


# ---- members
def test_a_node_that_registers_is_remembered_before_it_is_told_and_the_others_hear_of_it() -> None:
    head = Driven()
    assert head.register(1)[0] == Remember(who(1), False)
    actions = head.register(2)
    assert [type(a) for a in actions[:2]] == [Remember, Send] and said(actions, 1) == [Came(who(2))]
    assert said(actions, 2) == [Registered("c", 1, [who(1), who(2)], 1.0, 10.0)]


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
    head = Driven().with_nodes(4, 4)
    assert head.passes(10.0, 1) == [Send((1,), Heard(1, False))] * 20
    actions = head.passes(0.5, 1)
    lost = Lost(2, "silent for 10 s")
    assert Bury(2, lost.reason) in actions and said(actions, 1) == said(actions, 2) == [lost]
    assert actions.index(Bury(2, "silent for 10 s")) < next(i for i, a in enumerate(actions) if isinstance(a, Send)
                                                            and a.message == Lost(2, "silent for 10 s"))
    assert head.passes(5.0, 1) == [Send((1,), Heard(1, False))] * 10
    assert said(head.register(2, epoch=1), 2) == [Lost(2, "silent for 10 s")]
    assert said(head.report(2, 4), 2) == [Lost(2, "silent for 10 s")]
    later = Driven(core.start("c", 2, 500.0, members=[(who(1), False)], dead={2: "silent for 10 s"}))
    assert said(later.register(2), 2) == [Lost(2, "silent for 10 s")]


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
    assert not said(head.passes(9.5, 1), 1)
    assert said(head.passes(1.0, 1), 1) == [Lost(2, "silent for 40 s")]


def test_a_node_that_is_known_to_no_store_and_says_that_it_was_registered_is_sent_away() -> None:
    assert isinstance(said(Driven(core.start("c", 5, 0.0)).register(1, epoch=4), 1)[0], Lost)


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
    assert Bury(2, "it has left") in actions and said(actions, 1) == [Lost(2, "it has left")]


def test_a_goodbye_counts_after_the_end_of_its_connection_and_nobody_says_it_for_another() -> None:
    head = Driven().with_nodes(4, 4)
    head(Closed(2))
    assert said(head(Received(2, bytes([1]) * 32, Leave(2))), 2) == [RegisterFirst()]
    assert said(head.hears(2, Leave(2)), 1) == [Lost(2, "it has left")]


# ---- places
def test_places_are_granted_at_once_late_and_never_twice() -> None:
    head = Driven().with_nodes(1, 4)
    first = head.hears(1, Ask(1, 1, CPU, 6))
    assert granted(first, 1) == [(2, 4)] and head.head.ledger.n_asked == 2
    assert head.report(2, 4) == [Send((2,), Heard(1, True))]  # its tasks are on their way: that room is given away
    assert not granted(head.report(2, 0, lent=4), 1)          # and now they run
    assert granted(head.hears(1, Return({leases(first, 1)[0].lease: 1})), 1) == [(2, 1)]  # a late grant


def test_a_place_is_free_again_when_it_is_returned_before_its_node_says_so() -> None:
    head = Driven().with_nodes(1, 4)
    [place] = leases(head.hears(1, Ask(1, 1, CPU, 4)), 1)
    head.report(2, 0, lent=4)
    head.hears(1, Return({place.lease: 4}))
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
    assert said(head.hears(1, many),
                1) == [Infeasible(1, "A task needs 8 CPU on one node; the largest of 2 has 4 CPU.")]
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


def test_places_are_called_back_for_one_who_has_waited_and_no_more_than_an_equal_share() -> None:
    head = Driven().with_nodes(0, 0, 8)
    [place] = leases(head.hears(1, Ask(1, 1, CPU, 8)), 1)
    head.report(3, 0, lent=8)
    head.hears(2, Ask(1, 2, CPU, 100))
    actions = head.passes(3.0, 1, 2, 3)
    assert [m for m in said(actions, 1) if isinstance(m, Recall)] == [Recall({place.lease: 4})]
    assert granted(head.hears(1, Return({place.lease: 4})), 2) == [(3, 4)]


def test_groups_are_given_all_bundles_or_none() -> None:
    head = Driven().with_nodes(1, 4, 4)
    group = AskGroup(7, 1, [CPU, CPU, CPU, CPU], "STRICT_PACK")
    [answer] = [m for m in said(head.hears(1, group), 1) if isinstance(m, Grant)]
    assert [p.node for p in answer.places] == [2, 2, 2, 2] and len({p.lease for p in answer.places}) == 4
    assert not granted(head.hears(1, AskGroup(8, 1, [{"CPU": 30_000}] * 2, "STRICT_SPREAD")), 1)
    assert head.head.ledger.table[3].room == {"CPU": 40_000}
    actions = head.hears(1, Return({p.lease: 1 for p in answer.places}))
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
def test_a_draining_node_is_given_nothing_and_its_places_are_called_back() -> None:
    head = Driven().with_nodes(1, 4)
    [place] = leases(head.hears(1, Ask(1, 1, CPU, 2)), 1)
    actions = head(Received("command", b"", Drain(2)))
    assert said(actions, 2) == [Drain(2)] and Recall({place.lease: 0}) in said(actions, 1)
    assert Remember(who(2), True) in actions
    assert not granted(head.hears(1, Ask(2, 1, CPU, 1)), 1)
    assert isinstance(said(head(Received("command", b"", Drain(9))), "command")[0], Refused)
    again = Driven(core.start("c", 2, 0.0, members=[(who(2), True)]))
    assert Drain(2) in said(again.register(2, epoch=1), 2)


def test_after_a_restart_nothing_is_given_twice_and_nobody_is_judged_before_their_time() -> None:
    head = Driven(core.start("c", 2, 0.0, members=[(who(1), False), (who(2, 4), False), (who(3), False)]))
    head.register(2, 4, epoch=1)
    head.report(2, 1, lent=3)                      # leases of node 1, which has not said so yet
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
    assert not said(head.passes(9.5, 1), 1)
    assert said(head.passes(1.0, 1), 1) == [Lost(2, "silent for 10 s")] and not head.head.ledger.is_careful


def test_a_grant_that_never_arrived_is_undone_when_the_agent_comes_back() -> None:
    head = Driven().with_nodes(1, 4)
    [place] = leases(head.hears(1, Ask(1, 1, CPU, 3)), 1)
    head(Closed(1))
    head.register(1, 1, epoch=1, held=(Held(place.lease, 2, CPU, 1),))
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


def test_settings_say_when_to_tick() -> None:
    head = core.start("c", 1, 10.0, Settings(beat_s=2.0))
    assert core.next_deadline(head) == 11.0
    core.step(head, Received("x", b"", StatusRequest(1)), 10.9)
    assert core.next_deadline(head) == 11.0  # messages do not put it off
