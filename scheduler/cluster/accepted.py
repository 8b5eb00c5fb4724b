"""Tasks of one other node that run here, from being accepted to their end, of which it is told, or being sent back."""
from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from .groups import Released
from .messages import MAX_BATCH, Begun, Blocked, Output, Queued, Result, Results, Returned, Run, Task
from .objects import ELSEWHERE, READY, ForeignFault

if TYPE_CHECKING:
    from ...objstore import _core
    from ..messages import WorkerOutput
    from .exchange import Exchange

# So long after its last task a function of theirs is kept, in seconds: the next one may come with the next cell.
KEEP_FUNCTION_S = 60.0
WAITS_FOR_ROOM, SLEEPS = 2, 4       # of `Client.progress`
N_ENDED = 1000                      # tasks of theirs whose numbers are remembered


class Accepted(Struct):
    """A task of theirs that runs here."""
    number: int
    seq: int                        # its number here
    task: int                       # its slot here
    n_returns: int                  # that are asked for; one that has none makes one here, whose sealing is its end
    results: list[int]              # slots here
    n_left: int                     # of them are not sealed
    has_blocked: bool = False
    actor: int = -1                 # slot of the actor that it constructs, or that it is a call of
    kept: dict[str, int] | None = None  # by that actor, once constructed
    told: bool = False              # that it runs


class Held(Struct):
    """A task of theirs whose function has not come yet."""
    task: Task
    refs: list[int]


