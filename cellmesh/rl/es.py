"""Evolution strategies.

Salimans, Ho, Chen, Sidor, Sutskever, *Evolution Strategies as a Scalable Alternative to Reinforcement Learning*, 2017
(https://arxiv.org/abs/1703.03864), algorithm 2.

    all workers share a table of Gaussian noise and know θ
    repeat:
        for each of n pairs: ε is n_weights numbers of the table, from a random place
            F+ = return of an episode with θ + σ ε,   F- = with θ - σ ε, from the same seed      (antithetic)
        u = centred ranks of all F, from -1/2 to 1/2
        g = 1 / (2 n σ) Σ (u+ - u-) ε,   θ <- θ + Adam(g - weight_decay θ)

θ and the table lie in shared memory; what travels is a place in the table and two returns. Differences: equal returns
share the mean of their ranks, so that a population that is all alike does not walk at random. No torch is needed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from ..api import kill, remote
from ..exceptions import ActorDiedError
from ..shared_memory import shared_array
from ..submit.actor import ActorHandle
from ..submit.actor_class import ActorClass
from ..tune.exceptions import in_words, where
from ..util.actor_pool import ActorPool
from .algorithm import Algorithm, Result
from .envs.makers import made, makers_of, pickled
from .exceptions import WHY_IT_DIED, EnvFailedError, EnvWorkerDiedError
from .hyperparameters import number, sizes
from .models.actions import Actions, n_parameters
from .models.array_model import ArrayModel, n_weights
from .models.encoding import Encoder, stacked
from .policy import Policy

Job = tuple[int, float, int]  # where its noise begins in the table, what it is multiplied by, the episode's seed
Played = tuple[float, int]  # an episode's return and its steps
MAX_RESTARTS = 3  # of each process


@dataclass(frozen=True)
class ESHyperparameters:
    """What evolution strategies may be told.

    Parameters
    ----------
    n_pairs : int, >= 1
        n: how many directions a generation tries, each there and back.
    sigma : float, > 0
        σ: the standard deviation of the noise on each weight.
    lr : float, > 0
        The step size of Adam.
    weight_decay : float, >= 0
        What is taken from each weight, relatively, in the direction of the step.
    n_evaluations : int, >= 1
        Episodes that a generation plays with θ itself: the results' `episode_return_mean`.
    noise_table_size : int, >= 1
        Numbers in the table, of four bytes each.
    hidden : sequence of int
        Widths of hidden layers.
    """

    n_pairs: int = number(32, 1, whole=True)
    sigma: float = number(0.2, 0, above=True)
    lr: float = number(0.1, 0, above=True)
    weight_decay: float = number(0.005, 0)
    n_evaluations: int = number(10, 1, whole=True)
    noise_table_size: int = number(1_000_000, 1, whole=True)
    hidden: tuple[int, ...] = sizes(16)


def centred_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from -1/2 (the least) to 1/2; equal values share the mean of theirs.

    Parameters
    ----------
    values : ndarray of any shape with at least two numbers

    Returns
    -------
    ndarray of that shape; its sum is 0
    """
    flat = values.ravel()
    _, which, counts = np.unique(flat, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    mean_rank = last - (counts - 1) / 2
    return (mean_rank[which] / (flat.size - 1) - 0.5).reshape(values.shape)


class Evaluator:
    """Plays episodes with changed weights."""

    def __init__(
        self, maker: Any, widths: tuple[int, ...], weights: NDArray[np.float32], table: NDArray[np.float32]
    ) -> None:
        (make,) = pickle.loads(maker) if isinstance(maker, bytes) else maker
        self._env = made(make)
        self._encode, self._actions = Encoder(self._env.observation_space), Actions(self._env.action_space)
        self._widths, self._weights, self._table = widths, weights, table

    def play(self, jobs: list[Job]) -> list[Played]:
        """An episode for each job."""
        return [self._episode(*job) for job in jobs]

    def _episode(self, *job: Any) -> Played:
        try:
            total, n_steps = self._played(*job)
        except EnvFailedError:
            raise
        except Exception as error:
            raise EnvFailedError(f"the environment failed in an episode: {in_words(error)}{where(error)}") from error
        if total != total:
            raise EnvFailedError("the environment returned NaN as a reward")
        return total, n_steps

    def _played(self, place: int, scale: float, seed: int) -> Played:
        noise = self._table[place : place + len(self._weights)]
        model = ArrayModel((self._weights + np.float32(scale) * noise).astype(np.float32), self._widths)
        encode, actions, step = self._encode, self._actions, self._env.step
        observation, _ = self._env.reset(seed=seed)
        total, n_steps, over = 0.0, 0, False
        while not over:
            rows = encode(stacked(observation))
            if rows.shape[1:] != encode.shape:
                raise EnvFailedError(
                    f"the environment returned an observation of {rows.size} numbers, and {encode.space} has "
                    f"{encode.shape[0]}"
                )
            said = model(rows)
            if said[0, 0] != said[0, 0] and np.isnan(rows).any():  # NaN in a row is in all that is said of it
                raise EnvFailedError(f"the environment returned NaN in its observation: {observation!r}")
            action = actions.to_env(actions.mode(said))[0]
            observation, reward, terminated, truncated, _ = step(action)
            total += float(reward)
            n_steps += 1
            over = terminated or truncated
        return total, n_steps

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


# An episode is told by its seed, so one that a dying worker left is played again and comes out the same.
EvaluatorActor: ActorClass[Evaluator, type[Evaluator]] = remote(
    num_cpus=0, max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS
)(Evaluator)


def _play_remotely(worker: Any, chunk: list[Job]) -> Any:
    return worker.play.remote(chunk)


class ES(Algorithm):
    """Evolution strategies; `ESHyperparameters` has what they may be told, `Algorithm` the rest. `num_envs` has no
    meaning here: each of `num_workers` processes plays one episode at a time.

    Examples
    --------
    >>> algo = rl.ES("CartPole-v1", num_workers=2, seed=0)
    >>> for result in algo.train(until={"episode_return_mean": 475}):
    ...     print(result["episodes_total"], result["episode_return_mean"], result["population_return_mean"])
    """

    Hyperparameters: ClassVar[type[ESHyperparameters]] = ESHyperparameters
    hyperparameters: ESHyperparameters
    timesteps: int
    _workers: list[ActorHandle[Any]]
    _evaluator: Evaluator | None

    def open(self, config: dict[str, Any], seed: int) -> tuple[Space[Any], Space[Any]]:
        """Look at the spaces; workers are begun when the size of the network is known."""
        self._workers, self._evaluator = [], None
        if isinstance(config["env"], (list, tuple)):
            raise TypeError(f"ES: env={config['env']!r}: one environment, as its processes play alike")
        (self._maker,) = makers_of(config["env"], 1, (), config.get("env_config") or {})
        env = made(self._maker)
        env.close()
        return env.observation_space, env.action_space

    def build(self, seed: int) -> None:
        """θ, small at first; the table; the workers."""
        h, n_workers = self.hyperparameters, int(self.config.get("num_workers", 0))
        if self.encode.is_image:
            raise TypeError("ES: the observations are images, and its network has no convolutions: take PPO or DQN")
        n_outputs = n_parameters(self.action_space)
        self._widths = (self.encode.shape[0], *h.hidden, n_outputs)
        n = n_weights(self._widths)
        if n > h.noise_table_size:
            raise ValueError(f"ES: noise_table_size={h.noise_table_size}, and the network has {n} weights")
        make = shared_array if n_workers else np.zeros
        self._weights, self._table = make(n, np.float32), make(h.noise_table_size, np.float32)
        self._weights[:] = 0.1 * self._fill_table(seed).standard_normal(n, np.float32)
        self._moments, self._n_updates = np.zeros((2, n)), 0
        sent = pickled([self._maker]) if n_workers else [self._maker]
        arguments = sent, self._widths, self._weights, self._table
        self._workers = [EvaluatorActor.remote(*arguments) for _ in range(n_workers)]
        self._evaluator = None if n_workers else Evaluator(*arguments)

    def _fill_table(self, seed: int) -> np.random.Generator:
        rng = np.random.default_rng(seed)
        rng.standard_normal(dtype=np.float32, out=self._table)
        self._table_seed = seed
        return rng

    @property
    def policy(self) -> Policy:
        """The policy with θ of now."""
        return Policy(ArrayModel(self._weights.copy(), self._widths), self.observation_space, self.action_space)

    def learn(self) -> Result:
        """One generation."""
        h, rng = self.hyperparameters, self.rng
        places = rng.integers(len(self._table) - len(self._weights) + 1, size=h.n_pairs)
        seeds = rng.integers(2**31, size=h.n_pairs + h.n_evaluations).tolist()
        pairs = zip(places.tolist(), seeds, strict=False)
        jobs: list[Job] = [(place, sign * h.sigma, seed) for place, seed in pairs for sign in (1, -1)]
        played = self._play(jobs + [(0, 0.0, seed) for seed in seeds[h.n_pairs :]])
        for value, n_steps in played[len(jobs) :]:
            self.episodes.add_episode(value, n_steps)
        self.timesteps += sum(n_steps for _, n_steps in played)
        returns = np.array([value for value, _ in played[: len(jobs)]]).reshape(-1, 2)
        ranks = centred_ranks(returns)
        gradient = np.zeros(len(self._weights))
        for place, (there, back) in zip(places, ranks, strict=True):
            gradient += (there - back) * self._table[place : place + len(gradient)]
        gradient /= ranks.size * h.sigma
        self._step(gradient - h.weight_decay * self._weights)
        return {
            "population_return_mean": float(returns.mean()),
            "population_return_max": float(returns.max()),
            "gradient_norm": float(np.linalg.norm(gradient)),
        }

    def _step(self, gradient: NDArray[np.float64]) -> None:
        """Adam's step uphill (Kingma, Ba, 2014, algorithm 1)."""
        self._n_updates += 1
        first, second = self._moments
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        unbiased = first / (1 - 0.9**self._n_updates)
        self._weights += self.hyperparameters.lr * unbiased / (np.sqrt(second / (1 - 0.999**self._n_updates)) + 1e-8)

    def _play(self, jobs: list[Job]) -> list[Played]:
        if self._evaluator is not None:
            return self._evaluator.play(jobs)
        size = max(1, len(jobs) // (8 * len(self._workers)))  # small, as episodes differ in length
        chunks = [jobs[k : k + size] for k in range(0, len(jobs), size)]
        found: Iterable[list[Played]] = ActorPool(self._workers).map(_play_remotely, chunks)
        try:
            return [played for part in found for played in part]
        except ActorDiedError as error:
            text = f"a process that plays died, and has been replaced {MAX_RESTARTS} times: {WHY_IT_DIED}"
            raise EnvWorkerDiedError(text) from error

    def cleanup(self) -> None:
        """End the workers."""
        for worker in self._workers:
            kill(worker)
        self._workers = []
        if self._evaluator is not None:
            self._evaluator.close()

    def state(self) -> dict[str, Any]:
        """θ, Adam's moments, and the table's seed."""
        return {
            "weights": self._weights.copy(),
            "moments": self._moments,
            "n_updates": self._n_updates,
            "table": (len(self._table), self._table_seed),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        size, seed = state["table"]
        if size != len(self._table):
            raise ValueError(f"noise_table_size={len(self._table)}, and it was {size}")
        self._fill_table(seed)
        self._weights[:] = state["weights"]
        self._moments, self._n_updates = state["moments"], state["n_updates"]
