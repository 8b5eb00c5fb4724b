"""`ray.rllib.env`: what makes an environment is given this; never an environment: these are gymnasium's."""

from __future__ import annotations

from .... import missing as _missing
from .env_context import EnvContext as EnvContext

__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.env")
