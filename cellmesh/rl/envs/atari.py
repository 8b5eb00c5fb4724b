"""Atari games as they are learnt from: small grey frames, four at a time.

Mnih et al., *Human-level control through deep reinforcement learning*, Nature 2015, methods, "Preprocessing" and
"Training details". Frames are gymnasium's (`AtariPreprocessing`, `FrameStackObservation`); its life that is an episode
begins a new game after each, so that one is here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformReward

NOOP, FIRE = 0, 1
Step = tuple[Any, Any, bool, bool, dict[str, Any]]


def atari(
    game: str,
    *,
    frame_skip: int = 4,
    noop_max: int = 30,
    screen_size: int = 84,
    n_frames: int = 4,
    episodic_life: bool = True,
    fire_reset: bool = True,
    clip_rewards: bool = True,
    **kwargs: Any,
) -> Callable[[], gym.Env[Any, Any]]:
    """What makes an Atari game with the usual wrappers, to be given to an algorithm or to `make_vec`.

    Parameters
    ----------
    game : str
        The id: "ALE/Pong-v5".
    frame_skip : int, >= 1
        For so many frames an action is repeated; what is seen is the maximum of the last two.
    noop_max : int, >= 0
        A game begins after 1 to so many frames in which nothing is done; 0: at once.
    screen_size : int, >= 36
        Height and width in pixels.
    n_frames : int, >= 1
        So many of the last frames are seen.
    episodic_life : bool
        A life that is lost ends the episode, and the game goes on with the next one.
    fire_reset : bool
        Press fire where an episode begins, if the game waits for it.
    clip_rewards : bool
        Rewards are -1, 0 or 1.
    **kwargs
        For `gymnasium.make`: `render_mode="rgb_array"`, `repeat_action_probability=0`.

    Returns
    -------
    callable
        Observations are of shape (n_frames, screen_size, screen_size), uint8.

    Raises
    ------
    ModuleNotFoundError
        ale-py or opencv is not installed.
    gymnasium.error.Error
        There is no such game.

    Examples
    --------
    >>> algo = rl.PPO(rl.atari("ALE/Pong-v5"), num_envs=8, num_workers=2, n_steps=128, lr=2.5e-4)
    """
    for module, package in (("ale_py", "ale-py"), ("cv2", "opencv-python-headless")):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            text = f"Atari games need {package}: pip install 'cellmesh[atari]'"
            raise ModuleNotFoundError(text, name=module) from None
    gym.register_envs(importlib.import_module("ale_py"))
    spec = gym.spec(game)

    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.make(spec, frameskip=1, disable_env_checker=True, **kwargs)
        env = AtariPreprocessing(env, noop_max=noop_max, frame_skip=frame_skip, screen_size=screen_size)
        if episodic_life:
            env = EpisodicLife(env)
        meanings = list(getattr(env.unwrapped, "get_action_meanings")())  # noqa: B009 (environments of Atari have it, the class Env has not)
        if fire_reset and len(meanings) > FIRE and meanings[FIRE] == "FIRE":
            env = FireReset(env)
        if clip_rewards:
            env = TransformReward(env, lambda reward: float(np.sign(float(reward))))
        return FrameStackObservation(env, n_frames)

    return make


class EpisodicLife(gym.Wrapper[Any, Any, Any, Any]):
    """A life that is lost ends the episode; `reset` goes on with the same game unless that is over, or a seed begins
    another."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._lives, self._is_over = 0, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next life, or a game."""
        if not self._is_over and seed is None:
            seen, _, terminated, truncated, info = self.env.step(NOOP)
            self._is_over = terminated or truncated
        if self._is_over or seed is not None:
            seen, info = self.env.reset(seed=seed, options=options)
        self._lives, self._is_over = self._left(), False
        return seen, info  # pyright: ignore[reportPossiblyUnboundVariable] (one of the two conditions holds)

    def step(self, action: Any) -> Step:
        """A step; it terminates if it costs a life."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        self._is_over = terminated or truncated
        before, self._lives = self._lives, self._left()
        return seen, reward, terminated or 0 < self._lives < before, truncated, info

    def _left(self) -> int:
        return self.env.unwrapped.ale.lives()  # pyright: ignore[reportAttributeAccessIssue] (environments of Atari have it, the class Env has not)


class FireReset(gym.Wrapper[Any, Any, Any, Any]):
    """Presses fire where an episode begins."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin, and press."""
        self.env.reset(seed=seed, options=options)
        seen, _, terminated, truncated, info = self.env.step(FIRE)
        return self.env.reset(options=options) if terminated or truncated else (seen, info)
