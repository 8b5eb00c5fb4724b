"""Remote functions: what `@cellmesh.remote` makes of a function."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

from . import session
from .exports import Export
from .options import Options, check_options, options_key, resource_demand, returns_of
from .session import Session
from .signatures import Spec, call_check, quick_check, signature_of, spec_of

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A function whose calls are tasks: `f.remote(...)` returns an ObjectRef at once.

    Attributes
    ----------
    remote : callable
        Submits a task. Takes what the function takes; an ObjectRef as an argument makes the task wait for its value.
    function : callable
        The plain function: `f.function(...)` is an ordinary call.

    Notes
    -----
    The function is copied into the store when it is first used, together with the global variables it reads, if it
    comes from a notebook or a script. What is assigned to these variables in the same cell later is not seen by its
    tasks.

    Arguments are copied by the call. The same argument given twice arrives as one, whatever its size. Lists, dicts and arrays that
    several arguments *contain* stay shared between them while the call is small: less than 64 KiB, and no buffer of 1 KiB or
    more. Beyond that every argument but small scalars is an object of its own in the store, and what two of them contain arrives
    as two equal values. Within one argument everything stays shared: `f.remote((a, b))` for two that must.
    """

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, function, updated=())
        self._set_up(Export("function", function.__name__, function), options, spec_of(function), {})

    def _set_up(self, export: Export, options: Options, spec: Spec | None,
                variants: dict[Hashable, RemoteFunction[P, R]]) -> None:
        self._export = export
        self._options = options
        self._spec = spec
        self._variants = variants  # what options() has made, shared by all of them

    @property
    def __cellmesh_code__(self) -> Callable[P, R]:
        return self._export.code

    @property
    def __signature__(self) -> inspect.Signature:
        wrapped = self.__dict__.get("__wrapped__")  # absent where only the function's ref is known
        if wrapped is not None:
            return inspect.signature(wrapped)
        if self._spec is None:
            raise AttributeError("__signature__")  # Python cannot tell
        return signature_of(self._spec)

    @property
    def function(self) -> Callable[P, R]:
        """The plain function, to be called in this process."""
        return self._export.code

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        name = self._export.name
        raise TypeError(f"{name}() is a remote function and cannot be called directly: use {name}.remote(...), which "
                        f"returns an ObjectRef, and cellmesh.get(ref) for its value. {name}.function(...) is the plain "
                        "call, in this process; a helper that others only call is better left plain: define it in an "
                        "ordinary cell, or without the decorator")

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Submit a task; returns its ObjectRef, a list of them for `num_returns` > 1, None for 0.

        A generator function returns an ObjectRefGenerator.
        """
        # The core's submitter takes this method's place until the session ends, so a call does not even pass through
        # Python.
        of = session.current()
        submitter = self._bind(of)
        if of.kept_calls is not None:
            submitter = of.kept_calls.watch(self, self, submitter)
        self.remote = submitter  # type: ignore[method-assign]
        return submitter(*args, **kwargs)

    def options(self, **options: Any) -> RemoteFunction[P, R]:
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
            variant._set_up(self._export, merged, self._spec, self._variants)
            self._variants[key] = variant
        return variant

    def _bind(self, of: Session) -> Callable[..., Any]:
        demand, hold = resource_demand("task", self._options)
        name = self._export.name
        shape, placement = of.placed(demand, hold, name, self._options)
        submitter = of.client.submitter(
            self._export.ref(of, self._options), shape, placement=placement,
            **returns_of(self._options, False, name), max_retries=self._options.get("max_retries", 3),
            retry_exceptions=bool(self._options.get("retry_exceptions", False)),
            env=bool(demand.get("GPU")) or demand.get("CPU", 0.0) >= 2,
            group=self._options.get("max_calls", 1 if demand.get("GPU") else 0),
            params=quick_check(self._spec) if self._spec is not None else None,
            check=call_check(self._spec, name) if self._spec is not None else None)
        of.bound.add(self)
        return submitter

    def unbind(self) -> None:
        """Forget the submitter; the next call makes one for the session that is then."""
        self.__dict__.pop("remote", None)

    def redefined(self, new: RemoteFunction[P, R]) -> RemoteFunction[P, R]:
        """A new definition of this function, with the options of this one if `options()` has given it any."""
        return new.options(**self._options) if self in self._variants.values() else new

    def uses_export(self, export: Export) -> bool:
        """Whether the submitter runs that copy of the code."""
        return self._export is export

    def __repr__(self) -> str:
        return f"<remote function {self._export.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # State apart from creation: a function may refer to itself, and is then met again while its state is pickled.
        ref = self._export.ref_for_pickle(session.current_or_none(), self._options)
        if ref is None:
            return _empty, (), (self._export.code, self._options)
        metadata = {name: self.__dict__[name] for name in _METADATA if name in self.__dict__ and name != "__wrapped__"}
        return _empty, (), (ref, self._export.key(self._options, session.current_or_none()), self._options, self._spec,
                             metadata)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if len(state) == 2:
            self.__init__(*state)  # type: ignore[misc]
            return
        ref, key, options, spec, metadata = state
        self.__dict__.update(metadata)
        self._set_up(Export("function", metadata["__name__"], copies={key: ref}), options, spec, {})

    def __copy__(self) -> RemoteFunction[P, R]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteFunction[P, R]:
        return self


_METADATA = (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__")


def _empty() -> RemoteFunction[Any, Any]:
    return object.__new__(RemoteFunction)


def make_remote_function(function: Callable[P, R], options: Options) -> RemoteFunction[P, R]:
    """What `remote` makes of a function.

    Raises
    ------
    TypeError
        If the function cannot be a task: a coroutine function.
    ValueError
        If an option is wrong.
    """
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name!r} is an async function, and tasks are plain ones: make it a method of an actor class "
                        "(async methods of an actor run concurrently), or call asyncio.run(...) in a plain remote "
                        "function")
    checked = check_options("task", options, name)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        checked.setdefault("num_returns", "streaming")
    return RemoteFunction(function, checked)
