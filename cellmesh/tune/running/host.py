"""The actor that runs an experiment: it performs what the controller decides.

It lives as long as the experiment, in a process of its own, so that neither the notebook nor a trial keeps a report
waiting. Everything that happens becomes a record of the journal before it is acted on. A controller that is started on
a journal goes on where the last one was.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ... import __version__
from ...api import exit_actor, nodes
from .. import checkpoint as checkpoints
from ..callbacks import Callbacks
from ..control import actions as c
from ..control.controller import Controller
from ..control.elapsed import Elapsed
from ..control.metric import Bounds
from ..control.room import MAX_AT_A_TIME, capacity
from ..control.trial import State
from ..exceptions import in_words, where
from ..journal import CODE, Reader
from ..records import (
    VERSION,
    Asked,
    Became,
    Capacity,
    Closed,
    Event,
    Launched,
    NoneLeft,
    Opened,
    Reported,
    Saved,
    Suggested,
)
from ..stoppers import bounded_by
from .attempts import Attempts
from .opening import Opening
from .recorder import Recorder
from .searching import Searching

if TYPE_CHECKING:
    import asyncio

    from ...refs import ObjectRef

LOOK_AT_NODES_EVERY_S = 10.0  # machines come and go
LINGER_S = 2.0  # after the end, for whoever wants to know of it from the controller itself
SEED_OF_SCHEDULER = 1 << 32  # where trials have their numbers


class Host:
    """The actor. Its methods run one at a time, between two of their `await`s."""

    def __init__(self, opening: Opening) -> None:
        import asyncio  # of the notebook this class is known, and no more

        import numpy as np

        self._loop = asyncio.get_running_loop()
        self._opening = o = opening
        d = o.definition
        o.scheduler.begin(o.plan.metric or "", o.plan.mode, np.random.default_rng((d.seed, SEED_OF_SCHEDULER)))
        o.search.begin(o.plan.metric, o.plan.mode, o.space, d.num_samples, d.seed)
        # What they do not take has raised by now, before there is a journal.
        self._folder = Path(o.folder)
        self._recorder = Recorder(self._folder, self._loop)
        self._write = self._recorder.write
        self._events: deque[Event] = deque()
        self._is_feeding = False
        self._ended: asyncio.Event = asyncio.Event()
        self._failed = ""
        self._is_crowded = False
        self._callbacks = Callbacks(o.callbacks, self._folder, self._recorder.tell)
        self._attempts = Attempts(o, self._loop, self._feed)
        self._searching = Searching(o.search, o.resources, self._loop, self._feed)
        enough, enough_for_all = (None, None) if o.stopper is None else (self._enough, self._enough_for_all)
        self._controller = Controller(o.plan, o.scheduler, enough, enough_for_all)
        self._bounds = Bounds(bounded_by(o.stopper))

    # ---- what others call
    async def begin(self) -> None:
        """Start, or go on."""
        self._store_code()
        opened = Opened(
            at=time.time(),
            version=VERSION,
            name=self._folder.name,
            plan=msgspec.to_builtins(self._opening.plan),
            definition=self._opening.definition,
            errored=self._opening.errored,
            cellmesh=__version__,
        )
        ran_s = 0.0
        if self._recorder.is_new:
            self._write(opened)
            self._callbacks.setup(self._opening)
        else:
            ran_s = self._replay()
            self._callbacks.setup(self._opening)
            checkpoints.sweep(self._folder, self._controller.checkpoints())
            self._feed(opened)
        if (budget := self._opening.definition.time_budget_s) is not None:
            left_s = budget - ran_s
            if left_s > 0:
                self._loop.call_later(left_s, self._out_of_time)
            else:
                self._out_of_time()
        self._feed(self._capacity())
        self._attempts.spawn(self._look_at_nodes())

    async def wait(self) -> str:
        """Until the experiment is over; returns why it could not go on, or ""."""
        await self._ended.wait()
        return self._failed

    def report(
        self,
        trial: int,
        attempt: int,
        result: dict[str, Any],
        saved: Saved | None,
        packed: bytes | None,
        pid: int,
        node: str,
    ) -> str | Awaitable[str]:
        """A trial reports, and waits for the answer: "go", "stop" or "pause". No coroutine, as most have it at once.
        `node`: "" is this one.
        """
        event = Reported(
            at=time.time(), trial=trial, attempt=attempt, result=result, checkpoint=saved, pid=pid, node=node
        )
        return self._answer(event) if packed is None else self._unpack_and_answer(event, packed)

    def _answer(self, event: Reported) -> str | asyncio.Future[str]:
        self._attempts.reported(event.trial, event.attempt)
        self._feed(event)
        return self._attempts.answer_of(event.trial, event.attempt)

    async def _unpack_and_answer(self, event: Reported, packed: bytes) -> str:
        saved = await self._attempts.unpacked(event.checkpoint, packed)
        answer = self._answer(msgspec.structs.replace(event, checkpoint=saved, at=time.time()))
        return answer if isinstance(answer, str) else await answer

    async def packed(self, path: str) -> bytes:
        """A checkpoint, for a trial on another machine."""
        return await self._loop.run_in_executor(None, checkpoints.pack_saved, self._folder, path)

    async def ask(self, what: Any, trial: int, why: str) -> None:
        """Stop, pause or resume a trial, or all of them (-1)."""
        self._feed(Asked(at=time.time(), what=what, trial=trial, why=why))

    async def ref(self, trial: int) -> list[ObjectRef[Any]]:
        """The ref of a trial's latest attempt, if this controller has launched one."""
        refs = self._attempts.refs
        return [refs[trial]] if trial in refs else []

    async def failures(self) -> dict[int, list[ObjectRef[Any]]]:
        """The refs of trials that have failed, as `ref` gives them."""
        refs = self._attempts.refs
        failed = (t.number for t in self._controller.trials if t.state is State.ERROR)
        return {number: [refs[number]] for number in failed if number in refs}

    async def leave(self) -> None:
        """End this process, if the experiment is over."""
        if self._ended.is_set():
            exit_actor()

    def _out_of_time(self) -> None:
        budget = self._opening.definition.time_budget_s
        more = f"tune.resume({self._folder.name!r}, time_budget_s=...) gives it more"
        self._feed(Asked(at=time.time(), what="stop", why=f"the time budget of {budget:g} s is used up: {more}"))

    # ---- events and actions
    def _feed(self, event: Event) -> None:
        """Take an event, and all that follow from it."""
        self._events.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while True:  # no condition here: see scheduler/sync/condition.py
                if not self._events:
                    break
                self._take(self._events.popleft())
        except Exception as error:  # our bug: better an experiment that ends than one that hangs
            self._break(error)
        finally:
            self._is_feeding = False

    def _take(self, event: Event) -> None:
        control = self._controller
        if control.is_over and not isinstance(event, Opened):
            if isinstance(event, Reported):  # a process that was left behind
                self._perform(c.Answer(event.trial, event.attempt, "stop"))
            return
        if control.closing and isinstance(event, (Suggested, NoneLeft)):
            return  # whoever goes on with the experiment asks for it again
        was_closing = control.closing
        is_heard = not isinstance(event, Reported) or control.hears(event)
        if is_heard:
            self._write(event)
        actions = control.step(event)
        if is_heard and isinstance(event, Reported):
            self._callbacks.result(control.trials, control.trials[event.trial], event.result)
            if self._bounds.unseen:
                self._look_for_bounds(event.trial, event.result)
        if control.closing and not was_closing and not isinstance(event, Asked):
            # What a replay might not decide again, as it hangs on a clock or on users' code.
            self._write(Asked(at=event.at, what="stop", why=control.closing, failed=control.is_failed))
        for action in actions:
            self._perform(action)

    def _look_for_bounds(self, trial: int, result: Mapping[str, Any] | None, is_last: bool = False) -> None:
        if text := self._bounds.look(trial, result, is_last):
            self._recorder.tell(text)

    def _break(self, error: Exception) -> None:
        text = f"the controller failed: {in_words(error)}{where(error)}"
        self._events.clear()
        self._controller.is_over = True
        self._attempts.give_up()
        self._finish(text, failed=True)

    def _perform(self, action: c.Action) -> None:
        # By itself, as `match` looks up several names for each, and there are two of these for a report.
        if isinstance(action, c.TellResult):
            self._searching.tell_result(action.trial, action.result)
            return
        if isinstance(action, c.Answer):
            self._attempts.answer(action.trial, action.attempt, action.word)
            return
        match action:
            case c.Suggest():
                self._searching.suggest()
            case c.Launch(trial, attempt):
                one = self._controller.trials[trial]
                path = one.checkpoint.path if one.checkpoint else ""
                changed = one.config if one.is_changed else None
                self._write(Launched(at=time.time(), trial=trial, attempt=attempt, checkpoint=path, config=changed))
                self._attempts.launch(one, self._is_crowded)
            case c.Interrupt(trial, attempt, by_force):
                self._attempts.interrupt(self._controller.trials[trial], attempt, by_force)
            case c.TellEnd(trial, result, failed, pruned):
                self._callbacks.end(self._controller.trials, self._controller.trials[trial], failed)
                self._searching.tell_end(trial, result, failed, pruned)
                if not (failed or pruned or self._controller.closing):
                    self._look_for_bounds(trial, result, is_last=True)
            case c.Forget(saved):
                checkpoints.delete(self._folder, saved.path)
            case c.Note(trial, state, why):
                self._write(Became(at=time.time(), trial=trial, state=state.value, why=why))
            case c.Warn(text):
                self._recorder.tell(text)
            case c.Finish(why, failed):
                self._finish(why, failed)

    def _finish(self, why: str, failed: bool) -> None:
        checkpoints.sweep(self._folder, self._controller.checkpoints())
        self._callbacks.finish(self._controller.trials)
        self._write(Closed(at=time.time(), why=why, failed=failed))
        lost = self._recorder.close()
        self._failed = lost or (why if failed else "")
        self._attempts.close()
        self._searching.close()
        self._ended.set()
        self._loop.call_later(LINGER_S, exit_actor)

    # ---- the journal
    def _store_code(self) -> None:
        """Keep the trainable, for a resume that is not given it."""
        place, code = self._folder / CODE, self._opening.code
        try:
            if not place.exists() or place.read_bytes() != code:
                scratch = place.with_suffix(".new")
                scratch.write_bytes(code)
                scratch.rename(place)
        except OSError as error:
            self._recorder.tell(f"{place} cannot be written, so a resume must be given the trainable again: {error}")

    def _replay(self) -> float:
        """Be where the last controller was, and say of each trial what that one had no time to say; returns how many
        seconds the experiment has run.
        """
        shown: dict[int, str] = {}
        search = self._opening.search
        ran = Elapsed()
        for number, record in enumerate(Reader(self._folder).read()):
            ran.add(record)
            if not number:  # its plan is this controller's own
                continue
            if isinstance(record, (Launched, Became)):
                shown[record.trial] = record.state if isinstance(record, Became) else State.RUNNING.value
            if not isinstance(record, Event):
                continue
            if isinstance(record, Suggested):
                self._searching.replay(record)
            for action in self._controller.step(record):
                if isinstance(action, c.TellResult):
                    search.on_trial_result(action.trial, action.result)
                elif isinstance(action, c.TellEnd):
                    search.on_trial_end(action.trial, action.result, action.failed, action.pruned)

        for trial in self._controller.trials:
            if trial.state is not State.RUNNING and shown.get(trial.number, State.PENDING.value) != trial.state.value:
                self._write(Became(at=time.time(), trial=trial.number, state=trial.state.value, why=trial.why))
        return ran.seconds

    # ---- what is asked of the rest
    def _enough(self, trial: int, result: Mapping[str, Any]) -> str:
        assert self._opening.stopper is not None
        return self._opening.stopper.why(f"{trial:05}", dict(result))

    def _enough_for_all(self) -> str:
        assert self._opening.stopper is not None
        return self._opening.stopper.why_all()

    def _capacity(self) -> Capacity:
        d, there = self._opening.definition, machines()
        if d.resources is False:
            return Capacity(at=time.time(), n=d.max_concurrent or MAX_AT_A_TIME, nodes=there)
        n = capacity(d.resources, there, d.max_concurrent)
        self._is_crowded = len(there) == 1 and n > len(os.sched_getaffinity(0))
        return Capacity(at=time.time(), n=n)

    async def _look_at_nodes(self) -> None:
        import asyncio

        control = self._controller
        while not control.is_over:
            await asyncio.sleep(LOOK_AT_NODES_EVERY_S)
            now = self._capacity()
            if (now.n, now.nodes) != (control.capacity, control.room.nodes):
                self._feed(now)


def machines() -> list[dict[str, float]]:
    """What each machine that is there has."""
    return [node["Resources"] for node in nodes() if node["Alive"]]
