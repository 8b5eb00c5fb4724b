"""Who is waited for when a session ends, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from cellmesh.scheduler.local_scheduler import children
from cellmesh.scheduler.system import processes


class Session:
    """A segment with workers, and a loop; workers end after so many calls of its handlers."""

    def __init__(self, **ends_after: int | None) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._ends_after = ends_after
        self.workers: dict[int, str] = {}
        self.has_ended, self.now, self.n_calls = False, 100.0, 0
        for pid, name in enumerate(ends_after, 1):
            self.workers[pid] = name
            self.rows[name] = {"pid": pid, "state": "idle", "running_calls": 0}

    def clients(self) -> list[dict[str, Any]]:
        return list(self.rows.values())

    def end_session(self) -> None:
        self.has_ended = True

    def call_handlers(self, timeout_s: float) -> None:
        assert self.has_ended
        self.n_calls += 1
        ended = [pid for pid, name in self.workers.items() if self._ends_after[name] == self.n_calls]
        for pid in ended:
            del self.workers[pid]
        if not ended:
            self.now += timeout_s


def leave(session: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(children.time, "monotonic", lambda: session.now)
    return children.let_leave(session, session, session.workers)


def test_who_runs_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(first=1, second=2)
    assert leave(session, monkeypatch) == [] and not session.workers and session.now == 100


def test_who_does_not_end_is_named_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(first=1, hangs=None)
    assert leave(session, monkeypatch) == [2] and session.now == pytest.approx(100 + children.LEAVE_S)


@pytest.mark.parametrize("runs", [{"state": "busy"}, {"state": "actor", "running_calls": 1}])
def test_who_runs_something_has_a_moment(runs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(works=None)
    session.rows["works"].update(runs)
    assert leave(session, monkeypatch) == [] and session.now == pytest.approx(100 + children.FINISH_S)


def test_who_has_just_finished_leaves_like_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session(works=2)
    session.rows["works"]["state"] = "busy"
    calls = session.call_handlers

    def finish(timeout_s: float) -> None:
        session.rows["works"]["state"] = "starting"
        calls(timeout_s)

    session.call_handlers = finish
    assert leave(session, monkeypatch) == [] and not session.workers


def test_who_waits_for_what_will_not_come_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(waits=1)
    session.rows["waits"]["state"] = "blocked"
    killed: list[tuple[int, bool]] = []
    monkeypatch.setattr(processes, "kill_group", lambda pid: killed.append((pid, session.has_ended)))
    assert leave(session, monkeypatch) == [] and killed == [(1, False)]
