"""Searchers by name, and from their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...text import closest
from .adapter import as_search
from .basic import BasicVariantGenerator
from .optuna_search import SAMPLERS, Optuna
from .protocol import Search
from .wrappers import ConcurrencyLimiter, Repeater

RANDOM = ("random", "grid", "variant_generator")  # one thing; Optuna's random sampler is Optuna("random")
SAMPLER_NAMES = tuple(name for name in SAMPLERS if name != "random")
NAMES = (*RANDOM, "optuna", *SAMPLER_NAMES)
# What Ray Tune has beside these, by its name and by its class, and what does the same.
REFUSED = {
    "ax": "Optuna('gp') has Gaussian processes",
    "AxSearch": "Optuna('gp') has Gaussian processes",
    "bayesopt": "Optuna('gp') has Gaussian processes",
    "BayesOptSearch": "Optuna('gp') has Gaussian processes",
    "bohb": "Optuna('tpe') has its density estimator, and HyperBand and ASHA stop trials",
    "TuneBOHB": "Optuna('tpe') has its density estimator, and HyperBand and ASHA stop trials",
    "hebo": "Optuna('gp') has Gaussian processes",
    "HEBOSearch": "Optuna('gp') has Gaussian processes",
    "hyperopt": "Optuna('tpe') has its algorithm",
    "HyperOptSearch": "Optuna('tpe') has its algorithm",
    "nevergrad": "Optuna('cmaes') and Optuna('nsga2') are evolutionary",
    "NevergradSearch": "Optuna('cmaes') and Optuna('nsga2') are evolutionary",
    "zoopt": "Optuna('cmaes') needs no gradients either",
    "ZOOptSearch": "Optuna('cmaes') needs no gradients either",
}


def refusal(name: str) -> str:
    """Why there is no such searcher of Ray's, and what to do."""
    return f"{name} is not here: {REFUSED[name]}. Or give any object with suggest(trial_id) and on_trial_complete(...)"


def make(search: Any, **options: Any) -> Search:
    """A searcher from its name, with its options, or from an object.

    Parameters
    ----------
    search : str or object
        "random" (grids and random values), "optuna", or the name of one of Optuna's samplers, such as "tpe"; a
        `Search`; or an object with `suggest(trial_id)` and `on_trial_complete(trial_id, result, error)`.
    **options
        What the class takes, for a name.

    Raises
    ------
    ValueError
        There is no such name.
    TypeError
        The class has no such option, or the object is no searcher.
    """
    if not isinstance(search, str):
        if options:
            raise TypeError(
                f"{next(iter(options))}= belongs to a name; {type(search).__name__} has its options already"
            )
        return as_search(search)
    name = search.lower()
    if name in RANDOM:
        return BasicVariantGenerator(**options)
    if name == "optuna" or name in SAMPLER_NAMES:
        return Optuna(**({"sampler": name} if name != "optuna" else {}), **options)
    if name in REFUSED or search in REFUSED:
        raise ValueError(refusal(search if search in REFUSED else name))
    hint = f" Did you mean {close!r}?" if (close := closest(name, NAMES)) else ""
    raise ValueError(f"search_alg={search!r}: there is no such searcher.{hint} There are {', '.join(NAMES)}")


def from_description(description: Mapping[str, Any]) -> Search:
    """The searcher that gave this description: see `Search.describe`."""
    match description["kind"]:
        case "random":
            return BasicVariantGenerator.from_description(description)
        case "optuna":
            return Optuna.from_description(description)
        case "limiter":
            inner = from_description(description["search"])
            return ConcurrencyLimiter(inner, description["max_concurrent"], description["batch"])
        case "repeater":
            return Repeater(from_description(description["search"]), description["repeat"], description["set_index"])
    raise ValueError(f"no kind of searcher: {description['kind']!r}; a newer version wrote it")
