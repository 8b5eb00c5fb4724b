"""Tasks of one other node that run here, from their arrival until they end, or are sent back; that node is told."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from ....objstore._core import (
    OBJECT_READY,
    PLACE_REMOTE,
    PROGRESS_QUEUED,
    PROGRESS_RUNS,
    PROGRESS_SLEEPS,
    PROGRESS_WAITS,
    TASK_FLAG_STAYS,
    StoreError,
)
from ..messages import MAX_BATCH, Begun, Blocked, Died, Output, Queued, Result, Results, Returned, Run, Task
from .bundles import Released
from .objects import ForeignFault

if TYPE_CHECKING:
    from ....objstore._core import Client, Runs
    from ...ipc.messages import WorkerDied, WorkerOutput
    from .peer import Peer

# Seconds that a function of the peer is kept after its last task: the next one may come with the next cell.
KEEP_FUNCTION_S = 60.0
N_ENDED = 1000  # tasks of the peer whose numbers are remembered


class TaskIn(Struct):
    """A task of the peer that runs here."""

    number: int
    seq: int  # its number here
    task: int  # its slot here
    n_returns: int  # that are asked for; one that has none makes one here, whose sealing is its end
    results: list[int]  # slots here
    n_left: int  # of them are not sealed
    has_blocked: bool = False
    actor: int = -1  # slot of the actor that it constructs, or that it is a call of
    kept: dict[str, int] | None = None  # by that actor, once constructed
    told: bool = False  # that it runs


class Held(Struct):
    """A task of the peer whose function has not come yet."""

    task: Task
    refs: list[int]


class TasksIn:
    """The part of a `Peer` that has them.

    Parameters
    ----------
    peer : Peer
        The one that this is a part of.
    client : Client
        The agent's.
    runs : Runs
        The client's: when tasks ran here.
    origin_here : callable (number) -> int
        This node's number for a cell of the other, see `cell_numbers`.
    """

    def __init__(self, peer: Peer, client: Client, runs: Runs, origin_here: Callable[[int], int]) -> None:
        self._peer: Peer = weakref.proxy(peer)
        self._remote_node, self._objects = peer.remote_node, peer.objects
        self._client, self._runs, self._origin_here = client, runs, origin_here
        self._tasks: dict[int, TaskIn] = {}  # by number
        self._number_of: OrderedDict[int, int] = OrderedDict()  # by that here; a task's output may come after its end
        self._result_of: dict[int, int] = {}  # slot of a pending result here -> number of its task
        self._without: dict[int, list[Held]] = {}  # function's slot -> what waits for it
        self._functions: dict[int, float | None] = {}  # of the peer, kept -> unused since when; None: just used
        self._line: dict[int, list[int]] = {}  # tasks by number -> arguments that were away when they came
        self._waited: set[int] = set()  # tasks that waited for room at the last sweep, by number
        self._has_queued = False  # the other has been told that some do

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, number: int) -> TaskIn | None:
        """The task of that number."""
        return self._tasks.get(number)

    # ---- beginning
    def run(self, tasks: list[Task], has_room: Callable[[], bool]) -> None:
        """Have these run here."""
        objects, actors = self._objects, self._peer.actors
        refused: list[int] = []
        for task in tasks:
            if task.number in self._tasks or (task.creates is not None and task.n_returns != 1):
                raise ForeignFault(f"it gives task {task.number} twice")
            slots = objects.resolve_all([task.function, *task.refs])  # in any case: it has told of them
            if task.actor is None and (slots is None or not has_room()):
                refused.append(task.number)
                continue
            if slots is None:
                actors.refuse(task)
                continue
            function, *refs = slots
            if function not in self._functions:
                objects.hold(function)
            self._functions[function] = None
            if task.actor is not None:
                actors.accept(task, function, refs)
                continue
            if objects.is_coming(function):
                for slot in refs:
                    objects.hold(slot)
                self._without.setdefault(function, []).append(Held(task, refs))
            elif not self.submit(task, function, refs):
                refused.append(task.number)
        objects.send_all(Returned, refused)

    def origin_of(self, task: Task) -> int:
        """This node's number for the cell that a task of the peer comes from."""
        return task.origin if task.comes_home else self._origin_here(task.origin)

    def submit(self, task: Task, function: int, refs: list[int], actor: int | None = None) -> bool:
        """False: the segment has no room for it. `actor`: of a call, the slot of its actor."""
        peer, kept = self._peer, None
        try:
            if task.home is not None:
                return peer.actors.make(task, task.home, function, refs)
            if task.creates is not None:
                hosted = peer.actors.host(task, function, refs)
                if hosted is None:
                    return False
                made, actor = hosted
                kept = task.hold
            else:
                pool = peer.bundles.pool(task.bundle)
                shape = peer.shape_of(task.demand, None, task.env, pool, task.priority)
                made = self._remote_node.submit(
                    function,
                    shape,
                    task.arguments,
                    refs,
                    task.n_dependencies,
                    max(1, task.n_returns),
                    task.max_retries,
                    task.flags | TASK_FLAG_STAYS,
                    self.origin_of(task),
                    0,
                    actor,
                    task.group,
                    task.stream,
                    pool.group,
                    astuple(task.times) if task.times is not None else None,
                )
                if task.stream >= 0:
                    peer.streams.accept(task.number, made.stream, task.stream)
        except ValueError as error:
            raise ForeignFault(str(error)) from error
        except (StoreError, Released):
            return False
        self._runs.watch(made.number)
        self._number_of[made.number] = task.number
        self._tasks[task.number] = TaskIn(
            task.number,
            made.number,
            made.task,
            task.n_returns,
            made.results,
            len(made.results),
            actor=-1 if actor is None else actor,
            kept=kept,
        )
        if away := [ref for ref in refs[: task.n_dependencies] if self._objects.size_and_place(ref)[1] == PLACE_REMOTE]:
            self._line[task.number] = away
        for slot in made.results:
            self._objects.hold_new(slot)
            self._result_of[slot] = task.number
            self._remote_node.await_sealed(slot)
        return True

    def function_came(self, function: int) -> None:
        """What an object holds is known now: if it is a function, its tasks can begin."""
        for held in self._without.pop(function, []):
            if not self.submit(held.task, function, held.refs):
                self._peer.send(Returned([held.task.number]))
            for slot in held.refs:
                self._objects.drop(slot)
        self._peer.actors.advance()

    def upcoming(self, most: int, is_away: Callable[[int], bool]) -> list[list[int]]:
        """The arguments that are on other machines still, for each of the first tasks that wait for some."""
        found: list[list[int]] = []
        for number, slots in list(self._line.items()):
            away = [slot for slot in slots if is_away(slot)] if number in self._tasks else []
            if away:
                found.append(away)
            else:
                del self._line[number]
            if len(found) == most:
                break
        return found

    # ---- not beginning
    def return_held(self, number: int) -> None:
        """It will not begin here, if it has not."""
        for waiting in self._without.values():
            for held in [held for held in waiting if held.task.number == number]:
                waiting.remove(held)
                for slot in held.refs:
                    self._objects.drop(slot)
                self._peer.send(Returned([number]))

    def give_back(self, numbers: list[int]) -> None:
        """There is room elsewhere for these; what has begun stays."""
        returned: list[int] = []
        for number in numbers:
            task_in = self._tasks.get(number)
            if task_in is not None and self._remote_node.withdraw(task_in.task, task_in.seq):
                del self._tasks[number]
                self._peer.streams.over(number)
                self._runs.take(task_in.seq)
                for slot in task_in.results:
                    self._result_of.pop(slot, None)
                    self._objects.drop(slot)
                returned.append(number)
        self._objects.send_all(Returned, returned)

    def cancel(self, numbers: list[int]) -> None:
        """The peer does not want these any more."""
        for number in numbers:
            task_in = self._tasks.get(number)
            if task_in is not None and task_in.results:
                self._remote_node.cancel(task_in.results[0], False)

    # ---- ending
    def look(self) -> None:
        """Tell of those that have ended."""
        if self._result_of:
            self._objects.send_all(Results, self._finished(self._remote_node.sealed(list(self._result_of))))

    def _finished(self, slots: list[int]) -> Iterator[Result]:
        for slot in slots:
            task_in = self._tasks[self._result_of.pop(slot)]
            task_in.n_left -= 1
            if not task_in.n_left and (result := self._finish(task_in)) is not None:
                yield result

    def _finish(self, task_in: TaskIn) -> Result | None:
        """None: it has ended with its actor, of which the peer is told as a whole."""
        objects, actors, streams = self._objects, self._peer.actors, self._peer.streams
        streams.send_items(task_in.number)
        streams.over(task_in.number)
        del self._tasks[task_in.number]
        if len(self._number_of) > len(self._tasks) + N_ENDED:
            self._number_of.popitem(last=False)
        failed = self._remote_node.inspect(task_in.results[0]).state != OBJECT_READY
        is_over = task_in.actor >= 0 and task_in.kept is None and actors.finished(task_in, failed)
        if is_over:
            values = []
        elif task_in.kept is not None:
            values = [objects.value(task_in.results[0])]
        else:
            values = [objects.value(slot, is_result=True) for slot in task_in.results[: task_in.n_returns]]
        for slot in task_in.results:
            objects.drop(slot)
        actor = actors.hosted(task_in, not failed) if task_in.kept is not None else None
        run = self._runs.take(task_in.seq)
        micros = (int(each * 1e6) for each in (run.waited_s, run.ran_s, run.ended_s))
        return None if is_over else Result(task_in.number, int(failed), values, actor, run.pid, *micros)

    # ---- meanwhile
    def sweep(self, now: float) -> None:
        """Let go of functions, and tell how far the tasks are. `now`: seconds, monotonic."""
        for slot, since in list(self._functions.items()):
            if since is None:
                self._functions[slot] = now
            elif now - since > KEEP_FUNCTION_S and slot not in self._without:
                del self._functions[slot]
                self._objects.drop(slot)
        self._tell_progress()

    def _tell_progress(self) -> None:
        """Which sleep until others have ended, and which find no room."""
        tasks = list(self._tasks.values())
        progress = list(zip(tasks, self._client.progress([(task.task, task.seq) for task in tasks]), strict=True))
        blocked = [task for task, how in progress if how == PROGRESS_SLEEPS and not task.has_blocked]
        for task in blocked:
            task.has_blocked = True
        self._objects.send_all(Blocked, [task.number for task in blocked])
        waiting = {task.number for task, how in progress if how == PROGRESS_QUEUED and task.actor < 0}
        queued = sorted(waiting & self._waited)[:MAX_BATCH]  # what is sent ahead waits for milliseconds
        self._waited = waiting
        if queued or self._has_queued:
            self._peer.send(Queued(queued))
        self._has_queued = bool(queued)

    def tell_begun(self) -> None:
        """Which run, once of each."""
        open_ones = {task_in.seq: task_in for task_in in self._tasks.values() if not task_in.told}
        begun = self._runs.begun(list(open_ones)) if open_ones else []
        for run in begun:
            open_ones[run.number].told = True
        runs = [Run(open_ones[run.number].number, run.pid, int(run.since_s * 1e6)) for run in begun]
        self._objects.send_all(Begun, runs)

    def tell_output(self, output: WorkerOutput, origin: int) -> None:
        """Something that one of them has printed. `origin`: the peer's number of the cell."""
        number = self._number_of.get(output.task, 0)
        self._peer.send(Output(number, origin, output.stream, output.pid, output.text, output.bundle, output.name))

    def tell_death(self, death: WorkerDied) -> None:
        """A worker has died; of interest if it ran one of them."""
        if number := self._number_of.get(death.task, 0):
            self._peer.send(Died(number, death.pid, death.code, death.tail))

    def close(self) -> None:
        """The other node is gone."""
        for task_in in self._tasks.values():
            self._runs.take(task_in.seq)


def uses_its_lease(progress: int) -> bool:
    """Whether a task that is so far on (`Client.progress`) counts under its lease: it has not ended, and does not sleep
    until others have."""
    return progress in (PROGRESS_WAITS, PROGRESS_QUEUED, PROGRESS_RUNS)
