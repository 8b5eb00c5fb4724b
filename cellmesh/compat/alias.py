"""Lets `import ray`, also in other people's modules, find `cellmesh.compat.ray`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from ..objstore._core import refs_are_plain
from .missing import explain

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # the import system asks for the methods alone

NAME, HOME = "ray", "cellmesh.compat.ray"
VARIABLE = "CELLMESH_COMPAT_RAY"  # set in the driver's environment: its workers install the alias too


class _Finder:
    """On sys.meta_path: ray.x is cellmesh.compat.ray.x, the same module object."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        home = HOME + name[len(NAME) :]
        if importlib.util.find_spec(home) is None:
            raise ModuleNotFoundError(explain(name), name=name)
        return ModuleSpec(name, _Loader(home))


class _Loader(Loader):
    def __init__(self, home: str) -> None:
        self._home = home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__  # the import system is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def install() -> None:
    """Make `import ray` import `cellmesh.compat.ray`, here and in the workers of the session that is started next.

    Raises
    ------
    RuntimeError
        Ray itself has been imported, or a session runs already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if NAME in sys.modules:
        raise RuntimeError(
            "ray itself has been imported in this process already: call install() before the first `import ray`"
        )
    from ..session.current import current_or_none

    session = current_or_none()
    if session is not None and not session.is_worker:
        raise RuntimeError("a session runs already, whose workers would not know: call install() before init()")
    os.environ[VARIABLE] = "1"
    refs_are_plain(True)
    sys.meta_path.insert(0, _Finder())


def uninstall() -> None:
    """Undo `install`; modules that have imported it keep what they have."""
    os.environ.pop(VARIABLE, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
        del sys.modules[name]
