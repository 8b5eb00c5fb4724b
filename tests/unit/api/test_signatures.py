"""Calls are checked where they are made: the numbers given to C must agree with Python's own binding of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellmesh.submit.signatures import call_check, quick_check, signature_of, spec_of


def plain(a, b=2): ...
def keyword_only(a, *, b, c=3): ...
def anything(*args, **kwargs): ...
def some(a, *rest, b=1, **more): ...
def positional_only(a, b=1, /, c=2, *, d): ...
def nothing(): ...


FUNCTIONS = [plain, keyword_only, anything, some, positional_only, nothing]


def quick_says_yes(numbers: tuple, n_args: int, names: set[str]) -> bool:
    """What the C core concludes from the numbers."""
    n_required, n_max, positions, required_names, any_keyword = numbers
    if n_max >= 0 and n_args > n_max:
        return False
    if not names:
        return n_args >= n_required and not required_names
    given = set()
    for name in names:
        at = positions.get(name)
        if at is None:
            if not any_keyword:
                return False
        elif 0 <= at < n_args:
            return False
        elif at >= 0:
            given.add(at)
    return required_names <= names and all(i in given for i in range(n_args, n_required))


def fits(function: Callable[..., Any], args: tuple, kwargs: dict) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


@given(st.sampled_from(FUNCTIONS), st.integers(0, 4), st.sets(st.sampled_from("abcdx")))
def test_the_quick_check_never_passes_a_wrong_call(function: Callable[..., Any], n_args: int, names: set[str]) -> None:
    spec = spec_of(function)
    assert spec is not None
    args, kwargs = (0,) * n_args, dict.fromkeys(names, 0)
    if quick_says_yes(quick_check(spec), n_args, names):
        assert fits(function, args, kwargs)
    if fits(function, args, kwargs):
        call_check(spec, "f")(args, kwargs)  # whatever the quick check says, the exact one decides
    else:
        with pytest.raises(TypeError):
            call_check(spec, "f")(args, kwargs)


@pytest.mark.parametrize("function", [plain, keyword_only, anything, some, nothing])
def test_the_quick_check_passes_the_usual_calls(function: Callable[..., Any]) -> None:
    spec = spec_of(function)
    assert spec is not None
    numbers = quick_check(spec)
    for n_args in range(4):
        for names in [set(), {"b"}, {"b", "c"}]:
            assert quick_says_yes(numbers, n_args, names) == fits(function, (0,) * n_args, dict.fromkeys(names, 0))


def test_the_error_says_what_is_wrong_and_what_the_signature_is() -> None:
    spec = spec_of(plain)
    assert spec is not None
    words = r"plain\.remote\(\): missing a required argument: 'a'; the signature is plain\(a, b=\.\.\.\)"
    with pytest.raises(TypeError, match=words):
        call_check(spec, "plain")((), {})


def test_self_is_left_out() -> None:
    class A:
        def method(self, x, *, y=1): ...
        def odd(*args): ...

    assert str(signature_of(spec_of(A.method, skip_first=True))) == "(x, *, y=...)"
    assert str(signature_of(spec_of(A.odd, skip_first=True))) == "(*args)"


def test_a_function_without_signature_is_not_checked() -> None:
    assert spec_of(dict.fromkeys) is None or isinstance(spec_of(dict.fromkeys), tuple)
    assert spec_of(print) is not None
    assert spec_of(min) is None or spec_of(min)
