"""Which actors have names."""

from __future__ import annotations

from ..session.current import running
from ..submit.actor_names import living


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:
    """The names of living actors.

    Parameters
    ----------
    all_namespaces : bool
        False: of this session's namespace, as strings. True: of all, as dicts of "name" and "namespace".
    """
    of = running()
    named = living(of)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in named]
    return [name for namespace, name in named if namespace == of.namespace]
