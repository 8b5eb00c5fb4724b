"""What type checkers and editors know of `.remote(...)` and of options. Nothing here runs: no other module imports it
but for them.

A call takes for each parameter its value or an ObjectRef of it. No ParamSpec says that, so `Submits.remote` has one
signature that is the function's own, and one for each number of positional arguments, which are checked. Keyword
arguments of these pass unchecked: nothing in Python's types stands for "a function's keywords, or refs of them", and a
valid call must never be an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    overload,
)

from typing_extensions import TypeVar

from .refs import ObjectRef
from .submit.actor_class import ActorClass
from .submit.generator import ObjectRefGenerator
from .submit.mapping import Results
from .submit.remote_function import RemoteFunction
from .submit.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

P = ParamSpec("P")
R = TypeVar("R")  # what a function returns
S = TypeVar("S", default=ObjectRef[R])  # what its call returns at once
C = TypeVar("C", default=Any)  # an actor's class
F = TypeVar("F", default=Any)  # what constructs it
K = TypeVar("K")  # the keys of a dict
Y = TypeVar("Y")  # what a generator yields
T0 = TypeVar("T0")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
F_co = TypeVar("F_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
C_co = TypeVar("C_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


# ---------------------------------------------------------------- containers of refs
Several: TypeAlias = Literal[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
"""Numbers of returns that give a list; of other numbers checkers cannot tell 0 and 1 from the rest."""


class ListOf(Protocol[T_co]):
    """A list, or what is like one; no tuple, of which `get` makes a tuple."""

    def __iter__(self) -> Iterator[T_co]: ...
    def reverse(self) -> None: ...


OneOrMore: TypeAlias = T0 | Sequence[T0] | Mapping[Any, T0] | Set[T0]
Nested: TypeAlias = "ObjectRef[Any] | Sequence[Nested] | Mapping[Any, Nested]"
Refs: TypeAlias = "ObjectRef[Any] | ObjectRefGenerator[Any] | Sequence[Refs] | Mapping[Any, Refs] | Set[Refs]"


# ---------------------------------------------------------------- options
class SharedOptions(TypedDict, total=False):
    """Of tasks and of actors."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    name: str | None
    priority: int | None
    scheduling_strategy: (
        Literal["DEFAULT", "SPREAD"]
        | PlacementGroupSchedulingStrategy
        | NodeAffinitySchedulingStrategy
        | NodeLabelSchedulingStrategy
        | None
    )
    label_selector: Mapping[str, str] | None
    keep_frames: bool | None
    readonly: bool | None
    runtime_env: Mapping[str, Any] | None


class TaskOptions(SharedOptions, total=False):
    """Of `remote` for functions and of `RemoteFunction.options`, beside `num_returns`, which decides what a call
    returns.
    """

    generator_backpressure_num_objects: int | None
    max_retries: int | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
    max_calls: int | None
    max_in_flight: int | None
    rate_limit: str | float | None
    retry_delay: float | Sequence[float] | None
    timeout: float | None


class ActorOptions(SharedOptions, total=False):
    """Of `remote` for classes and of `ActorClass.options`."""

    namespace: str | None
    get_if_exists: bool | None
    lifetime: Literal["detached", "non_detached"] | None
    max_restarts: int | None
    max_task_retries: int | None
    max_concurrency: int | None
    concurrency_groups: Mapping[str, int] | None
    max_pending_calls: int | None
    allow_out_of_order_execution: bool | None


class RemoteOptions(TaskOptions, ActorOptions, total=False):
    """Of `remote`, which does not know yet what it will decorate."""


class MethodOptions(TypedDict, total=False):
    """Of `method` and of `ActorMethod.options`."""

    num_returns: int | Literal["streaming", "dynamic"] | None
    generator_backpressure_num_objects: int | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
    name: str | None
    max_task_retries: int | None
    concurrency_group: str | None
    retry_delay: float | Sequence[float] | None
    timeout: float | None


# ---------------------------------------------------------------- calls
class MapOptions(TypedDict, total=False):
    """Of `map` and `starmap`, beside `return_exceptions`, which decides what they give."""

    kwargs: dict[str, Any] | None
    chunksize: int
    buffersize: int | None
    ordered: bool
    timeout: float | None


