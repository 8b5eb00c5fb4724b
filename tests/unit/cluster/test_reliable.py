"""Numbers, acknowledgements and the window of messages to one peer."""

from __future__ import annotations

from typing import Any

import pytest
from cellmesh.scheduler.cluster.net.reliable import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_MESSAGES,
    BUDGET_BYTES,
    WINDOW_BYTES,
    Incoming,
    Outgoing,
    Overrun,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def test_small_messages_are_acknowledged_together_and_bulk_at_once() -> None:
    incoming = Incoming()
    for number in range(ACKNOWLEDGE_MESSAGES - 1):
        assert incoming.take(number, 10, is_bulk=False) and incoming.acknowledgement() is None
    assert incoming.take(ACKNOWLEDGE_MESSAGES - 1, 10, is_bulk=False)
    assert incoming.acknowledgement() == ACKNOWLEDGE_MESSAGES and incoming.acknowledgement() is None
    assert (
        incoming.take(ACKNOWLEDGE_MESSAGES, 10, is_bulk=True) and incoming.acknowledgement() == ACKNOWLEDGE_MESSAGES + 1
    )
    assert incoming.take(ACKNOWLEDGE_MESSAGES + 1, ACKNOWLEDGE_BYTES, is_bulk=False)
    assert incoming.acknowledgement() == ACKNOWLEDGE_MESSAGES + 2


@pytest.mark.parametrize("number", [0, 2, 1 << 63])
def test_only_the_next_one_is_taken_and_the_sender_is_told_which(number: int) -> None:
    incoming = Incoming()
    incoming.take(0, 10, is_bulk=False)
    assert not incoming.take(number, 10, is_bulk=False) and incoming.acknowledgement() == 1


def test_the_window_is_credit() -> None:
    outgoing = Outgoing()
    assert outgoing.room() == WINDOW_BYTES
    assert outgoing.add(WINDOW_BYTES, "a"), "one message may be as large as it likes"
    assert outgoing.room() == 0
    assert not outgoing.add(1, "b") and outgoing.due() == []
    assert not outgoing.add(BUDGET_BYTES - WINDOW_BYTES - 1, "c")
    with pytest.raises(Overrun):
        outgoing.add(1, "d")
    assert outgoing.kept_bytes == BUDGET_BYTES and outgoing.n_added == 3 and outgoing.restart() == ["a"]
    assert not outgoing.acknowledge(1), "the rest is still more than half of it"
    assert outgoing.due() == ["b", "c"] or outgoing.due() == ["c"]


def test_what_was_never_sent_is_not_acknowledged() -> None:
    outgoing = Outgoing()
    outgoing.add(WINDOW_BYTES, "a")
    outgoing.add(10, "waits")
    with pytest.raises(ValueError, match="acknowledges 2 messages, of 1, after 0"):
        outgoing.acknowledge(2)
    assert outgoing.acknowledge(1) is False and outgoing.acknowledge(1) is False
    with pytest.raises(ValueError, match="acknowledges 0 messages, of 1, after 1"):
        outgoing.acknowledge(0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, WINDOW_BYTES // 2)),
        st.tuples(st.just("carry"), st.integers(1, 5)),
        st.tuples(st.just("drop"), st.integers(1, 5)),
        st.tuples(st.just("answer"), st.booleans()),
        st.tuples(st.just("break"), st.booleans()),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_any_line_ends_with_each_message_once_and_in_order(steps: list[tuple[str, Any]]) -> None:
    """Messages and acknowledgements are carried in order, until a connection breaks and takes what is under way
    along."""
    outgoing, incoming = Outgoing(), Incoming()
    line: list[tuple[int, int]] = []
    arrived: list[int] = []

    def carry(n: int) -> None:
        for _ in range(min(n, len(line))):
            number, size = line.pop(0)
            if incoming.take(number, size, is_bulk=size > 1000):
                arrived.append(number)

    def answer(lost: bool = False) -> None:
        if (expected := incoming.acknowledgement()) is not None and not lost:
            outgoing.acknowledge(expected)
            line.extend(outgoing.due())

    def break_off() -> None:
        line[:] = outgoing.restart()

    for what, value in steps:
        if what == "add":
            frames = (outgoing.n_added, value)
            try:
                if outgoing.add(value, frames):
                    line.append(frames)
            except Overrun:
                assert outgoing.kept_bytes + value > BUDGET_BYTES
        elif what == "carry":
            carry(value)
        elif what == "drop":
            del line[-value:]
            break_off()
        elif what == "answer":
            answer(lost=value)
            if value:
                break_off()
        else:
            break_off()
        assert outgoing.kept_bytes <= BUDGET_BYTES
    for _ in range(2 * len(steps) + 2):  # the line holds from now on
        break_off()
        carry(len(line))
        answer()
    assert arrived == list(range(outgoing.n_added))
    assert outgoing.due() == []
