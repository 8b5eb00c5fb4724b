"""`Pool`: `multiprocessing.Pool` with the session's workers as its processes.

    from cellmesh.util.multiprocessing import Pool

Each process of a pool is an actor. Work is handed out in chunks, one at a time to whoever is idle, by whichever thread
learns first that a chunk is done: one that waits for a result, or else the notifier's. So a pool has no threads.
"""
from __future__ import annotations

import itertools
import threading
import time
import traceback
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import TimeoutError
from typing import Any

from ..actor import ActorHandle
from ..api import remote
from ..exceptions import ActorError, CellmeshError, TaskError
from ..objects import get
from ..refs import ObjectRef
from ..scheduler.bell import Bell
from ..session import current
from ..store_errors import store_error
from .initializer import Initialized, check_initializer

__all__ = ["AsyncResult", "IMapIterator", "Pool", "TimeoutError"]

N_FUNCTIONS_KEPT = 16    # unpickled functions that a process of a pool remembers
CHUNKS_PER_PROCESS = 4   # by default, of a map; and how far imap runs ahead of its reader, for inputs of unknown length


# ---------------------------------------------------------------- in the pool's processes
class PoolProcess:
    """Runs the chunks, in a worker."""

    def __init__(self, initializer: Callable[..., Any] | None, arguments: tuple[Any, ...]) -> None:
        self._initialized = Initialized(initializer, arguments)
        self._functions: OrderedDict[str, Callable[..., Any]] = OrderedDict()

    def run(self, code: list[ObjectRef], how: str, calls: list[Any]) -> list[Any]:
        """The results of one chunk."""
        function = self._function(code[0])
        if how == "map":
            return [function(argument) for argument in calls]
        if how == "starmap":
            return [function(*arguments) for arguments in calls]
        return [function(*arguments, **keywords) for arguments, keywords in calls]

    def _function(self, ref: ObjectRef) -> Callable[..., Any]:
        function = self._functions.get(ref.hex())
        if function is None:
            function = self._functions[ref.hex()] = get(ref)
            self._initialized.prepare(function)
            while len(self._functions) > N_FUNCTIONS_KEPT:
                self._functions.popitem(last=False)
        return function


# ---------------------------------------------------------------- results
class AsyncResult:
    """What `apply_async`, `map_async` and `starmap_async` return."""

    def __init__(self, pool: Pool, n_chunks: int, single: bool, callback: Callable[[Any], Any] | None = None,
                 error_callback: Callable[[BaseException], Any] | None = None) -> None:
        self._pool = pool
        self._single = single
        self._callback, self._error_callback = callback, error_callback
        self._chunks: list[Any] = [None] * n_chunks
        self._n_missing = n_chunks
        self._error: BaseException | None = None
        self._is_over = False  # until after the callback, on which whoever waits may rely
        self._ending = Bell()
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

    def get(self, timeout: float | None = None) -> Any:
        """The result; raises what the function raised, or multiprocessing.TimeoutError when the time is up."""
        self.wait(timeout)
        if not self._is_over:
            raise TimeoutError(f"no result within {timeout:g} s; the call goes on")
        if self._error is not None:
            raise self._error
        return self._value()

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
            self._ending.ring()


