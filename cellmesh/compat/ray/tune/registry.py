"""`ray.tune.registry`."""

from __future__ import annotations

from typing import Any

from .trainables import environments
from .trainables import register_env as register_env
from .trainables import register_trainable as register_trainable


def get_registry() -> dict[str, Any]:
    """The environments that have names, as agents of 2018 are given them, which know them anyway."""
    return environments
