"""Helpers on top of the public API: `ActorPool`, `Queue`, `list_named_actors`."""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .actor_pool import ActorPool
    from .named_actors import list_named_actors
    from .queue import Queue

_HOMES = {"ActorPool": "actor_pool", "Queue": "queue", "list_named_actors": "named_actors"}

__all__ = ["ActorPool", "Queue", "list_named_actors"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
