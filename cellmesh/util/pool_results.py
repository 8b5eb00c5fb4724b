"""The results of a `Pool`'s calls: what collects the outcomes of chunks, and what a caller waits for or iterates over.

`Pool` hands out the chunks and tells each job of their outcomes: `_take` with the pool's lock held, then `_call_back`
without it.
"""

from __future__ import annotations

import itertools
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import TimeoutError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..refs import ObjectRef
from ..scheduler.sync.condition import Condition
from ..session.futures import without_frames

if TYPE_CHECKING:
    from .multiprocessing import Pool

T = TypeVar("T")
N_TIMES_AHEAD = 8  # as far as usual may an input be read while its reader waits for one that is slow


class AsyncResult(Generic[T]):
    """What `apply_async`, `map_async` and `starmap_async` return."""

    def __init__(
        self,
        pool: Pool,
        n_chunks: int,
        single: bool,
        callback: Callable[[T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> None:
        self._pool = pool
        self._single = single
        self._callback, self._error_callback = callback, error_callback
        self._chunks: list[Any] = [None] * n_chunks
        self._n_missing = n_chunks
        self._error: BaseException | None = None
        self._is_over = False  # until after the callback, on which threads that wait may rely
        self._ending = Condition()
        self._call_back()

    def ready(self) -> bool:
        """Whether the call is over."""
        self._pool._collect(0)
        return self._is_over

    def successful(self) -> bool:
        """Whether it is over and has raised nothing; ValueError if it is not over."""
        if not self.ready():
            raise ValueError(f"{self!r} is not ready")
        return self._error is None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is over, or until the time is up."""
        end = None if timeout is None else time.monotonic() + timeout
        self._pool._collect_until(lambda: not self._n_missing, timeout)
        if not self._n_missing:
            self._ending.wait_for(lambda: self._is_over, None if end is None else end - time.monotonic())

    def get(self, timeout: float | None = None) -> T:
        """The result; raises what the function raised, or multiprocessing.TimeoutError when the time is up."""
        self.wait(timeout)
        if not self._is_over:
            raise TimeoutError(f"no result within {timeout:g} s; the call goes on")
        if self._error is None:
            return self._value()
        try:
            raise self._error
        finally:
            del self  # the error's traceback has this frame

    def _value(self) -> Any:
        chunks = self._pool._session.client.get(self._chunks, None)
        return chunks[0][0] if self._single else list(itertools.chain.from_iterable(chunks))

    def _take(self, index: int, outcome: ObjectRef | BaseException) -> None:
        """A chunk is over. Called with the pool's lock held."""
        self._n_missing -= 1
        if not isinstance(outcome, BaseException):
            self._chunks[index] = outcome
        elif self._error is None:
            self._error = outcome

    def _call_back(self) -> None:
        """Called after each `_take`, without the lock."""
        with self._pool._lock:
            if self._n_missing or self._is_over:
                return
            callback, self._callback = self._callback, None
            error_callback, self._error_callback = self._error_callback, None
        try:
            if self._error is None and callback is not None:
                callback(self._value())
            elif self._error is not None and error_callback is not None:
                error_callback(self._error)
        except Exception:  # the user's; it must not end the thread that happens to call, and there is nobody to tell
            traceback.print_exc()
        finally:
            self._is_over = True
            self._ending.notify_all()


class Feed:
    """The input of an `imap` and what has become of it. The pool knows it, so it does not know the pool."""

    def __init__(self, chunks: Iterator[list[Any]], code: ObjectRef, ordered: bool, n_ahead: int | None) -> None:
        self._chunks, self._code = chunks, code
        self._ordered = ordered
        self._n_ahead = n_ahead  # chunks submitted before they are asked for; None: all
        self._n_submitted = 0
        self._n_taken = 0
        self._done: dict[int, ObjectRef | BaseException] = {}
        self._exhausted = False

    @property
    def is_over(self) -> bool:
        """Whether all that was submitted has been taken."""
        return self._n_taken == self._n_submitted

    def has_next(self) -> bool:
        """Whether the next outcome is there."""
        return self._n_taken in self._done if self._ordered else bool(self._done)

    def comes(self, pool: Pool) -> bool:
        """Whether the next outcome is there; while it is not, processes that have done theirs get more."""
        if not self.has_next():
            self.submit(pool)
        return self.has_next()

    def next(self) -> ObjectRef | BaseException:
        """The next outcome, which is there."""
        index = self._n_taken if self._ordered else next(iter(self._done))
        self._n_taken += 1
        return self._done.pop(index)

    def submit(self, pool: Pool, everything: bool = False) -> None:
        """Submit chunks, as far ahead as may be."""
        while not self._exhausted and (everything or self._has_room()):
            try:
                calls = next(self._chunks, None)
            except Exception as error:  # of the user's input: it is what the reader comes to
                calls = None
                self._done[self._n_submitted] = without_frames(error)
                self._n_submitted += 1
            if calls is None:
                self._exhausted = True
                pool._feeding.pop(self, None)
                return
            self._n_submitted += 1
            pool._submit([Chunk(self, self._n_submitted - 1, self._code, "map", calls)])

    def _has_room(self) -> bool:
        if self._n_ahead is None:
            return True
        n = self._n_submitted - self._n_taken
        if not self.has_next() and n < N_TIMES_AHEAD * self._n_ahead:
            n -= len(self._done)  # these wait for their turn alone, and who has done them is idle
        return n < self._n_ahead

    def _take(self, index: int, outcome: ObjectRef | BaseException) -> None:
        self._done[index] = outcome

    def _call_back(self) -> None:
        """Nothing is told: a thread that waits looks."""


class IMapIterator(Iterator[T]):
    """What `imap` and `imap_unordered` return: an iterator over the results, as they come."""

    def __init__(self, pool: Pool, feed: Feed) -> None:
        self._pool, self._feed = pool, feed
        self._results: deque[T] = deque()

    def __iter__(self) -> IMapIterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """The next result; multiprocessing.TimeoutError when the time is up."""
        while not self._results:
            self._feed.submit(self._pool)
            if self._feed.is_over:
                raise StopIteration
            self._pool._collect_until(lambda: self._feed.comes(self._pool), timeout)
            if not self._feed.has_next():
                raise TimeoutError(f"no result within {timeout:g} s; the call goes on")
            outcome = self._feed.next()
            if not isinstance(outcome, BaseException):
                self._results.extend(outcome.client.get(outcome, None))
                continue
            try:
                raise outcome
            finally:
                del outcome  # the error's traceback has this frame
        return self._results.popleft()


@dataclass(eq=False, slots=True)
class Chunk:
    """Some calls that go to a process together."""

    job: AsyncResult[Any] | Feed
    index: int
    code: ObjectRef
    how: str
    calls: list[Any]
