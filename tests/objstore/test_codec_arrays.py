"""The codec's arrays, scalars and dtypes: as pickle's, and large ones are views of the encoded bytes."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.codec_harness import FIXED, PLAIN_DTYPES, Point, arrays, check_like_pickle, encoding, through
from support.examples import MANY_VALUES


@MANY_VALUES
@given(array=arrays())
def test_arrays_like_pickle(codec: ModuleType, array: np.ndarray) -> None:
    check_like_pickle(codec, array)
    check_like_pickle(codec, [array, array.dtype, 1])
    assert through(codec, array.dtype) == array.dtype


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
    for array, again in zip(arrays, codec.decode(data, refs), strict=True):
        assert np.array_equal(array, again) and (again.ctypes.data - start) % 64 == 0


def test_pickled_buffers_are_views_too(codec: ModuleType) -> None:
    value = Point(a=np.arange(1000), b=np.asfortranarray(np.ones((50, 50))), c=np.zeros(0))
    data, refs, n_buffers = codec.encode(value)
    again = codec.decode(data, refs)
    assert n_buffers >= 2 and np.shares_memory(again.a, np.frombuffer(data, "u1")) and not again.a.flags.writeable
    assert np.array_equal(again.b, value.b) and again.b.flags.f_contiguous and again.c.shape == (0,)


@pytest.mark.parametrize("dtype", FIXED, ids=str)
def test_a_damaged_dtype_is_an_error_or_another_dtype(codec: ModuleType, dtype: np.dtype) -> None:
    """It never says ValueError in numpy's words, and nothing but plain bytes is ever read as such a dtype."""
    data = codec.encode(dtype)[0]
    for at, byte in itertools.product(range(1, min(len(data), 120)), range(256)):
        try:
            again = codec.decode(data[:at] + bytes([byte]) + data[at + 1 :], [])
        except ValueError as error:
            assert str(error) == "the encoded value is damaged"
        else:
            assert not again.hasobject and 0 <= again.itemsize < 2**31
