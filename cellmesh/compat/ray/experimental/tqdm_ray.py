"""`ray.experimental.tqdm_ray`: tqdm itself, whose bars cellmesh shows from any task."""

from __future__ import annotations

from tqdm import tqdm

safe_print = print

__all__ = ["safe_print", "tqdm"]
