"""Exceptions and values whose classes raise what they must not: caught by class, told by name; no process ends."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
ESCAPES = [KeyboardInterrupt, SystemExit, GeneratorExit]


class StrRaises(ValueError):
    def __str__(self) -> str:
        raise SystemExit(3)


class StrInterrupts(NameError, ValueError):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class GetattrRaises(ValueError):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class NotesRaise(ValueError):
    @property
    def __notes__(self) -> Any:
        raise SystemExit


class EverythingRaises(ValueError):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(f"no {name}")


class ModuleIsNumber(ValueError):
    __module__: Any = 7


def without_module() -> type[ValueError]:
    namespace: dict[str, Any] = {"ValueError": ValueError}
    exec("cls = type('WithoutModule', (ValueError,), {})", {"__builtins__": {"type": type}, **namespace}, namespace)
    cls = namespace["cls"]
    assert not hasattr(cls, "__module__")
    return cls


@pytest.mark.parametrize(
    "make",
    [StrRaises, StrInterrupts, GetattrRaises, NotesRaise, ModuleIsNumber, without_module],
    ids=lambda make: make.__name__,
)
def test_an_exception_keeps_its_class_and_its_traceback(cm: ModuleType, make: Any) -> None:
    @cm.remote
    def fails() -> None:
        raise (make() if make is without_module else make)("what it says")

    with pytest.raises(ValueError) as raised:
        cm.get(fails.remote(), timeout=20)
    error = raised.value
    name = "WithoutModule" if make is without_module else make.__name__
    assert isinstance(error, cm.exceptions.TaskError) and error.cause_type == name and error.task_name == "fails"
    assert name in str(error) and "in fails" in str(error) and "could not be described" not in str(error)


def test_an_exception_that_cannot_be_asked_anything_comes_as_text(cm: ModuleType) -> None:
    @cm.remote
    def fails() -> None:
        raise EverythingRaises("what it says")

    with pytest.raises(cm.exceptions.TaskError, match="EverythingRaises: what it says") as raised:
        cm.get(fails.remote(), timeout=20)
    assert raised.value.cause_type == "EverythingRaises" and "in fails" in str(raised.value)


class Raises:
    """Its unpickling raises, or its pickling."""

    def __init__(self, cls: type[BaseException], when: str) -> None:
        self.cls, self.when = cls, when

    def __reduce__(self) -> Any:
        if self.when == "pickled":
            raise self.cls("raised on purpose")
        return load, (self.cls,)


def load(cls: type[BaseException]) -> None:
    raise cls("raised on purpose")


def told(raised: pytest.ExceptionInfo[BaseException]) -> str:
    return "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])


@pytest.mark.parametrize("cls", [*ESCAPES, ValueError])
def test_a_result_whose_unpickling_raises_is_named(cm: ModuleType, cls: type[BaseException]) -> None:
    @cm.remote
    def make() -> Raises:
        return Raises(cls, "loaded")

    async def awaited(ref: Any) -> Any:
        return await ref

    expected = cls if cls is ValueError else pickle.UnpicklingError
    ref = make.remote()
    cm.wait([ref], timeout=20)
    for read in (cm.get, lambda ref: cm.get([ref]), lambda ref: asyncio.run(awaited(ref))):
        with pytest.raises(expected, match="raised on purpose") as raised:
            read(ref)
        assert cls.__name__ in f"{told(raised)} {expected.__name__}"
        assert told(raised).count("The value of the task 'make' could not be unpickled.") == 1
    with pytest.raises(expected) as raised:
        cm.get(cm.put(Raises(cls, "loaded")))
    assert "of the task" not in told(raised)


@pytest.mark.parametrize("cls", ESCAPES)
def test_an_argument_whose_pickling_raises_is_named(cm: ModuleType, cls: type[BaseException]) -> None:
    @cm.remote
    def take(x: Any) -> None: ...

    @cm.remote(num_cpus=0)
    class Actor:
        def __init__(self, x: Any = None) -> None: ...
        def call(self, x: Any) -> None: ...

    bad = Raises(cls, "pickled")
    for call, task in (
        (lambda: take.remote(bad), "take"),
        (lambda: take.remote([1, {"key": bad}]), "take"),
        (lambda: Actor.remote().call.remote(bad), "Actor.call"),
        (lambda: Actor.remote(bad), "Actor"),
    ):
        with pytest.raises(TypeError, match=rf"is a .*Raises: {cls.__name__}: raised on purpose") as raised:
            call()
        assert f"It is the argument 'x' of the task {task!r}." in told(raised)
    with pytest.raises(TypeError, match=f"{cls.__name__}: raised on purpose"):
        cm.put(bad)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_the_parameter_of_what_cannot_be_pickled_is_named_whatever_the_argument_is(cm: ModuleType) -> None:
    @cm.remote
    def take(x: Any = None, /, y: Any = None, *more: Any, key: Any = None, **options: Any) -> None: ...

    @cm.remote(num_cpus=0)
    class Actor:
        def __init__(self, x: Any, y: Any = None) -> None: ...

    def lock() -> list[Any]:
        return [threading.Lock()]

    large = [0.5] * 100_000
    for call, expected in (
        (lambda: take.remote(1, nested(50_000)), "It is the argument 'y' of the task 'take'."),
        (lambda: take.remote(key=nested(50_000)), "It is the argument 'key' of the task 'take'."),
        (lambda: take.remote(lock()), "It is the argument 'x' of the task 'take'."),
        (lambda: take.remote(1, 2, 3, lock()), "It is the argument 'more[1]' of the task 'take'."),
        (lambda: take.remote(1, other=lock()), "It is the argument 'other' of the task 'take'."),
        (lambda: take.remote(lock(), y=lock()), "They are in the arguments 'x', 'y' of the task 'take'."),
        (lambda: take.remote(large, [Whole(), large, lock()]), "It is the argument 'y' of the task 'take'."),
        (lambda: Actor.remote(1, lock()), "It is the argument 'y' of the task 'Actor'."),
    ):
        with pytest.raises(TypeError, match="cannot be sent to another process") as raised:
            call()
        assert expected in told(raised)
        assert not hasattr(raised.value, "within")


class Whole:
    """Pickled by a function of its own, which counts."""

    n_pickled = 0

    def __reduce__(self) -> Any:
        Whole.n_pickled += 1
        return int, (1,)


def test_a_large_argument_is_pickled_once(cm: ModuleType) -> None:
    @cm.remote
    def take(first: Any, second: Any = None) -> Any:
        return first[1:], second and second[1:]

    Whole.n_pickled = 0
    text = "x" * 1_000_000
    assert cm.get(take.remote([text, Whole()])) == ([1], None)
    assert Whole.n_pickled == 1
    assert cm.get(take.remote([text, Whole()], [text, Whole()])) == ([1], [1])
    assert Whole.n_pickled == 3


@pytest.mark.parametrize("cls", ESCAPES)
def test_a_result_whose_pickling_raises_is_the_tasks_error(cm: ModuleType, cls: type[BaseException]) -> None:
    @cm.remote
    def make() -> Raises:
        return Raises(cls, "pickled")

    with pytest.raises(TypeError, match=rf"is a .*Raises: {cls.__name__}: raised on purpose") as raised:
        cm.get(make.remote(), timeout=20)
    assert raised.value.task_name == "make"


@pytest.mark.parametrize("cls", ESCAPES)
def test_an_argument_whose_unpickling_raises_is_named(cm: ModuleType, cls: type[BaseException]) -> None:
    @cm.remote
    def take(x: Any) -> None: ...

    with pytest.raises(pickle.UnpicklingError, match=f"{cls.__name__}: raised on purpose") as raised:
        cm.get(take.remote(Raises(cls, "loaded")), timeout=20)
    assert "The argument 'x' of the task 'take' could not be unpickled." in str(raised.value)


class Pressed:
    """While it is unpickled, Ctrl-C is pressed."""

    def __reduce__(self) -> Any:
        return signal.raise_signal, (signal.SIGINT,)


@pytest.mark.parametrize("handler", [signal.default_int_handler, lambda *_: interrupt()], ids=["C", "Python"])
def test_ctrl_c_stays_ctrl_c(cm: ModuleType, handler: Any) -> None:
    ref = cm.put(Pressed())
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            cm.get(ref)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_long_text_loses_its_middle(cm: ModuleType) -> None:
    def build(how: str) -> None:
        if how == "name":
            raise type("N" * 1_000_000, (ValueError,), {})("short")
        raise ValueError("x" * 1_000_000)

    class Builds:
        def __reduce__(self) -> Any:
            return build, ("text",)

    @cm.remote
    def fails(how: str) -> Any:
        if how == "result":
            return Builds()
        if how == "unpickled here":
            raise CannotBeLoaded
        return build(how)

    for how in ("text", "name", "unpickled here"):
        with pytest.raises(cm.exceptions.TaskError) as raised:
            cm.get(fails.remote(how), timeout=20)
        assert len(str(raised.value)) < 32_000, how
        assert "characters left out" in str(raised.value), how
    with pytest.raises(pickle.UnpicklingError) as unpickled:
        cm.get(cm.put(Raises(LongExit, "loaded")))
    assert len(str(unpickled.value)) < 32_000 and "characters left out" in str(unpickled.value)


class LongExit(SystemExit):
    def __str__(self) -> str:
        return "x" * 1_000_000


class CannotBeLoaded(Exception):
    """Can be unpickled in the worker that raises it, and nowhere else."""

    pid = 0

    def __reduce__(self) -> Any:
        return load_in, (os.getpid(),)


def load_in(pid: int) -> CannotBeLoaded:
    if os.getpid() != pid:
        raise ValueError("y" * 1_000_000)
    return CannotBeLoaded()
