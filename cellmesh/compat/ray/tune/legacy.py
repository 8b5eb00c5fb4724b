"""Tune as it was in 2018: what programs of that time call, on today's.

    from ray.tune import register_trainable, grid_search, run_experiments

    def my_func(config, reporter): ...
        reporter(timesteps_total=i, mean_accuracy=...)

    class MyClass(Trainable): ...
        def _setup(self), _train(self), _save(self, checkpoint_dir), _restore(self, path), _stop(self)

    run_experiments({"name": {"run": ..., "resources": {"cpu": 1}, "stop": {...}, "config": {...}, "repeat": 2}})
    HyperBandScheduler(time_attr=..., reward_attr=..., max_t=...)          # and its like, in modules of their own

Everything of that shape is in this file. The modules `ray.tune.hyperband`, `async_hyperband`, `pbt`,
`median_stopping_rule` and `result` only name it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ....objstore.annotations import get_signature
from ....tune import report, sample_from
from ....tune import schedulers as _schedulers
from ....tune.exceptions import TuneError
from ....tune.space.domains import Domain

MARK = ".restore_from"  # in a checkpoint's folder: the name of the file that `_save` returned


@dataclass(frozen=True)
class TrainingResult(Mapping[str, Any]):
    """What a step returned then, and what the reporter took: fields by name, None for what is not known. Soon it was a
    dict, so fields are items, too.
    """

    timesteps_total: int | None = None
    done: bool | None = None
    info: Mapping[str, Any] | None = None
    episode_reward_mean: float | None = None
    episode_len_mean: float | None = None
    episodes_total: int | None = None
    mean_accuracy: float | None = None
    mean_validation_accuracy: float | None = None
    mean_loss: float | None = None
    neg_mean_loss: float | None = None
    experiment_id: str | None = None
    training_iteration: int | None = None
    timesteps_this_iter: int | None = None
    time_this_iter_s: float | None = None
    time_total_s: float | None = None
    pid: int | None = None
    date: str | None = None
    timestamp: int | None = None
    hostname: str | None = None
    node_ip: str | None = None
    config: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> TrainingResult:
        """What it has of a result."""
        return cls(**{field.name: result[field.name] for field in fields(cls) if field.name in result})

    def __getitem__(self, name: str) -> Any:
        return self._asdict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._asdict())

    def __len__(self) -> int:
        return len(fields(self))

    def _replace(self, **changed: Any) -> TrainingResult:
        return TrainingResult(**{**self._asdict(), **changed})

    def _asdict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


_AUTOMATIC = ("training_iteration", "time_this_iter_s", "time_total_s", "timestamp", "config")


def metrics_of(result: Any, timesteps: int) -> dict[str, Any]:
    """A result of then as metrics; `timesteps` are those before it."""
    if isinstance(result, TrainingResult):
        result = {name: value for name, value in result._asdict().items() if name not in _AUTOMATIC}
    metrics = {name: value for name, value in dict(result).items() if value is not None}
    if "timesteps_total" not in metrics and "timesteps_this_iter" in metrics:
        metrics["timesteps_total"] = timesteps + metrics["timesteps_this_iter"]
    if "neg_mean_loss" not in metrics and "mean_loss" in metrics:
        metrics["neg_mean_loss"] = -metrics["mean_loss"]
    return metrics


# ---- functions of (config, reporter)
def takes_reporter(function: Callable[..., Any]) -> bool:
    """Whether it is a function of the configuration and a reporter."""
    try:
        parameters = list(get_signature(function).parameters.values())
    except (TypeError, ValueError):
        return False  # Python cannot tell
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(needed) == 2


class Reporter:
    """What such a function calls: `reporter(timesteps_total=i, mean_accuracy=a)`."""

    def __init__(self) -> None:
        self._timesteps = 0

    def __call__(self, _result: Any = None, **metrics: Any) -> None:
        found = metrics_of({**metrics_of(_result or {}, self._timesteps), **metrics}, self._timesteps)
        self._timesteps = found.get("timesteps_total", self._timesteps)
        report(found)


def with_reporter(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """The function with a reporter, as a function of the configuration alone."""

    @functools.wraps(function)
    def run(config: dict[str, Any]) -> Any:
        return function(config, Reporter())

    del run.__wrapped__  # whose signature is another
    return run


# ---- classes with _train
def adopt(cls: Any) -> None:
    """Give a class that has the methods of then those of today."""
    own = vars(cls)
    if "_setup" in own and "setup" not in own:
        cls.setup = _setup
    if "_train" in own and "step" not in own:
        cls.step = _step
    if "_save" in own and "save_checkpoint" not in own:
        cls.save_checkpoint = _save
    if "_restore" in own and "load_checkpoint" not in own:
        cls.load_checkpoint = _load
    if "_stop" in own and "cleanup" not in own:
        cls.cleanup = _cleanup


def _setup(self: Any, config: dict[str, Any]) -> None:
    self._setup(*[config] * bool(get_signature(self._setup).parameters))


def _step(self: Any) -> dict[str, Any]:
    metrics = metrics_of(self._train(), getattr(self, "_timesteps_total", 0))
    self._timesteps_total = metrics.get("timesteps_total", 0)
    return metrics


def _save(self: Any, checkpoint_dir: str) -> Any:
    saved = self._save(checkpoint_dir)
    if isinstance(saved, (str, os.PathLike)):
        relative = os.path.relpath(saved, checkpoint_dir)
        Path(checkpoint_dir, MARK).write_text("" if relative == "." else relative)
        return None
    return saved


def _load(self: Any, checkpoint: Any) -> None:
    if isinstance(checkpoint, str) and (mark := Path(checkpoint, MARK)).exists():
        checkpoint = str(Path(checkpoint, mark.read_text()))
    self._restore(checkpoint)


def _cleanup(self: Any) -> None:
    self._stop()


# ---- experiments as dicts
RENAMED = {"repeat": "num_samples", "resources": "resources_per_trial", "trial_resources": "resources_per_trial",
           "local_dir": "storage_path", "checkpoint_score_attr": "checkpoint_score_attr"}  # fmt: skip
_NO_UPLOAD = "an experiment lies in a folder of this machine: copy it with your own tool when it is over"


def spec_of(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment's dict with the keys of `tune.run`.

    Raises
    ------
    TuneError
        It has a key that means nothing here; or no "run".
    """
    found = {RENAMED.get(key, key): value for key, value in spec.items()}
    if found.pop("upload_dir", None):
        raise TuneError(f"experiment {name!r}: 'upload_dir': {_NO_UPLOAD}")
    if "run" not in found:
        raise TuneError(f"No trainable specified: experiment {name!r} needs 'run', a name or a function")
    env = found.pop("env", None)
    config = space_of(found.get("config") or {})
    found["config"] = config if env is None else {**config, "env": env}
    return found


