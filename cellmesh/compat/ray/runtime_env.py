"""`ray.runtime_env`."""

from __future__ import annotations

from typing import Any

from .. import missing as _missing

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.runtime_env")


class RuntimeEnv(dict[str, Any]):
    """A runtime environment: a dict of those fields that were given."""

    def __init__(self, config: Any = None, **fields: Any) -> None:
        super().__init__({name: value for name, value in fields.items() if value is not None})


class RuntimeEnvConfig(dict[str, Any]):
    """How an environment is set up; nothing that takes long is, so there is nothing to time out."""

    def __init__(self, setup_timeout_seconds: int = 600, eager_install: bool = True, **fields: Any) -> None:
        super().__init__(setup_timeout_seconds=setup_timeout_seconds, eager_install=eager_install, **fields)
