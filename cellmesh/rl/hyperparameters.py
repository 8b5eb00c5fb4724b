"""Hyperparameters: dataclasses whose fields say what is allowed. Pure: what is wrong is named here, once for all
algorithms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..text import closest

H = TypeVar("H")


def number(default: Any, least: float, most: float = np.inf, *, above: bool = False, whole: bool = False) -> Any:
    """A field that is a number of at least `least`, or above it, and at most `most`; None where it is the default."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most, "above": above, "whole": whole})


def sizes(*default: int) -> Any:
    """A field that is a sequence of widths of layers."""
    return dataclasses.field(default=default, metadata={"sizes": True})


def checked(kind: type[H], given: Mapping[str, Any], algorithm: str, others: Iterable[str] = ()) -> H:
    """The hyperparameters of an algorithm; `others`: what else it takes, for who has misspelt that.

    Raises
    ------
    TypeError
        There is no hyperparameter of that name, or it has another type.
    ValueError
        A value is out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType] (a class that is a dataclass has no type of its own)
    for name in given:
        if name not in fields:
            hint = f" Did you mean {close}?" if (close := closest(name, [*fields, *others])) else ""
            raise TypeError(f"{algorithm} has no hyperparameter {name!r}.{hint} There are {', '.join(fields)}")
    return kind(**{name: _value(algorithm, fields[name], value) for name, value in given.items()})


def _value(algorithm: str, field: dataclasses.Field[Any], value: Any) -> Any:
    name, rule = f"{algorithm}: {field.name}={value!r}", field.metadata
    if "sizes" in rule:
        is_sequence = isinstance(value, (list, tuple, np.ndarray))
        if not is_sequence or not all(isinstance(n, (int, np.integer)) and n > 0 for n in value):
            raise TypeError(f"{name}: widths of layers, such as (64, 64)")
        return tuple(int(n) for n in value)
    if "least" not in rule:
        if isinstance(field.default, bool) and not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: True or False")
        return value
    if value is None and field.default is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: a number")
    if rule["whole"] and not float(value).is_integer():
        raise TypeError(f"{name}: a whole number")
    low = value > rule["least"] if rule["above"] else value >= rule["least"]
    if not (low and value <= rule["most"]):
        most = f" and at most {rule['most']:g}" if rule["most"] < np.inf else ""
        raise ValueError(f"{name}: it is {'above' if rule['above'] else 'at least'} {rule['least']:g}{most}")
    return int(value) if rule["whole"] else float(value)
