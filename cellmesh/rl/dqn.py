"""Deep Q-learning.

Mnih et al., *Human-level control through deep reinforcement learning*, Nature 2015, with options: `double` (van
Hasselt, Guez, Silver, *Deep Reinforcement Learning with Double Q-learning*, 2016), `dueling` (Wang et al., *Dueling
Network Architectures for Deep Reinforcement Learning*, 2016), `prioritized` (Schaul et al., *Prioritized Experience
Replay*, 2016), `n_step` (returns over several steps: Sutton, Barto, *Reinforcement Learning*, 2018, chapter 7).

    every step:      a = argmax Q(s, ·), or with probability ε a random one; the transition goes into the replay buffer
    every so often:  a minibatch (s, a, R, s', γ') of transitions over n steps is drawn
                     y = R + γ' Q_target(s', argmax Q(s', ·))     (without `double`: max Q_target(s', ·))
                     minimise  w · huber(Q(s, a) - y)             (w: what makes up for the priorities)
    now and then:    Q_target <- Q

γ' is 0 where the episode terminated and not where it was truncated. Differences: Huber's loss instead of a clipped
error, which has the same gradient; Adam instead of RMSProp; several environments play at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from .algorithm import Result
from .hyperparameters import number, sizes
from .models.encoding import Encoder, stacked
from .models.networks import Flat, network, seeded, torch_settings
from .models.torch_model import TorchModel
from .policy import Policy
from .replay import NSteps, PrioritizedReplay, ReplayBuffer, Rows
from .stepping import SteppingAlgorithm

EPSILON = 1e-6  # of priorities: every transition may be drawn again


@dataclass(frozen=True)
class QHyperparameters:
    """What DQN and Ape-X may both be told.

    Parameters
    ----------
    lr : float, > 0
        The step size of Adam.
    gamma : float, 0 to 1
        Discount γ.
    buffer_size, minibatch_size : int, >= 1
        Transitions that are kept, and that are learnt from at a time.
    learning_starts : int, >= 0
        Steps before anything is learnt.
    train_every : int, >= 1
        Steps for each minibatch.
    target_every : int, >= 1
        Minibatches between two copies of Q to Q_target.
    iteration_steps : int, >= 1
        Steps of an iteration, rounded up to all environments.
    n_step : int, >= 1
        Steps of which rewards are counted before Q is believed.
    double, dueling : bool
        Two of the options.
    alpha, beta : float, 0 to 1
        Of prioritised replay: how far priorities count, and how far weights make up for it.
    checkpoint_replay : bool
        Whether checkpoints have the replay buffer. Without it what goes on from one differs, and first plays
        `learning_starts` steps.
    max_grad_norm : float, > 0
        The gradient is scaled to this norm if it is longer.
    hidden : sequence of int
        Widths of hidden layers.
    n_threads : int, >= 1
        Of torch, while it learns.
    """

    lr: float = number(1e-3, 0, above=True)
    gamma: float = number(0.99, 0, 1)
    buffer_size: int = number(50_000, 1, whole=True)
    minibatch_size: int = number(64, 1, whole=True)
    learning_starts: int = number(1000, 0, whole=True)
    train_every: int = number(4, 1, whole=True)
    target_every: int = number(100, 1, whole=True)
    iteration_steps: int = number(1000, 1, whole=True)
    n_step: int = number(1, 1, whole=True)
    double: bool = True
    dueling: bool = False
    alpha: float = number(0.6, 0, 1)
    beta: float = number(0.4, 0, 1)
    checkpoint_replay: bool = True
    max_grad_norm: float = number(10.0, 0, above=True)
    hidden: tuple[int, ...] = sizes(64, 64)
    n_threads: int = number(1, 1, whole=True)


@dataclass(frozen=True)
class DQNHyperparameters(QHyperparameters):
    """What DQN may be told: this, and what `QHyperparameters` has.

    Parameters
    ----------
    epsilon_start, epsilon_end : float, 0 to 1
        ε falls from the one to the other,
    epsilon_steps : int, >= 1
        in so many steps.
    prioritized : bool
        The third option.
    """

    epsilon_start: float = number(1.0, 0, 1)
    epsilon_end: float = number(0.05, 0, 1)
    epsilon_steps: int = number(10_000, 1, whole=True)
    prioritized: bool = False


class QNetwork(nn.Module):
    """From encoded observations to a value for each action. Dueling: Q = V + A - mean A, of two networks."""

    advantages: nn.Module
    value: nn.Module | None

    def __init__(self, encoder: Encoder, n_actions: int, hidden: tuple[int, ...], dueling: bool) -> None:
        super().__init__()
        self.advantages = network(encoder, hidden, n_actions, 1.0, nn.ReLU)
        self.value = network(encoder, hidden, 1, 1.0, nn.ReLU) if dueling else None

    def forward(self, x: Tensor) -> Tensor:
        """Values of shape (n, n_actions)."""
        advantages = self.advantages(x)
        return advantages if self.value is None else self.value(x) + advantages - advantages.mean(1, keepdim=True)


def values_of(q: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Q(s, a)."""
    return q(rows["observations"]).gather(1, rows["actions"][:, None])[:, 0]


