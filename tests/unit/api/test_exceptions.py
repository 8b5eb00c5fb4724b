"""Exceptions on their way through the store: which class arrives, with what in it, and what a person reads."""

from __future__ import annotations

import linecache
import pickle
import signal

import pytest

from cellmesh import exceptions, exit_codes
from cellmesh.errors.describe import describe
from cellmesh.errors.rebuild import make_error, task_timeout
from cellmesh.exceptions import (
    ActorDiedError,
    CellmeshError,
    GetTimeoutError,
    NodeDiedError,
    ObjectStoreFullError,
    TaskCancelledError,
    TaskError,
    TaskTimeoutError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from cellmesh.tracebacks import with_source_lines


def test_names_of_classes_cannot_turn_our_words_around() -> None:
    error = through_the_store(type("Evil\u202e\x1b[31m", (ValueError,), {})("text"))
    assert type(error).__name__ == "TaskError(Evil\ufffd\ufffd[31m)" and error.cause_type == "Evil\ufffd\ufffd[31m"


def through_the_store(error: BaseException, name: str = "f") -> BaseException:
    """What get() raises for a task `name` that raised `error`."""
    try:
        raise error
    except BaseException as raised:
        return make_error(describe(raised, name), task=7)


class WithArguments(Exception):
    """Its __init__ wants other arguments than `args` holds, so it pickles but does not unpickle."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}: {detail}")
        self.code = code
        self.detail = detail


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        import threading

        self.lock = threading.Lock()


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Final(ValueError):
    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError("final")


class Slotted(Exception):
    __slots__ = ("size",)


def test_the_class_is_both() -> None:
    error = through_the_store(ValueError("bad", 3))
    assert isinstance(error, ValueError) and isinstance(error, TaskError) and isinstance(error, CellmeshError)
    assert type(error).__name__ == "TaskError(ValueError)"
    assert error.args == ("bad", 3) and error.cause.args == ("bad", 3) and type(error.cause) is ValueError
    assert error.task_name == "f" and error.task == 7 and error.cause_type == "ValueError"


def test_the_text_has_the_message_first_and_the_remote_traceback() -> None:
    text = str(through_the_store(ValueError("bad")))
    assert text.startswith("bad\n\nThe task 'f' raised it in the worker with pid ")
    assert "Traceback (most recent call last):" in text and "raise error" in text and text.endswith("ValueError: bad")


def test_causes_and_notes_are_told_too() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise ValueError("second") from first
    except ValueError as second:
        second.add_note("by the way")
        text = describe(second, "f")[4]
    assert "KeyError: 'first'" in text and "direct cause" in text and text.endswith("ValueError: second\nby the way\n")


def test_a_recursion_is_told_in_few_lines() -> None:
    def deep() -> None:
        deep()

    try:
        deep()
    except RecursionError as error:
        text = describe(error, "f")[4]
    assert "more times]" in text and len(text.splitlines()) < 30


def test_the_class_is_made_once() -> None:
    assert type(through_the_store(KeyError(1))) is type(through_the_store(KeyError(2)))


@pytest.mark.parametrize(
    "error",
    [
        OSError(2, "No such file", "a.txt"),
        FileNotFoundError(2, "No such file", "b"),
        KeyError("k"),
        StopIteration(3),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
        SyntaxError("s", ("f", 1, 2, "t")),
        ImportError("i", name="n", path="p"),
        RecursionError("deep"),
        TimeoutError("late"),
        Slotted("s"),
        MemoryError("m"),
        ObjectStoreFullError("full"),
        GetTimeoutError("late"),
        WorkerCrashedError("crash"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_builtin_classes_keep_their_fields(error: Exception) -> None:
    arrived = through_the_store(error)
    assert isinstance(arrived, type(error)) and isinstance(arrived, TaskError)
    for name in ("errno", "filename", "strerror", "value", "reason", "object", "name", "path", "lineno"):
        if hasattr(error, name):
            assert getattr(arrived, name) == getattr(error, name)


def test_a_demanding_constructor_is_not_called() -> None:
    error = through_the_store(WithArguments(3, detail="d"))
    assert isinstance(error, WithArguments) and (error.code, error.detail) == (3, "d")
    assert isinstance(error.cause, WithArguments) and not error.note


def test_what_cannot_be_pickled_arrives_as_text() -> None:
    error = through_the_store(Unpicklable())
    assert type(error) is TaskError and error.cause is None and error.cause_type == "Unpicklable"
    assert "holds a lock" in str(error) and "could not be sent" in error.note and "lock" in error.note


def test_what_cannot_be_unpickled_arrives_as_text() -> None:
    record = describe(ValueError("v"), "f")
    error = make_error((*record[:5], b"rubbish", *record[6:]))
    assert type(error) is TaskError and "could not be unpickled" in error.note and "v" in str(error)


def test_exceptions_without_text_arrive() -> None:
    assert "its __str__ raised RuntimeError" in str(through_the_store(NoText()))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_would_end_the_driver_does_not(error: BaseException) -> None:
    arrived = through_the_store(error)
    assert type(arrived) is TaskError and type(arrived.cause) is type(error)


def test_a_final_class_stays_a_task_error() -> None:
    arrived = through_the_store(Final("f"))
    assert type(arrived) is TaskError and isinstance(arrived.cause, Final)


def test_a_timeout_is_of_its_own_class_and_can_be_passed_on() -> None:
    error = through_the_store(through_the_store(task_timeout("f", 2, 2.25)))
    assert (
        type(error) is TaskTimeoutError
        and isinstance(error, TimeoutError)
        and (error.limit_s, error.ran_s) == (2, 2.25)
    )
    assert str(error).startswith(
        "the task 'f' ran longer than the 2 s that its option timeout allows: it was interrupted after 2.25 s."
    )
    killed = make_error(("system", "timed_out", 2000, 7), "f", 7)
    assert (
        type(killed) is TaskTimeoutError
        and killed.limit_s == 2
        and killed.task == 7
        and "its process was killed" in str(killed)
    )


def test_groups_work_with_except_star() -> None:
    caught = []
    try:
        raise through_the_store(ExceptionGroup("several", [ValueError(1), KeyError(2)]))
    except* ValueError as group:
        caught += group.exceptions
    except* KeyError as group:
        caught += group.exceptions
    assert [type(e) for e in caught] == [ValueError, KeyError]


def test_a_group_with_base_exceptions_arrives_as_text() -> None:
    assert type(through_the_store(BaseExceptionGroup("b", [KeyboardInterrupt()]))) is TaskError


def test_an_error_that_passes_a_second_task_keeps_its_class() -> None:
    inner = through_the_store(ValueError("deep"), "inner")
    outer = through_the_store(inner, "outer")
    assert isinstance(outer, ValueError) and type(outer).__name__ == "TaskError(ValueError)"
    assert outer.task_name == "outer" and type(outer.cause) is ValueError and outer.cause_type == "ValueError"
    assert "'inner'" in str(outer) and str(outer).startswith("deep\n")


def test_task_errors_pickle() -> None:
    error = pickle.loads(pickle.dumps(through_the_store(ValueError("bad"))))
    assert isinstance(error, ValueError) and isinstance(error, TaskError) and error.task_name == "f"


@pytest.mark.parametrize(
    "code, detail, kind, words",
    [
        ("worker_crashed", -9, WorkerCrashedError, ["SIGKILL", "the task 'f' was", "max_retries"]),
        ("worker_crashed", 3, WorkerCrashedError, ["exit status 3"]),
        ("unrouted", -1, TaskUnschedulableError, ["the task 'f' can run nowhere", "no member of the cluster"]),
        ("too_deep", 240, TaskUnschedulableError, ["the task 'f' can never begin: 240 processes", "for each level"]),
        ("node_died", -1, NodeDiedError, ["machine", "the task 'f' was lost", "max_retries"]),
        ("cancelled", 0, TaskCancelledError, ["'f'", "cancelled"]),
        ("actor_died", -11, ActorDiedError, ["SIGSEGV"]),
        (
            "worker_crashed",
            exit_codes.EXITED + 3,
            WorkerCrashedError,
            ["the task 'f' called sys.exit()", "exit status 3", "max_retries"],
        ),
        ("actor_died", 0, ActorDiedError, ["its process ended with exit status 0"]),
        *(("actor_died", detail, ActorDiedError, [words]) for detail, words in exit_codes.ENDED_ON_PURPOSE.items()),
        ("actor_unavailable", -9, exceptions.ActorUnavailableError, ["may have been executed", "max_task_retries"]),
        (
            "actor_unavailable",
            exit_codes.NOT_BEGUN,
            exceptions.ActorUnavailableError,
            ["The actor is restarting", "not been begun", "max_task_retries"],
        ),
        ("out_of_memory", -9, exceptions.OutOfMemoryError, ["memory"]),
        ("object_lost", 0, exceptions.ObjectLostError, ["gone"]),
        ("store_full", 0, ObjectStoreFullError, ["object_store_memory"]),
        ("something_new", 4, CellmeshError, ["something_new", "4"]),
    ],
)
def test_errors_of_the_core_say_what_happened_to_which_task(
    code: str, detail: int, kind: type, words: list[str]
) -> None:
    error = make_error(("system", code, detail, 5), "f", 5)
    assert type(error) is kind and all(word in str(error) for word in words)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)


def test_exit_codes_travel() -> None:
    assert make_error(("system", "worker_crashed", -signal.SIGKILL, 5)).exit_code == -9


def test_a_constructor_that_raised_is_told_with_its_traceback() -> None:
    try:
        raise ValueError("no data")
    except ValueError as raised:
        record = describe(raised, "Model")
    error = make_error(("actor_init", *record[1:], 7))
    assert type(error) is ActorDiedError and isinstance(error.cause, ValueError) and error.task == 7
    assert "'Model'" in str(error) and "no data" in str(error) and "Traceback" in str(error)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (exceptions.__doc__ or "").splitlines():
        stem = line.lstrip(" │├└─")
        name = stem.split(" ")[0]
        if name.endswith(("Error", "Exceeded", "Removed")):
            drawn.append((len(line) - len(stem), name))
    parents: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    for indent, name in drawn:
        while stack and stack[-1][0] >= indent:
            stack.pop()
        parents[name] = stack[-1][1] if stack else ""
        stack.append((indent, name))
    for name, parent in parents.items():
        cls = getattr(exceptions, name)
        assert cls.__bases__[0].__name__ == (parent or "Exception")
    in_module = {
        name for name, cls in vars(exceptions).items() if isinstance(cls, type) and issubclass(cls, CellmeshError)
    }
    assert in_module == set(parents)
    assert in_module <= set(exceptions.__all__)
    assert issubclass(GetTimeoutError, TimeoutError) and issubclass(ObjectStoreFullError, MemoryError)


def test_source_lines_of_cells_are_filled_in_where_they_are_known() -> None:
    name = "/tmp/ipykernel_1/123.py"
    linecache.cache[name] = (10, None, ["def f():\n", "    raise ValueError('x')\n"], name)
    try:
        text = f'Traceback (most recent call last):\n  File "{name}", line 2, in f\nValueError: x\n'
        filled = with_source_lines(text)
        assert f"  File \"{name}\", line 2, in f\n    raise ValueError('x')\nValueError: x\n" in filled
        assert with_source_lines(filled) == filled
    finally:
        del linecache.cache[name]


def test_long_messages_lose_their_middle() -> None:
    record = describe(ValueError("a" * 1_000_000 + "z"), "f")
    assert len(record[3]) < 300_000 and record[3].endswith("z") and "left out" in record[3]


def test_a_failure_of_no_meaning_names_the_damage() -> None:
    error = make_error(("system", "unknown", 0, 0))
    assert type(error) is exceptions.StoreCorruptedError
    assert str(error).startswith("the result of a task cannot be read: something has overwritten why it failed")
    assert "the result of the task 'f' cannot" in str(make_error(("system", "unknown", 0, 7), "f"))
