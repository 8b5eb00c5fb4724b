"""Tasks of ours that run on one other node: from being sent to their end, here too, or to being sent back."""
from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .messages import MOST_AT_ONCE, Cancel, GiveBack, Ref, Result, Run, Shares, Task, Tasks, Told, Value
from .objects import PENDING, ForeignFault

if TYPE_CHECKING:
    from .exchange import Exchange
    from .lineage import Lineage

STREAMS = 256                       # flag of a task that yields
HEAVY_BYTES = 1 << 20
MOST_HEAVY = 1024


class Sent(Struct):
    """A task of ours that runs there."""
    task: int                       # its slot here
    lease: int                      # the place that it takes there; 0: none, or none any more
    results: list[int]
    at: float                       # when it was sent; seconds, monotonic
    record: tuple[Any, ...]         # as `Proxy.take` gives it: what it takes to run it again; of a call (): it is not
    actor: int = -1                 # the index here of the actor that it constructs, or that it is a call of
    creates: bool = False
    is_cancelled: bool = False      # nobody wants its results any more, as they have been told
    n_coming: int = 0               # of its values are on their way: until they are here it may have to run again
    result: Result | None = None    # it has ended there
    ended: float = 0.0              # we have heard so; seconds, monotonic


class SentTasks:
    """Their part of an `Exchange`.

    Parameters
    ----------
    exchange : Exchange
        Whose part this is.
    lineage : Lineage
        Remembers how results were made that lie there.
    origin_told : callable (number) -> (int, bool)
        What to call a cell towards the other, and whether it is a cell of theirs.

    Attributes
    ----------
    ended : Counter
        By lease: tasks of ours that run there no more; for whoever counts them.
    waiting : dict
        News, by lease: how many of them wait there for room.
    heavy : set
        Classes of tasks of ours whose arguments take long to get there.
    """

    def __init__(self, exchange: Exchange, lineage: Lineage, origin_told: Callable[[int], tuple[int, bool]]) -> None:
        self._exchange: Exchange = weakref.proxy(exchange)
        self._proxy, self._objects = exchange.proxy, exchange.objects
        self._lineage, self._origin_told = lineage, origin_told
        self._tasks: dict[int, Sent] = {}           # by number
        self._coming: dict[int, int] = {}           # slot of a value whose bytes are on their way -> number of its task
        self._queued: dict[int, None] = {}          # tasks that wait there, by number
        self._crowded: Counter[int] = Counter()     # and how many of each lease
        self.ended: Counter[int] = Counter()
        self.waiting: dict[int, int] = {}
        self.heavy: set[int] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def n_active(self) -> int:
        """Those that do not wait for others."""
        return sum(sent.lease != 0 for sent in self._tasks.values())

    # ---- to there
    def send_tasks(self, resource_class: int, most: int, demand: Shares, lease: int,
                   by_place: bool = False) -> int:
        """Have up to `most` waiting tasks of a class run there, `by_place` those first whose arguments lie there;
        returns how many there were."""
        kept, env = self._proxy.kept(resource_class)
        n, brings_much = 0, False
        while n < most and not (n and self._exchange.is_congested):
            records = self._proxy.take(resource_class, min(most - n, MOST_AT_ONCE), by_place)
            if not records:
                break
            n += len(records)
            brings_much = brings_much or any(map(self._brings_much, records))
            self._objects.send_all(Tasks, (self._begin(record, lease, demand, env) if record[13] < 0 else
                                           self._begin_actor(record, lease, demand, env, kept) for record in records))
        if len(self.heavy) > MOST_HEAVY:  # numbers of classes that have long been given up
            self.heavy.clear()
        (self.heavy.add if brings_much else self.heavy.discard)(resource_class)
        return n

    def _brings_much(self, record: tuple[Any, ...]) -> bool:
        """Whether a task depends on large values that have to go there."""
        objects = self._objects
        return any(not objects.is_known(slot) and objects.size_and_place(slot)[0] >= HEAVY_BYTES
                   for slot in record[5][:record[6]])

    def send_calls(self, records: list[tuple[Any, ...]], index: int, there: Told) -> None:
        """Calls of an actor that is there."""
        actor = Ref(there.slot, there.generation, yours=True)
        self._objects.send_all(Tasks, (self._begin(record, 0, {}, 0, index, actor=actor, group=record[15])
                                       for record in records))

    def _begin_actor(self, record: tuple[Any, ...], lease: int, demand: Shares, env: int, kept: Shares) -> Task:
        actors, index, slot = self._exchange.actors, record[13], record[14]
        return self._begin(record, lease, demand, env, index, creates=actors.begin(index, slot, record[1]), hold=kept,
                           attempt=record[10], checkpoint=actors.checkpoint_of(slot))

    def _begin(self, record: tuple[Any, ...], lease: int, demand: Shares, env: int, index: int = -1,
               **more: Any) -> Task:
        """A task is going there. `index`: of the actor that it has to do with; `more`: what there is to say of that."""
        (task, number, _, function, arguments, refs, n_dependencies, n_returns, max_retries, flags, _, origin,
         *_) = record
        is_call = index >= 0 and "creates" not in more
        self._tasks[number] = Sent(task, lease, self._proxy.results(task), time.monotonic(), () if is_call else record,
                                   index, "creates" in more)
        if flags & STREAMS:
            refs.pop()  # the stream itself
            more["stream"] = self._exchange.streams.begin(task, number)
        tell = self._objects.tell
        self._objects.add_bytes(len(arguments))
        return Task(number, tell(function), demand, arguments, [tell(slot) for slot in refs], n_dependencies, n_returns,
                    max_retries, flags, *self._origin_told(origin), env=env,
                    bundle=self._exchange.bundles.of_task(task), **more)

    def cancel_unwanted(self, again: bool = False) -> None:
        """Say which of them nobody wants any more. `again`: also where they know, since what had not begun there when
        they heard of it goes on."""
        run = {sent.task: number for number, sent in self._tasks.items()
               if sent.result is None and (again or not sent.is_cancelled)}
        unwanted = [run[task] for task in self._proxy.cancelled(list(run))]
        for number in unwanted:
            self._tasks[number].is_cancelled = True
        self._objects.send_all(Cancel, unwanted)

    def take_back(self, lease: int, n: int) -> None:
        """There is room elsewhere for up to `n` of the tasks that wait there under a lease."""
        numbers = [number for number in self._queued
                   if number in self._tasks and self._tasks[number].lease == lease][-n:]
        for number in numbers:
            del self._queued[number]
        self._objects.send_all(GiveBack, numbers)

    # ---- from there
    def results(self, results: list[Result]) -> None:
        """These have ended there."""
        exchange, now = self._exchange, time.monotonic()
        for result in results:
            sent = self._tasks.get(result.number)
            exchange.streams.forget(result.number)
            if sent is None or sent.result is not None:
                raise ForeignFault(f"it answers for task {result.number}, which it was not given")
            if len(result.values) != len(sent.results):
                raise ForeignFault(f"it answers task {result.number} with {len(result.values)} values instead of "
                                   f"{len(sent.results)}")
            sent.result, sent.ended = result, now
            if sent.creates:
                del self._tasks[result.number]
                exchange.actors.constructed(sent, result)
            else:
                for slot, value in zip(sent.results, result.values, strict=True):
                    self.take_result(slot, value, result.number)
                if sent.actor >= 0:
                    # And cannot be asked again: what it has done is done.
                    exchange.actors.answered(sent.actor, result.number)
                self._end(sent)
            self._free_place(sent)

    def take_result(self, slot: int, value: Value, number: int) -> None:
        """A value that our task of that number has made."""
        if value.state == PENDING:
            raise ForeignFault(f"a value of task {number} that has ended is pending")
        self._objects.take_result(slot, value)
        if value.there is not None and self._objects.is_coming(slot):
            self._coming[slot] = number
            self._tasks[number].n_coming += 1

    def came(self, slot: int) -> None:
        """All of an object is here now, which was gathered: perhaps a value of one of them."""
        sent = self._tasks.get(self._coming.pop(slot, -1))
        if sent is not None:
            sent.n_coming -= 1
            self._end(sent)

    def _end(self, sent: Sent) -> None:
        """A task has ended here, too, once all of its values have come: before that its machine may be lost, and it
        runs again."""
        result, elsewhere = sent.result, self._exchange.transfers.elsewhere
        if result is None or sent.n_coming:
            return
        del self._tasks[result.number]
        stayed = [i for i, slot in enumerate(sent.results) if slot in elsewhere]
        if sent.actor < 0 and stayed:
            made = self._lineage.keep(sent.results, sent.record)
            for i in stayed:
                self._lineage.note(sent.results[i], made, i)
        since = time.monotonic() - sent.ended
        began, ended = ran_ago(sent.ended - sent.at, result)
        self._proxy.finish(sent.task, result.status, result.pid, began + since, ended + since)

    def returned(self, numbers: list[int]) -> None:
        """These have not begun there, and will not."""
        for number in numbers:
            sent = self._tasks.pop(number, None)
            self._exchange.streams.forget(number)
            if sent is None or sent.result is not None:
                raise ForeignFault(f"it returns task {number}, which it was not given")
            if sent.creates:
                self._exchange.actors.returned(sent)
            elif sent.actor >= 0:
                raise ForeignFault(f"it returns call {number}")
            else:
                self._proxy.give_back(sent.task)
            self._free_place(sent)

    def forget(self, numbers: Iterable[int]) -> None:
        """These run there no more."""
        for number in numbers:
            self._tasks.pop(number, None)
            self._exchange.streams.forget(number)

    def begun(self, tasks: list[Run]) -> None:
        """These run."""
        now = time.monotonic()
        for run in tasks:
            sent = self._tasks.get(run.number)
            if sent is not None:
                self._proxy.began(sent.task, run.pid, min(run.since * 1e-6, now - sent.at))

    # ---- places
    def blocked(self, numbers: list[int]) -> None:
        """These use none meanwhile."""
        for number in numbers:
            if number in self._tasks:
                self._free_place(self._tasks[number])
                self._proxy.block(self._tasks[number].task)

    def note_queued(self, numbers: list[int]) -> None:
        """These wait for room, and no others."""
        self._queued = dict.fromkeys(number for number in numbers
                                     if number in self._tasks and self._tasks[number].lease)
        before, self._crowded = self._crowded, Counter(self._tasks[number].lease for number in self._queued)
        self.waiting = {lease: self._crowded[lease] for lease in {*before, *self._crowded}}

    def _free_place(self, sent: Sent) -> None:
        self.free_lease(sent.lease)
        sent.lease = 0

    def free_lease(self, lease: int) -> None:
        """Something of ours takes no place there any more. 0: it took none."""
        if lease:
            self.ended[lease] += 1


def ran_ago(away: float, result: Result) -> tuple[float, float]:
    """How many seconds ago a task began to run and ended, that was sent `away` seconds ago and comes home now. Of the
    clock there only durations are believed: what is left of the time was spent on the ways there and back, as long the
    one as the other."""
    waited, ran, kept = result.waited * 1e-6, result.ran * 1e-6, result.kept * 1e-6
    way = max(0.0, away - waited - ran - kept) / 2
    began = max(0.0, away - way - waited)
    return began, max(0.0, began - ran)
