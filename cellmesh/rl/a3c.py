"""Asynchronous advantage actor-critic.

Mnih, Badia, Mirza, Graves, Lillicrap, Harley, Silver, Kavukcuoglu, *Asynchronous Methods for Deep Reinforcement
Learning*, 2016 (https://arxiv.org/abs/1602.01783), algorithm S3, with the shared RMSProp of section 4.

    θ, the squares g and the count of steps T are shared; every learner, for itself, until T reaches its goal:
        θ' <- θ
        play n_steps steps with π(·|s; θ'),   T <- T + those
        R_t = r_t + γ R_{t+1}, from V(s; θ') of the last observation on; 0 after an episode that terminated
        Δ = ∇ E[-log π(a_t|s_t) (R_t - V(s_t)) - β entropy of π + c (R_t - V(s_t))²]      (V constant in the first term)
        g <- α g + (1 - α) Δ²,   θ <- θ - η Δ / √(g + ε)                                  (nobody waits for anybody)

Differences: learners are processes and θ, g and T lie in shared memory; each may play several environments; Δ is a mean
over steps and not a sum, and its norm is clipped; policy and value have networks of their own; η is constant; an
episode that is cut off (truncated) goes on in R with the value of its last observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from .algorithm import Algorithm, Result
from .episodes.statistics import Ended
from .hyperparameters import number, sizes
from .models.encoding import Encoder
from .models.networks import Flat, PolicyNetwork, entropy, log_likelihood, network, seeded, torch_settings
from .models.torch_model import TorchModel
from .players import Place, Player, Players
from .policy import Policy
from .rollout import Rollout, play

LOSSES = "loss/policy", "loss/value", "entropy"


@dataclass(frozen=True)
class A3CHyperparameters:
    """What A3C may be told.

    Parameters
    ----------
    lr : float, > 0
        η, the step size of RMSProp.
    n_steps : int, >= 1
        Steps of every environment of a learner before it changes the weights (t_max).
    iteration_steps : int, >= 1
        Steps of an iteration, of all learners together; each goes on to the end of its n_steps.
    gamma : float, 0 to 1
        Discount γ.
    value_coefficient, entropy_coefficient : float, >= 0
        c and β.
    rms_decay : float, 0 to 1
        α: how long squares of gradients count.
    rms_epsilon : float, > 0
        ε: what is added to them.
    max_grad_norm : float, > 0
        The gradient is scaled to this norm if it is longer.
    hidden : sequence of int
        Widths of the hidden layers of both networks; of images the convolutions come first, and these do not count.
    n_threads : int, >= 1
        Of torch, in each learner.
    """

    lr: float = number(3e-3, 0, above=True)
    n_steps: int = number(8, 1, whole=True)
    iteration_steps: int = number(2000, 1, whole=True)
    gamma: float = number(0.99, 0, 1)
    value_coefficient: float = number(0.5, 0)
    entropy_coefficient: float = number(0.001, 0)
    rms_decay: float = number(0.99, 0, 1)
    rms_epsilon: float = number(1e-5, 0, above=True)
    max_grad_norm: float = number(0.5, 0, above=True)
    hidden: tuple[int, ...] = sizes(64, 64)
    n_threads: int = number(1, 1, whole=True)


def n_step_returns(
    rewards: NDArray[np.float32], last_values: NDArray[np.float32], over: NDArray[np.bool_], gamma: float
) -> NDArray[np.float32]:
    """R_t = r_t + γ R_{t+1}; an episode's last step has its reward alone.

    Parameters
    ----------
    rewards : ndarray of shape (n_steps, n_envs), float32
        Of a truncated episode's last step with γ times the value of what came then.
    last_values : ndarray of shape (n_envs,), float32
        V of the observations after the last step.
    over : ndarray of shape (n_steps, n_envs), bool
        Whether the episode ended with the step, terminated or truncated.

    Returns
    -------
    ndarray of shape (n_steps, n_envs), float32
    """
    returns, following = np.empty_like(rewards), last_values
    for t in reversed(range(len(rewards))):
        returns[t] = following = rewards[t] + np.where(over[t], np.float32(0), np.float32(gamma) * following)
    return returns


class Networks:
    """π and V, whose weights are one vector."""

    policy: PolicyNetwork
    value: nn.Module
    flat: Flat

    def __init__(self, encoder: Encoder, actions: Space[Any], hidden: tuple[int, ...]) -> None:
        self.policy = PolicyNetwork(encoder, actions, hidden, nn.Tanh)
        self.value = network(encoder, hidden, 1, 1.0, nn.Tanh)
        self.flat = Flat(self.policy, self.value)


@dataclass(frozen=True)
class Shared:
    """What all learners write, none of them waiting for another."""

    weights: NDArray[np.float32]  # θ
    squares: NDArray[np.float32]  # g
    steps: NDArray[np.int64]  # of each learner: T is their sum, and no two write to one place


@dataclass(frozen=True)
class Learnt:
    """What a learner tells of its part of an iteration."""

    episodes: Ended
    losses: list[NDArray[np.float64]]  # of each update, as `LOSSES`


class Learner(Player):
    """A thread of the paper."""

    Hyperparameters: ClassVar[type[A3CHyperparameters]] = A3CHyperparameters
    hyperparameters: A3CHyperparameters

    def __init__(self, place: Place, shared: Shared) -> None:
        self._shared, self._number = shared, place.number
        super().__init__(place)

    def build(self, seed: int) -> None:
        """θ', which is θ before anything is played, and views of what is shared."""
        with seeded(seed):  # which leaves the user's random numbers alone
            self._local = Networks(self.encode, self.action_space, self.hyperparameters.hidden)
        self._weights, self._squares = map(torch.from_numpy, (self._shared.weights, self._shared.squares))

    def learn_until(self, n_steps: int) -> Learnt:
        """Play and learn until all learners together have played so many steps."""
        losses: list[NDArray[np.float64]] = []
        with torch_settings(self.hyperparameters.n_threads):
            while True:  # no condition here: see scheduler/sync/condition.py
                if self._shared.steps.sum() >= n_steps:
                    break
                losses.append(self._update())
                if not np.isfinite(losses[-1]).all():
                    break  # whoever hears of it ends training
        return Learnt(self.episodes.taken(), losses)

    def _update(self) -> NDArray[np.float64]:
        """Play n_steps steps, and change the weights that all share; the losses."""
        h, local = self.hyperparameters, self._local
        local.flat.load(self._shared.weights)
        before = self.timesteps
        played = play(self, TorchModel(local.policy), h.n_steps)
        self._shared.steps[self._number] += self.timesteps - before
        losses = self._losses(played)
        policy_loss, error, spread = losses
        self._local.flat.backward(policy_loss + h.value_coefficient * error - h.entropy_coefficient * spread)
        told = losses.detach().numpy().astype(np.float64)
        if np.isfinite(told).all():  # else nothing is changed, so what others play is not in vain
            local.flat.clip(h.max_grad_norm)
            gradient = local.flat.gradient
            self._squares.mul_(h.rms_decay).addcmul_(gradient, gradient, value=1 - h.rms_decay)
            self._weights.addcdiv_(gradient, (self._squares + h.rms_epsilon).sqrt_(), value=-h.lr)
        return told

    def _losses(self, played: Rollout) -> Tensor:
        """The policy's, the value's, and the entropy."""
        h, space, rewards = self.hyperparameters, self.action_space, played.rewards.copy()
        value = TorchModel(self._local.value)
        if played.truncated:
            steps, envs, last = zip(*played.truncated, strict=True)
            rewards[list(steps), list(envs)] += h.gamma * value(np.stack(last))[:, 0]
        returns = n_step_returns(rewards, value(played.last_observations)[:, 0], played.over, h.gamma)
        observations, actions, wanted = map(
            torch.from_numpy, (played.flat_observations, played.flat_actions, returns.reshape(-1))
        )
        parameters, values = self._local.policy(observations), self._local.value(observations)[:, 0]
        gain = (log_likelihood(space, parameters, actions) * (wanted - values).detach()).mean()
        return torch.stack([-gain, functional.mse_loss(values, wanted), entropy(space, parameters).mean()])


