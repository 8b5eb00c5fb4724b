"""`ray.tune.search.basic_variant`."""

from __future__ import annotations

from . import BasicVariantGenerator as BasicVariantGenerator
