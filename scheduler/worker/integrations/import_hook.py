"""Changes other people's modules when a task imports them, so that what they show reaches the notebook.

A worker imports none of these modules by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ...ipc.messages import Stream

# What displays something: gets stream, data, metadata and transient data, as `Output.show`.
Show = Callable[[Stream, dict[str, Any], dict[str, Any], dict[str, Any]], None]


def on_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change(module)` once the module has been executed: now if it is there, otherwise when it is imported."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Hook(name, change))


class _Hook:
    """A finder on sys.meta_path: lets the others find the module, and changes it once it is executed."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name, self._change = name, change

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                self._change(module)

            spec.loader.exec_module = execute_and_change
        return spec