class A3C(Algorithm):
    """Asynchronous advantage actor-critic; `A3CHyperparameters` has what it may be told, `Algorithm` the rest, with two
    differences: each of `num_workers` learners plays `num_envs` environments of its own (8 of them if nothing is said),
    and what is learnt is the same again with at most one learner, as several change the weights in no order.

    Examples
    --------
    >>> algo = rl.A3C("CartPole-v1", num_workers=2, seed=0)
    >>> for result in algo.train(until={"episode_return_mean": 475}):
    ...     print(result["timesteps_total"], result["episode_return_mean"], result["entropy"])
    """

    Hyperparameters: ClassVar[type[A3CHyperparameters]] = A3CHyperparameters
    hyperparameters: A3CHyperparameters
    timesteps: int

    def open(self, config: dict[str, Any], seed: int) -> tuple[Space[Any], Space[Any]]:
        """Look at the spaces; learners are begun when the size of the networks is known."""
        self._players = Players(Learner, config, seed)
        return self._players.spaces

    def build(self, seed: int) -> None:
        """θ, what else is shared, and the learners."""
        with seeded(seed):
            self._networks = Networks(self.encode, self.action_space, self.hyperparameters.hidden)
        first, make = self._networks.flat.to_numpy(), self._players.make
        steps = make(len(self._players), np.int64)
        self._shared = Shared(make(first.shape, np.float32), make(first.shape, np.float32), steps)
        self._shared.weights[:] = first
        self._players.begin(self._shared)

    @property
    def policy(self) -> Policy:
        """The policy as it is now; it changes while training goes on, until it is sent or saved."""
        self._networks.flat.load(self._shared.weights)
        return Policy(TorchModel(self._networks.policy), self.observation_space, self.action_space)

    def learn(self) -> Result:
        """One iteration."""
        goal = int(self._shared.steps.sum()) + self.hyperparameters.iteration_steps
        learnt: list[Learnt] = self._players.each("learn_until", goal)
        for one in learnt:
            self.episodes.take(one.episodes)
        self.timesteps = int(self._shared.steps.sum())
        losses = [loss for one in learnt for loss in one.losses]
        means = dict(zip(LOSSES, np.mean(losses, axis=0).tolist(), strict=True)) if losses else {}  # all of it died
        return {**means, "updates": len(losses)}

    def cleanup(self) -> None:
        """End the learners."""
        if hasattr(self, "_players"):
            self._players.end()

    def playing(self) -> Any:
        """Random numbers, episodes and environments of each learner."""
        return self._players.each("snapshot")

    def play_on(self, playing: Any) -> None:
        """Go on with them; learners that are more than there were begin new episodes."""
        self._players.go_on(playing)

    def state(self) -> dict[str, Any]:
        """θ, g and T."""
        shared = self._shared
        return {"weights": shared.weights.copy(), "squares": shared.squares.copy(), "steps": int(shared.steps.sum())}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        shared = self._shared
        shared.weights[:], shared.squares[:], shared.steps[:] = state["weights"], state["squares"], 0
        shared.steps[0] = state["steps"]
