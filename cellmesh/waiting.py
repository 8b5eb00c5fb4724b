"""`wait` and `as_completed`: waiting for some of several refs."""

from __future__ import annotations

import numbers
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from .session.current import current

if TYPE_CHECKING:
    from .objstore._core import Client
    from .refs import ObjectRef
    from .submit.generator import ObjectRefGenerator
    from .typed import OneOrMore, Refs

T = TypeVar("T")
Item = TypeVar("Item")
W = TypeVar("W", bound="ObjectRef[Any] | ObjectRefGenerator[Any]")


@overload
def wait(
    refs: OneOrMore[W], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[W], list[W]]: ...
@overload
def wait(
    refs: Refs, *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]: ...


def wait(refs: Any, *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True) -> Any:
    """Wait until some of the refs are ready.

    Parameters
    ----------
    refs : ObjectRef, ObjectRefGenerator, or list, tuple, dict or set of them
        Without duplicates. A generator is ready when its next ref is, or when it has ended.
    num_returns : int, from 1 to the number of refs
        How many to wait for.
    timeout : float, seconds, >= 0, optional
        How long to wait; then fewer may be ready.
    fetch_local : bool
        Without effect on one machine.

    Returns
    -------
    ready, rest : list of ObjectRef
        Lists whatever `refs` is, both in its order (a set has none); at most `num_returns` are in `ready`. A failed
        task counts as ready.

    Raises
    ------
    TypeError, ValueError
        Something in `refs` is no ref or occurs twice, or `num_returns` does not fit it.
    """
    if not isinstance(refs, list):
        from .tasks.containers import refs_of

        refs = refs_of(refs, "wait", generators=True)
    if not refs:
        return [], []
    whole = type(num_returns) is int or isinstance(
        num_returns, numbers.Integral
    )  # the latter alone takes half a microsecond
    client = current().client
    if whole and 1 <= num_returns <= len(refs):
        try:
            return client.wait(refs, num_returns, timeout)
        except TypeError:
            if all(type(ref) is _ref_type() for ref in refs):
                raise
    from .tasks.containers import refs_of

    refs = refs_of(refs, "wait", generators=True)
    if not refs:  # but empty containers
        return [], []
    if not whole or not 1 <= num_returns <= len(refs):
        raise ValueError(
            f"num_returns={num_returns!r} must be a whole number from 1 to the number of refs, {len(refs)}"
        )
    return _wait_with_generators(client, refs, num_returns, timeout)


def _wait_with_generators(client: Client, refs: list[Any], num_returns: int, timeout: float | None) -> tuple[Any, Any]:
    """In place of each generator stands the ref that it will hand out next, or that of its task when that was all."""
    stands_for = {_next_of(ref): ref for ref in refs}
    if len(stands_for) < len(refs):
        raise ValueError("wait() needs distinct refs and generators, and one of them occurs more than once")
    ready, rest = client.wait(list(stands_for), num_returns, timeout)
    return [stands_for[ref] for ref in ready], [stands_for[ref] for ref in rest]


def _next_of(ref: Any) -> ObjectRef:
    if type(ref) is _ref_type():
        return ref
    pending = ref.peek()
    return pending if pending is not None else ref.completed()


class as_completed(Generic[Item]):  # used like the function of that name in concurrent.futures
    """Iterate over refs in the order in which they become ready, by `for` or `async for`.

    Parameters
    ----------
    refs : ObjectRef, or list, tuple, dict, set or other iterable of them
    timeout : float, seconds, optional
        For all of them together; then GetTimeoutError is raised. Only for the plain `for`.
    with_results : bool
        Yield `(ref, value)` in place of the ref. The error of a task is raised when its turn comes, and ends the loop.
    return_exceptions : bool
        With results: yield `(ref, error)` instead, as `get` does.
    """

    @overload
    def __init__(
        self: as_completed[ObjectRef[T]],
        refs: ObjectRef[T] | Iterable[ObjectRef[T]] | Mapping[Any, ObjectRef[T]],
        timeout: float | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: as_completed[tuple[ObjectRef[T], T]],
        refs: ObjectRef[T] | Iterable[ObjectRef[T]] | Mapping[Any, ObjectRef[T]],
        timeout: float | None = None,
        *,
        with_results: Literal[True],
    ) -> None: ...
    @overload
    def __init__(
        self: as_completed[tuple[ObjectRef[T], T | BaseException]],
        refs: ObjectRef[T] | Iterable[ObjectRef[T]] | Mapping[Any, ObjectRef[T]],
        timeout: float | None = None,
        *,
        with_results: Literal[True],
        return_exceptions: bool,
    ) -> None: ...
    @overload
    def __init__(
        self: as_completed[Any],
        refs: Refs | Iterable[Refs],
        timeout: float | None = None,
        *,
        with_results: bool = False,
        return_exceptions: bool = False,
    ) -> None: ...

    def __init__(
        self, refs: Any, timeout: float | None = None, *, with_results: bool = False, return_exceptions: bool = False
    ) -> None:
        from .tasks.containers import every_ref

        if return_exceptions and not with_results:
            raise ValueError(
                "as_completed(return_exceptions=True) is about values and needs with_results=True; without it no "
                "error is raised, as refs come"
            )
        self._refs = list(dict.fromkeys(every_ref(refs, "as_completed")))
        self._timeout = timeout
        self._with_results, self._return_exceptions = with_results, return_exceptions

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[Item]:
        client = current().client
        end = None if self._timeout is None else time.monotonic() + self._timeout
        rest = self._refs
        while rest:
            ready, _ = client.wait(rest, 1, _left(end))
            if not ready:
                from .exceptions import GetTimeoutError

                raise GetTimeoutError(
                    f"as_completed() gave up after {self._timeout:g} s: {len(rest)} of "
                    f"{len(self._refs)} refs are not there yet; the tasks go on"
                )
            ready, rest = client.wait(rest, len(rest), 0)  # the others that have arrived, at one go
            for ref in ready:
                yield self._item(client, ref, _left(end))

    async def __aiter__(self) -> AsyncIterator[Item]:
        import asyncio

        from .session.notifier import await_ref

        loop = asyncio.get_running_loop()
        of = current()
        arrived: asyncio.Queue[ObjectRef[Any]] = asyncio.Queue()
        callbacks = {ref: (lambda ref=ref: arrived.put_nowait(ref)) for ref in self._refs}
        for ref, callback in callbacks.items():
            of.notifier.add(ref, loop, callback)
        try:
            for _ in self._refs:
                ref = await arrived.get()
                item: Any = ref
                if self._with_results:
                    item = ref, await await_ref(ref, self._return_exceptions)
                yield item
        finally:
            for ref, callback in callbacks.items():
                of.notifier.discard(ref, callback)

    def _item(self, client: Client, ref: ObjectRef, timeout: float | None) -> Any:
        return (ref, client.get(ref, timeout, return_exceptions=self._return_exceptions)) if self._with_results else ref


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def _ref_type() -> type:
    from .refs import ObjectRef

    return ObjectRef
