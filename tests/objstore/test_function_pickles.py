"""Cached functions, functions that choose by type, and cached properties of a notebook, as values and as code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from cellmesh.objstore import code_pickles, function_pickles

CELL = '''
import functools

@functools.lru_cache(maxsize=7, typed=True)
def fib(n):
    """Says so."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib.mark = [1]

@functools.singledispatch
def kind(x):
    """Kinds."""
    return "other"
@kind.register
def _(x: int | float): return "number"
@kind.register(list)
def _(x): return "list of " + kind(x[0])
kind.mark = 2

class Grid:
    def __init__(self): self.own = functools.cache(self.plain)
    def plain(self, k): return k + 1
    @functools.lru_cache(maxsize=8)
    def scaled(self, k): return 3 * k
    @functools.cached_property
    def total(self):
        """In all."""
        return self.scaled(2)
    @functools.singledispatchmethod
    def show(self, x): return "any"
    @show.register
    def _(self, x: int): return "int"

class Property(functools.cached_property): pass
class Derived(Grid):
    @Property
    def more(self): return 1
power = functools.cache(functools.partial(pow, exp=3))
'''


@pytest.fixture
def cell() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, names)
    return names


def test_a_cached_function_begins_with_an_empty_cache(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    cell["fib"](9)
    back = travelled(cell["fib"])
    assert type(back) is function_pickles.Cached and back is not cell["fib"]
    assert back.cache_info() == (0, 0, 7, 0) and back.cache_parameters() == {"maxsize": 7, "typed": True}
    assert back(20) == 6765
    assert back.cache_info().currsize == 7  # which its calls of itself have filled: it is within itself
    assert (back.__name__, back.__qualname__, back.__module__, back.__doc__, back.mark) == (
        "fib", "fib", "__main__", "Says so.", [1],
    )  # fmt: skip


def test_a_cached_function_stays_one_beside_itself(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    one, other, within = travelled((cell["fib"], cell["fib"], cell["fib"].__wrapped__))
    assert one is other and one.__wrapped__ is within


def test_a_cached_partial(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    assert travelled(cell["power"])(2) == 8


def test_what_can_be_imported_goes_by_its_name(travelled: Callable[[Any], Any], monkeypatch: Any) -> None:
    module = ModuleType("a_module")
    monkeypatch.setitem(sys.modules, "a_module", module)
    exec(CELL, vars(module))
    for name in ("fib", "kind"):
        assert travelled(getattr(module, name)) is getattr(module, name)


def test_a_function_that_chooses_by_type(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    kind = cell["kind"]
    calls: tuple[Any, ...] = (3, [1], "a", 1.5, [[2]])
    want = [kind(x) for x in calls]  # which fills its cache
    back = travelled(kind)
    assert back is not kind and [back(x) for x in calls] == want
    assert (back.__name__, back.__doc__, back.__module__, back.mark) == ("kind", "Kinds.", "__main__", 2)
    assert back.__wrapped__("a") == "other" and set(back.registry) == {object, int, float, list}
    back.register(str, lambda x: "text")
    assert (back("a"), back(["a"]), kind("a")) == ("text", "list of text", "other")
    with pytest.raises(TypeError, match="kind requires at least 1 positional argument"):
        back()


def test_what_it_chose_for_does_not_travel(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    class Unpicklable(type):
        def __reduce_ex__(cls, protocol: Any) -> Any:
            raise AssertionError("is not a part of it")

    cell["kind"](Unpicklable("Other", (), {})())
    before = code_pickles.dumps(cell["kind"])
    cell["kind"](1)
    assert code_pickles.dumps(cell["kind"]) == before


@pytest.mark.parametrize("name", ["Grid", "Derived"])
def test_an_object_with_all_of_them(name: str, cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    grid = cell[name]()
    assert (grid.total, grid.scaled(4), grid.show(1)) == (6, 12, "int")
    back = travelled(grid)
    assert vars(back)["total"] == 6 and (back.scaled(4), back.show(1), back.show("")) == (12, "int", "any")
    assert (travelled(grid.show)(1), travelled(back.show)("")) == ("int", "any")
    assert back.own(1) == 2 and back.own.__wrapped__.__self__ is back
    assert travelled(grid.scaled)(5) == 15
    if name == "Derived":
        assert back.more == 1 and "more" in vars(back)


def test_a_cached_property_by_itself(cell: dict[str, Any], travelled: Callable[[Any], Any]) -> None:
    prop = travelled(vars(cell["Grid"])["total"])
    assert type(prop) is functools.cached_property and prop.attrname == "total" and prop.__doc__ == "In all."
    assert vars(prop).keys() == vars(vars(cell["Grid"])["total"]).keys()
    assert prop.__get__(cell["Grid"]()) == 6
