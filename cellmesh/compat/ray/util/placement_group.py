"""`ray.util.placement_group`."""

from __future__ import annotations

from typing import Any

from ....submit import placement_groups as _ours
from ....submit.placement_groups import STRATEGIES, PlacementGroup, get_current_placement_group
from ... import missing as _missing

__all__ = [
    "VALID_PLACEMENT_GROUP_STRATEGIES",
    "PlacementGroup",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]
VALID_PLACEMENT_GROUP_STRATEGIES = set(STRATEGIES)
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.util.placement_group")


def placement_group(
    bundles: Any, strategy: str = "PACK", name: str = "", lifetime: str | None = None, **ignored: Any
) -> PlacementGroup:
    """`cellmesh.util.placement_group`; hints about nodes are passed over."""
    return _ours.placement_group(bundles, strategy, name, lifetime)


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """`cellmesh.util.get_placement_group`, in Ray's words."""
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    try:
        return _ours.get_placement_group(placement_group_name)
    except ValueError as error:
        raise ValueError(f"Failed to look up placement group with name: {placement_group_name}: {error}") from None


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """`cellmesh.util.placement_group_table`."""
    return _ours.placement_group_table(placement_group)


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """`cellmesh.util.remove_placement_group`."""
    _ours.remove_placement_group(placement_group)
