"""Exceptions whose constructor wants other arguments than those in `args`.

pickle makes an exception again by `cls(*args)`, so that it loses or cannot load one with a constructor of its own:
with keyword-only arguments, with none, with a text that it formats. Such a one is made here as any other object is:
without its constructor, by what it holds.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

HEAP_TYPE = 1 << 9  # among a class's flags: a class statement made it, or what is like one
ARGS: Any = BaseException.__dict__["args"]  # of any exception, whatever its class calls `args`


def builtin_base(cls: type[BaseException]) -> Any:
    """The class in C that decides what lies in an instance's memory, and so whose `__new__` is allowed."""
    base: Any = cls
    while base.__flags__ & HEAP_TYPE:
        base = base.__base__
    return base


@lru_cache(maxsize=512)
def of_class(cls: type[BaseException]) -> Callable[[BaseException], tuple[Any, ...]] | None:
    """What makes pickle's parts of an instance; None if pickle does it right, or the class does it itself."""
    if any(_is_users(cls, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__", "__new__")):
        return None
    return parts if _is_users(cls, "__init__") or _is_users(cls, "__setattr__") or _slots(cls) else None


def _is_users(cls: type[BaseException], name: str) -> bool:
    """Whether a method is of a class that is not in C."""
    return bool(next(base.__flags__ for base in cls.__mro__ if name in vars(base)) & HEAP_TYPE)


def parts(error: BaseException) -> tuple[Any, ...]:
    """Pickle's parts of an exception that is made again without the constructor of its class."""
    cls = type(error)
    base = builtin_base(cls)
    _, args, *rest = base.__reduce__(error)
    state: dict[str, Any] = {**(rest[0] if rest else {})}
    for name, slot in _slots(cls).items():
        try:
            state[name] = slot.__get__(error)
        except AttributeError:  # unset
            continue
    return make, (cls, args), state, None, None, set_state


def make(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception that holds its arguments alone."""
    base = builtin_base(cls)
    error: BaseException = base.__new__(cls, *args)
    base.__init__(error, *args)
    return error


def set_state(error: BaseException, state: dict[str, Any]) -> None:
    """Give an exception what it held; no method of its class has a say."""
    fields = _fields(type(error))
    for name, value in state.items():
        if name in fields:
            fields[name].__set__(error, value)
        else:
            error.__dict__[name] = value


@lru_cache(maxsize=512)
def _fields(cls: type[BaseException]) -> dict[str, Any]:
    """What an instance keeps outside its `__dict__`, by name: in the memory of C classes and in `__slots__`."""
    members = {name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if isinstance(member, types.MemberDescriptorType)}


@lru_cache(maxsize=512)
def _slots(cls: type[BaseException]) -> dict[str, Any]:
    """Those of `_fields` that `__slots__` made, of which the `__reduce__` of classes in C knows nothing."""
    return {name: field for name, field in _fields(cls).items() if field.__objclass__.__flags__ & HEAP_TYPE}
