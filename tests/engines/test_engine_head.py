"""What an agent hears in place of a head's words: how much goes to the engine, and what goes nowhere."""

from __future__ import annotations

import pytest
from cellmesh.objstore._core import RESOURCE_UNIT
from cellmesh.scheduler.cluster.agent import engine_head
from cellmesh.scheduler.cluster.agent.engine_head import LEAST_WINDOW, EngineHead, down, heard, up
from cellmesh.scheduler.cluster.engine import EngineNode
from cellmesh.scheduler.cluster.messages import (
    Ask,
    AskGroup,
    Came,
    FromHead,
    Grant,
    Infeasible,
    Lost,
    Member,
    Register,
    Registered,
    Report,
    Return,
    Spread,
    Status,
    StatusRequest,
    Strategy,
)

CPU = RESOURCE_UNIT
ME, ENGINE = 11, 22


def member(node: int, cpus: int, **labels: str) -> Member:
    return Member(node, "tcp://", bytes([node]) * 32, str(node), {"CPU": cpus * CPU}, labels)


def head(cpus: int = 4, cpus_at_home: int = 0) -> EngineHead:
    """One that has heard of both."""
    made = EngineHead()
    assert heard(made, Register(member(ME, cpus_at_home), 1)) == [
        Registered("engine", 1, [member(ME, cpus_at_home)], 1.0, engine_head.SILENT_S, engine_head.SILENT_S)
    ]
    assert up(made, member(ENGINE, cpus), [EngineNode("one", {"CPU": cpus * CPU})], False) == [
        Came(member(ENGINE, cpus))
    ]
    return made


def ask(number: int, n: int, cpus: int = 1, strategy: Strategy | None = None) -> Ask:
    return Ask(number, ME, {"CPU": cpus * CPU}, n, strategy or Strategy())


def granted(said: list[FromHead]) -> dict[int, int]:
    """How many tasks of which ask may go to the engine."""
    found: dict[int, int] = {}
    for message in said:
        assert isinstance(message, Grant)
        (lease,) = message.leases
        assert lease.node == ENGINE
        found[message.number] = found.get(message.number, 0) + lease.n
    return found


def test_as_many_as_the_window_may_be_under_way() -> None:
    made = head()
    assert granted(heard(made, ask(1, 5000))) == {1: LEAST_WINDOW}
    assert not made.n_left
    (lease,) = made.lent
    assert granted(heard(made, Return({lease: 300}))) == {1: 300}
    assert made.asks[1].n == 5000 - LEAST_WINDOW - 300


def test_the_window_grows_with_the_engine() -> None:
    made = head(cpus=100)
    assert granted(heard(made, ask(1, 10_000))) == {1: 6400}


def test_who_asks_gets_equal_parts() -> None:
    made = head()
    heard(made, ask(1, 5000))
    heard(made, ask(2, 5000))
    heard(made, ask(3, 10))
    (lease,) = made.lent
    assert granted(heard(made, Return({lease: 300}))) == {1: 145, 2: 145, 3: 10}


def test_what_is_not_asked_for_any_more_is_not_granted() -> None:
    made = head()
    heard(made, ask(1, 5000))
    heard(made, ask(1, 0))
    (lease,) = made.lent
    assert heard(made, Return({lease: 300})) == []


def test_nothing_is_said_until_the_engine_is_there() -> None:
    made = EngineHead()
    heard(made, Register(member(ME, 0), 1))
    assert heard(made, ask(1, 5)) == []
    assert granted(up(made, member(ENGINE, 4), [EngineNode("one", {"CPU": 4 * CPU})], False)[1:]) == {1: 5}


def test_a_lost_engine_takes_its_leases_along_and_another_one_comes() -> None:
    made = head()
    heard(made, ask(1, 5000))
    lost, said = down(made, "it has gone")
    assert lost == Lost(ENGINE, "it has gone")
    assert said == Infeasible(1, "the engine is not there: it has gone")
    assert down(made, "still") == []
    assert granted(up(made, member(ENGINE, 4), [EngineNode("one", {"CPU": 4 * CPU})], False)[1:]) == {1: LEAST_WINDOW}


def test_what_no_machine_has_is_told_once_and_asked_for_on() -> None:
    made = head()
    (said,) = heard(made, ask(1, 1, cpus=8))
    assert said == Infeasible(1, "a task asks for 8 CPU, and no machine of 22 has more than 4 CPU")
    assert heard(made, Return({})) == []
    assert granted(up(made, member(ENGINE, 8), [EngineNode("two", {"CPU": 8 * CPU})], False)[1:]) == {1: 1}


def test_an_engine_that_grows_is_asked_for_anything() -> None:
    made = head()
    up(made, member(ENGINE, 4), [EngineNode("one", {"CPU": 4 * CPU})], True)
    assert granted(heard(made, ask(1, 1, cpus=8))) == {1: 1}


