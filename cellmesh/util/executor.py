"""`Executor`: the interface of `concurrent.futures`, with tasks of the session behind it."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ..api import cancel, remote
from ..errors.store import store_error
from ..exceptions import NodeDiedError, OutOfMemoryError, TaskCancelledError, WorkerCrashedError
from ..refs import ObjectRef
from ..session.current import current, process
from ..session.futures import Future, without_frames
from .initializer import Initialized, check_initializer

T = TypeVar("T")
P = ParamSpec("P")
N_FUNCTIONS_KEPT = 64  # functions that an executor has made remote, and keeps for the next submit

_initialized: dict[str, Initialized] = {}  # in a worker: by executor
_executors: weakref.WeakSet[Executor] = weakref.WeakSet()  # of this process


class BrokenWorkerError(WorkerCrashedError, BrokenProcessPool):
    """The process that ran the call died, and no retries are left."""


class BrokenOutOfMemoryError(OutOfMemoryError, BrokenProcessPool):
    """... because it used more memory than there is."""


class BrokenNodeError(NodeDiedError, BrokenProcessPool):
    """The machine that ran the call was lost, and no retries are left."""


# What programs written for `concurrent.futures` catch, and we raise.
_BROKEN = {
    WorkerCrashedError: BrokenWorkerError,
    OutOfMemoryError: BrokenOutOfMemoryError,
    NodeDiedError: BrokenNodeError,
}


class TaskFuture(Future[T]):
    """A future of an executor. While its task waits in a queue it can be cancelled.

    Attributes
    ----------
    ref : ObjectRef or None
        The task's result; None until the task has been submitted, which `max_workers` may delay.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor
        self.ref: ObjectRef | None = None

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; whether it is cancelled now."""
        if self.ref is not None and not self.done():
            if self._task_state() not in ("waiting", "queued", "retrying"):
                return False
            cancel(self.ref)
            if self._task_state() != "cancelled":  # a worker was quicker; it is interrupted, and its result says so
                return False
        return super().cancel()

    def running(self) -> bool:
        """Whether a worker runs the call now."""
        return self.ref is not None and not self.done() and self._task_state() == "running"

    def result(self, timeout: float | None = None) -> T:
        """The call's result; raises what it raised, or TimeoutError."""
        try:
            return super().result(self._executor._wait_for([self], timeout))
        finally:
            del self  # the error's traceback has this frame, and the future the error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised."""
        return super().exception(self._executor._wait_for([self], timeout))

    def _task_state(self) -> str:
        assert self.ref is not None
        return self.ref.client.info(self.ref)["state"]


