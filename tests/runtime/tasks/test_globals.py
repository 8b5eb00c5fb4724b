"""A call sees the variables that its function reads as they are at the call."""

from __future__ import annotations

import gc
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cellmesh.objstore._core import Watch

from cellmesh.exceptions import ChangedInPlaceWarning
from cellmesh.session.current import current
from cellmesh.submit.class_states import LoadedClasses

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
limit = 1


@pytest.fixture
def cell(cm: ModuleType) -> Iterator[Callable[[str], Any]]:
    """Run code as a cell or script has it; the value of the last line's variable `seen`."""
    namespace: dict[str, Any] = {"__name__": "__main__", "cm": cm, "np": np, "types": types, "get": cm.get}

    def run(code: str) -> Any:
        exec(code, namespace)
        return namespace.get("seen")

    run.namespace = namespace
    yield run
    namespace.clear()
    gc.collect()


READERS = {
    "itself": "@cm.remote\ndef f():\n    return x",
    "through a function": "def helper():\n    return x\n@cm.remote\ndef f():\n    return helper()",
    "through a remote function": "@cm.remote\ndef g():\n    return x\n@cm.remote\ndef f():\n    return "
    "cm.get(g.remote())",
    "through an inner function": "@cm.remote\ndef f():\n    return [x for _ in range(1)][0] if True else (lambda: x)()",
    "through a class": "class Of:\n    def see(self):\n        return x\n@cm.remote\ndef f():\n    return Of().see()",
    "through a base": "class Base:\n    def see(self):\n        return x\nclass Of(Base):\n    pass\n@cm.remote\ndef "
    "f():\n    return Of().see()",
    "through an object": "class Of:\n    def see(self):\n        return x\nof = Of()\n@cm.remote\ndef f():\n    "
    "return of.see()",
    "through a table": "def helper():\n    return x\ntable = {'a': [helper]}\n@cm.remote\ndef f():\n    return "
    "table['a'][0]()",
    "through a decorator": "import functools\ndef twice(h):\n    @functools.wraps(h)\n    def wrapper():\n        "
    "return h()\n    return wrapper\n"
    "@cm.remote\n@twice\ndef f():\n    return x",
    "through a partial": "import functools\ndef helper(a):\n    return x\np = functools.partial(helper, 1)\n"
    "@cm.remote\ndef f():\n    return p()",
    "with options": "@cm.remote\ndef g():\n    return x\nf = g.options(name='other')",
    "from a generator": "@cm.remote\ndef g():\n    yield x\nclass f:\n    @staticmethod\n    def remote():\n        "
    "return next(g.remote())",
    "in a mutual recursion": "@cm.remote\ndef f(n=1):\n    return cm.get(g.remote(n))\n@cm.remote\ndef g(n):\n    "
    "return cm.get(f.remote(n - 1)) if n else x",
    "in an actor": "@cm.remote\nclass A:\n    def see(self):\n        return x\nclass f:\n    @staticmethod\n    def "
    "remote():\n        return A.remote().see.remote()",
}


# Workers that have sent functions which call each other keep them.
OWN = {"in a mutual recursion": pytest.mark.session("own")}


@pytest.mark.parametrize(
    "reader", [pytest.param(code, id=name, marks=OWN.get(name, ())) for name, code in READERS.items()]
)
def test_what_is_assigned_between_calls_is_seen(cell: Any, reader: str) -> None:
    assert cell(
        f"x = 1\n{reader}\nseen = [get(f.remote())]\nx = 1000\nseen.append(get(f.remote()))\n"
        "for x in range(3):\n    seen.append(get(f.remote()))"
    ) == [1, 1000, 0, 1, 2]


def test_a_sweep_submitted_at_once(cell: Any) -> None:
    assert cell(
        "@cm.remote\ndef f(k):\n    return x * k\nrefs = []\nfor x in range(20):\n    refs += [f.remote(1), "
        "f.remote(2)]\nseen = get(refs)"
    ) == [k * x for x in range(20) for k in (1, 2)]


