"""`make_vec`: a vector environment over memory that several processes share."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from types import TracebackType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ...exceptions import ActorDiedError, CellmeshError, MemberDiedError, SessionError
from ...objects import get
from ...refs import ObjectRef
from ...shared_memory import shared_array
from ...text import warn_user
from ..exceptions import WHY_IT_DIED, EnvFailedError, EnvWorkerDiedError, EnvWorkerReplacedWarning, RLError
from .block import Arrays, Batch, Block, Infos, copied, part, write_batch
from .makers import makers_of
from .worker import Description, RemoteBlock, described

Step = tuple[Batch, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


def make_vec(
    env: str | EnvSpec | Callable[[], gym.Env[Any, Any]] | Sequence[Callable[[], gym.Env[Any, Any]]],
    num_envs: int = 1,
    num_workers: int = 0,
    *,
    seed: int | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    copy: bool = True,
    wrappers: Sequence[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = (),
    max_restarts: int = 3,
    **kwargs: Any,
) -> SharedVectorEnv:
    """Make a vector environment: several environments, stepped together, by several processes.

    Parameters
    ----------
    env : str, gymnasium.envs.registration.EnvSpec, callable or sequence of callable
        The id of an environment, its specification, or what makes one; several that make one each stand for
        `num_envs`.
    num_envs : int, >= 1
        How many environments.
    num_workers : int, 0 to num_envs
        How many processes step them, each as many environments, or one more; 0: this process does.
    seed : int, optional
        Environment i gets `seed + i` at the first reset, if that is given no other. None: seeds are drawn.
    autoreset_mode : gymnasium.vector.AutoresetMode
        What becomes of an environment whose episode is over. `NEXT_STEP`: the next step resets it, and its action
        counts for nothing. `SAME_STEP`: the same step resets it, and its last observation is in `infos["final_obs"]`.
        `DISABLED`: you do, by `reset(options={"reset_mask": mask})`.
    copy : bool
        False: observations, rewards and flags are returned as they lie in the shared memory, and the next step writes
        over them.
    wrappers : sequence of callable
        Each is put around every environment, in this order.
    max_restarts : int, >= 0
        How often each worker may be replaced.
    **kwargs
        For `gymnasium.make`.

    Returns
    -------
    SharedVectorEnv
        A `gymnasium.vector.VectorEnv`.

    Raises
    ------
    TypeError
        A space has values without a fixed shape; the environment cannot be sent to a worker; an argument.
    ValueError
        A number is out of range.
    EnvFailedError
        An environment cannot be made, or the environments differ in their spaces.

    Notes
    -----
    Results do not depend on the number of workers. Workers need no CPU of the session's, as whoever steps them waits
    meanwhile.

    If a worker dies its environments' episodes are truncated: reward 0, `infos["worker_died"]`, and the observation is
    the last one that it has written, which may be half the next. It is replaced, an `EnvWorkerReplacedWarning` says so,
    and the new environments get new seeds.
    """
    makers = makers_of(env, num_envs, wrappers, kwargs)
    num_workers, max_restarts = operator.index(num_workers), operator.index(max_restarts)
    if not 0 <= num_workers <= len(makers):
        raise ValueError(f"num_workers={num_workers}: 0 (this process) to num_envs={len(makers)}")
    if max_restarts < 0:
        raise ValueError(f"max_restarts={max_restarts}: it is at least 0")
    return SharedVectorEnv(makers, num_workers, seed, AutoresetMode(autoreset_mode), copy, max_restarts)


class SharedVectorEnv(gym.vector.VectorEnv[Any, Any, NDArray[Any]]):
    """What `make_vec` makes."""

    closed: bool
    num_envs: int
    num_workers: int
    metadata: dict[str, Any]
    render_mode: str | None
    spec: EnvSpec | None
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    def __init__(
        self,
        makers: list[Callable[[], gym.Env[Any, Any]]],
        num_workers: int,
        seed: int | None,
        mode: AutoresetMode,
        copy: bool,
        max_restarts: int,
    ) -> None:
        self.closed = True  # until it is made
        self.num_envs, self.num_workers = len(makers), num_workers
        self._mode, self._copy, self._max_restarts = mode, copy, max_restarts
        self._first_seed = seed
        self._seeds = np.random.SeedSequence(seed)  # of environments that replace others
        self._block: Block | None = None
        self._workers: list[RemoteBlock] = []
        weakref.finalize(self, _kill, self._workers).atexit = False
        self._restarts = [0] * num_workers
        try:
            about = self._begin(makers)
        except BaseException:
            self._abandon()
            raise
        self.closed, self._lost = False, "reset() begins the first episodes"
        self.single_observation_space, self.single_action_space = about.observation_space, about.action_space
        self.observation_space = batch_space(about.observation_space, self.num_envs)
        self.action_space = batch_space(about.action_space, self.num_envs)
        self.metadata = {**about.metadata, "autoreset_mode": mode}
        self.render_mode, self.spec = about.render_mode, about.spec

    def _begin(self, makers: list[Callable[[], gym.Env[Any, Any]]]) -> Description:
        if not self.num_workers:
            self._block = Block(makers, 0, self._mode, "")
            about = described(self._block)
            self._arrays = Arrays.make(about.observation_space, about.action_space, self.num_envs, np.zeros)
            self._block.attach(self._arrays)
            return about
        bounds = np.linspace(0, self.num_envs, self.num_workers + 1).astype(int)
        for number, (first, end) in enumerate(itertools.pairwise(bounds)):
            self._workers.append(RemoteBlock(makers[first:end], int(first), self._mode, number))
        about, *others = self._answers([worker.made for worker in self._workers])
        for worker, other in zip(self._workers[1:], others, strict=True):
            if (other.observation_space, other.action_space) != (about.observation_space, about.action_space):
                raise EnvFailedError(
                    f"environment {worker.first} has the spaces {other.observation_space} and {other.action_space}, "
                    f"and environment 0 has {about.observation_space} and {about.action_space}: all need the same"
                )
        self._arrays = Arrays.make(about.observation_space, about.action_space, self.num_envs, shared_array)
        for worker in self._workers:
            worker.attach(self._arrays.rows(worker.first, worker.n))
        return about

    # ---- gymnasium's interface
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Batch, dict[str, Any]]:
        """Begin new episodes.

        Parameters
        ----------
        seed : int or sequence of int or None, optional
            An int: environment i gets `seed + i`. A sequence: one for each.
        options : dict, optional
            For the environments' `reset`. `{"reset_mask": mask}`, an array of bool of shape (num_envs,): only those are
            reset.

        Returns
        -------
        observations, infos
            Of all environments, and in gymnasium's vector form.
        """
        if self.closed:
            raise RLError("the vector environment is closed")
        if isinstance(seed, (int, np.integer)):
            seed = int(seed)
            super().reset(seed=seed)
        seeds, options = self._seeds_from(seed), None if options is None else dict(options)
        mask = _mask(None if options is None else options.pop("reset_mask", None), self.num_envs)
        if self._lost and mask is not None:
            raise RLError(f"options={{'reset_mask': ...}}: {self._lost}, of all environments")
        infos: Infos = []
        with _Lost(self):
            if self._block is not None:
                infos = self._block.reset(seeds, options, mask)
            for worker in self._workers:
                if not worker.gone:
                    continue
                with suppress(ActorDiedError):  # of which its reset tells
                    worker.begin()
                    worker.attach(self._arrays.rows(worker.first, worker.n))

            def of(worker: RemoteBlock) -> tuple[Any, ...]:
                return seeds[worker.rows], options, None if mask is None else mask[worker.rows]

            def anew(worker: RemoteBlock) -> Infos:
                return self._in_place_of(worker, "Its environments are reset", "reset", *of(worker))

            # Who is asked to go on with some episodes cannot if they are lost.
            for found in self._ask_all("reset", of, anew if mask is None else None):
                infos += found
        return self._observations(), self._in_vector_form(infos)

    def step(self, actions: Batch) -> Step:
        """Step every environment.

        Parameters
        ----------
        actions : a value of `action_space`

        Returns
        -------
        observations, rewards, terminations, truncations, infos
            A row for each environment; infos in gymnasium's vector form.

        Raises
        ------
        EnvFailedError
            An environment raised, or returned NaN or what its spaces do not have. All have to be reset then.
        EnvWorkerDiedError
            A worker died, and has been replaced `max_restarts` times already.
        """
        if self._lost:
            raise RLError(f"step(): {self._lost}")
        write_batch(actions, self._arrays.actions, "the actions")
        infos: Infos = []
        with _Lost(self):
            if self._block is not None:
                infos = self._block.step()
            dead: list[RemoteBlock] = []
            for worker in self._workers:
                try:
                    worker.send()
                except MemberDiedError:
                    dead.append(worker)
            failed: EnvFailedError | None = None
            # The last one first: when it has told, the others have, and this process has slept once.
            for worker in reversed(self._workers):
                try:
                    infos[:0] = worker.receive() if worker not in dead else self._replace(worker)
                except MemberDiedError:
                    infos[:0] = self._replace(worker)
                except EnvFailedError as error:
                    failed = error
            if failed is not None:
                raise failed
        arrays = self._arrays
        flags = arrays.rewards, arrays.terminations, arrays.truncations
        if self._copy:
            flags = arrays.rewards.copy(), arrays.terminations.copy(), arrays.truncations.copy()
        return self._observations(), *flags, self._in_vector_form(infos)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute; the results, one for each."""
        if self._block is not None:
            return tuple(self._block.call(name, args, kwargs))
        found = self._ask_all("call", lambda _: (name, args, kwargs))
        return tuple(value for values in found for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: to one of a list or tuple of values, or all to the same value."""
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"set_attr({name!r}): {len(each)} values for {self.num_envs} environments")
        if self._block is not None:
            self._block.set_attr(name, each)
        self._ask_all("set_attr", lambda worker: (name, list(each[worker.rows])))

    def render(self) -> tuple[Any, ...]:
        """A frame of every environment; they are made with `render_mode="rgb_array"`."""
        return self.call("render")

    def states(self) -> list[bytes | None]:
        """Every environment as it is now, pickled; None: it cannot be (its pickle would be a new one), or its worker
        has died.
        """
        if self._block is not None:
            return self._block.states()
        found = self._ask_all("states", lambda _: (), lambda worker: [None] * worker.n)
        return [state for states in found for state in states]

    def restore(self, states: Sequence[bytes | None]) -> bool:
        """Go on with environments as `states` told them; False, and nothing has changed: not all are there."""
        told = [state for state in states if state is not None]
        if len(told) != self.num_envs:
            return False
        if self._block is not None:
            self._block.restore(told)
        self._ask_all("restore", lambda worker: (told[worker.rows],))
        self._lost = ""
        return True

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment and end the workers."""
        if self._block is not None:
            self._block.close()
        for worker in self._workers:
            # Of a process that has died nothing is left to close.
            with suppress(MemberDiedError, ActorDiedError, SessionError):
                if not worker.gone:
                    get(worker.ask("close"))
        self._abandon()

    # ---- what workers are asked, and what goes wrong
    def _ask_all(
        self,
        method: str,
        arguments: Callable[[RemoteBlock], tuple[Any, ...]],
        instead: Callable[[RemoteBlock], Any] | None = None,
    ) -> list[Any]:
        """What a method returns in each worker, or `instead` of one that has died."""
        return self._answers([worker.ask(method, *arguments(worker)) for worker in self._workers], instead)

    def _answers(self, refs: list[ObjectRef[Any]], instead: Callable[[RemoteBlock], Any] | None = None) -> list[Any]:
        """What workers answer; the first one's error if there are errors, and all have been heard."""
        found: list[Any] = []
        failed: CellmeshError | None = None
        for worker, ref in zip(self._workers, refs, strict=True):
            try:
                found.append(get(ref))
            except ActorDiedError:
                if instead is not None:
                    found.append(instead(worker))
                    continue
                remedy = "" if self.closed else ". The next step, or reset() of all, replaces it"
                failed = failed or EnvWorkerDiedError(f"{worker} has died: {WHY_IT_DIED}{remedy}")
            except CellmeshError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return found

    def _in_place_of(self, worker: RemoteBlock, so: str, method: str, *arguments: Any) -> Any:
        """Put a new process in the place of one that has died, and call a method there."""
        while True:
            if self._restarts[worker.number] >= self._max_restarts:
                raise EnvWorkerDiedError(
                    f"{worker} died, and has been replaced {self._max_restarts} times: {WHY_IT_DIED}. "
                    "max_restarts= of make_vec allows more"
                )
            self._restarts[worker.number] += 1
            worker.kill()
            warn_user(f"{worker} died. It is replaced. {so}", EnvWorkerReplacedWarning)
            worker.begin()
            with suppress(ActorDiedError):
                worker.attach(self._arrays.rows(worker.first, worker.n))
                return get(worker.ask(method, *arguments))

    def _replace(self, worker: RemoteBlock) -> Infos:
        """Put a new worker in the place of one that has died in a step; what its environments tell of it."""
        rows = self._arrays.rows(worker.first, worker.n)
        so = "Their episodes are truncated: infos['worker_died']"
        infos: Infos = [(worker.first + i, {"worker_died": True}) for i in range(worker.n)]
        seeds = [int(seed) for seed in self._seeds.spawn(1)[0].generate_state(worker.n)]
        if self._mode is AutoresetMode.SAME_STEP:
            last = [(worker.first + i, {"final_obs": deepcopy(part(rows.observations, i))}) for i in range(worker.n)]
            infos += [*last, *self._in_place_of(worker, so, "reset", seeds, None, None)]
        else:
            self._in_place_of(worker, so, "reset_at_next_step", seeds)
        rows.rewards[:], rows.terminations[:], rows.truncations[:] = 0.0, False, True
        return infos

    def _abandon(self) -> None:
        """End the workers at once, wherever they are."""
        _kill(self._workers)

    # ---- values
    def _seeds_from(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            seed, self._first_seed = self._first_seed, None
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int):
            return [seed + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: {len(seed)} seeds for {self.num_envs} environments")
        return list(seed)

    def _observations(self) -> Batch:
        return copied(self._arrays.observations) if self._copy else self._arrays.observations

    def _in_vector_form(self, infos: Infos) -> dict[str, Any]:
        vector: dict[str, Any] = {}
        for i, info in infos:
            vector = self._add_info(vector, info, i)
        return vector


def _kill(workers: list[RemoteBlock]) -> None:
    for worker in workers:
        with suppress(SessionError):  # they ended with it
            worker.kill()


class _Lost:
    """While environments step or are reset: if that ends in an exception, nobody knows how far each is, so workers end
    and only a reset begins again.
    """

    def __init__(self, envs: SharedVectorEnv) -> None:
        self._envs = envs

    def __enter__(self) -> None:
        self._envs._lost = "it was left in the middle of a step, and only reset() begins new episodes"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._envs._lost = ""
        else:
            self._envs._abandon()


def _mask(mask: Any, n: int) -> NDArray[np.bool_] | None:
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options={{'reset_mask': {mask!r}}}: it is an array of bool")
    if mask.shape != (n,) or not mask.any():
        raise ValueError(f"options={{'reset_mask': {mask!r}}}: it has the shape ({n},), and at least one is True")
    return mask
