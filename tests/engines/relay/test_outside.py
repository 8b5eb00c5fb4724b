"""What the engine's process makes of a line by Ray Client that breaks; with something in the place of the process that
has Ray Client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.waiting import wait_until

from cellmesh.engines.fake_engine import FakeEngine
from cellmesh.engines.interface import Ended, Event, Facts, Gone, Notice, Outcome, Parcel
from cellmesh.engines.ray import client, outside
from cellmesh.engines.ray.client import Begin, Over
from cellmesh.engines.ray.joining import NotServed
from cellmesh.engines.ray.outside import GIVE, OutsideEngine
from cellmesh.engines.relay.submitter import Submitter
from cellmesh.exceptions import EngineUnreachableError

ADDRESS = "ray://head:10001"


class Cluster:
    """A relay on a fake engine, and the processes that lead to it."""

    def __init__(self) -> None:
        self.engine = FakeEngine(lambda data, blobs: Outcome(data))
        self.there = Submitter(self.engine)
        self.engine.connect("fake:", {}, self.there.tell)
        self.changed = threading.Condition()
        self.processes: list[Process] = []
        self.n_not_served = 0  # first connections that come to nothing
        self.has_ended = False
        self.is_reached = True
        self.slow = set[int]()  # lanes on which answers take their time

    def begin(self, begin: Begin) -> Process:
        """One more."""
        self.processes.append(Process(self, begin))
        return self.processes[-1]

    def break_line(self) -> None:
        """That of the last one."""
        with self.changed:
            self.processes[-1].is_over = True
            self.changed.notify_all()


class Process:
    """In the place of a `ClientProcess`."""

    def __init__(self, cluster: Cluster, begin: Begin) -> None:
        self._cluster, self.begin, self.is_over = cluster, begin, False

    def answer(self, lane: int, patience_s: float | None) -> Any:
        if self.begin.is_new:
            if self._cluster.n_not_served:
                self._cluster.n_not_served -= 1
                return NotServed("no process")
            return Facts("ray"), self._cluster.engine.nodes()
        if not self._cluster.is_reached:
            return EngineUnreachableError("refused")
        return Over("the relay has ended") if self._cluster.has_ended else None

    def ask(self, lane: int, request: Any, is_slow: Callable[[], None]) -> Any:
        cluster = self._cluster
        with cluster.changed:
            if self.is_over:
                raise EOFError
            if lane in cluster.slow:
                is_slow()
            if lane == GIVE:
                answer: Any = cluster.there.give(request)
                while cluster.engine.work():
                    pass
                cluster.changed.notify_all()
                return answer
            cluster.there.came(request)
            cluster.changed.wait_for(lambda: cluster.there.has_news or self.is_over)
            if self.is_over:
                raise TimeoutError
            return cluster.there.take()

    def kill(self) -> None:
        with self._cluster.changed:
            self.is_over = True
            self._cluster.changed.notify_all()

    end = kill


@contextmanager
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cluster, OutsideEngine, list[Event]]]:
    """A cluster, an engine that leads there, and what it tells."""
    cluster, engine, told = Cluster(), OutsideEngine(), list[Event]()
    monkeypatch.setattr(outside, "ClientProcess", cluster.begin)
    monkeypatch.setattr(outside, "AGAIN_S", 0.001)
    before = {*threading.enumerate()}
    engine.connect(ADDRESS, {"namespace": "lab"}, told.append)
    try:
        yield cluster, engine, told
    finally:
        engine.close()
        for thread in {*threading.enumerate()} - before:
            thread.join()


def until(told: list[Event], of: Callable[[Event], bool]) -> Event:
    """The first such event that is told."""
    return wait_until(lambda: next(filter(of, told), None))


def test_what_was_under_way_when_the_line_broke_is_told_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch) as (cluster, engine, told):
        first = engine.submit(Parcel(b"first", (), {"CPU": 1}))
        until(told, lambda event: event == Ended(first, b"first", []))
        cluster.break_line()
        second = engine.submit(Parcel(b"second", (), {"CPU": 1}))
        until(told, lambda event: event == Ended(second, b"second", []))
        assert [event for event in told if isinstance(event, Notice)] == [
            Notice(f"The line to {ADDRESS} is broken. It is tried again; what runs goes on.", "broken"),
            Notice(f"The line to {ADDRESS} is there again.", "connected"),
        ]
        assert sum(isinstance(event, Ended) for event in told) == 2
        new, again = (process.begin for process in cluster.processes)
        assert (new.is_new, again.is_new, again.name) == (True, False, new.name)


def test_a_line_that_takes_its_time_is_slow_until_both_lanes_have_had_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected(monkeypatch) as (cluster, engine, told):
        cluster.slow.add(GIVE)
        first = engine.submit(Parcel(b"first", (), {"CPU": 1}))
        until(told, lambda event: event == Ended(first, b"first", []))
        until(told, lambda event: event == Notice(line="connected"))
        lines = [event.line for event in told if isinstance(event, Notice)]
        assert lines == ["slow", "connected"]


def test_a_relay_that_has_ended_is_an_engine_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch) as (cluster, _, told):
        cluster.has_ended = True
        cluster.break_line()
        assert until(told, lambda event: isinstance(event, Gone)) == Gone("the relay has ended")


def test_a_line_that_stays_broken_is_tried_for_as_long_as_the_relay_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch) as (cluster, _, told):
        cluster.is_reached = False
        cluster.break_line()
        wait_until(lambda: len(cluster.processes) > 3)
        assert not any(isinstance(event, Gone) for event in told)
        monkeypatch.setattr(outside, "UNASKED_S", 0.0)
        gone = until(told, lambda event: isinstance(event, Gone))
        assert isinstance(gone, Gone) and "has not answered for" in gone.reason


@pytest.mark.parametrize("n", [outside.TRIES - 1, outside.TRIES])
def test_a_first_connection_that_is_not_served_is_tried_again(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    cluster, engine = Cluster(), OutsideEngine()
    cluster.n_not_served = n
    monkeypatch.setattr(outside, "ClientProcess", cluster.begin)
    try:
        if n < outside.TRIES:
            assert engine.connect(ADDRESS, {}, lambda event: None) == Facts("ray")
        else:
            with pytest.raises(EngineUnreachableError, match="no process"):
                engine.connect(ADDRESS, {}, lambda event: None)
        assert len(cluster.processes) == outside.TRIES
        assert all(process.is_over for process in cluster.processes[:n])
        assert len({process.begin.name for process in cluster.processes}) == 1
    finally:
        engine.close()
        for thread in threading.enumerate():
            if thread.name == "cellmesh-relay":
                thread.join()


def test_a_refusal_is_told_while_ray_still_cleans_up_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.001)
    told, is_told = list[NotServed](), threading.Event()

    def tell(what: NotServed) -> None:
        told.append(what)
        is_told.set()

    watch = threading.Thread(
        target=client.watch_for_refusal, args=(threading.get_ident(), ADDRESS, threading.Event(), tell)
    )
    watch.start()
    try:
        raise ConnectionAbortedError("Initialization failure from server:\nTraceback\nRuntimeError: it has died")
    except ConnectionAbortedError:
        assert is_told.wait(10.0)
    watch.join()
    assert "no process for this program: RuntimeError: it has died" in str(told[0])


@pytest.mark.parametrize("address", ["ray://head", "ray://", "ray://head:port"])
def test_an_address_has_a_port(address: str) -> None:
    with pytest.raises(EngineUnreachableError, match=r"has no port: it is ray://HOST:PORT.*10001"):
        OutsideEngine().connect(address, {}, lambda event: None)