def targets(q: nn.Module, target: nn.Module, rows: Mapping[str, Tensor], double: bool) -> Tensor:
    """y = R + γ' Q_target(s', a'), a' the best action by Q (double) or by Q_target."""
    with torch.no_grad():
        said = target(rows["following"])
        best = (q(rows["following"]) if double else said).argmax(1, keepdim=True)
        return rows["returns"] + rows["discounts"] * said.gather(1, best)[:, 0]


class DQN(SteppingAlgorithm):
    """Deep Q-learning; `DQNHyperparameters` has what it may be told, `Algorithm` the rest.

    Examples
    --------
    >>> algo = rl.DQN("CartPole-v1", seed=0, prioritized=True, n_step=3)
    >>> for result in algo.train(until={"episode_return_mean": 195}):
    ...     print(result["timesteps_total"], result["episode_return_mean"], result["epsilon"])
    """

    Hyperparameters: ClassVar[type[Any]] = DQNHyperparameters
    hyperparameters: Any
    flat: Flat
    replay: ReplayBuffer
    timesteps: int

    def build(self, seed: int) -> None:
        """Q, Q_target, Adam, the replay buffer."""
        h = self.hyperparameters
        if self.most_rows > h.buffer_size:
            raise ValueError(
                f"{type(self).__name__}: buffer_size={h.buffer_size}, and {self.most_rows} transitions may come at once"
            )
        self._q, self._target = self.networks(2, seed)
        self.flat, self._flat_target = Flat(self._q), Flat(self._target)
        self._flat_target.load(self.flat.to_numpy())
        self._adam = torch.optim.Adam([self.flat.vector], h.lr, fused=True)
        self.replay = (
            PrioritizedReplay(h.buffer_size, self.columns(), h.alpha, h.beta)
            if self.is_prioritized
            else ReplayBuffer(h.buffer_size, self.columns())
        )
        self._n_steps = NSteps(h.n_step, len(self.episodes.returns), h.gamma)
        self._n_updates, self._owed = 0, 0.0

    def networks(self, n: int, seed: int) -> list[QNetwork]:
        """`n` networks for Q, the first the same for every `n`."""
        h, space = self.hyperparameters, self.action_space
        if not isinstance(space, spaces.Discrete):
            raise TypeError(
                f"{type(self).__name__} needs Discrete actions, and the space is {space}: take PPO, A3C or ES"
            )
        with seeded(seed):
            return [QNetwork(self.encode, int(space.n), h.hidden, h.dueling) for _ in range(n)]

    def columns(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What a transition has."""
        seen, number = (self.encode.shape, self.encode.dtype), ((), np.float32)
        parts = {"observations": seen, "actions": ((), np.int64), "returns": number}
        return {**parts, "following": seen, "discounts": number}

    @property
    def most_rows(self) -> int:
        """How many transitions the buffer may be given at once."""
        return len(self.episodes.returns) * self.hyperparameters.n_step

    @property
    def is_prioritized(self) -> bool:
        """Whether priorities decide what is drawn."""
        return self.hyperparameters.prioritized

    @property
    def policy(self) -> Policy:
        """The greedy policy as it is now; it changes while training goes on, until it is sent or saved."""
        return Policy(TorchModel(self._q), self.observation_space, self.action_space)

    @property
    def epsilon(self) -> Any:
        """With which probability an action is random; a number, or one for each environment."""
        h = self.hyperparameters
        share = min(1.0, self.timesteps / h.epsilon_steps)
        return h.epsilon_start + share * (h.epsilon_end - h.epsilon_start)

    def learn(self) -> Result:
        """One iteration."""
        h, n_envs = self.hyperparameters, self.envs.num_envs
        errors: list[float] = []
        with torch_settings(h.n_threads):
            for _ in range(-(-h.iteration_steps // n_envs)):
                rows = self.play_step()
                if rows is not None:
                    self.replay.add(rows)
                if self.timesteps < h.learning_starts or not len(self.replay):
                    continue
                n_due, self._owed = divmod(self._owed + n_envs / h.train_every, 1.0)
                for _ in range(int(n_due)):
                    errors.append(self.learn_from_minibatch())
        told = {"loss/q": float(np.mean(errors))} if errors else {}
        return {"epsilon": self.epsilon, "updates_total": self._n_updates, **told}

    def play_step(self) -> Rows | None:
        """A step of every environment; the transitions that are complete with it."""
        envs, rng, seen = self.envs, self.rng, self.observations
        greedy = TorchModel(self._q)(seen).argmax(axis=1)
        drawn = rng.integers(int(self.action_space.n), size=len(greedy))  # pyright: ignore[reportAttributeAccessIssue] (DQN takes spaces of the class Discrete alone)
        actions = np.where(rng.random(len(greedy)) < self.epsilon, drawn, greedy)
        start = int(self.action_space.start)  # pyright: ignore[reportAttributeAccessIssue] (DQN takes spaces of the class Discrete alone)
        observations, rewards, terminated, truncated, infos = envs.step(actions + start)
        over = terminated | truncated
        now = self.encode(observations).copy()
        following = now
        if over.any():
            following = now.copy()
            for i in np.flatnonzero(over):
                following[i] = self.encode(stacked(infos["final_obs"][i]))[0]
        self.episodes.add(rewards, over)
        self.observations = now
        self.timesteps += envs.num_envs
        return self._n_steps.add(seen, actions, rewards, following, terminated, over)

    def learn_from_minibatch(self) -> float:
        """A step of Adam, and the new priorities; returns the loss."""
        h = self.hyperparameters
        drawn, places, weights = self.replay.sample(h.minibatch_size, self.rng)
        rows = {name: torch.from_numpy(column) for name, column in drawn.items()}
        said = values_of(self._q, rows)
        wanted = targets(self._q, self._target, rows, h.double)
        each = functional.smooth_l1_loss(said, wanted, reduction="none")
        loss = (torch.from_numpy(weights) * each).mean()
        self.flat.backward(loss)
        self.flat.clip(h.max_grad_norm)
        self._adam.step()
        self.replay.set_priorities(places, (said.detach() - wanted).abs().numpy() + EPSILON)
        self._n_updates += 1
        if self._n_updates % h.target_every == 0:
            self._flat_target.load(self.flat.to_numpy())
        return float(loss.detach())

    def state(self) -> dict[str, Any]:
        """Weights of both networks, Adam's moments, the replay buffer, transitions that are not complete, counters."""
        return {
            "weights": self.flat.to_numpy(),
            "target": self._flat_target.to_numpy(),
            "adam": self._adam.state_dict(),
            "replay": self.replay.state() if self.hyperparameters.checkpoint_replay else None,
            "n_steps": self._n_steps,
            "counters": (self._n_updates, self._owed),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.flat.load(state["weights"])
        self._flat_target.load(state["target"])
        lr = self.hyperparameters.lr
        self._adam.load_state_dict(state["adam"])
        self._adam.param_groups[0]["lr"] = lr  # of the configuration of now, which Tune may have changed
        if state["replay"] is not None:
            self.replay.set_state(state["replay"])
            self._n_steps = state["n_steps"]
        self._n_updates, self._owed = state["counters"]
