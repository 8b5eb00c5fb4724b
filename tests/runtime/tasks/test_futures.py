"""Refs as futures: what `concurrent.futures.Future` has, in asyncio too, and what they refuse because it is meant for
the value.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import json
import logging
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sized
from types import ModuleType
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from cellmesh.objstore import _core
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import GetTimeoutError, SessionClosedError, TaskCancelledError

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def double(x):
    return 2 * x


@cellmesh.remote
def fail():
    raise KeyError("k")


@cellmesh.remote
def wait_for(go, value=None, started=None):
    if started is not None:
        started.set()
    go.wait()
    return value


# ---------------------------------------------------------------- the methods
def test_the_result_is_what_get_gives(cm: ModuleType, flag) -> None:
    late = wait_for.remote(flag("go"), 7)
    for give_up in (lambda: late.result(0.01), lambda: late.result(timeout=0), lambda: late.exception(timeout=0.01)):
        with pytest.raises(concurrent.futures.TimeoutError, match="gave up after"):
            give_up()
    assert not late.done()
    flag("go").set()
    assert late.result(timeout=20) == 7 and late.exception() is None and late.done()
    assert double.remote(2).result() == 4 and cm.put("x").result(0) == "x"
    with pytest.raises(KeyError):
        fail.remote().result(20)


def test_exception_gives_what_result_raises(cm: ModuleType) -> None:
    failed = fail.remote()
    error = failed.exception(20)
    assert isinstance(error, KeyError) and isinstance(error, cm.exceptions.TaskError) and error.__traceback__ is None
    assert double.remote(1).exception() is None


def test_the_value_is_not_fetched_to_say_that_there_is_no_exception(cm: ModuleType) -> None:
    class Unloadable:
        def __reduce__(self):
            return int, ("no number",)

    ref = cm.remote(lambda: Unloadable()).remote()
    assert ref.exception() is None
    with pytest.raises(ValueError, match="no number"):
        ref.result()


@pytest.mark.parametrize(
    "call",
    [
        lambda ref: ref.result(1, 2),
        lambda ref: ref.exception(time=1),
        lambda ref: ref.result("soon"),
        lambda ref: ref.exception(timeout=[]),
    ],
)
def test_wrong_arguments_of_the_methods(cm: ModuleType, call: Callable) -> None:
    with pytest.raises(TypeError, match="timeout"):
        call(cm.put(1))


def test_states(cm: ModuleType, flag) -> None:
    runs = wait_for.remote(flag("go"), started=flag("started"))
    waits = double.remote(runs)
    flag("started").wait()
    assert runs.running() and not runs.done() and not runs.cancelled() and not waits.running()
    assert waits.cancel() and waits.cancelled() and waits.done() and not waits.running()
    flag("go").set()
    assert runs.result(20) is None and not runs.running() and not runs.cancelled()


def test_cancel_says_whether_there_was_anything_to_cancel(cm: ModuleType, flag) -> None:
    @cm.remote
    def parent(go, started):
        return wait_for.remote(go, started=started).result()

    runs = parent.remote(flag("never"), flag("started"))
    flag("started").wait()
    assert runs.cancel() is True
    assert isinstance(runs.exception(20), TaskCancelledError) and runs.cancelled() and runs.cancel() is False
    wait_until(lambda: not [row for row in cm.state.list_tasks() if row["state"] == "running"])
    assert cm.put(1).cancel() is False and not cm.put(1).cancelled()
    ended = double.remote(1)
    assert ended.result() == 2 and ended.cancel() is False


def test_a_call_of_an_actor(cm: ModuleType, flag) -> None:
    @cm.remote
    class Waits:
        async def wait(self, go, started):
            started.set()
            while not go.is_set():
                await asyncio.sleep(0.01)

        def raises(self):
            raise LookupError("here")

    actor = Waits.remote()
    call = actor.wait.remote(flag("never"), flag("started"))
    flag("started").wait()
    assert call.running() and call.cancel() and isinstance(call.exception(20), TaskCancelledError)
    assert isinstance(actor.raises.remote().exception(20), LookupError)


def test_a_task_that_waits_for_a_result_runs_it_itself(cm: ModuleType) -> None:
    @cm.remote
    def count_down(n, how):
        if n == 0:
            return 0
        ref = count_down.remote(n - 1, how)
        if how == "exception":
            return 1 + (ref.result() if ref.exception() is None else 1000)
        return 1 + (ref.result() if how == "result" else cellmesh.get([ref], return_exceptions=True)[0])

    assert [count_down.remote(20, how).result(30) for how in ("result", "exception", "return_exceptions")] == [
        20,
        20,
        20,
    ]


def test_of_a_session_that_has_ended(cm: ModuleType, flag) -> None:
    there, never = cm.put(1), wait_for.remote(flag("never"))
    heard: list[object] = []
    never.add_done_callback(heard.append)
    cm.shutdown()
    wait_until(lambda: heard)
    there.add_done_callback(heard.append)
    assert [ref is one for ref, one in zip(heard, [never, there], strict=True)] == [True, True]
    for ref in (there, never):
        assert (
            ref.done()
            and not ref.running()
            and not ref.cancelled()
            and not ref.cancel()
            and ref.remove_done_callback(heard.append) == 0
        )
        assert isinstance(ref.exception(), SessionClosedError)
        with pytest.raises(SessionClosedError):
            ref.result()


def test_what_tab_shows(cm: ModuleType) -> None:
    ref = cm.put(1)
    shown = {name for name in dir(ref) if not name.startswith("_")}
    assert shown == {
        "add_done_callback",
        "cancel",
        "cancelled",
        "creator",
        "done",
        "exception",
        "future",
        "hex",
        "remove_done_callback",
        "result",
        "running",
    }
    assert all(inspect.getdoc(getattr(type(ref), name)) for name in shown)
    assert str(inspect.signature(ref.result)) == "(timeout=None)" and ref.client is not None


# ---------------------------------------------------------------- callbacks
def test_callbacks_get_the_ref_in_a_thread_or_at_once(cm: ModuleType, flag) -> None:
    late, heard = wait_for.remote(flag("go"), 7), []

    def note(ref) -> None:
        heard.append((ref.done(), ref.result(), threading.current_thread() is threading.main_thread()))

    late.add_done_callback(note)
    flag("go").set()
    wait_until(lambda: heard)
    late.add_done_callback(note)
    assert heard == [(True, 7, False), (True, 7, True)]


def test_callbacks_are_forgotten(cm: ModuleType, flag) -> None:
    late, heard = wait_for.remote(flag("go")), []
    for _ in range(2):
        late.add_done_callback(heard.append)
    late.add_done_callback(heard.extend)
    assert late.remove_done_callback(heard.append) == 2 and late.remove_done_callback(heard.append) == 0
    assert late.remove_done_callback(heard.extend) == 1
    last: list[object] = []
    late.add_done_callback(last.append)
    flag("go").set()
    wait_until(lambda: last)
    assert not heard


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[type, str]]:
    """What has been logged: class of the exception, text. pytest's own handlers keep tracebacks, and with them refs."""
    found: list[tuple[type, str]] = []
    monkeypatch.setattr(
        logging.getLogger("cellmesh"), "exception", lambda text, *args: found.append((sys.exc_info()[0], text % args))
    )
    return found


