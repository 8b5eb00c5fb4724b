"""How data of numpy, Arrow and polars are pickled so that buffers stay out of band, where the library would copy them;
figures, so that they are shown once; and code (`code_pickles`).

No library is imported to find out whether a value is one of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any

from . import code_pickles, own_pickles
from ._core import shared_place, shared_view
from .code_pickles import PROTOCOL

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa

# An Arrow slice shares its parent's buffers, and pickling it would send all of them. Beyond this factor it is
# compacted.
ARROW_SLACK = 1.5
# A polars frame smaller than this is copied, which costs less than asking Arrow.
SMALL_FRAME = 64 * 1024

Reducers = dict[type, Callable[[Any], Any]]


def of_imported_libraries() -> Reducers:
    """By class, what makes pickle's parts of an instance; for the libraries that this process has imported."""
    return _reducers(*(name in sys.modules for name in ("numpy", "pyarrow", "polars", "matplotlib.figure")))


@cache
def _reducers(numpy: bool, pyarrow: bool, polars: bool, matplotlib: bool) -> Reducers:
    reducers: Reducers = {**code_pickles.REDUCERS}
    if numpy:
        import numpy as np

        reducers[np.ndarray] = _reduce_array
    if pyarrow:
        import pyarrow as pa

        reducers |= {pa.Table: _reduce_tabular, pa.RecordBatch: _reduce_tabular}
    if polars:
        import polars as pl

        reducers |= {pl.DataFrame: _reduce_frame, pl.Series: _reduce_series}
    if matplotlib:
        from matplotlib.figure import Figure

        reducers[Figure] = _reduce_figure
    return reducers


def of_subclass(cls: type) -> Callable[[Any], Any] | None:
    """Likewise, for a class of which users' programs have subclasses; None if it is none of them."""
    managers = sys.modules.get("multiprocessing.managers")
    if managers is not None and issubclass(cls, managers.BaseProxy):
        return _reduce_proxy
    return code_pickles.of_subclass(cls)


# ---------------------------------------------------------------- multiprocessing
def _reduce_proxy(proxy: Any) -> Any:
    """With its key, as for a process that multiprocessing has started: others are not let in by its manager."""
    from multiprocessing import current_process

    rebuild, arguments, *rest = proxy.__reduce__()
    if rebuild is not _rebuilder() or own_pickles.making.for_others:  # the user's own; or perhaps for a file
        return rebuild, arguments, *rest
    *parts, settings = arguments
    return _rebuild_proxy, (bytes(current_process().authkey), *parts, {**settings, "authkey": bytes(proxy._authkey)})


def _rebuild_proxy(key: bytes, *arguments: Any) -> Any:
    from multiprocessing import current_process

    if own_pickles.in_worker:  # for the proxies that this one gives
        current_process().authkey = key
    return _rebuilder()(*arguments)


def _rebuilder() -> Callable[..., Any]:
    from multiprocessing import managers

    return vars(managers)["RebuildProxy"]  # of which the types of the standard library know nothing


# ---------------------------------------------------------------- numpy
def _reduce_array(array: np.ndarray[Any, Any]) -> Any:
    """Where it lies, in shared memory. Times, alone or in structures, as raw bytes and what they are: numpy has no
    buffers of times, so that it copies the array, and twice."""
    if (shared := shared_place(array)) is not None:
        return shared_view, (*shared, array.shape, array.strides, array.dtype, array.flags.writeable)
    if _has_times(array.dtype) and not array.dtype.hasobject:
        return _view_as, (array.view(f"V{array.dtype.itemsize}"), array.dtype)
    function, arguments, *rest = array.__reduce_ex__(PROTOCOL)
    if array.flags.writeable or not isinstance(arguments[0], PickleBuffer):
        return function, arguments, *rest
    return _writable, (function, *arguments)


def _writable(function: Callable[..., Any], buffer: Any, *arguments: Any) -> Any:
    """An array that was read-only where it came from is its reader's own here, as any other."""
    memory = memoryview(buffer).obj  # pickle has made a read-only view of it
    return function(bytearray(memory) if isinstance(memory, bytes) else memory, *arguments)


def _has_times(dtype: np.dtype[Any]) -> bool:
    return dtype.base.kind in "mM" or any(_has_times(field) for field, *_ in (dtype.base.fields or {}).values())


