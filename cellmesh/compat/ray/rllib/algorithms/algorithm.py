"""`ray.rllib.algorithms.algorithm`: an algorithm of `cellmesh.rl` in RLlib's shape, which Tune takes, too."""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..... import rl as _rl
from .....objstore import code_pickles
from ...tune.reporting import Checkpoint
from ...tune.trainables import Trainable, environments
from .. import results as _results
from .algorithm_config import AlgorithmConfig

CONFIG = "rllib.pkl"  # in a checkpoint, beside what cellmesh.rl writes
_HOLDS = "algo.algorithm is the algorithm of cellmesh.rl: its policy, save, load and play"
_RUNNERS = "algo.algorithm.envs steps the environments; results tell of episodes"
_ONE = "an algorithm learns one policy for one agent"
_REFUSED = {
    **dict.fromkeys(("get_policy", "get_module", "get_weights", "set_weights", "learner_group"), _HOLDS),
    **dict.fromkeys(("export_policy_model", "export_policy_checkpoint", "get_state", "set_state"), _HOLDS),
    **dict.fromkeys(("env_runner", "env_runner_group", "eval_env_runner", "eval_env_runner_group"), _RUNNERS),
    **dict.fromkeys(("workers", "evaluation_workers", "restore_env_runners"), _RUNNERS),
    **dict.fromkeys(("add_module", "remove_module", "add_policy", "remove_policy"), _ONE),
    "training_step": "write an algorithm of your own on cellmesh.rl.Algorithm",
    "evaluate_offline": "evaluate() plays episodes",
    "metrics": "train() returns them",
}


@dataclass(frozen=True)
class SavedResult:
    """What `save` returns.

    Attributes
    ----------
    checkpoint : Checkpoint
    metrics : dict
        The latest result.
    """

    checkpoint: Checkpoint
    metrics: dict[str, Any]