class AcceptedTasks:
    """Their part of an `Exchange`.

    Parameters
    ----------
    exchange : Exchange
        Whose part this is.
    client : _core.Client
        The agent's.
    runs : _core.Runs
        Of the client: when tasks ran here.
    origin_here : callable (number) -> int
        This node's number for a cell of the other, see `origins`.
    """

    def __init__(self, exchange: Exchange, client: _core.Client, runs: _core.Runs,
                 origin_here: Callable[[int], int]) -> None:
        from ...objstore import _core
        self._exchange: Exchange = weakref.proxy(exchange)
        self._proxy, self._objects = exchange.proxy, exchange.objects
        self._client, self._runs, self._origin_here = client, runs, origin_here
        self._StoreError, self._stays = _core.StoreError, _core.TASK_FLAG_STAYS
        self._tasks: dict[int, Accepted] = {}               # by number
        self._number_of: OrderedDict[int, int] = OrderedDict()  # by that here; a task's output may come after its end
        self._result_of: dict[int, int] = {}                # slot of a pending result here -> number of its task
        self._without: dict[int, list[Held]] = {}           # function's slot -> what waits for it
        self._functions: dict[int, float | None] = {}       # theirs, kept -> unused since when; None: just used
        self._line: dict[int, list[int]] = {}               # tasks by number -> arguments that were away when they came
        self._waited: set[int] = set()                      # tasks that waited for room at the last sweep, by number
        self._has_queued = False                            # the other has been told that some do

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, number: int) -> Accepted | None:
        """The task of that number."""
        return self._tasks.get(number)

    # ---- beginning
    def run(self, tasks: list[Task], has_room: Callable[[], bool]) -> None:
        """Have these run here."""
        objects, actors, refused = self._objects, self._exchange.actors, []
        for task in tasks:
            if task.number in self._tasks or task.creates is not None and task.n_returns != 1:
                raise ForeignFault(f"it gives task {task.number} twice")
            slots = objects.resolve_all([task.function, *task.refs])  # in any case: it has told us of them
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
        """This node's number for the cell that a task of theirs comes from."""
        return task.origin if task.comes_home else self._origin_here(task.origin)

    def submit(self, task: Task, function: int, refs: list[int], actor: int | None = None) -> bool:
        """False: the segment has no room for it. `actor`: of a call, the slot of its actor."""
        exchange, kept = self._exchange, None
        try:
            if task.creates is not None:
                hosted = exchange.actors.host(task, function, refs)
                if hosted is None:
                    return False
                slot, seq, results, actor = hosted
                kept = task.hold
            else:
                place = exchange.bundles.place(task.bundle)
                shape = exchange.shape_of(task.demand, None, task.env, place)
                slot, seq, results, stream = self._proxy.submit(
                    function, shape, task.arguments, refs, task.n_dependencies, max(1, task.n_returns),
                    task.max_retries, task.flags | self._stays, self.origin_of(task), 0, actor, task.group, task.stream,
                    place.group)
                if task.stream >= 0:
                    exchange.streams.accept(task.number, stream, task.stream)
        except ValueError as error:
            raise ForeignFault(str(error)) from error
        except (self._StoreError, Released):
            return False
        self._runs.watch(seq)
        self._number_of[seq] = task.number
        self._tasks[task.number] = Accepted(task.number, seq, slot, task.n_returns, results, len(results),
                                            actor=-1 if actor is None else actor, kept=kept)
        if away := [ref for ref in refs[:task.n_dependencies] if self._objects.size_and_place(ref)[1] == ELSEWHERE]:
            self._line[task.number] = away
        for slot in results:
            self._objects.hold_new(slot)
            self._result_of[slot] = task.number
            self._proxy.await_sealed(slot)
        return True

    def function_came(self, function: int) -> None:
        """What an object holds is known now: if it is a function, its tasks can begin."""
        for held in self._without.pop(function, []):
            if not self.submit(held.task, function, held.refs):
                self._exchange.send(Returned([held.task.number]))
            for slot in held.refs:
                self._objects.drop(slot)
        self._exchange.actors.advance()

    def upcoming(self, most: int, is_away: Callable[[int], bool]) -> list[list[int]]:
        """Of each of the first tasks that wait for them: arguments that are on other machines still."""
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
                self._exchange.send(Returned([number]))

    def give_back(self, numbers: list[int]) -> None:
        """There is room elsewhere for these; what has begun stays."""
        returned = []
        for number in numbers:
            accepted = self._tasks.get(number)
            if accepted is not None and self._proxy.withdraw(accepted.task, accepted.seq):
                del self._tasks[number]
                self._exchange.streams.over(number)
                self._runs.take(accepted.seq)
                for slot in accepted.results:
                    self._result_of.pop(slot, None)
                    self._objects.drop(slot)
                returned.append(number)
        self._objects.send_all(Returned, returned)

    def cancel(self, numbers: list[int]) -> None:
        """Nobody wants these any more."""
        for number in numbers:
            accepted = self._tasks.get(number)
            if accepted is not None and accepted.results:
                self._proxy.cancel(accepted.results[0], False)

    # ---- ending
    def look(self) -> None:
        """Tell of those that have ended."""
        if self._result_of:
            self._objects.send_all(Results, self._finished(self._proxy.sealed(list(self._result_of))))

    def _finished(self, slots: list[int]) -> Iterator[Result]:
        for slot in slots:
            accepted = self._tasks[self._result_of.pop(slot)]
            accepted.n_left -= 1
            if not accepted.n_left and (result := self._finish(accepted)) is not None:
                yield result

    def _finish(self, accepted: Accepted) -> Result | None:
        """None: it has ended with its actor, of which they are told as a whole."""
        objects, actors, streams = self._objects, self._exchange.actors, self._exchange.streams
        streams.send_items(accepted.number)
        streams.over(accepted.number)
        del self._tasks[accepted.number]
        if len(self._number_of) > len(self._tasks) + N_ENDED:
            self._number_of.popitem(last=False)
        failed = self._proxy.look(accepted.results[0])[0] != READY
        is_over = accepted.actor >= 0 and accepted.kept is None and actors.finished(accepted, failed)
        if is_over:
            values = []
        elif accepted.kept is not None:
            values = [objects.value(accepted.results[0])]
        else:
            values = [objects.value(slot, is_result=True) for slot in accepted.results[:accepted.n_returns]]
        for slot in accepted.results:
            objects.drop(slot)
        actor = actors.hosted(accepted, not failed) if accepted.kept is not None else None
        pid, *seconds = self._runs.take(accepted.seq)
        micros = (int(each * 1e6) for each in seconds)
        return None if is_over else Result(accepted.number, int(failed), values, actor, pid, *micros)

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
        blocked = [task for task, how in progress if how == SLEEPS and not task.has_blocked]
        for task in blocked:
            task.has_blocked = True
        self._objects.send_all(Blocked, [task.number for task in blocked])
        waiting = {task.number for task, how in progress if how == WAITS_FOR_ROOM and task.actor < 0}
        queued = sorted(waiting & self._waited)[:MAX_BATCH]  # what is sent ahead waits for milliseconds
        self._waited = waiting
        if queued or self._has_queued:
            self._exchange.send(Queued(queued))
        self._has_queued = bool(queued)

    def tell_begun(self) -> None:
        """Which run, once of each."""
        open_ones = {accepted.seq: accepted for accepted in self._tasks.values() if not accepted.told}
        begun = self._runs.begun(list(open_ones)) if open_ones else []
        for seq, _, _ in begun:
            open_ones[seq].told = True
        runs = [Run(open_ones[seq].number, pid, int(since * 1e6)) for seq, pid, since in begun]
        self._objects.send_all(Begun, runs)

    def tell_output(self, output: WorkerOutput, origin: int) -> None:
        """Something that one of them has printed. `origin`: their number of the cell."""
        number = self._number_of.get(output.task, 0)
        self._exchange.send(Output(number, origin, output.stream, output.pid, output.text, output.bundle, output.name))

    def close(self) -> None:
        """The other node is gone."""
        for accepted in self._tasks.values():
            self._runs.take(accepted.seq)


def uses_its_place(progress: int) -> bool:
    """Whether a task that is so far on (`Client.progress`) has a place: it has not ended, and does not sleep until
    others have."""
    return 0 < progress < SLEEPS
