"""`ObjectRef`: the handle of a value that exists now or later. The type is the C core's."""

from __future__ import annotations

from .objstore._core import Ref as ObjectRef

__all__ = ["ObjectRef"]