class Algorithm(Trainable):
    """An algorithm: `train`, `evaluate`, `compute_single_action`, `save`, `restore`, `stop`.

    Parameters
    ----------
    config : AlgorithmConfig or dict
    env : optional
        In place of the configuration's.

    Attributes
    ----------
    algorithm : cellmesh.rl.Algorithm
        What learns.
    config : AlgorithmConfig
    """

    NAME: ClassVar[str] = ""  # in cellmesh.rl
    CONFIG: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    ENVIRONMENTS: ClassVar[Mapping[str, Callable[..., Any]]] = {}  # those of `register_env` where Tune was called
    algorithm: Any
    config: Any
    iteration: int
    _training: Any  # what `train` of cellmesh's yields

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        env: Any = None,
        logger_creator: Any = None,
        storage: Any = None,
    ) -> None:
        given = self.get_default_config()
        given.update_from_dict(dict(config or {}))
        if env is not None:
            given.environment(env)
        super().__init__(given)  # pyright: ignore[reportArgumentType] (Ray's is no dict, either)

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """The configuration with Ray's defaults."""
        if not cls.NAME:
            raise TypeError("Algorithm is of no kind: PPO, DQN, A3C, ...")
        return cls.CONFIG(cls)

    @classmethod
    def knowing(cls, known: Mapping[str, Callable[..., Any]]) -> type[Self]:
        """The class with environments by name, as trials have it: the registry is of the process that calls Tune."""
        whole = {**cls.ENVIRONMENTS, **known}
        made: Any = type(cls.__name__, (cls,), {"ENVIRONMENTS": whole}) if whole != cls.ENVIRONMENTS else cls
        return made

    def setup(self, config: Any) -> None:
        """Make the environments and the networks."""
        config.freeze()
        known = {**type(self).ENVIRONMENTS, **environments}
        self.algorithm = getattr(_rl, self.NAME)(**config.translated(known))
        self._training = None
        self._before: dict[str, float] = {}
        self._result: dict[str, Any] = {}
        self._restored = 0, 0.0  # iteration and time of the checkpoint that this went on from
        self._rng = np.random.default_rng(config.seed)

    def step(self) -> dict[str, Any]:
        """One iteration; its metrics."""
        if self._training is None:
            self._training = self.algorithm.train()
        try:
            ours = next(self._training)
        except BaseException:
            self._training = None  # what has raised is at its end
            raise
        found, self._before = _results.result_of(ours, self._before), ours
        interval = self.config.evaluation_interval
        return (
            {**found, "evaluation": self.evaluate()} if interval and self.algorithm.iteration % interval == 0 else found
        )

    def train(self) -> dict[str, Any]:
        """One iteration, by hand: `result["env_runners"]["episode_return_mean"]`, `result["learners"]`, ...

        In a notebook a card shows how training goes.
        """
        total = self.algorithm.time_s
        self._result = {
            **super().train(),
            "time_this_iter_s": self.algorithm.time_s - total,
            "time_total_s": self.algorithm.time_s,
            "iterations_since_restore": self.iteration - self._restored[0],
            "time_since_restore": self.algorithm.time_s - self._restored[1],
            "trial_id": self.trial_id,
            "timestamp": int(time.time()),
            "date": time.strftime("%Y-%m-%d_%H-%M-%S"),
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "node_ip": "127.0.0.1",
            "config": self.config.to_dict(),
        }
        return self._result

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Play `evaluation_duration` episodes, each action the most likely one."""
        seed = int(self._rng.integers(2**31))
        return _results.evaluation_of(self.algorithm.evaluate(self.config.evaluation_duration, seed))

    def compute_single_action(
        self,
        observation: Any = None,
        state: Any = None,
        *,
        explore: bool | None = None,
        full_fetch: bool = False,
        **ignored: Any,
    ) -> Any:
        """The action for an observation: drawn, unless `explore` is False, here or in the configuration."""
        explores = self.config.explore if explore is None else explore
        action = self.algorithm.policy(observation, explore=explores, rng=self._rng)
        return (action, [], {}) if full_fetch else action

    def compute_actions(self, observations: Mapping[Any, Any], **options: Any) -> dict[Any, Any]:
        """An action for each of several observations, by name."""
        return {name: self.compute_single_action(one, **options) for name, one in observations.items()}

    # ---- checkpoints
    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Save by hand, into a folder or a new one: `.checkpoint.path`. `cellmesh.rl` can load it, too."""
        return SavedResult(Checkpoint(self.save_to_path(checkpoint_dir)), self._result)

    def save_to_path(self, path: str | None = None) -> str:
        """The same; returns the folder."""
        return str(super().save(path))

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a folder, a `Checkpoint`, or what `save` returned."""
        super().restore(getattr(checkpoint_path, "checkpoint", checkpoint_path))

    def restore_from_path(self, path: Any) -> None:
        """The same."""
        self.restore(path)

    @classmethod
    def from_checkpoint(cls, path: Any, **ignored: Any) -> Algorithm:
        """The algorithm of a checkpoint. It is unpickled: load only what you trust.

        Raises
        ------
        ValueError
            It is none of this class's.
        """
        found = getattr(path, "checkpoint", path)
        folder = Path(getattr(found, "path", found))
        if not (folder / CONFIG).exists():
            raise ValueError(f"{folder} is no checkpoint of an algorithm: save() writes one")
        name, options, known = pickle.loads((folder / CONFIG).read_bytes())
        if cls.NAME not in ("", name):
            raise ValueError(f"{folder} is a checkpoint of {name}, and not of {cls.__name__}")
        kind: Any = cls if cls.NAME else getattr(import_module(str(__package__)), name)
        made: Algorithm = kind.knowing({**known, **environments})(options)
        try:
            made.restore(str(folder))
        except BaseException:
            made.stop()
            raise
        return made

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a checkpoint into a folder."""
        self.algorithm.save_checkpoint(checkpoint_dir)
        known = {**self.ENVIRONMENTS, **environments}
        own = {name: creator for name, creator in known.items() if name == self.config.env}
        about = self.NAME, self.config.to_dict(), own
        (Path(checkpoint_dir) / CONFIG).write_bytes(code_pickles.dumps(about))

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from it, with the configuration of now."""
        self.algorithm.load_checkpoint(checkpoint)
        self.iteration = self.algorithm.iteration
        self._restored = self.iteration, self.algorithm.time_s
        self._before = {
            "timesteps_total": self.algorithm.timesteps,
            "episodes_total": self.algorithm.episodes.n_ended,
        }

    def cleanup(self) -> None:
        """End training and its processes."""
        if self._training is not None:
            self._training.close()
        self.algorithm.close()

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            raise AttributeError(f"{type(self).__name__}.{name} has no counterpart in cellmesh: {_REFUSED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
