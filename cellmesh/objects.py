"""`get` and `put`, which notebooks call most, so that a call costs little more than what it is for. `get` of a ref of the running
session is all in C; the rest of it is here."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .objstore._core import make_get
from .refs import ObjectRef
from .session import current, process


def get(refs: ObjectRef | list[ObjectRef], timeout: float | None = None) -> Any:
    """The value of a ref, or the list of values of a list of refs; waits for what is not there yet.

    Parameters
    ----------
    refs : ObjectRef or list of ObjectRef
    timeout : float, seconds, >= 0, optional
        How long to wait; 0 only looks.

    Returns
    -------
    The value. numpy arrays, Arrow, pandas and polars data lie in the object store, read-only, without a copy.

    Raises
    ------
    TaskError
        A task raised; also an instance of that exception's class. A list raises at its first failure, without waiting
        for the rest.
    GetTimeoutError
        The time is up.
    CellmeshError
        What else can become of a task; see `cellmesh.exceptions`.
    """
    return current().client.get(refs, timeout)


if not TYPE_CHECKING:
    get = make_get(get, f"get(refs, timeout=None)\n--\n\n{inspect.getdoc(get)}")


def put(value: Any) -> ObjectRef:
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
        raise TypeError("put() stores values, and this is an ObjectRef already: pass it on as it is; to store a ref as "
                        "a value, put it into a list, put([ref])")
    return client.put(value)
