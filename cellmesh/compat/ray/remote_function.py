"""`ray.remote_function`."""

from __future__ import annotations

from typing import Any

from ...submit.remote_function import RemoteFunction
from .. import missing as _missing

_class: Any = RemoteFunction
_class._function = RemoteFunction.function  # how tests of tasks call the plain function

__all__ = ["RemoteFunction"]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.remote_function")
