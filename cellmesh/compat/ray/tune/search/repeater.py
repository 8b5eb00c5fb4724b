"""`ray.tune.search.repeater`."""

from __future__ import annotations

from . import Repeater as Repeater