def _view_as(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return array.view(dtype)


# ---------------------------------------------------------------- Arrow
def is_immutable_memory(owner: object) -> bool:
    """Whether it is Arrow's, which nobody writes to, though Arrow tells pickle that some of it could be."""
    return type(owner).__module__ == "pyarrow.lib"


def _reduce_tabular(table: pa.Table | pa.RecordBatch) -> Any:
    """Of a slice only its own rows, as an Arrow IPC stream; anything else as Arrow does it itself."""
    if table.get_total_buffer_size() <= ARROW_SLACK * table.nbytes + 4096:
        return table.__reduce__()
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return _read_stream, (sink.getvalue(), isinstance(table, pa.RecordBatch))


def _read_stream(buffer: pa.Buffer | bytes, one_batch: bool) -> pa.Table | pa.RecordBatch:
    import pyarrow as pa

    with pa.ipc.open_stream(buffer) as reader:
        return reader.read_next_batch() if one_batch else reader.read_all()


# ---------------------------------------------------------------- polars
# What Arrow has too. Others must not even be tried: of Python objects polars gives Arrow their addresses.
_IN_ARROW = frozenset(
    (
        "Boolean",
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Float32",
        "Float64",
        "Decimal",
        "Null",
        "Date",
        "Datetime",
        "Duration",
        "Time",
        "String",
        "Binary",
        "Categorical",
        "Enum",
    )
)


def _reduce_frame(frame: pl.DataFrame) -> Any:
    table = _as_table(frame)
    return frame.__reduce_ex__(PROTOCOL) if table is None else (_frame_of, (table, _sorted_columns(frame)))


def _reduce_series(series: pl.Series) -> Any:
    frame = series.to_frame()
    table = _as_table(frame)
    return series.__reduce_ex__(PROTOCOL) if table is None else (_series_of, (table, _sorted_columns(frame)))


def _as_table(frame: pl.DataFrame) -> pa.Table | None:
    """An Arrow table over the same memory; None if the frame would not come back equal, or is better copied."""
    if frame.estimated_size() < SMALL_FRAME or not all(map(_is_in_arrow, frame.dtypes)):
        return None
    import polars as pl

    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())  # strings as polars has them
    # Texts are 16 bytes each, which polars does not count, and what they point at: much more than their own in a slice.
    own = frame.estimated_size() + 16 * frame.height * sum(map(_n_texts, frame.dtypes))
    if table.nbytes > ARROW_SLACK * own + 4096 or _frame_over(table.slice(0, 0)).schema != frame.schema:
        return None
    return table


def _frame_over(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)  # a series comes of an array alone
    return frame


def _is_in_arrow(dtype: Any) -> bool:
    name = type(dtype).__name__
    if name in ("List", "Array"):
        return _is_in_arrow(dtype.inner)
    if name == "Struct":
        return all(_is_in_arrow(field.dtype) for field in dtype.fields)
    return name in _IN_ARROW


def _n_texts(dtype: Any) -> int:
    """How many texts each row has; for lists it is not known, and they count as none."""
    name = type(dtype).__name__
    return sum(_n_texts(field.dtype) for field in dtype.fields) if name == "Struct" else name in ("String", "Binary")


def _sorted_columns(frame: pl.DataFrame) -> list[tuple[str, bool]]:
    """The columns that polars knows to be sorted, and whether they descend: Arrow does not say."""
    flags = frame.flags.items()
    return [(name, of["SORTED_DESC"]) for name, of in flags if of["SORTED_ASC"] or of["SORTED_DESC"]]


def _frame_of(table: pa.Table, sorted_columns: list[tuple[str, bool]]) -> pl.DataFrame:
    frame = _frame_over(table)
    return frame.with_columns(frame[name].set_sorted(descending=descends) for name, descends in sorted_columns)


def _series_of(table: pa.Table, sorted_columns: list[tuple[str, bool]]) -> pl.Series:
    return _frame_of(table, sorted_columns).to_series()


# ---------------------------------------------------------------- matplotlib
def _reduce_figure(figure: Any) -> Any:
    """As matplotlib does it, but for where it arrives."""
    function, args, state, *_ = figure.__reduce_ex__(PROTOCOL)
    return function, args, state, None, None, _set_figure_state


def _set_figure_state(figure: Any, state: dict[str, Any] | tuple[Any, ...]) -> None:
    """A figure that pyplot knew is one that pyplot knows again, unless pyplot shows all it knows at the end of each
    cell: that would be beside the display of the value."""
    import matplotlib

    if isinstance(state, dict) and "inline" in str(dict[Any, Any].get(matplotlib.rcParams, "backend", "")):
        state = {name: value for name, value in state.items() if name != "_restore_to_pylab"}
    figure.__setstate__(state)
