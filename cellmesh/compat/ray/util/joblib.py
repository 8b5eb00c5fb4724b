"""`ray.util.joblib`."""

from __future__ import annotations

from typing import Any

from joblib import register_parallel_backend

from ....submit.options import TABLE
from ....util.joblib import CellmeshBackend

__all__ = ["register_ray"]


def register_ray() -> None:
    """Make cellmesh's backend known to joblib as "ray", which takes `ray_remote_args`."""
    register_parallel_backend("ray", _RayBackend)


class _RayBackend(CellmeshBackend):
    """With Ray's name for the options. They are of its actors there; of tasks here, so what only actors have is passed
    over.
    """

    def __init__(
        self,
        nesting_level: int | None = None,
        options: dict[str, Any] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(nesting_level, options or _of_tasks(ray_remote_args), **settings)

    def configure(
        self, n_jobs: int = 1, parallel: Any = None, *, ray_remote_args: dict[str, Any] | None = None, **settings: Any
    ) -> int:
        return super().configure(n_jobs, parallel, options=_of_tasks(ray_remote_args), **settings)


def _of_tasks(ray_remote_args: dict[str, Any] | None) -> dict[str, Any]:
    return {
        name: value
        for name, value in (ray_remote_args or {}).items()
        if name not in TABLE or "task" in TABLE[name].kinds
    }
