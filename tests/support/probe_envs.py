"""Environments so small that the values of states and the best policy are known exactly.

After Andy Jones, *Debugging RL, Without the Agonizing Pain* (2021): each asks for one more thing than the one before,
so which of them fails says what is wrong.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Probe(gym.Env[Any, Any]):
    """An episode of `length` steps, all observations in [-1, 1]."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)
    length = 1

    def __init__(self) -> None:
        self.t = 0

    def see(self) -> np.ndarray:
        return np.zeros(1, np.float32)

    def reward(self, action: Any) -> float:
        return 1.0

    def render(self) -> Any:
        return None

    def ends(self) -> tuple[bool, bool]:
        return self.t >= self.length, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        self.begin()
        return self.see(), {}

    def begin(self) -> None:
        """The start of an episode."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.reward(action)
        self.t += 1
        return self.see(), reward, *self.ends(), {}


class ConstantReward(Probe):
    """One step, reward 1: V = 1."""


class SeenReward(Probe):
    """One step; the reward is what is seen, -1 or 1: V(s) = s."""

    def begin(self) -> None:
        self.value = float(self.np_random.choice([-1.0, 1.0]))

    def see(self) -> np.ndarray:
        return np.array([self.value], np.float32)

    def reward(self, action: Any) -> float:
        return self.value


class DelayedReward(Probe):
    """Two steps, reward 1 at the second: V(first) = γ, V(second) = 1."""

    length = 2

    def see(self) -> np.ndarray:
        return np.array([min(self.t, 1)], np.float32)

    def reward(self, action: Any) -> float:
        return float(self.t == 1)


class ActionReward(Probe):
    """One step; action 1 earns 1, action 0 loses 1."""

    def reward(self, action: Any) -> float:
        return 1.0 if action == 1 else -1.0


class SeenAction(SeenReward):
    """One step; the right action is the one that the observation names."""

    def reward(self, action: Any) -> float:
        return 1.0 if (action == 1) == (self.value > 0) else -1.0


class Fragile(SeenAction):
    """Kills its process at a step, once: of the processes that come there at the same moment, one."""

    def __init__(self, once: Path, at: int) -> None:
        super().__init__()
        self.once, self.n_left = once, at

    def step(self, action: Any) -> Any:
        self.n_left -= 1
        if not self.n_left:
            with suppress(FileExistsError):
                self.once.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class TwoStepCredit(Probe):
    """The first action is paid at the second step: 1 earns, 0 loses. What is done there counts for nothing."""

    length = 2

    def see(self) -> np.ndarray:
        return np.array([min(self.t, 1)], np.float32)

    def reward(self, action: Any) -> float:
        if self.t == 0:
            self.chosen = int(action)
            return 0.0
        return 1.0 if self.chosen == 1 else -1.0


class Endless(Probe):
    """Reward 1 at every step, for ever, but cut off (truncated) after 3 steps: V = 1 / (1 - γ)."""

    length = 3

    def ends(self) -> tuple[bool, bool]:
        return False, self.t >= self.length


class Ending(Endless):
    """The same, terminated: the one observation stands for 3, 2 or 1 steps to come."""

    def ends(self) -> tuple[bool, bool]:
        return self.t >= self.length, False


class Continuous(Probe):
    """One step; the nearer the action is to 0.5, the better."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reward(self, action: Any) -> float:
        return -float((action[0] - 0.5) ** 2)


class ManyActions(Probe):
    """One step; a digit for each of two wheels is right."""

    action_space = spaces.MultiDiscrete([2, 3])

    def reward(self, action: Any) -> float:
        return float(action[0] == 1) + float(action[1] == 2)


class Switches(Probe):
    """One step; the switches up and down are right."""

    action_space = spaces.MultiBinary(2)

    def reward(self, action: Any) -> float:
        return float(action[0] == 1) + float(action[1] == 0)
