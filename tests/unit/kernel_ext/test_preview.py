"""Summaries of values: what they say, that they are small, and that no value breaks them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.cards import preview
from cellmesh.kernel_ext.cards.preview import summarize
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def size_of(value: Any) -> int:
    """Bytes of text and data in a summary; fails on anything that is not a plain value."""
    if isinstance(value, dict):
        return sum(size_of(k) + size_of(v) for k, v in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value))
    assert type(value) in (str, bytes, int, float, bool, type(None)), type(value)
    return len(value) if isinstance(value, (str, bytes)) else 8


def pixels_of(data: bytes) -> np.ndarray:
    """The pixels of a PNG as `preview.png` writes them."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)
    return lines[:, 1:].reshape(height, width, 3)


def test_an_array_has_shape_type_statistics_and_a_histogram() -> None:
    array = np.linspace(0, 10, 1001)
    array[3] = np.nan
    summary = summarize(array)
    assert summary["type"] == "numpy.ndarray" and summary["shape"] == [1001] and summary["dtype"] == "float64"
    mean = pytest.approx(5.005, abs=0.01)
    assert summary["stats"] == {"nan": 1, "sampled": False, "min": 0.0, "max": 10.0, "mean": mean}
    counts, low, high = summary["histogram"]
    assert sum(counts) == 1000 and (low, high) == (0.0, 10.0)
    assert summary["text"].startswith("[0.") and summary["text"].endswith("…")


def test_a_large_array_is_sampled_and_its_summary_is_small() -> None:
    array = np.arange(30_000_000, dtype=np.int32)
    summary = summarize(array)
    assert summary["stats"]["sampled"] and summary["nbytes"] == array.nbytes
    assert summary["stats"]["mean"] == pytest.approx(15e6, rel=1e-3)
    assert size_of(summary) < 5_000


def test_an_image_has_a_thumbnail() -> None:
    image = np.zeros((400, 300, 3), np.uint8)
    image[:200, :, 0] = 255
    pixels = pixels_of(summarize(image)["image"])
    assert max(pixels.shape[:2]) <= preview.THUMBNAIL_PIXELS
    assert pixels[0, 0].tolist() == [255, 0, 0] and pixels[-1, -1].tolist() == [0, 0, 0]


def test_a_matrix_is_shown_as_a_picture_from_dark_to_light() -> None:
    pixels = pixels_of(summarize(np.add.outer(np.arange(64.0), np.arange(64.0)))["image"])
    assert pixels[0, 0].tolist() == [68, 1, 84] and pixels[-1, -1].tolist() == [253, 231, 37]


def test_a_constant_matrix_and_one_of_nans_do_no_harm() -> None:
    assert summarize(np.ones((32, 32)))["image"]
    assert "image" not in summarize(np.full((32, 32), np.nan))
    assert summarize(np.full(100, np.inf))["stats"] == {"nan": 0, "sampled": False}


@pytest.mark.parametrize("step", [0, 1, 255])
def test_numbers_that_are_large_and_differ_little_have_a_histogram(step: int) -> None:
    times = 1_700_000_000_000_000_000 + step * np.arange(100)
    counts, low, high = summarize(times)["histogram"]
    assert sum(counts) == 100 and (low, high) == (float(times[0]), float(times[-1]))
    tiny = summarize(np.array([0.0, 5e-324] * 50))["histogram"][0]
    assert tiny[0] == tiny[-1] == 50


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        dtype=st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes()),
        shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=20),
    )
)
def test_every_array_has_a_small_summary(array: np.ndarray) -> None:
    summary = summarize(array)
    assert summary["shape"] == list(array.shape) and not summary["text"].startswith("no preview")
    assert size_of(summary) < 10_000


def test_a_frame_has_its_first_rows_types_and_nulls() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(100), "b": [None if i % 10 else "x" * 500 for i in range(100)]})
    summary = summarize(frame)
    table = summary["table"]
    assert summary["type"] == "pandas.DataFrame" and summary["shape"] == [100, 2]
    assert table["columns"] == ["a", "b"] and table["nulls"] == [0, 90] and len(table["rows"]) == preview.TABLE_ROWS
    assert len(table["rows"][0][1]) == preview.CELL_CHARS and table["rows"][1][0] == "1"
    wide = summarize(pandas.DataFrame(np.zeros((3, 500))))
    assert len(wide["table"]["columns"]) == preview.TABLE_COLUMNS and wide["table"]["n_columns"] == 500
    series = summarize(pandas.Series([1.5, 2.5], name="s"))
    assert series["dtype"] == "float64" and series["table"]["columns"] == ["s"]


