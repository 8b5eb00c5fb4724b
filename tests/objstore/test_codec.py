"""The codec alone: its sources and a dummy Ref are compiled into an extension module of their own.

What is asked of it is that nobody can tell its results from pickle's. Run as a script, this file prints timings.
"""
from __future__ import annotations

import collections
import enum
import gc
import importlib.util
import itertools
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
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BINDING = Path(__file__).resolve().parents[2] / "objstore" / "binding"
STRICT = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
LARGE = 64 * 1024


def build(folder: Path, flags: tuple[str, ...] = ("-O2",)) -> ModuleType:
    """Compile and import the test module."""
    sources = [BINDING / "buffer.c", *sorted(BINDING.glob("codec_*.c"))]
    target = folder / ("codec_test" + sysconfig.get_config_var("EXT_SUFFIX"))
    include = ["-isystem", sysconfig.get_path("include"), "-isystem", np.get_include()]
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


@pytest.fixture(scope="session")
def codec(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build(tmp_path_factory.mktemp("codec"))


# ---- comparing values


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
        layout = (value.str, value.flags, value.alignment, value.isalignedstruct, value.subdtype)
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


class OwnList(list):
    pass


class OwnStr(str):
    pass


Pair = collections.namedtuple("Pair", "left right")

NAN_WITH_PAYLOAD = struct.unpack("d", struct.pack("Q", 0x7FF8_0000_DEAD_BEEF))[0]
SIGNALLING_NAN = struct.unpack("d", struct.pack("Q", 0x7FF0_0000_DEAD_BEEF))[0]

PLAIN = [
    None, True, False, 0, 1, -1, 127, 128, -128, -129, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63,
    -(2**63), -(2**63) - 1, 2**64, 10**100, -(10**100), 1 << 3000, -(1 << 3000),
    0.0, -0.0, math.inf, -math.inf, math.nan, NAN_WITH_PAYLOAD, SIGNALLING_NAN, 5e-324, 1j,
    complex(-0.0, -0.0), complex(math.nan, NAN_WITH_PAYLOAD),
    "", "a", "é", "abc", "x" * 253, "x" * 254, "x" * 255, "ÿ" * 300, "żółw", "𝄞", "a\0b", "\ud800",
    "a\udfff" * 200, "x" * LARGE, "ż" * LARGE, "𝄞" * LARGE, b"", b"\0", b"x" * 300, bytes(LARGE),
    bytes(range(256)) * 1000,
    (), (1,), ((),), [], [[]], {}, {"a": 1}, {1: 2, "1": 3, (1, 2): [4], None: {}},
    (1, "a", [2.5, {"k": (None, b"x")}]),
    list(range(1000)), [[i] for i in range(900)], list(range(100_000)), {str(i): i for i in range(500)},
]  # fmt: skip

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

OTHERS = [
    {1, 2}, frozenset("ab"), bytearray(b"abc"), range(3), Colour.RED, OwnList([1]), OwnStr("a"), Pair(1, [2]),
    collections.OrderedDict(a=1), Point(x=1, y=[2]), int, len, [Point(a=1)], {"k": Colour.RED}, ..., slice(1, 2),
]  # fmt: skip


def name_of(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 30 else f"{text[:20]}...{len(text)}"


# ---- plain values


@pytest.mark.parametrize("value", PLAIN, ids=name_of)
def test_plain_values_have_a_form_of_their_own(codec: ModuleType, value: Any) -> None:
    check_like_pickle(codec, value)
    assert encoding(codec, value) not in ("pickle", "damaged")


@pytest.mark.parametrize("value", OTHERS, ids=name_of)
def test_other_values_are_pickled(codec: ModuleType, value: Any) -> None:
    check_like_pickle(codec, value)
    assert encoding(codec, value) == "pickle"


def test_signalling_nan_keeps_its_bits(codec: ModuleType) -> None:
    for bits in (0x7FF0_0000_DEAD_BEEF, 0xFFF8_0000_0000_0001):
        value = struct.unpack("d", struct.pack("Q", bits))[0]
        assert struct.pack("d", through(codec, value)) == struct.pack("d", value)


def test_singletons_stay_single(codec: ModuleType) -> None:
    for value in (None, True, False, (), "", chr(97), chr(233), b"", b"x", 5):
        assert through(codec, value) is value


def test_small_values_are_small(codec: ModuleType) -> None:
    for value, size in ((None, 1), (1, 2), (1000, 5), (2**40, 9), (1.5, 9), ("abc", 5), ((1, 2), 6)):
        data, refs, n_buffers = codec.encode(value)
        assert (len(data), refs, n_buffers) == (size, [], 0)


def test_large_contents_are_copied_once(codec: ModuleType) -> None:
    for value in (bytes(LARGE), "x" * LARGE, np.zeros(1000), Point(a=np.zeros(1000))):
        assert codec.encode(value)[2] == 1


# ---- identity


def test_shared_mutables_stay_shared(codec: ModuleType) -> None:
    shared: list[int] = [1]
    a = np.arange(3)
    for value in ([shared, shared], (shared, {"k": shared}), [(shared,), (shared,)], {"a": a, "b": a}):
        check_like_pickle(codec, value)
        assert encoding(codec, value) == "pickle"
    twice = (shared,)
    check_like_pickle(codec, [twice, twice])
    again = through(codec, [shared, shared])
    assert again[0] is again[1]


def test_mutables_with_other_references_outside_are_not_pickled(codec: ModuleType) -> None:
    rows = [[i] for i in range(10)]
    value = [*rows]
    check_like_pickle(codec, value)
    assert encoding(codec, value) == "list"


def test_self_referential_values(codec: ModuleType) -> None:
    loop: list[Any] = []
    loop.append(loop)
    again = through(codec, loop)
    assert again[0] is again and len(again) == 1
    holder: dict[str, Any] = {}
    holder["inner"] = [holder]
    again = through(codec, holder)
    assert again["inner"][0] is again
    knot: tuple[list[Any]] = ([],)
    knot[0].append(knot)
    again = through(codec, knot)
    assert again[0][0] is again


def test_what_only_holds_itself(codec: ModuleType) -> None:
    def lonely() -> list[Any]:
        loop: list[Any] = [1]
        loop.append(loop)
        return loop

    again = through(codec, lonely())
    assert again[1] is again


def test_deep_values(codec: ModuleType) -> None:
    for depth in (7, 8, 9, 200):
        value: Any = 1
        for _ in range(depth):
            value = [value]
        check_like_pickle(codec, value)
        assert (encoding(codec, value) == "pickle") == (depth > 8)


def test_many_containers_go_through_pickle(codec: ModuleType) -> None:
    value = [[i] for i in range(1000)]
    check_like_pickle(codec, value)
    assert encoding(codec, value) == "pickle"


def test_a_late_surprise_starts_again(codec: ModuleType) -> None:
    value = ["x" * LARGE, codec.Ref(7), np.zeros(1000), [1, 2], Point(a=1)]
    data, refs, n_buffers = codec.encode(value)
    assert refs == [7] and n_buffers == 2 and codec.encoding_name(data) == "pickle"
    again = codec.decode(data, refs)
    assert again[0] == value[0] and again[1] == value[1] and again[3] == [1, 2] and again[4].a == 1


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


@st.composite
def pools(draw: st.DrawFn) -> list[Any]:
    """Nested values in which everything made so far may turn up again."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(), st.integers(-300, 300), st.floats(), st.complex_numbers(), st.binary(),
        st.text(st.characters(exclude_categories=())),
        st.sampled_from([Colour.RED, OwnStr("s"), np.float32(1.5), np.True_, *SCALARS]),
    )  # fmt: skip
    made: list[Any] = [draw(scalars)]
    for _ in range(draw(st.integers(0, 12))):
        item = st.integers(0, len(made) - 1).map(made.__getitem__) | scalars
        items = draw(st.lists(item, max_size=4))
        keys = st.text(max_size=3) | st.integers() | st.tuples(st.integers(), st.text(max_size=2))
        kind = draw(st.sampled_from(["list", "tuple", "dict", "array", "parts of an array", "dtype", "object", "loop"]))
        if kind == "list":
            made.append(items)
        elif kind == "tuple":
            made.append(tuple(items))
        elif kind == "dict":
            made.append(dict(zip(draw(st.lists(keys, min_size=4, max_size=4)), items)))
        elif kind == "array":
            made.append(draw(arrays()))
        elif kind == "parts of an array":
            array = draw(arrays())
            made += [array, array.dtype, *array.ravel()[:2]]
        elif kind == "dtype":
            made.append(draw(dtypes()))
        elif kind == "object" and draw(st.booleans()):
            made.append(Point(items=items))
        elif kind == "loop" and draw(st.booleans()):
            items.append(items)
            made.append(items)
    return made


TOO_MUCH = [HealthCheck.too_slow, HealthCheck.data_too_large]
MANY = settings(max_examples=250, deadline=None, suppress_health_check=TOO_MUCH)


@MANY
@given(pool=pools())
def test_like_pickle(codec: ModuleType, pool: list[Any]) -> None:
    check_like_pickle(codec, pool[-1])


@MANY
@given(array=arrays())
def test_arrays_like_pickle(codec: ModuleType, array: np.ndarray) -> None:
    check_like_pickle(codec, array)
    check_like_pickle(codec, [array, array.dtype, 1])
    assert through(codec, array.dtype) == array.dtype


@MANY
@given(pool=pools(), names=st.lists(st.text(), unique=True, max_size=3))
def test_arguments_like_pickle(codec: ModuleType, pool: list[Any], names: list[str]) -> None:
    n = max(0, len(pool) - len(names))
    args, kwargs = tuple(pool[:n]), dict(zip(names, pool[n:]))
    names_and_values = [*args, *kwargs.values()]
    expected = describe(unpickle_value(*pickle_value(names_and_values)))
    again = called(codec, *args, **kwargs)
    assert [*again[1]] == [*kwargs] and describe([*again[0], *again[1].values()]) == expected


# ---- numpy


@pytest.mark.parametrize("letter", PLAIN_DTYPES)
def test_arrays_and_scalars_of_plain_types(codec: ModuleType, letter: str) -> None:
    for shape in ((), (0,), (3,), (0, 3), (2, 3, 4), (200, 5)):
        array = np.ones(shape, letter)
        again = through(codec, array)
        assert encoding(codec, array) == "numpy array"
        assert type(again) is np.ndarray and again.dtype.char == letter and not again.flags.writeable
        assert again.shape == shape and again.flags.c_contiguous and np.array_equal(again, array)
    scalar = np.ones(1, letter)[0]
    again = through(codec, scalar)
    assert type(again) is type(scalar) and again == scalar and encoding(codec, scalar) == "numpy scalar"


def test_nan_bits_in_arrays_and_scalars(codec: ModuleType) -> None:
    bits = np.array([0x7FF0_0000_DEAD_BEEF, 0x8000_0000_0000_0000], "u8")
    assert through(codec, bits.view("f8")).tobytes() == bits.tobytes()
    assert through(codec, bits.view("f8")[0]).tobytes() == bits[:1].tobytes()


def test_orders_and_gaps(codec: ModuleType) -> None:
    for n in (4, 40):  # in band, out of band
        base = np.arange(n**3, dtype="i4").reshape(n, n, n)
        for array in (
            np.asfortranarray(base), base.T, base[::2], base[::-1], base[..., 1], base.transpose(1, 0, 2),
            base[1:3, ::-2], np.broadcast_to(base[0], (3, n, n)),
        ):  # fmt: skip
            again = through(codec, array)
            expected = pickle.loads(pickle.dumps(array))
            assert again.shape == array.shape and np.array_equal(again, array)
            assert again.flags.f_contiguous == expected.flags.f_contiguous
            assert encoding(codec, array) == "numpy array"
            check_like_pickle(codec, [array, 1])


@pytest.mark.parametrize("dtype", FIXED, ids=str)
def test_arrays_of_every_fixed_width(codec: ModuleType, dtype: np.dtype) -> None:
    for shape in ((), (0,), (3,), (0, 3), (2, 3, 4), (200, 9)):
        bits = random.Random(1).randbytes(math.prod(shape) * dtype.itemsize)
        for array in (np.frombuffer(bits, dtype).reshape(shape), np.frombuffer(bits, dtype).reshape(shape, order="F")):
            again = through(codec, array)
            assert encoding(codec, array) == "numpy array" and not again.flags.writeable
            assert again.dtype == dtype and again.tobytes("A") == array.tobytes("A")
            check_like_pickle(codec, array)
    data, refs, n_buffers = codec.encode(array)
    assert n_buffers == 1 and np.shares_memory(codec.decode(data, refs), np.frombuffer(data, "u1"))
    check_like_pickle(codec, dtype)
    assert encoding(codec, dtype) == "dtype"
    scalar = array.ravel()[7]
    if type(scalar) is dtype.type:  # of >i4 it is an int32
        check_like_pickle(codec, [scalar, 1])
        assert encoding(codec, scalar) == "numpy scalar"


def test_times_keep_unit_and_bits(codec: ModuleType) -> None:
    for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"):
        for array in (np.array(["NaT", 0, -1, 2**63 - 1], f"M8[7{unit}]"), np.array(["NaT", 5], f"m8[{unit}]")):
            again = through(codec, array)
            assert again.dtype == array.dtype and again.tobytes() == array.tobytes() and np.isnat(again[0])
            scalar = through(codec, array[0])
            assert scalar.dtype == array.dtype and np.isnat(scalar)


def test_dtypes_of_numbers_stay_single(codec: ModuleType) -> None:
    for letter in PLAIN_DTYPES:
        assert through(codec, np.dtype(letter)) is np.dtype(letter)


def test_what_can_be_changed_stays_shared(codec: ModuleType) -> None:
    array = np.zeros(3, [("a", "i4")])
    row = array[0]
    for value in ([array, array.dtype], [array, array.copy()], [row, row], [row, array]):
        check_like_pickle(codec, value)
        assert encoding(codec, value) == "pickle"
    again = through(codec, [array, array.dtype])
    again[1].names = ("b",)
    assert again[0].dtype.names == ("b",)


OTHERS_OF_NUMPY = [
    np.array([[1], "a", None], object), np.zeros(2, [("a", "i4"), ("b", "O")]), np.zeros(2, "V0"), np.zeros(2, []),
    np.array(["a", "a longer one"], np.dtypes.StringDType()),
    np.ma.array([1, 2], mask=[True, False]), np.rec.array([(1, 2)]), np.rec.array([(1, 2)])[0],
    np.arange(3, dtype=np.dtype("f8", metadata={"unit": "m"})),
    np.zeros(2, [("a", np.dtype("f8", metadata={"unit": "m"}))]), np.array([(1, 2)], "i4,i4").view(np.recarray),
    np.zeros(2, [(("a title", "a"), "i4")]), np.zeros(2, np.dtype((np.int32, [("low", "i2"), ("high", "i2")]))),
    np.str_(""), np.dtype("U"), np.dtype("S"), np.dtype("O"), np.dtype([]),
]  # fmt: skip


def title(value: Any) -> str:
    return str(value) if isinstance(value, np.dtype) else f"{type(value).__name__}-{value.dtype}"


@pytest.mark.parametrize("value", OTHERS_OF_NUMPY, ids=title)
def test_other_numpy_values_are_pickled(codec: ModuleType, value: Any) -> None:
    check_like_pickle(codec, value)
    assert encoding(codec, value) == "pickle"


def test_an_array_that_comes_out_of_a_pickle(codec: ModuleType) -> None:
    for dtype in ("f8", "M8[s]", "i4,M8[D]"):
        array = pickle.loads(pickle.dumps(np.zeros(3, dtype)))  # its dtype is a copy of the usual one
        check_like_pickle(codec, array)
        assert encoding(codec, array) == "numpy array"


def test_large_arrays_are_views_that_keep_their_owner(codec: ModuleType) -> None:
    array = np.arange(10_000.0).reshape(100, 100)
    data, refs, _ = codec.encode(array)
    again = codec.decode(data, refs)
    assert np.shares_memory(again, np.frombuffer(data, "u1")) and not again.flags.writeable
    with pytest.raises(ValueError):
        again.flags.writeable = True
    count = sys.getrefcount(data)
    view = again[3:]
    del again
    assert sys.getrefcount(data) == count
    del view
    assert sys.getrefcount(data) == count - 1
    copied = codec.decode(data, refs, False)
    assert not np.shares_memory(copied, np.frombuffer(data, "u1")) and np.array_equal(copied, array)
    assert not copied.flags.writeable


def test_buffers_are_aligned(codec: ModuleType) -> None:
    arrays = [np.full(n, n % 256, "u1") for n in range(1024, 1100)]
    data, refs, n_buffers = codec.encode(arrays)
    assert n_buffers == len(arrays)
    start = np.frombuffer(data, "u1").ctypes.data
    for array, again in zip(arrays, codec.decode(data, refs)):
        assert np.array_equal(array, again) and (again.ctypes.data - start) % 64 == 0


def test_pickled_buffers_are_views_too(codec: ModuleType) -> None:
    value = Point(a=np.arange(1000), b=np.asfortranarray(np.ones((50, 50))), c=np.zeros(0))
    data, refs, n_buffers = codec.encode(value)
    again = codec.decode(data, refs)
    assert n_buffers >= 2 and np.shares_memory(again.a, np.frombuffer(data, "u1")) and not again.a.flags.writeable
    assert np.array_equal(again.b, value.b) and again.b.flags.f_contiguous and again.c.shape == (0,)


def test_without_hooks_and_without_numpy(tmp_path: Path, codec: ModuleType) -> None:
    code = (
        "import sys, importlib.util, pickle\n"
        f"spec = importlib.util.spec_from_file_location('codec_test', {codec.__spec__.origin!r})\n"
        "m = importlib.util.module_from_spec(spec); sys.modules['codec_test'] = m; spec.loader.exec_module(m)\n"
        "try: m.encode({1, 2})\n"
        "except RuntimeError as error: print(error)\n"
        "m.set_hooks(lambda v: (pickle.dumps(v), []), lambda d, b: pickle.loads(d))\n"
        "print(m.decode(*m.encode([1, 'a'])[:2]), m.decode(*m.encode({1, 2})[:2]), 'numpy' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    no_hook = 'this value needs the hook "pickle", and there is none (is the client closed?)'
    assert result.stdout.splitlines() == [no_hook, "[1, 'a'] {1, 2} False"]


# ---- refs


def test_refs_are_numbered_in_order(codec: ModuleType) -> None:
    value = [codec.Ref(5), {"k": codec.Ref(9)}, (codec.Ref(5),), [codec.Ref(i) for i in range(300)]]
    data, refs, _ = codec.encode(value)
    assert refs == [5, 9, 5, *range(300)] and codec.decode(data, refs) == value and encoding(codec, value) == "list"


def test_refs_inside_a_pickle(codec: ModuleType) -> None:
    one = codec.Ref(3)
    value = Point(a=one, b=[one, codec.Ref(4)])
    data, refs, _ = codec.encode(value)
    again = codec.decode(data, refs)
    assert refs == [3, 4] and again.a == one and again.b == [one, codec.Ref(4)] and again.a is again.b[0]


def test_refs_are_pickled_by_us_only(codec: ModuleType) -> None:
    with pytest.raises(TypeError, match="only be pickled by cellmesh"):
        pickle.dumps(codec.Ref(1))
    with pytest.raises(TypeError, match="only be read by cellmesh"):
        codec._ref_at(0)
    data, refs, _ = codec.encode({codec.Ref(1)})
    assert codec.decode(data, refs) == {codec.Ref(1)}
    with pytest.raises(TypeError):
        codec._ref_at(0)
    with pytest.raises(ValueError, match="damaged"):
        codec.decode(data, [])


class Nested:
    """Encodes and decodes other values while it is pickled and unpickled itself."""

    codec: ModuleType
    count = itertools.count()

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __reduce__(self) -> Any:
        data, refs, _ = self.codec.encode({self.codec.Ref(100)})
        assert refs == [100]
        return Nested.rebuilt, (self.ref, data, refs)

    @classmethod
    def rebuilt(cls, ref: Any, data: bytes, refs: list[int]) -> Nested:
        assert cls.codec.decode(data, refs) == {cls.codec.Ref(100)}
        return cls(ref)


def test_encoding_and_decoding_nest(codec: ModuleType) -> None:
    Nested.codec = codec
    value = [Nested(codec.Ref(1)), codec.Ref(2), Nested(codec.Ref(3))]
    data, refs, _ = codec.encode(value)
    again = codec.decode(data, refs)
    assert sorted(refs) == [1, 2, 3] and [again[0].ref.slot, again[1].slot, again[2].ref.slot] == [1, 2, 3]


# ---- argument lists


def spy(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def called(codec: ModuleType, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    dependencies: list[Any] = []
    data, refs, _ = codec.encode_args(dependencies, *args, **kwargs)
    return codec.call(spy, data, refs, [("value of", ref.slot) for ref in dependencies])


def test_no_arguments_are_no_bytes(codec: ModuleType) -> None:
    assert codec.encode_args([])[0] == b"" and called(codec) == ((), {})


@pytest.mark.parametrize("n", [1, 2, 8, 9, 20, 300])
def test_argument_lists(codec: ModuleType, n: int) -> None:
    args = tuple(range(n))
    kwargs = {f"name_{i}": str(i) for i in range(n)}
    for given_args, given_kwargs in ((args, {}), ((), kwargs), (args, kwargs)):
        assert called(codec, *given_args, **given_kwargs) == (given_args, given_kwargs)
    assert called(codec, *args, last=Point).__repr__() == ((args), {"last": Point}).__repr__()


def test_refs_as_arguments_are_dependencies(codec: ModuleType) -> None:
    expected = (1, ("value of", 7), [codec.Ref(8)]), {"k": ("value of", 9)}
    assert called(codec, 1, codec.Ref(7), [codec.Ref(8)], k=codec.Ref(9)) == expected
    args, kwargs = called(codec, 1, codec.Ref(7), {codec.Ref(8)}, Point(x=1), k=codec.Ref(9), z=Point)
    assert args[:3] == (1, ("value of", 7), {codec.Ref(8)}) and args[3].x == 1
    assert kwargs == {"k": ("value of", 9), "z": Point}


def test_arguments_share_what_they_shared(codec: ModuleType) -> None:
    shared: list[int] = []
    args, kwargs = called(codec, shared, [shared], k=shared)
    assert args[0] is args[1][0] is kwargs["k"]
    args, kwargs = called(codec, shared, Point(inner=shared), 5)
    assert args[0] is args[1].inner and args[2] == 5


def test_odd_keywords(codec: ModuleType) -> None:
    kwargs = {"": 1, "żółw": 2, "a b": 3, "x" * 400: 4}
    assert called(codec, **kwargs) == ((), kwargs)


def test_keywords_are_interned(codec: ModuleType) -> None:
    name = next(iter(called(codec, some_keyword_name=1)[1]))
    assert name is sys.intern("some_keyword_name")


# ---- bad input


class Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("not me")


def test_errors_of_the_hooks_arrive(codec: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="not me"):
        codec.encode([1, Unpicklable()])
    with pytest.raises(RuntimeError, match="not me"):
        codec.encode_args([], 1, Unpicklable())
    with pytest.raises(RuntimeError, match="not me"):
        codec.encode({codec.Ref(1): Unpicklable()})
    assert through(codec, [1]) == [1]


def test_damaged_bytes_give_an_error_or_another_value(codec: ModuleType) -> None:
    arrays = [np.arange(3), np.ones(500), np.int8(1), np.zeros(3, "M8[25s]"), *SCALARS]
    value = [1, 2**40, 1 << 200, "żółw", "a" * 300, b"bytes", {"k": (1.5, 2j)}, codec.Ref(1), *arrays]
    args = codec.encode_args([], *value, k=1, z=[codec.Ref(1)])
    others = [codec.encode(np.zeros(n, dtype)) for dtype in FIXED for n in (3, 1500)]
    rng = np.random.default_rng(1)
    for data, refs, _ in (codec.encode(value), codec.encode(bytes(LARGE)), args, *others):
        for n in [*range(min(len(data), 700)), *range(0, len(data), 997)]:
            attempt(codec, data[:n], refs)
        for _ in range(3000):
            damaged = bytearray(data)
            damaged[rng.integers(min(len(data), 700))] = rng.integers(256)
            attempt(codec, bytes(damaged), refs)


@pytest.mark.parametrize("dtype", FIXED, ids=str)
def test_a_damaged_dtype_is_an_error_or_another_dtype(codec: ModuleType, dtype: np.dtype) -> None:
    """It never says ValueError in numpy's words, and nothing but plain bytes is ever read as such a dtype."""
    data = codec.encode(dtype)[0]
    for at, byte in itertools.product(range(1, min(len(data), 120)), range(256)):
        try:
            again = codec.decode(data[:at] + bytes([byte]) + data[at + 1:], [])
        except ValueError as error:
            assert str(error) == "the encoded value is damaged"
        else:
            assert not again.hasobject and 0 <= again.itemsize < 2**31


def attempt(codec: ModuleType, data: bytes, refs: list[int]) -> None:
    for read in (lambda: codec.decode(data, refs), lambda: codec.call(spy, data, refs, [1, 2])):
        try:
            read()
        except (ValueError, TypeError, MemoryError, OverflowError, SystemError, EOFError, pickle.UnpicklingError):
            pass  # damaged bytes may ask for anything; what matters is that nothing crashes


def test_nothing_leaks(codec: ModuleType) -> None:
    shared = ("a string", 1.5)
    value = [shared, {"k": np.ones(500)}, codec.Ref(1), Point(a=bytes(LARGE), b=codec.Ref(2))]

    def work() -> None:
        through(codec, value)
        through(codec, value[:3])
        called(codec, *value, k=value, z=np.ones(2))
        with pytest.raises(RuntimeError):
            codec.encode([1, [2], codec.Ref(1), np.ones(500), Unpicklable()])

    work()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(500):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 400  # less than one a round; what others allocate meanwhile varies


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
        best = [min(pair) for pair in zip(*(codec.timings(value, n) for _ in range(5)))]
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
