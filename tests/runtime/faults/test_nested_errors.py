"""Errors of tasks that wait for tasks: at any depth the class, the cause and one chain of tracebacks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Counter

import cellmesh

pytestmark = [pytest.mark.timeout(90), pytest.mark.session("shared")]
DEPTHS = [1, 2, 3, 6]


class OwnError(Exception):
    """Defined here, and so sent by value; it cannot be made again by its `args`."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


class Closed(ValueError):
    """Allows no subclass, so none that is a TaskError too."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError("no subclasses")


def divide() -> None:
    1 / 0  # noqa: B018 (raising is what it is for)


def raise_own() -> None:
    raise OwnError(3, detail="d")


@cellmesh.remote
def boom(depth: int, fail: Callable[[], object]) -> object:
    return cellmesh.get(boom.remote(depth - 1, fail)) if depth > 1 else fail()


def error_of(ref: object) -> Exception:
    """Also in workers, where `pytest.raises` would leave the frame and what it has caught to the garbage collector."""
    try:
        cellmesh.get(ref, timeout=60)
    except Exception as error:
        return error
    raise AssertionError(f"no error from {ref}")


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_class_and_the_cause_are_those_of_what_was_raised_first(cm: ModuleType, depth: int) -> None:
    error = error_of(boom.remote(depth, divide))
    assert isinstance(error, ZeroDivisionError) and type(error).__name__ == "TaskError(ZeroDivisionError)"
    assert (
        type(error.cause) is ZeroDivisionError
        and error.cause_type == "ZeroDivisionError"
        and error.message == "division by zero"
    )
    own = error_of(boom.remote(depth, raise_own))
    assert isinstance(own, OwnError) and type(own.cause) is OwnError and (own.code, own.cause.detail) == (3, "d")


def test_each_task_stands_in_the_traceback_once(cm: ModuleType) -> None:
    texts = {depth: str(error_of(boom.remote(depth, divide))) for depth in (1, 5, 9, 13)}
    for depth, text in texts.items():
        assert (
            text.count("return cellmesh.get(boom.remote") == depth
            and text.count("1 / 0") == 1
            and text.count("'boom'") == depth
            and text.count("with pid") == depth
        )
        assert text.count("ZeroDivisionError") == 1 and text.count("division by zero") == 2 and "objects.py" not in text
    steps = [len(texts[deeper]) - len(texts[deeper - 4]) for deeper in (5, 9, 13)]
    assert max(steps) < 4 * 400 and max(steps) - min(steps) < 100, "as much for each task"


def cancel_and_get(cm: ModuleType) -> Callable[[], object]:
    def fail() -> object:
        @cm.remote(num_cpus=1000)
        def never() -> None: ...

        ref = never.remote()
        cm.cancel(ref)
        return cm.get(ref)

    return fail


def call_the_dead(cm: ModuleType) -> Callable[[], object]:
    @cm.remote(num_cpus=0)
    class Dead:
        def __init__(self) -> None:
            raise KeyError("weights")

        def get(self) -> None: ...

    return lambda: cm.get(Dead.remote().get.remote())


def crash(cm: ModuleType) -> Callable[[], object]:
    @cm.remote(max_retries=0, num_cpus=0)
    def end() -> None:
        import os

        os._exit(3)

    ended = end.remote()
    cm.wait([ended])  # a task that waits for another one may run it in its own process
    return lambda: cm.get(ended)


def wait_too_long(cm: ModuleType) -> Callable[[], object]:
    @cm.remote(num_cpus=1000)
    def never() -> None: ...

    return lambda: cm.get(never.remote(), timeout=0)


@pytest.mark.filterwarnings("ignore:.*asks for")
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (cancel_and_get, "TaskCancelledError"),
        (call_the_dead, "ActorDiedError"),
        (crash, "WorkerCrashedError"),
        pytest.param(wait_too_long, "GetTimeoutError", marks=pytest.mark.session("own")),  # its task never ends
    ],
)
def test_errors_of_ours_are_caught_by_their_classes(cm: ModuleType, make: Callable, kind: str, depth: int) -> None:
    error = error_of(boom.remote(depth, make(cm)))
    cls = getattr(cm.exceptions, kind)
    assert isinstance(error, cls) and isinstance(error, cm.exceptions.TaskError) and type(error.cause) is cls
    if kind == "WorkerCrashedError":
        assert error.exit_code == 3
    if kind == "ActorDiedError":
        assert type(error.cause.cause) is KeyError and str(error).count("raise KeyError") == 1
    assert str(error).count("'boom'") == depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_cannot_be_sent_or_be_of_both_classes_keeps_its_name(cm: ModuleType, depth: int) -> None:
    def holds_a_lock() -> None:
        error = ValueError("with a lock")
        error.lock = threading.Lock()
        raise error

    error = error_of(boom.remote(depth, holds_a_lock))
    assert type(error) is cm.exceptions.TaskError and error.cause is None and error.cause_type == "ValueError"
    assert str(error).count("could not be sent") == 1 and str(error).startswith("with a lock\n")

    def closed() -> None:
        raise Closed("c")

    error = error_of(boom.remote(depth, closed))
    assert type(error) is cm.exceptions.TaskError and type(error.cause) is Closed

    def leave() -> None:
        raise SystemExit(3)

    error = error_of(boom.options(max_retries=0).remote(depth, leave))
    assert isinstance(error, cm.exceptions.WorkerCrashedError)


@pytest.mark.parametrize("depth", DEPTHS)
def test_groups(cm: ModuleType, depth: int) -> None:
    def several() -> None:
        raise ExceptionGroup("several", [ValueError(1), OwnError(2, detail="x")])

    caught: list[Exception] = []
    try:
        cm.get(boom.remote(depth, several))
    except* OwnError as group:
        caught += group.exceptions
    except* ValueError as group:
        caught += group.exceptions
    assert [type(error) for error in caught] == [OwnError, ValueError]


def test_a_group_of_errors_of_tasks(cm: ModuleType) -> None:
    def gather() -> None:
        raise ExceptionGroup("both", [error_of(boom.remote(3, divide)), error_of(boom.remote(3, raise_own))])

    error = error_of(boom.remote(3, gather))
    assert isinstance(error, ExceptionGroup) and str(error).count("1 / 0") == 1 == str(error).count("raise OwnError")
    first, second = error.cause.exceptions
    assert isinstance(first, ZeroDivisionError) and isinstance(second, OwnError) and type(second.cause) is OwnError


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_the_user_wraps_is_a_new_original_whose_cause_keeps_the_chain(cm: ModuleType, depth: int) -> None:
    def wrap() -> None:
        try:
            cm.get(boom.remote(depth, divide))
        except ZeroDivisionError as error:
            raise OwnError(7, detail="wrapped") from error

    error = error_of(boom.remote(depth, wrap))
    assert isinstance(error, OwnError) and not isinstance(error, ZeroDivisionError) and type(error.cause) is OwnError
    inner = error.cause.__cause__
    assert isinstance(inner, ZeroDivisionError) and type(inner.cause) is ZeroDivisionError
    text = str(error)
    assert text.count("direct cause") == 1 == text.count("1 / 0") == text.count("raise OwnError")
    assert text.count("'boom'") == 2 * depth and text.index("1 / 0") < text.index("direct cause") < text.rindex(
        "OwnError: code 7"
    )


def test_an_error_in_the_handling_of_another_keeps_that_as_its_context(cm: ModuleType) -> None:
    def fall_back() -> object:
        try:
            return cm.get(boom.remote(2, divide))
        except ZeroDivisionError:
            return {}["missing"]

    def fall_back_on_a_task() -> object:
        try:
            return cm.get(boom.remote(2, divide))
        except ZeroDivisionError:
            return cm.get(boom.remote(2, raise_own))

    error = error_of(boom.remote(3, fall_back))
    assert isinstance(error, KeyError) and isinstance(error.cause.__context__, ZeroDivisionError)
    assert str(error).count("During handling") == 1 == str(error).count("1 / 0")
    error = error_of(boom.remote(3, fall_back_on_a_task))
    assert isinstance(error, OwnError) and str(error).count("During handling") == 1 == str(error).count("1 / 0") == str(
        error
    ).count("raise OwnError")


def test_an_error_may_be_raised_again_with_a_note(cm: ModuleType) -> None:
    def again() -> None:
        try:
            cm.get(boom.remote(2, divide))
        except ZeroDivisionError as error:
            error.add_note("in the second half")
            raise

    error = error_of(boom.remote(2, again))
    assert isinstance(error, ZeroDivisionError) and str(error).count("in the second half") == 1 == str(error).count(
        "1 / 0"
    )


def test_wraps_at_every_level_grow_modestly(cm: ModuleType) -> None:
    @cm.remote
    def wrap(depth: int) -> None:
        try:
            cm.get(wrap.remote(depth - 1)) if depth else divide()
        except Exception as error:
            raise ValueError(depth) from error

    sizes = {depth: len(str(error_of(wrap.remote(depth)))) for depth in (4, 8, 12)}
    assert isinstance(error_of(wrap.remote(12)).cause.__cause__.cause.__cause__, ValueError)
    assert sizes[12] - sizes[8] < 1.2 * (sizes[8] - sizes[4]) < 4 * 800


def raise_closed() -> None:
    raise Closed("c")


@pytest.mark.parametrize(("kind", "fail"), [(ZeroDivisionError, divide), (OwnError, raise_own), (Closed, raise_closed)])
def test_retries_see_the_class_at_any_depth(
    cm: ModuleType, counter: Counter, kind: type, fail: Callable[[], object]
) -> None:
    @cm.remote(max_retries=1, retry_exceptions=[kind])
    def once_more() -> object:
        return cm.get(boom.remote(4, fail)) if counter.add() == 1 else "done"

    @cm.remote(max_retries=1, retry_exceptions=[KeyError])
    def not_for_these() -> object:
        return cm.get(boom.remote(2, fail))

    assert cm.get(once_more.remote(), timeout=60) == "done"
    assert type(error_of(not_for_these.remote()).cause) is kind


@pytest.mark.parametrize("kind", ["plain", "threaded", "async"])
def test_through_actors(cm: ModuleType, kind: str) -> None:
    class Middle:
        def call(self, depth: int) -> object:
            return cm.get(boom.remote(depth, divide))

    class AsyncMiddle:
        async def call(self, depth: int) -> object:
            return await boom.remote(depth, divide)

    actor = cm.remote(num_cpus=0, **({"max_concurrency": 2} if kind == "threaded" else {}))(
        AsyncMiddle if kind == "async" else Middle
    ).remote()

    def call() -> object:
        return cm.get(actor.call.remote(3))

    error = error_of(boom.remote(3, call))
    assert isinstance(error, ZeroDivisionError) and type(error.cause) is ZeroDivisionError
    assert str(error).count("'boom'") == 6 and str(error).count("1 / 0") == 1


def test_through_constructors(cm: ModuleType) -> None:
    @cm.remote(num_cpus=0)
    class Model:
        def __init__(self) -> None:
            cm.get(boom.remote(3, divide))

        def get(self) -> None: ...

    error = error_of(boom.remote(3, lambda: cm.get(Model.remote().get.remote())))
    assert isinstance(error, cm.exceptions.ActorDiedError) and type(error.cause.cause) is ZeroDivisionError
    assert str(error).count("1 / 0") == 1 and str(error).count("'boom'") == 5 + 1, str(error)


def test_through_generators(cm: ModuleType) -> None:
    @cm.remote
    def numbers(depth: int):
        yield 1
        yield cm.get(boom.remote(depth, divide))

    def read() -> object:
        return [cm.get(ref) for ref in numbers.remote(3)]

    error = error_of(boom.remote(3, read))
    assert isinstance(error, ZeroDivisionError) and str(error).count("1 / 0") == 1 and str(error).count("'boom'") == 6

    @cm.remote(num_cpus=0)
    class Numbers:
        async def all(self, depth: int):
            yield 1
            yield await boom.remote(depth, divide)

    stream = Numbers.remote().all.remote(3)
    assert cm.get(next(stream)) == 1
    assert isinstance(error_of(next(stream)), ZeroDivisionError)


def test_through_a_value(cm: ModuleType) -> None:
    @cm.remote
    def collect() -> list[Exception]:
        return [error_of(boom.remote(3, divide))]

    (kept,) = cm.get(collect.remote())
    assert isinstance(kept, ZeroDivisionError)

    def raise_kept() -> None:
        raise kept

    error = error_of(boom.remote(2, raise_kept))
    assert isinstance(error, ZeroDivisionError) and str(error).count("1 / 0") == 1


def test_many_at_once_in_a_coroutine(cm: ModuleType) -> None:
    async def all_of() -> list[object]:
        return await asyncio.gather(*(boom.remote(depth, divide) for depth in DEPTHS), return_exceptions=True)

    assert all(isinstance(error, ZeroDivisionError) for error in asyncio.run(all_of()))
