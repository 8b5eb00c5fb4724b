"""When the members of a group were in collectives: kept in shared memory while somebody looks (decision 140).

Each rank has a ring of records. A record is a collective, or several that have begun within `MERGED_S`: so a rank that
does thousands in a second writes no more than one can see, and who looks has seconds to do so. While nobody looks a
collective costs a rank one look at a byte.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..session.current import current
from ..shared_memory import shared_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..refs import ObjectRef

N_RECORDS = 256  # of a rank: five seconds, or more
MERGED_S = 0.02
WHAT_BYTES = 100
RECORD = np.dtype(
    [
        ("began", "<f8"),  # Unix time
        ("ended", "<f8"),  # 0: the rank is in it
        ("inside", "<f8"),  # seconds in its collectives that have ended
        ("calls", "<u4"),  # how many these are
        ("what", f"S{WHAT_BYTES}"),  # the longest of them, as messages call it
    ]
)
_RECORD = struct.Struct(f"<dddI{WHAT_BYTES}s")
_ENDED = struct.Struct("<d")
_ENDED_AT = RECORD.fields["ended"][1] if RECORD.fields else 8


class CollectiveTimes:
    """The records of a group's ranks.

    Parameters
    ----------
    n_ranks : int

    Attributes
    ----------
    records : array of `RECORD`, by rank
        Record number i of a rank lies at place i modulo `N_RECORDS`.
    begun : array of int
        How many records each rank has begun.
    pids : array of int
        0 for a rank that has not begun.
    watched : array of one bool
        Set by who looks.
    """

    def __init__(self, n_ranks: int) -> None:
        arrays = shared_arrays(
            {
                "records": ((n_ranks, N_RECORDS), RECORD),
                "begun": (n_ranks, np.uint64),
                "pids": (n_ranks, np.int64),
                "watched": (1, np.bool_),
            }
        )
        self.records: NDArray[Any] = arrays["records"]
        self.begun: NDArray[np.uint64] = arrays["begun"]
        self.pids: NDArray[np.int64] = arrays["pids"]
        self.watched: NDArray[np.bool_] = arrays["watched"]

    def tell(self) -> ObjectRef[CollectiveTimes] | None:
        """In a worker: have drivers know of it, as long as the ref that this returns is there."""
        of = current()
        if not of.is_worker:
            return None
        ref = of.client.put(self)
        of.collectives_begin(pickle.dumps(ref))
        return ref


class RankTimes:
    """A rank's end of it.

    Attributes
    ----------
    watched : memoryview
        Its one item says whether somebody looks.

    Parameters
    ----------
    times : CollectiveTimes
    rank : int
    """

    def __init__(self, times: CollectiveTimes, rank: int) -> None:
        self.watched: memoryview = times.watched.data
        self._records = times.records[rank].view(np.uint8).reshape(-1).data
        self._begun = times.begun[rank : rank + 1].data
        self._at = self._n = self._calls = 0
        self._began = self._entered = self._inside = self._longest = 0.0
        self._what = self._longest_what = b""
        times.pids[rank] = os.getpid()

    def enter(self, what: str) -> None:
        """The rank enters a collective."""
        now = self._entered = time.time()
        self._what = what.encode()[:WHAT_BYTES]
        if 0 <= now - self._began < MERGED_S:
            _ENDED.pack_into(self._records, self._at + _ENDED_AT, 0.0)
            return
        self._began, self._longest_what = now, self._what
        self._inside = self._longest = 0.0
        self._calls = 0
        self._at = self._n % N_RECORDS * _RECORD.size
        _RECORD.pack_into(self._records, self._at, now, 0.0, 0.0, 0, self._what)
        self._n += 1
        self._begun[0] = self._n

    def leave(self) -> None:
        """It leaves it, whatever has become of it."""
        now = time.time()
        seconds = now - self._entered
        self._inside += seconds
        self._calls += 1
        if seconds > self._longest:
            self._longest, self._longest_what = seconds, self._what
        _RECORD.pack_into(self._records, self._at, self._began, now, self._inside, self._calls, self._longest_what)


class OwnTimes:
    """The records of one process, of collectives that are in no memory of a group. Several may be under way at a time:
    then it is in them from the beginning of the first to the end of the last.

    Attributes
    ----------
    told : ObjectRef, optional
        Kept here: what `CollectiveTimes.tell` has returned.

    Parameters
    ----------
    times : CollectiveTimes
        Of one rank.
    """

    told: ObjectRef[CollectiveTimes] | None = None

    def __init__(self, times: CollectiveTimes) -> None:
        self._times = RankTimes(times, 0)
        self._lock = threading.Lock()
        self._n = 0

    @property
    def watched(self) -> bool:
        """Whether somebody looks."""
        return bool(self._times.watched[0])

    def enter(self, what: str) -> None:
        """A collective begins; `leave` is to follow, from any thread."""
        with self._lock:
            self._n += 1
            if self._n == 1:
                self._times.enter(what)

    def leave(self) -> None:
        """One has ended, whatever has become of it."""
        with self._lock:
            self._n -= 1
            if not self._n:
                self._times.leave()

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """The block is a collective."""
        if not self.watched:
            yield
            return
        self.enter(what)
        try:
            yield
        finally:
            self.leave()


@cache
def own_times() -> OwnTimes:
    """Of this process, made when it is first asked for."""
    times = CollectiveTimes(1)
    own = OwnTimes(times)  # it notes whose they are before anybody is told of them
    own.told = times.tell()
    return own
