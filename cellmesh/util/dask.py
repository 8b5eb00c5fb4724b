"""A scheduler for Dask: `collection.compute(scheduler=cellmesh.util.dask_get)`."""
from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from dask._task_spec import Alias, convert_legacy_graph, cull
from dask.core import flatten
from dask.order import order
from dask.utils import key_split

from ..api import get, put, remote
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
    """
    graph = convert_legacy_graph(dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__())
    wanted = set(flatten([keys]))
    graph = cull(graph, wanted)
    places = order(graph)
    n_users = Counter(source for node in graph.values() for source in node.dependencies)
    call = remote(_run).options(**(options or {}))
    refs: dict[Hashable, ObjectRef] = {}
    for key in sorted(graph, key=places.__getitem__):  # sources first
        refs[key] = _submit(call, graph[key], refs)
        for source in graph[key].dependencies:
            n_users[source] -= 1
            if not n_users[source] and source not in wanted:
                del refs[source]  # the tasks that were submitted keep it as long as they need it
    return _values(keys, dict(zip(wanted, get([refs[key] for key in wanted]), strict=True)))


def _submit(call: RemoteFunction[..., Any], node: Any, refs: Mapping[Hashable, ObjectRef]) -> ObjectRef:
    if isinstance(node, Alias):
        return refs[node.target]
    sources = list(node.dependencies)
    if not sources and not hasattr(node, "func"):  # data
        return put(node({}))
    return call.options(name=key_split(node.key)).remote(node, sources, *(refs[source] for source in sources))


def _run(node: Any, sources: list[Hashable], *values: Any) -> Any:
    return node(dict(zip(sources, values, strict=True)))


def _values(keys: Any, values: Mapping[Hashable, Any]) -> Any:
    return tuple(_values(key, values) for key in keys) if isinstance(keys, list) else values[keys]
