"""`ray.util`, with cellmesh behind it; never a helper that Ray does not have."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from .... import waiting as _waiting
from ....errors.serializability import inspect_serializability as _inspect
from ....objects import get as _get
from ....util import ActorPool, deregister_serializer, list_named_actors, register_serializer
from ... import missing as _missing
from . import actor_pool, metrics, queue, scheduling_strategies, serialization, state
from .annotations import PublicAPI  # it makes `annotations` that module, which the first line has made something else
from .placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "ActorPool",
    "PublicAPI",
    "actor_pool",
    "annotations",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "metrics",
    "placement_group",
    "placement_group_table",
    "queue",
    "register_serializer",
    "remove_placement_group",
    "scheduling_strategies",
    "serialization",
    "state",
]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.util")

_PERIOD_S = 60.0


class _Once:
    """What `log_once` knows: the keys logged, since when, and what the two functions below it have said."""

    keys: ClassVar[set[Any]] = set()
    begun = 0.0
    is_off = is_periodic = False


def as_completed(
    refs: Iterable[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False, **ignored: Any
) -> Iterator[Any]:
    """`cellmesh.as_completed`; values unless refs are asked for."""
    for ref in _waiting.as_completed(list(refs)):
        yield ref if yield_obj_refs else _get(ref, readonly=True)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **ignored: Any,
) -> Iterator[Any]:
    """The results of `fn.remote(item)`, as they come; at most `backpressure_size` calls are under way."""
    iterator = iter(items)
    under_way = [fn.remote(item) for item in itertools.islice(iterator, backpressure_size)]
    while under_way:
        ready, under_way = _waiting.wait(under_way)
        under_way += [fn.remote(item) for item in itertools.islice(iterator, len(ready))]
        yield from ready if yield_obj_refs else _get(ready, readonly=True)


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: Any = None, **ignored: Any
) -> tuple[bool, set[Any]]:
    """`cellmesh.inspect_serializability`, which is printed; returns whether it can be pickled, and the failures."""
    found = _inspect(base_obj, name)
    print(found, file=print_file or sys.stdout)
    return bool(found), set(found.failures)


def get_node_ip_address(address: str = "8.8.8.8:53") -> str:
    """The address of this machine as its session knows it."""
    return "127.0.0.1"


def log_once(key: Any) -> bool:
    """Whether this is the first call with that key; with `enable_periodic_logging` the first in a minute."""
    if _Once.is_periodic and time.monotonic() - _Once.begun > _PERIOD_S:
        _Once.keys.clear()
    if _Once.is_off or key in _Once.keys:
        return False
    _Once.begun = time.monotonic()
    _Once.keys.add(key)
    return True


def disable_log_once_globally() -> None:
    """Have `log_once` say no from now on."""
    _Once.is_off = True


def enable_periodic_logging() -> None:
    """Have `log_once` forget its keys when a minute has passed since the last new one."""
    _Once.is_periodic = True
