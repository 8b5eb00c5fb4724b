"""What in a value cannot be pickled, and where it is: `model.session['lock']`, not "cannot pickle '_thread.lock'
object".

The pickler tells of every object before it pickles it, so when it fails, the last one it told of is the culprit. The
ways from the value to what is in it are found by a breadth-first search over attributes, items, and what functions
capture; nothing is pickled for that. A second pass steps over the culprits already known, so that all of them are
found. What is pickled is not kept, and what is said is bounded, however large or deep the value is.
"""

from __future__ import annotations

import dis
import math
import reprlib
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ..text import variable_of_caller
from .describe import shortened, text_of
from .escapes import ends_process

N_FAILURES = 10  # culprits that one look names
N_TOLD = 3  # of them in an error
LOOK_S = 0.2  # an error looks for ways no longer, and no longer for further culprits
N_VISITED = 200_000  # objects the search for the way looks at
N_STEPS = 40  # of a way that are shown; of a longer one the first and the last ones
MOST_CHARS = 1000  # of a name, and of what a user's class says

REMEDY = (
    "Create it where it is used, inside the function or in the actor's __init__, and send what it is made of; or give "
    "its class a __reduce__ that makes it again on the other side."
)
TOO_DEEP = "it lies deeper than pickle can follow"
FLAT_REMEDY = "Send what it holds in a flat form: a list of its levels, say, or of pairs of a parent and a child."
ITEMS_REMEDY = "Send its items, list(...) of it; or have f.map(...) call the function for each of them."


@dataclass(frozen=True)
class Failure:
    """One object that cannot be pickled.

    Attributes
    ----------
    path : str
        A Python expression that leads to it from the value that was looked at; "" if no way was found.
    type_name : str
    reason : str
        What pickle says.
    """

    path: str
    type_name: str
    reason: str

    def __str__(self) -> str:
        where = self.path or "something that pickling makes on the way"
        return f"{where} is a {self.type_name}: {self.reason}"


@dataclass(frozen=True)
class Serializability:
    """What `inspect_serializability` found; true if everything can be pickled."""

    name: str
    failures: tuple[Failure, ...]

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self:
            return f"{self.name} can be pickled."
        lines = "\n".join(f"  {failure}" for failure in self.failures)
        return f"{self.name} cannot be pickled, because of\n{lines}\n{_remedy(self.failures)}"

    __repr__ = __str__


def inspect_serializability(value: object, name: str | None = None) -> Serializability:
    """Find out what in a value cannot be sent to other processes.

    Parameters
    ----------
    value : object
        A function, a class, an argument, a result.
    name : str, optional
        What to call it; by default its own name, or its type's.

    Returns
    -------
    Serializability
        True if it can be pickled; otherwise its `failures` name each culprit, up to ten of them, with the path to it.

    Notes
    -----
    Looking pickles the value once for each culprit and once more, in memory.
    """
    ways = _Ways(value)
    name = _called(value, name)
    return Serializability(name, tuple(_failure(culprit, ways, name) for culprit in _culprits(value, ways, N_FAILURES)))


def pickling_error(value: object, reason: BaseException, name: str | None = None) -> TypeError:
    """The error for a value that could not be pickled.

    It says which variable of the caller holds the value (unless a `name` is given), and the way to the culprits inside.
    The `reason` is its cause, or, where that has very much to say, what stands for it: to be raised where the reason is
    handled no more. Its attribute `within` has the ids of the value and of what in it holds the culprits, for whoever
    knows what they are called.
    """
    name = name or variable_of_caller(value)
    ways = _Ways(value, LOOK_S)
    culprits = list(_culprits(value, ways, N_TOLD, LOOK_S))
    within = {id(held): held for held in (ways.first_step(culprit.nearest) for culprit in culprits)}
    is_known = None not in within.values()
    if name is None and type(value) in (tuple, list):  # the arguments of a call together
        if len(within) == 1 and is_known:
            (argument,) = within.values()
            ways, name = ways.from_here(argument), _called(argument, variable_of_caller(argument))
    name = _called(value, name)
    if not culprits:  # it can be pickled now: it changed meanwhile, or pickles only sometimes
        told = f"{type(reason).__name__}: {_said(reason)}"
    else:
        failures = [_failure(culprit, ways, name) for culprit in culprits]
        told = f"{'; '.join(map(str, failures))}. {_remedy(failures)}"
    error = TypeError(f"{name} cannot be sent to another process: {told}")
    error.__cause__ = _in_short(reason)
    vars(error)["within"] = id(value), *(within if is_known else ())
    return error