def test_what_a_callback_raises_is_logged_and_ends_nobody(cm: ModuleType, flag, logged: list) -> None:
    def exits(ref) -> None:
        raise SystemExit(3)

    late, heard = wait_for.remote(flag("go")), []
    for _ in range(20):  # more than there are threads
        late.add_done_callback(lambda ref: 1 / 0)
        late.add_done_callback(exits)
    late.add_done_callback(heard.append)
    flag("go").set()
    wait_until(lambda: heard and len(logged) == 40)
    late.add_done_callback(lambda ref: 1 / 0)
    assert Counter(kind for kind, _ in logged) == {ZeroDivisionError: 21, SystemExit: 20}
    assert logged[-1][1] == f"exception calling callback for {late}"
    again = wait_for.remote(flag("again"))
    again.add_done_callback(heard.append)
    flag("again").set()
    wait_until(lambda: len(heard) == 2)


def test_a_callback_is_a_function(cm: ModuleType) -> None:
    with pytest.raises(TypeError, match="needs a function that takes the ref"):
        cm.put(1).add_done_callback(3)


# ---------------------------------------------------------------- asyncio and concurrent.futures
def test_asyncio_wait_takes_refs(cm: ModuleType, flag) -> None:
    async def main() -> None:
        refs = [double.remote(i) for i in range(100)]
        done, pending = await asyncio.wait(refs)
        assert done == set(refs) and not pending
        late, early = wait_for.remote(flag("late"), "late"), cm.put("early")
        assert await asyncio.wait([late, early], return_when=asyncio.FIRST_COMPLETED) == ({early}, {late})
        failed = fail.remote()
        assert await asyncio.wait([late, failed], return_when=asyncio.FIRST_EXCEPTION) == ({failed}, {late})
        assert await asyncio.wait([late], timeout=0.01) == (set(), {late})
        flag("late").set()
        assert (await asyncio.wait([late, asyncio.ensure_future(early)]))[1] == set()

    asyncio.run(main())


def test_asyncio_wait_ends_with_the_session(cm: ModuleType, flag) -> None:
    async def main() -> None:
        never = wait_for.remote(flag("never"))
        asyncio.get_running_loop().call_soon(cm.shutdown)
        assert await asyncio.wait([never], return_when=asyncio.FIRST_EXCEPTION) == ({never}, set())

    asyncio.run(main())


