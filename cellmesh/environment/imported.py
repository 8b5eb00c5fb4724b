"""What the program has imported: workers that start later are to have it from their birth.

Of a notebook or script that is what its variables come from (modules, functions, classes, and classes of values), and
what those of its own modules do. What a kernel imports for itself is not among it.
"""

from __future__ import annotations

import os
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

from ..scheduler.worker.warm import INSTALLED
from .driver_env import file_of_users

if TYPE_CHECKING:
    from ..scheduler.ipc.messages import PackagesImported

# What runs programs, not what they use.
RUNNERS = {"cellmesh", "IPython", "ipykernel", "pytest", "_pytest", "pluggy"}


class Imported:
    """Remembers what has been told of it."""

    def __init__(self) -> None:
        self._n_modules = 0  # when last looked
        self._told: dict[str, set[str]] = {}  # modules, by package

    def news(self) -> PackagesImported | None:
        """What has been imported since this was asked last; costs nothing if there are as many modules as then."""
        if len(sys.modules) == self._n_modules:
            return None
        self._n_modules = len(sys.modules)
        tops = {top: file for top in _tops() if (file := _file_of_installed(top))}
        if not tops:
            return None
        from ..scheduler.ipc.messages import MAX_MODULES, MAX_NAME_CHARS, MAX_PACKAGES, Package, PackagesImported

        modules: dict[str, list[str]] = {top: [] for top in tops}
        for name in list(sys.modules):
            of = modules.get(name.partition(".")[0])
            if of is not None and len(name) <= MAX_NAME_CHARS and len(of) < MAX_MODULES:
                of.append(name)
        new = [top for top in tops if not self._told.get(top, set()) >= set(modules[top])][:MAX_PACKAGES]
        self._told.update((top, set(modules[top])) for top in new)
        packages = [Package(top, tops[top], modules[top]) for top in new]
        path = [os.path.abspath(path) for path in sys.path if path.isprintable()]
        return PackagesImported(packages, path) if packages else None


def _tops() -> set[str]:
    """The first parts of the names of modules that the program's variables come from, and those of its own modules."""
    main = sys.modules.get("__main__")
    if main is None or _is_a_runner(getattr(main, "__file__", None)):
        return set()
    names, left = {"__main__"}, [main]
    while left:
        for value in list(vars(left.pop()).values()):
            name = _origin(value)
            if isinstance(name, str) and name not in names:
                names.add(name)
                if name.partition(".")[0] not in RUNNERS and _is_users(module := sys.modules.get(name)):
                    left.append(module)
    return {name.partition(".")[0] for name in names} - RUNNERS


def _is_a_runner(file: object) -> bool:
    """Whether a program is an installed one, such as pytest: its own variables say nothing of the user's code."""
    if not isinstance(file, str):
        return False
    commands = os.path.dirname(
        sys.executable
    )  # without links followed: pip puts commands beside the one that it ran in
    return any(folder in file for folder in INSTALLED) or os.path.dirname(file) == commands


def _is_users(module: object) -> TypeGuard[ModuleType]:
    path = file_of_users(getattr(module, "__dict__", {}).get("__spec__"))
    return path is not None and not any(folder in path for folder in INSTALLED)


def _origin(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return ModuleType.__getattribute__(value, "__dict__").get("__name__")  # of a lazy one, too, without loading it
    of = value if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else type(value)
    return getattr(of, "__module__", None)


def _file_of_installed(top: str) -> str:
    """Where an installed package, or module, has its first module; "" for what is no such."""
    file = getattr(sys.modules.get(top), "__dict__", {}).get("__file__")
    if not isinstance(file, str) or not file.isprintable():
        return ""
    return file if any(folder in file for folder in INSTALLED) else ""
