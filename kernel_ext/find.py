"""From a row of the graph back to a ref: the graph knows numbers, and only a ref keeps a value alive.

An unfinished task's ref comes from the segment. A finished one's value lives as long as somebody refers to it; what the
notebook holds is found by looking at its variables, into lists and dicts of them too.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..refs import ObjectRef

if TYPE_CHECKING:
    from ..objstore._core import Client

N_VISITED_MAX = 200_000  # items of containers; more are not looked at
DEPTH_MAX = 4


def find_ref(client: Client, number: int, parent: int, namespace: Mapping[str, Any]) -> ObjectRef | None:
    """A ref of the task or put with this number, None if neither the segment nor the notebook has one.

    Parameters
    ----------
    parent : int
        Number of the task that submitted it, 0 for the driver.
    namespace : mapping
        The notebook's variables.
    """
    for ref in client.children(parent):
        if ref.creator == number:
            return ref
    return next((ref for _, ref in refs_in(namespace) if ref.creator == number and ref.client is client), None)


def refs_in(namespace: Mapping[str, Any]) -> Iterator[tuple[str, ObjectRef]]:
    """(name of the variable, ref) for each ref in the variables, containers included; a ref may come more than once."""
    visited = 0
    for name, value in list(namespace.items()):
        stack = [(value, 0)]
        seen: set[int] = set()
        while stack and visited < N_VISITED_MAX:
            item, depth = stack.pop()
            visited += 1
            if isinstance(item, ObjectRef):
                yield name, item
            # Exact types only: other containers' iteration may do anything.
            elif type(item) in (list, tuple, set, frozenset, dict) and depth < DEPTH_MAX and id(item) not in seen:
                seen.add(id(item))
                items = list(item.values() if type(item) is dict else item)
                stack.extend((inner, depth + 1) for inner in items[:N_VISITED_MAX - visited])
