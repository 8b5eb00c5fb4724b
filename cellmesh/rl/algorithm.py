"""What all algorithms have: environments, a seed, results, checkpoints, and that they are trainables of Tune.

An algorithm is a file of its own with a class that derives from `Algorithm` and says what it is: `build` (networks and
optimisers), `learn` (one iteration; its losses), `policy`, and what it goes on from after a checkpoint (`state`,
`set_state`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import Space
from gymnasium.envs.registration import EnvSpec

from .. import front_end
from ..observe.learning import LearningRun
from ..tune.trainable import Trainable
from . import saving
from .envs.makers import first_of, makers_of
from .episodes.evaluation import evaluated, evaluation, play
from .episodes.frames import Episode
from .episodes.statistics import EpisodeStatistics
from .exceptions import CheckpointError, RLError, TrainingDivergedError
from .hyperparameters import checked, number
from .models.actions import check_actions
from .models.encoding import Encoder
from .policy import Policy
from .watching import run_of, watched

Result = dict[str, float]
Until = Mapping[str, float] | Callable[[Result], bool]


@dataclass(frozen=True)
class Options:
    """What every algorithm takes beside its hyperparameters, as `Algorithm` says."""

    env: Any = None
    num_envs: int = number(8, 1, whole=True)
    num_workers: int = number(0, 0, whole=True)
    seed: int | None = number(None, 0, whole=True)
    env_config: Any = None
    evaluation_interval: int = number(0, 0, whole=True)
    evaluation_episodes: int = number(10, 1, whole=True)


OF_ALL = tuple(field.name for field in fields(Options))


class Algorithm(Trainable):
    """A way to learn a policy.

    Parameters
    ----------
    env : str or callable or EnvSpec, or a list of callable
        The environment: an id of gymnasium, or what makes one; several that make one each stand for `num_envs`, and
        the first is played and evaluated in. A dict is all arguments at once, as Tune gives them.
    num_envs : int, >= 1
        How many environments are stepped together; 8 if nothing is said.
    num_workers : int, 0 to num_envs
        How many processes step them; 0: this one. What is learnt does not depend on it.
    seed : int, optional
        Everything random comes from it. None: it is drawn.
    env_config : dict, optional
        Arguments of `gymnasium.make`.
    evaluation_interval : int, >= 0
        Every so many iterations a task plays with the policy of then, while training goes on; the next result has
        `evaluation_return_mean`. 0: never.
    evaluation_episodes : int, >= 1
        How many episodes it plays.
    **hyperparameters
        Of the algorithm.
    """

    Hyperparameters: ClassVar[type[Any]]
    rng: np.random.Generator
    hyperparameters: Any
    seed: int | None
    observation_space: Space[Any]
    action_space: Space[Any]
    encode: Encoder
    episodes: EpisodeStatistics
    iteration: int
    timesteps: int
    time_s: float

    def __init__(self, env: Any = None, **options: Any) -> None:
        config = dict(env) if isinstance(env, Mapping) else {"env": env}
        super().__init__({**config, **options})

    # ---- what an algorithm says
    def open(self, config: dict[str, Any], seed: int) -> tuple[Space[Any], Space[Any]]:
        """Make the environments; returns the spaces of one's observations and actions."""
        raise NotImplementedError

    def build(self, seed: int) -> None:
        """Make networks and optimisers; `seed`: of their first weights."""
        raise NotImplementedError

    def learn(self) -> Result:
        """One iteration: play, and learn from it; returns losses."""
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        raise NotImplementedError

    # ---- a trainable
    def setup(self, config: dict[str, Any]) -> None:
        """Make the environments and the networks."""
        name = type(self).__name__
        checked(Options, {key: config[key] for key in OF_ALL if key in config}, name)
        given = {key: value for key, value in config.items() if key not in OF_ALL}
        self.hyperparameters = checked(self.Hyperparameters, given, name, others=OF_ALL)
        if config.get("env") is None:
            raise TypeError(f"{name}(env): which environment? The id of one, such as 'CartPole-v1', or what makes one")
        if isinstance(config["env"], (list, tuple)):
            config.setdefault("num_envs", len(config["env"]))
        if not isinstance(config.get("env_config") or {}, Mapping):
            raise TypeError(f"{name}: env_config={config['env_config']!r}: a mapping of arguments of gymnasium.make")
        seed = config.get("seed")
        roots = np.random.SeedSequence(seed).spawn(3)
        self.seed = seed
        self.rng = np.random.default_rng(roots[0])
        self._evaluation_seeds = np.random.default_rng(roots[1])
        self._evaluated: Any = None
        self.timesteps, self.time_s = 0, 0.0
        self.episodes = EpisodeStatistics(1)
        try:
            self.observation_space, self.action_space = self.open(config, int(roots[2].generate_state(1)[0]))
            check_actions(self.action_space)
            self.encode = Encoder(self.observation_space)
            self.build(int(self.rng.integers(2**31)))
        except BaseException:
            self.cleanup()
            raise

    def step(self) -> Result:
        """One iteration; returns its metrics."""
        began, steps_before = perf_counter(), self.timesteps
        losses = self.learn()
        for what, value in losses.items():
            if not math.isfinite(value):
                raise TrainingDivergedError(
                    f"{type(self).__name__}: {what} is {value} in iteration {self.iteration + 1}: training has "
                    "diverged. A smaller lr, rewards of another scale or normalize_observations=True may help; load a "
                    "checkpoint from before"
                )
        took = perf_counter() - began
        self.time_s += took
        return {
            **self.episodes.metrics(),
            "timesteps_total": self.timesteps,
            "steps_per_s": (self.timesteps - steps_before) / took,
            **self._evaluation(),
            **losses,
        }

    def _evaluation(self) -> Result:
        interval = int(self.config.get("evaluation_interval", 0))
        found: Result = {}
        if self._evaluated is not None:
            found, self._evaluated = {"evaluation_return_mean": float(np.mean(evaluated(self._evaluated)))}, None
        if interval and (self.iteration + 1) % interval == 0:
            seeds = self._evaluation_seeds.integers(2**31, size=int(self.config.get("evaluation_episodes", 10)))
            self._evaluated = evaluation(self.policy, self.config["env"], self.config.get("env_config") or {}, seeds)
        return found

    def train(self, until: Until | None = None) -> Iterator[Result]:
        """Train, an iteration after the other; yields their results. In a notebook a card shows how it goes.

        Parameters
        ----------
        until : mapping of str to float, or callable, optional
            Metrics and the values from which on training ends (any of them), or a function of a result that says
            whether it does. None: the caller ends it.

        Yields
        ------
        dict of str to float
            `episode_return_mean` (also `_min` and `_max`; of the last 100 episodes, NaN before there are any),
            `episode_length_mean`, `episodes_total`, `timesteps_total`, `training_iteration`, `time_total_s`,
            `steps_per_s`, and losses.

        Raises
        ------
        KeyError
            No result has such a metric.
        TrainingDivergedError
            A loss is not finite.
        """
        if not (until is None or callable(until) or isinstance(until, Mapping)):
            raise TypeError(
                f"until={until!r}: a mapping such as {{'episode_return_mean': 475}}, or a function of a result"
            )
        with watched(self.run, until) as run:
            while True:
                result = self.step()
                self.iteration += 1
                result |= {"training_iteration": self.iteration, "time_total_s": self.time_s}
                run.add(result)
                front_end.current.learning_changed(run)
                yield result
                if until is not None and _is_reached(until, result):
                    return

    @cached_property
    def run(self) -> LearningRun:
        """What is watched of training: its card in a notebook, and the panel's view Learning."""
        return run_of(type(self).__name__, self.config)

    def close(self) -> None:
        """Close the environments and end their workers."""
        self.cleanup()

    # ---- checkpoints
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint into a folder: the policy, and all that training goes on from as if it had not been
        interrupted: weights, optimiser, random numbers, counters, and the environments in the middle of their episodes.
        Environments that cannot be pickled as they are begin new episodes (docs/rl.md).

        Raises
        ------
        CheckpointError
            Something else is there.
        """
        saving.write(path, type(self).__name__, self.policy, self._state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The algorithm that `save` has written. It is unpickled: load only what you trust.

        Parameters
        ----------
        path : str or Path
        **options
            In place of the saved ones: `num_workers=2`.

        Raises
        ------
        CheckpointError
            It is no checkpoint, or one of another algorithm or version.
        """
        state = saving.read_state(path, cls.__name__)
        algorithm = cls({**state["config"], **options})
        try:
            algorithm._take_over(state)
        except BaseException:
            algorithm.cleanup()
            raise
        return algorithm

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a checkpoint for Tune."""
        saving.write_into(Path(checkpoint_dir), type(self).__name__, self.policy, self._state())

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a folder that `save_checkpoint`, or `save`, has written, with the configuration of now."""
        self._take_over(saving.read_state(checkpoint, type(self).__name__))

    def _state(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "spaces": (self.observation_space, self.action_space),
            "iteration": self.iteration,
            "timesteps": self.timesteps,
            "time_s": self.time_s,
            "rng": self.rng.bit_generator.state,
            "evaluation_rng": self._evaluation_seeds.bit_generator.state,
            "episodes": self.episodes,
            "playing": self.playing(),
            "of_algorithm": self.state(),
        }

    def _take_over(self, state: dict[str, Any]) -> None:
        spaces = (self.observation_space, self.action_space)
        if spaces != state["spaces"]:
            raise CheckpointError(
                f"the checkpoint is of the spaces {state['spaces'][0]} and {state['spaces'][1]}, and the environment "
                f"has {spaces[0]} and {spaces[1]}"
            )
        try:
            self.set_state(state["of_algorithm"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint does not fit: {error}. Are hyperparameters others?") from error
        self.iteration, self.timesteps, self.time_s = state["iteration"], state["timesteps"], state["time_s"]
        self.rng.bit_generator.state = state["rng"]
        self._evaluation_seeds.bit_generator.state = state["evaluation_rng"]
        self.episodes = state["episodes"]
        self.play_on(state["playing"])

    def playing(self) -> Any:
        """The environments as they are now, picklable."""
        return None

    def play_on(self, playing: Any) -> None:
        """Go on with environments as `playing` told them."""

    def state(self) -> dict[str, Any]:
        """What the algorithm goes on from, beside what all have; picklable."""
        raise NotImplementedError

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        raise NotImplementedError

    # ---- looking at it
    def evaluate(self, episodes: int = 10, seed: int | None = None) -> list[float]:
        """Returns of episodes that the policy plays, each action the most likely one, in one more process."""
        seeds = np.random.default_rng(seed).integers(2**31, size=episodes)
        return evaluated(evaluation(self.policy, self.config["env"], self.config.get("env_config") or {}, seeds))

    def play(self, seed: int | None = None, max_frames: int = 1000) -> Episode:
        """Play an episode, each action the most likely one; in a notebook it shows itself.

        Parameters
        ----------
        seed : int, optional
            Of the episode.
        max_frames : int, >= 1
            How many frames are kept.

        Raises
        ------
        RLError
            The environment shows nothing (`render_mode="rgb_array"`).
        """
        (make,) = makers_of(first_of(self.config["env"]), 1, (), self._rendering())
        env = make()
        try:
            frames: list[Any] = []

            def look() -> None:
                if len(frames) < max_frames:
                    frames.append(env.render())

            first = int(np.random.default_rng(seed).integers(2**31))
            value = play(self.policy, env, first, look)
            frames_per_s = float(env.metadata.get("render_fps", 30))
        finally:
            env.close()
        wrong = next((frame for frame in frames if np.ndim(frame) != 3), frames)
        if wrong is not frames:
            raise RLError(
                f"{self.config['env']!r} shows no pictures: render() returned {wrong!r}, and in "
                'render_mode="rgb_array" it is an array of shape (height, width, 3)'
            )
        return Episode(frames, value, frames_per_s)

    def _rendering(self) -> dict[str, Any]:
        by_id = isinstance(first_of(self.config["env"]), (str, EnvSpec))
        return {**(self.config.get("env_config") or {}), **({"render_mode": "rgb_array"} if by_id else {})}

    def _ipython_display_(self) -> None:
        if not front_end.current.display_learning(self.run):
            print(repr(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.timesteps:,} steps in {self.iteration} iterations>"


def _is_reached(until: Until, result: Result) -> bool:
    if callable(until):
        return bool(until(result))
    for name, bound in until.items():
        if name not in result:
            raise KeyError(f"until={{{name!r}: ...}}: a result has {', '.join(result)}")
        if result[name] >= bound:
            return True
    return False
