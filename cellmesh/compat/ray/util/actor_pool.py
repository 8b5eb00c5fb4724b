"""`ray.util.actor_pool`."""

from __future__ import annotations

from ....util.actor_pool import ActorPool

__all__ = ["ActorPool"]
