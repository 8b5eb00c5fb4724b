"""`retry`: tasks that have failed are submitted again, with the inputs they had, in a program that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.flags import Flag

import cellmesh

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]


@cellmesh.remote(max_retries=0)
def flaky(flag, x):
    if not flag.is_set():
        raise OSError("not yet")
    return x if isinstance(x, int) else len(x)


@cellmesh.remote
def add(x, y):
    return x + y


@pytest.fixture
def keeping() -> Iterator[ModuleType]:
    cellmesh.init(num_cpus=2, object_store_memory=256 << 20, keep_calls=True)
    yield cellmesh
    cellmesh.shutdown()


def failed(cm: ModuleType, *refs: object) -> None:
    cm.wait(list(refs), num_returns=len(refs))


def test_a_failed_task_is_submitted_again(keeping: ModuleType, flag: Callable[[str], Flag]) -> None:
    box = [1, 2]
    ref = flaky.remote(flag("open"), box)
    box.append(3)
    failed(keeping, ref)
    flag("open").set()
    again = keeping.retry(ref)
    assert again != ref and keeping.get(again) == 2, "the inputs as they were"


def test_of_a_list_those_that_failed(keeping: ModuleType, flag: Callable[[str], Flag]) -> None:
    flag("open").set()
    good = flaky.remote(flag("open"), 1)
    bad = flaky.remote(flag("shut"), 2)
    last = add.remote(bad, good)
    failed(keeping, good, bad, last)
    flag("shut").set()
    refs = keeping.retry([good, last, bad])
    assert refs[0] is good and keeping.get(refs) == [1, 3, 2]
    assert keeping.retry(refs) == refs and keeping.retry([]) == []


def test_what_it_needs_goes_before_it_and_what_needs_it_is_left(
    keeping: ModuleType, flag: Callable[[str], Flag]
) -> None:
    first = flaky.remote(flag("open"), 1)
    second = add.remote(first, 10)
    third = add.remote(second, 100)
    failed(keeping, third)
    flag("open").set()
    assert keeping.get(keeping.retry(second)) == 11
    assert sum(row["name"] == "add" for row in keeping.state.list_tasks()) == 3


def test_what_cannot_be_retried_says_why(keeping: ModuleType, flag: Callable[[str], Flag]) -> None:
    done = add.remote(1, 2)
    keeping.get(done)
    with pytest.raises(ValueError, match="have failed or were cancelled, and this one has finished"):
        keeping.retry(done)
    with pytest.raises(TypeError, match="needs an ObjectRef"):
        keeping.retry(5)
    large = flaky.remote(flag("shut"), [0] * 100_000)
    failed(keeping, large)
    with pytest.raises(ValueError, match=r"inputs of 'flaky' are gone. Inputs are kept of the last 10,000 calls since"):
        keeping.retry(large)
    small = flaky.remote(flag("shut"), 3)
    failed(keeping, small)
    flag("shut").set()
    assert keeping.get(keeping.retry(small)) == 3, "those after a large one are kept"


@pytest.mark.session("own")
def test_without_being_asked_a_program_keeps_nothing(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    ref = flaky.remote(flag("shut"), 1)
    failed(cm, ref)
    with pytest.raises(ValueError, match=r"Nothing keeps inputs here: .*init\(keep_calls=True\)"):
        cm.retry(ref)
    cm.init(keep_calls=True, ignore_reinit_error=True)
    ref = flaky.remote(flag("shut"), 1)
    failed(cm, ref)
    flag("shut").set()
    assert cm.get(cm.retry(ref)) == 1


def test_calls_that_nobody_asks_for_are_forgotten(keeping: ModuleType) -> None:
    kept = keeping.init(ignore_reinit_error=True) and cellmesh.session.current.current().kept_calls
    for i in range(500):
        keeping.get(add.remote(i, 1))
    assert len(kept.all()) < 100
    refs = [flaky.remote(Flag(Path("/nowhere")), i) for i in range(300)]
    failed(keeping, *refs)
    assert sum(call.results[0] in set(refs) for _, call in kept.all()) == 300


def test_the_function_is_as_it_is_now(keeping: ModuleType) -> None:
    namespace = {"cellmesh": cellmesh, "__name__": "mended"}
    import sys

    sys.modules["mended"] = module = ModuleType("mended")
    module.__dict__.update(namespace)
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    try:
        exec("@cellmesh.remote\ndef f(x): return 1 / x", module.__dict__)
        ref = module.f.options(name="f").remote(0)
        failed(keeping, ref)
        exec("@cellmesh.remote\ndef f(x): return x", module.__dict__)
        assert keeping.get(keeping.retry(ref)) == 0
    finally:
        cloudpickle.unregister_pickle_by_value(module)
        del sys.modules["mended"]
