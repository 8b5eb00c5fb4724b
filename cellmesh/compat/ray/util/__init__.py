"""`ray.util`."""
from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .... import api as _api
from ....objects import get as _get
from ....serializability import inspect_serializability as _inspect
from ....util import ActorPool, deregister_serializer, list_named_actors, register_serializer
from ... import missing as _missing
from . import actor_pool, metrics, queue, scheduling_strategies, serialization, state
from .placement_group import (get_current_placement_group, get_placement_group, placement_group, placement_group_table,
                              remove_placement_group)

__all__ = [
    "ActorPool", "actor_pool", "as_completed", "deregister_serializer", "get_current_placement_group",
    "get_node_ip_address", "get_placement_group", "inspect_serializability", "list_named_actors", "log_once",
    "map_unordered", "metrics", "placement_group", "placement_group_table", "queue", "register_serializer",
    "remove_placement_group", "scheduling_strategies", "serialization", "state",
]
__getattr__ = _missing.no_such_name("ray.util")

_logged: set[Any] = set()


def as_completed(refs: Iterable[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False,
                 **ignored: Any) -> Iterator[Any]:
    """`cellmesh.as_completed`; values unless refs are asked for."""
    for ref in _api.as_completed(list(refs)):
        yield ref if yield_obj_refs else _get(ref)


def map_unordered(fn: Any, items: Iterable[Any], *, backpressure_size: int | None = 100, chunk_size: int = 10,
                  yield_obj_refs: bool = False, **ignored: Any) -> Iterator[Any]:
    """The results of `fn.remote(item)`, as they come; at most `backpressure_size` calls are under way."""
    iterator = iter(items)
    under_way = [fn.remote(item) for item in itertools.islice(iterator, backpressure_size)]
    while under_way:
        ready, under_way = _api.wait(under_way)
        under_way += [fn.remote(item) for item in itertools.islice(iterator, len(ready))]
        yield from ready if yield_obj_refs else _get(ready)


def inspect_serializability(base_obj: Any, name: str | None = None, depth: int = 3,
                            print_file: Any = None, **ignored: Any) -> tuple[bool, set[Any]]:
    """`cellmesh.inspect_serializability`, which is printed; returns whether it can be pickled, and the failures."""
    found = _inspect(base_obj, name)
    print(found, file=print_file or sys.stdout)
    return bool(found), set(found.failures)


def get_node_ip_address() -> str:
    """The address of this machine as its session knows it."""
    return "127.0.0.1"


def log_once(key: Any) -> bool:
    """Whether this is the first call with that key."""
    return key not in _logged and not _logged.add(key)
