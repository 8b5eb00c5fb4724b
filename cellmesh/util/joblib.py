"""A joblib backend: `joblib.Parallel`, and with it scikit-learn, on the session's workers.

from cellmesh.util import register_joblib
register_joblib()
with joblib.parallel_config("cellmesh", options={"num_cpus": 2}):
    search.fit(X, y)
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend
from joblib.parallel import BatchedCalls

try:
    from threadpoolctl import threadpool_limits
except ImportError:  # scikit-learn brings it; without it the variables are what there is
    threadpool_limits = None

from ..api import cancel, remote
from ..objects import get, put
from ..refs import ObjectRef
from ..session.current import current, process
from ..submit.remote_function import RemoteFunction
from .initializer import Initialized, check_initializer

SHARED_BYTES = 1 << 16  # an argument that is larger goes to the store once, not with each batch

_initialized: dict[str, Initialized] = {}  # in a worker: by the ref of an initializer and its arguments


def register_joblib(name: str = "cellmesh", **options: Any) -> None:
    """Make the backend known to joblib.

    Parameters
    ----------
    name : str
        By which `joblib.parallel_config` chooses it.
    **options
        Of its tasks, as `cellmesh.remote` takes them. `joblib.parallel_config(name, options={...})` adds to them.
    """
    remote(_run).options(**options)  # complains of wrong options now
    register_parallel_backend(name, partial(_backend, options))


def _backend(of_all: dict[str, Any], *, options: dict[str, Any] | None = None, **settings: Any) -> CellmeshBackend:
    return CellmeshBackend(options={**of_all, **(options or {})}, **settings)


if TYPE_CHECKING:  # joblib itself has no types

    class _Base:
        """What this backend has of joblib's two base classes."""

        MAX_NUM_THREADS_VARS: ClassVar[list[str]]
        nesting_level: int | None
        inner_max_num_threads: int | None
        supports_retrieve_callback: bool

        def __init__(self, nesting_level: int | None = None, **settings: Any) -> None: ...
        def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> int: ...
        def reset_batch_stats(self) -> None: ...

else:

    class _Base(AutoBatchingMixin, ParallelBackendBase): ...


