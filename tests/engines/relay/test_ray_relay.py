"""The relay's actor; with a fake engine in it, and no Ray."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cellmesh.engines.fake_engine import FakeEngine
from cellmesh.engines.interface import Ended, Event, Facts, Notice, Outcome, Parcel
from cellmesh.engines.ray import relay
from cellmesh.engines.ray.relay import Relay
from cellmesh.engines.relay.home import RelayEngine


class Engine(FakeEngine):
    """In the place of Ray's."""

    def __init__(self) -> None:
        super().__init__(lambda data, blobs: Outcome(data))

    def begin(self, ray: Any, tell: Callable[[Event], None]) -> None:
        self.connect("fake:", {}, tell)


class Home(RelayEngine):
    """What has it do things."""

    def open(self, address: str, options: Any) -> Any:
        return Facts("ray"), []

    def close(self) -> None: ...


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the relay has killed itself."""
    is_killed = threading.Event()

    def kill(actor: str) -> None:
        assert actor == "me"
        is_killed.set()

    ray = SimpleNamespace(kill=kill, get_runtime_context=lambda: SimpleNamespace(current_actor="me"))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(relay, "RayEngine", Engine)
    return is_killed


@pytest.fixture
def made(killed: threading.Event) -> Iterator[Relay]:
    """One that waits for long."""
    one = Relay()
    yield one
    with one._changed:
        one._unasked_s = 0.0
        one._changed.notify_all()
    assert killed.wait(10.0)


def test_one_that_nobody_asks_ends(killed: threading.Event) -> None:
    Relay(0.0)
    assert killed.wait(10.0)


def test_one_that_is_told_to_ends(made: Relay, killed: threading.Event) -> None:
    made.end()
    assert killed.is_set()


def test_who_asks_has_it_stay(made: Relay) -> None:
    for ask in (lambda: made.give(Home(Engine.can)._calls.batch()), lambda: made.take(0)):
        made._submitter.tell(Notice("news"))  # else it waits
        with made._changed:
            made._asked_at = before = made._asked_at - 100.0
        ask()
        assert made._asked_at > before + 99.0


def test_who_takes_waits_for_news(made: Relay) -> None:
    home, told = Home(Engine.can), list[Event]()
    home.connect("ray://", {}, told.append)
    handle = home.submit(Parcel(b"data", (), {"CPU": 1}))
    takes = threading.Thread(target=lambda: home.take(made.take(home.n_come)))
    takes.start()
    home.given(made.give(home.calls()))
    assert not home.calls()
    while made._engine.work():
        pass
    takes.join()
    assert told == [Ended(handle, b"data", [])]
