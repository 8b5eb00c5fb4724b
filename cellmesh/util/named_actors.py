"""Which actors have names."""
from __future__ import annotations

from ..session import running
from ..state import list_actors


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """The names of living actors.

    Parameters
    ----------
    all_namespaces : bool
        False: of this session's namespace, as strings. True: of all, as dicts of "name" and "namespace".
    """
    named = [row for row in list_actors() if row["name"] and row["state"] != "dead"]
    if all_namespaces:
        return [{"name": row["name"], "namespace": row["namespace"]} for row in named]
    return [row["name"] for row in named if row["namespace"] == running().namespace]
