"""`Pool`: `multiprocessing.Pool` with the session's workers as its processes.

    from cellmesh.util.multiprocessing import Pool

Each process of a pool is an actor. Work is handed out in chunks, one at a time to an idle process, by whichever thread
learns first that a chunk is done: one that waits for a result, or else the notifier's. So a pool has no threads.
`pool_results` has what a caller gets.
"""

from __future__ import annotations

import itertools
import threading
import time
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import TimeoutError
from typing import Any, TypeVar

from ..api import remote
from ..errors.store import store_error
from ..exceptions import ActorError, CellmeshError, TaskError
from ..objects import get
from ..refs import ObjectRef
from ..session.current import current
from ..session.futures import without_frames
from ..submit.actor import ActorHandle
from .initializer import Initialized, check_initializer
from .pool_results import AsyncResult, Chunk, Feed, IMapIterator

__all__ = ["AsyncResult", "IMapIterator", "Pool", "TimeoutError"]

T = TypeVar("T")
Item = TypeVar("Item")
N_FUNCTIONS_KEPT = 16  # unpickled functions that a process of a pool remembers
CHUNKS_PER_PROCESS = 4  # by default, of a map; and how far imap runs ahead of its reader, for inputs of unknown length


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


# ---------------------------------------------------------------- the pool
@dataclass(eq=False, slots=True)
class _Member:
    """One process of a pool."""

    handle: ActorHandle
    n_given: int = 0


