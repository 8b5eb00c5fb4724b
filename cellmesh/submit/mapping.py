"""`f.map(...)`: a remote function, or an actor's method, called for each of many inputs, and the results as they
come.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..exceptions import CellmeshError, GetTimeoutError, SessionError, TaskError
from ..session.current import current
from .option_values import is_whole

if TYPE_CHECKING:
    from ..objstore._core import Ref
    from ..session.session import Session

BUFFER = 64  # calls that a map is ahead of its reader by default, at least
BUFFER_PER_CPU = 4  # and for each CPU of all nodes

T = TypeVar("T")
Submit = Callable[..., Any]
Calls = Iterator[tuple[Any, ...]]


class Mappable:
    """What remote functions and actors' methods have in common: `map` and `starmap`."""

    __name__: str
    remote: Any

    def map(
        self,
        *iterables: Iterable[Any],
        kwargs: dict[str, Any] | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
        return_exceptions: bool = False,
        timeout: float | None = None,
    ) -> Results[Any]:
        """The results of `f(x, y, ...)` for each x, y, ... of the iterables, as tasks, in an iterator.

            for result in f.map(paths): ...
            async for result in f.map(paths, ordered=False): ...

        The first calls are submitted at once, one more with each result that is read, so inputs may be endless.

        Parameters
        ----------
        *iterables
            As for the builtin `map`: one for each argument; the shortest ends it. Refs in them are dependencies.
        kwargs : dict, optional
            Keyword arguments, the same for all calls.
        chunksize : int
            How many calls one task makes; for functions that take microseconds. A chunk fails as a whole, at its first
            error. Not for actors' methods.
        buffersize : int, optional
            How many calls may be under way, or over and not read yet. Default: 4 for each CPU, at least 64 (of chunks,
            if `chunksize` is given).
        ordered : bool
            False: results in the order in which they are ready.
        return_exceptions : bool
            Hand out the error of a call in place of its result. Otherwise it is raised in its turn, and ends the map.
        timeout : float, seconds, optional
            For all results together, counted from this call; then GetTimeoutError is raised. Not for `async for`.

        Returns
        -------
        Results
            An iterator of values. Closed, dropped or left by an error it cancels the calls that have not ended.

        Raises
        ------
        TypeError, ValueError
            The first call does not fit the function, or an option is wrong. Of later inputs it is raised in its turn.
        """
        if not iterables:
            raise TypeError("map() needs at least one iterable of arguments")
        return self._results(
            "map", zip(*iterables, strict=False), kwargs, chunksize, buffersize, ordered, return_exceptions, timeout
        )

    def starmap(
        self,
        tuples: Iterable[Iterable[Any]],
        *,
        kwargs: dict[str, Any] | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        ordered: bool = True,
        return_exceptions: bool = False,
        timeout: float | None = None,
    ) -> Results[Any]:
        """As `map`, with one iterable of tuples of arguments: `f(*arguments)` for each."""
        return self._results(
            "starmap", map(_as_arguments, tuples), kwargs, chunksize, buffersize, ordered, return_exceptions, timeout
        )

    def _results(
        self,
        called: str,
        calls: Calls,
        kwargs: dict[str, Any] | None,
        chunksize: int,
        buffersize: int | None,
        ordered: bool,
        return_exceptions: bool,
        timeout: float | None,
    ) -> Results[Any]:
        for name, value in (("chunksize", chunksize), ("buffersize", buffersize)):
            if value is not None and (not is_whole(value) or value < 1):
                raise ValueError(f"{called}({name}={value!r}): must be a whole number >= 1")
        self._check_mappable(called, chunksize, return_exceptions)
        if chunksize > 1:
            chunks = iter(lambda: tuple(itertools.islice(calls, chunksize)), ())
            given, submit = chunks, self._chunks(return_exceptions)
        else:
            given, submit = calls, self
        if buffersize is None:
            buffersize = default_buffersize() * chunksize
        return Results(
            submit, given, dict(kwargs or {}), chunksize > 1, buffersize, ordered, return_exceptions, timeout
        )

    def _bind(self, of: Session) -> Callable[..., Any]:
        """What submits its calls in that session."""
        raise NotImplementedError

    def _check_mappable(self, called: str, chunksize: int, return_exceptions: bool) -> None:
        """Raises ValueError or TypeError if this cannot be mapped so."""
        raise NotImplementedError

    def _chunks(self, return_exceptions: bool) -> Any:
        """The remote function of a chunk of calls; see `chunked`."""
        raise NotImplementedError


