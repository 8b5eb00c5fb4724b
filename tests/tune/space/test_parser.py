"""Spaces from texts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cellmesh.tune import space
from cellmesh.tune.space import SpaceError, parse, parse_line


@pytest.mark.parametrize(
    "text, value",
    [
        ("loguniform(1e-4,1e-1)", space.loguniform(1e-4, 1e-1)),
        ("tune.quniform(0, 1, q=0.25)", space.quniform(0, 1, 0.25)),
        (" randint( -3 , 8 ) ", space.randint(-3, 8)),
        ("[1, 2.5, 'a', None]", space.grid_search([1, 2.5, "a", None])),
        ("[[1, 2], (3, [4])]", space.grid_search([[1, 2], (3, [4])])),
        ("choice([[1, 2], uniform(0, 1), {'a': [1], 'b': randn()}])",
         space.choice([[1, 2], space.uniform(0, 1), {"a": [1], "b": space.randn()}])),
        ("grid_search([True, False])", space.grid_search([True, False])),
        ("{'a': [1, 2], 'b': {'c': uniform(0, 1)}}", {"a": space.grid_search([1, 2]), "b": {"c": space.uniform(0, 1)}}),
        ("(1, 2)", (1, 2)),
        ("-1e3", -1000.0),
        ("-inf", -math.inf),
        ("'it''s'", "its"),
        ("True", True),
    ],
)  # fmt: skip
def test_what_a_text_may_say(text: str, value: Any) -> None:
    assert parse(text) == value


def test_the_line_of_a_magic() -> None:
    assert parse_line('lr=loguniform(1e-4,1e-1) depth=[1,2,3] act=["relu","tanh"] n=8') == {
        "lr": space.loguniform(1e-4, 1e-1),
        "depth": space.grid_search([1, 2, 3]),
        "act": space.grid_search(["relu", "tanh"]),
        "n": 8,
    }
    assert parse_line("  a=uniform(0, 1)\tb='x = \\' y'  ") == {"a": space.uniform(0, 1), "b": "x = ' y"}
    assert parse_line("") == {}


@pytest.mark.parametrize(
    "text, says",
    [
        ("logunifrom(1, 2)", ["did you mean loguniform?", "at character 1"]),
        ("relu", ["put texts in quotes: 'relu'", "there are uniform"]),
        ("choice([relu])", ["relu is no domain", "at character 9"]),
        ("uniform(2, 1)", ["lower must not be above upper"]),
        ("uniform(1)", ["missing 1 required positional argument"]),
        ("  uniform(1, 2, high=3)", ["unexpected keyword argument 'high'", "at character 3"]),
        ("[]", ["there must be at least one value"]),
        ("1 + 2", ["1 + 2 is not allowed: numbers, texts"]),
        ("open('x')", ["open is no domain"]),
        ("().__class__()", ["no domain"]),
        ("[x for x in 'abc']", ["is not allowed"]),
        ("lambda: 3", ["is not allowed"]),
        ("f'{1}'", ["is not allowed"]),
        ("b'x'", ["is not allowed"]),
        ("1j", ["is not allowed"]),
        ("...", ["is not allowed"]),
        ("-'a'", ["a sign stands before a number"]),
        ("{1: 2}", ["a key is a text in quotes"]),
        ("{**{}}", ["a key is a text in quotes"]),
        ("uniform(*[1, 2])", ["* is not allowed"]),
        ("uniform(**{})", ["** is not allowed"]),
        ("sample_from(3)", ["sample_from needs a function"]),
        ("'\u00e9' + zz", ["is not allowed"]),
        ("['\u00e9\u00e9', zz]", ["zz is no domain", "at character 8"]),
        ("", ["invalid syntax"]),
        ("(1", ["never closed", "at character 1"]),
        ("'abc", ["unterminated string"]),
        ("(" * 60 + ")" * 60, ["50 brackets"]),
        ("-" * 60 + "1", ["50 brackets"]),
        ("1" * 10_001, ["10000 characters"]),
        ("1\x00", ["at character"]),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, says: list[str]) -> None:
    with pytest.raises(SpaceError) as refused:
        parse(text)
    assert not [part for part in says if part not in str(refused.value)]


@pytest.mark.parametrize(
    "line, says",
    [
        ("lr = 3", "'lr' is not name=value, such as lr=loguniform(1e-4,1e-1), without spaces around =, at character 1"),
        ("n=1 model.lr=3", "'model.lr=3' is not name=value"),
        ("lr=3 lr=4", "lr is given twice, at character 6"),
        ("lr=", "lr: invalid syntax, at character 4"),
        ("n=1 a=[1,2", "a: '[' was never closed, at character 7"),
        ("n=1 a=uniform(0, logg)", "a: logg is no domain"),
    ],
)
def test_a_fault_of_a_line_is_named_with_its_place(line: str, says: str) -> None:
    with pytest.raises(SpaceError) as refused:
        parse_line(line)
    assert says in str(refused.value)


PIECES = [
    *space.NAMES,
    *"()[]{},:='\"\\ -+*.#",
    "1",
    "1e-4",
    "0.5",
    "None",
    "inf",
    "x",
    "lambda",
    "\n",
    "\u00e9",
    "$",
    "a=",
]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.text(max_size=20))


@given(TEXTS)
@example("a=" + "[" * 200)
@example("[].a" + ".a" * 3000 + "()")
@example("not " * 2000 + "1")
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse, parse_line):
        try:
            value = read(text)
        except SpaceError:
            continue
        assert read(text) == value or value != value or "nan" in text


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, -2.5, "x y", (1, 2), space.randint(0, 3)])))
def test_what_is_shown_can_be_read(values: dict[str, Any]) -> None:
    assert parse_line(" ".join(f"{name}={value!r}" for name, value in values.items())) == values
