"""What cannot be pickled is named: the variable, the way to the member, the remedy."""

from __future__ import annotations

import gc
import threading
import traceback
import types
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from cellmesh.objstore import serialization

from cellmesh.errors.serializability import captured, find_path, inspect_serializability, pickling_error

LOCK = threading.Lock()


class Session:
    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass
class Model:
    name: str = "m"
    parts: dict[str, Any] = field(default_factory=dict)


class Slotted:
    __slots__ = ("inner", "unset")

    def __init__(self, inner: object) -> None:
        self.inner = inner


class Temporary:
    """Its state holds something that it is not itself made of."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ([("lock", threading.Lock())],)


class Refuses:
    def __reduce__(self) -> tuple[Any, ...]:
        raise RuntimeError("never")


def local_function(body: str, **names: object) -> Any:
    """A function that pickles by value, as one from a notebook cell does."""
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(body, namespace)
    return namespace["f"]


@pytest.mark.parametrize(
    "value, path",
    [
        (threading.Lock(), "v"),
        ({"a": [1, (2, threading.Lock())]}, "v['a'][1][1]"),
        (Session(), "v.lock"),
        (Model(parts={"s": Session()}), "v.parts['s'].lock"),
        (Slotted(Session()), "v.inner.lock"),
        (deque([1, Session()]), "v[1].lock"),
        (types.SimpleNamespace(x=Session()), "v.x.lock"),
        ({1: (i for i in ())}, "v[1]"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_the_way_to_the_culprit(value: object, path: str) -> None:
    found = inspect_serializability(value, "v")
    assert not found
    assert [failure.path for failure in found.failures] == [path]


def test_what_can_be_pickled_is_true() -> None:
    found = inspect_serializability({"a": [1, 2]}, "v")
    assert found and str(found) == "v can be pickled."


def test_all_culprits_are_found() -> None:
    found = inspect_serializability({"a": Session(), "b": [threading.Lock(), open], "c": (i for i in ())}, "v")
    assert {failure.path for failure in found.failures} == {"v['a'].lock", "v['b'][0]", "v['c']"}


def test_cycles_end() -> None:
    a: list[Any] = [1]
    a.append({"again": a, "session": Session()})
    assert inspect_serializability(a, "a").failures[0].path == "a[1]['session'].lock"


def test_a_function_is_told_by_what_it_captures() -> None:
    f = local_function("def f():\n    return model.parts['s']", model=Model(parts={"s": Session()}))
    found = inspect_serializability(f)
    assert found.name == "f"
    assert found.failures[0].path == "model (which f uses).parts['s'].lock"
    assert "lock" in found.failures[0].type_name


def test_closures_defaults_and_inner_functions_count() -> None:
    def outer(lock: Any) -> Any:
        def inner() -> Any:
            return lambda: lock

        return inner

    assert dict(captured(outer(3))) == {"lock": 3}
    f = local_function("def f(a, b=lock, *, c=other):\n    return [g for _ in a]", lock=1, other=2, g=4)
    assert dict(captured(f)) == {"b": 1, "c": 2, "g": 4}


def test_attribute_names_are_no_globals() -> None:
    f = local_function("def f(x):\n    return x.lock", lock=LOCK)
    assert captured(f) == []


def test_what_pickling_makes_on_the_way_is_said_to_be_so() -> None:
    found = inspect_serializability([Temporary()], "v")
    assert "v[0]" in found.failures[0].path and "lock" in found.failures[0].type_name


def test_what_the_class_itself_says_is_passed_on() -> None:
    found = inspect_serializability({"r": Refuses()}, "v")
    assert found.failures[0].path == "v['r']" and found.failures[0].reason == "RuntimeError: never"


def test_the_error_names_the_variable_of_the_caller() -> None:
    my_model = Model(parts={"s": Session()})
    reason = TypeError("cannot pickle '_thread.lock' object")
    error = pickling_error(my_model, reason)
    assert str(error).startswith(
        "my_model cannot be sent to another process: my_model.parts['s'].lock is a _thread.lock: "
    )
    assert "inside the function" in str(error)


def test_no_property_is_run() -> None:
    class Careful:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        @property
        def explosive(self) -> None:
            raise AssertionError("a property was run")

    assert find_path(Careful(), object(), "c") is None


def test_it_is_cheap_for_large_values() -> None:
    value = {"numbers": list(range(100_000)), "session": Session()}
    assert inspect_serializability(value, "v").failures[0].path == "v['session'].lock"


# ---------------------------------------------------------------- bounds
def nested(wrap: Any, n: int = 200_000) -> Any:
    value = wrap([])
    for _ in range(n):
        value = wrap(value)
    return value


class Holder:
    def __init__(self, inner: object) -> None:
        self.inner = inner


@pytest.mark.parametrize(
    "wrap", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, Holder], ids=["list", "tuple", "dict", "object"]
)
def test_what_is_too_deep_is_told_by_the_ends_of_the_way(wrap: Any) -> None:
    deep = nested(wrap)
    text = str(pickling_error(deep, RecursionError("too deep")))
    assert (
        text.startswith("deep cannot be sent to another process: deep") and " levels ...]" in text and len(text) < 1000
    )
    assert "deeper than pickle can follow" in text and "flat form" in text
    assert "levels" in str(pickling_error([deep], RecursionError("too deep"))), "where nobody has a name for it, too"


class Large:
    """Makes something large on the way, and something that cannot be pickled."""

    made: list[weakref.ref[Any]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        large = np.ones(1 << 18)
        Large.made.append(weakref.ref(large))
        return print, (large, threading.Lock())


def test_what_is_made_on_the_way_is_made_seldom_and_not_kept() -> None:
    Large.made.clear()
    gc.disable()
    try:
        large = Large()
        with pytest.raises(TypeError) as raised:
            try:
                serialization.pickle(large)
            except TypeError as reason:
                error = pickling_error(large, reason)
            raise error
        assert str(raised.value).startswith(
            "large cannot be sent to another process: large is a "
        ) and "(inside it, a _thread.lock)" in str(raised.value)
        assert 1 < len(Large.made) <= 3 and not any(made() is not None for made in Large.made), (
            "although the error is still held"
        )
    finally:
        gc.enable()


class Talks:
    def __repr__(self) -> str:
        return "talks " * 1_000_000

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(repr(self))


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


class RaisesMute:
    def __reduce__(self) -> tuple[Any, ...]:
        raise Mute


@pytest.mark.parametrize(
    "value",
    [
        Talks(),
        {Talks(): threading.Lock()},
        {"k" * 10_000_000: threading.Lock()},
        RaisesMute(),
        type("T" * 1_000_000, (), {"__reduce__": lambda self: 1 / 0})(),
    ],
    ids=["says", "key", "text", "mute", "class"],
)
def test_however_much_it_says_the_error_is_short(value: object) -> None:
    with pytest.raises(Exception) as raised:
        serialization.pickle(value)
    error = pickling_error(value, raised.value, "v")
    assert str(error).startswith("v cannot be sent to another process: ")
    assert len("".join(traceback.format_exception(error))) < 10_000
    assert len(str(inspect_serializability(value, "v"))) < 5_000