def test_a_sweep_over_what_a_method_reads(cell: Any) -> None:
    """Copies of the code take turns in the workers, and each has its own state of the class."""
    assert cell(
        "class Of:\n    def see(self, k):\n        return x * k\n@cm.remote\ndef f(k):\n    return Of().see(k)\nrefs "
        "= []\n"
        "for x in range(1, 9):\n    refs += [f.remote(k) for k in range(20)]\nseen = get(refs)"
    ) == [x * k for x in range(1, 9) for k in range(20)]


def test_a_bound_call_sees_it_too(cell: Any) -> None:
    assert (
        cell("x = 1\n@cm.remote\ndef f():\n    return x\nf.remote()\ncall = f.remote\nx = 2\nseen = get(call())") == 2
    )


def test_closures(cm: ModuleType) -> None:
    def outer() -> tuple[Any, Callable[[int], None]]:
        value = 1

        def change(to: int) -> None:
            nonlocal value
            value = to

        @cm.remote
        def f() -> int:
            return value

        return f, change

    f, change = outer()
    assert cm.get(f.remote()) == 1
    change(2)
    assert cm.get(f.remote()) == 2


def test_a_name_that_was_not_there(cell: Any) -> None:
    assert cell(
        "@cm.remote\ndef f():\n    try:\n        return x, len('ab')\n    except NameError:\n        return None\n"
        "seen = [get(f.remote())]\nx = 1\nseen.append(get(f.remote()))\nlen = lambda s: 7\n"
        "seen.append(get(f.remote()))\n"
        "del x\nseen.append(get(f.remote()))"
    ) == [None, (1, 2), (1, 7), None]


