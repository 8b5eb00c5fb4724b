"""How data of numpy, Arrow and polars are pickled so that buffers stay out of band, where the library would copy them.

No library is imported to find out whether a value is one of its own.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

PROTOCOL = 5
# An Arrow slice shares its parent's buffers, and pickling it would send all of them. Beyond this factor it is
# compacted.
ARROW_SLACK = 1.5
# A polars frame smaller than this is copied, which costs less than asking Arrow.
SMALL_FRAME = 64 * 1024

Reducers = dict[type, Callable[[Any], Any]]


def of_imported_libraries() -> Reducers:
    """By class, what makes pickle's parts of an instance; for the libraries that this process has imported."""
    return _reducers(*(name in sys.modules for name in ("numpy", "pyarrow", "polars")))


@cache
def _reducers(numpy: bool, pyarrow: bool, polars: bool) -> Reducers:
    reducers: Reducers = {}
    if numpy:
        import numpy as np
        reducers[np.ndarray] = _reduce_array
    if pyarrow:
        import pyarrow as pa
        reducers |= {pa.Table: _reduce_tabular, pa.RecordBatch: _reduce_tabular}
    if polars:
        import polars as pl
        reducers |= {pl.DataFrame: _reduce_frame, pl.Series: _reduce_series}
    return reducers


# ---------------------------------------------------------------- numpy
def _reduce_array(array: Any) -> Any:
    """Times, alone or in structures, as raw bytes and what they are: numpy has no buffers of times, so that it copies the array,
    and twice."""
    if not _has_times(array.dtype) or array.dtype.hasobject:
        return array.__reduce_ex__(PROTOCOL)
    return _view_as, (array.view(f"V{array.dtype.itemsize}"), array.dtype)


def _has_times(dtype: Any) -> bool:
    return dtype.base.kind in "mM" or any(_has_times(field) for field, *_ in (dtype.base.fields or {}).values())


def _view_as(array: Any, dtype: Any) -> Any:
    return array.view(dtype)


# ---------------------------------------------------------------- Arrow
def _reduce_tabular(table: Any) -> Any:
    """Of a slice only its own rows, as an Arrow IPC stream; anything else as Arrow does it itself."""
    if table.get_total_buffer_size() <= ARROW_SLACK * table.nbytes + 4096:
        return table.__reduce__()
    import pyarrow as pa
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return _read_stream, (sink.getvalue(), isinstance(table, pa.RecordBatch))


def _read_stream(buffer: Any, one_batch: bool) -> Any:
    import pyarrow as pa
    with pa.ipc.open_stream(buffer) as reader:
        return reader.read_next_batch() if one_batch else reader.read_all()


# ---------------------------------------------------------------- polars
# What Arrow has too. Others must not even be tried: of Python objects polars gives Arrow their addresses.
_IN_ARROW = frozenset((
    "Boolean", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Decimal",
    "Null", "Date", "Datetime", "Duration", "Time", "String", "Binary", "Categorical", "Enum"))


def _reduce_frame(frame: Any) -> Any:
    table = _as_table(frame)
    return frame.__reduce_ex__(PROTOCOL) if table is None else (_frame_of, (table, _sorted_columns(frame)))


def _reduce_series(series: Any) -> Any:
    frame = series.to_frame()
    table = _as_table(frame)
    return series.__reduce_ex__(PROTOCOL) if table is None else (_series_of, (table, _sorted_columns(frame)))


def _as_table(frame: Any) -> Any:
    """An Arrow table over the same memory; None if the frame would not come back equal, or is better copied."""
    if frame.estimated_size() < SMALL_FRAME or not all(map(_is_in_arrow, frame.dtypes)):
        return None
    import polars as pl
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())  # strings as polars has them
    # Texts are 16 bytes each, which polars does not count, and what they point at: much more than their own in a slice.
    own = frame.estimated_size() + 16 * frame.height * sum(map(_n_texts, frame.dtypes))
    if table.nbytes > ARROW_SLACK * own + 4096 or pl.from_arrow(table.slice(0, 0)).schema != frame.schema:
        return None
    return table


def _is_in_arrow(dtype: Any) -> bool:
    name = type(dtype).__name__
    if name in ("List", "Array"):
        return _is_in_arrow(dtype.inner)
    if name == "Struct":
        return all(_is_in_arrow(field.dtype) for field in dtype.fields)
    return name in _IN_ARROW


def _n_texts(dtype: Any) -> int:
    """In each row; of lists nobody knows."""
    name = type(dtype).__name__
    return sum(_n_texts(field.dtype) for field in dtype.fields) if name == "Struct" else name in ("String", "Binary")


def _sorted_columns(frame: Any) -> list[tuple[str, bool]]:
    """The columns that polars knows to be sorted, and whether they descend: Arrow does not say."""
    flags = frame.flags.items()
    return [(name, of["SORTED_DESC"]) for name, of in flags if of["SORTED_ASC"] or of["SORTED_DESC"]]


def _frame_of(table: Any, sorted_columns: list[tuple[str, bool]]) -> Any:
    import polars as pl
    frame = pl.from_arrow(table, rechunk=False)
    return frame.with_columns(frame[name].set_sorted(descending=descends) for name, descends in sorted_columns)


def _series_of(table: Any, sorted_columns: list[tuple[str, bool]]) -> Any:
    return _frame_of(table, sorted_columns).to_series()
