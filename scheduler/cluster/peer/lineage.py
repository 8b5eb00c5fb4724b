"""How values are made again that lay on a machine which has been lost.

For each result that stays where it was made, the task is remembered, with what it was given. Values are held. What is
itself such a result is remembered by its own task and not held, so a long chain keeps no intermediate value alive. When
the machine is lost, the tasks run again, in order, and readers, which wait, get the bytes as if they came from there.
(The idea is that of lineage in Zaharia et al., Resilient Distributed Datasets, NSDI 2012; here it is the origin of a
task that remembers it.)

Bounded: beyond `MOST` tasks the oldest are forgotten, and then their results are lost for good. A task that makes
a value of another size the second time was no function of its arguments: its result is lost, too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from ....objstore._core import OBJECT_READY, PLACE_LOST, PLACE_REMOTE, RemoteNode, StoreError
from ..messages import CHUNK_BYTES
from .capacity import is_full

if TYPE_CHECKING:
    from ....objstore._core import Client, TaskRecord

MOST = 100_000
MOST_SHAPES = 512


class Made:
    """A task whose results lie elsewhere, and how to run it again. Lives as long as one of these results, or of what
    was made of them."""

    __slots__ = ("again", "inputs", "record", "results", "shape")

    def __init__(
        self,
        record: TaskRecord,
        shape: bytes,
        results: list[tuple[int, int]],
        inputs: list[Input | tuple[Made, int]],
    ) -> None:
        self.record = record
        self.shape = shape  # not its class: that may have been given up
        self.results = results  # slot and generation of each
        self.inputs = inputs  # of the function, then of each reference
        self.again: list[int] | None = None  # results of the run that makes them again


class Input:
    """A value that a task was given, held for as long as this lives."""

    __slots__ = ("_let_go", "slot")

    def __init__(self, slot: int, let_go: list[int]) -> None:
        self.slot, self._let_go = slot, let_go

    def __del__(self) -> None:
        self._let_go.append(self.slot)


class Lineage:
    """What this node's agent remembers. `bring`: as of a `Peer`."""

    def __init__(self, client: Client, bring: Callable[[int], None]) -> None:
        self.remote_node = RemoteNode(client)
        self._bring = bring
        self._made: OrderedDict[int, tuple[Made, int]] = OrderedDict()  # result's slot -> its task, and its place
        self._shapes: dict[int, bytes] = {}
        self._held: Counter[int] = Counter()  # why the remote node holds a slot: so many reasons
        self._let_go: list[int] = []  # of which these are none any more, see `sweep`
        self._coming: dict[int, int] = {}  # result of the second run -> the result that waits for it

    def __len__(self) -> int:
        return len(self._made)

    def keep(self, slots: list[int], record: TaskRecord) -> Made:
        """Remember the task of `record` (`RemoteNode.take`), before it is finished: then what it was given may be
        freed.
        """
        inputs: list[Input | tuple[Made, int]] = []
        for slot in (record.function, *record.refs):
            made = self._made.get(slot)
            inputs.append(made if made is not None else self._input(slot))
        return Made(
            record,
            self._shape_of(record.resource_class),
            [(slot, self.remote_node.generation(slot)) for slot in slots],
            inputs,
        )

    def _shape_of(self, resource_class: int) -> bytes:
        """One object for all tasks of a class."""
        if resource_class not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[resource_class] = self.remote_node.shape(resource_class)
        return self._shapes[resource_class]

    def note(self, slot: int, made: Made, index: int) -> None:
        """The result number `index` of a task lies elsewhere."""
        self._made[slot] = made, index
        if len(self._made) > MOST:
            self._made.popitem(last=False)

    def forget(self, slot: int) -> None:
        """The result has come, or is not referred to any more."""
        self._made.pop(slot, None)

    def lost(self, slots: list[int]) -> None:
        """These objects lay on a machine that is gone. To be called before its remote node is closed: what is not made
        again is lost then."""
        gone = {slot: self._made[slot] for slot in slots if slot in self._made}
        ran: list[Made] = []
        has_room = True
        for slot, (made, index) in gone.items():
            has_room = has_room and self._run(made, gone.keys(), ran)
            if not has_room:
                self.forget(slot)
                continue
            self._hold(slot, made.results[index][1])
            self.remote_node.move(slot, False)
            assert made.again is not None
            self._coming[made.again[index]] = slot
        for made in ran:  # what is not waited for lives on only in the tasks that it was given to
            self._let_go += [new for new in made.again or () if new not in self._coming]
            made.again = None

    def look(self) -> bool:
        """Take in what has been made again; whether there was any, for which others may have asked."""
        n_before = len(self._coming)
        for new in self.remote_node.sealed(list(self._coming)) if self._coming else ():
            found = self.remote_node.inspect(new)
            if found.place == PLACE_REMOTE:
                self._bring(new)
                continue
            slot = self._coming.pop(new)
            is_alike = found.state == OBJECT_READY and not found.place and not found.refs
            is_alike = is_alike and found.size == self.remote_node.inspect(slot).size
            if not is_alike or not self._copy(new, slot, found.size):
                self.remote_node.move(slot, True)
            self.forget(slot)
            self._let_go += [slot, new]
        return len(self._coming) < n_before

    def sweep(self) -> None:
        """Let go of what is not needed any more."""
        while self._let_go:
            slot = self._let_go.pop()
            self._held[slot] -= 1
            if not self._held[slot]:
                del self._held[slot]
                self.remote_node.drop([slot])

    def _hold(self, slot: int, generation: int) -> bool:
        found = slot in self._held or self.remote_node.hold(slot, generation)
        if found:
            self._held[slot] += 1
        return found

    def _input(self, slot: int) -> Input:
        self._hold(slot, self.remote_node.generation(slot))
        return Input(slot, self._let_go)

    def _run(self, made: Made, gone: Container[int], ran: list[Made]) -> bool:
        """Submit a task again, and before it those whose results it was given and that have gone; False: there is no
        room for them. Without recursion: chains are long."""
        todo = [made]
        while todo:
            task = todo[-1]
            missing = (
                []
                if task.again
                else [
                    item[0]
                    for item in task.inputs
                    if not isinstance(item, Input) and not item[0].again and not self._is_there(item, gone)
                ]
            )
            todo += missing
            if not missing:
                todo.pop()
                if not task.again:
                    try:
                        task.again = self._submit(task)
                    except StoreError as error:
                        if not is_full(error):
                            raise
                        return False
                    ran.append(task)
        return True

    def _is_there(self, item: tuple[Made, int], gone: Container[int]) -> bool:
        """Whether a result that a task was given can still be had."""
        slot, generation = item[0].results[item[1]]
        if slot in gone or not self._hold(slot, generation):
            return False
        self._let_go.append(slot)
        return self.remote_node.generation(slot) == generation and self.remote_node.inspect(slot).place != PLACE_LOST

    def _submit(self, task: Made) -> list[int]:
        record = task.record
        slots: list[int] = []
        for item in task.inputs:
            if isinstance(item, Input):
                slots.append(item.slot)
            elif item[0].again is not None:
                slots.append(item[0].again[item[1]])
            else:
                slots.append(item[0].results[item[1]][0])
        results = self.remote_node.submit(
            slots[0],
            task.shape,
            record.arguments,
            slots[1:],
            record.n_dependencies,
            record.n_returns,
            record.max_retries,
            record.flags,
            record.origin,
            record.parent,
            None,
            0,
            -1,
            0,
            record.times,
        ).results
        self._held.update(results)
        return results

    def _copy(self, new: int, slot: int, size: int) -> bool:
        memory = 0
        try:
            memory = self.remote_node.begin(slot)
            for at in range(0, size if memory else 0, CHUNK_BYTES):
                self.remote_node.fill(slot, memory, at, self.remote_node.read(new, at, min(CHUNK_BYTES, size - at)))
        except StoreError:  # no room for it, or for what it was moved to disk for
            if memory:
                self.remote_node.end(slot, memory, False)
            return False
        if memory:
            self.remote_node.end(slot, memory, True)
        return bool(memory)
