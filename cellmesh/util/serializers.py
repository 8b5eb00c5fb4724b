"""Serializers of the user's own, for classes that pickle does not take, or takes badly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..objstore import serialization
from ..session.current import current_or_none


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Send instances of a class by functions of one's own, here and in the tasks and actors submitted from here.

    Parameters
    ----------
    cls : type
        Its instances, not those of its subclasses.
    serializer : callable
        Makes of an instance something that can be pickled.
    deserializer : callable
        Makes the instance of that again.

    Raises
    ------
    TypeError
        `cls` is no class, or one whose instances never pass through pickle.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_serializer() needs a class, not {cls!r}")
    if cls.__module__ in ("builtins", "numpy"):
        raise TypeError(f"{cls.__name__}: builtin and numpy types are stored as they are, without a serializer")
    for function in (serializer, deserializer):
        if not callable(function):
            raise TypeError(f"serializer and deserializer are functions, not {function!r}")
    serialization.register(cls, serializer, deserializer)
    _export_anew()


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer` here; harmless if there was none. Processes that know it go on using it."""
    serialization.deregister(cls)
    _export_anew()


def _export_anew() -> None:
    """Functions and classes take the serializers with them that there are when they are exported."""
    session = current_or_none()
    if session is not None:
        session.export_anew()
