"""Remote functions: what `@cellmesh.remote` makes of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from ..objstore import own_pickles
from ..objstore.annotations import annotations_of, get_signature
from ..session.current import current, current_or_none
from ..session.session import Session
from ..type_variables import Maps, P, R, S
from .described import describe, described, takes_options
from .export import Export, reduced_for_others
from .mapping import Mappable, check_one_value
from .options import DEFAULT_RETRIES, Options, check_options, options_key, resource_demand, returns_of, times_of
from .resource_requests import placed
from .signatures import Spec, call_check, quick_check, signature_of, spec_of

if TYPE_CHECKING:
    from typing import Unpack

    from ..refs import ObjectRef
    from ..typed import Several, TaskOptions
    from .generator import ObjectRefGenerator


class RemoteFunction(Maps[Callable[P, R], S], Mappable):
    """A function whose calls are tasks: `f.remote(...)` returns an ObjectRef at once.

    Anything else that can be called will do, too: partials, bound methods, builtins, objects with `__call__`. What they
    hold (the arguments of a partial, the object of a method) is copied with them.

    Attributes
    ----------
    remote : callable
        Submits a task. Takes what the function takes; an ObjectRef as an argument makes the task wait for its value.
    function : callable
        The plain function: `f.function(...)` is an ordinary call.

    Notes
    -----
    The function is copied into the store when it is first used, together with the global variables and closures that it
    and the functions it calls read, if it comes from a notebook or a script. A call sees them as they are at the call:
    what has been assigned since is noticed, and so is what was changed inside small lists, dicts, objects and arrays.
    Whether anything else was changed in place (a large array, a data frame) is looked at now and then only; a
    `ChangedInPlaceWarning` says so if a call may have missed it. Pass as an argument what changes.

    Arguments are copied by the call. The same argument given twice arrives as one, whatever its size. Lists, dicts and
    arrays that several arguments *contain* stay shared between them while the call is small: less than 64 KiB, and no
    buffer of 1 KiB or more. Beyond that every argument but small scalars is an object of its own in the store, and what
    two of them contain arrives as two equal values. Within one argument everything stays shared: `f.remote((a, b))` for
    two that must.
    """

    _cellmesh_is_function = True  # for modules below this one

    def __init__(self, function: Callable[P, R], options: Options, kinship: bytes = b"") -> None:
        plain = plain_of(function)
        wrapper: Any = self  # which cannot be called
        functools.update_wrapper(wrapper, plain, updated=())
        self.__wrapped__ = function
        self.__name__: str = name_of(function)
        self._definition = _definition_of(plain)
        self._set_up(Export("function", self.__name__, function, kinship=kinship), options, spec_of(function))

    def _set_up(self, export: Export, options: Options, spec: Spec | None, is_variant: bool = False) -> None:
        self._export = export
        self._options = options
        self._spec = spec
        self._is_variant = is_variant  # options() has made it
        # Made of it. They do not refer back: that would be a cycle.
        self._variants: dict[Hashable, RemoteFunction[..., Any, Any]] = {}

    @property
    def __cellmesh_code__(self) -> Callable[P, R]:
        return self._export.code

    @property
    def __signature__(self) -> inspect.Signature:
        wrapped = getattr(self, "__wrapped__", None)  # absent where only the function's ref is known
        if self._spec is None:
            raise AttributeError("__signature__")  # Python cannot tell
        if wrapped is not None:
            return get_signature(wrapped)
        return signature_of(self._spec)

    @property
    def function(self) -> Callable[P, R]:
        """The plain function, to be called in this process."""
        return self._export.code

    def __set_name__(self, owner: type, name: str) -> None:
        # Python calls this for what is assigned in the body of a class.
        defined_as = getattr(self, "__qualname__", "")
        if defined_as == f"{owner.__qualname__}.{name}" and self._spec and self._spec[0][0] == "self":
            raise TypeError(
                f"@cellmesh.remote is for functions and classes, and {defined_as} is a method: decorate the "
                f"class, which makes it an actor class, and call {name}.remote(...) on what "
                f"{owner.__name__}.remote() returns; @cellmesh.method(...) sets options of one method"
            )

    if not TYPE_CHECKING:  # checkers see no `__call__`, so that a call is a mistake, and `remote` as typed.py has it

        def __call__(self, /, *args: Any, **kwargs: Any) -> NoReturn:
            name = self._export.name
            raise TypeError(
                f"{name}() is a remote function and cannot be called directly: use {name}.remote(...), which "
                f"returns an ObjectRef, and cellmesh.get(ref) for its value. {name}.function(...) is the plain "
                "call, in this process; a helper that others only call is better left plain: define it in an "
                "ordinary cell, or without the decorator"
            )

        @described
        def remote(self, /, *args: Any, **kwargs: Any) -> Any:
            """Submit a task; returns its ObjectRef, a list of them for `num_returns` > 1, None for 0.

            A generator function returns an ObjectRefGenerator.
            """
            # The core's submitter takes this method's place until the session ends, so a call does not even pass
            # through Python.
            of = current()
            submitter = self._bind(of)
            if of.kept_calls is not None:
                submitter = of.kept_calls.watch(self, submitter)
            self.remote = submitter
            return submitter(*args, **kwargs)

    @overload
    def options(self, **options: Unpack[TaskOptions]) -> RemoteFunction[P, R, S]: ...
    @overload
    def options(self, *, num_returns: Literal[1], **options: Unpack[TaskOptions]) -> RemoteFunction[P, R]: ...
    @overload
    def options(self, *, num_returns: Literal[0], **options: Unpack[TaskOptions]) -> RemoteFunction[P, R, None]: ...
    @overload
    def options(
        self, *, num_returns: Literal["streaming"], **options: Unpack[TaskOptions]
    ) -> RemoteFunction[P, R, ObjectRefGenerator[Any]]: ...
    @overload
    def options(
        self, *, num_returns: Literal["dynamic"], **options: Unpack[TaskOptions]
    ) -> RemoteFunction[P, R, ObjectRef[list[ObjectRef[Any]]]]: ...
    @overload
    def options(
        self, *, num_returns: Several, **options: Unpack[TaskOptions]
    ) -> RemoteFunction[P, R, list[ObjectRef[Any]]]: ...
    @overload
    def options(self, *, num_returns: int, **options: Unpack[TaskOptions]) -> RemoteFunction[P, R, Any]: ...

    @takes_options("task")
    def options(self, **options: Any) -> Any:
        """The same function with other options, for `f.options(num_cpus=2).remote(...)`.

        Raises
        ------
        ValueError
            An option is unknown or has a value that it does not take.
        """
        merged = {**self._options, **check_options("task", options, self._export.name)}
        key = options_key(merged)
        variant = self._variants.get(key)
        if variant is None:
            variant = object.__new__(type(self))
            variant.__dict__.update({name: self.__dict__[name] for name in _METADATA if name in self.__dict__})
            variant._set_up(self._export, merged, self._spec, is_variant=True)
            self._variants[key] = variant
        return variant

    def _bind(self, of: Session) -> Callable[..., Any]:
        demand, hold = resource_demand("task", self._options)
        name = self._export.name
        returns, options = returns_of(self._options, False, name), self._options
        if of.engine is not None:
            from ..errors.engine_limits import GENERATORS
            from .scheduling_strategies import options_with_engine

            kinds = [GENERATORS] if returns["stream"] is not None else []
            options = options_with_engine(of, options, demand, name, *kinds)
        shape, placement = placed(of, demand, hold, name, options, getattr(self, "_definition", name))
        function, watch, renew = self._export.bound(of, self._options)
        submitter = of.client.submitter(
            function,
            shape,
            placement=placement,
            own_priority="priority" in self._options,
            watch=watch,
            renew=renew,
            **returns,
            max_retries=self._options.get("max_retries", DEFAULT_RETRIES),
            retry_exceptions=bool(self._options.get("retry_exceptions", False)),
            times=times_of(self._options),
            env=bool(demand.get("GPU")) or demand.get("CPU", 0.0) >= 2,
            group=self._options.get("max_calls", 1 if demand.get("GPU") else 0),
            params=quick_check(self._spec) if self._spec is not None else None,
            check=call_check(self._spec, name) if self._spec is not None else None,
            about=self._cellmesh_about(),
        )
        of.bound.add(self)
        return submitter

    def _cellmesh_about(self) -> Callable[[str], Any]:
        # Not by __dict__: once that has been asked for, all attributes are slower to reach.
        code = getattr(self, "__wrapped__", None)
        return functools.partial(
            describe, self._export.name, self.__doc__, code, self._spec, self._options.get("num_returns", 1)
        )

    def _check_mappable(self, called: str, chunksize: int, return_exceptions: bool) -> None:
        check_one_value(called, self._export.name, returns_of(self._options, False, self._export.name))
        if chunksize > 1 and return_exceptions and self._options.get("retry_exceptions"):
            raise ValueError(
                f"{called}(chunksize={chunksize}, return_exceptions=True) of {self._export.name!r}: a chunk whose "
                "errors are returned is not run again for retry_exceptions; leave out one of the three"
            )

    def _chunks(self, return_exceptions: bool) -> RemoteFunction[..., list[Any], Any]:
        key = ("chunks of calls", return_exceptions)
        variant = self._variants.get(key)
        if variant is None:
            from .mapping import chunked

            name = self._options.get("name", self._export.name)
            run = chunked(self._export.code, name, return_exceptions)
            variant = self._variants[key] = RemoteFunction(run, {**self._options, "name": name})
        return variant

    def unbind(self) -> None:
        """Forget the submitter; the next call makes one for the session that is then."""
        self.__dict__.pop("remote", None)

    def redefined(self, new: RemoteFunction[P, R, S]) -> RemoteFunction[P, R, S]:
        """A new definition of this function, with the options of this one if `options()` has given it any."""
        return new.options(**self._options) if self._is_variant else new

    def uses_export(self, export: Export) -> bool:
        """Whether the submitter runs that copy of the code."""
        return self._export is export

    def __repr__(self) -> str:
        return f"<remote function {self._export.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_for_others(self)

    def _reduced_inside(self) -> tuple[Any, ...]:
        # State apart from creation: a function may refer to itself, and is then met again while its state is pickled.
        ref = self._export.ref_for_pickle(current_or_none(), self._options)
        if ref is None:
            return _empty, (), (self._export.code, self._options, self._export.kinship)
        metadata = {name: self.__dict__[name] for name in _METADATA if name in self.__dict__ and name != "__wrapped__"}
        if metadata.pop("__annotate__", None) is not None:  # as of Python 3.14: what makes them, with all its globals
            metadata["__annotations__"] = annotations_of(plain_of(self.__wrapped__))
        return (
            _empty,
            (),
            (ref, self._export.key(self._options, current_or_none()), self._options, self._spec, metadata),
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if len(state) == 3:
            self.__init__(*state)
            return
        ref, key, options, spec, metadata = state
        self.__dict__.update(metadata)
        self._set_up(Export("function", metadata["__name__"], copies={key: ref}), options, spec)

    def __copy__(self) -> RemoteFunction[P, R, S]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteFunction[P, R, S]:
        return self


own_pickles.reducers[RemoteFunction] = RemoteFunction._reduced_inside

_METADATA = (*functools.WRAPPER_ASSIGNMENTS, "__annotations__", "__wrapped__", "_definition")


def _definition_of(function: Callable[..., Any]) -> str:
    """What its tasks are counted under (`max_in_flight`, `rate_limit`): the same for the function that a cell defines
    again.
    """
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
    code = getattr(function, "__code__", None)
    return f"{name} {code.co_filename}:{code.co_firstlineno}" if "<lambda>" in name and code is not None else name


def plain_of(code: Callable[..., Any]) -> Callable[..., Any]:
    """What a partial calls in the end; others as they are."""
    while isinstance(code, functools.partial):
        code = code.func
    return code


def name_of(code: Callable[..., Any]) -> str:
    """What tasks of it are called: "scale", "Model.predict", and by its class an object that can be called."""
    code = plain_of(code)
    name = getattr(code, "__name__", None)
    if not isinstance(name, str):
        return type(code).__name__
    owner = getattr(code, "__self__", None)  # of a builtin function its module
    if owner is None or inspect.ismodule(owner):
        return name
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"


def _empty() -> RemoteFunction[..., Any, Any]:
    return object.__new__(RemoteFunction)


def make_remote_function(function: Callable[P, R], options: Options) -> RemoteFunction[P, R, Any]:
    """What `remote` makes of a function, or of anything else that can be called.

    Raises
    ------
    TypeError
        If it cannot be a task: a coroutine function, or something that is remote already.
    ValueError
        If an option is wrong.
    """
    name, code = name_of(function), plain_of(function)
    if isinstance(function, Mappable):
        raise TypeError(f"{function!r} is remote already: call its .remote(...)")
    if isinstance(code, Mappable):
        raise TypeError(
            f"a partial of {code!r}, which is remote already: make it of the plain function, "
            f"cellmesh.remote(partial({name}.function, ...))"
        )
    called = code if inspect.isroutine(code) else type(code).__call__
    if inspect.iscoroutinefunction(called):
        raise TypeError(
            f"{name!r} is an async function, and tasks are plain ones: make it a method of an actor class "
            "(async methods of an actor run concurrently), or call asyncio.run(...) in a plain remote "
            "function"
        )
    checked = check_options("task", options, name)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        checked.setdefault("num_returns", "streaming")
    return RemoteFunction(function, checked)