def _remedy(failures: Sequence[Failure]) -> str:
    if all(failure.reason == TOO_DEEP for failure in failures):
        return FLAT_REMEDY
    return ITEMS_REMEDY if all(failure.type_name == "generator" for failure in failures) else REMEDY


def _in_short(reason: BaseException) -> BaseException:
    """An exception that says no more than is shown, with the traceback of the other one."""
    said, notes = _said(reason), getattr(reason, "__notes__", None)  # pickle adds one for each step of the way
    n_noted = sum(len(note) for note in notes if isinstance(note, str)) if isinstance(notes, list) else 0
    if len(said) <= MOST_CHARS and n_noted <= MOST_CHARS:
        return reason
    return Exception(f"{type(reason).__name__}: {said}").with_traceback(reason.__traceback__)


def _called(value: object, name: str | None) -> str:
    return _cut(str(name or getattr(value, "__name__", None) or f"<{type(value).__name__}>"))


def _said(reason: BaseException) -> str:
    return text_of(reason, MOST_CHARS, " ")


def _cut(text: str) -> str:
    return shortened(text, MOST_CHARS, " ")


# ---------------------------------------------------------------- finding the culprit
class _Culprit(NamedTuple):
    """What cannot be pickled. `nearest`: itself, or what was pickled last before it of what can be reached; None:
    nothing.
    """

    nearest: object
    type_name: str
    reason: str


class _Nowhere:
    def write(self, data: object) -> None:
        """Nothing is kept: a value may be larger than memory has room for twice."""


@cache
def _watched() -> type:
    """The pickler that tells what it pickles. Made once: each class would stay until garbage is collected."""
    from ..objstore import serialization

    ref_type = serialization.ref_type()

    class Pickler(serialization.Pickler):
        def __init__(self, skipped: Mapping[int, object], ways: _Ways) -> None:
            super().__init__(_Nowhere())
            self.skipped, self.ways = skipped, ways
            self.last: object = None
            self.nearest: object = None

        def persistent_id(self, obj: object) -> str | None:
            if id(obj) in self.skipped or type(obj) is ref_type:
                return "skipped"
            self.last = obj
            if obj in self.ways:
                self.nearest = obj
            return None

    return Pickler


def _culprits(value: object, ways: _Ways, most: int, limit_s: float = math.inf) -> Iterator[_Culprit]:
    """Those in a value, one for each time that it is pickled, so many at most; no more when `limit_s` has passed."""
    known: dict[int, object] = {}
    end = time.monotonic() + limit_s
    for n in range(most):
        if n and time.monotonic() >= end:
            return
        pickler = _watched()(known, ways)
        try:
            pickler.dump(value)
            return
        except BaseException as problem:  # whatever the classes of the user raise is what we came for
            if ends_process(problem):
                raise
            reason = _reason(problem)
        finally:
            pickler.clear_memo()  # of what was made on the way, which the traceback would keep
        last, nearest = pickler.last, pickler.nearest
        inside = "" if last is nearest or nearest is None else f" (inside it, a {_type_name(last)})"
        yield _Culprit(nearest, _type_name(last if nearest is None else nearest) + inside, reason)
        if nearest is None or nearest is value:
            return
        known[id(nearest)] = nearest


def _reason(problem: BaseException) -> str:
    """Why an object cannot be pickled, without a full stop."""
    if isinstance(problem, RecursionError) or isinstance(problem.__cause__, RecursionError):  # cloudpickle's own
        return TOO_DEEP
    said = _said(problem).rstrip(".")
    return said if isinstance(problem, TypeError) else f"{type(problem).__name__}: {said}"


def _failure(culprit: _Culprit, ways: _Ways, name: str) -> Failure:
    return Failure(
        (culprit.nearest is not None and ways.path(culprit.nearest, name)) or "", culprit.type_name, culprit.reason
    )


def _type_name(obj: object) -> str:
    cls = type(obj)
    if isinstance(obj, types.FunctionType):
        return _cut(f"function {obj.__qualname__}")
    return _cut(cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}")


Step = Callable[[str], str]  # from what leads to an object to what leads to something in it


