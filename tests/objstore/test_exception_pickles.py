"""Exceptions as values: their classes, constructors and what they hold are of every shape."""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from cellmesh.objstore import code_pickles, exception_pickles


class KeywordOnly(Exception):
    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoArguments(Exception):
    def __init__(self) -> None:
        super().__init__("the fixed text")


class Formatted(ValueError):
    def __init__(self, foo: str, bar: str) -> None:
        super().__init__(f"{foo} and {bar}")
        self.foo, self.bar = foo, bar


class SlotsOnly(KeyError):
    __slots__ = ("__private", "key", "unset")

    def __init__(self, key: str) -> None:
        super().__init__(f"no {key}")
        self.key, self.__private = key, 7

    @property
    def private(self) -> int:
        return self.__private


class BothMissing(KeyError, AttributeError):
    def __init__(self, *, key: str) -> None:
        super().__init__(key)


class NoFile(FileNotFoundError):
    def __init__(self, path: str) -> None:
        super().__init__(2, "not here", path)


class NoModule(ImportError):
    def __init__(self, *, module: str) -> None:
        super().__init__(f"no {module}", name=module, path="/there")


class Exit(SystemExit):
    def __init__(self, *, status: int) -> None:
        super().__init__(status)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int
    detail: str = "detail"


class FrozenArgs(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    args = property(lambda self: ("cannot be set",))


CASES: dict[str, tuple[Callable[[], BaseException], Callable[[Any], Any]]] = {
    "keywords only": (lambda: KeywordOnly("nope", status=401), lambda e: (e.args, e.status)),
    "no arguments": (NoArguments, lambda e: e.args),
    "formatted": (lambda: Formatted("x", "y"), lambda e: (str(e), e.foo, e.bar)),
    "slots": (lambda: SlotsOnly("k"), lambda e: (e.args, e.key, e.private, hasattr(e, "unset"))),
    "two builtin bases": (lambda: BothMissing(key="k"), lambda e: e.args),
    "OSError": (lambda: NoFile("/x"), lambda e: (e.args, e.errno, e.strerror, e.filename, str(e))),
    "ImportError": (lambda: NoModule(module="m"), lambda e: (e.args, e.name, e.path)),
    "SystemExit": (lambda: Exit(status=3), lambda e: e.code),
    "frozen": (lambda: Frozen(5), lambda e: (e.code, e.detail)),
    "args that cannot be set": (lambda: FrozenArgs(7), lambda e: (e.code, exception_pickles.ARGS.__get__(e))),
}


@pytest.mark.parametrize("name", CASES)
def test_an_exception_comes_back_as_it_was(name: str, travelled: Callable[[Any], Any]) -> None:
    make, look = CASES[name]
    error = make()
    if not dataclasses.is_dataclass(error):
        error.add_note("a note")
    back = travelled(error)
    assert type(back) is type(error) and look(back) == look(error)
    assert getattr(back, "__notes__", None) == getattr(error, "__notes__", None)


def test_an_exception_within_itself_and_within_others(travelled: Callable[[Any], Any]) -> None:
    error = KeywordOnly("a", status=1)
    error.own = error
    back = travelled({"error": error, "again": error, "group": ExceptionGroup("g", [error])})
    assert back["error"] is back["again"] is back["error"].own
    assert [e.status for e in back["group"].exceptions] == [1]


def test_slots_and_dict_take_each_others_place() -> None:
    """A class of a notebook with slots has none where cloudpickle has made it again: its exceptions come back so."""
    error = exception_pickles.make(SlotsOnly, ("no k",))
    exception_pickles.set_state(error, {"key": "k", "other": 1})
    assert error.key == "k" and vars(error) == {"other": 1}


class Reduced(Exception):
    def __init__(self, *, a: int) -> None:
        self.a = a

    def __reduce__(self) -> Any:
        return _reduced, (self.a + 1,)


def _reduced(a: int) -> Reduced:
    return Reduced(a=a)


class WithState(Exception):
    def __init__(self, a: int) -> None:
        super().__init__(a)
        self.a = a

    def __setstate__(self, state: Any) -> None:
        self.a = state["a"] + 10


def test_what_a_class_says_of_itself_holds(travelled: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert travelled(Reduced(a=1)).a == 2
    assert travelled(WithState(1)).a == 11
    monkeypatch.setitem(copyreg.dispatch_table, KeywordOnly, lambda e: (_reduced, (e.status,)))
    assert type(travelled(KeywordOnly("", status=1))) is Reduced


def test_plain_exceptions_are_pickled_as_ever() -> None:
    class Plain(ValueError):
        pass

    assert exception_pickles.of_class(Plain) is None and exception_pickles.of_class(OSError) is None
    assert code_pickles.dumps(ValueError(1)) == pickle.dumps(ValueError(1), 5)


def test_what_an_exception_holds_and_cannot_be_sent_is_named() -> None:
    import threading

    from cellmesh.errors.serializability import inspect_serializability

    error = KeywordOnly("a", status=1)
    error.lock = threading.Lock()
    assert "error.lock is a _thread.lock" in str(inspect_serializability(error, "error"))
