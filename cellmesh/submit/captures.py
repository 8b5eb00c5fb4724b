"""What code takes along into the store, and whether it is still that.

The pickler tells of every function and class that it pickles by value. What these read (global variables, closures,
defaults, attributes of classes) is noted together with what it stands for at that moment. What is assigned again is
seen
before each call, by a comparison of pointers in C (`Watch`), and so is what changes inside lists, dicts, plain objects
and arrays that are small. For anything else (large arrays, data frames, objects of libraries) only pickling tells; it
is done for the second call, the fourth, the eighth, and otherwise as often as it takes a twentieth of the time.
"""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import time
import types
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudpickle.cloudpickle import _extract_code_globals, _should_pickle_by_reference

from ..objstore import function_pickles, serialization
from ..objstore._core import Watch

if TYPE_CHECKING:
    from .export import Export, Made

N_ITEMS = 256  # of lists, dicts and objects that one copy of the code watches
ARRAY_BYTES = 16_384  # of an array that is compared before each call
LOOK_BYTES = 10_000_000  # larger things are not looked at: a `LargeClosureWarning` has told of them
LOOKING_SHARE = 0.05  # of the time

MISSING = object()
HEAP_TYPE = 1 << 9  # among a class's flags: it was made by a class statement, or like it
# What cannot change, and what changes elsewhere: functions and classes, which the pickler tells of.
_LEAVES = frozenset(
    {
        int,
        float,
        complex,
        bool,
        str,
        bytes,
        type(None),
        type(...),
        type(NotImplemented),
        range,
        slice,
        frozenset,
        property,
        staticmethod,
        classmethod,
        functools.cached_property,
        function_pickles.Cached,
        types.FunctionType,
        types.BuiltinFunctionType,
        types.MethodType,
        types.ModuleType,
        types.CodeType,
        types.MappingProxyType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.GenericAlias,
        types.UnionType,
    }
)
_LEAVES_OF = frozenset(
    {"datetime", "decimal", "fractions", "uuid", "pathlib", "re", "zoneinfo", "ipaddress", "pyarrow.lib", "typing"}
)


@dataclass
class Followed:
    """A value that only pickling shows to have changed."""

    name: str
    value: Any
    fingerprint: int | None = None

    def has_changed(self) -> bool:
        """Whether it is not what it was when that was asked last."""
        before, self.fingerprint = self.fingerprint, fingerprint_of(self.value)
        return before != self.fingerprint


def fingerprint_of(value: Any) -> int | None:
    """A checksum of the whole pickled value; None if that is too much, or not possible."""
    checksum, size = 0, 0

    def update(chunk: Any) -> None:
        nonlocal checksum, size
        size += memoryview(chunk).nbytes
        if size > LOOK_BYTES:
            raise serialization.TooLarge
        checksum = zlib.crc32(chunk, checksum)

    try:
        serialization.measure(value, update)
    except Exception:  # whatever the classes of the user raise: then nothing is known of it
        return None
    return checksum


@dataclass
class Capture:
    """What one copy of some code has taken along. Filled while the code is pickled."""

    of: Export
    items: list[Any] = field(default_factory=list)  # of the Watch
    followed: list[Followed] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)  # that travel by value
    made: list[Made] = field(default_factory=list)  # copies of what is remote itself, which were taken along
    is_recursive: bool = False  # the code refers to itself
    _seen: dict[int, Any] = field(default_factory=dict)  # itself, so that no id is used again
    _names: set[tuple[int, str]] = field(default_factory=set)  # in which globals
    _room: int = N_ITEMS

    def see(self, code: Any) -> None:
        """The pickler is about to pickle a function or class."""
        if id(code) in self._seen:
            return
        self._seen[id(code)] = code
        if _should_pickle_by_reference(code):
            return
        if isinstance(code, types.FunctionType):
            self._see_function(code)
        elif code.__flags__ & HEAP_TYPE:
            self.classes.append(code)
            self._see_class(code)

    def see_held(self, code: Any) -> None:
        """Note what the code that is pickled holds itself, if it is no plain function or class."""
        for name, value in held_by(code):
            self._look_into(name, value)

    def _see_function(self, function: types.FunctionType) -> None:
        if (registry := function_pickles.registry_of(function)) is not None:
            self._look_into(f"{function.__name__}.registry", registry)
            return
        namespace = function.__globals__
        for name in _extract_code_globals(function.__code__):
            if (id(namespace), name) in self._names:
                continue
            self._names.add((id(namespace), name))
            value = namespace.get(name, MISSING)
            if value is MISSING:
                self.items.append((namespace, name))
            else:
                self.items.append((namespace, name, value))
                self._look_into(name, value)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                value = cell.cell_contents
            except ValueError:  # assigned later
                self.items.append((cell,))
                continue
            self.items.append((cell, value))
            self._look_into(name, value)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._look_into(f"a default of {function.__name__}", value)

    def _see_class(self, cls: type) -> None:
        entries = dict(vars(cls))
        self.items.append((cls, _in_turn(entries)))
        for name, value in entries.items():
            if not (
                name.startswith("__") or name == "_abc_impl" or (name.startswith("_") and issubclass(cls, enum.Enum))
            ):
                self._look_into(f"{cls.__name__}.{name}", value)

    def _look_into(self, name: str, value: Any) -> None:
        """Note what a value holds, as far as it may change in place."""
        n_items, room, n_seen = len(self.items), self._room, list(self._seen)
        if not self._watch_inside(value):
            del self.items[n_items:]
            self._room = room
            for key in self._seen.keys() - set(n_seen):
                del self._seen[key]
            self.followed.append(Followed(name, value))

    def _watch_inside(self, value: Any) -> bool:
        """Whether all that may change in a value is watched now."""
        kind = type(value)
        if _is_leaf(value, kind) or id(value) in self._seen:
            return True
        self._seen[id(value)] = value
        if kind in (list, tuple):
            parts = tuple(value)
            if not self._takes(len(parts)):
                return False
            if kind is list:
                self.items.append((value, parts))
            return all(map(self._watch_inside, parts))
        if kind is dict:
            return self._watch_entries(value)
        if _is_small_array(value, kind):
            self.items.append((value, bytes(value) if kind is bytearray else value.tobytes()))
            return True
        return _is_plain(value, kind) and self._watch_entries(vars(value))

    def _watch_entries(self, entries: dict[Any, Any]) -> bool:
        if not self._takes(len(entries)):
            return False
        self.items.append((entries, _in_turn(entries)))
        return all(map(self._watch_inside, [*entries.keys(), *entries.values()]))

    def _takes(self, n: int) -> bool:
        self._room -= n
        return self._room >= 0


