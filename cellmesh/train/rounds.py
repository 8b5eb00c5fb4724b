"""Rounds: how the ranks of a group meet in shared memory, and tell each other what they have come for.

A round is what lies between two rounds' first barriers. In it each rank writes into its own part of one *half* of the
memory, waits at the barrier, and reads what the others have written. Rounds take turns with the two halves, so one
barrier a round is enough: who writes into a half again has passed the barrier of the round between, which the others
reach only when they have read.

The first round of a collective has a *header*, a line of text that says what the rank has called. It is compared after
the barrier, before anything is used, so ranks that do not agree all learn of it and none hangs.

Whatever stops a rank while others may wait for it, an interrupt or an error, breaks the barrier; the death of a process
that has joined breaks it by itself (`util/shared_sync.py`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..exceptions import BrokenSyncError, MemberDiedError
from ..shared_memory import shared_arrays
from ..util.shared_sync import Barrier
from .exceptions import CollectiveMismatchError, GroupBrokenError, RankDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ..groups.times import RankTimes

HEADER_BYTES = 256
# The part's name and the rows of its ranks; which, and what it is.
PART_NOTE = re.compile(rb"(\w+) (\d+(?:,\d+)*) (\d+) (.*)", re.S)
LINE_BYTES = 64  # what ranks write at the same time lies on different cache lines


class RoundMemory:
    """The memory of a group, given to the task of each rank; see `round_memories`.

    Attributes
    ----------
    barrier : Barrier
    slots : array of shape (2, n_ranks, slot_bytes)
    headers : array of shape (2, n_ranks, HEADER_BYTES)
    pids : array of n_ranks
    notes : array of shape (n_ranks, HEADER_BYTES)
        Of what these ranks do in smaller groups.
    """

    def __init__(
        self,
        slots: NDArray[np.uint8],
        headers: NDArray[np.uint8],
        pids: NDArray[np.int64],
        notes: NDArray[np.uint8],
    ) -> None:
        self.barrier: Barrier = Barrier(len(pids))
        self.slots: NDArray[np.uint8] = slots
        self.headers: NDArray[np.uint8] = headers
        self.pids: NDArray[np.int64] = pids
        self.notes: NDArray[np.uint8] = notes

    def waits(self) -> dict[int, Wait]:
        """The ranks that wait for others, which have not called what they have, and what that is. By whoever looks, of
        what lies there: ranks do nothing for it.
        """
        said = [max(map(_collective, rows)) for rows in self.headers.swapaxes(0, 1)]
        latest = max(number for number, _ in said)
        found = {rank: wait for rank, wait in enumerate(said) if wait.number == latest}
        return found if len(found) < len(said) and self.barrier.n_waiting == len(found) else {}


def round_memories(n: int, n_ranks: int, slot_bytes: int) -> list[RoundMemory]:
    """The memories of several groups, in one object of the store.

    Parameters
    ----------
    n : int
        How many.
    n_ranks : int
        Of each.
    slot_bytes : int
        What a rank can write in one round; rounded up to whole cache lines.
    """
    arrays = shared_arrays(
        {
            "slots": ((n, 2, n_ranks, -(-slot_bytes // LINE_BYTES) * LINE_BYTES), np.uint8),
            "headers": ((n, 2, n_ranks, HEADER_BYTES), np.uint8),
            "pids": ((n, n_ranks), np.int64),
            "notes": ((n, n_ranks, HEADER_BYTES), np.uint8),
        }
    )
    return [RoundMemory(**{name: array[i] for name, array in arrays.items()}) for i in range(n)]


class Wait(NamedTuple):
    """What a rank has called: which of its collectives, or of the messages of a pair, it is, and its text."""

    number: int
    what: str


def _line(text: str) -> bytes:
    return text.encode()[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")


def waits_in_parts(notes: NDArray[np.uint8]) -> dict[int, tuple[Wait, str]]:
    """The rows of ranks that are in a collective of a part of their group, or with a message there, which other rows of
    it are not in; what it is, and these rows. `notes`: a row for each rank.
    """
    matches = {rank: PART_NOTE.match(row.tobytes()) for rank, row in enumerate(notes)}
    said = {rank: match.groups() for rank, match in matches.items() if match is not None}
    return {
        rank: (Wait(int(number), what.rstrip(b"\0").decode(errors="replace")), members.decode())
        for rank, (part, members, number, what) in said.items()
        if any(said.get(int(member), ())[:3] != (part, members, number) for member in members.split(b","))
    }


def _collective(row: NDArray[np.uint8]) -> Wait:
    """What a header says that a rank has called; number 0 for nothing, and for what is just being written."""
    number, _, what = row.tobytes().rstrip(b"\0").decode(errors="replace").partition(" ")
    return Wait(int(number) if number.isdecimal() else 0, what)


class Rounds:
    """A rank's end of the memory.

    Attributes
    ----------
    halves : list of two arrays of shape (n_ranks, slot_bytes)
        The bytes of the ranks, one slot for each.
    half : int
        Which of them this round is in.

    Parameters
    ----------
    memory : RoundMemory
    rank : int
        0 to the memory's number of ranks, less 1; no two ends have the same.
    names : sequence of int, optional
        What the ranks are called in messages, where this is a part of a larger group.
    times : RankTimes, optional
        Where it is noted when the rank is in a collective, while somebody looks.
    note : memoryview and str, optional
        Of a part of a larger group: a row of `RoundMemory.notes` in which a rank says what it is in, and what stands
        before that: the part's name and its rows.
    waits : bool
        Whether making it waits for all others; if it does for one it does for all. Until a rank has come for the first
        time, its death breaks nothing.

    Raises
    ------
    RankDiedError, GroupBrokenError
        The group is broken already, or breaks while this rank waits; so do all methods.
    """

    def __init__(
        self,
        memory: RoundMemory,
        rank: int,
        names: tuple[int, ...] | None = None,
        times: RankTimes | None = None,
        note: tuple[memoryview, str] | None = None,
        waits: bool = True,
    ) -> None:
        self.n_ranks: int = memory.slots.shape[1]
        self.slot_bytes: int = memory.slots.shape[2]
        self.rank: int = rank
        self._names = names or tuple(range(self.n_ranks))
        self._memory, self._times, self._note = memory, times, note
        self.halves: list[NDArray[np.uint8]] = list(memory.slots)
        self._headers = [memoryview(half.reshape(-1)) for half in memory.headers]
        self.half: int = 0
        self._n = 0
        self._header: bytes | None = None  # of the collective whose first round has not met yet
        self._what = "the group's beginning"
        memory.pids[rank] = os.getpid()
        if waits:
            self._wait()

    @property
    def is_used(self) -> bool:
        """Whether a collective has been called here."""
        return self._n > 0

    def over(self, size: int, per_round: int, what: str) -> Iterator[slice]:
        """The rounds of a collective: at least one, each for a slice of so many elements. The loop's body writes into
        its half, calls `meet`, and reads.

        Parameters
        ----------
        size, per_round : int, elements
        what : str
            What all ranks are to have called alike.
        """
        self._n += 1
        self._what = what
        self._header = _line(f"{self._n} {what}")
        times = self._times if self._times is not None and self._times.watched[0] else None
        if times is not None:
            times.enter(what)
        if self._note is not None:
            self._note[0][:] = _line(f"{self._note[1]} {self._n} {what}")
        try:
            for at in range(0, max(size, 1), per_round):
                yield slice(at, min(at + per_round, size))
                self.half ^= 1
        finally:
            if self._note is not None:
                self._note[0][:1] = b"\0"
            if times is not None:
                times.leave()

    def meet(self) -> None:
        """The barrier of a round: what the others have written before can be read afterwards.

        Raises
        ------
        CollectiveMismatchError
            In a collective's first round: the ranks have called different ones.
        """
        header = self._header
        if header is None:
            self._wait()
            return
        self._header = None
        lines = self._headers[self.half]
        lines[self.rank * HEADER_BYTES : (self.rank + 1) * HEADER_BYTES] = header
        self._wait()
        if (said := bytes(lines)) != header * self.n_ranks:
            self._disagree(said)

    def leave(self) -> None:
        """Break the group, for this rank will not come any more: the others get a GroupBrokenError."""
        self._memory.barrier.abort()

    def _wait(self) -> None:
        try:
            self._memory.barrier.wait()
        except MemberDiedError as error:
            raise self._died(error.pid) from None
        except BrokenSyncError:
            raise GroupBrokenError(
                f"rank {self._name}: {self._what} cannot be done, as another rank has left the group, by an error or "
                "because it was interrupted"
            ) from None
        except BaseException:  # an interrupt: the others would wait for ever
            self.leave()
            raise

    @property
    def _name(self) -> int:
        return self._names[self.rank]

    def _died(self, pid: int) -> RankDiedError:
        pids = self._memory.pids.tolist()
        who = self._names[pids.index(pid)] if pid and pid in pids else -1
        return RankDiedError(
            f"{f'rank {who}' if who >= 0 else 'a rank'} (process {pid}) died: {self._what} cannot be done on rank "
            f"{self._name}",
            rank=who,
            pid=pid,
        )

    def _disagree(self, lines: bytes) -> None:
        self.leave()
        said = [
            lines[at : at + HEADER_BYTES].rstrip(b"\0").decode(errors="replace")
            for at in range(0, len(lines), HEADER_BYTES)
        ]
        each = "; ".join(
            f"rank {self._names[i]}: {text.partition(' ')[2]} (its collective {text.partition(' ')[0]})"
            for i, text in enumerate(said)
        )
        raise CollectiveMismatchError(
            f"the ranks do not agree. {each}. All ranks call the same collectives in the same order, with arrays of "
            "one shape and dtype"
        )
