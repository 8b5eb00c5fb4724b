"""`ray.tune.registry`."""

from __future__ import annotations

from .trainables import register_env as register_env
from .trainables import register_trainable as register_trainable
