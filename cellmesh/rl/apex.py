"""Ape-X: deep Q-learning with many players and one learner.

Horgan, Quan, Budden, Barth-Maron, Hessel, van Hasselt, Silver, *Distributed Prioritized Experience Replay*, 2018
(https://arxiv.org/abs/1803.00933), algorithms 1 and 2, on Q-learning as in `dqn.py` (double, dueling, n steps).

    every player:  θ <- the learner's; for play_steps steps in each of its environments:
                       a = argmax Q(s, ·; θ), or with probability ε_i a random one
                   p = |R + γ' Q(s', argmax Q(s', ·; θ); θ) - Q(s, a; θ)| of each transition
                   hand over transitions and priorities
    the learner:   add what is handed over to the replay buffer
                   learn from minibatches as DQN does, with new priorities for what was drawn
    ε_i = ε^(1 + α i / (N - 1)): of environment i of all N, from ε to ε^(1 + α)

θ lies in shared memory, and so does what players hand over: results of calls, of which the learner alone writes the
buffer (decision 119). Differences: Adam; a buffer that is full loses its oldest transitions; players and learner wait
for each other where one is ahead by more than what all players hand over at a time, so that there is a minibatch for
every `train_every` steps whatever the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space
from numpy.typing import NDArray

from ..refs import ObjectRef
from ..waiting import wait
from .algorithm import Result
from .dqn import DQN, EPSILON, QHyperparameters, targets, values_of
from .episodes.statistics import Ended
from .hyperparameters import number
from .models.networks import Flat, torch_settings
from .players import Place, Player, Players
from .replay import NSteps, Rows


@dataclass(frozen=True)
class ApexDQNHyperparameters(QHyperparameters):
    """What Ape-X may be told: this, and what `QHyperparameters` has.

    Parameters
    ----------
    epsilon : float, 0 to 1
        ε, of the environment that explores most.
    epsilon_alpha : float, >= 0
        α: how much less the others explore.
    play_steps : int, >= 1
        Steps of each of a player's environments before it hands over what it has played and takes over new weights.
    """

    n_step: int = number(3, 1, whole=True)
    dueling: bool = True
    epsilon: float = number(0.4, 0, 1)
    epsilon_alpha: float = number(7.0, 0)
    play_steps: int = number(25, 1, whole=True)


def epsilons(epsilon: float, alpha: float, n: int) -> NDArray[np.float64]:
    """ε^(1 + α i / (N - 1)) for each i; of one alone, ε."""
    return epsilon ** (1 + alpha * np.arange(n) / max(1, n - 1))


@dataclass(frozen=True)
class Played:
    """What a player hands over."""

    rows: Rows
    priorities: NDArray[np.float32]
    episodes: Ended
    n_steps: int


class Explorer(Player, DQN):
    """A player, with an ε for each of its environments."""

    Hyperparameters: ClassVar[type[Any]] = ApexDQNHyperparameters
    flat: Flat

    def __init__(self, place: Place, weights: NDArray[np.float32]) -> None:
        self._place, self._shared_weights = place, weights
        super().__init__(place)

    def build(self, seed: int) -> None:
        """Q; transitions are not kept here."""
        h, place, n = self.hyperparameters, self._place, self.envs.num_envs
        (self._q,) = self.networks(1, seed)
        self.flat = Flat(self._q)
        self._n_steps = NSteps(h.n_step, n, h.gamma)
        of_all = epsilons(h.epsilon, h.epsilon_alpha, place.n_players * n)
        self._epsilons = of_all[place.number * n : (place.number + 1) * n]

    @property
    def epsilon(self) -> NDArray[np.float64]:
        """Of each environment."""
        return self._epsilons

    def explore(self) -> Played:
        """Play with the learner's weights of now."""
        h = self.hyperparameters
        self.flat.load(self._shared_weights)
        with torch_settings(h.n_threads):
            parts = [*filter(None, (self.play_step() for _ in range(h.play_steps)))]
            rows = {
                name: np.concatenate([np.empty((0, *shape), dtype), *(part[name] for part in parts)], dtype=dtype)
                for name, (shape, dtype) in self.columns().items()
            }
            given = {name: torch.from_numpy(column) for name, column in rows.items()}
            with torch.no_grad():
                error = targets(self._q, self._q, given, h.double) - values_of(self._q, given)
        priorities = (error.abs() + EPSILON).numpy()
        return Played(rows, priorities, self.episodes.taken(), h.play_steps * self.envs.num_envs)

    def snapshot(self) -> dict[str, Any]:
        """As `Player.snapshot`, with transitions that are not complete."""
        return {**super().snapshot(), "n_steps": self._n_steps}

    def go_on(self, snapshot: dict[str, Any]) -> None:
        """Go on from what `snapshot` returned."""
        super().go_on(snapshot)
        if self._observations is not None:
            self._n_steps = snapshot["n_steps"]


