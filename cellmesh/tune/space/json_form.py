"""Configurations and spaces as JSON, and back.

Numbers, texts, True, False, None, lists and dicts are themselves wherever every JSON library keeps them. What else
there is becomes an object with the key "$", which says what it is; what has no such form is marked with its repr, and
comes back as `Unstored`. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from .domains import NAMES, Choice, Domain, Function, Grid
from .parser import parse
from .sameness import Unstored, shown
from .tree import Thawed

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
MARK = "$"


def _marked(what: str, value: JSON) -> dict[str, Any]:
    return {MARK: what, "value": value}


def _domain_form(domain: Domain) -> JSON:
    if isinstance(domain, Choice):
        return _marked("choice", [to_json(option) for option in domain.options])
    if isinstance(domain, Grid):
        return _marked("grid_search", [to_json(value) for value in domain.values])
    return _marked("repr" if isinstance(domain, Function) else "domain", repr(domain))


def to_json(value: Any) -> JSON:
    """The form of a configuration, of a space or of any value in one.

    Lossless for None, bool, int, float (NaN and the infinities, too), str, list, dict, tuple, numpy's scalars, and for
    domains but those of functions. Subclasses of these are other types.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else _marked("int", str(value))
    if kind is float:
        return value if math.isfinite(value) else _marked("float", repr(value))
    if kind is str:  # a lone surrogate is no text for most libraries
        return _marked("str", json.dumps(value)) if _has_surrogates(value) else value
    if kind is list:
        return [to_json(each) for each in value]
    if kind in (tuple, Thawed):
        return _marked("tuple", [to_json(each) for each in value])
    if kind is dict:
        if MARK not in value and all(type(key) is str and not _has_surrogates(key) for key in value):
            return {key: to_json(each) for key, each in value.items()}
        return _marked("dict", [[to_json(key), to_json(each)] for key, each in value.items()])
    if isinstance(value, Domain):
        return _domain_form(value)
    import numpy as np

    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {MARK: "numpy", "dtype": value.dtype.name, "value": to_json(value.item())}
    return _marked("repr", shown(value))


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def from_json(form: Any) -> Any:
    """The value that `to_json` gave this form. Nothing is evaluated but the names of domains."""
    if isinstance(form, list):
        return [from_json(each) for each in form]
    if not isinstance(form, dict):
        return form
    if MARK not in form:
        return {key: from_json(each) for key, each in form.items()}
    value = form["value"]
    match form[MARK]:
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "str":
            return json.loads(value)
        case "tuple":
            return tuple(map(from_json, value))
        case "dict":
            return {from_json(key): from_json(each) for key, each in value}
        case "numpy":
            import numpy as np

            return np.dtype(form["dtype"]).type(from_json(value))
        case "domain":
            return parse(value)
        case "choice" | "grid_search" as name:
            return NAMES[name](list(map(from_json, value)))
        case "repr":
            return Unstored(value)
    raise ValueError(f"no form of a value: {form[MARK]!r}; a newer version wrote it")


def unstored(form: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths, within a form, of what is marked with its repr alone: none, and `from_json` gives the same value
    back.
    """
    if isinstance(form, Mapping) and form.get(MARK) == "repr":
        yield path
    elif isinstance(form, (Mapping, list)):
        for key, each in form.items() if isinstance(form, Mapping) else enumerate(form):
            yield from unstored(each, (*path, key))