class Executor(futures.Executor):
    """Runs calls as tasks; a drop-in for `concurrent.futures.ProcessPoolExecutor`.

    Parameters
    ----------
    max_workers : int, optional
        How many calls are under way at a time; default: as many as the session's resources allow.
    mp_context : optional
        Without meaning here; there for compatibility.
    initializer : callable, optional
        Called with `initargs` once in each worker process, before the first call that it runs for this executor.
    initargs : iterable
    max_tasks_per_child : int, optional
        After that many calls of a function a worker process is replaced by a new one; the option `max_calls` of tasks.
    **options
        Of the tasks, as `cellmesh.remote` takes them: ``Executor(num_cpus=2, max_retries=0)``.

    Notes
    -----
    Works with `asyncio`'s ``loop.run_in_executor`` and with `concurrent.futures.as_completed` and `wait`. Functions may
    be lambdas and from a notebook. An ObjectRef among the arguments makes the call wait for its value. A call may have
    an executor of its own: while it waits by `result()`, its CPU is free for what it waits for. When the process that
    runs a call dies and no retries are left, its error is a `BrokenProcessPool`, too; the executor goes on. At the end
    of the program, what has been submitted is done first.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: Any = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        *,
        max_tasks_per_child: int | None = None,
        **options: Any,
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(
                f"max_workers must be greater than 0, or None for what the resources allow, not {max_workers!r}"
            )
        check_initializer(initializer)
        if max_tasks_per_child is not None:
            if not isinstance(max_tasks_per_child, int) or max_tasks_per_child < 1:
                raise ValueError(f"max_tasks_per_child={max_tasks_per_child!r}: must be a whole number >= 1, or None")
            options = {"max_calls": max_tasks_per_child, **options}
        remote(_run_chunk).options(**options)  # complains of wrong options now
        self._max_workers = max_workers
        self._initializer = (os.urandom(8).hex(), initializer, tuple(initargs)) if initializer is not None else None
        self._options = options
        self._session = current()
        self._lock = threading.RLock()
        self._functions: OrderedDict[tuple[int, str], tuple[Any, Any]] = OrderedDict()
        self._waiting: deque[tuple[TaskFuture[Any], Callable[[], ObjectRef]]] = deque()
        self._under_way: dict[ObjectRef, TaskFuture[Any]] = {}
        self._is_submitting = False
        self._is_shut_down = False
        _executors.add(self)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """`fn(*args, **kwargs)` as a task; returns its future at once."""
        future: TaskFuture[T] = TaskFuture(self)
        submit = partial(self._remote(fn), *args, **kwargs)
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((future, submit))
        self._submit_waiting()
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """`map(fn, *iterables)`, in parallel; a task takes `chunksize` items."""
        if chunksize < 1:
            raise ValueError(f"chunksize={chunksize!r}: must be a whole number >= 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        calls = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(calls, chunksize)), [])
        return itertools.chain.from_iterable(super().map(partial(_run_chunk, fn), chunks, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls.

        Parameters
        ----------
        wait : bool
            Return when those that there are have been run.
        cancel_futures : bool
            Cancel those that have not begun.
        """
        with self._lock:
            self._is_shut_down = True
            pending = [*self._under_way.values(), *(future for future, _ in self._waiting)]
        if cancel_futures:
            for future in reversed(pending):
                future.cancel()
            self._submit_waiting()  # there is nothing left to submit, only to tell those who wait
        if wait:
            self._wait_for(pending, None)
            futures.wait(pending)

    def _remote(self, function: Callable[..., Any]) -> Callable[..., ObjectRef]:
        """What submits a task that calls the function.

        Plain functions are sent to the store once; any other callable may change between calls and travels with each.
        """
        name = _name_of(function)
        code = function if _is_plain(function) else _call
        known = self._functions.get((id(code), name))
        if known is None:
            runs = code if self._initializer is None else partial(_call_initialized, *self._initializer, code)
            options: dict[str, Any] = {"name": name, **self._options}
            made = remote(_as_function(runs)).options(**options)
            known = self._functions[id(code), name] = code, made
            while len(self._functions) > N_FUNCTIONS_KEPT:
                self._functions.popitem(last=False)
        return known[1].remote if code is function else partial(known[1].remote, function)

    def _submit_waiting(self) -> None:
        """Submit what `max_workers` allows. Entered again from within (a task that is done at once), it leaves that to
        the loop."""
        with self._lock:
            if self._is_submitting:
                return
            self._is_submitting = True
            try:
                while True:  # no condition here: see scheduler/sync/condition.py
                    if not self._waiting:
                        return
                    if self._waiting[0][0].cancelled():
                        self._waiting.popleft()[0].set_running_or_notify_cancel()
                    elif self._max_workers and len(self._under_way) >= self._max_workers:
                        return
                    else:
                        self._begin(*self._waiting.popleft())
            finally:
                self._is_submitting = False

    def _begin(self, future: TaskFuture[Any], submit: Callable[[], ObjectRef]) -> None:
        try:
            if self._session.client.closed:  # to be said by the old session, not to be sent to a new one
                raise store_error("closed", "the session of this executor has been shut down")
            future.ref = submit()
        except Exception as error:  # that, and arguments that do not fit or cannot be pickled: it is the call's result
            if future.set_running_or_notify_cancel():
                future.set_exception(without_frames(error))
            return
        self._under_way[future.ref] = future
        self._session.notifier.add(future.ref, None, partial(self._end, future.ref))

    def _end(self, ref: ObjectRef) -> None:
        with self._lock:
            future = self._under_way.pop(ref, None)
        if future is None:  # another thread was first
            return
        try:
            value, error = ref.client.get(ref, None), None
        except TaskCancelledError as cancelled:
            value, error = None, without_frames(cancelled)
            futures.Future.cancel(future)
        except BaseException as raised:  # a future carries whatever the call raised
            value, error = None, without_frames(raised)
            if type(error) in _BROKEN:
                error.__class__ = _BROKEN[type(error)]
        if future.set_running_or_notify_cancel():
            future.set_result(value) if error is None else future.set_exception(error)
        self._submit_waiting()

    def _wait_for(self, pending: Iterable[TaskFuture[Any]], timeout: float | None) -> float | None:
        """Wait through the store, where a task that waits gives its CPU back; the time that is left."""
        end = None if timeout is None else time.monotonic() + timeout
        client = self._session.client
        for future in pending:
            while not future.done() and not client.closed:
                with self._lock:
                    refs = [future.ref] if future.ref is not None else list(self._under_way)
                if not refs:  # it is being cancelled, or another thread submits it now
                    break
                ready, _ = client.wait(refs, 1, None if end is None else max(0.0, end - time.monotonic()))
                if not ready:
                    return 0.0
                self._end(ready[0])
                if future.ref is not None and client.ready(future.ref):  # another thread sets its result now
                    break
        return None if end is None else max(0.0, end - time.monotonic())


@atexit.register  # after the end of the session was, and so called before it
def _finish() -> None:
    """Have what executors of this program have begun done before the interpreter ends, as those of the standard library
    do.
    """
    for executor in list(_executors):
        if executor._session is process.session and not executor._session.is_worker:
            executor.shutdown()


# ---------------------------------------------------------------- in the workers
def _run_chunk(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    return [fn(*call) for call in calls]


def _call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _call_initialized(
    key: str,
    initializer: Callable[..., Any],
    arguments: tuple[Any, ...],
    function: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if key not in _initialized:
        try:
            _initialized[key] = Initialized(initializer, arguments)
        except Exception as error:  # the user's
            raise BrokenProcessPool(
                f"the initializer {_name_of(initializer)!r} of the executor raised {type(error).__name__}: {error}"
            ) from error
    _initialized[key].prepare(args[0] if function is _call else function)
    return function(*args, **kwargs)


# ---------------------------------------------------------------- functions and other callables
def _is_plain(function: Callable[..., Any]) -> bool:
    return isinstance(function, types.FunctionType) or (
        isinstance(function, types.BuiltinFunctionType) and isinstance(function.__self__, types.ModuleType)
    )


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def _as_function(code: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(code, types.FunctionType):
        return code
    return lambda *args, **kwargs: code(*args, **kwargs)
