"""The inputs of calls that the notebook has made, so that an error names them and a task can be submitted again: `%retry`.

The store forgets the arguments of a task when it ends. So in a notebook the submitter of a remote function or method is wrapped,
and the arguments of a call stay with this process until the call has a value or nobody holds its future any more. What
can change meanwhile is kept as a pickle, as the worker got it.

That must cost nothing where a cell submits a hundred thousand tasks. Of each function the first `N_PER_CELL` calls of a
cell are kept; then the function has its bare submitter back until the next cell.
"""
from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import session as sessions
from ..exceptions import SessionError

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..refs import ObjectRef
    from ..actor import ActorMethod
    from ..remote_function import RemoteFunction
    from ..signatures import Spec

N_PER_CELL = 1000
N_KEPT = 10_000
N_NOTED = 1000  # calls without futures, of which nobody can say when their error has been seen last
INPUT_BYTES = 64_000  # of one call, beside the values that it refers to
CELL_BYTES = 2_000_000  # of one that a cell has become: there are few
SCALARS = frozenset({int, float, complex, bool, type(None)})

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Submit = Callable[..., Any]
Bound = Callable[[], Any]  # a weak reference to what holds a submitter


class MadeBy(int):
    """Stands for a ref: the number of the task that makes the value, or of the put."""


class Inputs(NamedTuple):
    """The arguments of a call: as they are if they cannot change, or pickled, with the refs among them beside.

    Attributes
    ----------
    refs : tuple of ObjectRef
        What the task depends on, and what its arguments hold else.
    """

    arguments: Arguments | None
    pickled: bytes
    refs: tuple[ObjectRef | MadeBy, ...]

    def without_objects(self) -> Inputs:
        """The same, with a number in the place of each ref: to be named, without keeping what it refers to alive."""
        made_by = {ref: MadeBy(ref.creator) for ref in self.refs}
        return Inputs(self.load(made_by) if self.arguments is not None else None, self.pickled, tuple(made_by[ref] for ref in self.refs))

    def load(self, instead: dict[ObjectRef, ObjectRef]) -> Arguments:
        """The arguments, with other refs in the place of some."""
        from ..objstore.serialization import load_code, ref_type
        if self.arguments is None:
            return load_code(self.pickled, [instead.get(ref, ref) for ref in self.refs])
        args, kwargs = self.arguments
        kind = ref_type()
        return (tuple(instead.get(value, value) if type(value) is kind else value for value in args),
                {name: instead.get(value, value) if type(value) is kind else value for name, value in kwargs.items()})


class Call(NamedTuple):
    """A call whose inputs are kept.

    Attributes
    ----------
    called : RemoteFunction, or tuple
        Of what is not submitted again (a method, a constructor, a generator) the parameters: a method itself would keep the actor alive.
    inputs : Inputs
    results : tuple of ObjectRef
        Its futures; none of a constructor or a generator.
    """

    called: RemoteFunction[..., Any] | Spec
    inputs: Inputs
    results: tuple[ObjectRef, ...]


