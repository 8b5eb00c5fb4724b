"""What in a value cannot be pickled, and where it is: `model.session['lock']`, not "cannot pickle '_thread.lock'
object".

The pickler tells of every object before it pickles it, so when it fails, the last one it told of is the culprit. The
way from the value to that object is then found by a breadth-first search over attributes, items, and what functions
capture; nothing is pickled for that. A second pass steps over the culprits already known, so that all of them are
found.
"""
from __future__ import annotations

import dis
import io
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

N_FAILURES = 10       # culprits that one look names
N_VISITED = 200_000   # objects the search for the way looks at
REMEMBERED = 64       # objects of the pickler's recent past: the culprit may be a temporary that no way leads to

REMEDY = ("Create it inside the function or in the actor's __init__, or give its class a __reduce__ that makes it anew "
          "on the other side.")


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
        return f"{self.name} cannot be pickled, because of\n{lines}\n{REMEDY}"

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
    name = name or getattr(value, "__name__", None) or f"<{type(value).__name__}>"
    failures: list[Failure] = []
    known: dict[int, object] = {}
    while len(failures) < N_FAILURES:
        found = _next_culprit(value, known)
        if found is None:
            break
        recent, reason = found
        failures.append(_locate(value, name, recent, reason))
        known[id(recent[-1])] = recent[-1]
        if recent[-1] is value:
            break
    return Serializability(name, tuple(failures))


def pickling_error(value: object, reason: BaseException, name: str | None = None) -> TypeError:
    """The error for a value that could not be pickled.

    It says which variable of the caller holds the value (unless a `name` is given), and the way to the culprits inside.
    """
    name = name or _variable_of_caller(value)
    found = inspect_serializability(value, name)
    if name is None and type(value) in (tuple, list) and len(found.failures) == 1:  # the arguments of a call together
        for argument in value:  # type: ignore[attr-defined]
            if not inspect_serializability(argument):
                return pickling_error(argument, reason)
    if not found.failures:  # it can be pickled now: it changed meanwhile, or pickles only sometimes
        return TypeError(f"{found.name} cannot be sent to another process: {type(reason).__name__}: {reason}")
    culprits = "; ".join(map(str, found.failures[:3]))
    return TypeError(f"{found.name} cannot be sent to another process: {culprits}. {REMEDY}")


# ---------------------------------------------------------------- finding the culprit
def _next_culprit(value: object, known: Mapping[int, object]) -> tuple[list[object], str] | None:
    """The objects pickled last before pickling failed and the failure's text, or None if it did not fail."""
    from .objstore import serialization
    recent: deque[object] = deque(maxlen=REMEMBERED)
    ref_type = serialization.ref_type()

    class Pickler(serialization.Pickler):
        def persistent_id(self, obj: object) -> str | None:
            if id(obj) in known or type(obj) is ref_type:
                return "skipped"
            recent.append(obj)
            return None

    try:
        Pickler(io.BytesIO()).dump(value)
    except Exception as reason:  # whatever the classes of the user raise is what we came for
        return list(recent), f"{type(reason).__name__}: {reason}" if not isinstance(reason, TypeError) else str(reason)
    return None


def _locate(value: object, name: str, recent: list[object], reason: str) -> Failure:
    culprit = recent[-1]
    for candidate in reversed(recent):  # the nearest one that can be reached
        path = find_path(value, candidate, name)
        if path is not None:
            inside = "" if candidate is culprit else f" (inside it, a {_type_name(culprit)})"
            return Failure(path, _type_name(candidate) + inside, reason)
    return Failure("", _type_name(culprit), reason)


def _type_name(obj: object) -> str:
    cls = type(obj)
    if isinstance(obj, types.FunctionType):
        return f"function {obj.__qualname__}"
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def find_path(root: object, target: object, name: str) -> str | None:
    """A Python-like expression that leads from `root`, called `name`, to `target`; None if there is none."""
    queue: deque[tuple[object, str]] = deque([(root, name)])
    seen = {id(root): root}  # holds them, so that no id is reused meanwhile
    while queue:
        obj, path = queue.popleft()
        if obj is target:
            return path
        for child, child_path in _children(obj, path):
            if id(child) not in seen and len(seen) < N_VISITED:
                seen[id(child)] = child
                queue.append((child, child_path))
    return None


_LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None), types.ModuleType, types.CodeType)


def _children(obj: object, path: str) -> Iterator[tuple[object, str]]:
    if isinstance(obj, _LEAVES):
        return
    if isinstance(obj, types.FunctionType):
        yield from ((value, f"{name} (which {path} uses)") for name, value in captured(obj))
        yield from ((value, f"{path}.{name}") for name, value in vars(obj).items())
    elif isinstance(obj, types.MethodType):
        yield obj.__self__, f"{path}.__self__"
        yield obj.__func__, path
    elif isinstance(obj, (staticmethod, classmethod)):
        yield obj.__func__, path
    elif isinstance(obj, property):
        yield from ((f, path) for f in (obj.fget, obj.fset, obj.fdel) if f)
    elif isinstance(obj, type):
        yield from ((value, f"{path}.{name}") for name, value in vars(obj).items())
        yield from ((base, base.__name__) for base in obj.__bases__)
    elif isinstance(obj, Mapping) and type(obj).__module__ in ("builtins", "collections", "types"):
        for key, value in list(obj.items()):
            yield value, f"{path}[{key!r}]"
            yield key, f"a key of {path}"
    elif isinstance(obj, (list, tuple, deque)):
        yield from ((value, f"{path}[{i}]") for i, value in enumerate(obj))
    elif isinstance(obj, (set, frozenset)):
        yield from ((value, f"an element of {path}") for value in obj)
    if not isinstance(obj, (type, types.FunctionType)):
        yield from ((value, f"{path}.{name}") for name, value in _attributes(obj))


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
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # an empty cell: assigned later
            continue
    found += [(name, function.__globals__[name]) for name in global_names(function) if name in function.__globals__]
    parameters = function.__code__.co_varnames[:function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    found += zip(parameters[len(parameters) - len(defaults):], defaults)
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


def _variable_of_caller(value: object) -> str | None:
    """The name by which the nearest caller outside this package knows the value."""
    from .text import user_frame
    frame, _ = user_frame()
    if frame is None:
        return None
    for namespace in (frame.f_locals, frame.f_globals):
        for name, held in list(namespace.items()):
            if held is value and not name.startswith("_"):
                return name
    return None
