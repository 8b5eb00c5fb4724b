"""The type variables of remote functions and actor classes, and what these inherit: for checkers `typed.py`, at run
time hardly anything.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, ParamSpec, TypeVar

HIDDEN = {"unbind", "redefined", "uses_export"}  # methods that sessions call

if TYPE_CHECKING:
    from .typed import C, F, Maps, P, R, S, Submits
else:
    P = ParamSpec("P")
    C, F, R, S = map(TypeVar, "CFRS")

    class Submits:
        """Can be subscripted, with any number of types: type variables have no defaults before Python 3.13."""

        __class_getitem__ = classmethod(GenericAlias)

        def __get__(self, instance, owner=None):
            return self  # `help` shows the signature of what has this method

        def __dir__(self):
            return [
                name
                for name in super().__dir__()
                if name not in HIDDEN and (name.startswith("__") or not name.startswith("_"))
            ]

    Maps = Submits

__all__ = ["C", "F", "Maps", "P", "R", "S", "Submits"]
