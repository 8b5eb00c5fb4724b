"""`ray.types`."""

from __future__ import annotations

from ._refs import ObjectRef

__all__ = ["ObjectRef"]
