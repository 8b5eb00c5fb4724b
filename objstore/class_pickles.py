"""Classes of a notebook whose base or metaclass has something to do with each new class: to register or to check it.

cloudpickle makes a class again empty and without the keywords of its class statement, and fills it then. What runs for
new classes would see that, or fail. A class is restored, not defined once more, as pickle has it of other objects: what
the notebook's own `__init_subclass__` or metaclass has done to it and to others travels with these. What is importable
runs in each process, as it would at an import.
"""

from __future__ import annotations

import enum
import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from cloudpickle import cloudpickle as _cloudpickle

from .annotations import get_signature
from .exception_pickles import HEAP_TYPE

Parts = tuple[Any, ...]
cloudpickle: Any = _cloudpickle  # of which more is used than it exports
HOOK = "__init_subclass__"
# What runs when a class is made, and how many arguments it is given in any case.
OF_BASES = {HOOK: 1}
OF_METACLASS = {"__new__": 4, "__init__": 4, "__prepare__": 3, "__setattr__": 3}


def restored(cls: type, parts: Parts) -> Parts:
    """Pickle's parts of a class that travels by value, so that nothing of the notebook runs when it is made again.

    Raises
    ------
    TypeError
        What is importable wants keywords of the class statement.
    """
    metaclass: Any = type(cls)
    bases, bases_rely = _own(cls, cls.__mro__[1:], OF_BASES)
    metas, metas_rely = _own(cls, () if isinstance(cls, enum.EnumType) else metaclass.__mro__, OF_METACLASS)
    if bases_rely or metas_rely or not (bases or metas):
        return parts
    make, args, state, items, entries, set_state = parts
    if metas:
        importable = next(meta for meta in metaclass.__mro__ if issubclass(meta, type) and meta not in metas)
        args = (partial(_new_class, importable, metaclass), *args[1:])
        if metaclass.__setattr__ is not importable.__setattr__:
            set_state = partial(_set_state, set_state)
    arguments = cloudpickle._get_or_create_tracker_id(cls), tuple(bases), make, args
    return _restore, arguments, state, items, entries, set_state


def _own(cls: type, classes: Iterable[type], names: dict[str, int]) -> tuple[list[type], bool]:
    """Which of a class's bases, or of its metaclass's, are the notebook's and have a part in making it; and whether
    something importable relies on them for what it wants to be given."""
    own: list[type] = []
    relies = False
    for base in classes:
        present = names.keys() & vars(base).keys() if base.__flags__ & HEAP_TYPE else ()
        if present and not cloudpickle._should_pickle_by_reference(base):
            own.append(base)
            continue
        for name in present:
            if wanted := _wanted(vars(base)[name], names[name]):
                relies = True
                if not own:
                    raise TypeError(
                        f"{base.__qualname__}.{name} wants {wanted}, which the class statement of {cls.__qualname__} "
                        "gave and Python does not keep: define that class in a module that other processes import, too"
                    )
    return own, relies


@lru_cache(maxsize=512)
def _wanted(hook: Any, n_given: int) -> str:
    """The names of the arguments without which it cannot be called, beside those that it is given in any case."""
    function = getattr(hook, "__func__", hook)  # of a class method, of a static one
    if not isinstance(function, FunctionType):
        return ""
    parameters = list(get_signature(function).parameters.values())[n_given:]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return ", ".join(parameter.name for parameter in needed)


def _restore(tracker_id: str, bases: tuple[type, ...], make: Callable[..., type], args: Parts) -> type:
    if (known := cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker_id)) is not None:
        return known
    with _passing_by(bases):
        return make(*args)


def _new_class(importable: Any, metaclass: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """As the metaclass would, were there nothing of its own in it: `importable` is the first of its bases that is not
    of the notebook."""
    cls = importable.__new__(metaclass, name, bases, namespace)
    importable.__init__(cls, name, bases, namespace)
    return cls


def _set_state(set_state: Callable[[type, Any], type], cls: type, state: tuple[dict[str, Any], Any]) -> type:
    attributes, slots = state
    special = {name: attributes[name] for name in ("_abc_impl",) if name in attributes}  # cloudpickle knows more of it
    # Python 3.13 forgets the line of a class when its module is set.
    for name in sorted((n for n in attributes if n not in special), key="__firstlineno__".__eq__):
        type.__setattr__(cls, name, attributes[name])
    return set_state(cls, (special, slots))


# ---------------------------------------------------------------- __init_subclass__
# Python calls it for each new class and has no way around it. Who makes a class in another thread meanwhile is served.
class _Lock:
    """Held while hooks are exchanged: two at once would put back each other's."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = threading.RLock()


_exchanging = _Lock()


@contextmanager
def _passing_by(bases: tuple[type, ...]) -> Generator[None]:
    """For classes that this thread makes, `__init_subclass__` of these bases does no more than to call the next one."""
    with _exchanging.lock:
        # With `if` in it, Python 3.13 may leave the lock taken (scheduler/sync/condition.py).
        kept = [(base, vars(base)[HOOK]) for base in filter(_has_hook, bases)]
        for base, hook in kept:
            type.__setattr__(base, HOOK, _passing(base, hook, threading.get_ident()))
        try:
            yield
        finally:
            for base, hook in kept:
                type.__setattr__(base, HOOK, hook)


def _has_hook(base: type) -> bool:
    return HOOK in vars(base)


def _passing(base: type, hook: Any, thread: int) -> classmethod[Any, Any, None]:
    def init_subclass(cls: type, **keywords: Any) -> None:
        if threading.get_ident() == thread:
            super(base, cls).__init_subclass__(**keywords)  # pyright: ignore[reportUnknownMemberType] (any class)
        else:
            hook.__get__(None, cls)(**keywords)

    return classmethod(init_subclass)