def space_of(config: Any, path: str = "config") -> Any:
    """A configuration in which functions were drawn from, and texts evaluated."""
    if isinstance(config, Mapping):
        if set(config) == {"eval"}:
            raise TuneError(
                f"{path} = {dict(config)}: texts are not evaluated; give a function, lambda spec: {config['eval']}"
            )
        return {key: space_of(value, f"{path}.{key}") for key, value in config.items()}
    if inspect.isfunction(config) and not isinstance(config, Domain):
        return sample_from(config)
    return config


# ---- schedulers with reward_attr
def _with_reward(cls: Callable[..., Any], reward_attr: str) -> Callable[..., Any]:
    @functools.wraps(cls, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    def make(time_attr: str = "training_iteration", reward_attr: str = reward_attr, **options: Any) -> Any:
        if "metric" not in options:
            options = {"metric": reward_attr, "mode": "max", **options}
        return cls(time_attr=time_attr, **options)

    return make


HyperBandScheduler: Callable[..., Any] = _with_reward(_schedulers.HyperBand, "episode_reward_mean")
AsyncHyperBandScheduler: Callable[..., Any] = _with_reward(_schedulers.ASHA, "episode_reward_mean")
MedianStoppingRule: Callable[..., Any] = _with_reward(_schedulers.MedianStopping, "episode_reward_mean")
PopulationBasedTraining: Callable[..., Any] = _with_reward(_schedulers.PBT, "episode_reward_mean")