class Submits(Generic[F_co, S_co]):
    """Something with `.remote(...)`."""

    @overload
    def remote(self: Submits[Callable[P, Any], Any], *args: P.args, **kwargs: P.kwargs) -> S_co: ...
    @overload
    def remote(self, /, **kwargs: Any) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, ...], Any], Any], arg0: T0 | ObjectRef[T0], /, **kwargs: Any
    ) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, T1, ...], Any], Any],
        arg0: T0 | ObjectRef[T0],
        arg1: T1 | ObjectRef[T1],
        /,
        **kwargs: Any,
    ) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, T1, T2, ...], Any], Any],
        arg0: T0 | ObjectRef[T0],
        arg1: T1 | ObjectRef[T1],
        arg2: T2 | ObjectRef[T2],
        /,
        **kwargs: Any,
    ) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, T1, T2, T3, ...], Any], Any],
        arg0: T0 | ObjectRef[T0],
        arg1: T1 | ObjectRef[T1],
        arg2: T2 | ObjectRef[T2],
        arg3: T3 | ObjectRef[T3],
        /,
        **kwargs: Any,
    ) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, T1, T2, T3, T4, ...], Any], Any],
        arg0: T0 | ObjectRef[T0],
        arg1: T1 | ObjectRef[T1],
        arg2: T2 | ObjectRef[T2],
        arg3: T3 | ObjectRef[T3],
        arg4: T4 | ObjectRef[T4],
        /,
        **kwargs: Any,
    ) -> S_co: ...
    @overload
    def remote(
        self: Submits[Callable[Concatenate[T0, T1, T2, T3, T4, T5, ...], Any], Any],
        arg0: T0 | ObjectRef[T0],
        arg1: T1 | ObjectRef[T1],
        arg2: T2 | ObjectRef[T2],
        arg3: T3 | ObjectRef[T3],
        arg4: T4 | ObjectRef[T4],
        arg5: T5 | ObjectRef[T5],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> S_co: ...
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call; returns an ObjectRef of what it will return, at once. Any argument may be an ObjectRef of its
        value.
        """


class Maps(Submits[F_co, S_co]):
    """Something with `.map(...)` and `.starmap(...)` too."""

    @overload
    def map(
        self: Maps[Callable[Concatenate[T0, ...], R], Any],
        xs: Iterable[T0 | ObjectRef[T0]],
        /,
        **options: Unpack[MapOptions],
    ) -> Results[R]: ...
    @overload
    def map(
        self: Maps[Callable[Concatenate[T0, T1, ...], R], Any],
        xs: Iterable[T0 | ObjectRef[T0]],
        ys: Iterable[T1 | ObjectRef[T1]],
        /,
        **options: Unpack[MapOptions],
    ) -> Results[R]: ...
    @overload
    def map(
        self: Maps[Callable[..., R], Any],
        xs: Iterable[Any],
        ys: Iterable[Any],
        zs: Iterable[Any],
        /,
        *more: Iterable[Any],
        **options: Unpack[MapOptions],
    ) -> Results[R]: ...
    @overload
    def map(
        self: Maps[Callable[..., R], Any],
        *iterables: Iterable[Any],
        return_exceptions: bool,
        **options: Unpack[MapOptions],
    ) -> Results[R | BaseException]: ...
    def map(self, *iterables: Any, **options: Any) -> Any: ...

    @overload
    def starmap(
        self: Maps[Callable[..., R], Any], tuples: Iterable[Iterable[Any]], **options: Unpack[MapOptions]
    ) -> Results[R]: ...
    @overload
    def starmap(
        self: Maps[Callable[..., R], Any],
        tuples: Iterable[Iterable[Any]],
        *,
        return_exceptions: bool,
        **options: Unpack[MapOptions],
    ) -> Results[R | BaseException]: ...
    def starmap(self, tuples: Any, **options: Any) -> Any: ...


# ---------------------------------------------------------------- decorators
class ClassOf(Protocol[P, C_co]):
    """A class and its constructor's parameters, as mypy sees it. pyright does not, and takes the overload for
    `type`.
    """

    @property
    def __mro__(self) -> tuple[type, ...]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C_co: ...


class OnlyAny(Protocol):
    """No type is of this one but Any: functions that are said to return Any are told by it from generators."""

    def __cellmesh_no_type_has_this__(self) -> None: ...


class Decorator(Protocol):
    """What `remote(option=value)` returns."""

    # Classes come first: they can be called too, and there is no type for "what can be called and is no class".
    @overload
    def __call__(self, target: ClassOf[P, C], /) -> ActorClass[C, Callable[P, C]]: ...  # pyright: ignore[reportOverlappingOverload] (see above: classes come first)
    @overload
    def __call__(self, target: type[C], /) -> ActorClass[C, type[C]]: ...
    @overload
    def __call__(self, target: Callable[P, OnlyAny], /) -> RemoteFunction[P, Any]: ...
    @overload
    def __call__(
        self, target: Callable[P, Iterator[Y] | AsyncIterator[Y]], /
    ) -> RemoteFunction[P, Iterator[Y], ObjectRefGenerator[Y]]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> RemoteFunction[P, R]: ...


class FunctionDecorator(Protocol[S_co]):
    """What `remote(num_returns=n)` returns: calls give what that says, whatever the function returns."""

    def __call__(self, target: Callable[P, R], /) -> RemoteFunction[P, R, S_co]: ...
