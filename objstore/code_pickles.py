"""Pickles of code for other processes, with the names of the files that the code is from.

cloudpickle pickles functions and classes that no import finds, such as those of a notebook. From 3.1.3 on it names no
file in them, so that one function always has one pickle; a traceback has line numbers alone then, and neither it nor
`inspect` or a debugger finds the source. Whatever cellmesh pickles with cloudpickle, it pickles through here. What
cloudpickle cannot pickle, or not load again, has modules of its own: `class_pickles`, `function_pickles`,
`exception_pickles`; `class_versions` has which state of a class counts.
"""

from __future__ import annotations

import functools
import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle

from . import class_pickles, class_versions, exception_pickles, function_pickles
from .annotations import annotations_of, can_be_evaluated

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

PROTOCOL = 5
ANNOTATE = "__annotate_func__"  # what makes a class's annotations, as of Python 3.14
FILENAME = 10  # where CodeType takes the name of its file, as of Python 3.11


def reduce_code(code: CodeType) -> Any:
    """A code object's parts for pickle, with the name of its file; code within it comes here by itself."""
    make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, (*args[:FILENAME], code.co_filename, *args[FILENAME + 1 :])


REDUCERS: dict[type, Callable[[Any], Any]] = {
    CodeType: reduce_code,
    function_pickles.Cached: function_pickles.reduce_cached,
}
if function_pickles.OfObject is not None:
    REDUCERS[function_pickles.OfObject] = function_pickles.reduce_of_object


def of_subclass(cls: type) -> Callable[[Any], Any] | None:
    """What makes pickle's parts of an instance, for a class of which users' programs have subclasses; None if it is
    none of them."""
    if issubclass(cls, BaseException):
        return exception_pickles.of_class(cls)
    if issubclass(cls, functools.singledispatchmethod):
        return function_pickles.reduce_dispatching_method
    return function_pickles.reduce_cached_property if issubclass(cls, functools.cached_property) else None


class _Reducers(ChainMap[type, Callable[[Any], Any]]):
    """What libraries register with `copyreg` while a program runs is seen through cloudpickle's own table."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        if (found := of_subclass(cls)) is None:
            raise KeyError(cls)
        return found


class Pickler(cloudpickle.Pickler):
    """cloudpickle's, with names of files, and with what it cannot pickle."""

    dispatch_table: Any = _Reducers(REDUCERS, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        """Pickle's parts of a function or class; NotImplemented for anything else."""
        if isinstance(obj, FunctionType):
            parts: Any = self._parts_of(obj)
            if parts is not NotImplemented and (registry := function_pickles.registry_of(obj)) is not None:
                return function_pickles.reduce_dispatching(obj, registry)
            return function_pickles.reduce_method_of_object(obj) or parts
        if issubclass(type(obj), type):
            parts = super().reducer_override(obj)
            if parts is NotImplemented or len(parts) != 6:  # it can be imported
                return parts
            if ANNOTATE in vars(obj):  # which cloudpickle leaves out
                parts[2][0]["__annotations__"] = annotations_of(obj)
            *most, set_state = class_pickles.restored(obj, parts)
            return *most, class_versions.with_version(obj, set_state)
        return NotImplemented

    def _parts_of(self, function: FunctionType) -> Any:
        try:
            return super().reducer_override(function)
        except Exception:
            if can_be_evaluated(function):  # as they cannot where one names what is defined later
                raise
        return super().reducer_override(function_pickles.with_globals(function, function.__globals__))


def dump(value: object, file: SupportsWrite[bytes]) -> None:
    """Write a value's pickle, refs and large buffers within it."""
    Pickler(file, protocol=PROTOCOL).dump(value)


def dumps(value: object) -> bytes:
    """A value's pickle, refs and large buffers within it."""
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
