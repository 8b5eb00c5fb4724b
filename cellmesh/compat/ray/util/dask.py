"""`ray.util.dask`."""

from __future__ import annotations

from typing import Any

from dask import config

from ....util.dask import dask_get as ray_dask_get

__all__ = ["disable_dask_on_ray", "enable_dask_on_ray", "ray_dask_get"]


def enable_dask_on_ray(**ignored: Any) -> Any:
    """Compute with cellmesh from now on, or within a `with` statement."""
    return config.set(scheduler=ray_dask_get)


def disable_dask_on_ray() -> Any:
    """Undo it."""
    return config.set(scheduler=None)
