"""Ranks and coordinates, and which of them an index means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellmesh.groups.shape import Shape, places, ranks_in_words, shape_of


def test_the_last_dimension_varies_fastest() -> None:
    grid = shape_of(None, {"dp": 2, "pp": 4}, "group(Stage)")
    assert [grid.coordinates(rank) for rank in (0, 1, 4, 7)] == [
        {"dp": 0, "pp": 0},
        {"dp": 0, "pp": 1},
        {"dp": 1, "pp": 0},
        {"dp": 1, "pp": 3},
    ]
    assert list(grid.coordinates(0)) == ["dp", "pp"]
    assert shape_of(3, None, "group(Stage)").coordinates(2) == {}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_coordinates_are_those_of_an_array(sizes: list[int]) -> None:
    shape = shape_of(None, {f"d{i}": n for i, n in enumerate(sizes)}, "group(Stage)")
    array = np.arange(shape.size).reshape(sizes)
    for rank in range(shape.size):
        assert array[tuple(shape.coordinates(rank).values())] == rank


@pytest.mark.parametrize(
    "wanted, ranks",
    [
        ({"pp": 0}, [0, 4]),
        ({"dp": 1}, [4, 5, 6, 7]),
        ({"dp": 1, "pp": 3}, [7]),
        ({"pp": -1}, [3, 7]),
        ({"pp": [0, 3]}, [0, 3, 4, 7]),
        ({"pp": slice(2)}, [0, 1, 4, 5]),
    ],
)
def test_at_finds_by_name(wanted: dict[str, Any], ranks: list[int]) -> None:
    grid = Shape(8, (("dp", 2), ("pp", 4)))
    assert grid.at(range(8), wanted) == ranks
    assert grid.at([7, 0], wanted) == [rank for rank in (7, 0) if rank in ranks]


@pytest.mark.parametrize(
    "shape, wanted, error, words",
    [
        (Shape(8), {"pp": 0}, TypeError, "this group is a row"),
        (Shape(8, (("pp", 8),)), {}, TypeError, "needs a coordinate at least, of pp=8"),
        (Shape(8, (("pp", 8),)), {"tp": 0}, ValueError, "the dimensions of the group are pp=8"),
        (Shape(8, (("pp", 8),)), {"pp": 8}, IndexError, r"at\(pp=8\): out of range, there are 8 places \(0 to 7\)"),
        (Shape(8, (("pp", 8),)), {"pp": "0"}, TypeError, "a whole number, a list of them or a slice"),
    ],
)
def test_at_refuses(shape: Shape, wanted: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        shape.at(range(8), wanted)


@pytest.mark.parametrize(
    "index, found",
    [(0, [0]), (-1, [4]), (slice(1, 3), [1, 2]), ([4, 0], [4, 0]), (np.array([1, -1]), [1, 4]), (np.int64(2), [2])],
)
def test_places(index: Any, found: list[int]) -> None:
    assert places(index, 5, "group[...]") == found


@pytest.mark.parametrize(
    "index, error", [(5, IndexError), ([0, 5], IndexError), (True, TypeError), (1.0, TypeError), ([0, -5], ValueError)]
)
def test_places_that_are_not_there(index: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"group\[\.\.\.\]"):
        places(index, 5, "group[...]")


@pytest.mark.parametrize(
    "n, dims, error, words",
    [
        (None, None, TypeError, "needs a number of members"),
        (0, None, ValueError, "a whole number >= 1, not 0"),
        (2.5, None, TypeError, "a whole number >= 1, not 2.5"),
        (True, None, TypeError, "not True"),
        (None, {}, TypeError, "a dict of dimensions"),
        (None, {"dp": 0}, ValueError, "dp=0 must be a whole number >= 1"),
        (None, {"d p": 2}, ValueError, "must be a name"),
        (6, {"dp": 2, "pp": 4}, ValueError, "6 members do not fit the shape dp=2, pp=4, which has 8"),
    ],
)
def test_shapes_without_sense(n: Any, dims: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        shape_of(n, dims, "group(Stage)")


def test_a_number_and_a_shape_may_agree() -> None:
    assert shape_of(8, {"dp": 2, "pp": 4}, "group(Stage)") == Shape(8, (("dp", 2), ("pp", 4)))


def test_ranks_in_words() -> None:
    assert ranks_in_words((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"
    assert ranks_in_words(()) == "none"
