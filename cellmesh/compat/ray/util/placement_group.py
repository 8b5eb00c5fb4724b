"""`ray.util.placement_group`."""
from __future__ import annotations

from typing import Any

from ....placement import (PlacementGroup, get_current_placement_group, get_placement_group, placement_group_table,
                           remove_placement_group)
from ....placement import placement_group as _placement_group
from ... import missing as _missing

__all__ = ["PlacementGroup", "get_current_placement_group", "get_placement_group", "placement_group",
           "placement_group_table", "remove_placement_group"]
__getattr__ = _missing.no_such_name("ray.util.placement_group")


def placement_group(bundles: Any, strategy: str = "PACK", name: str = "", lifetime: str | None = None,
                    **ignored: Any) -> PlacementGroup:
    """`cellmesh.util.placement_group`; hints about nodes are passed over."""
    return _placement_group(bundles, strategy, name, lifetime)
