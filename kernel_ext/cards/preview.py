"""A small summary of a value, computed in a worker where the value lies, so that looking at 10 GB moves kilobytes.

`summarize` is what the hidden task runs. It imports nothing but numpy: a type whose library has not been imported
cannot be the value's type. Every part has a limit; what a value's own methods raise is part of the summary, not an
error.
"""

from __future__ import annotations

import itertools
import math
import reprlib
import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np

SAMPLE_ITEMS = 1_000_000  # statistics of larger arrays come from a regular sample
TEXT_CHARS = 2_000
CELL_CHARS = 40
TABLE_ROWS = 6
TABLE_COLUMNS = 12
HEAD_ITEMS = 6
THUMBNAIL_PIXELS = 128
IMAGE_BYTES = 60_000
HTML_CHARS = 60_000
HISTOGRAM_BINS = 24

# viridis at nine equidistant places: light and dark readers, and colour-blind ones, see the same order
_COLOURS = np.array(
    [
        [68, 1, 84],
        [72, 40, 120],
        [62, 74, 137],
        [49, 104, 142],
        [38, 130, 142],
        [31, 158, 137],
        [53, 183, 121],
        [109, 205, 89],
        [253, 231, 37],
    ],
    float,
)


def summarize(value: object) -> dict[str, Any]:
    """What a card shows of a value.

    Returns
    -------
    dict
        Always ``type``, a dotted name. Where they apply: ``shape``, ``dtype``, ``length``, ``nbytes``; ``stats`` (min,
        max, mean, nan; ``sampled`` if not of all items); ``histogram`` ([counts], low, high); ``text``; ``table``
        (columns, types, rows, n_rows, n_columns, nulls); ``image`` (PNG); ``html``. Values are builtin scalars, lists,
        str and bytes.
    """
    summary: dict[str, Any] = {"type": type_name(value)}
    try:
        summary.update(_summary_of(value))
    except Exception as error:  # a value's own code: its repr, its __len__
        summary["text"] = f"no preview: {type(error).__name__}: {_cut(str(error), 200)}"
    return summary


def type_name(value: object) -> str:
    """The type as people write it: builtins without their module, well-known libraries by their public name."""
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else kind.__module__.split(".")[0] + "."
    return module + kind.__qualname__


def _summary_of(value: Any) -> dict[str, Any]:
    library = type(value).__module__.split(".")[0]
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        return of_array(value)
    if library == "torch" and hasattr(value, "detach"):
        return _of_tensor(value)
    if library == "pandas" and name == "DataFrame":
        return _of_frame(value)
    if library == "pandas" and name == "Series":
        return {
            **_of_frame(value.to_frame(value.name if value.name is not None else "value")),
            "shape": [len(value)],
            "dtype": str(value.dtype),
        }
    if library == "pyarrow" and name in ("Table", "RecordBatch"):
        return _of_arrow(value)
    if library == "polars" and name == "DataFrame":
        return _of_polars(value)
    if library == "polars" and name == "Series":
        return {**_of_polars(value.to_frame()), "shape": [len(value)], "dtype": str(value.dtype)}
    if library == "polars" and name == "LazyFrame":
        return {"text": "a query that has not been computed"}  # its HTML would plan it, and draw that
    if isinstance(value, np.generic):
        return {"dtype": str(value.dtype), "text": repr(value)}
    if picture := _picture_of(value, library, name):
        return picture
    summary: dict[str, Any] = {"text": short_repr(value)}
    if html := _html_of(value):
        summary["html"] = html
    if isinstance(value, (str, bytes, bytearray, list, tuple, dict, set, frozenset)):
        summary["length"] = len(value)
    return summary


# ---- arrays


def of_array(array: np.ndarray) -> dict[str, Any]:
    """Shape, type, statistics, first items; a thumbnail if it could be an image, a histogram otherwise."""
    summary: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "nbytes": int(array.nbytes),
        "text": _head_of(array),
    }
    if array.dtype.kind not in "biuf" or not array.size:
        return summary
    items, sampled = _sample(array)
    numbers = items.astype(float)
    finite = numbers[np.isfinite(numbers)]
    summary["stats"] = {"nan": int(np.isnan(numbers).sum()), "sampled": sampled}
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        summary["stats"].update(min=low, max=high, mean=float(finite.mean()))
        if image := _thumbnail(array):
            summary["image"] = image
            if array.ndim > 2:  # numbers say nothing that colours do not say better
                summary["text"] = ""
        elif len(finite) > HISTOGRAM_BINS and math.isfinite(high - low):
            # By their places between both ends: between large numbers that differ little, as times, fit no bins.
            places = (finite - low) / (high - low) if high > low else np.full(len(finite), 0.5)
            counts, _ = np.histogram(places, HISTOGRAM_BINS, (0.0, 1.0))
            summary["histogram"] = [counts.tolist(), low, high]
    return summary


