"""When two values of configurations are the same, also where one of them is known by its repr alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_SHOWN = 200  # characters of what only people will read


@dataclass(frozen=True)
class Unstored:
    """Stands for a value that has no form in JSON."""

    text: str

    def __repr__(self) -> str:
        return self.text


def shown(value: Any) -> str:
    """The repr of a value, cut off where it gets long."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def _anywhere(text: str) -> str:
    """A repr without addresses, which are others in another process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def plain_number(value: Any) -> Any:
    """A number without its numpy type; anything else as it is."""
    if type(value) in (int, float):
        return value
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def same(one: Any, other: Any) -> bool:
    """Whether two values of a configuration are the same: 1, 1.0 and True are three, NaN is itself, arrays are compared
    by element.
    """
    if one is other:
        return True
    import numpy as np

    if isinstance(one, Unstored) or isinstance(other, Unstored):
        return _anywhere(shown(one)) == _anywhere(shown(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    one, other = plain_number(one), plain_number(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
