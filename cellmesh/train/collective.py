"""Collectives over shared memory: what MPI and NCCL call so, for the ranks of a group on one machine.

    memory = CollectiveMemory(2)

    @cm.remote
    def rank(i):
        with Communicator(memory, i) as comm:  # an error in the block ends the others' waiting
            x = np.full(1000, i + 1.0)
            comm.all_reduce(x)  # 3.0 everywhere

    cm.get([rank.remote(i) for i in range(2)])

Arrays are numpy's, of any dtype that holds its values itself, and of any size: what does not fit into a slot goes in
several rounds (`rounds.py`). Reductions are made in the order of the ranks, ((x0 + x1) + x2) + ..., whatever the size
and whichever rank computes, so results are the same bits on all ranks and in every run.

A rank is a process, or a thread of one. The collectives of a communicator are called one at a time.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ..groups.times import CollectiveTimes, RankTimes
from ..objects import get, put
from ..shared_memory import shared_array
from .exceptions import CollectiveMismatchError
from .flat import Flat, check_dtypes, check_size, counted, slices_of, text_of
from .reductions import Reduction, combined, reduction_of
from .rounds import LINE_BYTES, RoundMemory, Rounds, Wait, round_memories, waits_in_parts

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

MAX_RANKS = 64
SLOT_BYTES = 1 << 20  # a rank's part of a round: few rounds for large arrays, and it stays in the processors' caches
CHANNEL_BYTES = 1 << 16
PICKLED_BYTES = 1024  # of a ref
ALONE_BYTES = 1 << 14  # up to here each rank reduces everything itself, which is a barrier less


class CollectiveMemory:
    """What the ranks of a group meet in: made once, and given to the task of each rank.

    Parameters
    ----------
    n_ranks : int, 1 to 64
    slot_bytes : int, bytes
        What a rank writes in one round. A group takes twice that for each rank, as far as it is used.

    Raises
    ------
    ValueError
        A number is out of range.
    ObjectStoreFullError
        The object store has no room.
    """

    def __init__(self, n_ranks: int, slot_bytes: int = SLOT_BYTES) -> None:
        if not 1 <= n_ranks <= MAX_RANKS:
            raise ValueError(f"CollectiveMemory({n_ranks}): a group in shared memory has 1 to {MAX_RANKS} ranks")
        if slot_bytes < 1:
            raise ValueError(f"CollectiveMemory(slot_bytes={slot_bytes}): a slot has at least 1 byte")
        self.n_ranks: int = n_ranks
        # As large a slot as a part of one element for each rank needs.
        self.all: RoundMemory = round_memories(1, n_ranks, max(slot_bytes, LINE_BYTES * n_ranks))[0]
        self.times: CollectiveTimes = CollectiveTimes(n_ranks)
        # Of a rank that waits for a message the number of the pair, from 1, negative in a part of the group; else 0.
        self.awaits: NDArray[np.int64] = shared_array(n_ranks, np.int64)
        # One for each pair and direction, so that messages one way do not wait for those the other way.
        pairs = list(permutations(range(n_ranks), 2))
        self.channels: dict[tuple[int, int], RoundMemory] = dict(
            zip(pairs, round_memories(len(pairs), 2, CHANNEL_BYTES), strict=True)
        )

    @property
    def broken(self) -> bool:
        """Whether a rank has died or left the group, so that nothing can be done in it any more."""
        return any(memory.barrier.broken for memory in (self.all, *self.channels.values()))

    def waits(self) -> dict[int, Wait]:
        """The ranks that wait for others: in a collective that these have not called yet, or for the other end of a
        message; and what it is.
        """
        found = self.all.waits()
        for rank, (wait, members) in waits_in_parts(self.all.notes).items():
            found[rank] = wait._replace(what=f"{wait.what} of the ranks {members}")
        for rank, number in enumerate(self.awaits.tolist()):
            if not number:
                continue
            pair = divmod(abs(number) - 1, self.n_ranks)
            channel, end = self.channels[pair], pair.index(rank)
            if number > 0 and end in (waits := channel.waits()):
                found[rank] = waits[end]
            elif number < 0 and end in (waits_there := waits_in_parts(channel.notes)):
                found[rank] = waits_there[end][0]
        return found

    def abort(self) -> None:
        """Break the group, for a rank that cannot come any more: who waits, and who comes, gets a GroupBrokenError."""
        for memory in (self.all, *self.channels.values()):
            memory.barrier.abort()


class Part(NamedTuple):
    """Which part of a larger group a group is.

    Attributes
    ----------
    whole : CollectiveMemory
        Of the larger group, where it is noted for whom ranks wait.
    names : tuple of int
        What the ranks are called there.
    id : str
        What all its ranks call it.
    """

    whole: CollectiveMemory
    names: tuple[int, ...]
    id: str

    def note(self, memory: RoundMemory, row: int, rows: Sequence[int]) -> tuple[memoryview, str]:
        """As `Rounds` takes it."""
        return memoryview(memory.notes[row]), f"{self.id} {','.join(map(str, rows))}"


class Communicator:
    """A rank's end of a group.

    Parameters
    ----------
    memory : CollectiveMemory
    rank : int, 0 to n_ranks - 1
        No two ends have the same.
    part : Part, optional
        Of a larger group.
    waits : bool
        Whether making it waits for all other ranks, as of `Rounds`.

    Raises
    ------
    CollectiveMismatchError
        By each collective: ranks have called different ones, or given arrays of different shape or dtype. Every rank
        gets it, and the group is of no use any more.
    RankDiedError
        By each collective: a rank's process has died. Within a second.
    GroupBrokenError
        By each collective: a rank has called `abort`, was interrupted, or met an error.
    TypeError
        By each collective: the array holds Python objects.
    """

    def __init__(self, memory: CollectiveMemory, rank: int, part: Part | None = None, *, waits: bool = True) -> None:
        if not 0 <= rank < memory.n_ranks:
            raise ValueError(f"Communicator(rank={rank}): the group has ranks 0 to {memory.n_ranks - 1}")
        self.rank: int = rank
        self.n_ranks: int = memory.n_ranks
        self.names: tuple[int, ...] = part.names if part is not None else tuple(range(memory.n_ranks))
        self._memory, self._part = memory, part
        self._whole = part.whole if part is not None else memory
        times = RankTimes(memory.times, rank)
        self._told = memory.times.tell() if rank == 0 else None
        note = part.note(part.whole.all, part.names[rank], part.names) if part is not None else None
        self._rounds = Rounds(memory.all, rank, self.names, times, note, waits)
        self._views: dict[np.dtype[Any], list[NDArray[Any]]] = {}  # the halves, by dtype
        # All join the channels of their pairs in one order, so nobody waits in a circle.
        self._channels: dict[tuple[int, int], Rounds] = {}
        for pair, channel in memory.channels.items():
            if rank in pair:
                end, ends = pair.index(rank), (self.names[pair[0]], self.names[pair[1]])
                note = part.note(part.whole.channels[ends], end, (0, 1)) if part is not None else None
                self._channels[pair] = Rounds(channel, end, ends, times, note, waits)

    @property
    def is_used(self) -> bool:
        """Whether this rank has called a collective, or sent or awaited a message."""
        return any(rounds.is_used for rounds in (self._rounds, *self._channels.values()))

    # ---- all ranks get the result
    def all_reduce(self, array: NDArray[Any], op: str | Reduction = "sum") -> None:
        """Combine the arrays of all ranks, into the array of each.

        Parameters
        ----------
        array : ndarray
            Of the same shape and dtype on all ranks; overwritten.
        op : str or Reduction
            "sum", "avg", "product", "min", "max", and for whole numbers "band", "bor", "bxor".

        Raises
        ------
        ValueError
            There is no such reduction.
        TypeError
            The dtype has none: "avg" of whole numbers, "sum" of texts.
        """
        how = reduction_of(op, array.dtype)
        with Flat(array, as_bytes=False) as flat:
            what = f"all_reduce({how.name}) of {text_of(array)}"
            if flat.nbytes <= min(ALONE_BYTES, self._rounds.slot_bytes):
                self._reduce_alone(flat, how, what)
            else:
                self._reduce_in_slices(flat, how, what)

    def _reduce_alone(self, flat: NDArray[Any], how: Reduction, what: str) -> None:
        """Each rank has all slots, and reduces all of them."""
        for _ in self._rounds.over(1, 1, what):
            slots = self._slots(flat.dtype)[:, : flat.size]
            slots[self.rank] = flat
            self._rounds.meet()
            combined(list(slots), flat, how)

    def _reduce_in_slices(self, flat: NDArray[Any], how: Reduction, what: str) -> None:
        """Each rank reduces its slice of what is in a round, and all read the results. What a rank needs of itself
        does not go through the memory, so its slice of its own slot is free for the result.
        """
        rounds, me = self._rounds, self.rank
        others = [i for i in range(self.n_ranks) if i != me]
        for at in rounds.over(flat.size, self._per_slot(flat.dtype), what):
            part, slots = flat[at], self._slots(flat.dtype)
            slices = slices_of(part.size, self.n_ranks)
            for i in others:
                slots[me, slices[i]] = part[slices[i]]
            rounds.meet()
            mine = slices[me]
            parts = [slots[i, mine] if i != me else part[mine] for i in range(self.n_ranks)]
            combined(parts, slots[me, mine], how)
            rounds.meet()
            part[mine] = slots[me, mine]
            for i in others:
                part[slices[i]] = slots[i, slices[i]]

    def all_gather(self, out: NDArray[Any], array: NDArray[Any], what: str = "all_gather") -> None:
        """Put the arrays of all ranks one behind the other.

        Parameters
        ----------
        out : ndarray
            Of dtype `array.dtype`, with `n_ranks` times as many elements.
        array : ndarray
        what : str
            For messages, the same on all ranks.
        """
        with Flat(out) as flat, Flat(array, writes=False) as source:
            check_size("all_gather(out)", out, array, self.n_ranks)
            rows, header = flat.reshape(self.n_ranks, -1), f"{what} of {text_of(array)}"
            for at in self._rounds.over(source.size, self._per_slot(source.dtype), header):
                slots, n = self._slots(source.dtype), at.stop - at.start
                slots[self.rank, :n] = source[at]
                self._rounds.meet()
                rows[:, at] = slots[:, :n]

    def broadcast(self, array: NDArray[Any], root: int = 0, what: str = "broadcast") -> None:
        """Copy the array of one rank, `root`, to all others."""
        self._check_rank("broadcast(root)", root)
        self._send_out(self._rounds, array, root, f"{what} from rank {self.names[root]} of {text_of(array)}")

    def barrier(self, what: str = "barrier") -> None:
        """Wait until all ranks are here; `what`: for messages, the same on all."""
        for _ in self._rounds.over(0, 1, what):
            self._rounds.meet()

    # ---- each rank gets a part
    def reduce_scatter(self, out: NDArray[Any], array: NDArray[Any], op: str | Reduction = "sum") -> None:
        """Combine the arrays of all ranks; rank i gets the i-th part.

        Parameters
        ----------
        out : ndarray
        array : ndarray
            Of dtype `out.dtype`, with `n_ranks` times as many elements. Not changed.
        op : str or Reduction
            As for `all_reduce`.
        """
        how = reduction_of(op, array.dtype)
        with Flat(out, as_bytes=False) as flat, Flat(array, writes=False, as_bytes=False) as source:
            check_size("reduce_scatter(array)", array, out, self.n_ranks)
            rows, me = source.reshape(self.n_ranks, -1), self.rank
            header = f"reduce_scatter({how.name}) of {text_of(array)}"
            for at in self._rounds.over(flat.size, self._per_slot(flat.dtype, self.n_ranks), header):
                n = at.stop - at.start
                slots = self._pieces(flat.dtype)
                slots[me, :, :n] = rows[:, at]
                self._rounds.meet()
                combined([slots[i, me, :n] for i in range(self.n_ranks)], flat[at], how)

    def all_to_all(
        self,
        out: NDArray[Any],
        array: NDArray[Any],
        out_counts: Sequence[int] | None = None,
        counts: Sequence[int] | None = None,
    ) -> None:
        """Send the j-th part of rank i's array to rank j, which has it as its i-th part.

        Parameters
        ----------
        out, array : ndarray
            Of one dtype.
        out_counts, counts : sequence of int, optional
            How many elements come from and go to each rank; equal parts unless given.

        Raises
        ------
        ValueError
            The counts do not add up to the arrays' sizes.
        CollectiveMismatchError
            What a rank sends is not what another expects.
        """
        with Flat(out) as flat, Flat(array, writes=False) as source:
            check_dtypes("all_to_all", out, array)
            sends = counted("counts", counts, array.size, self.n_ranks)
            takes = counted("out_counts", out_counts, out.size, self.n_ranks)
            table = np.empty((self.n_ranks, 2, self.n_ranks), np.int64)
            self.all_gather(table, np.array([sends, takes], np.int64))
            self._check_counts(table)
            me, header = self.rank, f"all_to_all of {array.dtype}"
            from_, to = (np.cumsum([0, *numbers]) * array.itemsize for numbers in (sends, takes))
            most = int(table.max()) * array.itemsize
            for at in self._rounds.over(most, self._per_slot(source.dtype, self.n_ranks), header):
                slots = self._pieces(source.dtype)
                for i in range(self.n_ranks):
                    piece = source[from_[i] : from_[i + 1]][at]
                    slots[me, i, : piece.size] = piece
                self._rounds.meet()
                for i in range(self.n_ranks):
                    piece = flat[to[i] : to[i + 1]][at]
                    piece[:] = slots[i, me, : piece.size]

    def _check_counts(self, table: NDArray[np.int64]) -> None:
        for i, j in zip(*np.nonzero(table[:, 0] != table[:, 1].T), strict=True):
            raise CollectiveMismatchError(
                f"all_to_all: rank {self.names[i]} sends {table[i, 0, j]:,} elements to rank {self.names[j]}, which "
                f"expects {table[j, 1, i]:,}"
            )

    # ---- one rank has, or gets, the result
    def reduce(self, array: NDArray[Any], root: int = 0, op: str | Reduction = "sum") -> None:
        """Combine the arrays of all ranks, into that of rank `root`; the others' stay as they are."""
        self._check_rank("reduce(root)", root)
        how = reduction_of(op, array.dtype)
        with Flat(array, writes=self.rank == root, as_bytes=False) as flat:
            header = f"reduce({how.name}) to rank {self.names[root]} of {text_of(array)}"
            for at in self._rounds.over(flat.size, self._per_slot(flat.dtype), header):
                part = flat[at]
                slots = self._slots(flat.dtype)[:, : part.size]
                slots[self.rank] = part
                self._rounds.meet()
                if self.rank == root:
                    combined(list(slots), part, how)

    def gather(self, out: NDArray[Any] | None, array: NDArray[Any], root: int = 0) -> None:
        """Put the arrays of all ranks one behind the other, on rank `root`; `out` is None on the others."""
        self._check_rank("gather(root)", root)
        with Flat(array, writes=False) as source, Flat(self._at_root("gather(out)", out, root)) as flat:
            if self.rank == root and out is not None:
                check_size("gather(out)", out, array, self.n_ranks)
            header = f"gather to rank {self.names[root]} of {text_of(array)}"
            for at in self._rounds.over(source.size, self._per_slot(source.dtype), header):
                slots, n = self._slots(source.dtype), at.stop - at.start
                slots[self.rank, :n] = source[at]
                self._rounds.meet()
                if self.rank == root:
                    flat.reshape(self.n_ranks, -1)[:, at] = slots[:, :n]

    def scatter(self, out: NDArray[Any], array: NDArray[Any] | None, root: int = 0) -> None:
        """Rank i gets the i-th part of the array of rank `root`; `array` is None on the others."""
        self._check_rank("scatter(root)", root)
        given = self._at_root("scatter(array)", array, root)
        with Flat(out) as flat, Flat(given, writes=False) as source:
            if self.rank == root and array is not None:
                check_size("scatter(array)", array, out, self.n_ranks)
            header = f"scatter from rank {self.names[root]} of {text_of(out)}"
            for at in self._rounds.over(flat.size, self._per_slot(flat.dtype), header):
                slots, n = self._slots(flat.dtype), at.stop - at.start
                if self.rank == root:
                    slots[:, :n] = source.reshape(self.n_ranks, -1)[:, at]
                self._rounds.meet()
                flat[at] = slots[self.rank, :n]

    # ---- two ranks
    def send(self, array: NDArray[Any], to: int, tag: int = 0) -> None:
        """Send an array to a rank, which calls `recv`; waits until it does. Messages from one rank to another arrive in
        their order; both ends give the same tag.
        """
        with self.awaited((self.rank, to)):
            self.message("send(to)", (self.rank, to), array, tag)

    def recv(self, array: NDArray[Any], source: int, tag: int = 0) -> None:
        """Receive what a rank sends, into an array of the same shape and dtype."""
        with self.awaited((source, self.rank)):
            self.message("recv(source)", (source, self.rank), array, tag)

    @contextmanager
    def awaited(self, pair: tuple[int, int]) -> Iterator[None]:
        """The rank waits for a message from the first of a pair to the second, and does nothing else meanwhile."""
        whole, me = self._whole, self.names[self.rank]
        number = 1 + self.names[pair[0]] * whole.n_ranks + self.names[pair[1]]
        whole.awaits[me] = number if self._part is None else -number
        try:
            yield
        finally:
            whole.awaits[me] = 0

    def message(self, name: str, pair: tuple[int, int], array: NDArray[Any], tag: int) -> None:
        """One end of a message, of any thread; `name`: of the argument that says the other end, for errors."""
        other = pair[1] if pair[0] == self.rank else pair[0]
        self._check_rank(name, other)
        if other == self.rank:
            raise ValueError(f"{name}={other}: this is rank {self.rank} itself, and a message goes to another rank")
        source, to = (self.names[i] for i in pair)
        self._send_out(self._channels[pair], array, 0, f"message {tag} from rank {source} to {to} of {text_of(array)}")

    def _send_out(self, rounds: Rounds, array: NDArray[Any], root: int, header: str) -> None:
        with Flat(array, writes=rounds.rank != root) as flat:
            for at in rounds.over(flat.size, rounds.slot_bytes, header):
                part = flat[at]
                slot = rounds.halves[rounds.half][root, : part.size]
                if rounds.rank == root:
                    slot[:] = part
                rounds.meet()
                if rounds.rank != root:
                    part[:] = slot

    # ---- the group
    def split(self, ranks: Sequence[int]) -> Communicator | None:
        """A group of some of the ranks, in the order in which they are given. Those ranks call it, and others may.

        Returns
        -------
        Communicator or None
            None on ranks that are not among them.
        """
        for i in ranks:
            self._check_rank("split(ranks)", i)
        if len(set(ranks)) != len(ranks) or not ranks:
            raise ValueError(f"split({ranks!r}): one rank or more, each once")
        if self.rank not in ranks:
            return None
        maker, names = ranks[0], tuple(self.names[i] for i in ranks)
        text, header = np.zeros(PICKLED_BYTES, np.uint8), f"a group of the ranks {names}"
        if self.rank != maker:
            self._pass_on((maker, self.rank), text, header)
            memory = get(pickle.loads(text.tobytes()))
        else:
            memory = CollectiveMemory(len(ranks), self._rounds.slot_bytes)
            ref = put(memory)  # which a pickle names and does not hold (`pickled_refs.py`): until all have joined
            data = pickle.dumps(ref)
            text[: len(data)] = np.frombuffer(data, np.uint8)
            for i in ranks[1:]:
                self._pass_on((maker, i), text, header)
        return Communicator(memory, ranks.index(self.rank), Part(self._whole, names, f"{zlib.crc32(text.tobytes()):x}"))

    def _pass_on(self, pair: tuple[int, int], text: NDArray[np.uint8], header: str) -> None:
        with self.awaited(pair):
            self._send_out(self._channels[pair], text, 0, header)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.abort()

    def abort(self) -> None:
        """Break the group, for a rank that cannot come any more: who waits, and who comes, gets a GroupBrokenError."""
        self._memory.abort()

    # ---- parts
    def _per_slot(self, dtype: np.dtype[Any], n_pieces: int = 1) -> int:
        """How many elements fit into a slot, or into a piece of one."""
        return max(1, self._rounds.slot_bytes // n_pieces // dtype.itemsize)

    def _slots(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The slots of this round, of shape (n_ranks, n)."""
        rounds = self._rounds
        views = self._views.get(dtype)
        if views is None:
            n = rounds.slot_bytes // dtype.itemsize * dtype.itemsize
            views = self._views[dtype] = [half[:, :n].view(dtype) for half in rounds.halves]
        return views[rounds.half]

    def _pieces(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The slots, each with a piece for each rank: of shape (n_ranks, n_ranks, n)."""
        n = self._per_slot(dtype, self.n_ranks)
        return self._slots(dtype)[:, : n * self.n_ranks].reshape(self.n_ranks, self.n_ranks, n)

    def _check_rank(self, name: str, rank: int) -> None:
        if not 0 <= rank < self.n_ranks:
            raise ValueError(f"{name}={rank}: the group has ranks 0 to {self.n_ranks - 1}")

    def _at_root(self, name: str, array: NDArray[Any] | None, root: int) -> NDArray[Any]:
        if self.rank == root and array is None:
            raise TypeError(f"{name} is None, and this is the root, rank {root}: it gives an array")
        return array if array is not None and self.rank == root else np.empty(0)
