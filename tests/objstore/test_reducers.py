"""Data of pandas and polars through a store: equal, of the same types, and on `get` where it lies in the store."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from cellmesh.objstore import Store, serialization

pytestmark = [
    pytest.mark.may_keep("descriptors", "polars keeps an event loop"),
    pytest.mark.may_keep("threads", "polars keeps its threads"),
]

N = 20_000


def out_of_band(value: Any) -> int:
    return sum(memoryview(buffer).nbytes for buffer in serialization.pickle(value)[1])


# ---------------------------------------------------------------- numpy and pandas
@pytest.mark.parametrize(
    "dtype",
    [
        "M8[ns]",
        "m8[25s]",
        ">M8[D]",
        [("when", "M8[s]"), ("what", "f8")],
        np.dtype([("deep", [("took", "m8[ms]", 3)]), ("flag", "?")], align=True),
    ],
    ids=str,
)
def test_arrays_of_times_inside_other_objects_are_views(store: Store, dtype: Any) -> None:
    bits = np.arange(N * np.dtype(dtype).itemsize // 8).view(dtype).reshape(100, -1)
    bits.reshape(-1).view("V8")[0] = np.datetime64("NaT").tobytes()
    for array in (bits, bits.T, bits[::2], bits[:0], bits[0, 0, ...]):
        ref = store.put(Holder(array, array))
        first, second = store.get([ref, ref], readonly=True)
        assert first.one is first.two and first.one.dtype == array.dtype and first.one.shape == array.shape
        assert repr(first.one.tolist()) == repr(array.tolist())
        contiguous = array.flags.c_contiguous or array.flags.f_contiguous
        assert np.shares_memory(first.one, second.one) == (contiguous and array.nbytes > 256)


class Holder:
    def __init__(self, one: Any, two: Any) -> None:
        self.one, self.two = one, two


def test_a_pandas_frame_with_dates_is_a_view(store: Store) -> None:
    import pandas as pd

    when = pd.date_range("2024-01-01", periods=N, freq="min")
    columns = {"when": when, "zone": when.tz_localize("UTC"), "took": when - when[0], "x": np.arange(N)}
    frame = pd.DataFrame(columns, index=when)
    ref = store.put(frame)
    first, second = store.get([ref, ref], readonly=True)
    pd.testing.assert_frame_equal(first, frame)
    for name in frame:
        assert np.shares_memory(np.asarray(first[name].array._ndarray), np.asarray(second[name].array._ndarray)), name
    assert np.shares_memory(first.index.asi8, second.index.asi8)


# ---------------------------------------------------------------- polars
def polars_frame() -> Any:
    import polars as pl

    day, now = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)
    columns = {
        "int": [1, None], "float": [0.5, float("nan")], "bool": [True, None],
        "text": ["a text of more than twelve", None],
        "bytes": [b"\0\xff" * 20, b""], "date": [day, None], "time": [dt.time(1, 2, 3), None],
        "took": [dt.timedelta(1), None],
        "none": [None, None], "list": [[1, 2], None], "texts": [["a", "longer than twelve letters"], []],
        "struct": [{"a": 1, "b": "x"}, {"a": None, "b": None}], "decimal": [Decimal("1.25"), None],
    }  # fmt: skip
    frame = pl.DataFrame({name: values * (N // 2) for name, values in columns.items()}).with_columns(
        pl.Series("zone", [now, None] * (N // 2), dtype=pl.Datetime("ms", "Europe/Berlin")),
        pl.Series("category", ["x", "y"] * (N // 2), dtype=pl.Categorical),
        pl.Series("enum", ["low", "high"] * (N // 2), dtype=pl.Enum(["low", "middle", "high"])),
        pl.Series("array", [[1, 2], [3, 4]] * (N // 2), dtype=pl.Array(pl.Int16, 2)),
    )
    return frame.with_columns(
        rank=pl.int_range(N).sort(descending=True), small=pl.int_range(N).cast(pl.UInt8, strict=False)
    )


def addresses(frame: Any) -> list[int]:
    """Of what lies under it, but for bits, and numbers of categories, which polars copies in any case."""
    import polars as pl

    table = frame.drop("category", "enum", strict=False).to_arrow(compat_level=pl.CompatLevel.newest())
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return [
        buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer is not None and buffer.size > N // 4
    ]


def test_polars_frames_are_views_of_the_same_types(store: Store) -> None:
    import polars as pl
    from polars.testing import assert_frame_equal

    frame = polars_frame()
    whole, parts = frame, pl.concat([frame, frame.reverse()], rechunk=False)
    for value in (whole, parts, frame.select("text"), frame.select("enum")):
        ref = store.put(value)
        first, second = store.get([ref, ref], readonly=True)
        assert_frame_equal(first, value, categorical_as_str=False)
        assert first.schema == value.schema and first.n_chunks() == value.n_chunks() and first.flags == value.flags
        assert addresses(first) == addresses(second) and (addresses(first) or value.columns == ["enum"])
        changed = first.with_columns(pl.lit(1).alias(first.columns[0]))  # and what is made of it touches nothing
        assert not changed.equals(first) and store.get(ref).equals(value)


def test_polars_series_are_views_of_the_same_type(store: Store) -> None:
    from polars.testing import assert_series_equal

    for series in polars_frame():
        ref = store.put([series])  # a single object or inside another
        (first,), (second,) = store.get(ref), store.get(ref)
        assert_series_equal(first, series)
        assert first.dtype == series.dtype and first.flags == series.flags
        if series.name not in (
            "bool",
            "none",
            "category",
            "enum",
            "small",
            "texts",
        ):  # small, or texts of lists, too small
            assert addresses(first.to_frame()) == addresses(second.to_frame()) != [], series.name


def test_polars_data_that_arrow_does_not_know_is_pickled(store: Store) -> None:
    import polars as pl

    for dtype in (pl.Int128, pl.List(pl.Int128), pl.Struct({"a": pl.Int128})):
        frame = pl.DataFrame({"a": pl.Series([2**100] * N, dtype=pl.Int128)})
        frame = frame.select(
            pl.col("a").implode() if dtype == pl.List else pl.struct("a") if dtype == pl.Struct else "a"
        )
        assert frame.dtypes == [dtype] and out_of_band(frame) == 0
        assert store.get(store.put(frame)).equals(frame)
    with pytest.raises(Exception, match=r"(?i)object"):
        store.put(pl.DataFrame({"a": pl.Series([object()] * N, dtype=pl.Object)}))
    for empty in (pl.DataFrame(), pl.DataFrame({"a": []}), pl.DataFrame(height=N), pl.Series("x", [])):
        assert type(store.get(store.put(empty))) is type(empty) and store.get(store.put(empty)).equals(empty)


def test_a_part_of_a_polars_frame_is_stored_alone(store: Store) -> None:
    import polars as pl

    numbers = range(N * 10)
    frame = pl.DataFrame({"n": numbers, "text": [f"a text longer than twelve letters {i}" for i in numbers]})
    part_of_one = frame.select("n").slice(5, N)
    for part in (frame.slice(5, 3), frame.slice(5, N), frame.filter(pl.col("n") % 10 == 0), part_of_one):
        data, buffers = serialization.pickle(part)
        size = len(data) + sum(memoryview(buffer).nbytes for buffer in buffers)
        assert size < 2 * part.estimated_size() + 16 * len(part) + 2000
        assert store.get(store.put(part)).equals(part)
    assert out_of_band(frame) > frame.estimated_size() and out_of_band(part_of_one) > 8 * N


def test_no_library_is_imported_to_find_out() -> None:
    code = (
        "import sys; from cellmesh.objstore import serialization\n"
        "before = {'pandas', 'polars', 'pyarrow', 'numpy'} & sys.modules.keys()\n"
        "serialization.unpickle(*serialization.pickle({1, 2}))\n"
        "assert before == {'pandas', 'polars', 'pyarrow', 'numpy'} & sys.modules.keys(), before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_code_keeps_the_name_of_its_file() -> None:
    def outer() -> int:
        return inner()

    def inner() -> int:
        return 1

    copy = serialization.unpickle(*serialization.pickle(outer))
    assert copy is not outer and copy.__code__.co_filename == __file__
    assert copy.__closure__[0].cell_contents.__code__.co_filename == __file__