def test_what_names_another_machine_does_not_go_there() -> None:
    made = head(cpus_at_home=2)
    (said,) = heard(made, ask(1, 3, strategy=Strategy("node", ME)))
    assert isinstance(said, Grant)
    assert [(lease.node, lease.n) for lease in said.leases] == [(ME, 3)]
    (said,) = heard(made, ask(2, 3, strategy=Strategy(labels={"zone": "eu"})))
    assert said == Infeasible(2, "no machine of 22 has what the task asks for by name")
    assert granted(heard(made, ask(3, 3, strategy=Strategy("node", ENGINE)))) == {3: 3}


def test_a_placement_group_is_reserved_at_home_or_nowhere() -> None:
    made = head(cpus_at_home=2)
    assert heard(made, AskGroup(1, ME, [{"CPU": CPU}] * 2)) == []  # until there is room
    free = {"CPU": 2 * CPU}
    _, said = heard(made, Report(ME, 1, free))
    assert isinstance(said, Grant)
    assert [(lease.node, lease.n) for lease in said.leases] == [(ME, 1)] * 2
    assert len(heard(made, Report(ME, 2, free))) == 1
    for wanted in (AskGroup(2, ME, [{"CPU": CPU}] * 3), AskGroup(3, ME, [{"CPU": CPU}] * 2, "STRICT_SPREAD")):
        (said,) = heard(made, wanted)
        assert isinstance(said, Infeasible)
        assert heard(made, AskGroup(wanted.number, ME, [])) == []


def test_a_placement_group_that_has_no_room_at_home_is_as_a_whole_on_an_engine_that_has_groups() -> None:
    made = head(cpus_at_home=1)
    ask_for_two = AskGroup(1, ME, [{"CPU": CPU}] * 2)
    (said,) = heard(made, ask_for_two)
    assert said == Infeasible(1, engine_head.NO_GROUPS)
    nodes = [EngineNode("one", {"CPU": 3 * CPU}), EngineNode("two", {"CPU": CPU})]
    _, said = up(made, member(ENGINE, 4), nodes, False, has_groups=True)  # which comes back, and can
    assert isinstance(said, Grant)
    assert [(lease.node, lease.n) for lease in said.leases] == [(ENGINE, 1)] * 2
    heard(made, ask(2, 2 * LEAST_WINDOW))
    assert made.n_left == 0
    assert heard(made, Return({lease.lease: 1 for lease in said.leases})) != [], "bundles are of the window"


@pytest.mark.parametrize(
    ("sizes", "mode", "may_be"),
    [
        ([1, 1, 1, 1], "PACK", True),
        ([3, 1], "STRICT_SPREAD", True),
        ([2, 2], "PACK", True),  # only Ray finds out that it cannot be
        ([4], "PACK", False),
        ([1, 1, 1, 1, 1], "SPREAD", False),
        ([2, 2], "STRICT_PACK", False),
        ([1, 1, 1], "STRICT_PACK", True),
        ([1, 1, 1], "STRICT_SPREAD", False),
    ],
)
def test_a_group_that_no_machines_of_the_engine_can_hold_is_told(sizes: list[int], mode: Spread, may_be: bool) -> None:
    nodes = [EngineNode("one", {"CPU": 3 * CPU}), EngineNode("two", {"CPU": CPU})]
    for grows in (False, True):
        made = head()
        up(made, member(ENGINE, 4), nodes, grows, has_groups=True)
        (said,) = heard(made, AskGroup(1, ME, [{"CPU": n * CPU} for n in sizes], mode))
        assert isinstance(said, Grant if may_be or grows else Infeasible)


def test_the_status_has_both() -> None:
    made = head()
    heard(made, ask(1, 5000))
    (said,) = heard(made, StatusRequest(7))
    assert isinstance(said, Status)
    assert [row.member.node for row in said.nodes] == [ME, ENGINE]
    assert (said.number, said.n_asked, said.n_granted) == (7, 5000 - LEAST_WINDOW, LEAST_WINDOW)


def test_the_status_has_the_last_lives_of_an_engine_that_are_over() -> None:
    made, n = head(), engine_head.N_FORMER
    down(made, "it has gone")
    for number in range(n):
        up(made, member(ENGINE + 1 + number, 4), [], False)
        down(made, f"again {number}")
    (said,) = heard(made, StatusRequest(7))
    assert isinstance(said, Status)
    assert [(row.member.node, row.state, row.reason) for row in said.nodes[1:]] == [
        (ENGINE + 1 + number, "dead", f"again {number}") for number in range(n)
    ]


def test_what_is_used_there_is_not_free() -> None:
    made = head()
    made.used = {"CPU": 3 * CPU}
    (said,) = heard(made, StatusRequest(1))
    assert isinstance(said, Status)
    assert said.nodes[1].free["CPU"] == said.nodes[1].member.total["CPU"] - 3 * CPU
    down(made, "it has gone")
    assert not made.used
