"""Helpers on top of the public API, most of them with the interface of something well known.

`ActorPool`, `Queue`; `Executor` (concurrent.futures), `Pool` in `cellmesh.util.multiprocessing`, `register_joblib`,
`dask_get`; the key-value store `cellmesh.util.kv`; `placement_group` and what goes with it; `list_named_actors`, `inspect_serializability`, `register_serializer`.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..placement import (DoesNotExist, Exists, In, NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, NotIn,
                             PlacementGroup, PlacementGroupSchedulingStrategy, get_current_placement_group,
                             get_placement_group, placement_group, placement_group_table, remove_placement_group)
    from ..serializability import inspect_serializability
    from .actor_pool import ActorPool
    from .dask import dask_get
    from .executor import Executor
    from .joblib import register_joblib
    from .named_actors import list_named_actors
    from .queue import Queue
    from .serializers import deregister_serializer, register_serializer

_HOMES = {
    "ActorPool": ".actor_pool", "Executor": ".executor", "Queue": ".queue", "dask_get": ".dask",
    "deregister_serializer": ".serializers", "inspect_serializability": "..serializability",
    **dict.fromkeys(("DoesNotExist", "Exists", "In", "NodeAffinitySchedulingStrategy", "NodeLabelSchedulingStrategy", "NotIn",
                     "PlacementGroup", "PlacementGroupSchedulingStrategy", "get_current_placement_group",
                     "get_placement_group", "placement_group", "placement_group_table", "remove_placement_group"), "..placement"),
    "list_named_actors": ".named_actors", "register_joblib": ".joblib", "register_serializer": ".serializers",
}
_NEEDS = {".dask": "dask", ".joblib": "joblib"}  # what is not among cellmesh's own dependencies

# `import *` works without the others' libraries, too.
__all__ = [name for name, home in _HOMES.items() if home not in _NEEDS]  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    try:
        value = getattr(import_module(home, __name__), name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != _NEEDS.get(home):
            raise
        raise ImportError(f"cellmesh.util.{name} needs {_NEEDS[home]}: pip install {_NEEDS[home]}") from missing
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
