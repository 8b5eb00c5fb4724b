"""`ray.util.joblib`."""
from __future__ import annotations

from ....util import register_joblib

__all__ = ["register_ray"]


def register_ray() -> None:
    """Make cellmesh's backend known to joblib as "ray"."""
    register_joblib("ray")
