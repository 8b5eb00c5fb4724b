"""A scheduler for Dask: `collection.compute(scheduler=cellmesh.util.dask_get)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dask import config
from dask._task_spec import Alias, DataNode, convert_legacy_graph
from dask.callbacks import local_callbacks, unpack_callbacks
from dask.core import flatten
from dask.local import start_state_from_dask
from dask.order import order
from dask.typing import Key
from dask.utils import funcname, key_split

from ..api import remote
from ..objects import get, put
from ..refs import ObjectRef
from ..submit.remote_function import RemoteFunction
from ..waiting import as_completed

MAX_NAMES = 64  # of the tasks of a graph; each name is a function of its own in the store


def dask_get(
    dsk: Any,
    keys: Any,
    *,
    cache: Mapping[Key, Any] | None = None,
    options: dict[str, Any] | None = None,
    **ignored: Any,
) -> Any:
    """Compute keys of a Dask graph: each of its nodes is a task, and only what was asked for comes here.

    Parameters
    ----------
    dsk : mapping, or Dask collection or expression
        The graph.
    keys : key or nested list of keys
        What to compute.
    cache : mapping, optional
        Values of keys that are known; default: those of Dask's configuration.
    options : dict, optional
        Of the tasks, as `cellmesh.remote` takes them.
    **ignored
        What Dask's own schedulers take: `num_workers`, `pool`, ...

    Returns
    -------
    The values, nested as `keys`. Arrays and data frames among them are copies, which may be written to.

    Notes
    -----
    Dask's callbacks are called, such as its ProgressBar. For those that are called after a task its value is fetched.
    """
    known = cache if cache is not None else config.get("cache", None) or {}
    graph = dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__()
    graph = convert_legacy_graph(graph, all_keys={*graph, *known})
    wanted = set(flatten([keys]))
    with local_callbacks() as callbacks:
        if callbacks:
            values = _compute_watched(callbacks, graph, wanted, known, options or {})
        else:
            graph = _needed(graph, wanted, known)
            refs = _submit_all(graph, order(graph), wanted, options or {})
            values = _fetched(wanted, refs)
        return _values(keys, values)


def _needed(graph: Mapping[Key, Any], wanted: set[Key], known: Mapping[Key, Any]) -> dict[Key, Any]:
    """The nodes from which the wanted ones are computed."""
    needed: dict[Key, Any] = {}
    stack = list(wanted)
    while stack:
        key = stack.pop()
        if key in needed:
            continue
        node = needed[key] = DataNode(key, known[key]) if key in known else graph[key]
        for source in node.dependencies:
            if source not in graph and source not in known:
                raise ValueError(f"Missing dependency {source!r} for dependents {key!r}")
            stack.append(source)
    return needed


def _submit_all(
    graph: Mapping[Key, Any], places: Mapping[Key, int], kept: set[Key], options: Mapping[str, Any]
) -> dict[Key, ObjectRef]:
    """Submit every node; the refs of those in `kept`."""
    n_users = Counter(source for node in graph.values() for source in node.dependencies)
    calls: dict[str, RemoteFunction[..., object]] = {}
    refs: dict[Key, ObjectRef] = {}
    for key in sorted(graph, key=places.__getitem__):  # sources first
        refs[key] = _submit(calls, options, graph[key], refs)
        for source in graph[key].dependencies:
            n_users[source] -= 1
            if not n_users[source] and source not in kept:
                del refs[source]  # the tasks that were submitted keep it as long as they need it
    return refs


def _submit(
    calls: dict[str, RemoteFunction[..., object]],
    options: Mapping[str, Any],
    node: Any,
    refs: Mapping[Key, ObjectRef],
) -> ObjectRef:
    if isinstance(node, Alias):
        return refs[node.target]
    sources = list(node.dependencies)
    if not sources and not hasattr(node, "func"):  # data
        return put(node({}))
    name = key_split(node.key)
    if name not in calls:
        if len(calls) >= MAX_NAMES:  # keys written by hand, such as x1, x2, ...
            name = funcname(node.func) if hasattr(node, "func") else "task"
        calls[name] = remote(_run).options(name=name, **options) if options else _named(name)
    return calls[name].remote(node, sources, *(refs[source] for source in sources))


@lru_cache(4 * MAX_NAMES)
def _named(name: str) -> RemoteFunction[..., object]:
    return remote(_run).options(name=name)


def _compute_watched(
    callbacks: Any,
    graph: dict[Key, Any],
    wanted: set[Key],
    known: Mapping[Key, Any],
    options: Mapping[str, Any],
) -> dict[Key, Any]:
    """Compute with Dask's callbacks, which may put values into the graph at the start; returns when all is done, or
    something has failed.
    """
    start, start_state, before, after, finish = unpack_callbacks(callbacks)
    state: dict[str, Any] = {}
    has_failed = True
    try:
        for call in start:
            call(graph)
        graph = _needed(convert_legacy_graph(graph), wanted, known)
        places = order(graph)
        state = start_state_from_dask(graph, cache={}, sortkey=places.__getitem__, keys=list(wanted))
        for call in start_state:
            call(graph, state)
        tasks = sorted((key for key in graph if key not in state["cache"]), key=places.__getitem__)
        refs = _submit_all(graph, places, set(graph), options)
        state.update(waiting={}, ready=[], running=set(tasks))
        for key in tasks:
            for call in before:
                call(key, graph, state)
        keys: dict[ObjectRef, list[Key]] = {}
        for key in tasks:
            keys.setdefault(refs[key], []).append(key)
        for ref in as_completed(list(keys)):
            value = get(ref) if after or ref.client.info(ref)["state"] != "finished" else None  # raises what has failed
            for key in keys[ref]:
                state["running"].discard(key)
                state["finished"].add(key)
                for call in after:
                    call(key, value, graph, state, 0)
        has_failed = False
    finally:
        for call in finish:
            call(graph, state, has_failed)
    return _fetched(wanted, refs)


def _fetched(wanted: set[Key], refs: Mapping[Key, ObjectRef]) -> dict[Key, Any]:
    return dict(zip(wanted, get([refs[key] for key in wanted]), strict=True))


def _run(node: Any, sources: list[Key], *values: Any) -> object:
    return node(dict(zip(sources, values, strict=True)))


def _values(keys: Any, values: Mapping[Key, Any]) -> Any:
    return tuple(_values(key, values) for key in keys) if isinstance(keys, list) else values[keys]
