"""What a compatible module says of names that it does not have."""
from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

# Parts of Ray that are not here, each with what to do instead.
_HINTS = {
    "serve": "serve a model from an actor, or keep Ray for this part",
    "data": "use Arrow or pandas in tasks, or keep Ray for this part",
    "workflow": "keep Ray for this part",
    "tune": "keep Ray for this part",
    "train": "keep Ray for this part",
    "rllib": "keep Ray for this part",
    "client": "a session is on this machine; cellmesh.init(address) joins one that runs",
    "ClientBuilder": "a session is on this machine; cellmesh.init(address) joins one that runs",
    "collective": "use torch.distributed among actors",
    "iter": "use generator tasks, cellmesh.as_completed, or ActorPool.map_unordered",
    "java_function": "tasks are Python functions",
    "java_actor_class": "actors are Python classes",
    "cpp_function": "tasks are Python functions",
}


def no_such_name(module: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` for the module that plays `module`."""
    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by Python itself
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise AttributeError(explain(f"{module}.{name}"))
    return refuse


def explain(name: str) -> str:
    """Why a name is not there, for `AttributeError` and `ModuleNotFoundError`."""
    hint = next((_HINTS[part] for part in name.split(".") if part in _HINTS),
                "docs/migrating-from-ray.md lists what there is")
    return f"{name} has no counterpart in cellmesh: {hint}"
