"""Which actors have names."""
from __future__ import annotations

from .. import cluster_names
from ..session import running
from ..state import list_actors


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """The names of living actors.

    Parameters
    ----------
    all_namespaces : bool
        False: of this session's namespace, as strings. True: of all, as dicts of "name" and "namespace".
    """
    of = running()
    named = [(row["namespace"], row["name"]) for row in list_actors() if row["name"] and row["state"] != "dead"]
    if of.in_cluster:
        named += [entry for entry in cluster_names.names(of) if entry not in named]
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in named]
    return [name for namespace, name in named if namespace == of.namespace]
