"""The controller of an experiment: events in, actions out.

It knows no clock, no process and no file. `host.py` performs its actions and hands it what happens. The journal is the
list of those events, so a controller that is given them again is where the first one was. The policies are apart: a
scheduler says which trials go on, stoppers which results are enough, a searcher what is tried; the host asks that one,
as it may be slow.

Room is a number: how many trials may run at a time. Where each trial takes resources of its own, what the machines have
bounds them, too (`room.py`). A process that waits inside a report for longer than a moment does not count: it waits
without a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..exceptions import in_words, where
from ..records import Asked, Capacity, Ended, Event, NoneLeft, Opened, Reported, Suggested
from ..schedulers.protocol import Decisions, Exploit, Pause, Resume, Scheduler, Stop
from . import texts
from .actions import Action, Answer, Finish, Forget, Interrupt, Launch, Plan, Suggest, TellEnd, TellResult, Warn
from .asking import Asking
from .keeping import Keeping
from .metric import has_metric, never_reported
from .processes import Processes
from .room import in_words as in_resources
from .trial import ERROR, LEAVES, NONE, PAUSED, RUNNING, WAITS, WORKS, Trial

MAX_HELD = 64  # processes that wait inside a report; beyond that a paused trial without a checkpoint begins again

T = TypeVar("T")


class Controller(Processes):
    """The state of an experiment.

    Parameters
    ----------
    plan : Plan
    scheduler : Scheduler
        `begin` has been called on it.
    enough : callable, optional
        Says after each result of a trial why the trial has done enough, or "".
    enough_for_all : callable, optional
        Says after each result why the experiment has, or "".
    """

    capacity: int
    n_over: int
    closing: str
    is_failed: bool
    is_over: bool

    def __init__(
        self,
        plan: Plan,
        scheduler: Scheduler,
        enough: Callable[[int, Mapping[str, Any]], str] | None = None,
        enough_for_all: Callable[[], str] | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan
        self.scheduler = scheduler
        self.capacity = 0
        self.n_over = 0
        self.closing = ""  # why the experiment ends
        self.is_failed = False
        self.is_over = False
        self._enough, self._enough_for_all = enough, enough_for_all
        self._asking = Asking()
        self._keeping = Keeping(plan, self._do)
        self._has_told_no_more = False
        self._is_settled = False  # the event has changed nothing that `_go_on` looks at
        self._has_warned_of_metric = self._has_warned_of_checkpoints = False
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            Opened: self._on_opened,
            Suggested: self._on_suggested,
            NoneLeft: self._on_none_left,
            Reported: self._on_reported,
            Ended: self._on_ended,
            Asked: self._on_asked,
            Capacity: self._on_capacity,
        }

    def step(self, event: Event) -> list[Action]:
        """What is to be done after an event, in that order."""
        if self.is_over and not isinstance(event, Opened):
            # Only a process that was left behind can still have something to say.
            return [Answer(event.trial, event.attempt, "stop")] if isinstance(event, Reported) else []
        self._is_settled = False
        self._handlers[type(event)](event)
        if not self._is_settled:
            self._go_on()
        actions, self._actions = self._actions, []
        return actions

    # ---- events
    def _on_opened(self, event: Opened) -> None:
        """Another controller goes on. No process of the last one is there, and what the last one cut off is taken up
        again.
        """
        self.capacity = 0  # it says next what there is
        self._asking.restart()
        self.closing, self.is_failed, self.is_over = "", False, False
        for trial in self.trials:
            self._has(trial, NONE)
        for trial in reversed(self.trials):
            if trial.state is RUNNING:
                self._move(trial, "again", "its controller has ended")
                self.waiting.appendleft(trial)
            elif trial.is_cut or (trial.state is ERROR and event.errored):
                self._reopen(trial, event.errored == "restart")

    def _reopen(self, trial: Trial, from_the_start: bool) -> None:
        if trial.state is ERROR and from_the_start:
            self._keeping.goes_on_from(trial, None)
        self._move(trial, "reopen", "its experiment goes on")
        trial.is_cut, trial.n_failures = False, 0
        self.n_over -= 1
        self.waiting.appendleft(trial)

    def _on_suggested(self, event: Suggested) -> None:
        self._asking.answered()
        if self.closing:
            return
        assert event.trial == len(self.trials), f"trial {event.trial} comes after {len(self.trials)} others"
        trial = Trial(event.trial, event.config, event.code, event.resources)
        self.trials.append(trial)
        self.waiting.append(trial)
        self._decide(self._ask(self.scheduler.on_trial_add, [], trial.number, trial.config))
        if trial.resources is not None and not trial.is_over and not self.room.could_fit(trial.resources):
            self._give_up(trial, f"no machine has what it takes: {in_resources(trial.resources)}")

    def _on_none_left(self, event: NoneLeft) -> None:
        self._asking.none_left(event.later)

    def _on_capacity(self, event: Capacity) -> None:
        if self.capacity and not event.n:
            self._do(Warn("no machine has what a trial takes any more: the experiment waits for one that has"))
        self.capacity = event.n
        self.room.set(event.nodes)

    def _on_reported(self, event: Reported) -> None:
        trial = self.trials[event.trial]
        if not self.hears(event):
            self._do(Answer(event.trial, event.attempt, "stop"))
            if event.attempt == trial.attempt and trial.process is LEAVES:
                self._is_ignored(trial)
            return
        self._has(trial, WAITS)
        trial.last = event.result
        if event.checkpoint is not None:
            self._keeping.keep(trial, event.checkpoint)
        decisions: Decisions = ()
        had_more = self._asking.has_more
        is_heard = has_metric(event.result, self.plan.metric)
        if is_heard:
            trial.has_metric = True
            self._asking.hear()
            self._do(TellResult(trial.number, event.result))
        why = "it has reported done" if event.result.get("done") is True else ""
        if self._enough is not None and not why:
            why = self._ask(self._enough, "", trial.number, event.result)
        if why and not trial.is_over:
            self._end(trial, why)
        elif is_heard and not trial.is_over:
            decisions = self._ask(self.scheduler.on_trial_result, [], trial.number, event.result)
            self._decide(decisions)
        if self._enough_for_all is not None and not self.closing and (why := self._ask(self._enough_for_all, "")):
            self._close(why)
        if trial.process is WAITS:
            if trial.state is RUNNING:
                self._answer(trial, "go")
                self._is_settled = not decisions and not self.closing and self._asking.has_more is had_more
            elif trial.state is PAUSED:  # as it was asked to while it worked, or just now
                self._let_go(trial)

    def _on_ended(self, event: Ended) -> None:
        trial = self.trials[event.trial]
        if event.attempt != trial.attempt or trial.process is NONE:
            return
        was_leaving = trial.process is LEAVES
        self._has(trial, NONE)
        if event.checkpoint is not None:
            if event.outcome == "paused" or trial.is_over:
                self._keeping.keep(trial, event.checkpoint)
            else:  # it goes on from another's
                self._do(Forget(event.checkpoint))
        if trial.is_over:
            return
        if event.outcome in ("failed", "lost"):
            self._fail(trial, event.error)
        elif event.outcome == "gone":  # no fault of the trial's
            if trial.state is RUNNING:
                self._move(trial, "again", event.error)
                self.waiting.appendleft(trial)
        elif not was_leaving:
            self._end(trial, "" if event.outcome == "done" else "it was stopped")

    def _on_asked(self, event: Asked) -> None:
        why = event.why or f"{event.what} was asked for"
        trials = self.trials if event.trial < 0 else self.trials[event.trial : event.trial + 1]
        if event.what == "stop":
            for trial in trials:
                if trial.is_over and trial.process is LEAVES:  # asked for again, as it has not ended yet
                    self._do(Interrupt(trial.number, trial.attempt, by_force=True))
        if event.trial < 0 and event.what == "stop":
            self._close(why, event.failed)
            return
        for trial in trials:
            if trial.is_over:
                continue
            if event.what == "stop":
                self._end(trial, why, at_once=True)
            elif event.what == "pause":
                self._pause(trial, why, "user")
            elif trial.paused_by == "user":
                self._resume(trial)

    # ---- decisions
    def _ask(self, ask: Callable[..., T], otherwise: T, *arguments: Any) -> T:
        """Ask what may be the user's. If it fails, the experiment cannot go on."""
        try:
            return ask(*arguments)
        except Exception as error:
            self._close(f"{getattr(ask, '__qualname__', ask)} failed: {in_words(error)}{where(error)}", failed=True)
            return otherwise

    def _decide(self, decisions: Decisions) -> None:
        for decision in decisions:
            trial = self.trials[decision.trial]
            if trial.is_over:
                continue
            if isinstance(decision, Stop):
                self._end(trial, "the scheduler has stopped it", by_scheduler=True)
            elif isinstance(decision, Pause):
                self._pause(trial, "the scheduler has paused it", "scheduler")
            elif isinstance(decision, Resume):
                if trial.paused_by != "user":
                    self._resume(trial)
            else:
                self._exploit(trial, decision)

    def _pause(self, trial: Trial, why: str, by: str) -> None:
        if trial.state is not PAUSED:
            self._move(trial, "pause", why)
        elif by == "scheduler":
            return
        trial.paused_by = by
        if trial.process is WAITS:
            self._let_go(trial)

    def _let_go(self, trial: Trial) -> None:
        """A paused trial whose process waits: it may end if the trial can go on without it, else it is held."""
        self._has(trial, WAITS)  # which is not busy any more
        if self.plan.can_save or self._keeping.is_saved(trial):
            self._answer(trial, "pause")
            return
        has_group = self.plan.takes_group if trial.resources is None else "bundles" in trial.resources
        if has_group or len(self.held) > MAX_HELD:
            many = f"{MAX_HELD} processes of paused trials wait already"
            why = "a process that waits keeps its placement group from others" if has_group else many
            self._do(Warn(texts.begins_again(trial.number, why)))
            self._answer(trial, "pause")

    def _resume(self, trial: Trial) -> None:
        if trial.state is not PAUSED:
            return
        self._move(trial, "resume", "")
        n_before = sum(t.attempt > 0 for t in self.waiting)
        self.waiting.insert(n_before, trial)
        if trial.process is WORKS:  # it was paused since its last report, and has its room still
            self._begin(trial)

    def _exploit(self, trial: Trial, decision: Exploit) -> None:
        if decision.donor == trial.number:  # it is what it was, but for its configuration
            trial.config, trial.is_changed = decision.config, True
            return
        checkpoint = self.trials[decision.donor].checkpoint
        if checkpoint is None:
            if not self._has_warned_of_checkpoints:
                self._has_warned_of_checkpoints = True
                self._do(Warn(texts.goes_on_as_it_is(trial.number, decision.donor)))
            return
        trial.config, trial.is_changed = decision.config, True
        self._keeping.goes_on_from(trial, checkpoint)
        if trial.state is RUNNING:
            self._move(trial, "again", f"it goes on from trial {decision.donor}")
            self.waiting.appendleft(trial)
        self._dismiss(trial)

    def _end(self, trial: Trial, why: str, at_once: bool = False, by_scheduler: bool = False) -> None:
        """It has done enough. `at_once`: a process that works is not waited for until its next report."""
        self._move(trial, "end", why)
        self._dismiss(trial, at_once)
        self._is_over_now(trial, failed=False, by_scheduler=by_scheduler)

    def _fail(self, trial: Trial, error: str) -> None:
        trial.n_failures += 1
        if trial.n_failures <= self.plan.max_failures or self.plan.max_failures < 0:
            if trial.state is RUNNING:
                self._move(trial, "again", error)
                at = trial.iteration
                # Whoever gets further goes on at once, as if nothing had been; whoever does not lets the others pass.
                (self.waiting.appendleft if at > trial.failed_at else self.waiting.append)(trial)
                trial.failed_at = at
            return
        self._give_up(trial, error)

    def _give_up(self, trial: Trial, error: str) -> None:
        self._move(trial, "fail", error)
        self._is_over_now(trial, failed=True)
        if self.plan.fail_fast:
            self._close(f"trial {trial.number} has failed: {error}", failed=True)

    def _is_over_now(self, trial: Trial, failed: bool, by_scheduler: bool = False) -> None:
        self.n_over += 1
        self._asking.hear()
        self._do(TellEnd(trial.number, trial.last, failed, by_scheduler))
        self._look_for_metric(trial)
        if not by_scheduler and not self.closing:
            self._decide(self._ask(self.scheduler.on_trial_end, [], trial.number, trial.last, failed))

    # ---- the experiment
    def _close(self, why: str, failed: bool = False) -> None:
        """Everything ends."""
        if self.closing:
            return
        self.closing, self.is_failed = why, failed
        for trial in self.trials:
            if not trial.is_over:
                trial.is_cut = True
                self._end(trial, why, at_once=True)

    def _go_on(self) -> None:
        """Launch what there is room for, ask for what may come next, and see whether anything is left."""
        while not self.closing:
            self._fill()
            if self._asking.has_more is False and not self._asking.n_open and not self._has_told_no_more:
                self._has_told_no_more = True
                self._decide(self._ask(self.scheduler.on_no_more_trials, []))
            elif not self._is_starved():
                break
            elif not self._unstarve():
                break
        is_done = self.closing or (self._asking.has_more is False and self.n_over == len(self.trials))
        if is_done and not self.busy:  # a suggestion that comes later is not heard
            self.is_over = True
            self._do(Finish(self.closing, self.is_failed))

    def _fill(self) -> None:
        while len(self.busy) < self.capacity:
            trial = self.next_to_run()
            if trial is None:
                break
            self._begin(trial)
            if self.closing:
                return
            if trial.process is WAITS:
                self._answer(trial, "go")
            else:
                trial.attempt += 1
                trial.ran_with = trial.config
                trial.n_ignored = 0
                self._has(trial, WORKS)
                self._do(Launch(trial.number, trial.attempt))
        room = self.capacity - len(self.busy)
        if self.room.nodes:  # how many more there is room for hangs on what they will take
            room = min(room, 1)
        asking = self._asking
        while asking.has_more and asking.n_open + len(self.waiting) < room + self.plan.ahead and self.capacity:
            asking.ask()
            self._do(Suggest())

    def _begin(self, trial: Trial) -> None:
        self._move(trial, "launch", "", is_noted=trial.process is not NONE)  # else `Launch` says it
        self._ask(self.scheduler.on_trial_begin, None, trial.number)

    def _is_starved(self) -> bool:
        return (
            not self.busy
            and not self.waiting
            and not self._asking.n_open
            and not self._asking.has_more
            and self.capacity > 0
            and (self._asking.has_more is None or self.n_over < len(self.trials))
            and not any(t.paused_by == "user" for t in self.trials)
        )

    def _unstarve(self) -> bool:
        """Whether the scheduler knew what to do; if it did not, the experiment cannot go on, and ends."""
        before = len(self._actions)
        self._decide(self._ask(self.scheduler.on_starved, []))
        if len(self._actions) > before:
            return True
        self._close(texts.starved(len(self.trials) - self.n_over), failed=True)
        return False

    def _look_for_metric(self, trial: Trial) -> None:
        """Say after the first trial that the metric is not among what it reports."""
        if trial.has_metric or self.plan.metric is None or self._has_warned_of_metric:
            return
        if trial.last is None and (trial.state is ERROR or trial.why):  # it has not come so far
            return
        self._has_warned_of_metric = True
        text = never_reported(trial.number, self.plan.metric, trial.last or {})
        if self.plan.needs_metric and not self.closing:
            self._close(f"the scheduler or the searcher decides by the metric, and {text}", failed=True)
        else:
            self._do(Warn(text))
