"""`get`, which notebooks call most: in C where it is a matter of a ref of the running session, in Python otherwise."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .objstore._core import make_get
from .session import current

if TYPE_CHECKING:
    from .refs import ObjectRef


def get(refs: ObjectRef | list[ObjectRef], timeout: float | None = None) -> Any:
    """The value of a ref, or the list of values of a list of refs; waits for what is not there yet.

    Parameters
    ----------
    refs : ObjectRef or list of ObjectRef
    timeout : float, seconds, >= 0, optional
        How long to wait; 0 only looks.

    Returns
    -------
    The value. numpy arrays, Arrow and pandas data lie in the object store, read-only, without a copy.

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
