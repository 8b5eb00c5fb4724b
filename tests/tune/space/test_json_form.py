"""Configurations and spaces as JSON and back."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellmesh.tune import space
from cellmesh.tune.space import from_json, to_json, unstored

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),  # surrogates, too
    st.sampled_from(["$", np.float64(0.1), np.int32(3), np.bool_(True), np.float32(0.1), space.uniform(0, 1)]),
)
KEYS = st.one_of(st.sampled_from(["a", "b", "$", "\udc80"]), st.integers(0, 3), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, min_size=1, max_size=2).map(space.choice),
        st.lists(inner, min_size=1, max_size=2).map(space.grid_search),
    ),
    max_leaves=12,
)


def alike(one: Any, other: Any) -> bool:
    """The same value in the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, (space.Choice, space.Grid)):
        return all(map(alike, vars(one).values(), vars(other).values()))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))


@given(VALUES)
def test_what_has_a_form_comes_back_as_it_was(value: Any) -> None:
    form = to_json(value)
    assert not list(unstored(form))
    assert alike(from_json(json.loads(json.dumps(form, allow_nan=False))), value)
    assert alike(from_json(msgspec.json.decode(msgspec.json.encode(form))), value)


def test_what_has_none_is_marked_by_its_repr() -> None:
    form = to_json({"a": [1, dict], "b": np.arange(3), "c": space.sample_from(lambda: 1)})
    assert list(unstored(form)) == [("a", 1), ("b",), ("c",)]
    back = from_json(form)
    assert repr(back["a"][1]) == "<class 'dict'>" and isinstance(back["b"], space.Unstored)
    assert len(to_json(object.__new__(type("Long", (), {"__repr__": lambda self: "x" * 999})))["value"]) == 200


def test_a_space_is_legible() -> None:
    form = to_json({"lr": space.loguniform(1e-4, 1e-1), "n": space.choice([1, 2])})
    assert form == {
        "lr": {"$": "domain", "value": "loguniform(0.0001, 0.1)"},
        "n": {"$": "choice", "value": [1, 2]},
    }


def test_a_form_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ValueError, match="'quaternion'; a newer version wrote it"):
        from_json({"$": "quaternion", "value": 3})


def test_what_a_journal_only_shows_is_the_same_as_what_it_shows() -> None:
    def function() -> None: ...

    for value in (dict, function, np.arange(3), np.arange(999)):
        (form,) = from_json(to_json([value]))
        assert space.same(form, value) and space.same({"a": value}, {"a": form})
        assert not space.same(form, int)
    assert space.same(space.Unstored("<f at 0x7f01>"), space.Unstored("<f at 0x7f02>"))
