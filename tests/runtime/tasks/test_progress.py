"""`cellmesh.progress` in a script and in tasks."""

from __future__ import annotations

import asyncio
import json
import os
import time
from types import ModuleType

import pytest
from cellmesh.scheduler.ipc.messages import PROGRESS_MIME, WorkerOutput
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@pytest.fixture
def heard(cm: ModuleType):
    """What a terminal is told of bars: (pid, content)."""
    found: list[tuple[int, dict]] = []

    def hear(message: object) -> None:
        if isinstance(message, WorkerOutput) and PROGRESS_MIME in message.bundle:
            found.append((message.pid, json.loads(message.bundle)["data"][PROGRESS_MIME]))

    current().node.link.add_listener(hear)
    return found


def test_values_come_in_order_and_the_bar_goes_on(cm: ModuleType, heard, flag) -> None:
    @cellmesh.remote
    def double(i):
        if i == 0:
            flag("go").wait()
        return 2 * i

    refs = [double.remote(i) for i in range(4)]
    bar = cm.progress(refs)
    assert len(bar) == len(cm.progress(cm.as_completed(refs))) == 4
    values = iter(bar)
    wait_until(lambda: cm.wait(refs, num_returns=3, timeout=0)[1])
    shown_at = time.monotonic()
    wait_until(lambda: time.monotonic() > shown_at + 0.02)  # what took less is said to have been over already
    flag("go").set()
    assert list(values) == [0, 2, 4, 6]
    wait_until(lambda: heard and heard[-1][1]["closed"])
    assert {pid for pid, _ in heard} == {os.getpid()} and len({bar["id"] for _, bar in heard}) == 1
    assert heard[-1][1]["text"].startswith("double 100%|") and "4/4 · in " in heard[-1][1]["text"]


def test_it_does_not_wait_and_follows_to_the_end(cm: ModuleType, heard, flag) -> None:
    @cellmesh.remote
    def hold():
        flag("go").wait()

    @cellmesh.remote
    def fail(x):
        raise ValueError("no good")

    bar = cm.progress({"a": hold.remote(), "b": fail.remote(1)})
    bar.show()
    assert not heard[0][1]["closed"]
    wait_until(lambda: "1 running" in repr(bar) and "1 failed" in repr(bar))
    flag("go").set()
    wait_until(lambda: all(content["closed"] for _, content in heard[-3:]))
    lines = [content["text"].split()[:2] for _, content in heard[-3:]]
    assert lines == [
        ["tasks", "100%|████████████████████|"],
        ["hold", "100%|████████████████████|"],
        ["fail", "100%|████████████████████|"],
    ]
    assert "first error: ValueError: no good" in repr(bar)


def test_nothing_more_is_said_when_it_is_over(cm: ModuleType, heard) -> None:
    @cellmesh.remote
    def one():
        return 1

    refs = [one.remote() for _ in range(3)]
    cm.get(refs)
    bar = cm.progress(refs)
    bar.show()
    assert [content["closed"] for _, content in heard] == [True], "all was done already: one picture, no thread"
    bar.show()
    assert list(bar) == [1, 1, 1] and len(heard) == 1


def test_an_error_is_raised_where_the_value_would_come(cm: ModuleType) -> None:
    @cellmesh.remote
    def maybe(i):
        if i == 1:
            raise KeyError(i)
        return i

    values = iter(cm.progress([maybe.remote(i) for i in range(3)]))
    assert next(values) == 0
    with pytest.raises(KeyError):
        next(values)


def test_async_iteration(cm: ModuleType) -> None:
    @cellmesh.remote
    def double(i):
        return 2 * i

    async def values() -> list[int]:
        return [value async for value in cm.progress([double.remote(i) for i in range(3)])]

    assert asyncio.run(values()) == [0, 2, 4]


def test_calls_of_actors_and_tasks_that_are_cancelled(cm: ModuleType, flag) -> None:
    @cellmesh.remote
    class Counter:
        def add(self, k):
            return k

    @cellmesh.remote
    def hold():
        flag("never").wait()

    counter = Counter.remote()
    held = hold.remote()
    bar = cm.progress([counter.add.remote(1), counter.add.remote(2), held], title="mixed")
    cm.cancel(held)
    wait_until(lambda: "3/3" in repr(bar))
    text = repr(bar)
    assert text.startswith("mixed ") and "Counter.add" in text and "1 cancelled" in text


def test_in_a_task_the_driver_hears_of_it(cm: ModuleType, heard) -> None:
    @cellmesh.remote
    def inner(i):
        return i

    @cellmesh.remote
    def outer():
        return sum(cellmesh.progress([inner.remote(i) for i in range(4)]))

    assert cm.get(outer.remote()) == 6
    wait_until(lambda: heard and heard[-1][1]["closed"])
    assert heard[-1][0] != os.getpid() and "inner 100%" in heard[-1][1]["text"]


def test_the_end_of_the_session_ends_it(cm: ModuleType, flag) -> None:
    @cellmesh.remote
    def hold():
        flag("never").wait()

    bar = cm.progress([hold.remote()])
    bar.show()
    cm.shutdown()
    assert "0/1" in repr(bar)


@pytest.mark.parametrize(("given", "said"), [(3, "takes an ObjectRef .* not 3"), ([1], r"and refs\[0\] is 1 \(int\)")])
def test_what_is_no_ref_is_refused(given: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        cellmesh.progress(given)


def test_nothing_at_all() -> None:
    assert list(cellmesh.progress([])) == []
