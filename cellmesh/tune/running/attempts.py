"""The attempts at trials: tasks that are launched, answered when they report, interrupted, and waited for."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...api import cancel, get_runtime_context
from ...exceptions import NodeDiedError, TaskCancelledError, TaskError
from ...objects import put
from ...session.scratch import scratch_folder
from ...submit.placement_groups import PlacementGroup, placement_group, remove_placement_group
from ...submit.scheduling_strategies import PlacementGroupSchedulingStrategy
from ...tracebacks import library_of
from .. import checkpoint as checkpoints
from ..checkpoint import Checkpoint
from ..control.room import bundles_of
from ..control.trial import Trial
from ..exceptions import in_words
from ..records import Ended, Event, Saved
from ..reporting import Order
from ..space import from_json, to_json

if TYPE_CHECKING:
    import asyncio

    from ...refs import ObjectRef
    from .opening import Opening

FORCE_AFTER_S = 10.0  # a trial that was interrupted has this long for what it does at its end
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


class Attempts:
    """What runs of an experiment.

    Parameters
    ----------
    opening : Opening
    loop : asyncio.AbstractEventLoop
        The controller's.
    feed : callable
        Takes an `Ended` for each attempt, on that loop.
    """

    def __init__(self, opening: Opening, loop: asyncio.AbstractEventLoop, feed: Callable[[Event], None]) -> None:
        self._opening, self._loop, self._feed = opening, loop, feed
        self._folder = Path(opening.folder)
        context = get_runtime_context()
        # In the store, as each trial would have another pickle of it.
        self._host: ObjectRef[Any] = put(context.current_actor)
        self.node: str = context.get_node_id()
        self.refs: dict[int, ObjectRef[Any]] = {}  # of the latest attempt of each trial
        self._answers: dict[tuple[int, int], str | asyncio.Future[str]] = {}  # "": there is none yet
        self._forced: set[tuple[int, int]] = set()  # attempts whose process was ended
        self._groups: dict[tuple[int, int], PlacementGroup] = {}  # of the attempts that have one
        self._watches: set[asyncio.Task[None]] = set()

    def launch(self, trial: Trial, is_crowded: bool) -> None:
        """Begin an attempt, from the trial's checkpoint. `is_crowded`: as of an `Order`."""
        o, number, attempt = self._opening, trial.number, trial.attempt
        config = from_json(to_json(trial.config)) if trial.code else trial.config
        saved = trial.checkpoint
        resources = o.definition.resources or {} if trial.resources is None else trial.resources
        about = self._folder.name, o.folder, self.node
        order = Order(number, attempt, config, trial.code, saved, *about, resources, is_crowded)
        try:
            run = o.run if trial.resources is None else o.run.options(**task_options(resources))
            if "bundles" in resources:
                group = self._groups[number, attempt] = placement_group(
                    resources["bundles"],
                    resources["strategy"],
                    f"{self._folder.name}-{number}-{attempt}",
                    lifetime="process",
                )
                index = 0 if any(bundles_of(task_options(resources))) else -1  # -1: it takes nothing itself
                run = run.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index, True))
            ref = self.refs[number] = run.remote(self._host, tuple(order))
        except Exception as error:  # a configuration that cannot be stored
            self._leave(number, attempt)
            text = in_words(error)
            self._feed(Ended(at=time.time(), trial=number, attempt=attempt, outcome="failed", error=text))
            return
        self.spawn(self._watch(number, attempt, ref))

    def _leave(self, trial: int, attempt: int) -> None:
        """Give an attempt's placement group back; what it has left running there ends."""
        group = self._groups.pop((trial, attempt), None)
        if group is not None:
            remove_placement_group(group)

    def reported(self, trial: int, attempt: int) -> None:
        """An attempt has reported, and is to be answered."""
        self._answers[trial, attempt] = ""

    def answer_of(self, trial: int, attempt: int) -> str | asyncio.Future[str]:
        """The answer to that report, which may be there by now."""
        key = trial, attempt
        if word := self._answers.pop(key):
            return word
        future = self._answers[key] = self._loop.create_future()
        return future

    def answer(self, trial: int, attempt: int, word: str) -> None:
        """Answer the report in which an attempt waits; harmless if it does not."""
        key = trial, attempt
        answer = self._answers.get(key)
        if answer == "":
            self._answers[key] = word
        elif answer is not None and not isinstance(answer, str):  # a word that nobody has fetched yet stays
            del self._answers[key]
            if not answer.done():  # as it is once the call was cancelled
                answer.set_result(word)

    def interrupt(self, trial: Trial, attempt: int, by_force: bool) -> None:
        """End an attempt that works; its process, if it does not end in time."""
        number = trial.number
        if number not in self.refs or trial.attempt != attempt or not trial.is_busy:
            return
        if by_force:
            self._forced.add((number, attempt))
        else:
            self._loop.call_later(FORCE_AFTER_S, self.interrupt, trial, attempt, True)
        cancel(self.refs[number], force=by_force)

    def give_up(self) -> None:
        """Have all of them end; nobody listens any more."""
        for ref in self.refs.values():
            cancel(ref)
        for trial, attempt in list(self._answers):
            self.answer(trial, attempt, "stop")

    def close(self) -> None:
        """Wait for nothing any more."""
        import asyncio  # of the notebook this class is known, and no more

        for task in self._watches:
            if task is not asyncio.current_task():
                task.cancel()
        for trial, attempt in list(self._groups):
            self._leave(trial, attempt)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it beside, until `close`."""
        task = self._loop.create_task(coroutine)
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)

    async def unpacked(self, saved: Saved | None, packed: bytes | None) -> Saved | None:
        """A checkpoint, written here if it has come from another machine."""
        if saved is None or packed is None:
            return saved
        return await self._loop.run_in_executor(None, self._unpack, saved, packed)

    def _unpack(self, saved: Saved, packed: bytes) -> Saved:
        with scratch_folder() as scratch:
            path = checkpoints.unpack(packed, Path(scratch))
            value = Checkpoint(path) if path.is_dir() else Checkpoint(path).value
            return msgspec.structs.replace(saved, path=checkpoints.save(value, self._folder, saved.path))

    async def _watch(self, trial: int, attempt: int, ref: ObjectRef[Any]) -> None:
        """Wait for the end of an attempt."""
        outcome, saved, error, line = "done", None, "", ""
        try:
            outcome, saved, packed = await ref
            saved = await self.unpacked(saved, packed)
        except TaskCancelledError:
            outcome = "stopped"
        except TaskError as failure:
            outcome, line = "failed", _user_line(failure)
            error = f"{failure.cause_type}: {failure.message}".rstrip(": ")
        except NodeDiedError as failure:
            outcome, error = "gone", in_words(failure)
        except OSError as failure:  # the checkpoint that it left cannot be written
            outcome, saved, error = "failed", None, in_words(failure)
        except Exception as failure:
            outcome, error = "lost", in_words(failure)
        if (trial, attempt) in self._forced:
            outcome, error = "stopped", ""
        self._answers.pop((trial, attempt), None)
        self._leave(trial, attempt)
        self._feed(
            Ended(
                at=time.time(), trial=trial, attempt=attempt, outcome=outcome, checkpoint=saved, error=error, line=line
            )
        )


def task_options(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a trial's own task among what the trial takes."""
    return {name: value for name, value in resources.items() if name not in ("bundles", "strategy")}


def _user_line(failure: TaskError) -> str:
    """The innermost line of a traceback that is the user's, or a library's if none is: `file:number in function`, and
    its text.
    """
    found, is_users = "", False
    lines = failure.remote_traceback.splitlines()
    for line, text in itertools.pairwise([*lines, ""]):
        match = re.match(r'\s*File "(.+)", line (\d+), in (.+)', line)
        if match and not match[1].startswith(PACKAGE) and (not library_of(match[1]) or not is_users):
            is_users = not library_of(match[1])
            source = text if text.startswith("    ") else linecache.getline(match[1], int(match[2]))
            found = f"{match[1]}:{match[2]} in {match[3]}: {source.strip()}".rstrip(": ")
    return found