def _sample(array: np.ndarray) -> tuple[np.ndarray, bool]:
    """At most SAMPLE_ITEMS items, spread over the array; contiguous arrays are not copied for it."""
    if array.size <= SAMPLE_ITEMS:
        return array.reshape(-1), False
    if array.flags.c_contiguous or array.flags.f_contiguous:
        flat = array.ravel(order="K")
        return flat[:: -(-array.size // SAMPLE_ITEMS)], True
    thin = [slice(None, None, max(1, math.ceil(n / SAMPLE_ITEMS ** (1 / array.ndim)))) for n in array.shape]
    return array[tuple(thin)].reshape(-1)[:SAMPLE_ITEMS], True


def _head_of(array: np.ndarray) -> str:
    # A corner of the inner two dimensions, the first two of the outer ones.
    corner = array[tuple(slice(0, HEAD_ITEMS if i >= array.ndim - 2 else 2) for i in range(array.ndim))]
    with np.printoptions(precision=4, edgeitems=3, threshold=HEAD_ITEMS * HEAD_ITEMS, linewidth=100, suppress=True):
        text = np.array2string(corner, separator=", ")
    if corner.shape != array.shape:
        text += " …"
    return _cut(text, TEXT_CHARS)


def _thumbnail(array: np.ndarray) -> bytes | None:
    """A PNG of an array that could be an image: two large dimensions of similar length, perhaps 3 or 4 channels."""
    is_colour = array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype.kind in "uf"
    if array.ndim != 2 and not is_colour:
        return None
    height, width = array.shape[:2]
    if min(height, width) < 16 or max(height, width) > 16 * min(height, width):
        return None
    step = max(1, math.ceil(max(height, width) / THUMBNAIL_PIXELS))
    pixels = np.array(array[::step, ::step], float)
    finite = np.isfinite(pixels)
    if is_colour:
        whole = 255.0 if array.dtype == np.uint8 or pixels[finite].max(initial=0) > 1 else 1.0
        colours = np.clip(np.where(finite, pixels, 0)[:, :, :3] / whole, 0, 1) * 255
    else:
        low, high = pixels[finite].min(initial=np.inf), pixels[finite].max(initial=-np.inf)
        place = np.clip((np.where(finite, pixels, low) - low) / ((high - low) or 1), 0, 1) * (len(_COLOURS) - 1)
        floor = np.minimum(place.astype(int), len(_COLOURS) - 2)
        colours = _COLOURS[floor] + (place - floor)[:, :, None] * (_COLOURS[floor + 1] - _COLOURS[floor])
    return png(colours.astype(np.uint8))


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of an (height, width, 3) array of uint8. No imaging library is needed for so little."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each line begins with its filter type, 0: none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
        + chunk(b"IEND", b"")
    )


def _of_tensor(tensor: Any) -> dict[str, Any]:
    facts = {"shape": list(tensor.shape), "dtype": str(tensor.dtype)}
    if tensor.device.type != "cpu":
        return {**facts, "text": f"on {tensor.device}"}
    return {**of_array(tensor.detach().numpy()), **facts}


# ---- tables


def _of_frame(frame: Any) -> dict[str, Any]:
    head = frame.iloc[:TABLE_ROWS, :TABLE_COLUMNS]
    summary = {"shape": list(frame.shape), "nbytes": int(frame.memory_usage(index=True, deep=False).sum())}
    table: dict[str, Any] = {
        "columns": [_cut(str(column), CELL_CHARS) for column in head.columns],
        "types": [str(dtype) for dtype in head.dtypes],
        "index": [_cell(item) for item in head.index.tolist()],
        "rows": [[_cell(item) for item in row] for row in head.itertuples(index=False, name=None)],
        "n_rows": int(frame.shape[0]),
        "n_columns": int(frame.shape[1]),
    }
    if frame.size <= 10 * SAMPLE_ITEMS:
        table["nulls"] = [int(n) for n in frame.iloc[:, :TABLE_COLUMNS].isna().sum().tolist()]
    return {**summary, "table": table}


def _of_arrow(table: Any) -> dict[str, Any]:
    names = table.schema.names[:TABLE_COLUMNS]
    head = table.slice(0, TABLE_ROWS)
    columns = [head.column(i).to_pylist() for i in range(len(names))]
    return {
        "shape": [table.num_rows, table.num_columns],
        "nbytes": int(table.nbytes),
        "table": {
            "columns": [_cut(name, CELL_CHARS) for name in names],
            "types": [str(table.schema.field(i).type) for i in range(len(names))],
            "index": [],
            "rows": [[_cell(column[row]) for column in columns] for row in range(head.num_rows)],
            "n_rows": int(table.num_rows),
            "n_columns": int(table.num_columns),
            "nulls": [int(table.column(i).null_count) for i in range(len(names))],
        },
    }


def _of_polars(frame: Any) -> dict[str, Any]:
    head = frame[:TABLE_ROWS, :TABLE_COLUMNS]
    return {
        "shape": list(frame.shape),
        "nbytes": int(frame.estimated_size()),
        "table": {
            "columns": [_cut(name, CELL_CHARS) for name in head.columns],
            "types": [_cut(str(kind), CELL_CHARS) for kind in head.dtypes],
            "index": [],
            "rows": [[_cell(item) for item in row] for row in head.rows()],
            "n_rows": int(frame.height),
            "n_columns": int(frame.width),
            "nulls": [int(frame[:, i].null_count()) for i in range(head.width)],
        },
    }


def _cell(item: object) -> str:
    if isinstance(item, float):
        return f"{item:.6g}"
    return _cut(item if isinstance(item, str) else short_repr(item), CELL_CHARS)


# ---- pictures


def _picture_of(value: Any, library: str, name: str) -> dict[str, Any] | None:
    """A PNG of what draws itself: figures, and whatever has `_repr_png_` (PIL's images)."""
    if library == "matplotlib" and name == "Figure":
        file = BytesIO()
        value.savefig(file, format="png", dpi=50, bbox_inches="tight")
        data: Any = file.getvalue()
    elif hasattr(type(value), "_repr_png_"):
        data = value._repr_png_()
    else:
        return None
    if isinstance(data, tuple):  # IPython allows (data, metadata)
        data = data[0]
    if not isinstance(data, bytes) or not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    summary: dict[str, Any] = {"text": short_repr(value)}
    if hasattr(value, "size") and isinstance(value.size, tuple):
        summary["shape"] = [int(n) for n in value.size]
    if len(data) > IMAGE_BYTES and hasattr(value, "thumbnail") and hasattr(value, "copy"):
        small = value.copy()
        small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
        data = small._repr_png_()
    if isinstance(data, bytes) and len(data) <= IMAGE_BYTES:
        summary["image"] = data
    return summary


# ---- what shows itself as HTML


def _html_of(value: Any) -> str:
    """What `_repr_html_` says, if it is short enough to travel; the card shows it in a frame without any rights."""
    if not hasattr(type(value), "_repr_html_"):
        return ""
    html = value._repr_html_()
    if isinstance(html, tuple):  # IPython allows (data, metadata)
        html = html[0]
    return html if isinstance(html, str) and len(html) <= HTML_CHARS else ""


# ---- text


class _Repr(reprlib.Repr):
    """Deep structures and long strings become short; nothing is asked for its whole repr if it is a large container."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 10
        self.maxlevel = 4
        self.maxstring = self.maxother = 300
        self.maxlong = 60

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """In the order of the dictionary; reprlib's own sorts."""
        if level <= 0 and x:
            return "{...}"
        items = [
            f"{self.repr1(key, level - 1)}: {self.repr1(item, level - 1)}"
            for key, item in itertools.islice(x.items(), self.maxdict)
        ]
        return "{" + ", ".join(items + ["..."] * (len(x) > self.maxdict)) + "}"

    def repr_ndarray(self, array: np.ndarray, level: int) -> str:
        return f"<ndarray {array.shape} {array.dtype}>"


def short_repr(value: object) -> str:
    """A repr of at most TEXT_CHARS characters; of large arrays, frames and tables within it only shape and type."""
    if isinstance(value, str):
        return _cut(repr(value[:TEXT_CHARS]), TEXT_CHARS - 1) + ("…" if len(value) > TEXT_CHARS else "")
    return _cut(_Repr().repr(value), TEXT_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