class ApexDQN(DQN):
    """Ape-X; `ApexDQNHyperparameters` has what it may be told, `Algorithm` the rest, with two differences: each of
    `num_workers` players has `num_envs` environments of its own (8 of them if nothing is said), and what is learnt is
    the same again only with `num_workers=0`, where playing and learning take turns.

    Examples
    --------
    >>> algo = rl.ApexDQN("CartPole-v1", num_workers=2, seed=0)
    >>> for result in algo.train(until={"episode_return_mean": 195}):
    ...     print(result["timesteps_total"], result["episode_return_mean"], result["updates_total"])
    """

    Hyperparameters: ClassVar[type[Any]] = ApexDQNHyperparameters
    timesteps: int

    def open(self, config: dict[str, Any], seed: int) -> tuple[Space[Any], Space[Any]]:
        """Look at the spaces; players are begun when the size of the network is known."""
        self._players = Players(Explorer, config, seed)
        self._under_way: dict[ObjectRef[Any], int] = {}
        return self._players.spaces

    def build(self, seed: int) -> None:
        """What DQN has, and the players."""
        super().build(seed)
        weights = self.flat.to_numpy()
        self._shared_weights = self._players.make(weights.shape, np.float32)
        self._shared_weights[:] = weights
        self._players.begin(self._shared_weights)

    @property
    def most_rows(self) -> int:
        """How many transitions a player may hand over."""
        h = self.hyperparameters
        return self._players.num_envs * (h.play_steps + h.n_step - 1)

    @property
    def is_prioritized(self) -> bool:
        """Always."""
        return True

    def learn(self) -> Result:
        """One iteration."""
        h, errors = self.hyperparameters, list[float]()
        goal = self.timesteps + h.iteration_steps
        with torch_settings(h.n_threads):
            while True:  # no condition here: see scheduler/sync/condition.py
                if self.timesteps >= goal and not self._under_way:
                    break
                for played in self._arrived(goal, must_wait=self._owed < 1):
                    self._take(played)
                if self._owed >= 1:
                    self._owed -= 1
                    errors.append(self.learn_from_minibatch())
        told = {"loss/q": float(np.mean(errors))} if errors else {}
        return {"updates_total": self._n_updates, **told}

    def _arrived(self, goal: int, must_wait: bool) -> list[Played]:
        """What players have handed over. Who has nothing to do plays on, unless the goal is reached or the learner is
        behind by what all players hand over at a time."""
        self._shared_weights[:] = self.flat.to_numpy()
        players, under_way = self._players, self._under_way
        steps = self.hyperparameters.play_steps * players.num_envs
        if not players.actors:
            return players.each("explore") if must_wait and self.timesteps < goal else []
        if must_wait or self._owed * self.hyperparameters.train_every <= steps * len(players):
            for k in set(range(len(players))) - set(under_way.values()):
                if self.timesteps + steps * len(under_way) < goal:
                    under_way[players.ask(k, "explore")] = k
        if not under_way:
            return []
        ready, _ = wait([*under_way], num_returns=1 if must_wait else len(under_way), timeout=None if must_wait else 0)
        found: list[Played] = []
        for ref in ready:
            number = under_way.pop(ref)  # also if it raises
            found.append(players.answer(ref, number))
        players.tell_of_deaths()
        return found

    def _take(self, played: Played) -> None:
        h = self.hyperparameters
        if len(played.priorities):
            self.replay.set_priorities(self.replay.add(played.rows), played.priorities)
        self.episodes.take(played.episodes)
        self.timesteps += played.n_steps
        if self.timesteps >= h.learning_starts and len(self.replay):
            self._owed += played.n_steps / h.train_every

    def cleanup(self) -> None:
        """End the players."""
        if hasattr(self, "_players"):
            self._players.end()

    def playing(self) -> Any:
        """Random numbers, episodes and environments of each player."""
        return self._players.each("snapshot")

    def play_on(self, playing: Any) -> None:
        """Go on with them; players that are more than there were begin new episodes."""
        self._players.go_on(playing)
        self._shared_weights[:] = self.flat.to_numpy()
