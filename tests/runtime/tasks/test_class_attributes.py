"""What is assigned to a class of the notebook is seen by the next task and the next actor, and stays assigned."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from cellmesh.objstore import class_versions, serialization

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@pytest.fixture
def cell(cm: ModuleType) -> Iterator[Callable[[str], Any]]:
    """Run code as a cell has it; the value of its variable `seen`."""
    namespace: dict[str, Any] = {"__name__": "__main__", "cm": cm, "get": cm.get}

    def run(code: str) -> Any:
        exec(code, namespace)
        return namespace.get("seen")

    yield run
    namespace.clear()
    gc.collect()


CLASSES = """
class Base:
    k = 1
class Tool(Base):
    def use(self):
        return self.k
@cm.remote
def task():
    return Tool().use()
@cm.remote
def given(x):
    return x.use()
@cm.remote
class Worker(Base):
    def own(self):
        return self.k
    def tool(self):
        return Tool().use()
    def given(self, x):
        return x.use()
def all_of():
    worker = Worker.remote()
    return get([worker.own.remote(), worker.tool.remote(), worker.given.remote(Tool()), task.remote(),
                given.remote(Tool())])
seen = [all_of(), all_of()]
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("Base.k = 5", [5, 5, 5, 5, 5]),
        ("Tool.k = 5", [1, 5, 5, 5, 5]),
        ("Worker.k = 5", [5, 1, 1, 1, 1]),
        ("Tool.use = lambda self: 7", [1, 7, 7, 7, 7]),
        ("Worker.own = lambda self: 7", [7, 1, 1, 1, 1]),
        ("Tool.k = property(lambda self: 7)", [1, 7, 7, 7, 7]),
    ],
)
def test_attributes_of_classes_and_of_their_bases(cell: Any, change: str, expected: list[int]) -> None:
    assert cell(CLASSES) == [[1] * 5] * 2
    assert cell(f"{change}\nseen = [all_of() for _ in range(3)]") == [expected] * 3


def test_a_deleted_attribute_is_gone_in_processes_that_had_it(cell: Any) -> None:
    cell(CLASSES)
    assert cell("Tool.k = Worker.k = 5\nseen = [all_of() for _ in range(2)]") == [[5] * 5] * 2
    assert cell("del Tool.k, Worker.k\nseen = [all_of() for _ in range(3)]") == [[1] * 5] * 3


@pytest.mark.parametrize("old", ["cm.put(Tool())", "make.remote()", "Holder.remote().make.remote()"])
def test_an_old_value_brings_nothing_back(cell: Any, old: str) -> None:
    """Neither in the notebook nor in a worker that has a newer state, whatever it comes to."""
    cell(
        "class Tool:\n    k = 1\n    def use(self):\n        return self.k, Tool.k\n"
        "@cm.remote\ndef make():\n    return Tool()\n"
        "@cm.remote\nclass Holder:\n    def make(self):\n        return Tool()\n"
        "@cm.remote\ndef use(x):\n    return x.use()\n"
        "@cm.remote\ndef use_named(x):\n    return *x.use(), Tool.k\n"
        "@cm.remote\ndef use_both(x, y):\n    return x.use(), y.use()\n"
        "@cm.remote\nclass User:\n    def use(self, x):\n        return *x.use(), Tool.k\n"
        f"old = {old}\ncm.wait([old])\nseen = get(use.remote(old))"
    )
    assert cell("Tool.k = 5\nseen = get(old).use(), Tool.k") == ((5, 5), 5)
    assert cell("seen = get(use.remote(old))") == (1, 1), "no process has heard of the change"
    assert cell("seen = get([use_named.remote(old), User.remote().use.remote(old)])") == [(5, 5, 5)] * 2
    assert cell("new = cm.put(Tool())\nseen = get([use.remote(new) for _ in range(8)])") == [(5, 5)] * 8
    seen = cell("seen = get([use_both.remote(*pair) for pair in ((new, old), (old, new)) * 4])")
    assert seen == [((5, 5), (5, 5))] * 8, "the newest counts"


def test_what_a_task_sets_on_a_class_does_not_come_back_with_its_value(cell: Any) -> None:
    assert cell(
        "class Tool:\n    k = 1\n@cm.remote\ndef change():\n    Tool.k = 9\n    return Tool()\n"
        "tool = get(change.remote())\nseen = Tool.k, tool.k, type(tool) is Tool"
    ) == (1, 1, True)


def test_old_exceptions_bring_nothing_back(cell: Any) -> None:
    assert (
        cell(
            "class Error(Exception):\n    k = 1\n@cm.remote\ndef fail():\n    raise Error\nref = fail.remote()\n"
            "cm.wait([ref])\nError.k = 2\ntry:\n    get(ref)\nexcept Error:\n    seen = Error.k"
        )
        == 2
    )


def test_enumerations(cell: Any) -> None:
    cell(
        "import enum\nclass Color(enum.Enum):\n    RED = 1\n    def use(self):\n        return self.value\n"
        "@cm.remote\ndef task():\n    return Color.RED.use(), Color(1).name\n"
        "@cm.remote\nclass Worker:\n    def use(self):\n        return Color.RED.use(), Color(1).name\n"
        "def both():\n    return get([task.remote(), Worker.remote().use.remote()])\nboth()"
    )
    assert cell("Color.use = lambda self: 7\nseen = both()") == [(7, "RED")] * 2


def test_calls_of_a_new_actor_are_those_that_its_class_has_then(cell: Any) -> None:
    cell(
        "class Base:\n    def __init__(self):\n        self.x = 0\n@cm.remote\nclass Worker(Base):\n"
        "    def one(self):\n        return 1\nNamed = Worker.options(num_cpus=0)\n"
        "old = Worker.remote()\nseen = get([old.one.remote(), Named.remote().one.remote()])"
    )
    cell("def init(self, x):\n    self.x = x\nBase.__init__ = init\nWorker.one = lambda self, y: (self.x, y)")
    cell("Base.two = lambda self: 2")
    assert (
        cell(
            "seen = []\nfor made in (Worker, Named):\n    worker = made.remote(7)\n"
            "    seen.append(get([worker.one.remote(3), worker.two.remote()]))"
        )
        == [[(7, 3), 2]] * 2
    )
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        cell("Worker.remote()")
    with pytest.raises(AttributeError, match="has no method 'two'"):
        cell("old.two.remote()")


def test_a_class_has_one_pickle_as_long_as_nothing_is_assigned() -> None:
    class Tool:
        k = 1

    pickles = [serialization.pickle(Tool())[0] for _ in range(3)]
    assert len(set(pickles)) == 1, "arguments share objects by their bytes"
    Tool.k = 2
    assert serialization.pickle(Tool())[0] != pickles[0]
    assert serialization.unpickle(pickles[0], []).k == 2


def test_versions_keep_no_class() -> None:
    class Tool:
        k = 1

    serialization.pickle(Tool())
    gone, n_made = weakref.ref(Tool), len(class_versions._made)
    del Tool
    gc.collect()
    assert gone() is None
    assert len(class_versions._made) < n_made
