"""Experiments as mappings: `{"run": "PPO", "env": "CartPole-v1", "stop": {...}, "config": {...}}`, also as the files of
RLlib had them in 2018. What is unknown is named, with the nearest that there is, before anything begins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..text import closest
from .algorithm import OF_ALL, Algorithm, Options
from .exceptions import RLError
from .hyperparameters import checked
from .rllib_names import METRICS, OPTIONS

ALGORITHMS = ("A3C", "ApexDQN", "DQN", "ES", "PPO")
_OLD_ALGORITHMS = {"APEX": "ApexDQN", "APEX_DQN": "ApexDQN", "APEX-DQN": "ApexDQN"}
_TOLD = (
    *("episode_return_mean", "episode_return_min", "episode_return_max", "episode_length_mean", "episodes_total"),
    *("timesteps_total", "training_iteration", "time_total_s", "steps_per_s", "evaluation_return_mean"),
)
_KEYS = {
    "repeat": "num_samples",
    "resources_per_trial": "resources",
    "trial_resources": "resources",
    "checkpoint_freq": "checkpoint_frequency",
    "local_dir": "storage_path",
}


class SpecError(RLError, ValueError):
    """An experiment is not as it should be; the text names the key."""


@dataclass(frozen=True)
class Spec:
    """An experiment.

    Attributes
    ----------
    run : str
        The algorithm.
    stop : dict
        Metrics and the values at which a trial ends.
    config : dict
        The algorithm's arguments, or what they are drawn from.
    """

    run: str
    stop: dict[str, float]
    config: dict[str, Any]
    num_samples: int = 1
    resources: dict[str, float] | None = None
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = True
    max_failures: int = 0
    storage_path: str | None = None
    algorithm: type[Algorithm] = field(kw_only=True)


def algorithm_of(name: Any) -> type[Algorithm]:
    """The class of a name, in capitals or not.

    Raises
    ------
    SpecError
        There is none.
    """
    by_name = {**{one.lower(): one for one in ALGORITHMS}, **{k.lower(): v for k, v in _OLD_ALGORITHMS.items()}}
    if not isinstance(name, str) or name.lower() not in by_name:
        raise SpecError(f"run: {name!r} is no algorithm. There are {', '.join(ALGORITHMS)}")
    return getattr(import_module(str(__package__)), by_name[name.lower()])


def spec_of(name: str, given: Any) -> Spec:
    """An experiment.

    Parameters
    ----------
    name : str
        For errors.
    given : mapping
        run, env, stop, config, and what else a `Spec` has; RLlib's names are taken, too.

    Raises
    ------
    SpecError
        Something is missing, unknown or out of range.
    """
    try:
        return _spec_of(given)
    except (TypeError, ValueError) as error:
        raise SpecError(f"{name}: {error}") from None


def _spec_of(given: Any) -> Spec:
    if not isinstance(given, Mapping):
        raise SpecError(f"{given!r}: an experiment is a mapping with run, env, stop and config")
    known = [one.name for one in dataclasses.fields(Spec) if one.name != "algorithm"]
    experiment: Mapping[str, Any] = given
    parts = {_KEYS.get(key, key): value for key, value in experiment.items()}
    for key in parts:
        if key not in (*known, "env"):
            raise SpecError(f"there is no key {key!r}{_nearest(key, [*known, 'env', *_KEYS])}")
    for key in ("run", "stop"):
        if not parts.get(key):
            raise SpecError(f"{key!r} is missing" + (": when does it end?" if key == "stop" else ""))
    algorithm = algorithm_of(parts.pop("run"))
    config = {OPTIONS.get(key, key): value for key, value in _mapping(parts.pop("config", None), "config").items()}
    if "env" in parts:
        config["env"] = parts.pop("env")
    if not config.get("env"):
        raise SpecError("'env' is missing: the id of an environment, such as CartPole-v1")
    stop = {METRICS.get(key, key): value for key, value in _mapping(parts.pop("stop"), "stop").items()}
    _check_stop(stop)
    _check_config(config, algorithm)
    for key in ("num_samples", "checkpoint_frequency", "max_failures"):
        if key in parts and (isinstance(parts[key], bool) or not isinstance(parts[key], int)):
            raise SpecError(f"{key}: {parts[key]!r} is no whole number")
    return Spec(run=algorithm.__name__, stop=stop, config=config, algorithm=algorithm, **parts)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise SpecError(f"{key}: {value!r} is no mapping")
    return value or {}


def _check_stop(stop: Mapping[str, Any]) -> None:
    for key, value in stop.items():
        if key not in _TOLD and "/" not in key:  # losses have a stroke, and differ
            raise SpecError(f"stop: there is no metric {key!r}{_nearest(key, [*_TOLD, *METRICS])}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SpecError(f"stop: {key}: {value!r} is no number")


def _check_config(config: Mapping[str, Any], algorithm: type[Algorithm]) -> None:
    names = [one.name for one in dataclasses.fields(algorithm.Hyperparameters)]
    for key, value in config.items():
        if key not in (*names, *OF_ALL):
            raise SpecError(
                f"config: {algorithm.__name__} takes no {key!r}{_nearest(key, [*names, *OF_ALL, *OPTIONS])}. "
                f"`cellmesh rl list {algorithm.__name__}` shows what it takes"
            )
        if isinstance(value, Mapping) and set(value) == {"eval"}:
            raise SpecError(f"config: {key}: texts are not evaluated; write what is tried: {{grid_search: [...]}}")
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    checked(Options, {key: value for key, value in plain.items() if key in OF_ALL}, algorithm.__name__)
    checked(
        algorithm.Hyperparameters,
        {key: value for key, value in plain.items() if key in names},
        algorithm.__name__,
    )


def _nearest(name: Any, there: Iterable[str]) -> str:
    close = closest(name, there, cutoff=0.5)
    return f" (did you mean {close}?)" if close else ""
