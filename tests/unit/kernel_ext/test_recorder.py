"""The threads that keep the graph: their pace, and what they send to front ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.cells.registry import CellRegistry
from cellmesh.kernel_ext.graph.recorder import Pace, Recorder
from cellmesh.scheduler.ipc.link import Link
from cellmesh.scheduler.ipc.messages import ClusterNode, ClusterReply, EngineState
from msgspec import structs
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.session.current import current


def test_work_takes_its_share_of_the_time() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    at = spent = 0.0
    for _ in range(1000):
        spent += 0.004
        at += max(1 / 30, pace.wait(spent, at))
    assert spent / at == pytest.approx(0.05, rel=0.02)


def test_after_a_quiet_while_there_is_no_wait_at_first_but_credit_does_not_pile_up() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    pace.wait(0.0, 1000.0)
    assert pace.wait(0.05, 1000.0) == 0.0
    assert pace.wait(0.06, 1000.0) == pytest.approx(0.2)
    assert pace.wait(0.06, 1000.2) == pytest.approx(0.0, abs=1e-9)


def test_light_work_never_waits() -> None:
    pace = Pace(share=0.05, credit_s=1.0)
    assert not any(pace.wait(0.001 * turn, turn / 30) for turn in range(300))


def test_what_a_request_folds_is_sent_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes what has been read before the folding thread is awake, which then finds nothing to fold."""
    cm.init(num_cpus=1)
    recorder = Recorder(current(), CellRegistry())
    try:

        def read_without_a_word(buffer: np.ndarray, count: int, lost: int) -> None:
            if count:
                with recorder._backlog_lock:
                    recorder._backlog.append((buffer, count, lost))

        wanted: list[bool] = []
        monkeypatch.setattr(recorder, "_put", read_without_a_word)
        monkeypatch.setattr(recorder, "want", lambda: wanted.append(True))
        cm.get(cm.remote(lambda: 1).remote())
        wait_until(lambda: recorder._backlog)
        assert recorder.look(lambda graph: wanted)
    finally:
        recorder.stop()
        cm.shutdown()
        for thread in recorder._threads:
            thread.join()


def test_an_engine_has_its_window_and_its_dashboard_and_no_other_machine_has() -> None:
    cm.init(num_cpus=1)
    recorder = Recorder(current(), CellRegistry())
    try:
        session = current()
        session.engine = EngineState("ray", window=1000, dashboard="http://head:8265")
        here = ClusterNode("a" * 16, "s", "elm", "alive", True, {"CPU": 1.0}, {"CPU": 1.0}, {}, memory_size=1)
        there = ClusterNode("b" * 16, "s", "ray", "alive", False, {"CPU": 9.0}, {"CPU": 9.0}, {})
        with recorder.lock:
            recorder._note_nodes(ClusterReply(0, [here, there]))
        labels = {label.name: (label.window, label.dashboard) for label in recorder.samples.nodes.values()}
        assert labels == {"elm": (0, ""), "ray": (1000, "http://head:8265")}
    finally:
        recorder.stop()
        cm.shutdown()
        for thread in recorder._threads:
            thread.join()


def test_an_engines_row_says_what_has_become_of_the_line_to_it() -> None:
    cm.init(num_cpus=1)
    recorder = Recorder(current(), CellRegistry())
    try:
        session, begun = current(), recorder.unix_time(0.0)

        def rows(state: EngineState, *nodes: ClusterNode) -> list[tuple[str, str, float, str]]:
            """Of the engine, one for each life of its process."""
            session.engine = state
            recorder._hear(state)
            recorder._hear(ClusterReply(0, [here, *nodes]))
            labels = [label for number, label in recorder.samples.nodes.items() if number]
            return [(label.state, label.line, label.line_since, label.dashboard) for label in labels]

        here = ClusterNode("a" * 16, "s", "elm", "alive", True, {"CPU": 1.0}, {"CPU": 1.0}, {}, memory_size=1)
        first = ClusterNode("b" * 16, "s", "ray", "alive", False, {"CPU": 9.0}, {"CPU": 9.0}, {})
        second, gone = structs.replace(first, node="c" * 16), structs.replace(first, state="dead")
        up = EngineState("ray", window=1000, dashboard="http://head", line="connected", since=begun + 1)
        broken = structs.replace(up, line="broken", since=begun + 723)
        lost = structs.replace(up, line="lost", since=begun + 1323)
        again = structs.replace(up, since=begun + 1400)
        assert rows(up, first) == [("alive", "connected", 1.0, "http://head")]
        assert rows(broken, first) == [("alive", "broken", 723.0, "http://head")]
        assert rows(lost, gone) == [("dead", "lost", 1323.0, "http://head")]
        old = ("dead", "", 0.0, "http://head")
        recorder._hear(again)  # before the cluster tells of its next life
        assert recorder.samples.nodes[1].line == ""
        assert rows(again, gone, second) == [old, ("alive", "connected", 1400.0, "http://head")]
    finally:
        recorder.stop()
        cm.shutdown()
        for thread in recorder._threads:
            thread.join()


def test_machines_may_be_told_of_as_soon_as_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a session that goes on: another machine comes or goes just as the notebook begins to listen."""
    here = ClusterNode("a" * 16, "s", "elm", "alive", True, {"CPU": 1.0}, {"CPU": 1.0}, {})
    listens = Link.add_listener

    def hears_at_once(link: Link, listener: Any) -> Any:
        forget = listens(link, listener)
        listener(ClusterReply(0, [here]))
        return forget

    cm.init(num_cpus=1)
    monkeypatch.setattr(Link, "add_listener", hears_at_once)
    recorder = Recorder(current(), CellRegistry())
    try:
        assert [label.name for label in recorder.samples.nodes.values()] == ["elm"]
    finally:
        recorder.stop()
        cm.shutdown()
        for thread in recorder._threads:
            thread.join()
