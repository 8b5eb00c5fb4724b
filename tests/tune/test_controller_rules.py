"""Rules of the controller, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tune.simulated import DEFINITION

from cellmesh.tune import FIFO
from cellmesh.tune.control import actions as c
from cellmesh.tune.control.controller import Controller
from cellmesh.tune.control.processes import MAX_IGNORED, MAX_OVERTAKEN
from cellmesh.tune.control.trial import Process, State
from cellmesh.tune.records import Asked, Capacity, Ended, NoneLeft, Opened, Reported, Saved, Suggested
from cellmesh.tune.schedulers.protocol import Decision, Exploit, Pause, Resume, Scheduler, Stop

OPENED = Opened(at=0.0, version=1, name="x", plan={}, definition=DEFINITION)


class Says(Scheduler):
    """Decides what the test has put in."""

    def __init__(self) -> None:
        self.next: list[Decision] = []
        self.ended: list[tuple[int, bool]] = []
        self.fails_in = ""

    def _said(self, where: str) -> list[Decision]:
        if where == self.fails_in:
            raise ZeroDivisionError("by zero")
        said, self.next = self.next, []
        return said

    def on_trial_add(self, trial: int, config: Any) -> list[Decision]:
        return self._said("on_trial_add")

    def on_trial_begin(self, trial: int) -> None:
        self._said("on_trial_begin")

    def on_trial_result(self, trial: int, result: Any) -> list[Decision]:
        return self._said("on_trial_result")

    def on_trial_end(self, trial: int, result: Any, failed: bool) -> list[Decision]:
        self.ended.append((trial, failed))
        return self._said("on_trial_end")


class Fed:
    """A controller with so many trials, and what it has said last."""

    def __init__(
        self, n: int = 2, capacity: int = 1, scheduler: Scheduler | None = None, own: Sequence[float] = (), **plan: Any
    ) -> None:
        """`own`: so many CPUs each trial takes, on a machine of four."""
        self.control = Controller(c.Plan(metric="score", **plan), scheduler or FIFO())
        self.said: list[c.Action] = []
        self.do(Capacity(at=0.0, n=1000, nodes=[{"CPU": 4.0}]) if own else Capacity(at=0.0, n=capacity))
        for trial in range(len(own) or n):
            resources = {"num_cpus": own[trial]} if own else None
            self.do(Suggested(at=0.0, trial=trial, config={"x": trial}, resources=resources))
        self.do(NoneLeft(at=0.0))

    def do(self, event: Any) -> list[c.Action]:
        self.said = self.control.step(event)
        return self.said

    def report(self, trial: int = 0, at: int = 1, attempt: int = 1, saved: str = "", **metrics: Any) -> list[c.Action]:
        result = {"score": 1.0, "training_iteration": at, **metrics}
        checkpoint = Saved(saved, at, 0.0) if saved else None
        return self.do(Reported(at=0.0, trial=trial, attempt=attempt, result=result, checkpoint=checkpoint))

    def end(self, outcome: Any = "done", trial: int = 0, attempt: int = 1) -> list[c.Action]:
        return self.do(Ended(at=0.0, trial=trial, attempt=attempt, outcome=outcome, error="it broke"))

    def states(self) -> list[str]:
        return [trial.state.value for trial in self.control.trials]

    def launched(self) -> list[tuple[int, int]]:
        return [(a.trial, a.attempt) for a in self.said if isinstance(a, c.Launch)]


def test_a_trial_whose_process_died_goes_on_before_others_begin() -> None:
    fed = Fed(max_failures=-1)
    fed.report(saved="a")
    fed.end("lost")
    assert fed.launched() == [(0, 2)]
    fed.end("lost", attempt=2)  # no further than before: the others are let pass
    assert fed.launched() == [(1, 1)] and fed.states() == ["PENDING", "RUNNING"]


@pytest.mark.parametrize("max_failures", [0, 1, 2])
def test_so_many_failures_and_no_more(max_failures: int) -> None:
    fed = Fed(1, max_failures=max_failures)
    for attempt in range(1, max_failures + 1):
        fed.end("failed", attempt=attempt)
        assert fed.launched() == [(0, attempt + 1)]
    fed.end("failed", attempt=max_failures + 1)
    assert fed.states() == ["ERROR"] and fed.control.is_over


def test_the_loss_of_a_machine_is_no_failure() -> None:
    fed = Fed()
    for attempt in range(1, 5):
        fed.end("gone", attempt=attempt)
        assert fed.launched() == [(0, attempt + 1)] and fed.control.trials[0].n_failures == 0


def test_whom_a_result_resumes_is_launched_at_once() -> None:
    says = Says()
    fed = Fed(2, capacity=2, scheduler=says)
    says.next = [Pause(1)]
    fed.report(1, saved="b")
    fed.end("paused", 1)
    says.next = [Resume(1)]
    fed.report(0)
    assert fed.launched() == [(1, 2)] and fed.states() == ["RUNNING", "RUNNING"]


def test_a_searcher_that_waits_for_a_result_is_asked_after_it() -> None:
    control = Controller(c.Plan(metric="score"), FIFO())
    asked = control.step(Capacity(at=0.0, n=2)).count(c.Suggest())
    asked += control.step(Suggested(at=0.0, trial=0, config={})).count(c.Suggest())
    for _ in range(asked - 1):
        assert c.Suggest() not in control.step(NoneLeft(at=0.0, later=True))
    result = {"score": 1.0, "training_iteration": 1}
    assert c.Suggest() in control.step(Reported(at=0.0, trial=0, attempt=1, result=result))


def test_what_comes_late_is_not_heard() -> None:
    fed = Fed(max_failures=3)
    fed.end("failed")
    late = Reported(at=0.0, trial=0, attempt=1, result={"score": 9.0})
    assert not fed.control.hears(late)
    assert fed.do(late) == [c.Answer(0, 1, "stop")] and fed.control.trials[0].last is None
    fed.end("done", attempt=1)
    assert fed.states()[0] != "TERMINATED"


def test_no_more_run_than_there_is_room_for_and_a_process_that_leaves_counts() -> None:
    fed = Fed(3, capacity=1)
    assert fed.states() == ["RUNNING", "PENDING", "PENDING"]
    fed.report(done=True)
    assert fed.states() == ["TERMINATED", "PENDING", "PENDING"]
    fed.end("stopped")
    assert fed.launched() == [(1, 1)]


def test_what_was_cut_off_goes_on_and_what_has_ended_does_not() -> None:
    fed = Fed(3, capacity=3)
    fed.report(0, done=True)
    fed.report(1, saved="a")
    fed.do(Asked(at=0.0, what="stop"))
    assert fed.states() == ["TERMINATED"] * 3
    fed.do(OPENED)
    assert not fed.launched(), "what there is room for has not been said yet"
    fed.do(Capacity(at=0.0, n=3))
    assert fed.states() == ["TERMINATED", "RUNNING", "RUNNING"]
    assert sorted(fed.launched()) == [(1, 2), (2, 2)] and fed.control.trials[1].checkpoint == Saved("a", 1, 0.0)


@pytest.mark.parametrize(("errored", "saved"), [("", None), ("resume", Saved("a", 1, 0.0)), ("restart", None)])
def test_what_has_failed_goes_on_where_that_is_asked_for(errored: Any, saved: Saved | None) -> None:
    fed = Fed(1)
    fed.report(saved="a")
    fed.end("failed")
    fed.do(Opened(at=0.0, version=1, name="x", plan={}, definition=DEFINITION, errored=errored))
    fed.do(Capacity(at=0.0, n=1))
    assert fed.states() == ["RUNNING" if errored else "ERROR"] and fed.control.is_over == (not errored)
    if errored:
        assert fed.control.trials[0].checkpoint == saved


def test_who_is_paused_by_the_user_is_resumed_by_the_user() -> None:
    says = Says()
    fed = Fed(2, capacity=2, scheduler=says)
    fed.report(0)
    fed.do(Asked(at=0.0, what="pause", trial=0))
    says.next = [Resume(0)]
    fed.report(1)
    assert fed.states() == ["PAUSED", "RUNNING"]
    fed.do(Asked(at=0.0, what="resume"))
    assert fed.states() == ["RUNNING", "RUNNING"]


def test_who_is_paused_by_the_scheduler_is_not_resumed_by_the_user() -> None:
    says = Says()
    fed = Fed(2, capacity=2, scheduler=says)
    says.next = [Pause(0)]
    fed.report(0)
    fed.do(Asked(at=0.0, what="resume"))
    assert fed.states() == ["PAUSED", "RUNNING"]


def test_a_paused_trial_without_a_checkpoint_is_held_and_goes_on_in_its_process() -> None:
    fed = Fed(2)
    fed.do(Asked(at=0.0, what="pause", trial=0))
    fed.report(0)
    assert fed.control.trials[0].process is Process.WAITS and fed.launched() == [(1, 1)]
    fed.do(Asked(at=0.0, what="resume", trial=0))
    fed.end(trial=1)
    assert c.Answer(0, 1, "go") in fed.said and fed.launched() == []
    assert c.Note(0, State.RUNNING, "") in fed.said


def test_a_checkpoint_that_another_trial_goes_on_from_is_kept() -> None:
    says = Says()
    fed = Fed(2, capacity=2, scheduler=says, num_to_keep=1)
    fed.report(0, saved="a", score=0.5)
    fed.report(0, at=2, saved="best", score=9.0)
    says.next = [Exploit(1, 0, {"x": -1})]
    fed.report(1)
    fed.report(0, at=3, saved="c", score=1.0)
    fed.report(0, at=4, saved="d", score=99.0)
    assert [saved.path for saved, _ in fed.control.trials[0].saved] == ["best", "d"]
    assert fed.control.checkpoints() == {"best", "d"}
    assert fed.control.trials[1].config == {"x": -1}


def test_the_best_checkpoint_is_kept_by_its_own_metric_and_mode() -> None:
    fed = Fed(1, num_to_keep=1, score_by="loss", score_mode="min")
    for at, loss in enumerate([3.0, 1.0, float("nan"), 2.0], 1):
        fed.report(at=at, saved=str(at), score=float(at), loss=loss)
    assert [saved.path for saved, _ in fed.control.trials[0].saved] == ["2", "4"]


def test_without_a_score_the_latest_checkpoint_is_kept() -> None:
    fed = Fed(1, num_to_keep=1)
    for at in range(1, 4):
        fed.report(at=at, saved=str(at), score=None)
    assert [saved.path for saved, _ in fed.control.trials[0].saved] == ["3"]


@pytest.mark.parametrize("where", ["on_trial_add", "on_trial_begin", "on_trial_result", "on_trial_end"])
def test_a_scheduler_that_fails_ends_the_experiment(where: str) -> None:
    says = Says()
    says.fails_in = where
    fed = Fed(3, scheduler=says)
    if not fed.control.closing:
        fed.report()
        fed.end()
    assert fed.control.is_failed and f"Says.{where} failed: ZeroDivisionError: by zero" in fed.control.closing
    for trial in fed.control.trials:
        if trial.process is not Process.NONE:
            fed.end("stopped", trial.number, trial.attempt)
    assert fed.control.is_over and set(fed.states()) <= {"TERMINATED"}
    says.fails_in = ""
    fed.do(OPENED)
    assert not fed.control.closing


def test_a_stopper_that_fails_ends_the_experiment() -> None:
    def enough(trial: int, result: Any) -> str:
        raise ZeroDivisionError("by zero")

    control = Controller(c.Plan(), FIFO(), enough)
    control.step(Capacity(at=0.0, n=1))
    control.step(Suggested(at=0.0, trial=0, config={}))
    said = control.step(Reported(at=0.0, trial=0, attempt=1, result={}))
    assert c.Answer(0, 1, "stop") in said and control.is_failed and "ZeroDivisionError" in control.closing


def test_a_scheduler_hears_of_failures_and_what_it_has_stopped_it_does_not() -> None:
    says = Says()
    fed = Fed(3, capacity=3, scheduler=says)
    fed.end("failed", 0)
    fed.end("done", 1)
    says.next = [Stop(2)]
    fed.report(2)
    assert says.ended == [(0, True), (1, False)]


def test_a_process_that_does_not_let_stop_pass_is_ended() -> None:
    fed = Fed(1)
    fed.report(done=True)
    for at in range(MAX_IGNORED - 1):
        assert fed.report(at=at) == [c.Answer(0, 1, "stop")]
    assert c.Interrupt(0, 1, by_force=True) in fed.report()
    assert not any(isinstance(action, c.Interrupt) for action in fed.report())


def test_stop_once_more_is_by_force() -> None:
    fed = Fed(1)
    assert c.Interrupt(0, 1) in fed.do(Asked(at=0.0, what="stop"))
    assert c.Interrupt(0, 1, by_force=True) in fed.do(Asked(at=0.0, what="stop"))
    fed.end("stopped")
    assert fed.control.is_over


def test_nothing_runs_and_nothing_can() -> None:
    says = Says()
    fed = Fed(1, scheduler=says)
    says.next = [Pause(0)]
    fed.report(saved="a")
    fed.end("paused")
    assert fed.control.is_over and "nothing runs and nothing can: 1 trials are paused" in fed.control.closing


def test_a_trial_for_which_there_is_no_room_is_overtaken_for_some_time() -> None:
    fed = Fed(own=[3, 2, 1, *([1] * (MAX_OVERTAKEN + 2))])
    large, others = fed.control.trials[1], fed.control.trials[2:]
    assert {t.number for t in fed.control.busy} == {0, 2}
    for trial in others:
        if trial.state is State.RUNNING:
            fed.do(Ended(at=0.0, trial=trial.number, attempt=1, outcome="done"))
    assert large.n_overtaken == MAX_OVERTAKEN and large.state is State.PENDING
    assert [t.number for t in fed.control.busy] == [0], "what is left is kept for it"
    fed.do(Ended(at=0.0, trial=0, attempt=1, outcome="done"))
    assert large.state is State.RUNNING


def test_a_trial_that_takes_more_than_there_is_has_failed() -> None:
    fed = Fed(own=[5, 1])
    assert [t.state for t in fed.control.trials] == [State.ERROR, State.RUNNING]
    assert fed.control.trials[0].why == "no machine has what it takes: CPU 5"
    fed = Fed(own=[5], fail_fast=True)
    assert fed.control.is_over and "CPU 5" in fed.control.closing


def test_that_no_machine_is_left_is_told_and_waited_for() -> None:
    fed = Fed(2)
    fed.do(Ended(at=0.0, trial=0, attempt=1, outcome="gone"))
    assert [a.text for a in fed.do(Capacity(at=0.0, n=0)) if isinstance(a, c.Warn)] == [
        "no machine has what a trial takes any more: the experiment waits for one that has"
    ]


def test_a_paused_trial_does_not_keep_its_placement_group() -> None:
    says = Says()
    fed = Fed(1, scheduler=says, takes_group=True)
    says.next = [Pause(0)]
    said = fed.do(Reported(at=0.0, trial=0, attempt=1, result={"score": 1, "training_iteration": 1}))
    assert c.Answer(0, 1, "pause") in said
    assert any(isinstance(a, c.Warn) and "placement group" in a.text for a in said)
