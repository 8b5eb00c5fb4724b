"""Processes that play for an algorithm, each with environments of its own: A3C's learners and Ape-X's players.

Where `num_workers` is 0 one of them plays in the caller's process, so it is the same every time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from ..api import kill, remote
from ..exceptions import ActorDiedError, CellmeshError
from ..objects import get
from ..refs import ObjectRef
from ..shared_memory import shared_array
from ..submit.actor import ActorHandle
from ..text import warn_user
from .algorithm import OF_ALL
from .envs.makers import made, makers_of, pickled
from .episodes.statistics import EpisodeStatistics
from .exceptions import WHY_IT_DIED, EnvWorkerDiedError, EnvWorkerReplacedWarning
from .stepping import SteppingAlgorithm

MAX_RESTARTS = 3  # of each


@dataclass(frozen=True)
class Place:
    """Which of the players one is, and what it plays."""

    number: int
    n_players: int
    makers: bytes | list[Callable[[], gym.Env[Any, Any]]]  # of its environments; a pickle, for another process
    hyperparameters: dict[str, Any]
    seed: int  # of all players
    starts: NDArray[np.int64]  # how often each was begun: once, and after each death


class Player(SteppingAlgorithm):
    """Who plays; an algorithm derives from it and says what becomes of what was played."""

    episodes: EpisodeStatistics

    def __init__(self, place: Place) -> None:
        place.starts[place.number] += 1
        # One that takes another's place plays something else.
        root = np.random.SeedSequence([place.seed, place.number, int(place.starts[place.number])])
        makers = pickle.loads(place.makers) if isinstance(place.makers, bytes) else place.makers
        envs = {"env": makers, "num_envs": len(makers), "seed": int(root.generate_state(1)[0])}
        super().__init__({**place.hyperparameters, **envs})

    def wait_until_made(self) -> None:
        """Called as an actor's method, it returns when there is a player."""

    def snapshot(self) -> dict[str, Any]:
        """What this player goes on from, picklable."""
        return {"rng": self.rng.bit_generator.state, "episodes": self.episodes, "playing": self.playing()}

    def go_on(self, snapshot: dict[str, Any]) -> None:
        """Go on from what `snapshot` returned."""
        self.rng.bit_generator.state, self.episodes = snapshot["rng"], snapshot["episodes"]
        self.play_on(snapshot["playing"])


class Players:
    """All players of an algorithm, as its process has them.

    Parameters
    ----------
    kind : subclass of Player
    config : dict
        Of the algorithm: `num_workers` players of `num_envs` environments each.
    seed : int
    """

    NUM_ENVS: ClassVar[int] = 8
    num_envs: int
    spaces: tuple[Space[Any], Space[Any]]

    def __init__(self, kind: type[Player], config: dict[str, Any], seed: int) -> None:
        self._kind, self._seed, self._n_workers = kind, seed, int(config.get("num_workers", 0))
        self._here: Player | None = None
        self.actors: list[ActorHandle[Any]] = []
        makers = makers_of(config["env"], config.get("num_envs", self.NUM_ENVS), (), config.get("env_config") or {})
        env = made(makers[0])
        env.close()
        self.spaces, self.num_envs = (env.observation_space, env.action_space), len(makers)
        hyperparameters = {name: value for name, value in config.items() if name not in OF_ALL}
        starts = self.make(len(self), np.int64)
        sent = pickled(makers) if self._n_workers else makers
        self._place = Place(0, len(self), sent, hyperparameters, seed, starts)

    def __len__(self) -> int:
        return max(1, self._n_workers)

    def make(self, shape: Any, dtype: Any) -> NDArray[Any]:
        """An array of zeros that all players see."""
        return (shared_array if self._n_workers else np.zeros)(shape, dtype)

    def begin(self, *arguments: Any) -> None:
        """Begin the players, with what their class takes beside its place."""
        if not self._n_workers:
            self._here = self._kind(self._place, *arguments)
            return
        # A call that a dying player was in is made again by the one in its place.
        kind = remote(num_cpus=0, max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS)(self._kind)
        self.actors = [kind.remote(replace(self._place, number=k), *arguments) for k in range(self._n_workers)]
        self._n_starts = self._n_workers
        self.each("wait_until_made")  # what cannot be made is told here

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of each player returns; the first error if there are errors, and all have been heard."""
        if self._here is not None:
            return [getattr(self._here, method)(*arguments)]
        found: list[Any] = []
        failed: CellmeshError | None = None
        for k, ref in enumerate([self.ask(k, method, *arguments) for k in range(len(self))]):
            try:
                found.append(self.answer(ref, k))
            except CellmeshError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        self.tell_of_deaths()
        return found

    def ask(self, number: int, method: str, *arguments: Any) -> ObjectRef[Any]:
        """Call a method of one player that is another process."""
        return getattr(self.actors[number], method).remote(*arguments)

    def answer(self, ref: ObjectRef[Any], number: int) -> Any:
        """What a player answers.

        Raises
        ------
        EnvWorkerDiedError
            It has died too often.
        """
        try:
            return get(ref)
        except ActorDiedError as error:
            if error.cause is not None:  # its constructor has raised
                raise
            raise EnvWorkerDiedError(
                f"process {number} of those that play died, and has been replaced {MAX_RESTARTS} times: {WHY_IT_DIED}"
            ) from error

    def tell_of_deaths(self) -> None:
        """Warn if players have died since the last time."""
        starts = self._place.starts
        if (n_starts := int(starts.sum())) > self._n_starts:
            died = ", ".join(str(k) for k in np.flatnonzero(starts > 1))
            warn_user(
                f"{n_starts - self._n_starts} of the processes that play died, of number {died}. They are replaced, "
                "and the episodes they were in are lost",
                EnvWorkerReplacedWarning,
            )
            self._n_starts = n_starts

    def go_on(self, snapshots: list[dict[str, Any]]) -> None:
        """Have players go on from their snapshots; those that are more than there were begin new episodes."""
        if self._here is not None:
            self._here.go_on(snapshots[0])
        for k in range(min(len(self.actors), len(snapshots))):
            self.answer(self.ask(k, "go_on", snapshots[k]), k)

    def end(self) -> None:
        """End all players."""
        for actor in self.actors:
            kill(actor)
        self.actors = []
        if self._here is not None:
            self._here.cleanup()
