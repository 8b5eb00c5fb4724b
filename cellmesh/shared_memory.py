"""Arrays that several processes of a machine write: `shared_array` and `shared_arrays`.

The memory is an object like any other, held by refs, with two differences: its bytes are never final, and they stay on
the machine where they were made. An array over it is a plain numpy array; whether one lies in such memory is known by
its address (`objstore/binding/shared/array.c`), so views of it travel as it does.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from .session.current import current, process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    Shape = SupportsIndex | Sequence[SupportsIndex]

MAX_BYTES = 1 << 45  # of one array; as much as a store can have
MAX_DIMENSIONS = 32  # numpy 1 has no more, and numpy 2 has 64


def shared_array(shape: Shape, dtype: DTypeLike = float) -> NDArray[Any]:
    """Make an array that tasks and actors can write to, all in the same memory.

    It is a plain numpy array. Given to a task or an actor, alone or inside another value, returned, put, or captured by
    a function, it arrives as an array over the same memory, as writable as it was, and so do its views (slices,
    transposed, another dtype). Nothing is copied and nothing is ordered: who reads while another writes sees some of
    the old and some of the new. `cellmesh.util.shared_sync` has what is needed to agree.

    The memory is given back when the last array over it, and the last ref to a value with one, is gone, whichever
    process has ended and how. It is never moved to disk, and never leaves the machine.

    Parameters
    ----------
    shape : int or sequence of int
        Each at least 0; at most 32 of them.
    dtype : data-type
        Of numbers, times, texts or bytes of fixed width, or a structure of them.

    Returns
    -------
    numpy.ndarray
        In C order, filled with zeros, beginning at a multiple of 64 bytes. What copies it (`copy`, arithmetic,
        `copy.deepcopy`, a plain `pickle.dumps`) makes an array of its own, which is not shared; so does a subclass of
        `numpy.ndarray` when it is sent.

    Raises
    ------
    TypeError
        The dtype holds Python objects, or texts of any length; the shape is no whole numbers.
    ValueError
        The shape is negative, or the array has more than 2**45 bytes.
    ObjectStoreFullError
        The object store has no room for it.
    SharedArrayError
        Raised later, by what would send it to another machine.

    Examples
    --------
    >>> total = cm.shared_array(10)
    >>> @cm.remote
    ... def fill(part, value):
    ...     part[:] = value
    >>> cm.get([fill.remote(total[:5], 1), fill.remote(total[5:], 2)])
    >>> total.sum()
    15.0
    """
    return _client().shared(_form(shape, dtype, "shared_array"))


def shared_arrays(arrays: Mapping[str, tuple[Shape, DTypeLike]]) -> dict[str, NDArray[Any]]:
    """Make several arrays as `shared_array` does, in one object: they live and are given back together.

    Parameters
    ----------
    arrays : mapping of str to (shape, dtype)

    Returns
    -------
    dict of str to numpy.ndarray
        Each begins at a multiple of 64 bytes.

    Raises
    ------
    TypeError, ValueError, ObjectStoreFullError
        As `shared_array`, and naming the array; or `arrays` is no such mapping.

    Examples
    --------
    >>> replay = cm.shared_arrays({"obs": ((100_000, 4), "float32"), "action": (100_000, "int64")})
    """
    if not hasattr(arrays, "items"):
        raise TypeError(f"shared_arrays() needs a dict of names to (shape, dtype), not {arrays!r}")
    forms: dict[str, tuple[tuple[int, ...], Any]] = {}
    for name, form in arrays.items():
        if not isinstance(form, tuple) or len(form) != 2:
            raise TypeError(f"shared_arrays(): {name!r} needs (shape, dtype), not {form!r}")
        forms[name] = _form(*form, f"shared_arrays(): {name!r}")
    return _client().shared(forms)


def _client() -> Any:
    return (process.session or current()).client


def _form(shape: Any, dtype: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype, checked; `name`: for errors."""
    import numpy as np

    kind = np.dtype(dtype)
    lengths = _lengths(shape, name)
    if kind.subdtype is not None:
        kind, more = kind.subdtype
        lengths += more
    if kind.hasobject or kind.itemsize == 0:
        raise TypeError(
            f"{name}: dtype {kind} cannot be shared, as what it holds lies elsewhere, in the process that made it. "
            "Numbers, times, texts and bytes of fixed width ('U10', 'S10') and structures of them can"
        )
    size = kind.itemsize
    for length in lengths:
        size *= length
    if size > MAX_BYTES:
        raise ValueError(
            f"{name}: shape {lengths} of {kind} is {size:,} bytes, and an array has at most {MAX_BYTES:,} (2**45)"
        )
    return lengths, kind


def _lengths(shape: Any, name: str) -> tuple[int, ...]:
    try:
        items = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        lengths = tuple(operator.index(item) for item in items)
    except TypeError as error:
        raise TypeError(f"{name}: the shape must be a whole number or several, not {shape!r}") from error
    if any(length < 0 for length in lengths) or len(lengths) > MAX_DIMENSIONS:
        raise ValueError(
            f"{name}: shape {lengths}: each length must be at least 0, and there can be at most {MAX_DIMENSIONS}"
        )
    return lengths
