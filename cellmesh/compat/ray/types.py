"""`ray.types`."""
from __future__ import annotations

from ...refs import ObjectRef

__all__ = ["ObjectRef"]