class Pool:
    """A pool of processes, with the interface of `multiprocessing.Pool`.

    Parameters
    ----------
    processes : int, optional
        How many; default: the session's CPUs.
    initializer : callable, optional
        Called in each process when it starts, with `initargs`; the pool is there when all have returned. Global
        variables that it assigns are seen by functions of its module.
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
    unknown length runs only a few chunks ahead of its reader; `map` makes ever smaller chunks unless told their size;
    an initializer that raises ends the pool with its error, an `ActorDiedError`. There are as many processes as are
    asked for, also where there are fewer CPUs.
    """

    _takes_turns = (
        False  # each process gets as many chunks, however long it takes for them; else who is idle gets the next
    )

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        actor_options: dict[str, Any] | None = None,
    ) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"processes={processes!r}: a pool needs at least 1 process")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError(f"maxtasksperchild={maxtasksperchild!r}: must be a whole number >= 1, or None")
        check_initializer(initializer)
        self._session = current()
        self._n_processes = processes or max(1, int(self._session.client.resources().total.get("CPU", 1)))
        self._max_given = maxtasksperchild
        options: dict[str, Any] = actor_options or {}
        self._start = partial(remote(PoolProcess).options(**options).remote, initializer, tuple(initargs))
        self._lock = threading.RLock()
        self._idle = deque(_Member(self._start()) for _ in range(self._n_processes))
        self._in_flight: dict[ObjectRef, tuple[_Member, Chunk]] = {}
        self._waiting: deque[Chunk] = deque()
        self._feeding: dict[Feed, None] = {}  # those whose input has not been read to its end
        self._functions: OrderedDict[int, tuple[Callable[..., Any], ObjectRef]] = OrderedDict()
        self._handing_out = False
        self._state = "running"
        if initializer is not None:
            self._await_processes()

    def _await_processes(self) -> None:
        try:
            get([member.handle.__ready__.remote() for member in self._idle])
        except BaseException:
            self.terminate()
            raise

    # ---- calls
    def apply(self, func: Callable[..., T], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None) -> T:
        """`func(*args, **kwds)` in one of the processes."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., T],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] | None = None,
        callback: Callable[[T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[T]:
        """Likewise, without waiting. A callback runs in a thread of the pool's owner and should be quick."""
        return self._begin(func, "apply", [[(tuple(args), dict(kwds or {}))]], True, callback, error_callback)

    def map(self, func: Callable[[Item], T], iterable: Iterable[Item], chunksize: int | None = None) -> list[T]:
        """`[func(x) for x in iterable]`, in parallel."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable[[Item], T],
        iterable: Iterable[Item],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """Likewise, without waiting."""
        return self._begin(func, "map", self._cut(iterable, chunksize), False, callback, error_callback)

    def starmap(
        self, func: Callable[..., T], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[T]:
        """`[func(*x) for x in iterable]`, in parallel."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(
        self,
        func: Callable[..., T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[list[T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> AsyncResult[list[T]]:
        """Likewise, without waiting."""
        return self._begin(func, "starmap", self._cut(iterable, chunksize), False, callback, error_callback)

    def imap(self, func: Callable[[Item], T], iterable: Iterable[Item], chunksize: int = 1) -> IMapIterator[T]:
        """An iterator over the results, in the order of the input."""
        return self._iterate(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[[Item], T], iterable: Iterable[Item], chunksize: int = 1
    ) -> IMapIterator[T]:
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
            next(iter(self._feeding)).submit(self, everything=True)
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

    def _begin(
        self,
        func: Callable[..., Any],
        how: str,
        chunks: list[list[Any]],
        single: bool,
        callback: Callable[[Any], object] | None,
        error_callback: Callable[[BaseException], object] | None,
    ) -> AsyncResult[Any]:
        self._check_running()
        code = self._code(func)
        result = AsyncResult(self, len(chunks), single, callback, error_callback)
        self._submit([Chunk(result, i, code, how, calls) for i, calls in enumerate(chunks)])
        return result

    def _iterate(
        self, func: Callable[[Item], T], iterable: Iterable[Item], chunksize: int, ordered: bool
    ) -> IMapIterator[T]:
        self._check_running()
        _check_chunksize(chunksize)
        n_ahead = None if hasattr(iterable, "__len__") else CHUNKS_PER_PROCESS * self._n_processes
        feed = Feed(_chunks_of(iter(iterable), chunksize), self._code(func), ordered, n_ahead)
        self._feeding[feed] = None
        feed.submit(self)
        return IMapIterator(self, feed)

    def _cut(self, iterable: Iterable[Any], chunksize: int | None) -> list[list[Any]]:
        calls = list(iterable)
        if chunksize is None:
            n_chunks = CHUNKS_PER_PROCESS * self._n_processes
            if self._max_given is None and not self._takes_turns:
                return _ever_smaller(calls, n_chunks)
            chunksize = max(1, -(-len(calls) // n_chunks))  # chunks are counted: as many as multiprocessing makes
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
    def _submit(self, chunks: list[Chunk]) -> None:
        with self._lock:
            self._waiting.extend(chunks)
        self._hand_out()

    def _hand_out(self) -> None:
        """Give work to the idle. Entered again from within (a chunk that fails at once), it leaves that to the loop."""
        with self._lock:
            if self._handing_out:
                return
            self._handing_out = True
            try:  # no conditions of loops here: see scheduler/sync/condition.py
                while True:
                    if not (self._waiting and self._session.client.closed):  # or they went to one that is started then
                        break
                    self._finish(self._waiting.popleft(), store_error("closed", "this pool's session is over"))
                while True:
                    if not (self._idle and self._waiting):
                        break
                    member, chunk = self._idle.popleft(), self._waiting.popleft()
                    if self._give(member, chunk) and not self._takes_turns:
                        continue
                    self._line_up(member)
            finally:
                self._handing_out = False

    def _give(self, member: _Member, chunk: Chunk) -> bool:
        try:
            ref = member.handle.run.remote([chunk.code], chunk.how, chunk.calls)
        except Exception as error:  # arguments that cannot be pickled, a store that is full: it is this call's result
            self._finish(chunk, error)
            return False
        member.n_given += 1
        self._in_flight[ref] = member, chunk
        self._session.notifier.add(ref, None, partial(self._on_done, ref))
        return True

    def _line_up(self, member: _Member, has_died: bool = False) -> None:
        """It, or who takes its place, gets another chunk when it is its turn."""
        is_worn_out = self._max_given is not None and member.n_given >= self._max_given
        self._idle.append(_Member(self._start()) if has_died or is_worn_out else member)

    def _on_done(self, ref: ObjectRef) -> None:
        with self._lock:
            found = self._in_flight.pop(ref, None)
            if found is None:  # another thread was first
                return
            member, chunk = found
            error = _error_of(ref)
            chunk.job._take(chunk.index, without_frames(error) if error else ref)
            has_died = isinstance(error, ActorError) and not isinstance(error, TaskError)
            if self._state == "terminated" or self._session.client.closed:
                pass
            elif not self._takes_turns:
                self._line_up(member, has_died)
            elif has_died and member in self._idle:
                self._idle.remove(member)
                self._line_up(member, has_died)
        chunk.job._call_back()
        self._hand_out()

    def _finish(self, chunk: Chunk, error: BaseException) -> None:
        with self._lock:
            chunk.job._take(chunk.index, without_frames(error))
        chunk.job._call_back()

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


def _ever_smaller(calls: list[Any], n: int) -> list[list[Any]]:
    """Chunks of an n-th of what is left, so that no process runs a long one when the others have ended.

    Polychronopoulos, Kuck, *Guided Self-Scheduling*, 1987; there `n` is the number of processes, and here it is several
    times that, as the first calls may be the slow ones.
    """
    chunks, at = [], 0
    while at < len(calls):
        size = -(-(len(calls) - at) // n)
        chunks.append(calls[at : at + size])
        at += size
    return chunks


def _check_chunksize(chunksize: int) -> None:
    if not isinstance(chunksize, int) or chunksize < 1:
        raise ValueError(f"chunksize={chunksize!r}: must be a whole number >= 1")