class IMapIterator:
    """What `imap` and `imap_unordered` return: an iterator over the results, as they come."""

    def __init__(self, pool: Pool, chunks: Iterator[list[Any]], code: ObjectRef, ordered: bool,
                 n_ahead: int | None) -> None:
        self._pool, self._chunks, self._code = pool, chunks, code
        self._ordered = ordered
        self._n_ahead = n_ahead      # chunks submitted before they are asked for; None: all
        self._n_submitted = 0
        self._n_taken = 0
        self._done: dict[int, ObjectRef | BaseException] = {}
        self._results: deque[Any] = deque()
        self._exhausted = False

    def __iter__(self) -> IMapIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; multiprocessing.TimeoutError when the time is up."""
        while not self._results:
            self._feed()
            if self._n_taken == self._n_submitted:
                raise StopIteration
            self._pool._collect_until(self._has_next, timeout)
            if not self._has_next():
                raise TimeoutError(f"no result within {timeout:g} s; the call goes on")
            index = self._n_taken if self._ordered else next(iter(self._done))
            self._n_taken += 1
            outcome = self._done.pop(index)
            if isinstance(outcome, BaseException):
                raise outcome
            self._results.extend(outcome.client.get(outcome, None))
        return self._results.popleft()

    def _has_next(self) -> bool:
        return self._n_taken in self._done if self._ordered else bool(self._done)

    def _feed(self, everything: bool = False) -> None:
        ahead = None if everything else self._n_ahead
        while not self._exhausted and (ahead is None or self._n_submitted - self._n_taken < ahead):
            calls = next(self._chunks, None)
            if calls is None:
                self._exhausted = True
                self._pool._fed(self)
                return
            self._n_submitted += 1
            self._pool._submit([_Chunk(self, self._n_submitted - 1, self._code, "map", calls)])

    def _take(self, index: int, outcome: ObjectRef | BaseException) -> None:
        self._done[index] = outcome

    def _call_back(self) -> None:
        """Nobody is told: whoever waits looks."""


@dataclass(eq=False, slots=True)
class _Chunk:
    """Some calls that go to a process together."""

    job: AsyncResult | IMapIterator
    index: int
    code: ObjectRef
    how: str
    calls: list[Any]


@dataclass(eq=False, slots=True)
class _Member:
    """One process of a pool."""

    handle: ActorHandle
    n_done: int = 0


# ---------------------------------------------------------------- the pool
class Pool:
    """A pool of processes, with the interface of `multiprocessing.Pool`.

    Parameters
    ----------
    processes : int, optional
        How many; default: the session's CPUs.
    initializer : callable, optional
        Called in each process when it starts, with `initargs`. Global variables that it assigns are seen by functions
        of its module.
    initargs : iterable
    maxtasksperchild : int, optional
        After that many chunks (or single calls) a process is replaced by a new one.
    context : optional
        Without meaning here; there for compatibility.
    actor_options : dict, optional
        Options of the actors that are the processes, such as ``{"num_cpus": 1}``.

    Notes
    -----
    What differs from `multiprocessing`: functions may be lambdas and from a notebook; an exception raised in a process
    is a `TaskError` too and shows the traceback there; when a process dies, its chunk fails and a new process takes its
    place; `terminate` makes what is under way fail instead of leaving it without an end; `imap` over an iterator of
    unknown length runs only a few chunks ahead of its reader.
    """

    def __init__(self, processes: int | None = None, initializer: Callable[..., Any] | None = None,
                 initargs: Iterable[Any] = (), maxtasksperchild: int | None = None, context: Any = None, *,
                 actor_options: dict[str, Any] | None = None) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"processes={processes!r}: a pool needs at least 1 process")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError(f"maxtasksperchild={maxtasksperchild!r}: must be a whole number >= 1, or None")
        check_initializer(initializer)
        self._session = current()
        self._n_processes = processes or max(1, int(self._session.client.resources()[0].get("CPU", 1)))
        self._max_done = maxtasksperchild
        self._start = partial(remote(PoolProcess).options(**(actor_options or {})).remote, initializer, tuple(initargs))
        self._lock = threading.RLock()
        self._idle = deque(_Member(self._start()) for _ in range(self._n_processes))
        self._in_flight: dict[ObjectRef, tuple[_Member, _Chunk]] = {}
        self._waiting: deque[_Chunk] = deque()
        self._feeding: dict[IMapIterator, None] = {}  # those whose input has not been read to its end
        self._functions: OrderedDict[int, tuple[Callable[..., Any], ObjectRef]] = OrderedDict()
        self._handing_out = False
        self._state = "running"

    # ---- calls
    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None) -> Any:
        """`func(*args, **kwds)` in one of the processes."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None,
                    callback: Callable[[Any], Any] | None = None,
                    error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """Likewise, without waiting. A callback runs in a thread of the pool's owner and should be quick."""
        return self._begin(func, "apply", [[(tuple(args), dict(kwds or {}))]], True, callback, error_callback)

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """`[func(x) for x in iterable]`, in parallel."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None,
                  callback: Callable[[list[Any]], Any] | None = None,
                  error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """Likewise, without waiting."""
        return self._begin(func, "map", self._cut(iterable, chunksize), False, callback, error_callback)

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]],
                chunksize: int | None = None) -> list[Any]:
        """`[func(*x) for x in iterable]`, in parallel."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None,
                      callback: Callable[[list[Any]], Any] | None = None,
                      error_callback: Callable[[BaseException], Any] | None = None) -> AsyncResult:
        """Likewise, without waiting."""
        return self._begin(func, "starmap", self._cut(iterable, chunksize), False, callback, error_callback)

    def imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> IMapIterator:
        """An iterator over the results, in the order of the input."""
        return self._iterate(func, iterable, chunksize, ordered=True)

    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> IMapIterator:
        """An iterator over the results, in the order in which they are ready."""
        return self._iterate(func, iterable, chunksize, ordered=False)

    # ---- the end
    def close(self) -> None:
        """Take no more work; the processes end when what there is has been done."""
        if self._state == "running":
            self._state = "closed"

    def terminate(self) -> None:
        """End at once; what is not done fails."""
        with self._lock:
            self._state = "terminated"
            waiting, self._waiting = list(self._waiting), deque()
            members = [*self._idle, *(member for member, _ in self._in_flight.values())]
            self._idle.clear()
            self._feeding.clear()
        for member in members:
            if not self._session.client.closed:
                self._session.client.kill_actor(member.handle._cellmesh_ref, True)
        for chunk in waiting:
            self._finish(chunk, CellmeshError("the pool was terminated before this call was run"))

    def join(self) -> None:
        """Wait until all work is done and the processes have been let go; after `close` or `terminate` only."""
        if self._state == "running":
            raise ValueError("the pool still runs: call close() or terminate() before join()")
        while self._feeding:
            next(iter(self._feeding))._feed(everything=True)
        self._collect_until(lambda: not self._in_flight and not self._waiting, None)
        with self._lock:
            self._idle.clear()  # an actor ends with its last handle

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(self, *unused: object) -> None:
        self.terminate()

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotImplementedError("a pool cannot be passed to other processes: make one there")

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} {self._state}, {self._n_processes} processes>"

    # ---- making chunks
    def _check_running(self) -> None:
        if self._state != "running":
            raise ValueError(f"the pool has been {self._state}: make a new one")

    def _begin(self, func: Callable[..., Any], how: str, chunks: list[list[Any]], single: bool,
               callback: Callable[[Any], Any] | None,
               error_callback: Callable[[BaseException], Any] | None) -> AsyncResult:
        self._check_running()
        code = self._code(func)
        result = AsyncResult(self, len(chunks), single, callback, error_callback)
        self._submit([_Chunk(result, i, code, how, calls) for i, calls in enumerate(chunks)])
        return result

    def _iterate(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int,
                 ordered: bool) -> IMapIterator:
        self._check_running()
        _check_chunksize(chunksize)
        n_ahead = None if hasattr(iterable, "__len__") else CHUNKS_PER_PROCESS * self._n_processes
        iterator = IMapIterator(self, _chunks_of(iter(iterable), chunksize), self._code(func), ordered, n_ahead)
        self._feeding[iterator] = None
        iterator._feed()
        return iterator

    def _cut(self, iterable: Iterable[Any], chunksize: int | None) -> list[list[Any]]:
        calls = list(iterable)
        if chunksize is None:
            chunksize = max(1, -(-len(calls) // (CHUNKS_PER_PROCESS * self._n_processes)))
        _check_chunksize(chunksize)
        return list(_chunks_of(iter(calls), chunksize))

    def _code(self, func: Callable[..., Any]) -> ObjectRef:
        """The function in the store. Plain functions are kept there; other callables may change between calls."""
        if not callable(func):
            raise TypeError(f"a pool calls functions, not {func!r}")
        if not isinstance(func, types.FunctionType):
            return self._session.client.put(func)
        known = self._functions.get(id(func))
        if known is None:
            known = self._functions[id(func)] = func, self._session.client.put(func)
            while len(self._functions) > N_FUNCTIONS_KEPT:
                self._functions.popitem(last=False)
        return known[1]

    # ---- handing them out
    def _submit(self, chunks: list[_Chunk]) -> None:
        with self._lock:
            self._waiting.extend(chunks)
        self._hand_out()

    def _hand_out(self) -> None:
        """Give work to the idle. Entered again from within (a chunk that fails at once), it leaves that to the loop."""
        with self._lock:
            if self._handing_out:
                return
            self._handing_out = True
            try:
                while self._waiting and self._session.client.closed:  # not to be sent to a session that is started then
                    self._finish(self._waiting.popleft(), store_error("closed", "this pool's session is over"))
                while self._idle and self._waiting:
                    self._give(self._idle.popleft(), self._waiting.popleft())
            finally:
                self._handing_out = False

    def _give(self, member: _Member, chunk: _Chunk) -> None:
        try:
            ref = member.handle.run.remote([chunk.code], chunk.how, chunk.calls)
        except Exception as error:  # arguments that cannot be pickled, a store that is full: it is this call's result
            self._idle.append(member)
            self._finish(chunk, error)
            return
        self._in_flight[ref] = member, chunk
        self._session.notifier.add(ref, None, partial(self._on_done, ref))

    def _on_done(self, ref: ObjectRef) -> None:
        with self._lock:
            found = self._in_flight.pop(ref, None)
            if found is None:  # another thread was first
                return
            member, chunk = found
            error = _error_of(ref)
            chunk.job._take(chunk.index, error or ref)
            member.n_done += 1
            has_died = isinstance(error, ActorError) and not isinstance(error, TaskError)
            is_worn_out = self._max_done is not None and member.n_done >= self._max_done
            if self._state != "terminated" and not self._session.client.closed:
                self._idle.append(_Member(self._start()) if has_died or is_worn_out else member)
        chunk.job._call_back()
        self._hand_out()

    def _finish(self, chunk: _Chunk, error: BaseException) -> None:
        with self._lock:
            chunk.job._take(chunk.index, error)
        chunk.job._call_back()

    def _fed(self, iterator: IMapIterator) -> None:
        self._feeding.pop(iterator, None)

    # ---- waiting
    def _collect(self, timeout: float | None) -> None:
        """Wait for a chunk to end, and deal with those that have."""
        with self._lock:
            refs = list(self._in_flight)
        client = self._session.client
        if refs and client.wait(refs, 1, timeout)[0]:
            for ref in client.wait(refs, len(refs), 0)[0]:
                self._on_done(ref)

    def _collect_until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not condition():
            left = None if end is None else end - time.monotonic()
            if left is not None and left < 0:
                return
            self._collect(left)


def _error_of(ref: ObjectRef) -> BaseException | None:
    """What a call that is over has raised."""
    try:
        if ref.client.info(ref)["state"] != "finished":
            ref.client.get(ref, 0)
    except BaseException as error:  # a result carries whatever the call raised
        return error
    return None


def _chunks_of(iterator: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _check_chunksize(chunksize: int) -> None:
    if not isinstance(chunksize, int) or chunksize < 1:
        raise ValueError(f"chunksize={chunksize!r}: must be a whole number >= 1")
