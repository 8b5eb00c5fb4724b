"""The frames of a failure as text: bounded, and never a failure of its own."""

from __future__ import annotations

import itertools
import math

import numpy as np

from cellmesh.errors.frames import N_FRAMES, N_VARIABLES, VALUE_CHARS, describe, value_in_words


def frames_of(function, *args, **options):
    try:
        function(*args)
    except Exception as error:
        return describe(error.__traceback__, **options)
    raise AssertionError("it has not failed")


def outer(x):
    doubled = 2 * x

    def inner(y):
        __hidden, helper, module = 1, len, math  # noqa: F841  (the test looks which of them are shown)
        return y / 0

    return inner(doubled + 1)


def test_where_and_with_what() -> None:
    (_, this), (place, variables), (inner_place, inner_variables) = frames_of(outer, 3)
    assert place.endswith(", in outer") and variables == "x = 3\ndoubled = 6"
    assert inner_place.endswith(", in inner") and inner_variables == "y = 7", "neither modules nor functions"
    assert "args = (3,)" in this


def test_large_values_are_told_by_type_and_shape() -> None:
    assert value_in_words(np.zeros((1000, 30))) == "<ndarray of shape 1000 × 30, float64>"
    assert value_in_words([np.zeros(10_000)]) == "[<ndarray of shape 10000, float64>]"
    assert value_in_words(np.arange(3)) == "array([0, 1, 2])"
    assert len(value_in_words("x" * 10_000)) <= VALUE_CHARS
    assert len(value_in_words({i: list(range(1000)) for i in range(1000)})) <= VALUE_CHARS
    loop: list[object] = []
    loop.append(loop)
    assert "..." in value_in_words(loop)


def test_a_repr_that_raises_is_told() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise ValueError("no")

    assert value_in_words([Bad()]) == "[<Bad whose __repr__ raised ValueError>]"


def test_many_variables_and_many_frames_are_cut() -> None:
    names = [f"v{i}" for i in range(100)]
    namespace: dict[str, object] = {}
    exec("def many():\n" + "".join(f"    {name} = 1\n" for name in names) + "    1 / 0", namespace)
    assert frames_of(namespace["many"])[-1][1].splitlines()[-1] == f"… {100 - N_VARIABLES} more"

    def down(n: int) -> float:
        return 1 / 0 if n == 0 else down(n - 1)

    assert len(frames_of(down, 200)) == N_FRAMES


def test_time_is_limited() -> None:
    clock = itertools.count(0.0, 0.1)
    described = frames_of(outer, 3, clock=lambda: next(clock))
    assert sum(text.count(" = ") for _, text in described) <= 5 and described[-1][1].startswith("y = 7")