def _as_arguments(given: Iterable[Any]) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except TypeError as error:
        raise TypeError(
            f"starmap() takes an iterable of tuples of arguments, and {given!r} is no tuple; map() takes arguments "
            "one by one"
        ) from error


def check_one_value(called: str, name: str, returns: dict[str, Any]) -> None:
    """Raises ValueError if what is called does not give one value for each call; `returns`: of `options.returns_of`."""
    if returns["stream"] is not None or returns["num_returns"] != 1:
        gives = "a stream" if returns["stream"] is not None else f"num_returns={returns['num_returns']}"
        raise ValueError(
            f"{called}() needs one value for each call, and {name!r} gives {gives}: call "
            f"{name}.remote(...) for each input"
        )


def default_buffersize() -> int:
    """How many calls a map is ahead of its reader unless told otherwise."""
    from ..observe.nodes import amounts

    return max(BUFFER, int(BUFFER_PER_CPU * amounts(current(), "Resources").get("CPU", 0.0)))


# ---------------------------------------------------------------- the results
class Results(Iterator[T], AsyncIterator[T], Generic[T]):
    """The results of a map, by `for` or `async for`; for one reader at a time.

    It ends with its last result, at an error, with `close`, at the end of a `with` over it, or when nobody holds it any
    more; calls that have not ended then are cancelled.
    """

    def __init__(
        self,
        function: Any,
        calls: Iterator[Any],
        kwargs: dict[str, Any],
        in_chunks: bool,
        buffersize: int,
        ordered: bool,
        return_exceptions: bool,
        timeout: float | None,
    ) -> None:
        self._pending: deque[Ref] = deque()  # in the order of submission
        self._ready: deque[Ref] = deque()  # of those whatever has been found to be there, if that is to come first
        self._n_calls: dict[Ref, int] = {}  # of each of them
        self._values: deque[Any] = deque()  # of the chunk that is being read
        self._function, self._kwargs, self._in_chunks = function, kwargs, in_chunks
        self._calls: Iterator[Any] | None = calls
        self._error: BaseException | None = None  # of the inputs, or of a call that could not be submitted
        self._n_ahead, self._buffersize = 0, buffersize
        self._ordered, self._return_exceptions = ordered, return_exceptions
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        self._submit()
        if self._error is not None and not self._pending:
            raise self._take_error()

    def __iter__(self) -> Results[T]:
        return self

    def __next__(self) -> T:
        try:
            while True:  # no condition here: see scheduler/sync/condition.py
                if self._values:
                    return self._values.popleft()
                self._read(self._next_ref())
        except BaseException:
            self.close()
            raise

    def __aiter__(self) -> Results[T]:
        return self

    async def __anext__(self) -> T:
        from ..session.notifier import await_ref, until_any_ready

        try:
            while not self._values:
                if not self._ready and self._pending:
                    await until_any_ready([self._pending[0]] if self._ordered else list(self._pending))
                ref = self._next_ref()
                try:
                    self._take(ref, await await_ref(ref))
                except Exception as error:
                    if not self._gives(error):
                        raise
                    self._take_error_of(ref, error)
            return self._values.popleft()
        except StopIteration:
            self.close()
            raise StopAsyncIteration from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Read no further, and cancel the calls that have not ended. Harmless when repeated."""
        from .cancel import cancel_task

        self._calls = self._error = None
        self._values.clear()
        self._ready.clear()
        self._n_calls.clear()
        while self._pending:  # the last first: so none begins instead
            ref = self._pending.pop()
            try:
                if not ref.client.ready(ref):
                    cancel_task(ref)
            except SessionError:  # the session has ended, and with it all tasks
                self._pending.clear()

    async def aclose(self) -> None:
        """`close`, for `contextlib.aclosing`."""
        self.close()

    def __enter__(self) -> Results[T]:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pending", None):
            self.close()

    def __repr__(self) -> str:
        name = getattr(self._function, "__name__", "")
        over = self._calls is None and not (self._pending or self._ready or self._values)
        return f"<results of {name}: {'all read' if over else f'{self._n_ahead} calls under way or not read yet'}>"

    def _submit(self) -> None:
        """Submit what the buffer has room for."""
        while self._calls is not None and self._n_ahead < self._buffersize:
            try:
                call = next(self._calls, None)
                if call is None:
                    self._calls = None
                    return
                ref = self._function.remote(*(packed(call) if self._in_chunks else call), **self._kwargs)
            except Exception as error:  # of the user's iterable, or of arguments that do not fit: raised in its turn
                # This frame holds what holds the error: a reference cycle.
                self._error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
                self._calls = None
                return
            n_calls = self._n_calls[ref] = len(call) if self._in_chunks else 1
            self._pending.append(ref)
            self._n_ahead += n_calls

    def _take_error(self) -> BaseException:
        error, self._error = self._error, None
        return error if error is not None else StopIteration()

    def _next_ref(self) -> Ref:
        """The next one to be read; not there yet perhaps, if that is its turn."""
        if self._ready:
            return self._ready.popleft()
        if not self._pending:
            raise self._take_error()
        if self._ordered:
            return self._pending[0]
        client, refs = self._pending[0].client, list(self._pending)
        if not client.wait(refs, 1, self._left())[0]:
            raise GetTimeoutError(f"map() gave up after {self._timeout:g} s: {len(refs)} of its tasks have not ended")
        ready, rest = client.wait(refs, len(refs), 0)
        self._pending, self._ready = deque(rest), deque(ready)
        return self._ready.popleft()

    def _read(self, ref: Ref) -> None:
        try:
            value = ref.client.get(ref, self._left())
        except Exception as error:
            if not self._gives(error):
                raise
            self._take_error_of(ref, error)
        else:
            self._take(ref, value)

    def _take(self, ref: Ref, value: Any) -> None:
        self._take_all(ref, [_result_of(part, ref) for part in value] if self._in_chunks else [value])

    def _take_error_of(self, ref: Ref, error: Exception) -> None:
        from ..session.futures import without_frames

        self._take_all(ref, [without_frames(error)] * self._n_calls[ref])

    def _take_all(self, ref: Ref, values: list[Any]) -> None:
        """The results of a task's calls have come: submit what there is room for now."""
        if self._pending and self._pending[0] == ref:
            self._pending.popleft()
        self._n_ahead -= self._n_calls.pop(ref)
        self._values.extend(values)
        self._submit()

    def _gives(self, error: Exception) -> bool:
        """Whether an error takes the place of a result: it is what became of a call, not why it cannot be told."""
        return self._return_exceptions and (
            isinstance(error, TaskError)
            or (isinstance(error, CellmeshError) and not isinstance(error, (SessionError, GetTimeoutError)))
        )

    def _left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())


