"""What an agent tells those who look at the cluster from its machine."""

from __future__ import annotations

import pytest
from cellmesh.scheduler.cluster.agent.status_feed import FIRST_PATIENCE_S, PATIENCE_S, UNASKED_S, StatusFeed
from cellmesh.scheduler.cluster.messages import SESSION_LABEL, Member, NodeStatus, Status, Usage


def member(number: int, name: str) -> Member:
    return Member(
        number, f"tcp://{name}:1", bytes(32), name, {"CPU": 20_000}, {SESSION_LABEL: f"s{number}", "zone": "x"}
    )


ME, OTHER = member(1, "me"), member(2, "other")


def status(number: int, state: str = "alive", reason: str = "") -> Status:
    return Status(
        number,
        "c",
        1,
        [
            NodeStatus(OTHER, state, {"CPU": 5_000}, 3, 10, 100, 0.2, reason, Usage(0.5, 7, 9)),
            NodeStatus(ME, "alive", {}, 0, 0, 0, 0.1),
        ],
        0,
        0,
    )


def test_one_question_for_all_who_ask_and_this_machine_first() -> None:
    lookers = StatusFeed(ME)
    assert lookers.question() == 0 and lookers.due(0.0, []) == []
    lookers.asked(7, 1.0)
    lookers.asked(8, 1.1)
    number = lookers.question()
    assert number and lookers.question() == 0, "it has been asked"
    assert lookers.due(1.2, [OTHER]) == [] and lookers.deadline == 1.0 + FIRST_PATIENCE_S
    lookers.answered(status(number))
    replies = lookers.due(1.2, [OTHER])
    assert sorted(reply.request for reply in replies) == [7, 8] and not replies[0].error
    here, there = replies[0].nodes
    assert (here.is_here, there.is_here, there.node, there.session, there.hostname) == (True, False, "2", "s2", "other")
    assert (there.total, there.free, there.labels, there.n_queued) == ({"CPU": 2.0}, {"CPU": 0.5}, {"zone": "x"}, 3)
    assert (there.load, there.memory_bytes, there.memory_size, there.silent_s) == (0.5, 7, 9, 0.2)
    assert lookers.due(9.0, [OTHER]) == [], "nobody asks any more"


def test_without_a_head_they_hear_what_is_known_here() -> None:
    lookers = StatusFeed(ME)
    lookers.asked(1, 0.0)
    lookers.answered(status(lookers.question()))
    lookers.due(0.0, [OTHER])
    lookers.asked(2, 1.0)
    lookers.question()
    lookers.lost(2, "silent for 10 s")
    (reply,) = lookers.due(1.0 + PATIENCE_S, [])
    assert "head" in reply.error
    assert [(row.hostname, row.state, row.reason, row.silent_s) for row in reply.nodes] == [
        ("me", "alive", "", -1.0),
        ("other", "dead", "silent for 10 s", -1.0),
    ]
    # What it answers late is no answer to the next question.
    lookers.asked(3, 3.0)
    late = status(lookers.question() - 1)
    lookers.answered(late)
    assert lookers.due(3.1, []) == []


def test_before_the_head_has_ever_answered_this_machine_is_not_all_there_is() -> None:
    lookers = StatusFeed(ME)
    lookers.asked(1, 0.0)
    assert lookers.due(PATIENCE_S, []) == [], "not even registered, on a busy machine"
    assert [row.hostname for row in lookers.due(FIRST_PATIENCE_S, [])[0].nodes] == ["me"]
    lookers.asked(2, 20.0)
    lookers.answered(status(lookers.question()))
    assert len(lookers.due(20.0, [OTHER])[0].nodes) == 2
    lookers.asked(3, 30.0)
    assert lookers.deadline == 30.0 + PATIENCE_S


def test_news_that_nobody_has_asked_for_comes_in_pieces() -> None:
    lookers = StatusFeed(ME)
    lookers.asked(0, 0.0)
    lookers.answered(status(lookers.question()))
    assert len(lookers.due(0.0, [OTHER])) == 1
    lookers.asked(0, 0.01)
    lookers.answered(status(lookers.question()))
    assert lookers.due(0.02, [OTHER]) == [] and lookers.deadline <= UNASKED_S
    assert [reply.request for reply in lookers.due(UNASKED_S, [OTHER])] == [0]


@pytest.mark.parametrize("is_answered", [False, True])
def test_what_becomes_known_while_an_answer_is_awaited_or_held_back_is_told_after_it(is_answered: bool) -> None:
    feed = StatusFeed(ME)
    feed.asked(0, 0.0)
    feed.answered(status(feed.question()))
    feed.due(0.0, [OTHER])
    feed.asked(0, 0.01)
    before = status(feed.question())
    if is_answered:
        feed.answered(before)
        assert feed.due(0.02, [OTHER]) == [], "it is held back"
    feed.lost(2, "silent")
    feed.news(0.03)
    assert not feed.question()
    feed.answered(before)
    (reply,) = feed.due(UNASKED_S, [])
    assert reply.nodes[1].state == "alive"
    feed.answered(status(feed.question(), "dead", "silent"))
    (reply,) = feed.due(2 * UNASKED_S, [])
    assert reply.nodes[1].state == "dead" and not reply.error
    assert not feed.question() and feed.due(9.0, []) == []
