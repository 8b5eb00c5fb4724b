"""Partials, bound methods, builtins and other objects that can be called, as remote functions."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cellmesh

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]


class Scaler:
    """Scales."""

    def __init__(self, factor):
        self.factor = factor

    def scale(self, x, *, twice=False):
        """Scale one."""
        return x * self.factor * (1 + twice)

    def count(self, n):
        for i in range(n):
            yield i * self.factor

    @classmethod
    def kind(cls):
        return cls.__name__

    async def later(self):
        return 1


class Power:
    def __init__(self, exponent):
        self.exponent = exponent

    def __call__(self, x):
        return x**self.exponent


class Counting:
    def __call__(self, n):
        yield from range(n)


def weighted(a, b, c=0):
    """Add them up."""
    return a + 10 * b + 100 * c


@pytest.mark.parametrize(
    ("code", "args", "result", "name"),
    [
        (partial(weighted, 1), (2,), 21, "weighted"),
        (partial(partial(weighted, c=3), 1), (2,), 321, "weighted"),
        (partial(Scaler(3).scale, twice=True), (1,), 6, "Scaler.scale"),
        (Scaler(3).scale, (2,), 6, "Scaler.scale"),
        (Scaler.kind, (), "Scaler", "Scaler.kind"),
        (Power(3), (2,), 8, "Power"),
        (partial(Power(2)), (3,), 9, "Power"),
        (len, ([1, 2],), 2, "len"),
        (math.gcd, (12, 18), 6, "gcd"),
        (operator.itemgetter(1), ([1, 2],), 2, "itemgetter"),
        ("a-b".split, ("-",), ["a", "b"], "str.split"),
        (str.upper, ("a",), "A", "upper"),
        (np.add, (1, 2), 3, "add"),
        (np.sum, ([1, 2],), 3, "sum"),
        (partial(dict, a=1), (), {"a": 1}, "dict"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.session("own")
def test_what_can_be_called_can_be_remote(
    cm: ModuleType, code: Callable, args: tuple, result: object, name: str
) -> None:
    f = cm.remote(code)
    assert cm.get(f.remote(*args)) == result
    assert cm.get(f.options(num_cpus=2).remote(*args)) == result
    assert f.__name__ == name and repr(f) == f"<remote function {name}>" and f.function is code
    assert {row["name"] for row in cm.state.list_tasks()} == {name}
    assert list(f.starmap([args] * 3, chunksize=2)) == [result] * 3

    @cm.remote
    def nested(f, args):
        return cellmesh.get(f.remote(*args))

    assert cm.get(nested.remote(f, args)) == result


def test_signatures_are_checked_where_there_are_any(cm: ModuleType) -> None:
    with pytest.raises(
        TypeError, match=r"weighted.remote\(\): too many positional arguments; the signature is weighted\(b, c=...\)"
    ):
        cm.remote(partial(weighted, 1)).remote(2, 3, 4)
    with pytest.raises(TypeError, match=r"Scaler.scale.remote\(\): got an unexpected keyword argument 'thrice'"):
        cm.remote(Scaler(1).scale).remote(2, thrice=True)
    with pytest.raises(TypeError, match=r"Power.remote\(\): missing a required argument: 'x'"):
        cm.remote(Power(1)).remote()
    with pytest.raises(TypeError):
        cm.get(cm.remote(len).remote(5))
    assert (
        cm.remote(partial(weighted, 1)).__doc__ == "Add them up." and cm.remote(Scaler(1).scale).__doc__ == "Scale one."
    )


def test_those_that_yield_are_generators(cm: ModuleType) -> None:
    for code in (
        Scaler(2).count,
        partial(Scaler(2).count),
        partial(Scaler(2).count, 3),
        Counting(),
        partial(Counting()),
    ):
        refs = cm.remote(code).remote(*(() if isinstance(code, partial) and code.args else (3,)))
        assert len(cm.get(list(refs))) == 3


def test_what_changes_in_them_is_seen(cm: ModuleType) -> None:
    scaler, numbers = Scaler(2), [1, 2]
    scale, power, total = cm.remote(scaler.scale), cm.remote(p := Power(2)), cm.remote(partial(sum, numbers))
    assert cm.get([scale.remote(1), power.remote(3), total.remote()]) == [2, 9, 3]
    scaler.factor, p.exponent = 5, 3
    numbers.append(4)
    assert cm.get([scale.remote(1), power.remote(3), total.remote()]) == [5, 27, 7]


def test_a_large_one_is_told_by_what_it_holds(cm: ModuleType) -> None:
    with pytest.warns(
        cm.exceptions.LargeClosureWarning, match="'weighted' captures 16 MB, most of it in 'argument 1 of its partial'"
    ):
        cm.get(cm.remote(partial(weighted, np.zeros(2_000_000))).remote(1))
    with pytest.raises(TypeError, match="lock"):
        import threading

        cm.remote(partial(weighted, threading.Lock())).remote(1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: cellmesh.remote(5), "needs a function or a class, not 5"),
        (lambda: cellmesh.remote(Scaler(1).later), "'Scaler.later' is an async function"),
        (lambda: cellmesh.remote(partial(Scaler(1).later)), "'Scaler.later' is an async function"),
        (lambda: cellmesh.remote(cellmesh.remote(weighted)), "is remote already"),
        (
            lambda: cellmesh.remote(partial(cellmesh.remote(weighted), 1)),
            r"make it of the plain function.*weighted.function",
        ),
        (lambda: cellmesh.remote(cellmesh.remote(Scaler).remote(1).scale), "is remote already"),
    ],
)
def test_what_cannot_be_made_remote_says_why(cm: ModuleType, make: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


NOTEBOOK = """
import functools

