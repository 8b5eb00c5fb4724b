"""Displays that are updated later, and the threads in the background that do it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext import background
from cellmesh.kernel_ext.cards import live_display
from cellmesh.kernel_ext.cards.live_display import LiveDisplay
from support.waiting import wait_until

# One that hands over and publishes, and those that it hands to.
MOST_THREADS = 1 + 8


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    background.close()


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the displays stands still: each update comes too early, and waits for this long."""
    monkeypatch.setattr(live_display, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(live_display, "UPDATE_INTERVAL_S", 0.02)


@contextmanager
def held_up() -> Iterator[None]:
    """The thread that hands over is busy inside, and then finds everything due."""
    on = threading.Event()
    asker = threading.Thread(target=background.by_one_thread, args=(on.wait,))
    asker.start()
    wait_until(lambda: background._threads._first.is_alive() and background._threads._asked.empty())
    try:
        yield
    finally:
        on.set()
        asker.join(10)


class Card:
    """What a display shows: how often it has been looked at."""

    def __init__(self) -> None:
        self.n_looks = 0

    def look(self) -> dict[str, str]:
        self.n_looks += 1
        return {"text/plain": str(self.n_looks)}


def shown(card: Card, published: list[Any]) -> LiveDisplay[Card]:
    def publish(bundle: dict[str, str], display_id: str, update: bool, parent: dict[str, Any]) -> None:
        published.append((bundle["text/plain"], threading.current_thread()))

    return LiveDisplay(publish, {}, card, Card.look, lambda card: None)


def test_many_displays_are_updated_later_by_a_few_threads() -> None:
    """A thread for each took memory that stayed."""
    cards, published = [Card() for _ in range(40)], list[Any]()
    displays = [shown(card, published) for card in cards]
    for _ in range(3):
        del published[:]
        for display in displays:
            display.update()
        wait_until(lambda: len(published) == len(cards))
        assert len({thread for _, thread in published}) < MOST_THREADS
    begun = [thread.name for thread in threading.enumerate() if thread.name.startswith("cellmesh-")]
    assert len(begun) <= MOST_THREADS and "cellmesh-card" not in begun


def test_an_update_at_once_takes_the_place_of_the_one_that_waits() -> None:
    card, published = Card(), list[Any]()
    display = shown(card, published)
    with held_up():
        display.update()
        display.update()
        assert card.n_looks == 1, "too early"
        display.update(at_once=True)
    background.close()
    assert card.n_looks == 2 and [text for text, _ in published] == ["1", "2"]


def test_a_display_that_waits_does_not_keep_its_card() -> None:
    card, published = Card(), list[Any]()
    known = weakref.ref(card)
    with held_up():
        shown(card, published).update()
        del card
        assert known() is None
    background.close()
    assert len(published) == 1


def test_what_is_to_be_called_later_is_called_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    called, done, begun = list[str](), threading.Event(), time.monotonic()
    monkeypatch.setattr(background._threads._callers, "call", lambda run: run())  # several threads know no order
    with held_up(), monkeypatch.context() as at_once:
        at_once.setattr(background, "time", SimpleNamespace(monotonic=lambda: begun))
        background.in_background(lambda: called.append("last"), 0.03)
        background.in_background(lambda: called.append("second"), 0.02)
        background.in_background(lambda: called.append("cancelled"), 0.01).cancel()
        background.in_background(lambda: called.append("first"))
        background.in_background(done.set, 0.04)
    assert done.wait(10) and called == ["first", "second", "last"]
    assert time.monotonic() - begun >= 0.04


def test_closing_does_what_has_been_asked_and_not_what_is_for_later() -> None:
    called = list[int]()
    for i in range(20):
        background.in_background(lambda i=i: called.append(i))
    background.in_background(lambda: called.append(-1), 600)
    background.close()
    assert sorted(called) == list(range(20))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("cellmesh-background")]
    again = threading.Event()
    background.in_background(again.set)
    assert again.wait(10), "what comes later has new ones"


def test_one_thread_does_for_all_what_they_wait_for_and_raises_there() -> None:
    did, raised, met = set[threading.Thread](), list[str](), threading.Barrier(5)

    def fail() -> None:
        raise KeyError("there")

    def ask() -> None:
        met.wait(10)
        background.by_one_thread(lambda: did.add(threading.current_thread()))
        try:
            background.by_one_thread(fail)
        except KeyError as error:
            raised.append(str(error))

    askers = [threading.Thread(target=ask) for _ in range(5)]
    for thread in askers:
        thread.start()
    for thread in askers:
        thread.join(10)
    assert len(did) == 1 and not did & {*askers, threading.main_thread()} and raised == ["'there'"] * 5
    background.by_one_thread(lambda: did.add(threading.current_thread()))
    assert threading.main_thread() in did, "which is what ipykernel has a socket for anyway"
