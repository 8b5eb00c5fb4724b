"""`ray.util.serialization`."""

from __future__ import annotations

from ....util import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
