"""Proximal policy optimisation.

Schulman, Wolski, Dhariwal, Radford, Klimov, *Proximal Policy Optimization Algorithms*, 2017 (https://arxiv.org/abs/1707.06347),
with the advantages of Schulman, Moritz, Levine, Jordan, Abbeel, *High-Dimensional Continuous Control Using Generalized
Advantage Estimation*, 2016 (https://arxiv.org/abs/1506.02438).

    repeat:
        play n_steps steps in every environment with the policy π_old
        estimate advantages A_t by GAE(γ, λ)
        for n_epochs epochs, in minibatches:
            r_t = π(a_t | s_t) / π_old(a_t | s_t)
            maximise  E[min(r_t A_t, clip(r_t, 1 - ε, 1 + ε) A_t)] - c_1 E[(V(s_t) - R_t)²] + c_2 E[entropy of π]

Where the paper leaves it open, or this differs: policy and value have networks of their own; advantages are normalised
in each minibatch; the gradient's norm is clipped; an episode that is cut off (truncated) goes on in the estimate with
the value of its last observation. Values are computed after the rollout, in one batch, so playing needs the policy
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .algorithm import Result
from .episodes.statistics import RunningMoments
from .hyperparameters import number, sizes
from .models.networks import (
    Flat,
    PolicyNetwork,
    entropy,
    entropy_gradient,
    log_likelihood,
    network,
    score,
    seeded,
    torch_settings,
    with_backward,
)
from .models.torch_model import TorchModel
from .policy import Policy
from .rollout import Rollout, play
from .stepping import SteppingAlgorithm


@dataclass(frozen=True)
class PPOHyperparameters:
    """What PPO may be told.

    Parameters
    ----------
    lr : float, > 0
        The step size of Adam.
    n_steps : int, >= 1
        Steps of every environment in an iteration.
    minibatch_size : int, >= 2
        Steps in a minibatch.
    n_epochs : int, >= 1
        How often each step is learnt from.
    gamma : float, 0 to 1
        Discount γ.
    gae_lambda : float, 0 to 1
        λ: 0 believes the value function, 1 what was played.
    clip : float, > 0
        ε: how far the probability of an action may move, relatively, before it gains no more.
    value_coefficient, entropy_coefficient : float, >= 0
        c_1 and c_2.
    max_grad_norm : float, > 0
        The gradient is scaled to this norm if it is longer.
    target_kl : float, > 0, optional
        End the epochs of an iteration when the policy has moved so far (an estimate of the divergence from π_old).
    normalize_observations : bool
        Shift and scale observations by their running mean and variance.
    hidden : sequence of int
        Widths of the hidden layers of both networks; of images the convolutions come first, and these do not count.
    n_threads : int, >= 1
        Of torch, while it learns.
    """

    lr: float = number(1e-3, 0, above=True)
    n_steps: int = number(256, 1, whole=True)
    minibatch_size: int = number(256, 2, whole=True)
    n_epochs: int = number(10, 1, whole=True)
    gamma: float = number(0.99, 0, 1)
    gae_lambda: float = number(0.95, 0, 1)
    clip: float = number(0.2, 0, above=True)
    value_coefficient: float = number(0.5, 0)
    entropy_coefficient: float = number(0.0, 0)
    max_grad_norm: float = number(0.5, 0, above=True)
    target_kl: float | None = number(None, 0, above=True)
    normalize_observations: bool = False
    hidden: tuple[int, ...] = sizes(64, 64)
    n_threads: int = number(1, 1, whole=True)


def gae(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    last_values: NDArray[np.float32],
    over: NDArray[np.bool_],
    gamma: float,
    lam: float,
) -> NDArray[np.float32]:
    """Generalised advantage estimates (Schulman et al. 2016, equation 16): A_t = δ_t + γλ A_{t+1}, with
    δ_t = r_t + γ V(s_{t+1}) - V(s_t); both end with the episode.

    Parameters
    ----------
    rewards, values : ndarray of shape (n_steps, n_envs), float32
        r_t, and V(s_t). The reward of a truncated episode's last step includes γ times the value of what came then.
    last_values : ndarray of shape (n_envs,), float32
        V of the observations after the last step.
    over : ndarray of shape (n_steps, n_envs), bool
        Whether the episode ended with the step, terminated or truncated.

    Returns
    -------
    ndarray of shape (n_steps, n_envs), float32
    """
    goes_on = np.where(over, np.float32(0), np.float32(gamma))
    advantages = rewards + goes_on * np.vstack((values[1:], last_values)) - values  # δ as yet
    decay = goes_on * np.float32(lam)
    for t in reversed(range(len(rewards) - 1)):
        advantages[t] += decay[t] * advantages[t + 1]
    return advantages


class PPO(SteppingAlgorithm):
    """Proximal policy optimisation; `PPOHyperparameters` has what it may be told, `Algorithm` the rest.

    Examples
    --------
    >>> algo = rl.PPO("CartPole-v1", num_envs=8, num_workers=2, seed=0)
    >>> for result in algo.train(until={"episode_return_mean": 475}):
    ...     print(result["timesteps_total"], result["episode_return_mean"])
    """

    Hyperparameters: ClassVar[type[PPOHyperparameters]] = PPOHyperparameters
    hyperparameters: PPOHyperparameters
    flat: Flat

    def build(self, seed: int) -> None:
        """The policy's network, the value's, and Adam over both."""
        h, space = self.hyperparameters, self.action_space
        with seeded(seed):
            self._policy = PolicyNetwork(self.encode, space, h.hidden, nn.Tanh)
            self._value = network(self.encode, h.hidden, 1, 1.0, nn.Tanh)
        self.flat = Flat(self._policy, self._value)
        self._adam = torch.optim.Adam([self.flat.vector], h.lr, eps=1e-5, fused=True)
        self._moments = RunningMoments(self.encode.shape) if h.normalize_observations else None

    @property
    def policy(self) -> Policy:
        """The policy as it is now; it changes while training goes on, until it is sent or saved."""
        return Policy(TorchModel(self._policy), self.observation_space, self.action_space, self._moments)

    def learn(self) -> Result:
        """One iteration."""
        with torch_settings(self.hyperparameters.n_threads):
            played = play(self, TorchModel(self._policy), self.hyperparameters.n_steps, self._moments)
            return self._update(*self._targets(played), played)

    def _targets(self, played: Rollout) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Advantages, and what the values should have been."""
        h, value = self.hyperparameters, TorchModel(self._value)
        values = value(played.flat_observations)[:, 0].reshape(played.rewards.shape)
        rewards = played.rewards.copy()
        if played.truncated:
            steps, envs, last = zip(*played.truncated, strict=True)
            rewards[list(steps), list(envs)] += h.gamma * value(np.stack(last))[:, 0]
        last_values = value(played.last_observations)[:, 0]
        advantages = gae(rewards, values, last_values, played.over, h.gamma, h.gae_lambda)
        return advantages.reshape(-1), (advantages + values).reshape(-1)

    def _update(self, advantages: NDArray[np.float32], returns: NDArray[np.float32], played: Rollout) -> Result:
        h, space = self.hyperparameters, self.action_space
        observations, actions = map(torch.from_numpy, (played.flat_observations, played.flat_actions))
        with torch.no_grad():
            old = log_likelihood(space, self._policy(observations), actions)
        batch = observations, actions, old, torch.from_numpy(advantages), torch.from_numpy(returns)
        told: list[Tensor] = []
        for epoch in range(h.n_epochs):
            order = torch.from_numpy(self.rng.permutation(len(old)))
            last = epoch == h.n_epochs - 1 or h.target_kl is not None
            told.clear()
            for rows in zip(*(part[order].split(h.minibatch_size) for part in batch), strict=True):
                told += self._learn_from(*rows, told=last)
            if h.target_kl is not None and float(torch.stack(told)[:, 3].mean()) > h.target_kl:
                break
        means = torch.stack(told).mean(0).tolist()
        return dict(zip(("loss/policy", "loss/value", "entropy", "kl"), means, strict=True))

    @torch.no_grad()
    def _learn_from(
        self, observations: Tensor, actions: Tensor, old: Tensor, advantages: Tensor, returns: Tensor, told: bool
    ) -> list[Tensor]:
        """A step of Adam on a minibatch. If it is to be `told`: the policy's loss, the value's, entropy, and divergence
        from π_old.

        The gradient of the loss is written out as far as the networks: of min(r A, clip(r, 1 - ε, 1 + ε) A) by log π it
        is r A, and 0 where r is clipped.
        """
        h, space = self.hyperparameters, self.action_space
        if len(old) > 1:
            variance, mean = torch.var_mean(advantages)
            advantages = (advantages - mean) / (variance.sqrt() + 1e-8)
        parameters, learn_policy = with_backward(self._policy, observations)
        values, learn_value = with_backward(self._value, observations)
        log_ratio = log_likelihood(space, parameters, actions) - old
        ratio = log_ratio.exp()
        gain, error = ratio * advantages, values[:, 0] - returns
        is_clipped = torch.where(advantages > 0, ratio > 1 + h.clip, ratio < 1 - h.clip)
        by_log_p = gain.masked_fill(is_clipped, 0.0) / -len(old)
        by_parameters = score(space, parameters, actions) * by_log_p[:, None]
        if h.entropy_coefficient > 0:
            by_parameters -= entropy_gradient(space, parameters) * (h.entropy_coefficient / len(old))
        self.flat.gradient.zero_()
        learn_policy(by_parameters)
        learn_value(error[:, None] * (2 * h.value_coefficient / len(old)))
        self.flat.clip(h.max_grad_norm)
        self._adam.step()
        if not told:
            return []
        clipped = torch.min(gain, ratio.clamp(1 - h.clip, 1 + h.clip) * advantages)
        spread, kl = entropy(space, parameters), ratio - 1 - log_ratio
        return [torch.stack([-clipped.mean(), error.square().mean(), spread.mean(), kl.mean()])]

    def state(self) -> dict[str, Any]:
        """Weights, Adam's moments, the observations' moments."""
        return {"weights": self.flat.to_numpy(), "adam": self._adam.state_dict(), "moments": self._moments}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.flat.load(state["weights"])
        lr = [group["lr"] for group in self._adam.param_groups]
        self._adam.load_state_dict(state["adam"])
        for group, now in zip(self._adam.param_groups, lr, strict=True):
            group["lr"] = now  # of the configuration of now, which Tune may have changed
        self._moments = state["moments"]