class _Ways:
    """What can be reached from an object, and how: the shortest way."""

    def __init__(self, root: object, limit_s: float = math.inf) -> None:
        self._root = root
        end = time.monotonic() + limit_s
        # By id: itself, so that no id is used again meanwhile; from where it is reached, and how.
        self._found: dict[int, tuple[object, object, Step]] = {id(root): (root, None, str)}
        queue = deque([root])
        while queue and len(self._found) < N_VISITED and time.monotonic() < end:
            obj = queue.popleft()
            for child, step in _children(obj):
                if type(child) not in _PLAIN and id(child) not in self._found and len(self._found) < N_VISITED:
                    self._found[id(child)] = child, obj, step
                    queue.append(child)

    def __contains__(self, obj: object) -> bool:
        return id(obj) in self._found

    def _up(self, obj: object) -> Iterator[tuple[object, Step]]:
        while obj is not self._root:
            _, parent, step = self._found[id(obj)]
            yield obj, step
            obj = parent

    def first_step(self, obj: object) -> object:
        """What in the root leads to an object; None for the root itself."""
        first = None
        for above, _ in self._up(obj) if obj in self else ():
            first = above
        return first

    def from_here(self, obj: object) -> _Ways:
        """The same ways, from something on them."""
        ways = object.__new__(_Ways)
        ways._root, ways._found = obj, self._found
        return ways

    def path(self, obj: object, name: str) -> str | None:
        """A Python-like expression that leads to an object, from the root, called `name`; None if there is none."""
        if obj not in self:
            return None
        steps = [step for _, step in self._up(obj)][::-1]
        half = N_STEPS // 2
        for i, step in enumerate(steps):
            if len(steps) <= N_STEPS or i < half or i >= len(steps) - half:
                name = step(name)
            elif i == half:
                name = f"{name}[... {len(steps) - 2 * half:,} levels ...]"
        return name


def find_path(root: object, target: object, name: str) -> str | None:
    """A Python-like expression that leads from `root`, called `name`, to `target`; None if there is none."""
    return _Ways(root).path(target, name)


_PLAIN = (str, bytes, bytearray, int, float, complex, type(None))  # which can be pickled in any case
_BARE = (list, tuple, dict, set, frozenset)  # which have no attributes
_LEAVES = (*_PLAIN, types.ModuleType, types.CodeType)


def _children(obj: object) -> Iterator[tuple[object, Step]]:
    if isinstance(obj, _LEAVES):
        return
    if isinstance(obj, types.FunctionType):
        yield from ((value, lambda path, name=name: f"{name} (which {path} uses)") for name, value in captured(obj))
        yield from ((value, _member(name)) for name, value in vars(obj).items())
    elif isinstance(obj, types.MethodType):
        yield obj.__self__, _member("__self__")
        yield obj.__func__, str
    elif isinstance(obj, (staticmethod, classmethod)):
        yield obj.__func__, str
    elif isinstance(obj, property):
        yield from ((f, str) for f in (obj.fget, obj.fset, obj.fdel) if f)
    elif isinstance(obj, type):
        yield from ((value, _member(name)) for name, value in vars(obj).items())
        yield from ((base, lambda path, base=base: base.__name__) for base in obj.__bases__)
    elif isinstance(obj, Mapping) and type(obj).__module__ in ("builtins", "collections", "types"):
        for key, value in list(obj.items()):
            yield value, _item(key)
            yield key, lambda path: f"a key of {path}"
    elif isinstance(obj, (list, tuple, deque)):
        yield from ((value, _item(i)) for i, value in enumerate(obj))
    elif isinstance(obj, (set, frozenset)):
        yield from ((value, lambda path: f"an element of {path}") for value in obj)
    if type(obj) not in _BARE and not isinstance(obj, (type, types.FunctionType)):
        yield from ((value, _member(name)) for name, value in _attributes(obj))


def _member(name: str) -> Step:
    return lambda path: f"{path}.{name}"


def _item(key: object) -> Step:
    return lambda path: f"{path}[{_repr.repr(key)}]"


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80


def _attributes(obj: object) -> Iterator[tuple[str, object]]:
    """What an object holds in its __dict__ and __slots__; no property is run."""
    try:
        yield from list(object.__getattribute__(obj, "__dict__").items())
    except AttributeError:  # it has none
        pass
    for cls in type(obj).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__":
                try:
                    yield name, member.__get__(obj)
                except AttributeError:  # an unset slot
                    continue


def captured(function: types.FunctionType) -> list[tuple[str, object]]:
    """The variables that travel with a function: closure, defaults, and the globals its code and inner functions
    name."""
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # an empty cell: assigned later
            continue
    found += [(name, function.__globals__[name]) for name in global_names(function) if name in function.__globals__]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    found += zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)
    found += (function.__kwdefaults__ or {}).items()
    return found


def global_names(function: types.FunctionType) -> list[str]:
    """The global (and builtin) names that a function and the functions inside it read, each once."""
    return list(dict.fromkeys(_global_names(function.__code__)))


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from (i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