def held_by(code: Any) -> list[tuple[str, Any]]:
    """What something that can be called takes along beside what functions and classes capture, with names for it."""
    if isinstance(code, functools.partial):
        arguments = [(f"argument {i} of its partial", value) for i, value in enumerate(code.args, 1)]
        return [*arguments, *code.keywords.items(), *held_by(code.func)]
    if isinstance(code, types.MethodType | types.BuiltinMethodType):
        return [("its object", code.__self__)] if not isinstance(code.__self__, types.ModuleType | type | None) else []
    return [("its object", code)] if not (isinstance(code, type) or inspect.isroutine(code)) else []


def _in_turn(entries: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(part for entry in entries.items() for part in entry)


def _is_leaf(value: Any, kind: type) -> bool:
    return (
        kind in _LEAVES
        or kind.__module__ in _LEAVES_OF
        or isinstance(value, type | enum.Enum)
        or kind is serialization.ref_type()
        or hasattr(kind, "__cellmesh_code__")
        or hasattr(kind, "_cellmesh_is_handle")
        or _is_numpy(value, "generic", "dtype", "ufunc")
    )


def _is_numpy(value: Any, *kinds: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, tuple(getattr(numpy, kind) for kind in kinds))


def _is_small_array(value: Any, kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    if kind is bytearray:
        return len(value) <= ARRAY_BYTES
    return (
        numpy is not None
        and kind is numpy.ndarray
        and value.dtype.kind in "biufc"
        and value.nbytes <= ARRAY_BYTES
        and value.flags.c_contiguous
    )


def _is_plain(value: Any, kind: type) -> bool:
    """Whether an object is what its __dict__ holds."""
    if kind is types.SimpleNamespace:
        return True
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
        and kind not in serialization.registered()
        and hasattr(value, "__dict__")
        and not any(
            isinstance(member, types.MemberDescriptorType)  # __slots__
            for cls in kind.__mro__
            for member in vars(cls).values()
        )
    )


class Looking:
    """When what cannot be watched is looked at: beside the calls of one copy, which its watch counts."""

    def __init__(self, watch: Watch, followed: list[Followed]) -> None:
        self.watch: Watch = watch
        self._followed = followed
        self._n_right = 0  # calls that had the copy as the values were then
        self._took_s = 0.0
        if followed:
            self._look()

    def look(self) -> list[str]:
        """The names of what has changed in place since the last look."""
        return self._look() if self._followed else []

    def _look(self) -> list[str]:
        began = time.perf_counter()
        names = [one.name for one in self._followed if one.has_changed()]
        self._took_s = time.perf_counter() - began
        return names

    @property
    def is_due(self) -> bool:
        """Whether it is time for a look."""
        watch = self.watch
        return bool(self._followed) and (watch.n_calls >= watch.look_at_call or time.monotonic_ns() >= watch.look_at_ns)

    def n_doubtful(self, in_call: bool = False) -> int:
        """Calls since the last look. `in_call`: the last one that was counted is being made, after this look."""
        return self.watch.n_calls - self._n_right - in_call if self._followed else 0

    def seen(self, in_call: bool = False, soon: bool = False) -> None:
        """A look has just been taken.

        `in_call`: by a call that has been counted, else one may follow. `soon`: the next call is to look again.
        """
        if not self._followed:
            return
        watch = self.watch
        self._n_right = watch.n_calls + (not in_call)
        watch.look_at_ns = time.monotonic_ns() + int(self._took_s / LOOKING_SHARE * 1e9)
        watch.look_at_call = watch.n_calls + 1 if soon else max(self._n_right + 1, 2 * self._n_right)