def test_functions_of_modules_that_are_remote(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    @cm.remote
    def f() -> int:
        return limit

    assert cm.get(f.remote()) == 1
    monkeypatch.setitem(globals(), "limit", 5)
    assert cm.get(f.remote()) == 5


IN_PLACE = {
    "a list": ("x = [1]", "x.append(2)", "len(x)"),
    "an item of a list": ("x = [1, 2]", "x[0] = 5", "sum(x)"),
    "a dict": ("x = {'a': 1}", "x['a'] = 2", "x['a']"),
    "a dict that grows": ("x = {}", "x['a'] = 2", "len(x)"),
    "a list in a dict": ("x = {'a': [1]}", "x['a'][0] = 2", "x['a'][0]"),
    "an object": ("class C: pass\nx = C()\nx.a = 1", "x.a = 2", "x.a"),
    "a namespace": ("x = types.SimpleNamespace(a=[1])", "x.a[0] = 2", "x.a[0]"),
    "a class": ("class x:\n    a = 1", "x.a = 2", "x.a"),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int\nx = C(1)", "x.a = 2", "x.a"),
    "a small array": ("x = np.zeros(3)", "x[1] = 2", "int(x.sum())"),
    "a bytearray": ("x = bytearray(2)", "x[1] = 2", "sum(x)"),
    "a default": ("x = [1]", "x.append(2)", "(lambda a=x: len(a))()"),
}


@pytest.mark.parametrize(("made", "changed", "value"), IN_PLACE.values(), ids=IN_PLACE.keys())
def test_what_changes_inside_small_things_is_seen_by_every_call(cell: Any, made: str, changed: str, value: str) -> None:
    was, now = cell(
        f"{made}\n@cm.remote\ndef f():\n    return {value}\nseen = get([f.remote() for _ in range(3)])[-1], "
        "f.remote.__class__\n"
        f"before = {value}\n{changed}\nafter = {value}\nseen = (seen[0] == before, get(f.remote()) == after != before)"
    )
    assert was and now


LARGE = {
    "an array": ("x = np.zeros(100_000)", "x[5] += 1", "int(x.sum())"),
    "a set": ("x = {1}", "x.add(len(x) + 1)", "len(x)"),
    "a long list": ("x = [0] * 1000", "x[7] += 1", "sum(x)"),
    "a list in a long list": ("x = [[0] for _ in range(1000)]", "x[7][0] += 1", "x[7][0]"),
    "a counter": ("import collections\nx = collections.Counter()", "x['a'] += 1", "x['a']"),
}


@pytest.mark.parametrize(("made", "changed", "value"), LARGE.values(), ids=LARGE.keys())
def test_what_changes_inside_others_is_seen_from_the_second_call_on(
    cell: Any, made: str, changed: str, value: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ChangedInPlaceWarning)
        assert cell(
            f"{made}\n@cm.remote\ndef f():\n    return {value}\nseen, expected = [], []\nfor _ in range(6):\n"
            f"    {changed}\n    expected.append({value})\n    seen.append(f.remote())\nseen = get(seen) == expected"
        )


def test_a_change_in_place_that_calls_may_have_missed_is_told_once(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # After a while a call would look anyway, and find that none has missed anything.
    monkeypatch.setattr("cellmesh.submit.captures.LOOKING_SHARE", 1e-6)
    cell("weights = np.zeros(100_000)\n@cm.remote\ndef f():\n    return int(weights[0])")
    for _ in range(2):
        cell("refs = [f.remote() for _ in range(3)]")
    with pytest.warns(
        ChangedInPlaceWarning, match="weights, which 'f' uses, was changed in place between calls of 'f'"
    ) as told:
        cell(
            "from cellmesh.session.current import current\nrefs = [f.remote() for _ in range(6)]\nweights[0] = 3\n"
            "current().forget_changed_code()\n"
            "seen = get(f.remote())"
        )
    assert cell("") == 3 and len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cell(
            "refs = [f.remote() for _ in range(6)]\nweights[0] = 4\ncurrent().forget_changed_code()\nseen = "
            "get(f.remote())"
        )
    assert cell("") == 4, "it is told once"


def test_many_calls_look_at_what_is_large_a_few_times(cell: Any) -> None:
    """Also when it was changed once: a loop of calls is not to pickle it each time."""
    assert (
        cell(
            "x = np.zeros(100_000)\n@cm.remote\ndef f():\n    return int(x[0])\nget(f.remote())\nx[0] = 1\n"
            "refs = [f.remote() for _ in range(500)]\nseen = get(refs)"
        )
        == [1] * 500
    )
    made = cell.namespace["f"]._export.made
    assert made.watch.n_calls >= 498 and made.watch.look_at_call > 256


def n_objects() -> int:
    gc.collect()
    client = current().client
    client.flush()
    return client.stats()["n_objects"]


def test_code_of_another_process_that_is_sent_on_before_and_after_the_dialect_changes(cell: Any) -> None:
    """A module of Ray's names may be imported between two calls, by the code itself: the copy that was made stays."""
    seen = cell(
        """
x = 1

@cm.remote
def read():
    return x

@cm.remote
def sends_on(function):
    from cellmesh import front_end

    class Other(front_end.Dialect):
        readonly = True

    theirs, front_end.dialect = front_end.dialect, Other()
    try:
        first = cm.get(function.remote())
    finally:
        front_end.dialect = theirs
    function._export.code.__globals__["x"] = 2
    return first, cm.get(function.remote())

seen = cm.get(sends_on.remote(read))
"""
    )
    assert seen == (1, 2)


def test_a_variable_with_two_values_does_not_fill_the_store(cell: Any) -> None:
    cell("@cm.remote\ndef f():\n    return x\nfor x in (1000, 2000):\n    get(f.remote())")
    before = n_objects()
    cell("seen = []\nfor i in range(50):\n    x = 1000 * (1 + i % 2)\n    seen.append(get(f.remote()))")
    assert cell("del seen[4:]") == [1000, 2000, 1000, 2000]
    assert n_objects() == before
    cell("for x in range(100):\n    get(f.remote())")
    assert n_objects() < before + 10


def test_what_was_captured_before_is_let_go(cell: Any) -> None:
    cell("x = np.zeros(200_000)\n@cm.remote\ndef f():\n    return len(x)\nget(f.remote())")
    before = current().client.stats()["used_bytes"]
    old = weakref.ref(cell.namespace["x"])
    cell("x = (1, 2)\nseen = get(f.remote())")
    assert cell("") == 2 and old() is None
    n_objects()
    assert current().client.stats()["used_bytes"] < before - 1_000_000


def test_threads_that_submit_at_the_same_time_see_their_own(cell: Any) -> None:
    cell(
        "import threading\nlock = threading.Lock()\nwrong = []\n@cm.remote\ndef f():\n    return x\n@cm.remote\ndef "
        "g():\n    return cm.get(f.remote())\n"
        "def turn(k):\n    global x\n    for i in range(30):\n        with lock:\n            x = k * 100 + i\n       "
        "     refs = [f.remote(), g.remote()]\n"
        "            mine = x\n        if get(refs) != [mine, mine]:\n            wrong.append(mine)"
    )
    threads = [threading.Thread(target=cell.namespace["turn"], args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cell.namespace["wrong"] == []


def test_threads_that_submit_while_it_changes(cell: Any) -> None:
    cell(
        "x = 0\n@cm.remote\ndef f():\n    return x\ndone = False\nseen = []\n"
        "def call():\n    while not done:\n        before = x\n        value = get(f.remote())\n        "
        "seen.append(before <= value <= x)"
    )
    threads = [threading.Thread(target=cell.namespace["call"]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for x in range(1, 200):
        cell.namespace["x"] = x
        cell("get(f.remote())")
    cell.namespace["done"] = True
    for thread in threads:
        thread.join()
    assert cell.namespace["seen"] and all(cell.namespace["seen"])


def test_a_variable_that_cannot_be_sent_is_an_error_of_that_call(cell: Any) -> None:
    cell("import threading\nx = 1\n@cm.remote\ndef f():\n    return x\nget(f.remote())\nx = threading.Lock()")
    with pytest.raises(TypeError, match=r"f cannot be sent to another process: .*lock"):
        cell("f.remote()")
    assert cell("x = 2\nseen = get(f.remote())") == 2


def test_a_watch_compares_what_things_are() -> None:
    names, items, entries, memory = {"a": 1000}, [1], {"k": 2}, bytearray(b"ab")
    cell = types.CellType()
    watch = Watch(
        [
            (names, "a", names["a"]),
            (names, "b"),
            (cell,),
            (items, tuple(items)),
            (entries, ("k", 2)),
            (memory, bytes(memory)),
        ]
    )
    outer = Watch([(watch,)])
    assert not watch.changed() and not outer.changed()
    for change, back in (
        (lambda: names.update(b=1), lambda: names.pop("b")),
        (lambda: items.append(2), items.pop),
        (lambda: entries.update(k=3), lambda: entries.update(k=2)),
        (lambda: memory.append(1), lambda: memory.pop()),
        (lambda: setattr(cell, "cell_contents", 1), lambda: delattr(cell, "cell_contents")),
    ):
        change()
        assert watch.changed() and outer.changed()
        back()
        assert not watch.changed() and not outer.changed()


@pytest.mark.parametrize(
    "item",
    [1, (), (1,), ({}, 1), ({}, "a", 1, 2), ([], []), ([1], (1,), 2), (types.CellType(), 1, 2), (b"", "x"), ({}, None)],
)
def test_what_is_no_item_of_a_watch_is_refused(item: object) -> None:
    with pytest.raises(TypeError, match="is none of"):
        Watch([item])


def test_a_watch_in_a_cycle_is_collected() -> None:
    class Here:
        pass

    here, namespace = Here(), {}
    namespace |= {"watch": Watch([(namespace, "here", here)]), "here": here}
    gone = weakref.ref(here)
    del here, namespace
    gc.collect()
    assert gone() is None


def test_classes_in_other_states_have_their_code_loaded_again() -> None:
    loaded = LoadedClasses()

    def code() -> Any:
        return lambda: None

    first, second, other = code(), code(), code()
    assert (
        loaded.note(first, {"A": b"1", "B": b"1"}) == []
        and loaded.note(second, {"A": b"1"}) == []
        and loaded.note(other, {"C": b"1"}) == []
    )
    third = code()
    assert {*loaded.note(third, {"A": b"2"})} == {first, second}
    assert loaded.note(first, {"A": b"1", "B": b"1"}) == [third]