def test_a_polars_frame_is_a_table_too() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"n": [1, None, 3] * 100, "words": ["x" * 500, "b", None] * 100, "lists": [[1, 2], [], [3]] * 100}
    )
    summary = summarize(frame)
    table = summary["table"]
    assert summary["type"] == "polars.DataFrame" and summary["shape"] == [300, 3] and summary["nbytes"] > 0
    assert table["columns"] == ["n", "words", "lists"] and table["types"] == ["Int64", "String", "List(Int64)"]
    assert table["rows"][0] == ["1", "x" * 39 + "…", "[1, 2]"] and len(table["rows"]) == 6
    assert table["nulls"] == [100, 100, 0] and table["n_rows"] == 300
    assert len(summarize(polars.DataFrame(np.zeros((3, 500))))["table"]["columns"]) == 12
    series = summarize(polars.Series("s", [1.5, 2.5]))
    assert series["shape"] == [2] and series["dtype"] == "Float64" and series["table"]["rows"] == [["1.5"], ["2.5"]]
    lazy = summarize(frame.lazy().filter(polars.col("n") > 1))
    assert lazy == {"type": "polars.LazyFrame", "text": "a query that has not been computed"}


def test_an_arrow_table_has_its_schema() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = summarize(pyarrow.table({"n": [1, None, 3], "s": ["a", "b", None]}))["table"]
    assert table["types"] == ["int64", "string"] and table["nulls"] == [1, 1]
    assert table["rows"] == [["1", "a"], ["None", "b"], ["3", "None"]]


@pytest.mark.parametrize(
    "value, type_, text",
    [
        (5, "int", "5"),
        (None, "NoneType", "None"),
        ("ab", "str", "'ab'"),
        ({"a": 1}, "dict", "{'a': 1}"),
        (np.float32(0.5), "numpy.float32", "np.float32(0.5)"),
        ([np.zeros((9, 9))], "list", "[<ndarray (9, 9) float64>]"),
    ],
)
def test_small_values_are_shown_whole(value: object, type_: str, text: str) -> None:
    summary = summarize(value)
    assert (summary["type"], summary["text"]) == (type_, text)


def test_large_containers_are_cut() -> None:
    for value in (list(range(10**6)), {i: "x" * 10_000 for i in range(1000)}, "é" * 10**6, b"\0" * 10**6, 7**5000):
        summary = summarize(value)
        assert len(summary["text"]) <= preview.TEXT_CHARS + 1 and size_of(summary) < 3_000
    assert summarize("x" * 50)["length"] == 50


def test_what_draws_itself_is_drawn() -> None:
    picture = preview.png(np.zeros((4, 4, 3), np.uint8))

    class Drawn:
        def _repr_png_(self) -> bytes:
            return picture

    class Liar:
        def _repr_png_(self) -> bytes:
            return b"<script>"

    assert summarize(Drawn())["image"] == picture
    assert "image" not in summarize(Liar())


@pytest.mark.may_keep("descriptors", "matplotlib keeps its fonts open")
def test_a_figure_is_drawn() -> None:
    figure = pytest.importorskip("matplotlib.figure")
    drawn = figure.Figure(figsize=(4, 3))
    drawn.add_subplot().plot([1, 2, 3])
    assert summarize(drawn)["image"].startswith(b"\x89PNG")


def test_a_hostile_value_is_no_error() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("<b>no</b>")

        def __len__(self) -> int:
            return -1  # noqa: PLE0303  (so hostile is it)

    summary = summarize(Hostile())
    assert summary["type"].endswith("Hostile") and size_of(summary) < 1000


@pytest.mark.parametrize(
    "html, shown", [("<b>x</b>", "<b>x</b>"), (("<i>", {}), "<i>"), (None, None), ("x" * 100_000, None)]
)
def test_what_shows_itself_as_html(html: object, shown: str | None) -> None:
    class Shows:
        def _repr_html_(self) -> object:
            return html

    assert summarize(Shows()).get("html") == shown


def test_html_that_fails_is_no_error() -> None:
    class Fails:
        def _repr_html_(self) -> str:
            raise RuntimeError("not now")

    assert "RuntimeError: not now" in summarize(Fails())["text"]
