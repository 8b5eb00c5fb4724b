"""How population based training changes a configuration. Pure, but for the functions that users give.

`mutations` says for each key where its values come from:

- a list: the allowed values, in an order in which neighbours are alike;
- a domain of `tune` (anything with `sample(rng)`), or a function, of no argument or of the generator;
- a dict: the same for the keys of a nested configuration.

References: M. Jaderberg et al., Population Based Training of Neural Networks, 2017, arXiv:1711.09846
("explore": perturb or resample); how lists and whole numbers are treated is Ray's.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...objstore.annotations import get_signature
from .seeded import seeded

if TYPE_CHECKING:
    import numpy as np


def explored(
    config: Mapping[str, Any],
    mutations: Mapping[str, Any],
    rng: np.random.Generator,
    resample_probability: float,
    factors: Sequence[float],
) -> dict[str, Any]:
    """A copy of the configuration in which every key of `mutations` has another value.

    With `resample_probability`, and where there is nothing to go on from, it is drawn anew; else a value of a list
    moves to a neighbour, and a number is multiplied by one of the factors. Truth values are drawn anew or stay; whole
    numbers stay whole.
    """
    changed = copied(config)
    for key, source in mutations.items():
        old = config[key]
        if isinstance(source, Mapping):
            changed[key] = explored(old, source, rng, resample_probability, factors)
        elif isinstance(source, (list, tuple)):
            if rng.random() < resample_probability or old not in source:
                changed[key] = _one_of(source, rng)
            else:
                index = source.index(old) + _one_of((-1, 1), rng)
                changed[key] = source[min(max(index, 0), len(source) - 1)]
        else:
            is_drawn = rng.random() < resample_probability or not isinstance(old, numbers.Real)
            changed[key] = like(old, drawn(source, rng) if is_drawn else old * _one_of(factors, rng))
    return changed


def completed(config: Mapping[str, Any], mutations: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A copy of the configuration, in which keys of `mutations` that it lacks have been drawn."""
    filled = copied(config)
    for key, source in mutations.items():
        if isinstance(source, Mapping):
            filled[key] = completed(filled.get(key, {}), source, rng)
        elif key not in filled:
            filled[key] = _one_of(source, rng) if isinstance(source, (list, tuple)) else drawn(source, rng)
    return filled


def lacking(config: Mapping[str, Any], mutations: Mapping[str, Any]) -> str:
    """A key of `mutations` that the configuration has no value for; "": there is none."""
    for key, source in mutations.items():
        if key not in config:
            return str(key)
        if isinstance(source, Mapping) and (inner := lacking(config[key], source)):
            return f"{key}.{inner}"
    return ""


def drawn(source: Any, rng: np.random.Generator) -> Any:
    """A value of a domain or of a user's function (`sample_from` is a domain that calls one)."""
    is_domain = hasattr(source, "sample")
    if is_domain and getattr(source, "kind", "") != "function":
        return source.sample(rng)
    with seeded(rng):
        return source.sample(rng) if is_domain else source(rng) if _takes_argument(source) else source()


def customized(
    config: dict[str, Any],
    function: Callable[[dict[str, Any]], Any],
    mutations: Mapping[str, Any],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """What a user's function makes of the configuration."""
    with seeded(rng):
        changed = function(config)
    if not isinstance(changed, Mapping):
        raise TypeError(f"custom_explore_fn returned {changed!r}: it must return the configuration, a dict")
    if lost := lacking(changed, mutations):
        raise ValueError(
            f"custom_explore_fn returned a configuration without {lost!r}, which hyperparam_mutations changes"
        )
    return dict(changed)


def like(old: Any, new: Any) -> Any:
    """The new value, of the old one's kind where that is a truth value or a whole number."""
    if isinstance(old, bool):
        return bool(new)
    return round(new) if isinstance(old, numbers.Integral) and isinstance(new, numbers.Real) else new


def copied(value: Any) -> Any:
    """A copy of nested dicts and lists; what is in them is the same."""
    if isinstance(value, Mapping):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def unusable(mutations: Mapping[str, Any], path: str = "hyperparam_mutations") -> Iterator[str]:
    """What in `mutations` values cannot be drawn from, in words."""
    for key, source in mutations.items():
        here = f"{path}[{key!r}]"
        if isinstance(source, Mapping):
            yield from unusable(source, here)
        elif isinstance(source, (list, tuple)):
            if not source:
                yield f"{here} is empty"
        elif not hasattr(source, "sample") and not callable(source):
            yield f"{here} is {source!r}"


def _one_of(values: Sequence[Any], rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = get_signature(function).parameters.values()
    except ValueError:  # some functions in C do not tell
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
