"""The inputs of calls, so that an error names them and a task can be submitted again: `%retry`, `retry`.

The store forgets the arguments of a task when it ends. So in a notebook, and where a program asks for it, the submitter
of a remote function or method is wrapped, and the arguments of a call stay with this process until the call has a value
or nobody holds its future any more. What can change meanwhile is kept as a pickle, as the worker got it.

That must cost nothing where a cell submits a hundred thousand tasks. Of each function the first `N_PER_CELL` calls of a
cell are kept; then the function has its bare submitter back until the next cell. A program has no cells: there the last
`N_KEPT` calls are kept.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..exceptions import SessionError
from ..session.current import current, current_or_none
from ..submit.generator import ObjectRefGenerator

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..refs import ObjectRef
    from ..submit.actor import ActorMethod
    from ..submit.remote_function import RemoteFunction
    from ..submit.signatures import Spec

N_PER_CELL = 1000
N_KEPT = 10_000
N_NOTED = 1000  # calls without futures, of which nobody can say when their error has been seen last
N_UNPRUNED = 16  # calls that a program keeps at least before it is looked which of them it need not
INPUT_BYTES = 64_000  # of one call, beside the values that it refers to
CELL_BYTES = 2_000_000  # of one that a cell has become: there are few
SCALARS = frozenset({int, float, complex, bool, type(None)})

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Submit = Callable[..., Any]
Bound = Callable[[], Any]  # a weak reference to what holds a submitter


class MadeBy(int):
    """Stands for a ref: the number of the task that makes the value, or of the put."""


R = TypeVar("R", "ObjectRef[Any]", MadeBy)


class Inputs(NamedTuple, Generic[R]):
    """The arguments of a call: as they are if they cannot change, or pickled, with the refs among them beside.

    Attributes
    ----------
    refs : tuple of ObjectRef
        What the task depends on, and what its arguments hold else.
    """

    arguments: Arguments | None
    pickled: bytes
    refs: tuple[R, ...]

    def load(self, instead: Mapping[R, object]) -> Arguments:
        """The arguments, with other refs in the place of some."""
        from ..objstore.serialization import load_code, ref_type

        if self.arguments is None:
            return load_code(self.pickled, [instead.get(ref, ref) for ref in self.refs])
        args, kwargs = self.arguments
        kind = ref_type()
        return (
            tuple(instead.get(value, value) if type(value) is kind else value for value in args),
            {name: instead.get(value, value) if type(value) is kind else value for name, value in kwargs.items()},
        )


def without_objects(inputs: Inputs[ObjectRef[Any]]) -> Inputs[MadeBy]:
    """The same, with a number in the place of each ref: to be named, without keeping what it refers to alive."""
    made_by = {ref: MadeBy(ref.creator) for ref in inputs.refs}
    return Inputs(
        inputs.load(made_by) if inputs.arguments is not None else None,
        inputs.pickled,
        tuple(made_by[ref] for ref in inputs.refs),
    )


class Call(NamedTuple):
    """A call whose inputs are kept.

    Attributes
    ----------
    called : RemoteFunction, or tuple
        Of what is not submitted again (a method, a constructor, a generator) the parameters: a method itself would keep
        the actor alive.
    inputs : Inputs
    results : tuple of ObjectRef
        Its futures; none of a constructor or a generator.
    """

    called: RemoteFunction[..., Any, Any] | Spec
    inputs: Inputs[ObjectRef[Any]]
    results: tuple[ObjectRef, ...]


class NamedCall(NamedTuple):
    """A call that has no future of its own, a constructor's or a generator's: its inputs are kept only to be named."""

    called: Spec | None
    inputs: Inputs[MadeBy]


class KeptCalls:
    """The kept calls of one session.

    Calls are added by whatever thread submits, and forgotten by `prune`, from any.

    Parameters
    ----------
    client : Client
    of_cells : callable, optional
        The function that runs cells, in a notebook; None: there are no cells.
    """

    def __init__(self, client: Client, of_cells: Callable[..., Any] | None = None) -> None:
        self._client = client
        self._of_cells = of_cells
        self._prune_at = N_UNPRUNED
        self._lock = threading.Lock()
        self._calls: OrderedDict[int, Call] = OrderedDict()  # by the task's number
        self._failed: set[int] = set()  # of those
        self._noted: OrderedDict[int, NamedCall] = OrderedDict()
        self._full: list[Bound] = []  # that have their bare submitter

    @property
    def counts_cells(self) -> bool:
        """Whether it is a notebook's."""
        return self._of_cells is not None

    def watch(self, function: RemoteFunction[..., Any, Any], submitter: Submit) -> Submit:
        """What takes the place of a function's submitter."""
        is_of_cells = self._of_cells is not None and function.function is self._of_cells
        bound = weakref.ref(function)
        return self._watched(bound, bound, None, submitter, CELL_BYTES if is_of_cells else INPUT_BYTES)

    def watch_method(self, method: ActorMethod[..., Any, Any], submitter: Submit, spec: Spec) -> Submit:
        """What takes the place of a method's submitter. `spec`: its parameters."""
        return self._watched(weakref.ref(method), _nothing, spec, submitter, INPUT_BYTES)

    def _watched(
        self,
        bound: Bound,
        function: Callable[[], RemoteFunction[..., Any, Any] | None],
        spec: Spec | None,
        submitter: Submit,
        limit: int,
    ) -> Submit:
        """The submitter, with the calls noted that it makes.

        It refers to neither itself nor the function, which holds it, and the list of what has its bare submitter holds
        no submitter: else only the garbage collector would end an actor whose handle has gone.

        Parameters
        ----------
        bound : weak reference
            To the function or method.
        function : weak reference
            To the function, which is kept itself.
        spec : Spec, optional
            A method's parameters, which are kept in its place.
        submitter : callable
        limit : int
            How many bytes of inputs are kept of a call.
        """
        from ..objstore.serialization import ref_type

        ref = ref_type()
        most = N_PER_CELL if self.counts_cells else sys.maxsize
        n_left = most
        counted_in = self._full

        @functools.wraps(submitter)
        def submit(*args: Any, **kwargs: Any) -> Any:
            nonlocal n_left, counted_in
            result = submitter(*args, **kwargs)
            if counted_in is not self._full:  # another cell
                n_left, counted_in = most, self._full
            called = spec if spec is not None else function()
            if n_left <= 0 or called is None:  # somebody holds `remote` itself
                return result
            n_left -= 1
            results = (result,) if type(result) is ref else tuple(result) if type(result) is list else ()
            if results:
                is_kept = self.keep(called, args, kwargs, results, limit)
            else:  # the function returns nothing, or a stream
                parameters = called if isinstance(called, tuple) else called._spec
                is_kept = isinstance(result, ObjectRefGenerator) and self.note(
                    result.completed().creator, parameters, args, kwargs
                )
            if (not is_kept and self.counts_cells) or n_left <= 0:
                n_left = 0
                counted_in.append(bound)
                _exchange(bound, itself(), submitter)
            return result

        itself = weakref.ref(submit)
        return submit

    def keep(
        self,
        called: RemoteFunction[..., Any, Any] | Spec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: tuple[ObjectRef, ...],
        limit: int = CELL_BYTES,
    ) -> bool:
        """Keep the inputs of a call; False: they are more than `limit` bytes."""
        inputs = inputs_of(args, kwargs, limit, type(results[0]))
        if inputs is None:
            return False
        with self._lock:
            self._calls[results[0].creator] = Call(called, inputs, results)
            if len(self._calls) > N_KEPT:
                self._failed.discard(self._calls.popitem(last=False)[0])
            is_due = not self.counts_cells and len(self._calls) >= self._prune_at
        if is_due:  # no cell will begin
            self.prune()
            self._prune_at = len(self._calls) * 5 // 4 + N_UNPRUNED
        return True

    def note(self, number: int, parameters: Spec | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Keep the inputs of a call that has no future of its own, a constructor's or a generator's, only to name
        them.
        """
        from ..objstore.serialization import ref_type

        inputs = inputs_of(args, kwargs, INPUT_BYTES, ref_type())
        if inputs is None:
            return False
        with self._lock:
            self._noted[number] = NamedCall(parameters, without_objects(inputs))
            if len(self._noted) > N_NOTED:
                self._noted.popitem(last=False)
        return True

    def next_cell(self) -> None:
        """A cell begins: calls are counted from 0 again."""
        full, self._full = self._full, []
        for bound in full:
            if (function := bound()) is not None:
                function.unbind()  # its next call is watched again
        self.prune()

    def of_task(self, number: int) -> Call | NamedCall | None:
        """The call that became the task of that number, if it is kept."""
        return self._calls.get(number) or self._noted.get(number)

    def all(self) -> list[tuple[int, Call]]:
        """The numbers of tasks and their calls, in the order in which they were submitted."""
        with self._lock:
            return sorted(self._calls.items())

    def held(self) -> list[tuple[str, ObjectRef[Any]]]:
        """The refs that are kept as inputs, and for what, in words."""
        until = "while its future is held, for %retry" if self.counts_cells else "for retry()"
        return [
            (f"an input of task {number}, kept {until}", ref) for number, call in self.all() for ref in call.inputs.refs
        ]

    def prune(self) -> None:
        """Forget calls that have ended well, and those whose futures are held by nobody else."""
        for number, call in self.all():
            if _n_holders(call.results) <= N_OWN_HOLDERS or self._has_value(number, call):
                with self._lock:
                    self._calls.pop(number, None)
                    self._failed.discard(number)

    def _has_value(self, number: int, call: Call) -> bool:
        if self._client.closed:
            return True  # nothing of it can be submitted again
        try:
            if number in self._failed or not self._client.ready(call.results[0]):
                return False
            if self._client.info(call.results[0])["state"] == "finished":
                return True
        except SessionError:  # it ends meanwhile
            return True
        self._failed.add(number)
        return False


def _exchange(bound: Bound, before: Submit | None, after: Submit) -> None:
    function = bound()
    if function is not None and function.__dict__.get("remote") is before:  # otherwise it has been unbound
        function.__dict__["remote"] = after


def _nothing() -> None:
    """In place of a function, where a method is watched."""


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any], limit: int, ref: type) -> Inputs[ObjectRef[Any]] | None:
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
    session = current_or_none()
    if session is not None and session.kept_calls is not None:
        session.kept_calls.prune()


def begin() -> None:
    """Keep the calls of this process's session from now on."""
    session = current()
    if session.kept_calls is None:
        session.keep_calls(KeptCalls(session.client))
