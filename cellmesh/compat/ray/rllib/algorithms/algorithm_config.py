"""`ray.rllib.algorithms.algorithm_config`: options by Ray's methods, and what is built of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Self

from ..... import rl as _rl
from .. import options as _options
from ..env.env_context import Maker

if TYPE_CHECKING:
    from .algorithm import Algorithm

_LOOP = "read what train() returns; a search of Tune takes tune.Callback"
_REFUSED = {
    "callbacks": _LOOP,
    "multi_agent": "an algorithm learns one policy for one agent; train several, each in an environment of its own",
    "offline_data": "algorithms learn from what they play; cellmesh.rl.ReplayBuffer keeps transitions",
    "python_environment": "ray.init(runtime_env=...)",
    "rollouts": "env_runners(...), as in Ray",
    "exploration": "env_runners(explore=...), training(epsilon=...), as in Ray",
}


class AlgorithmConfig:
    """What an algorithm is to be: `PPOConfig().environment("CartPole-v1").training(lr=1e-3).build()`.

    Each method takes Ray's options and returns the configuration. Options are attributes, too: `config.lr = 1e-3`. What
    has no counterpart is a `ValueError` that says what there is; hyperparameters of `cellmesh.rl` are taken by their
    names. `docs/migrating-from-ray.md` has a table.

    Parameters
    ----------
    algo_class : type, optional
        The algorithm. One of `AlgorithmConfig` itself takes what all algorithms do.
    """

    _algorithm: str  # of cellmesh.rl
    _values: dict[str, Any]
    _is_frozen: bool

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        if algo_class is None:
            raise TypeError("AlgorithmConfig() is of no algorithm: PPOConfig(), DQNConfig(), A3CConfig(), ...")
        own = {"algo_class": algo_class, "_algorithm": algo_class.NAME, "_is_frozen": False}
        vars(self).update(own, _values=copy.deepcopy(_options.DEFAULTS[algo_class.NAME]))

    # ---- Ray's methods
    def environment(self, env: Any = None, **options: Any) -> Self:
        """Which environment: an id of gymnasium, a name of `tune.register_env`, or a class; its `env_config`."""
        return self._take({**({} if env is None else {"env": env}), **options})

    def env_runners(self, **options: Any) -> Self:
        """`num_env_runners` processes (0: this one) step `num_envs_per_env_runner` environments each; `explore`,
        `observation_filter`, `rollout_fragment_length`.
        """
        return self._take(options)

    def training(self, **options: Any) -> Self:
        """How it learns: `lr`, `gamma`, `train_batch_size`, ..., and hyperparameters of cellmesh by their own names."""
        return self._take(options)

    def learners(self, **options: Any) -> Self:
        """Accepted; one process learns."""
        return self._take(options)

    def rl_module(self, **options: Any) -> Self:
        """Networks: `model_config={"fcnet_hiddens": [64, 64]}`."""
        return self._take(options)

    def evaluation(self, **options: Any) -> Self:
        """Every `evaluation_interval` iterations, `evaluation_duration` episodes are played after training."""
        return self._take(options)

    def debugging(self, **options: Any) -> Self:
        """`seed`, from which everything random comes."""
        return self._take(options)

    def framework(self, framework: str | None = None, **options: Any) -> Self:
        """Accepted: "torch"."""
        return self._take({**({} if framework is None else {"framework": framework}), **options})

    def resources(self, **options: Any) -> Self:
        """Accepted, but for GPUs: processes of environments take no CPUs of the session."""
        return self._take(options)

    def api_stack(self, **options: Any) -> Self:
        """Accepted, without effect."""
        return self._take(options)

    def reporting(self, **options: Any) -> Self:
        """`min_sample_timesteps_per_iteration`, where an iteration is as long as one likes."""
        return self._take(options)

    def checkpointing(self, **options: Any) -> Self:
        """Accepted, without effect."""
        return self._take(options)

    def fault_tolerance(self, **options: Any) -> Self:
        """Accepted, without effect: processes that die are replaced."""
        return self._take(options)

    def experimental(self, **options: Any) -> Self:
        """Accepted, without effect, as far as it is known."""
        return self._take(options)

    # ---- as a mapping
    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> Self:
        """The configuration of `to_dict`, or of a part of it."""
        return cls().update_from_dict(config_dict)

    def update_from_dict(self, config_dict: Mapping[str, Any]) -> Self:
        """Take further options."""
        return self._take(config_dict)

    @classmethod
    def overrides(cls, **options: Any) -> dict[str, Any]:
        """Options alone, as `evaluation_config` takes them."""
        return options

    def to_dict(self) -> dict[str, Any]:
        """All options that are taken, by Ray's names."""
        return copy.copy(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """An option."""
        return self._values.get(_options.RENAMED.get(key, key), default)

    def keys(self) -> KeysView[str]:
        """Names of options."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """Their values."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """Both."""
        return self._values.items()

    def __getitem__(self, key: str) -> Any:
        return self._values[_options.RENAMED.get(key, key)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._take({key: value})

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __getattr__(self, name: str) -> Any:
        values = vars(self).get("_values", {})
        known = _options.RENAMED.get(name, name)
        if known in values:
            return values[known]
        if name in _REFUSED:
            raise AttributeError(f"{type(self).__name__}.{name} has no counterpart in cellmesh: {_REFUSED[name]}")
        raise AttributeError(f"{type(self).__name__} has no {name!r}: there are {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._take({name: value})

    def _take(self, given: Mapping[str, Any]) -> Self:
        if self._is_frozen:
            raise AttributeError(f"this {type(self).__name__} is frozen: copy(copy_frozen=False) is not")
        taken: dict[str, Any] = {}
        for key, value in given.items():
            name = _options.name_of(self._algorithm, key, self._hyperparameters)
            if name is None:
                continue
            if name in _options.FIXED and name not in self._values:
                _options.check(self._algorithm, name, value)
                continue
            if isinstance(self._values.get(name), dict) and not _options.is_drawn(value):
                value = {**self._values[name], **_mapping(name, value)}
            taken[name] = value
        self._values.update(taken)
        return self

    def _hyperparameters(self) -> tuple[str, ...]:
        """Of cellmesh's algorithm."""
        return tuple(field.name for field in dataclasses.fields(getattr(_rl, self._algorithm).Hyperparameters))

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Another one with the same options; `copy_frozen`: whether it is frozen, too."""
        other = type(self)(self.algo_class)
        is_frozen = self._is_frozen if copy_frozen is None else copy_frozen
        vars(other).update(_values=copy.copy(self._values), _is_frozen=is_frozen)
        return other

    def freeze(self) -> None:
        """Take no further options."""
        vars(self)["_is_frozen"] = True

    def validate(self) -> None:
        """`ValueError`, or `TypeError`, if an option has no counterpart; what is out of range is told by `build`."""
        self.translated({})

    # ---- what it stands for
    def translated(self, environments: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
        """The arguments of `cellmesh.rl`'s algorithm; `environments` are those that `register_env` was given."""
        own = _options.translated(self._algorithm, self._values)
        env, env_config = self._values["env"], self._values["env_config"]
        if isinstance(env, str) and env in environments:
            own["env"] = Maker(environments[env], dict(env_config), own["num_workers"], env)
        elif isinstance(env, type):
            own["env"] = Maker(env, dict(env_config), own["num_workers"], env.__name__)
        else:
            own |= {"env": env, **({"env_config": dict(env_config)} if env_config else {})}
        return own

    def build_algo(self, env: Any = None, use_copy: bool = True) -> Any:
        """The algorithm."""
        config = self.copy(copy_frozen=False) if use_copy else self
        return self.algo_class(config if env is None else config.environment(env))

    def build(self, env: Any = None, **ignored: Any) -> Any:
        """As `build_algo`."""
        return self.build_algo(env)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.algo_class, self._values, self._is_frozen)


def _remade(kind: type[Any], algo_class: Any, values: dict[str, Any], is_frozen: bool) -> Any:
    made = kind(algo_class)
    vars(made).update(_values=values, _is_frozen=is_frozen)
    return made


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}={value!r}: a dict")
    return value