class CellmeshBackend(_Base):
    """Runs joblib's batches as tasks.

    A `Parallel` inside a task runs there one call after another unless it asks for `n_jobs` itself; then it starts
    tasks of its own.

    Of joblib's settings it knows `initializer` and `initargs`, called once in each worker that runs a batch of this
    backend, and `inner_max_num_threads`: how many threads numerical libraries may use in a batch, 1 by default.
    """

    MIN_IDEAL_BATCH_DURATION = 0.05  # a task costs microseconds; small batches share the CPUs better
    MAX_IDEAL_BATCH_DURATION = 1.0
    default_n_jobs = -1
    uses_threads = False
    supports_sharedmem = False
    supports_inner_max_num_threads = True

    def __init__(
        self,
        nesting_level: int | None = None,
        options: dict[str, Any] | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        **settings: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, **settings)
        self._options = options or {}
        self._initializer = self._own_initializer = _stored(initializer, initargs)
        self._shared = _Shared()
        self._of_run = self._options
        remote(_run).options(**self._options)  # complains of wrong ones now
        self._calls: dict[str, RemoteFunction[..., Any]] = {}  # by name: making one takes longer than a small batch
        self._pending: set[ObjectRef] = set()
        # A task that waits must wait by get(), which gives its CPU to what it waits for; so results are fetched by
        # the task that runs the Parallel. In the driver they are taken as they come.
        self.supports_retrieve_callback: bool = process.is_forked or not current().client.current_task

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.nesting_level, self._options)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many jobs run at a time: of -1 as many as the session has CPUs, of -2 one less, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if process.is_forked:
            if n_jobs != 1:
                warnings.warn(
                    "cellmesh-backed parallel loops cannot be called in a process forked from one with a session, "
                    "setting n_jobs=1",
                    stacklevel=3,
                )
            return 1
        n_cpus = max(1, int(current().client.resources().total.get("CPU", 1)))
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(1, n_cpus + 1 + n_jobs)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        *,
        options: dict[str, Any] | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        **settings: Any,
    ) -> int:
        """Called before each run, with what `Parallel` was given for it; with a single job there is nothing to send
        anywhere.
        """
        of_run = {**self._options, **(options or {})}
        remote(_run).options(**of_run)  # complains of wrong ones now
        if of_run != self._of_run:
            self._of_run, self._calls = of_run, {}
        if initializer is not None:  # of this Parallel, whose backend others may share
            self._initializer = _stored(initializer, initargs)
        n_jobs = super().configure(n_jobs, parallel, **settings)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        return n_jobs

    def get_nested_backend(self) -> tuple[CellmeshBackend, int]:
        """For a Parallel inside a task."""
        return type(self)((self.nesting_level or 0) + 1, self._options), 1

    def submit(self, func: BatchedCalls, callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Run a batch; the callback gets the future."""
        batch, values = self._shared.extract(func)
        name = _name_of(func)
        if name not in self._calls:
            options: dict[str, Any] = {"name": name, **self._of_run}
            self._calls[name] = remote(_run).options(**options)
        ref = self._calls[name].remote(batch, *values, **self._batch_env())
        self._pending.add(ref)
        future: Any = ref.future()
        future.ref = ref
        future.add_done_callback(lambda _: self._pending.discard(ref))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """The results of a batch that is over."""
        return out.result()

    def retrieve_result(self, out: Any, timeout: float | None = None) -> Any:
        """Wait for the results of a batch."""
        return get(out.ref, timeout=timeout)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what has not been run."""
        for ref in list(self._pending):
            cancel(ref)
        self._pending.clear()

    def stop_call(self) -> None:
        """The run is over."""
        self._shared.clear()

    def terminate(self) -> None:
        """The Parallel is over: its initializer, and how long its calls took, mean nothing for the next."""
        self._initializer = self._own_initializer
        self.reset_batch_stats()

    def _batch_env(self) -> dict[str, Any]:
        """In what a batch is to run, as keyword arguments of `_run`."""
        found: dict[str, Any] = {}
        if self._initializer is not None:
            found["initializer"] = [self._initializer]  # in a list, as it is fetched once by each worker
        if self.inner_max_num_threads is not None:
            found["n_threads"] = int(self.inner_max_num_threads)
        if self.supports_retrieve_callback:  # a worker's own variables are ours
            variables = {name: os.environ[name] for name in self.MAX_NUM_THREADS_VARS if name in os.environ}
            if variables:  # which the user may have set after the workers were started
                found["variables"] = variables
        return found


def _stored(initializer: Callable[..., Any] | None, arguments: Iterable[Any]) -> ObjectRef | None:
    check_initializer(initializer)
    return put((initializer, tuple(arguments))) if initializer is not None else None


# ---------------------------------------------------------------- arguments that many calls share
class _Place:
    """Stands for the n-th shared argument in a batch."""

    def __init__(self, n: int) -> None:
        self.n = n


class _Shared:
    """Large arguments in the store, while the Parallel that uses them runs and they exist here."""

    def __init__(self) -> None:
        self._refs: dict[int, tuple[weakref.ref[Any], ObjectRef]] = {}

    def extract(self, batch: BatchedCalls) -> tuple[BatchedCalls, list[ObjectRef]]:
        """The batch without its large arguments, and the refs of these."""
        places: dict[ObjectRef, _Place] = {}

        def without(argument: Any) -> Any:
            ref = self._ref_of(argument)
            return argument if ref is None else places.setdefault(ref, _Place(len(places)))

        items = [
            (function, [without(a) for a in args], {name: without(a) for name, a in kwargs.items()})
            for function, args, kwargs in batch.items
        ]
        nested: Any = batch._backend, batch._n_jobs  # joblib has no types
        return BatchedCalls(items, nested), list(places)

    def clear(self) -> None:
        self._refs.clear()

    def _ref_of(self, argument: Any) -> ObjectRef | None:
        if _size_of(argument) < SHARED_BYTES:
            return None
        known, ref = self._refs.get(id(argument), (lambda: None, None))
        if known() is argument:
            return ref
        try:
            key = id(argument)
            holder = weakref.ref(argument, lambda _: self._refs.pop(key, None))
        except TypeError:  # it cannot be told when it ends, nor, by its id, whether it is the same
            return None
        ref = put(argument)
        self._refs[id(argument)] = holder, ref
        return ref


def _size_of(argument: Any) -> int:
    """Bytes of an array, a data frame, a sparse matrix; 0 for what is none of these."""
    size = getattr(argument, "nbytes", None)
    if size is None and type(argument).__module__.startswith("pandas."):
        usage = argument.memory_usage() if hasattr(argument, "memory_usage") else 0
        size = usage if isinstance(usage, int) else getattr(usage, "sum", int)()
    if size is None and hasattr(argument, "indptr"):
        size = argument.data.nbytes + argument.indices.nbytes
    try:
        return int(size or 0)
    except (TypeError, ValueError):  # an attribute of that name that means something else
        return 0


# ---------------------------------------------------------------- in the workers
def _run(
    batch: BatchedCalls,
    *values: Any,
    initializer: list[ObjectRef] | None = None,
    n_threads: int | None = None,
    variables: dict[str, str] | None = None,
) -> list[Any]:
    def filled(argument: Any) -> Any:
        return values[argument.n] if isinstance(argument, _Place) else argument

    batch.items = [
        (function, [filled(a) for a in args], {name: filled(a) for name, a in kwargs.items()})
        for function, args, kwargs in batch.items
    ]
    if initializer is not None:
        _initialize(initializer[0], batch)
    if n_threads is None and not variables:
        return batch()
    with _limited(n_threads, variables or {}):
        return batch()


def _initialize(ref: ObjectRef, batch: BatchedCalls) -> None:
    known = _initialized.get(ref.hex())
    if known is None:
        known = _initialized[ref.hex()] = Initialized(*get(ref))
    for function, _, _ in batch.items:
        known.prepare(function)


@contextmanager
def _limited(n_threads: int | None, variables: dict[str, str]) -> Iterator[None]:
    """Let numerical libraries use so many threads: those that run, and, by their variables, those that processes of the
    batch load.
    """
    if n_threads is not None:
        variables = dict.fromkeys(ParallelBackendBase.MAX_NUM_THREADS_VARS, str(n_threads))
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        with threadpool_limits(n_threads) if n_threads is not None and threadpool_limits is not None else nullcontext():
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _name_of(batch: BatchedCalls) -> str:
    function = batch.items[0][0]
    function = getattr(function, "function", function)  # scikit-learn's wrapper
    return getattr(function, "__name__", type(function).__name__)
