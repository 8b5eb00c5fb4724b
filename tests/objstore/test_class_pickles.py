"""Classes of a notebook whose base or metaclass has a part in making each new class, loaded by another process."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import pytest
from cellmesh.objstore import class_pickles, code_pickles, serialization
from cloudpickle import cloudpickle

LIBRARY = """
names = []
class Plain:
    def __init_subclass__(cls, **keywords): names.append(cls.__name__)
class Wanting:
    def __init_subclass__(cls, key): pass
class WantingMeta(type):
    def __new__(mcs, name, bases, namespace, *, table): return super().__new__(mcs, name, bases, namespace)
    def __init__(cls, name, bases, namespace, **keywords): pass
"""
CELL = """
import abc, enum
import a_library

class Registry:
    known = {}
    def __init_subclass__(cls, key, **keywords):
        super().__init_subclass__(**keywords)
        if key in Registry.known:
            raise RuntimeError(f"{key} is registered already")
        Registry.known[key] = cls
class First(Registry, key="first"): value = 1
class Second(First, key="second"): value = 2

class Named(a_library.Plain):
    def __init_subclass__(cls, *, title):
        super().__init_subclass__()
        cls.title = title
class Book(Named, title="a book"): pass

class Passing(a_library.Wanting, key=1):
    def __init_subclass__(cls): super().__init_subclass__(key=2)
class Passed(Passing): pass
class Lost(a_library.Wanting, key=3): pass
class LostTable(metaclass=a_library.WantingMeta, table=1): pass

class Final(type):
    made = []
    def __prepare__(name, bases, **keywords): return {"prepared": True}
    def __new__(mcs, name, bases, namespace, *, table):
        assert "column" in namespace
        return super().__new__(mcs, name, bases, {**namespace, "table": table})
    def __init__(cls, name, bases, namespace, *, table):
        Final.made.append(name)
    def __setattr__(cls, name, value): raise AttributeError(f"{name} is final")
class Row(metaclass=Final, table="rows"): column = 3

class AbstractFinal(abc.ABCMeta):
    def __new__(mcs, name, bases, namespace, *, table): return super().__new__(mcs, name, bases, namespace)
    def __init__(cls, name, bases, namespace, *, table): super().__init__(name, bases, namespace)
class Shape(metaclass=AbstractFinal, table="shapes"):
    @abc.abstractmethod
    def area(self): ...

class Keyed(enum.Enum):
    def __init_subclass__(cls, key): cls.keys = [key]
