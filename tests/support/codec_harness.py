"""The codec alone, for its tests: its sources and a dummy Ref compiled into an extension module of their own, values to
send through it, and what is asked of it: that nobody can tell its results from pickle's. Run as a script, this file
prints timings.
"""

from __future__ import annotations

import enum
import importlib.util
import math
import pickle
import random
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

BINDING = Path(__file__).resolve().parents[2] / "objstore" / "binding"
STRICT = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
LARGE = 64 * 1024


def build(folder: Path, flags: tuple[str, ...] = ("-O2",)) -> ModuleType:
    """Compile and import the test module."""
    sources = [BINDING / "buffer.c", *sorted((BINDING / "codec").glob("*.c"))]
    target = folder / ("codec_test" + sysconfig.get_config_var("EXT_SUFFIX"))
    include = ["-I", str(BINDING), "-isystem", np.get_include(), "-isystem", sysconfig.get_path("include")]
    command = ["cc", "-shared", "-fPIC", *flags, *STRICT, *include, *map(str, sources), "-o", str(target)]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("codec_test", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["codec_test"] = module  # pickle looks for _ref_at there
    spec.loader.exec_module(module)
    module.set_hooks(pickle_value, unpickle_value)
    return module


def pickle_value(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.dumps(value, 5, buffer_callback=buffers.append), buffers


def unpickle_value(data: Any, buffers: list[Any]) -> Any:
    return pickle.loads(data, buffers=buffers)


# ---- comparing values

NOT_TRIVIALLY_COPYABLE = 0x100  # of NumPy's flags of dtypes


def describe(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Everything about a value that a program could tell: exact types, bits, which mutable objects are one."""
    seen = {} if seen is None else seen
    mutable = isinstance(value, list | dict | set | bytearray | np.ndarray | np.void | Point)
    if mutable or (isinstance(value, np.dtype) and value.fields):
        if id(value) in seen:
            return ("again", seen[id(value)])
        seen[id(value)] = len(seen)
    kind = {np.longlong: np.int64, np.ulonglong: np.uint64}.get(type(value), type(value))  # pickle makes these of those
    if isinstance(value, list | tuple):
        return (kind, [describe(item, seen) for item in value])
    if isinstance(value, dict):
        return (kind, [(describe(key, seen), describe(item, seen)) for key, item in value.items()])
    if isinstance(value, Point):
        return (kind, describe(value.__dict__, seen))
    if isinstance(value, set | frozenset):
        return (kind, sorted(map(repr, value)))
    if isinstance(value, np.dtype):
        fields = [(name, describe(value.fields[name][0], seen), *value.fields[name][1:]) for name in value.names or ()]
        # NumPy 2.5 notes in a dtype that it loads how it may be copied, and not in each that it makes otherwise.
        flags = value.flags & ~NOT_TRIVIALLY_COPYABLE
        layout = (value.str, flags, value.alignment, value.isalignedstruct, value.subdtype)
        return (value, layout, fields)
    if isinstance(value, np.ndarray):
        if value.dtype.byteorder == ">":  # we keep it; pickle, where it sends no buffer, does not
            value = value.byteswap().view(value.dtype.newbyteorder())
        form = (value.shape, value.flags.c_contiguous, value.flags.f_contiguous)
        content = value.tolist() if value.dtype.hasobject else value.tobytes(order="A")
        return (kind, describe(value.dtype, seen), form, content)
    if isinstance(value, np.generic):
        return (kind, describe(value.dtype, seen), value.tobytes())
    if isinstance(value, float):
        return (kind, struct.pack("d", value))
    if isinstance(value, complex):
        return (kind, struct.pack("dd", value.real, value.imag))
    return (kind, value)


def through(codec: ModuleType, value: Any, zero_copy: bool = True) -> Any:
    data, refs, _ = codec.encode(value)
    return codec.decode(data, refs, zero_copy)


def check_like_pickle(codec: ModuleType, value: Any) -> None:
    expected = describe(unpickle_value(*pickle_value(value)))
    assert describe(through(codec, value)) == expected
    assert describe(through(codec, value, zero_copy=False)) == expected


def encoding(codec: ModuleType, value: Any) -> str:
    return codec.encoding_name(codec.encode(value)[0])


class Point:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Colour(enum.IntEnum):
    RED = 1


class OwnStr(str):
    pass


SCALARS = [
    np.datetime64("2024-01-01"), np.datetime64("NaT", "25s"), np.timedelta64(5, "ns"),
    np.str_("a\ud800"), np.bytes_(b"a\0b"), np.void(b"ab"),
]  # fmt: skip
PLAIN_DTYPES = "?bBhHiIlLqQefdgFDG"
UNEVEN = np.dtype({"names": ["b", "a"], "formats": ["M8[ms]", (">f4", (2,))], "offsets": [16, 0], "itemsize": 32})
FIXED = [*map(np.dtype, [
    "M8[D]", "m8[25s]", "M8", "m8[as]", ">M8[ns]", ">i4", ">c16", "U3", ">U3", "S1", "S300", "V10",
    [("a", "i4"), ("b", "f8")], [("", "u1"), ("\ud800", ">U2")], UNEVEN, [("deep", [("er", UNEVEN, (2, 3))])],
    np.dtype([("a", "u1"), ("b", "f8")], align=True), np.dtype([("a", "i4"), ("b", "i4")])[["b"]],
])]  # fmt: skip


# ---- values at random


@st.composite
def dtypes(draw: st.DrawFn, depth: int = 2) -> np.dtype:
    """Of fixed width: numbers in both orders, times, strings, raw bytes, structures of them, with gaps or packed."""
    if depth == 0 or draw(st.integers(0, 2)):
        return draw(st.sampled_from([np.dtype(order + letter) for letter in PLAIN_DTYPES for order in "<>"] + FIXED))
    names, shapes = st.text(min_size=1, max_size=2), st.sampled_from([(), (), (2,), (1, 3)])
    fields = draw(st.dictionaries(names, st.tuples(dtypes(depth - 1), shapes), min_size=1, max_size=3))
    return np.dtype([(name, *field) for name, field in fields.items()], align=draw(st.booleans()))


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Of any dtype of fixed width, any bits, any shape, in C order, in Fortran's, transposed, reversed or with gaps."""
    dtype = draw(dtypes())
    shape = draw(st.lists(st.integers(0, 8), max_size=4))
    bits = random.Random(draw(st.integers(0, 2**32))).randbytes(math.prod(shape) * dtype.itemsize)
    array = np.frombuffer(bits, dtype).reshape(shape).copy()
    layout = draw(st.sampled_from(["C", "F", "gaps", "reversed", "broadcast"]))
    fields = [dtype[i] for i in range(len(dtype.names or ()))]
    packed = sum(field.itemsize for field in fields) == dtype.itemsize and not any(field.base.names for field in fields)
    if fields and not packed:
        return array  # what a copy has in the gaps of a structure is undefined
    if layout == "F":
        return array.T
    if layout == "broadcast":
        return np.broadcast_to(array, (2, *shape))
    return array if layout == "C" or not shape else array[..., ::2] if layout == "gaps" else array[::-1]


# ---- timings


def main() -> None:
    import marshal
    import tempfile
    import timeit

    with tempfile.TemporaryDirectory() as folder:
        codec = build(Path(folder), ("-O3",))
    samples: dict[str, Any] = {
        "None": None, "int": 5, "int64": 2**40, "float": 1.5, "str": "x" * 20, "str of 100": "x" * 100,
        "small tuple": (1, "abc", 2.5),
        "small dict": {"a": 1, "b": 2.5, "name": "text"}, "list of 10 ints": list(range(10)),
        "list of 1000 ints": list(range(1000)),
        "ref": codec.Ref(1), "list of 1000 refs": [codec.Ref(i) for i in range(1000)], "numpy scalar": np.float64(1.5),
        "array of 10": np.arange(10.0), "array of 10,000": np.arange(10000.0), "bytes of 1 KB": bytes(1000),
        "object": Point(a=1),
    }  # fmt: skip
    print(f"{'ns':20}{'encode':>9}{'decode':>9}{'marshal':>9}{'':>9}{'pickle':>9}")
    for name, value in samples.items():
        n = 2000 if "1000" in name else 100_000 if name != "object" else 20_000
        best = [min(pair) for pair in zip(*(codec.timings(value, n) for _ in range(5)), strict=True)]
        row = f"{name:20}{best[0]:9.0f}{best[1]:9.0f}"
        plain = not any(word in name for word in ("ref", "array", "numpy", "object"))
        for module, can_do in ((marshal, plain), (pickle, "ref" not in name)):
            if can_do:
                data = module.dumps(value)
                for call in (lambda: module.dumps(value), lambda: module.loads(data)):
                    row += f"{min(timeit.repeat(call, number=n // 10, repeat=3)) / (n // 10) * 1e9:9.0f}"
            else:
                row += " " * 18
        print(row)


if __name__ == "__main__":
    main()
