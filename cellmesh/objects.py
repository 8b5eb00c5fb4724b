"""`get` and `put`, which notebooks call most, so that a call costs little more than what it is for. `get` of a ref of
the running session is all in C; the rest of it is here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .objstore._core import make_get
from .refs import ObjectRef
from .session.current import current, process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .groups.ref_group import RefGroup
    from .typed import T0, T1, T2, K, ListOf, Nested

T = TypeVar("T")


@overload
def get(refs: ObjectRef[T], timeout: float | None = None, *, readonly: bool = False) -> T: ...
@overload
def get(refs: RefGroup[T], timeout: float | None = None, *, readonly: bool = False) -> list[T]: ...  # pyright: ignore[reportOverlappingOverload] (a RefGroup is a tuple too, and comes first)
@overload
def get(  # pyright: ignore[reportOverlappingOverload] (likewise: it comes before tuples)
    refs: RefGroup[T], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> list[T | BaseException]: ...
@overload
def get(
    refs: tuple[ObjectRef[T0], ObjectRef[T1]], timeout: float | None = None, *, readonly: bool = False
) -> tuple[T0, T1]: ...
@overload
def get(
    refs: tuple[ObjectRef[T0], ObjectRef[T1], ObjectRef[T2]], timeout: float | None = None, *, readonly: bool = False
) -> tuple[T0, T1, T2]: ...
@overload
def get(refs: tuple[ObjectRef[T], ...], timeout: float | None = None, *, readonly: bool = False) -> tuple[T, ...]: ...
@overload
def get(refs: ListOf[ObjectRef[T]], timeout: float | None = None, *, readonly: bool = False) -> list[T]: ...
@overload
def get(refs: Sequence[ObjectRef[T]], timeout: float | None = None, *, readonly: bool = False) -> Sequence[T]: ...
@overload
def get(refs: Mapping[K, ObjectRef[T]], timeout: float | None = None, *, readonly: bool = False) -> dict[K, T]: ...
@overload
def get(
    refs: Mapping[K, Sequence[ObjectRef[T]]], timeout: float | None = None, *, readonly: bool = False
) -> dict[K, list[T]]: ...
@overload
def get(
    refs: Sequence[Sequence[ObjectRef[T]]], timeout: float | None = None, *, readonly: bool = False
) -> list[list[T]]: ...
@overload
def get(
    refs: ObjectRef[T], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> T | BaseException: ...
@overload
def get(
    refs: tuple[ObjectRef[T], ...], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> tuple[T | BaseException, ...]: ...
@overload
def get(
    refs: ListOf[ObjectRef[T]], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> list[T | BaseException]: ...
@overload
def get(
    refs: Sequence[ObjectRef[T]], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> Sequence[T | BaseException]: ...
@overload
def get(
    refs: Mapping[K, ObjectRef[T]], timeout: float | None = None, *, return_exceptions: bool, readonly: bool = False
) -> dict[K, T | BaseException]: ...
@overload
def get(
    refs: Nested, timeout: float | None = None, *, return_exceptions: bool = False, readonly: bool = False
) -> Any: ...


def get(refs: Any, timeout: float | None = None, *, return_exceptions: bool = False, readonly: bool = False) -> Any:
    """The value of a ref, or the values of the refs in a container; waits for what is not there yet.

    Parameters
    ----------
    refs : ObjectRef, list, tuple or dict
        A container of refs, or of containers of them: the same comes back, with values in place of refs.
    timeout : float, seconds, >= 0, optional
        How long to wait, for all together; 0 only looks.
    return_exceptions : bool
        Whether errors of tasks are returned in place of their values, when all tasks have ended, as by
        `asyncio.gather`.
    readonly : bool
        Whether numpy arrays, and what consists of them, are read-only views that all readers share.

    Returns
    -------
    The value. It is the caller's: what is written to its arrays, data frames or models nobody else sees, and the stored
    value stays as it is. Large ones are not copied; writing copies the page of memory that is written to. Arrow and
    polars data, which nobody changes, lie in the object store.

    Raises
    ------
    TaskError
        A task raised; also an instance of that exception's class. A container raises at its first failure, without
        waiting for the rest.
    GetTimeoutError
        The time is up.
    CellmeshError
        What else can become of a task; see `cellmesh.exceptions`.
    TypeError
        Something in `refs` is no ref, or is a set.
    """
    client = current().client
    if type(refs) is ObjectRef:  # of a session that has ended
        return client.get(refs, timeout, return_exceptions=return_exceptions, readonly=readonly)
    from .groups.ref_group import RefGroup, values_of

    if type(refs) is RefGroup:
        return values_of(refs, timeout, return_exceptions, readonly)
    from .tasks.containers import filled, refs_of

    values = client.get(
        refs_of(refs, "get", ordered=True), timeout, return_exceptions=return_exceptions, readonly=readonly
    )
    return filled(refs, iter(values))


if not TYPE_CHECKING:
    get = make_get(
        get, f"get(refs, timeout=None, *, return_exceptions=False, readonly=False)\n--\n\n{inspect.getdoc(get)}"
    )


def put(value: T) -> ObjectRef[T]:
    """Store a value once, for any number of tasks; returns its ref.

    Raises
    ------
    TypeError
        The value is a ref, or cannot be pickled.
    ObjectStoreFullError
        It does not fit.
    """
    client = (process.session or current()).client
    if type(value) is ObjectRef:
        raise TypeError(
            "put() stores values, and this is an ObjectRef already: pass it on as it is; to store a ref as "
            "a value, put it into a list, put([ref])"
        )
    return client.put(value)
