"""`ray.util.scheduling_strategies`: where to place tasks; on one machine there is one place."""
from __future__ import annotations

from ... import missing as _missing

__all__ = ["NodeAffinitySchedulingStrategy"]
__getattr__ = _missing.no_such_name("ray.util.scheduling_strategies")


def NodeAffinitySchedulingStrategy(node_id: str, soft: bool, **ignored: object) -> str:  # noqa: N802
    """The strategy for a certain node, of which there is one.

    Raises
    ------
    ValueError
        It is not this node, and no other will do.
    """
    from ....session import current
    here = current().node.session_id
    if node_id != here and not soft:
        raise ValueError(f"node_id={node_id!r}: the session's one node is {here!r}, and soft=False allows no other")
    return "DEFAULT"
