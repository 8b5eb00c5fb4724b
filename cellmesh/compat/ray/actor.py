"""`ray.actor`."""
from __future__ import annotations

from ...actor import ActorClass, ActorHandle, ActorMethod, method
from ...api import exit_actor
from .. import missing as _missing

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"]
__getattr__ = _missing.no_such_name("ray.actor")
