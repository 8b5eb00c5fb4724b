"""The refs that the notebook's variables hold, into lists and dicts of them too."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..refs import ObjectRef

N_VISITED_MAX = 200_000  # items of containers; more are not looked at
DEPTH_MAX = 4


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
