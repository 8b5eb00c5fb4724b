"""Classes of a notebook in several processes: which of the states counts that pickles bring along.

Each pickle of an object has the class of it, as that was then. Where a class statement has made a class, no pickle
changes it. Elsewhere it takes the state that comes with code, whatever that is: code runs with the class that it was
sent with. It takes that of a value unless it has a newer one: an old value does not bring back what has been set anew.
Nor does it bring what has been set since, to a process that has not heard of that: each submit would have to compare
the class of every value that was ever put.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

SetState = Callable[[type, Any], type]


class _Made(NamedTuple):
    """A class that a class statement of this process has made."""

    version: int
    fingerprint: int


class _Loaded(NamedTuple):
    """A class that a pickle has made here."""

    version: int
    names: frozenset[str]  # of its attributes that a pickle has set


_made: WeakKeyDictionary[type, _Made] = WeakKeyDictionary()
_loaded: WeakKeyDictionary[type, _Loaded] = WeakKeyDictionary()


class _Loading(threading.local):
    code = False  # this thread loads a function or an actor's class


_loading = _Loading()


@contextmanager
def loading_code() -> Generator[None]:
    """What is unpickled meanwhile is code, and its classes are to be as they were sent."""
    before, _loading.code = _loading.code, True
    try:
        yield
    finally:
        _loading.code = before


def with_version(cls: type, set_state: SetState) -> partial[type]:
    """What fills a class that is loaded, and knows how new this state of it is."""
    return partial(_set_state, set_state, _version_of(cls))


def _version_of(cls: type) -> int:
    if (loaded := _loaded.get(cls)) is not None:
        return loaded.version
    entries = vars(cls)
    # Not the values: who keeps those, keeps the class. What it misses (the same id again, a change inside a list) is a
    # state of equal version, and of these the last that comes counts.
    fingerprint = hash((*entries, *map(id, entries.values())))
    made = _made.get(cls)
    if made is None or made.fingerprint != fingerprint:
        made = _made[cls] = _Made(made.version + 1 if made else 1, fingerprint)
    return made.version


def _set_state(set_state: SetState, version: int, cls: type, state: tuple[dict[str, Any], Any]) -> type:
    if cls in _made:
        return cls
    names = frozenset(state[0])
    if (loaded := _loaded.get(cls)) is not None:
        if version < loaded.version and not _loading.code:
            return cls
        for name in loaded.names - names:  # deleted since
            if name in vars(cls):
                type.__delattr__(cls, name)
    _loaded[cls] = _Loaded(version, names)
    return set_state(cls, state)