class KeptCalls:
    """The kept calls of one session.

    Calls are added by whatever thread submits, and forgotten by `prune`, from any.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._calls: OrderedDict[int, Call] = OrderedDict()  # by the task's number
        self._failed: set[int] = set()  # of those
        self._noted: OrderedDict[int, Call] = OrderedDict()
        self._full: list[tuple[Bound, Submit, Submit]] = []  # that have their bare submitter

    def watch(self, function: RemoteFunction[..., Any] | ActorMethod, called: RemoteFunction[..., Any] | Spec,
              submitter: Submit) -> Submit:
        """What takes the place of a function's or method's submitter; `called` as in `Call`."""
        from ..objstore.serialization import ref_type
        from .cell_task import run_cell
        ref = ref_type()
        limit = CELL_BYTES if getattr(called, "function", None) is run_cell else INPUT_BYTES
        bound = weakref.ref(function)
        n_left = N_PER_CELL
        counted_in = self._full

        def submit(*args: Any, **kwargs: Any) -> Any:
            nonlocal n_left, counted_in
            result = submitter(*args, **kwargs)
            if counted_in is not self._full:  # another cell
                n_left, counted_in = N_PER_CELL, self._full
            n_left -= 1
            results = (result,) if type(result) is ref else tuple(result) if type(result) is list else ()
            if results:
                is_kept = self.keep(called, args, kwargs, results, limit)
            else:  # the function returns nothing, or a stream
                is_kept = result is not None and self.note(result.completed().creator, getattr(called, "_spec", called), args, kwargs)
            if not is_kept or n_left <= 0:
                counted_in.append((bound, submitter, submit))
                _exchange(bound, submit, submitter)
            return result

        return submit

    def keep(self, called: RemoteFunction[..., Any] | Spec, args: tuple[Any, ...], kwargs: dict[str, Any],
             results: tuple[ObjectRef, ...], limit: int = CELL_BYTES) -> bool:
        """Keep the inputs of a call; False: they are more than `limit` bytes."""
        inputs = inputs_of(args, kwargs, limit, type(results[0]))
        if inputs is None:
            return False
        with self._lock:
            self._calls[results[0].creator] = Call(called, inputs, results)
            if len(self._calls) > N_KEPT:
                self._failed.discard(self._calls.popitem(last=False)[0])
        return True

    def note(self, number: int, parameters: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Keep the inputs of a call that has no future of its own, a constructor's or a generator's, only to name them."""
        from ..objstore.serialization import ref_type
        inputs = inputs_of(args, kwargs, INPUT_BYTES, ref_type())
        if inputs is None:
            return False
        with self._lock:
            self._noted[number] = Call(parameters, inputs.without_objects(), ())
            if len(self._noted) > N_NOTED:
                self._noted.popitem(last=False)
        return True

    def next_cell(self) -> None:
        """A cell begins: calls are counted anew."""
        full, self._full = self._full, []
        for bound, submitter, submit in full:
            _exchange(bound, submitter, submit)
        self.prune()

    def of_task(self, number: int) -> Call | None:
        """The call that became the task of that number, if it is kept."""
        return self._calls.get(number) or self._noted.get(number)

    def all(self) -> list[tuple[int, Call]]:
        """The numbers of tasks and their calls, in the order in which they were submitted."""
        with self._lock:
            return sorted(self._calls.items())

    def prune(self) -> None:
        """Forget calls that have ended well, and those whose futures are held by nobody else."""
        for number, call in self.all():
            if _n_holders(call.results) <= N_OWN_HOLDERS or self._has_value(number, call):
                with self._lock:
                    self._calls.pop(number, None)
                    self._failed.discard(number)

    def _has_value(self, number: int, call: Call) -> bool:
        try:
            if number in self._failed or not self._client.ready(call.results[0]):
                return False
            if self._client.info(call.results[0])["state"] == "finished":
                return True
        except SessionError:
            return True  # the session has ended, and nothing of it can be submitted again
        self._failed.add(number)
        return False


def _exchange(bound: Bound, before: Submit, after: Submit) -> None:
    function = bound()
    if function is not None and function.__dict__.get("remote") is before:  # otherwise it has been unbound
        function.__dict__["remote"] = after


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any], limit: int, ref: type) -> Inputs | None:
    """What is kept of a call's arguments; None: they are more than `limit` bytes. `ref`: the type of refs."""
    refs, n_chars = [], 0
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is ref:
            refs.append(value)
        elif kind is str or kind is bytes:
            n_chars += len(value)
        elif kind not in SCALARS:
            from ..objstore.serialization import TooLarge, dump_bounded
            try:
                return Inputs(None, *dump_bounded((args, kwargs), limit))
            except TooLarge:
                return None
    return Inputs((args, kwargs), b"", tuple(refs)) if n_chars <= limit else None


def _n_holders(results: tuple[Any, ...]) -> int:
    return max(sys.getrefcount(ref) for ref in results)


N_OWN_HOLDERS = _n_holders((object(),))  # of what only such a tuple holds


def prune() -> None:
    """Forget what the present session need not keep any more."""
    session = sessions.current_or_none()
    if session is not None and session.kept_calls is not None:
        session.kept_calls.prune()
