"""What an initializer of a pool or an executor does in a worker, and for which functions it counts."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any


class Initialized:
    """Calls an initializer, and remembers which global variables it has assigned.

    Functions from a notebook are sent by value, with globals of their own; so what an initializer assigns in its copy
    of them is given to the functions of the same module, as it is meant.
    """

    def __init__(self, initializer: Callable[..., Any] | None, arguments: tuple[Any, ...]) -> None:
        self._seen: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
        self._module, self._assigned = "", {}
        if initializer is not None:
            namespace = getattr(initializer, "__globals__", {})
            before = dict(namespace)
            initializer(*arguments)
            self._module = initializer.__module__
            self._assigned = {name: value for name, value in namespace.items() if before.get(name, self) is not value}

    def prepare(self, function: Callable[..., Any]) -> None:
        """Let the function see what the initializer has assigned. Only the first time: the function may assign too."""
        if not self._assigned:
            return
        while isinstance(function, (partial, types.MethodType)):
            function = function.func if isinstance(function, partial) else function.__func__
        if isinstance(function, types.FunctionType) and function.__module__ == self._module:
            if function not in self._seen:
                self._seen.add(function)
                function.__globals__.update(self._assigned)


def check_initializer(initializer: Any) -> None:
    """Raises TypeError for what cannot be an initializer."""
    if initializer is not None and not callable(initializer):
        raise TypeError(f"initializer must be callable, not {initializer!r}")
