"""Budgets: bursts pass, floods do not, and what was held back is told."""

from __future__ import annotations

from cellmesh.scheduler.sync.token_bucket import PIECE_COST, Throttle, TokenBucket


def test_a_burst_passes_and_then_the_rate() -> None:
    bucket = TokenBucket(rate=10, burst=100, now=0.0)
    assert bucket.take(100, 0.0)
    assert not bucket.take(1, 0.0)
    assert bucket.take(10, 1.0)
    assert not bucket.take(10, 1.5)


def test_quiet_times_do_not_save_up_more_than_a_burst() -> None:
    bucket = TokenBucket(rate=10, burst=100, now=0.0)
    assert bucket.take(100, 1e6)
    assert not bucket.take(1, 1e6)


def test_a_piece_above_the_burst_passes_when_nothing_did_before() -> None:
    bucket = TokenBucket(rate=10, burst=100, now=0.0)
    assert bucket.take(150, 0.0)
    assert not bucket.take(1, 4.0)
    assert bucket.take(1, 6.0)


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(rate=10, burst=100, now=50.0)
    assert bucket.take(100, 50.0)
    assert not bucket.take(1, 40.0)


def test_what_was_dropped_is_told_before_the_next_text() -> None:
    throttle = Throttle(rate=10, burst=100 + PIECE_COST, now=0.0)
    assert throttle.admit("x" * 100, 0.0) == "x" * 100
    assert throttle.admit("a\nb\n", 0.1) == "" and throttle.admit("c\n", 0.2) == ""
    later = throttle.admit("end\n", 1000.0)
    assert "dropped 3 lines (6 characters)" in later and later.endswith("\nend\n")
    assert throttle.note() == ""


def test_the_note_can_be_had_without_further_text() -> None:
    throttle = Throttle(rate=10, burst=PIECE_COST, now=0.0)
    throttle.admit("", 0.0)
    assert throttle.admit("lost\n", 0.0) == ""
    assert "1 lines" in throttle.note() and throttle.note() == ""
