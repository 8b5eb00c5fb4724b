"""What trials run: functions, classes, registered names, and what each trial takes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ....tune import Trainable as _Trainable
from ....tune import with_parameters as with_parameters
from ....tune.exceptions import TuneError
from ....tune.trainable import with_resources as _with_resources
from . import legacy
from .configs import PlacementGroupFactory
from .reporting import get_context


class Trainable(_Trainable):
    """`cellmesh.tune.Trainable`, with what Ray's has beside: `train`, `save`, `restore`, `logdir`, ...

    The methods of 2018, `_setup`, `_train`, `_save`, `_restore` and `_stop`, are taken too (`legacy.py`).
    """

    config: dict[str, Any]
    iteration: int

    def __init__(self, config: dict[str, Any] | None = None, logger_creator: Any = None, storage: Any = None) -> None:
        super().__init__(config)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        legacy.adopt(cls)

    def train(self) -> dict[str, Any]:
        """One step, by hand: its metrics, with the number of the iteration."""
        result = dict(self.step())
        self.iteration += 1
        result.setdefault("training_iteration", self.iteration)
        result.setdefault("done", False)
        return result

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Save by hand, into a folder or a new one: the folder's path, or the dict that `save_checkpoint` returned."""
        folder = tempfile.mkdtemp(prefix="checkpoint-") if checkpoint_dir is None else checkpoint_dir
        os.makedirs(folder, exist_ok=True)
        saved = self.save_checkpoint(folder)
        return saved if isinstance(saved, dict) else folder

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from what `save` returned, or from a Checkpoint."""
        self.load_checkpoint(getattr(checkpoint_path, "path", checkpoint_path))

    def stop(self) -> None:
        """The end, by hand."""
        self.cleanup()

    def reset(self, new_config: dict[str, Any], logger_creator: Any = None, storage: Any = None) -> bool:
        """Take another configuration; False if the class cannot."""
        if not self.reset_config(new_config):
            return False
        self.config, self.iteration = new_config, 0
        return True

    def get_config(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    def log_result(self, result: dict[str, Any]) -> None:
        """Never called: what a step returns goes to the callbacks."""

    @property
    def trial_id(self) -> str:
        """The trial's number; "default" outside of one."""
        return get_context().get_trial_id() or "default"

    @property
    def trial_name(self) -> str:
        """The trial's name; "default" outside of one."""
        return get_context().get_trial_name() or "default"

    @property
    def trial_resources(self) -> Any:
        """What the trial takes."""
        return get_context().get_trial_resources()

    @property
    def logdir(self) -> str | None:
        """A folder of the trial's own."""
        return get_context().get_trial_dir()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory | None:
        """What the trial of this configuration takes unless it is said elsewhere."""
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """What to do when there is too little."""
        return ""

    def is_actor(self) -> bool:
        """Whether it runs in a trial."""
        return get_context().get_trial_id() is not None


def with_resources(trainable: Any, resources: Any) -> Any:
    """The trainable with what each of its trials takes: a dict, a PlacementGroupFactory, or a function of the
    configuration that returns one.
    """
    return _with_resources(resolved(trainable), resources_of(resources))


def resources_of(resources: Any) -> Any:
    """As our Tuner takes them: {"CPU": 2} is {"cpu": 2}."""
    if resources is None or (isinstance(resources, Mapping) and not resources):
        return None
    if isinstance(resources, PlacementGroupFactory):
        return resources
    if isinstance(resources, Mapping):
        return _by_our_names(resources)
    if callable(resources):
        return lambda config: resources_of(resources(config))
    raise ValueError(f"resources={resources!r}: a dict such as {{'cpu': 2, 'gpu': 1}}, or a PlacementGroupFactory")


def _by_our_names(resources: Mapping[str, float]) -> dict[str, float]:
    own = {"CPU": "cpu", "GPU": "gpu"}
    if resources.get("extra_cpu") or resources.get("extra_gpu"):
        raise TuneError(
            f"resources={dict(resources)}: what a trial starts (extra_cpu, extra_gpu) is another bundle of a "
            "PlacementGroupFactory"
        )
    custom: Any = resources.get("custom_resources") or {}
    whole: dict[str, Any] = {**resources, **custom}
    return {own.get(name, name): amount for name, amount in whole.items() if isinstance(amount, (int, float))}


_registered: dict[str, Any] = {}


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Give a trainable a name for `Tuner`, `run` and `run_experiments` of this process.

    Raises
    ------
    TypeError
        It is neither a function nor a `Trainable`.
    """
    _registered[name] = resolved(trainable)


environments: dict[str, Callable[..., Any]] = {}  # that `register_env` was given


def register_env(name: str, env_creator: Callable[..., Any]) -> None:
    """Give an environment a name for algorithms of `ray.rllib` in this process, and in trials that it begins.

    Parameters
    ----------
    name : str
    env_creator : callable
        Of `env_config`; it returns an environment of gymnasium.

    Raises
    ------
    TypeError
        It cannot be called.
    """
    if not callable(env_creator):
        raise TypeError(f"register_env({name!r}, {env_creator!r}): a function of env_config that makes the environment")
    environments[name] = env_creator


def registered(name: str) -> Any:
    """What was registered under a name.

    Raises
    ------
    TuneError
        Nothing was.
    """
    if name not in _registered:
        algorithms = _of_rllib("algorithms")  # which Ray registers, too
        if name in algorithms.BY_NAME:
            return getattr(algorithms, algorithms.BY_NAME[name])
        known = f"there are {', '.join(sorted(_registered))}" if _registered else "nothing is"
        raise TuneError(f"Unknown trainable: {name}: register_trainable({name!r}, ...) comes first; {known} registered")
    return _registered[name]


def algorithm_of_2018(run: Any) -> Any:
    """What a dict of an experiment runs: for the name of an algorithm the class with the options of then."""
    if not isinstance(run, str) or run in _registered:
        return run
    return _of_rllib("legacy").AGENTS.get(run, run)


def _of_rllib(module: str) -> Any:
    """A module of `ray.rllib`, which stands above this one and is imported when it is first asked for."""
    return import_module(f"...rllib.{module}", __name__)


def resolved(trainable: Any) -> Any:
    """The function or class that is meant: by name, with one parameter, with Ray's classes' default resources."""
    if isinstance(trainable, str):
        trainable = registered(trainable)
    if hasattr(trainable, "knowing"):  # an algorithm of `ray.rllib`
        trainable = trainable.knowing(environments)
    if isinstance(trainable, type):
        if not issubclass(trainable, _Trainable):
            raise TypeError(f"{trainable.__name__}: a class must be a subclass of tune.Trainable")
        asked = "default_resource_request"
        own: Any = getattr(trainable, asked, None)
        is_own = any(asked in vars(base) for base in trainable.__mro__ if base is not Trainable)
        if is_own and getattr(trainable, "_cellmesh_resources", None) is None:
            return _with_resources(trainable, lambda config: resources_of(own(config)))
        return trainable
    if not callable(trainable):
        raise TypeError(f"{trainable!r}: a trainable is a function of the configuration, a Trainable, or a name")
    return legacy.with_reporter(trainable) if legacy.takes_reporter(trainable) else trainable


def name_of(trainable: Any) -> str:
    """As Ray begins the names of trials."""
    return trainable if isinstance(trainable, str) else getattr(trainable, "__name__", type(trainable).__name__)
