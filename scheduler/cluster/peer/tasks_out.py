"""Tasks of this node that run on one other: from the moment they are sent until they have ended here too, or are sent
back.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....objstore._core import OBJECT_PENDING, TASK_FLAG_STREAM
from ..messages import MOST_AT_ONCE, Cancel, GiveBack, Ref, Result, Run, Shares, Task, Tasks, Times, Told, Value
from .objects import ForeignFault

if TYPE_CHECKING:
    from ....objstore._core import ClassTerms, TaskRecord
    from .lineage import Lineage
    from .peer import Peer

HEAVY_BYTES = 1 << 20
MOST_HEAVY = 1024


class TaskOut(Struct):
    """A task of this node that runs there."""

    task: int  # its slot here
    lease: int  # under which it runs there; 0: none, or none any more
    results: list[int]
    at: float  # when it was sent; seconds, monotonic
    record: TaskRecord | None  # what it takes to run it again; None: a call is not run again
    actor: int = -1  # the index here of the actor that it constructs, or that it is a call of
    creates: bool = False
    is_cancelled: bool = False  # its results are not wanted any more, and the peer has been told
    n_coming: int = 0  # of its values are on their way: until they are here it may have to run again
    result: Result | None = None  # it has ended there
    ended: float = 0.0  # when this node heard so; seconds, monotonic


class TasksOut:
    """The part of a `Peer` that has them.

    Parameters
    ----------
    peer : Peer
        The one that this is a part of.
    lineage : Lineage
        Remembers how results were made that lie there.
    origin_told : callable (number) -> (int, bool)
        What to call a cell towards the other, and whether it is a cell of the peer.

    Attributes
    ----------
    ended : Counter
        By lease: tasks of this node that run there no more; for the shell, which counts them.
    waiting : dict
        News, by lease: how many of them wait there for room.
    heavy : set
        Classes of tasks of this node whose arguments take long to get there.
    has_sent : bool
        Some have been sent there, ever.
    """

    def __init__(self, peer: Peer, lineage: Lineage, origin_told: Callable[[int], tuple[int, bool]]) -> None:
        self._peer: Peer = weakref.proxy(peer)
        self._remote_node, self._objects = peer.remote_node, peer.objects
        self._lineage, self._origin_told = lineage, origin_told
        self._tasks: dict[int, TaskOut] = {}  # by number
        self._coming: dict[int, int] = {}  # slot of a value whose bytes are on their way -> number of its task
        self._queued: dict[int, None] = {}  # tasks that wait there, by number
        self._crowded: Counter[int] = Counter()  # and how many of each lease
        self.ended: Counter[int] = Counter()
        self.waiting: dict[int, int] = {}
        self.heavy: set[int] = set()
        self.has_sent = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def n_active(self) -> int:
        """Those that do not wait for others."""
        return sum(task_out.lease != 0 for task_out in self._tasks.values())

    # ---- to there
    def send_tasks(self, resource_class: int, most: int, demand: Shares, lease: int, by_place: bool = False) -> int:
        """Have up to `most` waiting tasks of a class run there, `by_place` those first whose arguments lie there;
        returns how many there were."""
        terms = self._remote_node.kept(resource_class)
        n, brings_much = 0, False
        while n < most and not (n and self._peer.is_congested):
            records = self._remote_node.take(resource_class, min(most - n, MOST_AT_ONCE), by_place)
            if not records:
                break
            n += len(records)
            brings_much = brings_much or any(map(self._brings_much, records))
            self._objects.send_all(
                Tasks,
                (
                    self._begin(record, lease, demand, terms.env, terms.priority)
                    if record.actor < 0
                    else self._begin_actor(record, lease, demand, terms)
                    for record in records
                ),
            )
        if len(self.heavy) > MOST_HEAVY:  # numbers of classes that have long been given up
            self.heavy.clear()
        (self.heavy.add if brings_much else self.heavy.discard)(resource_class)
        return n

    def _brings_much(self, record: TaskRecord) -> bool:
        """Whether a task depends on large values that have to go there."""
        objects = self._objects
        return any(
            not objects.is_known(slot) and objects.size_and_place(slot)[0] >= HEAVY_BYTES
            for slot in record.refs[: record.n_dependencies]
        )

    def send_calls(self, records: list[TaskRecord], index: int, there: Told) -> None:
        """Calls of an actor that is there."""
        actor = Ref(there.slot, there.generation, yours=True)
        self._objects.send_all(
            Tasks, (self._begin(record, 0, {}, 0, 0, index, actor=actor, group=record.group) for record in records)
        )

    def _begin_actor(self, record: TaskRecord, lease: int, demand: Shares, terms: ClassTerms) -> Task:
        actors, index, slot = self._peer.actors, record.actor, record.actor_object
        return self._begin(
            record,
            lease,
            demand,
            terms.env,
            terms.priority,
            index,
            creates=actors.begin(index, slot, record.number),
            hold=terms.kept,
            attempt=record.attempt,
            checkpoint=actors.checkpoint_of(slot),
        )

    def _begin(
        self, record: TaskRecord, lease: int, demand: Shares, env: int, priority: int, index: int = -1, **more: Any
    ) -> Task:
        """A task is going there. `index`: of the actor that it has to do with; `more`: what there is to say of that."""
        task, number, refs = record.task, record.number, record.refs
        is_call = index >= 0 and "creates" not in more
        self.has_sent = True
        self._tasks[number] = TaskOut(
            task,
            lease,
            self._remote_node.results(task),
            time.monotonic(),
            None if is_call else record,
            index,
            "creates" in more,
        )
        if record.flags & TASK_FLAG_STREAM:
            refs.pop()  # the stream itself
            more["stream"] = self._peer.streams.begin(task, number)
        tell = self._objects.tell
        self._objects.add_bytes(len(record.arguments))
        return Task(
            number,
            tell(record.function),
            demand,
            record.arguments,
            [tell(slot) for slot in refs],
            record.n_dependencies,
            record.n_returns,
            record.max_retries,
            record.flags,
            *self._origin_told(record.origin),
            env=env,
            priority=priority,
            times=Times(*record.times) if record.times else None,
            bundle=self._peer.bundles.of_task(task),
            **more,
        )

    def results_of(self, number: int) -> list[int]:
        """The slots here of what a task that runs there returns."""
        return self._tasks[number].results

    def cancel_unwanted(self, again: bool = False) -> None:
        """Say which of them are not wanted any more. `again`: also those that the peer knows of, since what had not
        begun there when it heard of that goes on."""
        run = {
            task_out.task: number
            for number, task_out in self._tasks.items()
            if task_out.result is None and (again or not task_out.is_cancelled)
        }
        unwanted = [run[task] for task in self._remote_node.cancelled(list(run))]
        for number in unwanted:
            self._tasks[number].is_cancelled = True
        self._objects.send_all(Cancel, unwanted)

    def take_back(self, lease: int, n: int) -> None:
        """There is room elsewhere for up to `n` of the tasks that wait there under a lease."""
        numbers = [number for number in self._queued if number in self._tasks and self._tasks[number].lease == lease][
            -n:
        ]
        for number in numbers:
            del self._queued[number]
        self._objects.send_all(GiveBack, numbers)

    # ---- from there
    def results(self, results: list[Result]) -> None:
        """These have ended there."""
        peer, now = self._peer, time.monotonic()
        for result in results:
            task_out = self._tasks.get(result.number)
            peer.streams.forget(result.number)
            if task_out is None or task_out.result is not None:
                raise ForeignFault(f"it answers for task {result.number}, which it was not given")
            if len(result.values) != len(task_out.results):
                raise ForeignFault(
                    f"it answers task {result.number} with {len(result.values)} values, not {len(task_out.results)}"
                )
            task_out.result, task_out.ended = result, now
            if task_out.creates:
                del self._tasks[result.number]
                peer.actors.constructed(task_out, result)
            else:
                for slot, value in zip(task_out.results, result.values, strict=True):
                    self.take_result(slot, value, result.number)
                if task_out.actor >= 0:
                    # And cannot be asked again: what it has done is done.
                    peer.actors.answered(task_out.actor, result.number)
                self._end(task_out)
            self._end_lease(task_out)

    def take_result(self, slot: int, value: Value, number: int) -> None:
        """A value that the task of that number has made."""
        if value.state == OBJECT_PENDING:
            raise ForeignFault(f"a value of task {number} that has ended is pending")
        self._objects.take_result(slot, value)
        if value.there is not None and self._objects.is_coming(slot):
            self._coming[slot] = number
            self._tasks[number].n_coming += 1

    def came(self, slot: int) -> None:
        """All of an object is here now, which was gathered: perhaps a value of one of them."""
        task_out = self._tasks.get(self._coming.pop(slot, -1))
        if task_out is not None:
            task_out.n_coming -= 1
            self._end(task_out)

    def _end(self, task_out: TaskOut) -> None:
        """A task has ended here, too, once all of its values have come: before that its machine may be lost, and it
        runs again."""
        result, elsewhere = task_out.result, self._peer.transfers.elsewhere
        if result is None or task_out.n_coming:
            return
        del self._tasks[result.number]
        stayed = [i for i, slot in enumerate(task_out.results) if slot in elsewhere]
        if task_out.record is not None and task_out.actor < 0 and stayed:
            made = self._lineage.keep(task_out.results, task_out.record)
            for i in stayed:
                self._lineage.note(task_out.results[i], made, i)
        since = time.monotonic() - task_out.ended
        began, ended = ran_ago(task_out.ended - task_out.at, result)
        self._remote_node.finish(task_out.task, result.status, result.pid, began + since, ended + since)

    def returned(self, numbers: list[int]) -> None:
        """These have not begun there, and will not."""
        for number in numbers:
            task_out = self._tasks.pop(number, None)
            self._peer.streams.forget(number)
            if task_out is None or task_out.result is not None:
                raise ForeignFault(f"it returns task {number}, which it was not given")
            if task_out.creates:
                self._peer.actors.returned(task_out)
            elif task_out.actor >= 0:
                raise ForeignFault(f"it returns call {number}")
            else:
                self._remote_node.give_back(task_out.task)
            self._end_lease(task_out)

    def forget(self, numbers: Iterable[int]) -> None:
        """These run there no more."""
        for number in numbers:
            self._tasks.pop(number, None)
            self._peer.streams.forget(number)

    def begun(self, tasks: list[Run]) -> None:
        """These run."""
        now = time.monotonic()
        for run in tasks:
            task_out = self._tasks.get(run.number)
            if task_out is not None:
                self._remote_node.began(task_out.task, run.pid, min(run.since * 1e-6, now - task_out.at))

    # ---- leases
    def blocked(self, numbers: list[int]) -> None:
        """These use none meanwhile."""
        for number in numbers:
            if number in self._tasks:
                self._end_lease(self._tasks[number])
                self._remote_node.block(self._tasks[number].task)

    def note_queued(self, numbers: list[int]) -> None:
        """These wait for room, and no others."""
        self._queued = dict.fromkeys(
            number for number in numbers if number in self._tasks and self._tasks[number].lease
        )
        before, self._crowded = self._crowded, Counter(self._tasks[number].lease for number in self._queued)
        self.waiting = {lease: self._crowded[lease] for lease in {*before, *self._crowded}}

    def _end_lease(self, task_out: TaskOut) -> None:
        self.free_lease(task_out.lease)
        task_out.lease = 0

    def free_lease(self, lease: int) -> None:
        """Something counts under that lease no more. 0: it did under none."""
        if lease:
            self.ended[lease] += 1


def ran_ago(away: float, result: Result) -> tuple[float, float]:
    """How many seconds ago a task that was sent `away` seconds ago, and comes home now, began to run and ended. Only
    durations are believed of the clock there: what is left of the time was spent on the ways there and back, as long
    the one as the other."""
    waited, ran, kept = result.waited * 1e-6, result.ran * 1e-6, result.kept * 1e-6
    way = max(0.0, away - waited - ran - kept) / 2
    began = max(0.0, away - way - waited)
    return began, max(0.0, began - ran)
