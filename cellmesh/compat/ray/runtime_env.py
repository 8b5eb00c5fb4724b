"""`ray.runtime_env`."""
from __future__ import annotations

from typing import Any

from .. import missing as _missing

__all__ = ["RuntimeEnv"]
__getattr__ = _missing.no_such_name("ray.runtime_env")


class RuntimeEnv(dict[str, Any]):
    """A runtime environment: a dict of those fields that were given."""

    def __init__(self, **fields: Any) -> None:
        super().__init__({name: value for name, value in fields.items() if value is not None})
