"""`get`, `wait`, `cancel`, `as_completed` and `progress` take a ref, and lists, tuples, dicts and sets of them, in each
other too.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import SessionClosedError, TaskCancelledError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def double(x):
    return 2 * x


@cellmesh.remote
def fail(x):
    raise KeyError(x)


@cellmesh.remote
def wait_for(go, value=None, started=None):
    if started is not None:
        started.set()
    go.wait()
    return value


@cellmesh.remote
def count(n):
    yield from range(n)


class Pair(NamedTuple):
    left: Any
    right: Any


def twice(shape: Any) -> Any:
    """The same container with a task's ref in place of each number."""
    if isinstance(shape, int):
        return double.remote(shape)
    if isinstance(shape, dict):
        return {key: twice(item) for key, item in shape.items()}
    items = [twice(item) for item in shape]
    return type(shape)(*items) if isinstance(shape, Pair) else type(shape)(items)


# ---------------------------------------------------------------- get
@pytest.mark.parametrize(
    "shape, values",
    [
        ((1, 2), (2, 4)),
        ({"a": 1, 3: 2}, {"a": 2, 3: 4}),
        ([[1], [2, 3]], [[2], [4, 6]]),
        ([1, (2, {"k": [3]})], [2, (4, {"k": [6]})]),
        ({"a": [1, 2], "b": {"c": 3}}, {"a": [2, 4], "b": {"c": 6}}),
        ((), ()),
        ({}, {}),
        ([[], 1], [[], 2]),
        (Pair(1, [2]), Pair(2, [4])),
    ],
)
def test_get_keeps_the_container(cm: ModuleType, shape: Any, values: Any) -> None:
    found = cm.get(twice(shape))
    assert found == values and type(found) is type(values)


def test_get_of_views_and_of_a_ref_that_occurs_twice(cm: ModuleType) -> None:
    refs = OrderedDict(b=double.remote(1), a=double.remote(2))
    assert cm.get(refs.values()) == [2, 4] and list(cm.get(refs)) == ["b", "a"]
    assert cm.get({"x": refs["a"], "y": (refs["a"], refs["b"])}) == {"x": 4, "y": (4, 2)}
    assert cm.get({ref: ref for ref in refs.values()}) == {refs["b"]: 2, refs["a"]: 4}


def test_get_of_something_else_says_where(cm: ModuleType) -> None:
    ref = cm.put(1)
    endless: list[Any] = [ref]
    endless.append(endless)
    for wrong, words in [
        ({"a": [ref, 3]}, r"refs\['a'\]\[1\] is 3 \(int\)"),
        ([ref, [None]], r"refs\[1\]\[0\] is None"),
        ((ref, "x" * 99), "xxx.*\\(str\\)"),
        ({ref}, r"a set has none: get\(list\(refs\)\)"),
        ([{ref}], "a set"),
        (endless, "contains itself"),
        (count.remote(1), r"list\(generator\)"),
        ([ref, count.remote(1)], "one by one"),
        (3, "takes an ObjectRef .* not 3"),
    ]:
        with pytest.raises(TypeError, match=words):
            cm.get(wrong)


def test_get_of_a_container_raises_at_the_first_failure_and_keeps_its_timeout(cm: ModuleType, flag) -> None:
    late = wait_for.remote(flag("go"))
    with pytest.raises(KeyError):
        cm.get({"late": late, "failed": [fail.remote(1)]})
    with pytest.raises(TimeoutError, match="1 of 2 refs"):
        cm.get((late, double.remote(1)), timeout=0.05)
    flag("go").set()
    assert cm.get((late, double.remote(1)), 20) == (None, 2)


def test_errors_as_values(cm: ModuleType, flag) -> None:
    late = wait_for.remote(flag("go"), "late")
    failed, cancelled, good = fail.remote("k"), wait_for.remote(flag("never")), double.remote(1)
    cm.cancel(cancelled)
    with pytest.raises(TimeoutError):
        cm.get([failed, late], timeout=0.05, return_exceptions=True)
    flag("go").set()
    error, value, gone, two = cm.get([failed, late, cancelled, good], return_exceptions=True)
    assert (
        isinstance(error, KeyError)
        and error.__traceback__ is None
        and isinstance(gone, TaskCancelledError)
        and (value, two) == ("late", 2)
    )
    found = cm.get({"a": (good, failed)}, return_exceptions=True)
    assert found["a"][0] == 2 and isinstance(found["a"][1], KeyError)
    assert (
        isinstance(cm.get(failed, 10, return_exceptions=True), KeyError) and cm.get(good, return_exceptions=True) == 2
    )
    with pytest.raises(KeyError):
        cm.get([good, failed], return_exceptions=False)
    with pytest.raises(TypeError, match="return_exceptions"):
        cm.get(good, None, True)


def test_what_is_no_error_of_a_task_is_raised_all_the_same(cm: ModuleType) -> None:
    refs = [cm.put(1), cm.put(2)]
    with pytest.raises(TypeError, match="ObjectRef"):
        cm.get([refs[0], 3], return_exceptions=True)
    cm.shutdown()
    for gone in (refs, refs[0], tuple(refs)):
        with pytest.raises(SessionClosedError):
            cm.get(gone, return_exceptions=True)


