"""The trials of an experiment and their processes: who waits for room, who works, who is held. It decides nothing."""

from __future__ import annotations

from collections import deque

from ..records import Reported
from . import texts
from .actions import Action, Answer, Interrupt, Note, Warn, Word
from .room import Room
from .trial import LEAVES, NONE, PENDING, RUNNING, WAITS, WORKS, Process, Trial, next_state

MAX_IGNORED = 10  # reports after an attempt was told to end, before its process is ended


MAX_OVERTAKEN = 8  # so often others begin before a trial that takes more than there is


class Processes:
    """What has been decided of each trial and what its process does, with the actions that follow."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.waiting: deque[Trial] = deque()  # PENDING, in the order in which they go on
        self.busy: set[Trial] = set()  # whose process counts against the capacity
        self.held: set[Trial] = set()  # whose process waits beyond it
        self.room: Room = Room()
        self._actions: list[Action] = []

    def next_to_run(self) -> Trial | None:
        """The trial that is to go on next, which may be none: in their order, but for those for which there is no room
        as yet. Those are overtaken, for some time.
        """
        passed: list[Trial] = []
        for trial in self.waiting:
            if trial.process is LEAVES:
                continue
            if trial.resources is None or self.room.fits(trial.resources):
                for other in passed:
                    other.n_overtaken += 1
                return trial
            if trial.n_overtaken >= MAX_OVERTAKEN:
                break
            passed.append(trial)
        return None

    def hears(self, event: Reported) -> bool:
        """Whether a report counts; its process may be to end, and not know it yet."""
        trial = self.trials[event.trial]
        return event.attempt == trial.attempt and trial.process is WORKS

    def checkpoints(self) -> set[str]:
        """The paths of the checkpoints that trials have, or go on from."""
        own = {saved.path for trial in self.trials for saved, _ in trial.saved}
        return own | {trial.checkpoint.path for trial in self.trials if trial.checkpoint is not None}

    def _answer(self, trial: Trial, word: Word) -> None:
        self._has(trial, WORKS if word == "go" else LEAVES)
        self._do(Answer(trial.number, trial.attempt, word))

    def _dismiss(self, trial: Trial, at_once: bool = False) -> None:
        """Its process is not needed any more."""
        if trial.process is WAITS:
            self._answer(trial, "stop")
        elif trial.process is WORKS:
            self._has(trial, LEAVES)
            if at_once:
                self._do(Interrupt(trial.number, trial.attempt))

    def _is_ignored(self, trial: Trial) -> None:
        """It reports although it is to end: it did not know yet, reports a last time, or does not let `StopTrial`
        pass.
        """
        trial.n_ignored += 1
        if trial.n_ignored == MAX_IGNORED:
            self._do(Warn(texts.goes_on_reporting(trial.number)))
            self._do(Interrupt(trial.number, trial.attempt, by_force=True))

    def _has(self, trial: Trial, process: Process) -> None:
        trial.process = process
        is_held = process is WAITS and trial.state is not RUNNING  # as `is_held`, which is a call at each report
        if trial in self.busy and process is not NONE and not is_held:
            return  # as at each report
        if process is NONE or is_held:
            self.busy.discard(trial)
            self.room.give(trial.number)
        else:
            self.busy.add(trial)
            self.room.take(trial.number, trial.resources or {})
        (self.held.add if is_held else self.held.discard)(trial)

    def _move(self, trial: Trial, event: str, why: str, is_noted: bool = True) -> None:
        if trial.state is PENDING:
            self.waiting.remove(trial)
        trial.state, trial.why, trial.paused_by = next_state(trial.state, event), why, ""
        if is_noted:
            self._do(Note(trial.number, trial.state, why))

    def _do(self, action: Action) -> None:
        self._actions.append(action)
