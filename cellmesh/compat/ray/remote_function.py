"""`ray.remote_function`."""
from __future__ import annotations

from ...remote_function import RemoteFunction
from .. import missing as _missing

__all__ = ["RemoteFunction"]
__getattr__ = _missing.no_such_name("ray.remote_function")
