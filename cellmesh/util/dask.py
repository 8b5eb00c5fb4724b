"""A scheduler for Dask: `collection.compute(scheduler=cellmesh.util.dask_get)`."""
from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from dask._task_spec import Alias, convert_legacy_graph, cull
from dask.callbacks import local_callbacks, unpack_callbacks
from dask.core import flatten
from dask.order import order
from dask.utils import key_split

from ..api import as_completed, remote
from ..objects import get, put
from ..refs import ObjectRef
from ..remote_function import RemoteFunction


def dask_get(dsk: Any, keys: Any, *, options: dict[str, Any] | None = None, **ignored: Any) -> Any:
    """Compute keys of a Dask graph: each of its nodes is a task, and only what was asked for comes here.

    Parameters
    ----------
    dsk : mapping, or Dask collection or expression
        The graph.
    keys : key or nested list of keys
        What to compute.
    options : dict, optional
        Of the tasks, as `cellmesh.remote` takes them.
    **ignored
        What Dask's own schedulers take: `num_workers`, `pool`, ...

    Returns
    -------
    The values, nested as `keys`.

    Notes
    -----
    Dask's callbacks are called, such as its ProgressBar; what they are told of values is None.
    """
    graph = convert_legacy_graph(dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__())
    wanted = set(flatten([keys]))
    graph = cull(graph, wanted)
    with local_callbacks() as callbacks:
        refs = _submit_all(graph, set(graph) if callbacks else wanted, options or {})
        if callbacks:
            _tell(callbacks, graph, refs)
        return _values(keys, dict(zip(wanted, get([refs[key] for key in wanted]), strict=True)))


def _submit_all(graph: Mapping[Hashable, Any], kept: set[Hashable],
                options: Mapping[str, Any]) -> dict[Hashable, ObjectRef]:
    """Submit every node; the refs of those in `kept`."""
    places = order(graph)
    n_users = Counter(source for node in graph.values() for source in node.dependencies)
    call = remote(_run).options(**options)
    refs: dict[Hashable, ObjectRef] = {}
    for key in sorted(graph, key=places.__getitem__):  # sources first
        refs[key] = _submit(call, graph[key], refs)
        for source in graph[key].dependencies:
            n_users[source] -= 1
            if not n_users[source] and source not in kept:
                del refs[source]  # the tasks that were submitted keep it as long as they need it
    return refs


def _submit(call: RemoteFunction[..., Any], node: Any, refs: Mapping[Hashable, ObjectRef]) -> ObjectRef:
    if isinstance(node, Alias):
        return refs[node.target]
    sources = list(node.dependencies)
    if not sources and not hasattr(node, "func"):  # data
        return put(node({}))
    return call.options(name=key_split(node.key)).remote(node, sources, *(refs[source] for source in sources))


def _tell(callbacks: Any, graph: Mapping[Hashable, Any], refs: Mapping[Hashable, ObjectRef]) -> None:
    """Call Dask's callbacks as the nodes are done; returns when all are, or one has failed."""
    start, start_state, before, after, finish = unpack_callbacks(callbacks)
    keys: dict[ObjectRef, list[Hashable]] = {}
    for key, ref in refs.items():
        keys.setdefault(ref, []).append(key)
    state: dict[str, Any] = {"waiting": set(), "ready": [], "running": set(graph), "finished": set(), "cache": {}}
    for call in start:
        call(graph)
    for call in start_state:
        call(graph, state)
    for key in graph:
        for call in before:
            call(key, graph, state)
    has_failed = True
    try:
        for ref in as_completed(list(keys)):
            if ref.client.info(ref)["state"] != "finished":
                return
            for key in keys[ref]:
                state["running"].discard(key)
                state["finished"].add(key)
                for call in after:
                    call(key, None, graph, state, 0)
        has_failed = False
    finally:
        for call in finish:
            call(graph, state, has_failed)


def _run(node: Any, sources: list[Hashable], *values: Any) -> Any:
    return node(dict(zip(sources, values, strict=True)))


def _values(keys: Any, values: Mapping[Hashable, Any]) -> Any:
    return tuple(_values(key, values) for key in keys) if isinstance(keys, list) else values[keys]