def test_a_value_that_cannot_be_loaded_is_an_error_of_its_own(cm: ModuleType) -> None:
    class Unloadable:
        def __reduce__(self):
            return int, ("no number",)

    error, one = cm.get([cm.put(Unloadable()), cm.put(1)], return_exceptions=True)
    assert isinstance(error, ValueError) and one == 1


# ---------------------------------------------------------------- wait
def test_wait_gives_lists_in_the_order_of_the_container(cm: ModuleType, flag) -> None:
    late = wait_for.remote(flag("go"))
    a, b = cm.put(1), cm.put(2)
    assert cm.wait(a) == ([a], []) and cm.wait(late, timeout=0) == ([], [late])
    assert cm.wait((late, a)) == ([a], [late])
    assert cm.wait({"x": a, "y": late, "z": b}, num_returns=2) == ([a, b], [late])
    assert cm.wait([[a, late], {"k": (b,)}], num_returns=2) == ([a, b], [late])
    ready, rest = cm.wait({a, b, late}, num_returns=2)
    assert set(ready) == {a, b} and rest == [late] and cm.wait({}) == cm.wait([[]]) == ([], [])
    stream = count.remote(1)
    assert cm.wait(stream, timeout=20) == ([stream], []) and cm.wait([[stream], (late,)], timeout=20) == (
        [stream],
        [late],
    )
    for wrong, n, words in [
        (({"a": a}, a), 1, "more than once"),
        ([[a], [b]], 3, "the number of refs, 2"),
        ({"a": [3]}, 1, r"refs\['a'\]\[0\] is 3"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            cm.wait(wrong, num_returns=n)
    flag("go").set()


# ---------------------------------------------------------------- cancel
@pytest.mark.parametrize(
    "put_into", [list, tuple, set, lambda refs: dict(enumerate(refs)), lambda refs: {"a": refs[:1], "b": (refs[1:],)}]
)
def test_cancel_takes_them_all(cm: ModuleType, flag, put_into: Callable) -> None:
    refs = [wait_for.remote(flag("never")) for _ in range(4)]
    cm.cancel(put_into(refs))
    assert all(isinstance(error, TaskCancelledError) for error in cm.get(refs, 20, return_exceptions=True))


def test_cancel_cancels_nothing_if_one_cannot_be(cm: ModuleType, flag) -> None:
    ref = wait_for.remote(flag("go"), 1)
    for others, words in [([cm.put(1)], r"an ObjectRef was made by put\(\)"), ([3], r"refs\[1\]\[0\] is 3")]:
        with pytest.raises((ValueError, TypeError), match=words):
            cm.cancel([ref, others])
    flag("go").set()
    assert ref.result(20) == 1


def test_cancel_of_generators_in_a_container(cm: ModuleType, flag) -> None:
    stream, ref = count.options(generator_backpressure_num_objects=1).remote(100), wait_for.remote(flag("never"))
    cm.cancel({"a": stream, "b": ref})
    wait_until(lambda: stream.completed().done() and ref.done())


# ---------------------------------------------------------------- as_completed and progress
@pytest.mark.parametrize(
    "put_into", [list, tuple, set, iter, lambda refs: dict(enumerate(refs)), lambda refs: [refs[:1], {"b": refs[1:]}]]
)
def test_as_completed_and_progress(cm: ModuleType, put_into: Callable) -> None:
    refs = [double.remote(i) for i in range(3)]
    assert set(cm.as_completed(put_into(refs))) == set(refs)
    assert sorted(cm.progress(put_into(refs))) == [0, 2, 4]
    assert list(cm.as_completed(refs[0])) == refs[:1]


@pytest.mark.parametrize("function", ["as_completed", "progress"])
def test_of_something_else(cm: ModuleType, function: str) -> None:
    for wrong in (3, [3], {"a": None}, "ab", count.remote(1)):
        with pytest.raises(TypeError, match=rf"{function}\(\) (takes an ObjectRef|needs refs that are there already)"):
            getattr(cm, function)(wrong)


def test_as_completed_with_results(cm: ModuleType, flag) -> None:
    late, early = wait_for.remote(flag("late"), "late"), cm.put("early")
    seen = []
    for ref, value in cm.as_completed([late, early], with_results=True):
        seen.append((ref, value))
        flag("late").set()
    assert seen == [(early, "early"), (late, "late")]
    good, failed = double.remote(1), fail.remote("k")
    with pytest.raises(KeyError):
        list(cm.as_completed([good, failed], with_results=True))
    found = dict(cm.as_completed([good, failed], with_results=True, return_exceptions=True))
    assert found[good] == 2 and isinstance(found[failed], KeyError)
    assert set(cm.as_completed([good, failed])) == {good, failed}, "refs alone raise nothing"
    with pytest.raises(ValueError, match="needs with_results=True"):
        cm.as_completed([good], return_exceptions=True)
    with pytest.raises(TimeoutError):
        list(cm.as_completed([wait_for.remote(flag("never"))], 0.05, with_results=True))
    flag("never").set()


def test_as_completed_with_results_in_a_loop(cm: ModuleType) -> None:
    async def main() -> dict:
        refs = {"a": double.remote(1), "b": fail.remote("k")}
        found = {ref: value async for ref, value in cm.as_completed(refs, with_results=True, return_exceptions=True)}
        with pytest.raises(KeyError):
            [one async for one in cm.as_completed(refs, with_results=True)]
        return {name: found[ref] for name, ref in refs.items()}

    found = asyncio.run(main())
    assert found["a"] == 2 and isinstance(found["b"], KeyError)
