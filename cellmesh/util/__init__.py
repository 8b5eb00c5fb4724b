"""Helpers on top of the API, most of them with the interface of something well known; never what the API itself needs.

`ActorPool`, `Queue`; `Executor` (concurrent.futures), `Pool` in `cellmesh.util.multiprocessing`, `register_joblib`,
`dask_get`; the key-value store `cellmesh.util.kv`; `Barrier`, `Counter` and `Condition` for shared arrays, in
`cellmesh.util.shared_sync`; values of Ray's and Dask's own clients, in `cellmesh.util.engines`; `placement_group` and
what goes with it; `list_named_actors`, `inspect_serializability`, `register_serializer`; `preload`, for modules that
every worker is to have.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors.serializability import inspect_serializability as inspect_serializability
    from ..submit.placement_groups import PlacementGroup as PlacementGroup
    from ..submit.placement_groups import get_current_placement_group as get_current_placement_group
    from ..submit.placement_groups import get_placement_group as get_placement_group
    from ..submit.placement_groups import placement_group as placement_group
    from ..submit.placement_groups import placement_group_table as placement_group_table
    from ..submit.placement_groups import remove_placement_group as remove_placement_group
    from ..submit.scheduling_strategies import DoesNotExist as DoesNotExist
    from ..submit.scheduling_strategies import Exists as Exists
    from ..submit.scheduling_strategies import In as In
    from ..submit.scheduling_strategies import NodeAffinitySchedulingStrategy as NodeAffinitySchedulingStrategy
    from ..submit.scheduling_strategies import NodeLabelSchedulingStrategy as NodeLabelSchedulingStrategy
    from ..submit.scheduling_strategies import NotIn as NotIn
    from ..submit.scheduling_strategies import PlacementGroupSchedulingStrategy as PlacementGroupSchedulingStrategy
    from .actor_pool import ActorPool as ActorPool
    from .dask import dask_get as dask_get
    from .executor import Executor as Executor
    from .joblib import register_joblib as register_joblib
    from .named_actors import list_named_actors as list_named_actors
    from .preloading import preload as preload
    from .queue import Queue as Queue
    from .serializers import deregister_serializer as deregister_serializer
    from .serializers import register_serializer as register_serializer

_HOMES = {
    "ActorPool": ".actor_pool",
    "Executor": ".executor",
    "Queue": ".queue",
    "dask_get": ".dask",
    "deregister_serializer": ".serializers",
    "inspect_serializability": "..errors.serializability",
    **dict.fromkeys(
        (
            "DoesNotExist",
            "Exists",
            "In",
            "NodeAffinitySchedulingStrategy",
            "NodeLabelSchedulingStrategy",
            "NotIn",
            "PlacementGroupSchedulingStrategy",
        ),
        "..submit.scheduling_strategies",
    ),
    **dict.fromkeys(
        (
            "PlacementGroup",
            "get_current_placement_group",
            "get_placement_group",
            "placement_group",
            "placement_group_table",
            "remove_placement_group",
        ),
        "..submit.placement_groups",
    ),
    "list_named_actors": ".named_actors",
    "preload": ".preloading",
    "register_joblib": ".joblib",
    "register_serializer": ".serializers",
}
_NEEDS = {".dask": "dask", ".joblib": "joblib"}  # what is not among cellmesh's own dependencies

# `import *` works without the others' libraries, too.
__all__ = [name for name, home in _HOMES.items() if home not in _NEEDS]


if not TYPE_CHECKING:  # for whom any name would be there then

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
