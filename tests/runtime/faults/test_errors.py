"""Exceptions of tasks: their class, their text, the way through dependents; and what cannot be pickled."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from types import ModuleType

import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


class OwnError(Exception):
    """Defined here, and so sent by value."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail


@cellmesh.remote
def divide(a: float, b: float) -> float:
    return a / b


@cellmesh.remote
def add(a, b):
    return a + b


@cellmesh.remote
def raise_own():
    raise OwnError(3, detail="d")


def test_the_error_is_both_classes_and_shows_the_remote_line(cm: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        cm.get(divide.remote(1, 0))
    error = raised.value
    assert isinstance(error, cm.exceptions.TaskError) and isinstance(error.cause, ZeroDivisionError)
    assert error.task_name == "divide" and error.pid not in (0, os.getpid())
    assert "division by zero" in str(error) and "return a / b" in str(error) and "'divide'" in str(error)
    assert "scheduler" not in error.remote_traceback, "the worker's own frames are left out"


def test_classes_of_the_user(cm: ModuleType) -> None:
    with pytest.raises(OwnError) as raised:
        cm.get(raise_own.remote())
    assert raised.value.code == 3 and raised.value.detail == "d"


def test_dependents_fail_with_the_same_cause(cm: ModuleType) -> None:
    failed = divide.remote(1, 0)
    after = add.remote(add.remote(failed, 1), 2)
    for ref in (failed, after, add.remote(after, after)):
        with pytest.raises(ZeroDivisionError) as raised:
            cm.get(ref, timeout=20)
        assert raised.value.task_name == "divide"


def test_errors_pass_through_tasks_that_wait_for_them(cm: ModuleType) -> None:
    @cm.remote
    def outer():
        return cm.get(divide.remote(1, 0))

    with pytest.raises(ZeroDivisionError) as raised:
        cm.get(outer.remote())
    assert raised.value.task_name == "outer" and "'divide'" in str(raised.value) and "return a / b" in str(raised.value)


def test_a_task_can_handle_the_error_of_another(cm: ModuleType) -> None:
    @cm.remote
    def handle():
        try:
            cm.get(divide.remote(1, 0))
        except ZeroDivisionError as error:
            return type(error).__name__

    assert cm.get(handle.remote()) == "TaskError(ZeroDivisionError)"


def test_a_list_fails_fast(cm: ModuleType, flag) -> None:
    @cm.remote
    def hang(go):
        go.wait()

    hanging = hang.remote(flag("go"))
    with pytest.raises(ZeroDivisionError):
        cm.get([hanging, divide.remote(1, 0)], timeout=20)
    flag("go").set()
    cm.get(hanging)


def test_all_returns_of_a_failed_task_fail(cm: ModuleType) -> None:
    for ref in divide.options(num_returns=3).remote(1, 0):
        with pytest.raises(ZeroDivisionError):
            cm.get(ref)


@pytest.mark.parametrize("cls", [KeyboardInterrupt, BaseException])
def test_exceptions_outside_exception_arrive_and_leave_the_worker_sound(cm: ModuleType, cls: type) -> None:
    @cm.remote
    def end():
        raise cls("end")

    with pytest.raises(cm.exceptions.TaskError) as raised:
        cm.get(end.remote(), timeout=20)
    assert raised.value.cause_type == cls.__name__ and type(raised.value.cause) is cls
    assert cm.get(add.remote(1, 2), timeout=20) == 3


def test_groups(cm: ModuleType) -> None:
    @cm.remote
    def several():
        raise ExceptionGroup("several", [ValueError(1), OwnError(2, detail="x")])

    caught = []
    try:
        cm.get(several.remote())
    except* OwnError as group:
        caught += group.exceptions
    except* ValueError as group:
        caught += group.exceptions
    assert [type(error) for error in caught] == [OwnError, ValueError]


def test_an_exception_that_cannot_be_pickled(cm: ModuleType) -> None:
    @cm.remote
    def holds_a_lock():
        error = ValueError("with a lock")
        error.lock = threading.Lock()
        raise error

    with pytest.raises(cm.exceptions.TaskError, match="with a lock") as raised:
        cm.get(holds_a_lock.remote())
    assert raised.value.cause is None and "could not be sent" in str(raised.value)


def test_an_exception_that_cannot_be_unpickled(cm: ModuleType) -> None:
    class Explodes(Exception):
        def __reduce__(self):
            return int, ("no number",)

    @cm.remote
    def fails():
        raise Explodes("boom")

    with pytest.raises(cm.exceptions.TaskError, match="boom"):
        cm.get(fails.remote())


def test_an_exception_whose_args_cannot_be_set_keeps_its_class_and_its_note(cm: ModuleType) -> None:
    class FrozenArgs(Exception):
        def __init__(self, code: int) -> None:
            super().__init__(code)
            self.code = code

        args = property(lambda self: ("cannot be set",))

    @cm.remote
    def fail() -> None:
        error = FrozenArgs(7)
        error.add_note("for the reader")
        raise error

    with pytest.raises(FrozenArgs) as raised:
        cm.get(fail.remote(), timeout=30)
    assert raised.value.code == 7 and "for the reader" in str(raised.value)


def test_a_result_that_cannot_be_pickled(cm: ModuleType) -> None:
    @cm.remote
    def holds_a_lock():
        return {"model": {"lock": threading.Lock()}}

    with pytest.raises(TypeError, match=r"\['model'\]\['lock'\]") as raised:
        cm.get(holds_a_lock.remote())
    assert "lock" in str(raised.value) and cm.get(add.remote(1, 1)) == 2


def test_a_result_that_cannot_be_unpickled(cm: ModuleType) -> None:
    class Explodes:
        def __reduce__(self):
            return int, ("no number",)

    @cm.remote
    def make():
        return Explodes()

    ref = make.remote()
    with pytest.raises(ValueError, match="no number"):
        cm.get(ref)
    assert cm.get(add.remote(1, 1)) == 2


def test_an_argument_that_cannot_be_unpickled(cm: ModuleType) -> None:
    class Explodes:
        def __reduce__(self):
            return int, ("no number",)

    with pytest.raises(ValueError, match="no number"):
        cm.get(add.remote(Explodes(), 1), timeout=20)


class Refused:
    """Can be pickled, and cannot be unpickled."""

    def __init__(self, filler: bytes = b"") -> None:
        self.filler = filler

    def __reduce__(self):
        return int, ("no number", self.filler)


@pytest.mark.parametrize("filler", [b"", b"x" * 500_000], ids=["small", "large"])
def test_an_argument_that_cannot_be_unpickled_is_named(cm: ModuleType, filler: bytes) -> None:
    bad, good = Refused(filler), {"a": {1, 2}}

    @cm.remote
    def f(a, b=1, *rest, key=None): ...

    @cm.remote(num_cpus=0)
    class Actor:
        def call(self, x, y=None): ...

    @cm.remote(num_cpus=0)
    class Async:
        async def call(self, x, y=None): ...

    @cm.remote(num_cpus=0)
    class Made:
        def __init__(self, config): ...
        def get(self): ...

    actor, other, made = Actor.remote(), Async.remote(), cm.put(1)
    for ref, name, task in [
        (f.remote(bad), "'a'", "f"),
        (f.remote(good, bad), "'b'", "f"),
        (f.remote(good, made, good, bad), "'rest[1]'", "f"),
        (f.remote(made, key=bad), "'key'", "f"),
        (f.remote(good, b=cm.put(bad)), "'b'", "f"),
        (f.remote(1, [good, bad]), "'b'", "f"),
        (actor.call.remote(good, bad), "'y'", "Actor.call"),
        (other.call.remote(bad, good), "'x'", "Async.call"),
        (Made.remote(bad).get.remote(), "'config'", "Made"),
    ]:
        with pytest.raises((TypeError, cm.exceptions.ActorDiedError)) as raised:
            cm.get(ref, timeout=20)
        said = str(raised.value)
        assert said.count(f"The argument {name} of the task {task!r} could not be unpickled.") == 1, said
        assert (
            "hooks.py" not in said and "serialization.py" not in said and not getattr(raised.value, "__notes__", [])
        ), said


def test_a_tensor_of_a_gpu_that_a_task_without_one_is_given(cm: ModuleType) -> None:
    """With what torch says (tests/gpu has the real tensor)."""

    def load() -> None:
        raise RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.")

    class OnGpu:
        def __reduce__(self):
            return load, ()

    with pytest.raises(RuntimeError, match="num_gpus=1 reserves one") as raised:
        cm.get(add.remote(1, OnGpu()), timeout=20)
    assert "The argument 'b' of the task 'add' could not be unpickled." in str(raised.value)


def test_an_argument_that_ends_the_process_when_it_is_unpickled_is_named(cm: ModuleType) -> None:
    class Leaves:
        def __reduce__(self):
            return sys.exit, (3,)

    with pytest.raises(pickle.UnpicklingError, match="SystemExit: 3") as raised:
        cm.get(add.remote(1, Leaves()), timeout=20)
    assert "The argument 'b' of the task 'add' could not be unpickled." in str(raised.value) and "hooks.py" not in str(
        raised.value
    )


def test_an_error_with_very_much_to_say_keeps_its_class_and_is_told_in_part(cm: ModuleType) -> None:
    def build() -> None:
        raise OwnError("x" * 12_000_000, detail="y" * 12_000_000)

    class Builds:
        def __reduce__(self):
            return build, ()

    for call in (
        lambda: add.remote(1, Builds()),
        lambda: cm.remote(build).remote(),
        lambda: cm.remote(lambda: int("x" * 12_000_000)).remote(),
    ):
        with pytest.raises((OwnError, ValueError)) as raised:
            cm.get(call(), timeout=40)
        assert isinstance(raised.value, cm.exceptions.TaskError) and len(str(raised.value)) < 32 << 10
        assert "characters left out" in str(raised.value) or "int" in str(raised.value)


def test_infinite_recursion(cm: ModuleType) -> None:
    @cm.remote
    def deep():
        def f():
            return f()

        return f()

    with pytest.raises(RecursionError):
        cm.get(deep.remote(), timeout=30)


TELLS = """
import cellmesh, sys

@cellmesh.remote
def fail():
    print("about to fail")
    raise ValueError("no data")

@cellmesh.remote
class Model:
    def __init__(self):
        print("about to load")
        raise KeyError("weights")
    def get(self): pass

def show(kind, error, tb):
    print("shown:", error.args, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("code", "first", "then"),
    [
        ("cellmesh.get(fail.remote())", "about to fail\n", "Traceback"),
        ("cellmesh.get(Model.remote().get.remote())", "about to load\n", "Traceback"),
        (
            "try: cellmesh.get(fail.remote())\nexcept ValueError as error: raise SystemError('mine') from error",
            "about to fail\n",
            "Traceback",
        ),
        ("sys.excepthook = show\ncellmesh.get(fail.remote())", "about to fail\n", "shown: ('no data',)"),
    ],
)
def test_a_script_prints_what_a_task_printed_above_its_error(code: str, first: str, then: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TELLS + code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=40
    )
    assert done.stdout.count(first) == 1 and first in done.stdout.partition(then)[0], done.stdout
    assert then in done.stdout, done.stdout


def test_the_hook_for_uncaught_errors_is_given_back() -> None:
    before = sys.excepthook
    with cellmesh.init(num_cpus=1):
        assert sys.excepthook is not before
    assert sys.excepthook is before


def test_errors_are_listed(cm: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError):
        cm.get(divide.remote(1, 0))
    # the value is there a moment before the task has ended
    wait_until(lambda: [row["name"] for row in cm.error_info()] == ["divide"], 10)
    assert [row["name"] for row in cm.state.list_tasks(filters=[("state", "=", "failed")])] == ["divide"]


def test_the_timeline_is_a_chrome_trace(cm: ModuleType, tmp_path) -> None:
    import json

    cm.get(add.remote(add.remote(1, 2), 3))
    cm.timeline(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())
    assert sum(event["ph"] == "X" and event["name"] == "add" for event in events) == 2
    assert {event["ph"] for event in events} == {"M", "X", "s", "f"}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


class Heavy:
    """Takes a while to be unpickled."""

    def __reduce__(self):
        return sum, (range(300_000),)


def test_the_timeline_tells_what_loading_arguments_took(cm: ModuleType, tmp_path) -> None:
    @cm.remote
    def plain(x):
        return x

    cm.get(plain.remote(1))
    refs = [plain.remote(2) for _ in range(20)] + [plain.remote(Heavy())]
    assert cm.get(refs) == [2] * 20 + [sum(range(300_000))]
    numbers = {ref.creator: ref for ref in refs}
    cm.timeline(tmp_path / "trace.json")
    slices = [
        event
        for event in json.loads((tmp_path / "trace.json").read_text())
        if event.get("args", {}).get("task") in numbers
    ]
    *quicks, slow = ([event for event in slices if event["args"]["task"] == ref.creator] for ref in refs)
    quick = min(quicks, key=len)  # on a busy machine one may be interrupted while it loads its argument
    assert [event["name"] for event in quick] == [quick[0]["name"]]
    whole, loading = slow
    assert loading["name"] == "arguments" and loading["ts"] == whole["ts"] and loading["tid"] == whole["tid"]
    assert 100 < loading["dur"] <= whole["dur"]


def test_a_crash_tells_the_last_words(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def crash() -> None:
        import ctypes
        import sys

        print("last words", file=sys.stderr, flush=True)
        ctypes.string_at(0)

    with pytest.raises(cm.exceptions.WorkerCrashedError, match="SIGSEGV") as caught:
        cm.get(crash.remote(), timeout=30)
    notes = "\n".join(caught.value.__notes__)
    assert "last words" in notes and "in crash" in notes


def test_a_function_keeps_the_frames_of_its_failures(cm: ModuleType) -> None:
    @cm.remote
    def fails(x):
        half = x / 2
        raise ValueError(half)

    @cm.remote(keep_frames=True)
    def yields(x):
        yield x
        raise ValueError(x)

    @cm.remote(keep_frames=True)
    async def yields_async(x):
        yield x
        raise ValueError(x)

    @cm.remote(keep_frames=True)
    class Actor:
        def fails(self, x):
            half = x / 2
            raise ValueError(half)

    def error_of(ref):
        with pytest.raises(ValueError) as caught:
            cm.get(ref)
        return caught.value

    kept = fails.options(keep_frames=True)
    for ref in (kept.remote(6), Actor.remote().fails.remote(6)):
        error = error_of(ref)
        assert error.frames[-1][0].endswith("in fails") and "half = 3.0" in error.frames[-1][1] and error.kept
    for generator in (yields.remote(1), yields_async.remote(1)):
        assert error_of(list(generator)[-1]).frames[-1][1] == "x = 1"
    assert error_of(fails.remote(6)).frames == () and kept is not fails
    from cellmesh.errors.post_mortem import converse

    lines, said = iter(["p half * 10", "q"]), []
    converse(error_of(kept.remote(8)).kept, lambda prompt: next(lines), said.append)
    assert "40.0" in "".join(said)
    with pytest.raises(ValueError, match=r"keep_frames=1.5 of .*: must be True or False"):
        fails.options(keep_frames=1.5)