class Color(Keyed, key="c"): RED = 1
"""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    library = ModuleType("a_library")
    monkeypatch.setitem(sys.modules, "a_library", library)
    exec(LIBRARY, vars(library))
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, names)
    return names


def by_values(value: Any) -> bytes:
    data, buffers = serialization.pickle(value)
    assert not buffers
    return data


@pytest.fixture(params=[by_values, code_pickles.dumps])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Pickles, and loads with no memory of any class, as another process does."""

    def travel(value: Any) -> Any:
        data = request.param(value)
        monkeypatch.setattr(cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", WeakValueDictionary())
        monkeypatch.setattr(cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", WeakKeyDictionary())
        return pickle.loads(data)

    return travel


@pytest.mark.parametrize("name", ["First", "Second", "Registry"])
def test_a_class_that_registers_itself_is_registered_there_once(
    name: str, cell: dict[str, Any], elsewhere: Callable[[Any], Any]
) -> None:
    registry, back = elsewhere((cell["Registry"], cell[name]))
    assert registry is not cell["Registry"]
    assert {key: cls.value for key, cls in registry.known.items()} == {"first": 1, "second": 2}
    assert back is {"First": registry.known["first"], "Second": registry.known["second"], "Registry": registry}[name]
    with pytest.raises(RuntimeError, match="first is registered already"):
        type("Third", (registry,), {}, key="first")


def test_a_class_that_comes_back_is_the_same_and_not_made_again(cell: dict[str, Any]) -> None:
    assert serialization.unpickle(*serialization.pickle(cell["First"])) is cell["First"]
    assert cell["Registry"].__subclasses__() == [cell["First"]]


def test_a_base_that_is_imported_takes_part_and_that_of_the_notebook_does_not(
    cell: dict[str, Any], elsewhere: Callable[[Any], Any]
) -> None:
    names = sys.modules["a_library"].names
    del names[:]
    assert elsewhere(cell["Book"]).title == "a book"
    assert names == ["Named", "Book"]


def test_a_base_that_gives_an_imported_one_what_it_wants_runs(cell: dict[str, Any]) -> None:
    parts = cloudpickle._class_reduce(cell["Passed"])
    assert class_pickles.restored(cell["Passed"], parts) is parts


@pytest.mark.parametrize(
    ("name", "wants"),
    [("Lost", "Wanting.__init_subclass__ wants key"), ("LostTable", "WantingMeta.__new__ wants table")],
)
def test_what_an_imported_one_was_given_is_lost_and_the_error_says_so(
    name: str, wants: str, cell: dict[str, Any], elsewhere: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match=f"{wants}, which the class statement of {name} gave .* define that class in"):
        elsewhere(cell[name])


def test_a_metaclass_with_keywords_of_its_own(cell: dict[str, Any], elsewhere: Callable[[Any], Any]) -> None:
    row = elsewhere(cell["Row"])
    final = type(row)
    assert row is not cell["Row"] and (row.column, row.table, row.prepared) == (3, "rows", True)
    assert final.made == ["Row"]
    lines = [getattr(cls, "__firstlineno__", None) for cls in (row, cell["Row"])]  # as of Python 3.13
    assert lines[0] == lines[1]
    with pytest.raises(AttributeError, match="column is final"):
        row.column = 4
    assert final("New", (), {"column": 1}, table="new").table == "new"


def test_a_metaclass_derived_from_that_of_abstract_classes(
    cell: dict[str, Any], elsewhere: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match="abstract"):
        elsewhere(cell["Shape"])()


def test_an_enum_of_a_base_with_keywords(cell: dict[str, Any], elsewhere: Callable[[Any], Any]) -> None:
    color = elsewhere(cell["Color"])
    assert color.RED.value == 1 and color.keys == ["c"]


def test_a_class_statement_in_another_thread_meanwhile_is_registered(
    cell: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    third = type("Third", (cell["Registry"],), {}, key="third")
    data = by_values(third)
    del cell["Registry"].known["third"]
    tracker_id = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.pop(third)
    del cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[tracker_id]  # it comes from elsewhere

    came, go = threading.Event(), threading.Event()
    make = cloudpickle._make_skeleton_class

    def wait(*args: Any) -> type:
        came.set()
        assert go.wait(20)
        return make(*args)

    monkeypatch.setattr(cloudpickle, "_make_skeleton_class", wait)
    with ThreadPoolExecutor(1) as threads:
        loading = threads.submit(pickle.loads, data)
        assert came.wait(20)
        known = cell["Registry"].known
        fourth = type("Fourth", (cell["Registry"],), {}, key="fourth")
        go.set()
        assert issubclass(loading.result(20), cell["Registry"])
    assert known["fourth"] is fourth and "third" not in known
    with pytest.raises(TypeError, match="key"):
        type("Fifth", (cell["Registry"],), {})


ANNOTATED = """
class Node:
    value: Later
    name: str = ""
    def add(self, other: Later) -> Later: return other + 1
"""


def test_annotations_travel(
    elsewhere: Callable[[Any], Any], annotated: Callable[[str], tuple[dict[str, Any], Any]]
) -> None:
    names, later = annotated(ANNOTATED)
    node = elsewhere(names["Node"])
    assert node is not names["Node"] and node.__annotations__["value"] == later
    assert node.add.__annotations__["other"] == later and node().add(1) == 2
