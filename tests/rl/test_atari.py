"""Atari games with the usual wrappers: what is seen, lives, fire and rewards; and that algorithms learn from pixels."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("ale_py", reason="no ale-py: pip install 'cellmesh[atari]'")
pytest.importorskip("cv2", reason="no opencv: pip install 'cellmesh[atari]'")

from cellmesh import rl
from cellmesh.rl.envs.atari import EpisodicLife, FireReset

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")


def test_four_small_grey_frames_are_seen_the_same_in_every_process(session: None) -> None:
    seen: list[Any] = []
    for n_workers in (0, 2):
        envs = rl.make_vec(rl.atari("ALE/Pong-v5"), 2, n_workers, seed=1)
        rows = [envs.reset()[0]]
        for action in (2, 3, 2, 0):
            observations, rewards, *_ = envs.step(np.full(2, action))
            rows.append(observations)
            assert set(rewards.tolist()) <= {-1.0, 0.0, 1.0}
        envs.close()
        seen.append(np.stack(rows))
    assert seen[0].shape == (5, 2, 4, 84, 84) and seen[0].dtype == np.uint8
    assert np.array_equal(*seen)
    assert np.array_equal(seen[0][2][:, 3], seen[0][3][:, 2])  # the last frame is the last but one a step later


class Game(gym.Env[int, int]):
    """Three lives; action 1 is fire, action 2 costs a life. What is seen is the number of steps of the game."""

    observation_space = gym.spaces.Discrete(100)
    action_space = gym.spaces.Discrete(3)

    def __init__(self) -> None:
        self.ale = self
        self.games = self.fired = self.left = self.t = 0

    def lives(self) -> int:
        return self.left

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.games, self.left, self.t = self.games + 1, 3, 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.t += 1
        self.fired += action == 1
        self.left -= action == 2
        return self.t, 7.0, self.left == 0, False, {}


def test_a_life_is_an_episode_and_the_game_goes_on() -> None:
    game = Game()
    env = EpisodicLife(game)
    assert env.reset()[0] == 0
    assert [env.step(0)[2], env.step(2)[2]] == [False, True]
    assert env.reset()[0] == 3 and game.games == 1  # a step in which nothing is done
    assert env.step(2)[2] and env.reset()[0] == 5
    assert env.step(2)[2] and game.left == 0
    assert env.reset()[0] == 0 and game.games == 2
    env.step(2)
    assert env.reset(seed=3)[0] == 0 and game.games == 3  # a seed begins a game


def test_fire_is_pressed_where_an_episode_begins() -> None:
    game = Game()
    env = FireReset(EpisodicLife(game))
    assert env.reset()[0] == 1 and game.fired == 1
    env.step(2)
    env.reset()
    assert game.fired == 2 and game.games == 1


@pytest.mark.parametrize(
    "name, options",
    [
        ("PPO", {"n_steps": 8, "minibatch_size": 8, "n_epochs": 1}),
        ("DQN", {"iteration_steps": 16, "learning_starts": 8, "minibatch_size": 4, "buffer_size": 64}),
        ("A3C", {"iteration_steps": 16, "n_steps": 8}),
    ],
)
def test_algorithms_learn_from_pixels(session: None, name: str, options: dict[str, Any]) -> None:
    pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")
    algorithm = getattr(rl, name)(rl.atari("ALE/Pong-v5"), num_envs=2, seed=0, **options)
    try:
        before = algorithm.policy.model.module.state_dict()
        before = {key: value.clone() for key, value in before.items()}
        assert any(value.ndim == 4 for value in before.values())  # a convolution's kernel
        result = next(algorithm.train())
        assert all(np.isfinite(result[key]) for key in result if key.startswith("loss/"))
        after = algorithm.policy.model.module.state_dict()
        kernels = [key for key, value in before.items() if value.ndim == 4]
        assert all(not np.array_equal(before[key].numpy(), after[key].numpy()) for key in kernels)
        assert algorithm.policy(np.zeros((4, 84, 84), np.uint8)) in range(6)
    finally:
        algorithm.close()


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(gym.error.Error, match="NoSuchGame"):
        rl.atari("ALE/NoSuchGame-v5")


@pytest.mark.parametrize(("absent", "package"), [("ale_py", "ale-py"), ("cv2", "opencv-python-headless")])
def test_the_extra_is_named(absent: str, package: str) -> None:
    code = f"import sys; sys.modules[{absent!r}] = None\nfrom cellmesh import rl; rl.atari('ALE/Pong-v5')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"Atari games need {package}: pip install 'cellmesh[atari]'" in ended.stderr
