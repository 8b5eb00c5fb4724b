"""cellmesh: notebook cells and classes as remote tasks and actors.

    import cellmesh as cm

    @cm.remote
    def square(x):
        return x * x

    cm.get([square.remote(i) for i in range(4)])      # [0, 1, 4, 9]

Everything is imported when it is first used, so that `import cellmesh` costs next to nothing.
"""
from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # known to type checkers by its name; the module `typing` is not worth its time here
if TYPE_CHECKING:
    from typing import Any

    from . import exceptions, state, util
    from .actor import ActorClass, ActorHandle, method
    from .api import (as_completed, available_resources, cancel, cluster_resources, error_info, exit_actor,
                      get_actor, get_gpu_ids, get_runtime_context, kill, load_checkpoint, nodes, remote, save_checkpoint, timeline, wait)
    from .generator import ObjectRefGenerator
    from .lifecycle import init, is_initialized, shutdown
    from .objects import get, put
    from .refs import ObjectRef
    from .remote_function import RemoteFunction
    from .serializability import inspect_serializability

# public name -> the module that defines it
_HOMES = {
    **dict.fromkeys(("as_completed", "available_resources", "cancel", "cluster_resources", "error_info", "exit_actor",
                     "get_actor", "get_gpu_ids", "get_runtime_context", "kill", "load_checkpoint", "nodes", "remote", "save_checkpoint",
                     "timeline", "wait"), "api"),
    **dict.fromkeys(("get", "put"), "objects"),
    **dict.fromkeys(("init", "is_initialized", "shutdown"), "lifecycle"),
    **dict.fromkeys(("ActorClass", "ActorHandle", "method"), "actor"),
    "ObjectRef": "refs",
    "ObjectRefGenerator": "generator",
    "progress": "task_progress",
    "RemoteFunction": "remote_function",
    "inspect_serializability": "serializability",
}
_MODULES = ("exceptions", "state", "util")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    elif name == "__version__":
        from importlib.metadata import PackageNotFoundError, version
        try:
            value = version("cellmesh")
        except PackageNotFoundError:  # run from a source tree
            value = "0+source"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext cellmesh`: the magics, the displays and the panel's connection."""
    from .kernel_ext import load_ipython_extension as load
    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext cellmesh`."""
    from .kernel_ext import unload_ipython_extension as unload
    unload(ipython)
