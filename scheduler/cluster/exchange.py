"""What goes on between this node and one other: tasks that run there or here for the other, and the objects that follow them.

An `Exchange` owns a proxy, the client that stands for the other machine in this segment (objstore/core/proxy.h). It knows neither sockets
nor threads: messages go out through `send`, come in through `receive`, and `look` is to be called when the segment has news.

Objects keep their home: the segment where they were made. A machine that hears of one makes a slot of its own for it, an *import*,
and the one that has told of it keeps it, with the proxy's hold, until it hears that it is released. An import can be told of in turn, so a
machine that is two steps away holds the import, which holds the object: nobody has to know them all, and what a lost machine held goes
with its proxy. Bytes travel with the news of an object if they are few, otherwise when somebody reads them.

What comes from the other machine is checked, never believed: a slot that it names must be one that it has been told of.
"""
from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from . import messages
from .actors import Actors
from .messages import (MAX_INLINE_BYTES, ActorEnded, Begun, Blocked, Cancel, Checkpoint, Chunk, Copied, Fetch, Find, Found, GiveBack, Items, Kill,
                       Output, Queued, Redirect, Ref, Released, Result, Results, Returned, Run, Sealed, Taken, Task, Tasks, Told, Value, Want)
from .streams import Streams
from .transfers import ELSEWHERE, FAILURE_OBJECT_LOST, HERE, Transfers

if TYPE_CHECKING:
    from ...objstore import _core
    from ..messages import WorkerOutput
    from .broadcast import Tree
    from .lineage import Lineage

PENDING, READY, ERROR, FAILED = 1, 2, 3, 4
FAILURE_STORE_FULL, FAILURE_CANNOT_LEAVE, FAILURE_UNROUTED = 7, 12, 13
STREAMS = 256                               # flag of a task that yields
# References inside values inside values: so deep they travel along, further ones are asked for.
DEPTH = 4
# Of values in one message, about: others wait for the link, too. And references in one value, at most.
MESSAGE_BYTES = 2 << 20
MOST_REFS = 500_000
# So long after its last task a function of theirs is kept, in seconds: the next one may come with the next cell.
KEEP_FUNCTION_S = 60.0
WAITS_FOR_ROOM, SLEEPS = 2, 4       # of `Client.progress`
HEAVY_BYTES = 1 << 20
N_ENDED = 1000                      # tasks of theirs whose numbers are remembered
NODE_DIED = -2000                   # what a proxy's tasks and actors end with (exceptions.DIED_WITH_ITS_MACHINE): no exit status


class ForeignFault(Exception):
    """The other machine names what it cannot know: it is not to be spoken with any more."""


class Sent(Struct):
    """A task of ours that runs there."""
    task: int                       # its slot here
    lease: int                      # the place that it takes there; 0: none, or none any more
    results: list[int]
    at: float                       # when it was sent; seconds, monotonic
    record: tuple[Any, ...]         # as `Proxy.take` gives it: what it takes to run it again
    actor: int = -1                 # the index here of the actor that it constructs, or that it is a call of
    creates: bool = False
    n_coming: int = 0               # of its values, whose bytes are on their way: until they are here it may have to run again
    result: Result | None = None    # it has ended there
    ended: float = 0.0              # we have heard so; seconds, monotonic


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