# ---------------------------------------------------------------- chunks
class Given(NamedTuple):
    """In a chunk the place of an argument that is a ref, and so one of the task that makes the calls."""

    number: int


class Failed(NamedTuple):
    """In a chunk's result the place of an error; `record`: of `failures.describe`."""

    record: tuple[Any, ...]


def packed(calls: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    """The arguments of a chunk's task: the calls, and after them the refs among their arguments."""
    from ..refs import ObjectRef

    refs: list[Any] = []

    def stands_for(value: Any) -> Any:
        if type(value) is not ObjectRef:
            return value
        refs.append(value)
        return Given(len(refs) - 1)

    replaced = [tuple(map(stands_for, call)) for call in calls]
    return replaced if refs else calls, *refs


def chunked(function: Callable[..., Any], name: str, return_exceptions: bool) -> Callable[..., list[Any]]:
    """What a chunk's task runs: the function, for each of its calls."""

    def run(calls: Iterable[tuple[Any, ...]], /, *given: Any, **kwargs: Any) -> list[Any]:
        results: list[Any] = []
        for call in calls:
            arguments = [given[value.number] if type(value) is Given else value for value in call] if given else call
            try:
                results.append(function(*arguments, **kwargs))
            except Exception as error:
                if not return_exceptions:
                    raise
                from cellmesh.errors.describe import describe

                results.append(Failed(describe(error, name)))
        return results

    run.__name__ = run.__qualname__ = f"chunk of {name}"
    return run


def _result_of(part: Any, ref: Ref) -> Any:
    if type(part) is not Failed:
        return part
    from ..errors.rebuild import make_error

    return make_error(part.record, task=ref.creator)