def test_task_groups(cm: ModuleType) -> None:
    async def main() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.wait_for(double.remote(i), None)) for i in range(3)]
        return sum(task.result() for task in tasks)

    assert asyncio.run(main()) == 6


@pytest.mark.parametrize("wait", [concurrent.futures.wait, lambda refs: list(concurrent.futures.as_completed(refs))])
def test_concurrent_futures_say_how(cm: ModuleType, wait: Callable) -> None:
    with pytest.raises(
        AttributeError,
        match=r"\[ref\.future\(\) for ref in refs\]; cellmesh\.wait\(refs\) and cellmesh\.as_completed\(refs\)",
    ):
        wait([double.remote(1)])


# ---------------------------------------------------------------- what is meant for the value
@pytest.mark.parametrize(
    "use",
    [
        bool,
        len,
        int,
        float,
        iter,
        list,
        math.sqrt,
        range,
        abs,
        lambda ref: 3 in ref,
        lambda ref: f"{ref:.2f}",
        lambda ref: [*ref],
        lambda ref: ref & 1,
        lambda ref: [1][ref],
        lambda ref: np.zeros(3)[0] + ref,
        lambda ref: not ref,
        lambda ref: ref == 1,
        lambda ref: 1 == ref,
        lambda ref: ref != "a",
        lambda ref: ref == [1],
        lambda ref: ref == np.ones(2),
        lambda ref: ref == (ref,),
        lambda ref: 1 in [ref],
        lambda ref: ref == True,  # noqa: E712 (the comparison is what is tested)
    ],
)
def test_what_is_meant_for_the_value_is_refused(cm: ModuleType, use: Callable) -> None:
    with pytest.raises(TypeError, match=r"ObjectRef .*cellmesh\.get\(ref\)"):
        use(cm.put(1))


def test_assignment_and_unpacking(cm: ModuleType) -> None:
    ref = cm.put([1, 2])
    with pytest.raises(TypeError, match="ObjectRef"):
        ref[0] = 1
    with pytest.raises(TypeError, match="ObjectRef"):
        del ref[0]
    with pytest.raises(TypeError, match="iterated"):
        _a, _b = ref


def test_refs_are_equal_to_themselves_and_told_from_what_is_no_value(cm: ModuleType) -> None:
    ref, other, sentinel = cm.put(1), cm.put(1), object()
    same = cm.get(cm.put([ref]))[0]
    assert same is not ref and same == ref and not same != ref and ref != other
    assert (ref == None) is False and ref != None  # noqa: E711 (the comparison is what is tested)
    assert ref != sentinel and ref != int and ref != mock.sentinel.missing  # noqa: E721 (the comparison is what is tested)
    refs = [None, other, sentinel, ref]
    assert ref in refs and refs.index(same) == 3 and {ref, other, None} == {same, other, None}
    refs.remove(same)
    assert refs == [None, other, sentinel] and (ref, None) == (same, None)
    assert str(ref) == f"{ref}" == repr(ref)


def test_libraries_do_not_take_a_ref_for_what_it_is_not(cm: ModuleType) -> None:
    ref, other = cm.put([1]), cm.put([1])
    assert not isinstance(ref, Iterable) and not isinstance(ref, Sized) and not callable(ref)
    assert not any(
        hasattr(ref, name)
        for name in ("__iter__", "__len__", "__bool__", "__int__", "__index__", "__float__", "_repr_html_")
    )
    assert np.array([ref, other]).shape == (2,) and np.array(ref).shape == () and not pd.api.types.is_list_like(ref)
    frame = pd.DataFrame({"ref": [ref, other, ref], "n": [1, 2, 3]})
    assert "ObjectRef" in repr(frame) and list(frame.groupby("ref", sort=False).n.sum()) == [4, 2]
    assert list(frame.ref == ref) == [True, False, True] and not frame.ref.isna().any() and frame.ref.nunique() == 2
    called = mock.Mock()
    called(ref, key=other)
    called.assert_called_once_with(ref, key=other)
    called.assert_called_once_with(mock.ANY, key=mock.ANY)
    assert json.dumps({"a": ref, "b": [other]}, default=cm.get) == '{"a": [1], "b": [[1]]}'
    with pytest.raises(TypeError, match="ObjectRef is not JSON serializable"):
        json.dumps(ref)


def test_as_in_ray_they_are_true_and_unequal(cm: ModuleType) -> None:
    ref = cm.put(1)
    assert _core.refs_are_plain(True) is False
    assert ref and ref != 1 and 1 not in [ref] and not ref == "a"
    with pytest.raises(TypeError, match="no length"):
        len(ref)
    assert _core.refs_are_plain(False) is True
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(ref)


def test_timeouts_are_of_every_kind() -> None:
    assert (
        issubclass(GetTimeoutError, TimeoutError)
        and concurrent.futures.TimeoutError is TimeoutError is asyncio.TimeoutError
    )
