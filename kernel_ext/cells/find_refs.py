"""The refs that the notebook's variables hold, also inside lists and dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...observe.holders import N_VISITED_MAX, in_containers, walk
from ...refs import ObjectRef

DEPTH_MAX = 4


def refs_in(namespace: Mapping[str, Any]) -> Iterator[tuple[str, ObjectRef]]:
    """(name of the variable, ref) for each ref in the variables, containers included; a ref may come more than once."""
    for name, value in walk(list(namespace.items()), in_containers, DEPTH_MAX, N_VISITED_MAX):
        if isinstance(value, ObjectRef):
            yield name, value
