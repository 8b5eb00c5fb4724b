"""A joblib backend: `joblib.Parallel`, and with it scikit-learn, on the session's workers.

    from cellmesh.util import register_joblib
    register_joblib()
    with joblib.parallel_config("cellmesh"):
        search.fit(X, y)
"""
from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend
from joblib.parallel import BatchedCalls

from ..api import cancel, remote
from ..objects import get, put
from ..refs import ObjectRef
from ..session import current

SHARED_BYTES = 1 << 16  # an argument that is larger goes to the store once, not with each batch


def register_joblib(name: str = "cellmesh", **options: Any) -> None:
    """Make the backend known to joblib.

    Parameters
    ----------
    name : str
        By which `joblib.parallel_config` chooses it.
    **options
        Of its tasks, as `cellmesh.remote` takes them.
    """
    remote(_run).options(**options)  # complains of wrong options now
    register_parallel_backend(name, lambda **settings: CellmeshBackend(options=options, **settings))


class CellmeshBackend(AutoBatchingMixin, ParallelBackendBase):
    """Runs joblib's batches as tasks.

    A `Parallel` inside a task runs there one call after another unless it asks for `n_jobs` itself; then it starts
    tasks of its own.
    """

    MIN_IDEAL_BATCH_DURATION = 0.05  # a task costs microseconds; small batches share the CPUs better
    MAX_IDEAL_BATCH_DURATION = 1.0
    default_n_jobs = -1
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, nesting_level: int | None = None, options: dict[str, Any] | None = None,
                 **settings: Any) -> None:
        super().__init__(nesting_level=nesting_level, **settings)
        self._options = options or {}
        self._shared = _Shared()
        self._call = remote(_run)
        self._pending: set[ObjectRef] = set()
        # A task that waits must wait by get(), which gives its CPU to what it waits for; so results are fetched by
        # whoever runs the Parallel. In the driver they are taken as they come.
        self.supports_retrieve_callback = not current().client.current_task

    def __reduce__(self) -> tuple[Any, ...]:
        return CellmeshBackend, (self.nesting_level, self._options)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many jobs run at a time: of -1 as many as the session has CPUs, of -2 one less, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs=0 in Parallel has no meaning")
        n_cpus = max(1, int(current().client.resources()[0].get("CPU", 1)))
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(1, n_cpus + 1 + n_jobs)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **settings: Any) -> int:
        """Called before each run; with a single job there is nothing to send anywhere."""
        n_jobs = super().configure(n_jobs, parallel, **settings)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        return n_jobs

    def get_nested_backend(self) -> tuple[ParallelBackendBase, int]:
        """For a Parallel inside a task."""
        return CellmeshBackend((self.nesting_level or 0) + 1, self._options), 1

    def submit(self, func: BatchedCalls, callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Run a batch; the callback gets the future."""
        batch, values = self._shared.extract(func)
        ref = self._call.options(**{"name": _name_of(func), **self._options}).remote(batch, *values)
        self._pending.add(ref)
        future = ref.future()
        future.ref = ref
        future.add_done_callback(lambda _: self._pending.discard(ref))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """The results of a batch that is over."""
        return out.result()

    def retrieve_result(self, out: Future[Any], timeout: float | None = None) -> Any:
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

        items = [(function, [without(a) for a in args], {name: without(a) for name, a in kwargs.items()})
                 for function, args, kwargs in batch.items]
        return BatchedCalls(items, (batch._backend, batch._n_jobs)), list(places)

    def clear(self) -> None:
        self._refs.clear()

    def _ref_of(self, argument: Any) -> ObjectRef | None:
        if _size_of(argument) < SHARED_BYTES:
            return None
        known, ref = self._refs.get(id(argument), (lambda: None, None))
        if known() is argument:
            return ref
        try:
            holder = weakref.ref(argument, lambda _, key=id(argument): self._refs.pop(key, None))
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
def _run(batch: BatchedCalls, *values: Any) -> list[Any]:
    def filled(argument: Any) -> Any:
        return values[argument.n] if isinstance(argument, _Place) else argument
    batch.items = [(function, [filled(a) for a in args], {name: filled(a) for name, a in kwargs.items()})
                   for function, args, kwargs in batch.items]
    return batch()


def _name_of(batch: BatchedCalls) -> str:
    function = batch.items[0][0]
    function = getattr(function, "function", function)  # scikit-learn's wrapper
    return getattr(function, "__name__", type(function).__name__)
