"""cellmesh: notebook cells and classes as remote tasks and actors; never Jupyter (`kernel_ext`) or what runs a node
(`scheduler`).

    import cellmesh as cm

    @cm.remote
    def square(x):
        return x * x

    cm.get([square.remote(i) for i in range(4)])      # [0, 1, 4, 9]

Everything is imported when it is first used, so that `import cellmesh` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # known to type checkers by its name; the module `typing` is not worth its time here
if TYPE_CHECKING:
    from typing import Any

    # `X as X`: this is how checkers are told that a name is public.
    from . import exceptions as exceptions
    from . import recording as recording
    from . import rl as rl
    from . import state as state
    from . import tune as tune
    from . import util as util
    from .api import available_resources as available_resources
    from .api import cancel as cancel
    from .api import cluster_resources as cluster_resources
    from .api import error_info as error_info
    from .api import exit_actor as exit_actor
    from .api import get_actor as get_actor
    from .api import get_gpu_ids as get_gpu_ids
    from .api import get_runtime_context as get_runtime_context
    from .api import kill as kill
    from .api import load_checkpoint as load_checkpoint
    from .api import nodes as nodes
    from .api import remote as remote
    from .api import save_checkpoint as save_checkpoint
    from .api import timeline as timeline
    from .errors.serializability import inspect_serializability as inspect_serializability
    from .groups.actor_group import ActorGroup as ActorGroup
    from .groups.inside import current_group as current_group
    from .groups.making import group as group
    from .groups.ref_group import RefGroup as RefGroup
    from .objects import get as get
    from .objects import put as put
    from .output.progress import progress as progress
    from .refs import ObjectRef as ObjectRef
    from .shared_memory import shared_array as shared_array
    from .shared_memory import shared_arrays as shared_arrays
    from .startup.init import init as init
    from .startup.init import is_initialized as is_initialized
    from .startup.init import shutdown as shutdown
    from .submit.actor import ActorHandle as ActorHandle
    from .submit.actor_blueprint import method as method
    from .submit.actor_class import ActorClass as ActorClass
    from .submit.generator import ObjectRefGenerator as ObjectRefGenerator
    from .submit.remote_function import RemoteFunction as RemoteFunction
    from .tasks.periodic import every as every
    from .tasks.resubmission import retry as retry
    from .tasks.task_groups import task_group as task_group
    from .waiting import as_completed as as_completed
    from .waiting import wait as wait

    __version__: str

# public name -> the module that defines it
_HOMES = {
    **dict.fromkeys(
        (
            "available_resources",
            "cancel",
            "cluster_resources",
            "error_info",
            "exit_actor",
            "get_actor",
            "get_gpu_ids",
            "get_runtime_context",
            "kill",
            "load_checkpoint",
            "nodes",
            "remote",
            "save_checkpoint",
            "timeline",
        ),
        "api",
    ),
    **dict.fromkeys(("get", "put"), "objects"),
    **dict.fromkeys(("as_completed", "wait"), "waiting"),
    **dict.fromkeys(("shared_array", "shared_arrays"), "shared_memory"),
    **dict.fromkeys(("init", "is_initialized", "shutdown"), "startup.init"),
    "ActorClass": "submit.actor_class",
    "ActorHandle": "submit.actor",
    "method": "submit.actor_blueprint",
    "ActorGroup": "groups.actor_group",
    "current_group": "groups.inside",
    "group": "groups.making",
    "RefGroup": "groups.ref_group",
    "every": "tasks.periodic",
    "task_group": "tasks.task_groups",
    "ObjectRef": "refs",
    "ObjectRefGenerator": "submit.generator",
    "progress": "output.progress",
    "RemoteFunction": "submit.remote_function",
    "retry": "tasks.resubmission",
    "inspect_serializability": "errors.serializability",
}
_MODULES = ("exceptions", "recording", "rl", "state", "tune", "util")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604 (the names are those of the table)


if not TYPE_CHECKING:  # for whom any name would be there then

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        elif name in _MODULES:
            value = import_module(f".{name}", __name__)
        elif name == "__version__":
            try:
                value = import_module("._version", __name__).version
            except ModuleNotFoundError:
                value = "0+source"  # run from a source tree
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*__all__, "__version__"})


def _hint_at_magics() -> None:
    """Where IPython runs, `%%remote` says that `%load_ext cellmesh` is missing."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if get_ipython is not None else None
    if shell is not None:
        from .magics_hint import install

        install(shell)


_hint_at_magics()


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext cellmesh`: the magics, the displays and the panel's connection."""
    from .kernel_ext import load_ipython_extension as load

    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext cellmesh`."""
    from .kernel_ext import unload_ipython_extension as unload

    unload(ipython)