class Exchange:
    """This node's side of what it has to do with one other node.

    Parameters
    ----------
    client : _core.Client
        The agent's.
    send : callable (message, frame)
        Takes what is for the other node; `frame`: bytes behind the message, or None. Never waits.
    class_of : callable (demand, hold, environment) -> int
        The resource class of a demand, amounts in ten-thousandths by name; raises `ValueError` for one that no task may have. `hold`: what an
        actor keeps of it; None: it is no actor's.
    bring : callable (slot)
        Has an object brought here that lies on another machine.
    lineage : Lineage
        Remembers how results were made that lie there.
    runs : _core.Runs
        Of the client: when tasks ran here.
    node : int
        The other's number.
    tree : Tree
        Who has which of our large objects.
    reach : callable (node) -> Exchange or None
        What there is with another node.
    origin_here : callable (number) -> int
        This node's number for a cell of the other, see `origins`.
    origin_told : callable (number) -> (int, bool)
        What to call a cell towards the other, and whether it is a cell of theirs.
    """

    def __init__(self, client: _core.Client, send: Callable[[messages.Message, bytes | None], None],
                 class_of: Callable[[dict[str, int], dict[str, int] | None, int], int], bring: Callable[[int], None], lineage: Lineage, runs: _core.Runs, node: int,
                 tree: Tree, reach: Callable[[int], Exchange | None], origin_here: Callable[[int], int] = int,
                 origin_told: Callable[[int], tuple[int, bool]] = lambda number: (number, False)) -> None:
        from ...objstore import _core
        self.proxy = _core.Proxy(client, node)
        self._StoreError = _core.StoreError
        self._client = client
        self._send = send
        self.class_of = class_of
        self._lineage = lineage
        self._origin_here, self._origin_told = origin_here, origin_told
        self._runs = runs
        self._stays = _core.TASK_FLAG_STAYS
        self._most_bytes = client.stats()["capacity_bytes"]
        self._sent: dict[int, Sent] = {}                     # by number
        self._accepted: dict[int, Accepted] = {}             # by number
        self._number_of: OrderedDict[int, int] = OrderedDict()  # by the number here; what a task prints may come after its end
        self._result_of: dict[int, int] = {}                 # slot of a pending result here -> number of the task of theirs
        self._without: dict[int, list[Held]] = {}            # function's slot -> what waits for it
        self._functions: dict[int, float | None] = {}        # theirs, kept -> since when they have not been used; None: just now
        self._imports: dict[tuple[int, int], int] = {}       # (slot, generation) there -> slot here
        self._origin: dict[int, Told] = {}                   # and back; `n`: how often we have been told
        self._coming: dict[int, int] = {}                    # slot of a value whose bytes are on their way -> number of the task of ours
        self._told: dict[int, Told] = {}                     # slots here that the other knows; `n`: how often we have told
        self._held: Counter[int] = Counter()                 # why the proxy holds a slot: so many reasons
        self._awaited: set[int] = set()                      # told while pending
        self._wants: list[Told] = []                         # to be asked for when the message that we read is done
        self._room = 0                                       # bytes of values that go into the message we write
        self._waited: set[int] = set()                       # tasks of theirs that waited for room at the last sweep, by number
        self._has_queued = False                             # the other has been told that some do
        self._queued: dict[int, None] = {}                   # tasks of ours that wait there, by number
        self._crowded: Counter[int] = Counter()              # and how many of each lease
        self.ended: Counter[int] = Counter()                 # by lease: tasks of ours that run there no more; for whoever counts them
        self.found: list[tuple[int, int | None]] = []        # (number, slot): what `find` has found; for whoever has asked
        self.waiting: dict[int, int] = {}                    # news, by lease: how many of them wait there for room
        self.heavy: set[int] = set()                         # classes of tasks of ours whose arguments take long to get there
        self.is_congested = False                            # they read more slowly than we write; for whoever knows to say
        self._line: dict[int, list[int]] = {}                # their tasks by number -> arguments that were not here when they came
        self._actors = Actors(self)
        self.transfers = Transfers(self, node, bring, tree, reach)
        self._streams = Streams(self)

    @property
    def n_sent(self) -> int:
        """Tasks of ours that run there."""
        return len(self._sent)

    @property
    def n_active(self) -> int:
        """Those of them that do not wait for others."""
        return sum(sent.lease != 0 for sent in self._sent.values())

    @property
    def n_accepted(self) -> int:
        """Tasks of theirs that run here."""
        return len(self._accepted)

    @property
    def is_quiet(self) -> bool:
        """Whether `sweep` would find nothing to do, whatever has happened."""
        return not self._imports and not self._accepted and not self._actors.n_here

    def send(self, message: messages.Message, frame: bytes | None = None) -> None:
        """Tell the other node."""
        self._send(message, frame)

    def fault(self, what: str) -> ForeignFault:
        """The other node has said what it cannot know."""
        return ForeignFault(what)

    # ---- ours, there
    def send_tasks(self, resource_class: int, most: int, demand: dict[str, int], lease: int, by_place: bool = False) -> int:
        """Have up to `most` waiting tasks of a class run there, `by_place` those first whose arguments lie there; returns how many
        there were."""
        records = self.proxy.take(resource_class, most, by_place)
        kept, env = self.proxy.kept(resource_class)
        tasks: list[Task] = []
        now = time.monotonic()
        (self.heavy.add if any(map(self._brings_much, records)) else self.heavy.discard)(resource_class)
        for record in records:
            if not tasks:
                self.begin_message()
            task, number, _, function, arguments, refs, n_dependencies, n_returns, max_retries, flags, attempt, origin, _, actor, its_object, _ = record
            self._sent[number] = Sent(task, lease, self.proxy.results(task), now, record, actor, actor >= 0)
            told = self.tell(function)
            if flags & STREAMS:
                refs.pop()  # the stream itself
            creates = self._actors.begin(actor, its_object, number) if actor >= 0 else None
            tasks.append(Task(number, told, demand, arguments, [self.tell(slot) for slot in refs], n_dependencies, n_returns, max_retries, flags,
                              *self._origin_told(origin), creates, kept if creates else {}, attempt if creates else 0,
                              self._actors.checkpoint_of(its_object) if creates else None, self._streams.begin(task, number) if flags & STREAMS else -1, env))
            if self.is_full(len(arguments)):
                self.send(Tasks(tasks))
                tasks = []
        if tasks:
            self.send(Tasks(tasks))
        return len(records)

    def _brings_much(self, record: tuple[Any, ...]) -> bool:
        """Whether a task of ours depends on large values that have to go there."""
        return any(slot not in self._told and slot not in self._origin and self._look(slot)[0] >= HEAVY_BYTES for slot in record[5][:record[6]])

    def begin_message(self) -> None:
        """So many bytes of values go into it."""
        self._room = MESSAGE_BYTES

    def is_full(self, n: int) -> bool:
        """Whether the message that is being written has enough in it, with `n` bytes more."""
        self._room -= n
        return self._room <= 0

    def send_call(self, record: tuple[Any, ...], index: int, there: Told) -> Task:
        """A call of an actor that is there."""
        task, number, _, function, arguments, refs, n_dependencies, n_returns, max_retries, flags, _, origin, _, _, _, group = record
        self._sent[number] = Sent(task, 0, self.proxy.results(task), time.monotonic(), record, index)
        if flags & STREAMS:
            refs.pop()
        return Task(number, self.tell(function), {}, arguments, [self.tell(slot) for slot in refs], n_dependencies, n_returns, max_retries, flags,
                    *self._origin_told(origin), stream=self._streams.begin(task, number) if flags & STREAMS else -1, actor=Ref(there.slot, there.generation, yours=True), group=group)

    def forget_sent(self, numbers: Iterable[int]) -> None:
        """These tasks of ours run there no more."""
        for number in numbers:
            self._sent.pop(number, None)
            self._streams.forget(number)

    def _results(self, results: list[Result]) -> None:
        now = time.monotonic()
        for result in results:
            sent = self._sent.get(result.number)
            self._streams.forget(result.number)
            if sent is None or sent.result is not None:
                raise ForeignFault(f"it answers for task {result.number}, which it was not given")
            if len(result.values) != len(sent.results):
                raise ForeignFault(f"it answers task {result.number} with {len(result.values)} values instead of {len(sent.results)}")
            sent.result, sent.ended = result, now
            if sent.creates:
                del self._sent[result.number]
                self._actors.constructed(sent, result)
            else:
                for slot, value in zip(sent.results, result.values, strict=True):
                    self.take_result(slot, value, result.number)
                if sent.actor >= 0:
                    self._actors.answered(sent.actor, result.number)  # and cannot be asked again: what it has done is done
                self._end(sent)
            self._free_place(sent)

    def _end(self, sent: Sent) -> None:
        """A task of ours has ended here, too, once all of its values have come: before that its machine may be lost, and it runs again."""
        result = sent.result
        if result is None or sent.n_coming:
            return
        del self._sent[result.number]
        elsewhere = [i for i, slot in enumerate(sent.results) if slot in self.transfers.elsewhere]
        if sent.actor < 0 and elsewhere:
            made = self._lineage.keep(sent.results, sent.record)
            for i in elsewhere:
                self._lineage.note(sent.results[i], made, i)
        since = time.monotonic() - sent.ended
        began, ended = ran_ago(sent.ended - sent.at, result)
        self.proxy.finish(sent.task, result.status, result.pid, began + since, ended + since)

    def take_result(self, slot: int, value: Value, number: int) -> None:
        """A value that our task of that number has made."""
        if value.state == PENDING:
            raise ForeignFault(f"a value of task {number} that has ended is pending")
        if value.there is None:
            self._fill(slot, value)
            return
        self.hold(slot)
        self._adopt(slot, value.there)
        self._fill(slot, value, value.there)
        if self.is_coming(slot):
            self._coming[slot] = number
            self._sent[number].n_coming += 1

    def came(self, slot: int) -> None:
        """All of an object here is known now, which was gathered: a value of a task of ours, or what tasks of theirs wait for."""
        sent = self._sent.get(self._coming.pop(slot, -1))
        if sent is not None:
            sent.n_coming -= 1
            self._end(sent)
        self._function_came(slot)

    def _returned(self, numbers: list[int]) -> None:
        for number in numbers:
            sent = self._sent.pop(number, None)
            self._streams.forget(number)
            if sent is None or sent.result is not None:
                raise ForeignFault(f"it returns task {number}, which it was not given")
            if sent.creates:
                self._actors.returned(sent)
            elif sent.actor >= 0:
                raise ForeignFault(f"it returns call {number}")
            else:
                self.proxy.give_back(sent.task)
            self._free_place(sent)

    def _blocked(self, numbers: list[int]) -> None:
        for number in numbers:
            if number in self._sent:
                self._free_place(self._sent[number])

    def _begun(self, tasks: list[Run]) -> None:
        now = time.monotonic()
        for run in tasks:
            sent = self._sent.get(run.number)
            if sent is not None:
                self.proxy.began(sent.task, run.pid, min(run.since * 1e-6, now - sent.at))

    def _note_queued(self, numbers: list[int]) -> None:
        self._queued = dict.fromkeys(number for number in numbers if number in self._sent and self._sent[number].lease)
        before, self._crowded = self._crowded, Counter(self._sent[number].lease for number in self._queued)
        self.waiting = {lease: self._crowded[lease] for lease in {*before, *self._crowded}}

    def take_back(self, lease: int, n: int) -> None:
        """There is room elsewhere for up to `n` of the tasks that wait there under a lease."""
        numbers = [number for number in self._queued if number in self._sent and self._sent[number].lease == lease][-n:]
        for number in numbers:
            del self._queued[number]
        if numbers:
            self.send(GiveBack(numbers))

    def _free_place(self, sent: Sent) -> None:
        self.free_lease(sent.lease)
        sent.lease = 0

    def free_lease(self, lease: int) -> None:
        """Something of ours takes no place there any more. 0: it took none."""
        if lease:
            self.ended[lease] += 1

    def _cancel_unwanted(self) -> None:
        run = {sent.task: number for number, sent in self._sent.items() if sent.result is None}
        unwanted = self.proxy.cancelled(list(run))
        if unwanted:
            self.send(Cancel([run[task] for task in unwanted]))

    # ---- theirs, here
    def _run(self, tasks: list[Task], has_room: Callable[[], bool]) -> None:
        refused = []
        for task in tasks:
            if task.number in self._accepted or task.creates is not None and task.n_returns != 1:
                raise ForeignFault(f"it gives task {task.number} twice")
            function, refs = self.resolve(task.function), [self.resolve(ref) for ref in task.refs]  # in any case: it has told us of them
            if task.actor is None and not has_room():
                refused.append(task.number)
                continue
            if function not in self._functions:
                self.hold(function)
            self._functions[function] = None
            if task.actor is not None:
                self._actors.accept(task, function, refs)
                continue
            if self.is_coming(function):
                for slot in refs:
                    self.hold(slot)
                self._without.setdefault(function, []).append(Held(task, refs))
            elif not self.submit(task, function, refs):
                refused.append(task.number)
        if refused:
            self.send(Returned(refused))

    def origin_of(self, task: Task) -> int:
        """This node's number for the cell that a task of theirs comes from."""
        return task.origin if task.comes_home else self._origin_here(task.origin)

    def is_coming(self, slot: int) -> bool:
        """Whether what an object holds has not been told yet."""
        return bool(self.proxy.look(slot)[0] == PENDING)

    def submit(self, task: Task, function: int, refs: list[int], actor: int | None = None) -> bool:
        """False: the segment has no room for it. `actor`: of a call, the slot of its actor."""
        kept = None
        try:
            if task.creates is not None:
                slot, seq, results, actor = self._actors.host(task, function, refs)
                kept = task.hold
            else:
                slot, seq, results, stream = self.proxy.submit(function, self.class_of(task.demand, None, task.env), task.arguments, refs, task.n_dependencies,
                                                     max(1, task.n_returns), task.max_retries, task.flags | self._stays,
                                                     self.origin_of(task), 0, actor, task.group, task.stream)
                if task.stream >= 0:
                    self._streams.accept(task.number, stream, task.stream)
        except ValueError as error:
            raise ForeignFault(str(error)) from error
        except self._StoreError:
            return False
        self._runs.watch(seq)
        self._number_of[seq] = task.number
        self._accepted[task.number] = Accepted(task.number, seq, slot, task.n_returns, results, len(results), actor=-1 if actor is None else actor,
                                               kept=kept)
        if away := [ref for ref in refs[:task.n_dependencies] if self._look(ref)[1] == ELSEWHERE]:
            self._line[task.number] = away
        for slot in results:
            self._held[slot] += 1
            self._result_of[slot] = task.number
            self.proxy.await_sealed(slot)
        return True

    def _look(self, slot: int) -> tuple[int, int]:
        """Size and place of a task's argument."""
        try:
            _, size, *_, place = self.proxy.look(slot)
        except TypeError:  # a stream
            return 0, HERE
        return size, place

    def upcoming(self, most: int, is_away: Callable[[int], bool]) -> list[list[int]]:
        """Of each of their first tasks that wait for them: arguments that are on other machines still."""
        found: list[list[int]] = []
        for number, slots in list(self._line.items()):
            away = [slot for slot in slots if is_away(slot)] if number in self._accepted else []
            if away:
                found.append(away)
            else:
                del self._line[number]
            if len(found) == most:
                break
        return found

    def _function_came(self, function: int) -> None:
        """What an object holds is known now: if it is a function, its tasks can begin."""
        for held in self._without.pop(function, []):
            if not self.submit(held.task, function, held.refs):
                self.send(Returned([held.task.number]))
            for slot in held.refs:
                self.drop(slot)
        self._actors.advance()

    def return_held(self, number: int) -> None:
        """A task of theirs will not begin here, if it has not."""
        for waiting in self._without.values():
            for held in [held for held in waiting if held.task.number == number]:
                waiting.remove(held)
                for slot in held.refs:
                    self.drop(slot)
                self.send(Returned([number]))

    def _finish(self, accepted: Accepted) -> Result | None:
        """None: it has ended with its actor, of which they are told as a whole."""
        self._streams.send_items(accepted.number)
        self._streams.over(accepted.number)
        del self._accepted[accepted.number]
        if len(self._number_of) > len(self._accepted) + N_ENDED:
            self._number_of.popitem(last=False)
        failed = self.proxy.look(accepted.results[0])[0] != READY
        is_over = accepted.actor >= 0 and accepted.kept is None and self._actors.finished(accepted, failed)
        values = [] if is_over else [self.value(accepted.results[0])] if accepted.kept is not None else [self.value_of_result(slot) for slot in accepted.results[:accepted.n_returns]]
        for slot in accepted.results:
            self.drop(slot)
        actor = self._actors.hosted(accepted, not failed) if accepted.kept is not None else None
        pid, *seconds = self._runs.take(accepted.seq)
        return None if is_over else Result(accepted.number, int(failed), values, actor, pid, *(int(each * 1e6) for each in seconds))

    def value_of_result(self, slot: int) -> Value:
        if self.proxy.look(slot)[1] <= MAX_INLINE_BYTES:
            return self.value(slot)
        state, size, refs, code, detail, _ = self.proxy.look(slot)
        return Value(state, size, refs=[self.tell(ref) for ref in refs], code=code, detail=detail, there=self.tell(slot, value=False))

    def _look_for_results(self) -> None:
        results: list[Result] = []
        for slot in self.proxy.sealed(list(self._result_of)):
            accepted = self._accepted[self._result_of.pop(slot)]
            accepted.n_left -= 1
            if accepted.n_left:
                continue
            if not results:
                self._room = MESSAGE_BYTES
            result = self._finish(accepted)
            if result is None:
                continue
            results.append(result)
            if self._room <= 0 or len(results) == messages.MAX_BATCH:
                self.send(Results(results))
                results = []
        if results:
            self.send(Results(results))

    def _tell_progress(self) -> None:
        """Which tasks of theirs sleep until others have ended, and which find no room."""
        tasks = list(self._accepted.values())
        progress = list(zip(tasks, self._client.progress([(task.task, task.seq) for task in tasks]), strict=True))
        blocked = [task for task, how in progress if how == SLEEPS and not task.has_blocked]
        for task in blocked:
            task.has_blocked = True
        if blocked:
            self.send(Blocked([task.number for task in blocked]))
        waiting = {task.number for task, how in progress if how == WAITS_FOR_ROOM and task.actor < 0}
        queued = sorted(waiting & self._waited)[:messages.MAX_BATCH]  # what is sent ahead waits for milliseconds
        self._waited = waiting
        if queued or self._has_queued:
            self.send(Queued(queued))
        self._has_queued = bool(queued)

    def _give_back(self, numbers: list[int]) -> None:
        returned = []
        for number in numbers:
            accepted = self._accepted.get(number)
            if accepted is not None and self.proxy.withdraw(accepted.task, accepted.seq):
                del self._accepted[number]
                self._streams.over(number)
                self._runs.take(accepted.seq)
                for slot in accepted.results:
                    self._result_of.pop(slot, None)
                    self.drop(slot)
                returned.append(number)
        if returned:
            self.send(Returned(returned))

    def _tell_begun(self) -> None:
        open_ones = {accepted.seq: accepted for accepted in self._accepted.values() if not accepted.told}
        begun = self._runs.begun(list(open_ones)) if open_ones else []
        for seq, _, _ in begun:
            open_ones[seq].told = True
        for begin in range(0, len(begun), messages.MAX_BATCH):
            self.send(Begun([Run(open_ones[seq].number, pid, int(since * 1e6)) for seq, pid, since in begun[begin:begin + messages.MAX_BATCH]]))

    def _cancel(self, numbers: list[int]) -> None:
        for number in numbers:
            accepted = self._accepted.get(number)
            if accepted is not None and accepted.results:
                self.proxy.cancel(accepted.results[0], False)

    # ---- telling of objects
    def tell(self, slot: int, depth: int = DEPTH, value: bool = True) -> Ref:
        origin = self._origin.get(slot)
        if origin is not None:
            return Ref(origin.slot, origin.generation, yours=True)
        told = self._told.get(slot)
        if told is not None:
            self._told[slot] = Told(told.slot, told.generation, told.n + 1)
            return Ref(slot, told.generation)
        self.hold(slot)
        generation = self.proxy.generation(slot)
        self._told[slot] = Told(slot, generation, 1)
        is_told_now = value and (depth and self._room > 0 or self._actors.describe(slot) is not None)
        return Ref(slot, generation, value=self.value(slot, depth) if is_told_now else None)

    def value(self, slot: int, depth: int = DEPTH) -> Value:
        """What an object holds; if it is pending, the other will be told once it is sealed."""
        try:
            state, size, refs, code, detail, _ = self.proxy.look(slot)
        except TypeError:  # a stream, or an actor with very many methods, deep inside a value
            return Value(FAILED, code=FAILURE_CANNOT_LEAVE)
        if state == PENDING and not self.proxy.await_sealed(slot):
            state, size, refs, code, detail, _ = self.proxy.look(slot)
        if state == PENDING:
            self._awaited.add(slot)
            return Value(PENDING)
        if state == FAILED:
            return Value(FAILED, code=code, detail=detail)
        if len(refs) > MOST_REFS:
            return Value(FAILED, code=FAILURE_OBJECT_LOST)
        data = self.proxy.read(slot, 0, size) if size <= MAX_INLINE_BYTES else b""
        self._room -= len(data) + 16 * len(refs)
        return Value(state, size, data, [self.tell(ref, depth - 1) for ref in refs], actor=self._actors.describe(slot))

    def _tell_sealed(self) -> None:
        sealed = self.proxy.sealed(list(self._awaited)) if self._awaited else []
        self._awaited.difference_update(sealed)
        self._send_values(sealed)

    def _wanted(self, objects: list[Told]) -> None:
        self._send_values([self.own(ref.slot, ref.generation) for ref in objects])

    def _send_values(self, slots: list[int]) -> None:
        refs: list[Ref] = []
        for slot in slots:
            if not refs:
                self._room = MESSAGE_BYTES
            refs.append(Ref(slot, self._told[slot].generation, value=self.value(slot)))
            if self._room <= 0:
                self.send(Sealed(refs))
                refs = []
        if refs:
            self.send(Sealed(refs))

    def _released(self, objects: list[Told]) -> None:
        for ref in objects:
            slot = self.own(ref.slot, ref.generation)
            told = self._told[slot]
            if ref.n > told.n:
                raise ForeignFault(f"it releases object {slot} more often than it was told of it")
            if ref.n < told.n:
                self._told[slot] = Told(slot, told.generation, told.n - ref.n)
                continue
            del self._told[slot]
            self._awaited.discard(slot)
            self._actors.released(slot)
            self.transfers.released(slot, told.generation)
            self.drop(slot)

    def own(self, slot: int, generation: int) -> int:
        told = self._told.get(slot)
        if told is None or told.generation != generation:
            raise ForeignFault(f"it names object {slot}, of which it was not told")
        return slot

    def told(self, slot: int) -> Told:
        """What they know an object of ours as, of which they have been told."""
        return self._told[slot]

    # ---- hearing of objects
    def origin(self, slot: int) -> Told | None:
        """What an object here is there, if it is theirs."""
        return self._origin.get(slot)

    def imported(self, key: tuple[int, int]) -> int | None:
        """The slot here of an object of theirs, by slot and generation there."""
        return self._imports.get(key)

    def arrived(self, slot: int) -> None:
        """All of an object of theirs is here."""
        self._lineage.forget(slot)

    def resolve(self, ref: Ref) -> int:
        """The slot here of an object that the other has named."""
        if ref.yours:
            return self.own(ref.slot, ref.generation)
        known = self._imports.get((ref.slot, ref.generation))
        if known is not None:
            origin = self._origin[known]
            self._origin[known] = Told(origin.slot, origin.generation, origin.n + 1)
            return known
        slot = self.proxy.create()
        self._held[slot] += 1
        self._adopt(slot, ref)
        if ref.value is None:
            self._wants.append(Told(ref.slot, ref.generation))
        else:
            self._fill(slot, ref.value, ref)
        return slot

    def _adopt(self, slot: int, ref: Ref) -> None:
        if (ref.slot, ref.generation) in self._imports:
            raise ForeignFault(f"it makes object {ref.slot} twice")
        self._imports[ref.slot, ref.generation] = slot
        self._origin[slot] = Told(ref.slot, ref.generation, 1)

    def _sealed(self, refs: list[Ref]) -> None:
        for ref in refs:
            slot = self._imports.get((ref.slot, ref.generation))
            if slot is not None and ref.value is not None:  # else it was released meanwhile, and the two have crossed
                self._fill(slot, ref.value, ref)
            elif ref.value is not None:
                for inner in ref.value.refs:
                    self.resolve(inner)  # told of it we have been, whatever becomes of what it is in

    def _fill(self, slot: int, value: Value, ref: Ref | None = None) -> None:
        """What an object here is to hold has been told. `ref`: where its bytes lie, if not in the value."""
        refs = [self.resolve(inner) for inner in value.refs]
        if value.state == PENDING:
            return
        if value.state == FAILED:
            # The detail of that one is a number of their segment's.
            self.proxy.seal_failed(slot, value.code, -1 if value.code == FAILURE_UNROUTED else value.detail)
        elif value.actor is not None:
            self._actors.stand_in(slot, value, refs)
        elif len(value.data) == value.size:
            self.seal(slot, value.state, value.data, refs)
        elif ref is None or value.data:
            raise ForeignFault(f"a value of {value.size} bytes comes with {len(value.data)}")
        elif value.state == READY and not refs:
            self._seal_elsewhere(slot, value.size)
        elif value.size > self._most_bytes:
            self.proxy.seal_failed(slot, FAILURE_STORE_FULL, 0)
        else:
            self.transfers.gather((ref.slot, ref.generation), slot, value.size, value.state, refs)
            return
        self._function_came(slot)

    def _seal_elsewhere(self, slot: int, size: int) -> None:
        try:
            if self.proxy.seal_elsewhere(slot, size):
                self.transfers.elsewhere.add(slot)
        except ValueError as error:
            raise ForeignFault(str(error)) from error

    def seal(self, slot: int, state: int, data: bytes | bytearray | None, refs: list[int]) -> None:
        """What has come is the value of an object here."""
        try:
            self.proxy.seal(slot, state, data, refs)
        except self._StoreError:
            self.proxy.seal_failed(slot, FAILURE_STORE_FULL, 0)

    # ---- names
    def find(self, number: int, name: str, namespace: str) -> None:
        """Ask for a living actor there; see `found`."""
        self.send(Find(number, name, namespace))

    def _find(self, number: int, name: str, namespace: str) -> None:
        try:
            slot = self.proxy.find_actor(name, namespace)
        except ValueError as error:
            raise ForeignFault(f"it asks for an actor whose name is none: {error}") from error
        self.begin_message()
        self.send(Found(number, None if slot is None else self.tell(slot)))

    # ---- what is printed
    def tell_output(self, output: WorkerOutput, origin: int) -> None:
        """Something that a task of theirs has printed here. `origin`: their number of the cell."""
        self.send(Output(self._number_of.get(output.task, 0), origin, output.stream, output.pid, output.text, output.bundle, output.name))

    # ---- holds
    def hold_new(self, slot: int) -> None:
        """An object that the proxy has made, and holds."""
        self._held[slot] += 1

    def hold(self, slot: int) -> None:
        if not self._held[slot]:
            self.proxy.hold(slot, self.proxy.generation(slot))
        self._held[slot] += 1

    def drop(self, slot: int) -> None:
        self._held[slot] -= 1
        if not self._held[slot]:
            del self._held[slot]
            self.proxy.drop([slot])

    # ---- from outside
    def receive(self, message: messages.Message, frame: bytes = b"", has_room: Callable[[], bool] = lambda: True) -> None:
        """Take in what the other node says.

        Raises
        ------
        ForeignFault
            It says what it cannot know. The exchange is to be closed.
        """
        match message:
            case Tasks(tasks):
                self._run(tasks, has_room)
            case Results(results):
                self._results(results)
            case Returned(numbers):
                self._returned(numbers)
            case Items():
                self._streams.items(message)
            case Taken():
                self._streams.taken(message)
            case Blocked(numbers):
                self._blocked(numbers)
            case ActorEnded():
                self._actors.ended(message)
            case Find(number, name, namespace):
                self._find(number, name, namespace)
            case Found(number, actor):
                self.found.append((number, None if actor is None else self.resolve(actor)))
            case Checkpoint():
                self._actors.saved(message)
            case Kill():
                self._actors.kill(message, self._accepted.get(message.number))
            case Begun(tasks):
                self._begun(tasks)
            case Queued(numbers):
                self._note_queued(numbers)
            case GiveBack(numbers):
                self._give_back(numbers)
            case Cancel(numbers):
                self._cancel(numbers)
            case Released(objects):
                self._released(objects)
            case Want(objects):
                self._wanted(objects)
            case Sealed(refs):
                self._sealed(refs)
            case Fetch():
                self.transfers.asked(message)
            case Chunk():
                self.transfers.chunk(message, frame)
            case Redirect():
                self.transfers.redirected(message)
            case Copied(slot, generation):
                self.transfers.copied((slot, generation))
        for begin in range(0, len(self._wants), messages.MAX_BATCH):
            self.send(Want(self._wants[begin:begin + messages.MAX_BATCH]))
        self._wants.clear()

    def look(self) -> None:
        """Something in the segment has changed: results, what was pending, what is read, what is cancelled."""
        self._streams.look()
        if self._result_of:
            self._look_for_results()
        if self._awaited:
            self._tell_sealed()
        self.transfers.look()
        if self._sent:
            self._cancel_unwanted()
        self._actors.look()

    def sweep(self, now: float) -> None:
        """Release what nobody here refers to any more. To be called now and then, unless `is_quiet`. `now`: seconds, monotonic."""
        self.transfers.sweep(now)
        self._streams.look()  # a reader may go without a word
        for slot, since in list(self._functions.items()):
            if since is None:
                self._functions[slot] = now
            elif now - since > KEEP_FUNCTION_S and slot not in self._without:
                del self._functions[slot]
                self.drop(slot)
        self._tell_progress()
        self._actors.advance()
        self._actors.tell_ended()
        self._tell_begun()
        unused = self.proxy.unused([slot for slot in self._origin if self._held[slot] == 1 and slot not in self._told])
        released = []
        for slot in unused:
            origin = self._origin.pop(slot)
            del self._imports[origin.slot, origin.generation]
            self.transfers.elsewhere.discard(slot)
            self._lineage.forget(slot)
            released.append(origin)
            self.drop(slot)
        for begin in range(0, len(released), messages.MAX_BATCH):
            self.send(Released(released[begin:begin + messages.MAX_BATCH]))

    def close(self) -> None:
        """The other node is gone. Its tasks are retried, what it held is let go of, what it has begun here ends, and results that lay
        there are made again."""
        self.transfers.close()
        for accepted in self._accepted.values():
            self._runs.take(accepted.seq)
        self._lineage.lost(list(self.transfers.elsewhere))
        self.proxy.close(NODE_DIED)


def ran_ago(away: float, result: Result) -> tuple[float, float]:
    """How many seconds ago a task began to run and ended, that was sent `away` seconds ago and comes home now. Of the clock there only
    durations are believed: what is left of the time was spent on the ways there and back, as long the one as the other."""
    waited, ran, kept = result.waited * 1e-6, result.ran * 1e-6, result.kept * 1e-6
    way = max(0.0, away - waited - ran - kept) / 2
    began = max(0.0, away - way - waited)
    return began, max(0.0, began - ran)


def demands(rows: Iterable[tuple[int, int, int, dict[str, int], *tuple[Any, ...]]]) -> dict[int, tuple[int, dict[str, int]]]:
    """From `Client.surplus`: of each class how many tasks there is no room for here, and what each needs."""
    return {row[0]: (row[1] - row[2], row[3]) for row in rows if row[1] > row[2]}


def uses_its_place(progress: int) -> bool:
    """Whether a task that is so far on (`Client.progress`) has a place: it has not ended, and does not sleep until others have."""
    return 0 < progress < SLEEPS
