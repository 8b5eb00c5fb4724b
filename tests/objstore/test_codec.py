"""The codec alone: plain values, identity, refs, argument lists, bad input. Its arrays are in test_codec_arrays.py."""

from __future__ import annotations

import collections
import gc
import itertools
import math
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codec_harness import (
    FIXED,
    LARGE,
    SCALARS,
    Colour,
    OwnStr,
    Point,
    arrays,
    check_like_pickle,
    describe,
    dtypes,
    encoding,
    pickle_value,
    through,
    unpickle_value,
)
from support.examples import MANY_VALUES, examples


class OwnList(list):
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

OTHERS = [
    {1, 2}, frozenset("ab"), bytearray(b"abc"), range(3), Colour.RED, OwnList([1]), OwnStr("a"), Pair(1, [2]),
    collections.OrderedDict(a=1), Point(x=1, y=[2]), int, len, [Point(a=1)], {"k": Colour.RED}, ..., slice(1, 2),
]  # fmt: skip


def name_of(value: Any) -> str:
    text = repr(sorted(value) if isinstance(value, frozenset) else value)  # those of strings are in any order
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
    one_byte = b"xy"[:1]  # a literal that is read from a .pyc is a copy of the one there is
    for value in (None, True, False, (), "", chr(97), chr(233), b"", one_byte, 5):
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
            made.append(dict(zip(draw(st.lists(keys, min_size=4, max_size=4)), items, strict=False)))
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


@MANY_VALUES
@given(pool=pools())
def test_like_pickle(codec: ModuleType, pool: list[Any]) -> None:
    check_like_pickle(codec, pool[-1])


@MANY_VALUES
@given(pool=pools(), names=st.lists(st.text(), unique=True, max_size=3))
def test_arguments_like_pickle(codec: ModuleType, pool: list[Any], names: list[str]) -> None:
    n = max(0, len(pool) - len(names))
    args, kwargs = tuple(pool[:n]), dict(zip(names, pool[n:], strict=False))
    names_and_values = [*args, *kwargs.values()]
    expected = describe(unpickle_value(*pickle_value(names_and_values)))
    again = called(codec, *args, **kwargs)
    assert [*again[1]] == [*kwargs] and describe([*again[0], *again[1].values()]) == expected


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


def test_refs_of_somewhere_else_are_refused(codec: ModuleType) -> None:
    stranger = codec.Ref(2**32 - 1)
    for value in (stranger, [1, stranger], Point(a=codec.Ref(1), b={stranger})):
        with pytest.raises(LookupError, match="somewhere else"):
            codec.encode(value)
        with pytest.raises(LookupError, match="somewhere else"):
            codec.encode_args([], [value], 5)
    assert codec.decode(*codec.encode([codec.Ref(1)])[:2]) == [codec.Ref(1)]


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


def test_one_argument_alone_is_pickled_by_itself(codec: ModuleType) -> None:
    shared = [1]
    value = Point(inner=shared, again=shared, ref=codec.Ref(8), data=bytes(LARGE))
    small = Point(inner=shared, again=shared, ref=codec.Ref(8))
    assert codec.encode_args([], small)[0].endswith(codec.encode(small)[0]), "not in a tuple"
    for arguments in ((value,), (codec.Ref(7), value)):
        (*_, got), _ = called(codec, *arguments)
        assert got.inner is got.again and got.ref == codec.Ref(8) and got.data == value.data


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
        for _ in range(examples(600)):
            damaged = bytearray(data)
            damaged[rng.integers(min(len(data), 700))] = rng.integers(256)
            attempt(codec, bytes(damaged), refs)


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