@functools.cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)

@functools.singledispatch
def kind(x): return "other"

@kind.register
def _(x: int): return "int"

def both(x): return fib(20), kind(x), kind("")

class Lazy:
    @functools.cached_property
    def value(self): return fib(30)
    def get(self): return self.value
"""


def test_cached_functions_and_those_that_choose_by_type(cm: ModuleType) -> None:
    names = {"__name__": "__main__"}
    exec(NOTEBOOK, names)
    fib, kind, both, lazy = (names[name] for name in ("fib", "kind", "both", "Lazy"))
    assert cm.get(cm.remote(fib).remote(30), timeout=30) == 832040
    assert cm.get(cm.remote(lambda f, x: f(x)).remote(kind, 3), timeout=30) == "int"
    assert cm.get(cm.remote(lazy).remote().get.remote(), timeout=30) == 832040
    task = cm.remote(both)
    assert cm.get(task.remote(3), timeout=30) == (6765, "int", "other")


def test_a_cache_that_fills_is_no_change_and_a_function_for_another_type_is_one(cm: ModuleType) -> None:
    names = {"__name__": "__main__"}
    exec(NOTEBOOK, names)
    task = cm.remote(names["both"])
    assert cm.get(task.remote(""), timeout=30) == (6765, "other", "other")
    made = task._export.made
    assert names["both"](1.5) == names["both"](None)
    assert cm.get([task.remote("") for _ in range(9)], timeout=30) == [(6765, "other", "other")] * 9
    assert task._export.made is made
    names["kind"].register(str, lambda x: "text")
    assert cm.get(task.remote(""), timeout=30) == (6765, "text", "text")
    assert task._export.made is not made


DECORATED = """
import functools

@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@functools.singledispatch
def kind(x):
    return "other"
@kind.register
def _(x: list):
    return "list of " + str(fib(len(x)))

def counted(f):
    @functools.wraps(f)
    def inner(x):
        inner.calls += 1
        return f(x), inner.calls
    inner.calls = 0
    return inner

@counted
def doubled(x):
    return 2 * x
"""


@pytest.mark.parametrize(
    ("name", "x", "result"), [("fib", 30, 832040), ("kind", [0] * 10, "list of 55"), ("doubled", 4, (8, 1))]
)
def test_a_decorated_function_of_the_program_goes_everywhere(
    cm: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, x: object, result: object
) -> None:
    """Such an object is found by its name in `__main__`, which is another module in a worker."""
    program = sys.modules["__main__"]
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(DECORATED, names)
    for key in ("fib", "kind", "counted", "doubled"):
        monkeypatch.setattr(program, key, names[key], raising=False)
    code = names[name]

    class Holder:
        def __init__(self, f: Callable) -> None:
            self.f = f

        def call(self, x: object) -> object:
            return self.f(x)

        def call_other(self, f: Callable, x: object) -> object:
            return f(x)

    actor = cm.remote(Holder).remote(code)
    ways = {
        "as the task": cm.remote(code).remote(x),
        "as an argument": cm.remote(lambda f, x: f(x)).remote(code, x),
        "by ref": cm.remote(lambda f, x: f(x)).remote(cm.put(code), x),
        "captured": cm.remote(lambda x: code(x)).remote(x),
        "in an actor": actor.call.remote(x),
        "to an actor": actor.call_other.remote(code, x),
        "bound": cm.remote(Holder(code).call).remote(x),
    }
    assert {way: cm.get(ref, timeout=60) for way, ref in ways.items()} == dict.fromkeys(ways, result)
    sent = cm.get(cm.remote(lambda: code).remote())
    assert sent(x) == result, "and comes back"
