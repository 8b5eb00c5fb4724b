"""`ray.util.annotations`: marks of how stable a library's names are, which mean nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI"]


def PublicAPI(*args: Any, **kwargs: Any) -> Any:  # Ray's name
    """As a decorator with or without arguments: what it decorates, unchanged."""
    return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else lambda marked: marked


Deprecated: Callable[..., Any] = PublicAPI
DeveloperAPI: Callable[..., Any] = PublicAPI
