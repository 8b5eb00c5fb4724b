"""Some environments that one process steps one after the other, writing what they return into arrays that others see.

A block is the part of a vector environment that one process has: the environments `first` to `first + n - 1`. The same
code runs in a worker and, with `num_workers=0`, in the caller's process, so what is learnt does not depend on how many
workers there are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, create_empty_array, iterate
from numpy.typing import NDArray

from ...objstore import code_pickles
from ...tune.exceptions import in_words, where
from ..exceptions import EnvFailedError
from .makers import made

Infos = list[tuple[int, dict[str, Any]]]  # (number of the environment, what it told), in order
Batch = Any  # an array, or dicts and tuples of arrays: observations or actions of several environments
FIXED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass(frozen=True)
class Arrays:
    """What passes between the caller and the environments, a row for each environment."""

    observations: Batch
    actions: Batch
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]

    @classmethod
    def make(cls, observation: gym.Space[Any], action: gym.Space[Any], n: int, make: Callable[..., Any]) -> Arrays:
        """Arrays for `n` environments with these spaces; `make(shape, dtype)` makes one."""
        return cls(
            create_empty_array(observation, n, make),
            create_empty_array(action, n, make),
            *(make((n,), dtype=dtype) for dtype in (np.float64, np.bool_, np.bool_)),
        )

    def rows(self, first: int, n: int) -> Arrays:
        """The same memory, of some environments alone."""
        return Arrays(*(part(values, slice(first, first + n)) for values in vars(self).values()))


def part(values: Batch, rows: slice | int) -> Batch:
    """Rows of a batch."""
    if isinstance(values, dict):
        return {name: part(value, rows) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(part(value, rows) for value in values)
    return values[rows]


def copied(values: Batch) -> Batch:
    """A batch of its own."""
    if isinstance(values, np.ndarray):
        return values.copy()
    if isinstance(values, dict):
        return {name: copied(value) for name, value in values.items()}
    return tuple(copied(value) for value in values)


def write_batch(values: Batch, to: Batch, name: str) -> None:
    """Write a batch into arrays, `ValueError` if it has another shape; `name`: for that."""
    if isinstance(to, np.ndarray):
        array = np.asarray(values)
        if array.shape != to.shape:
            raise ValueError(f"{name} have the shape {array.shape}, and the environments need {to.shape}")
        to[:] = array
        return
    if type(values) is not type(to) or len(values) != len(to):
        raise ValueError(f"{name} are {values!r}, and the environments need a {type(to).__name__} of {len(to)}")
    for key in to if isinstance(to, dict) else range(len(to)):
        if isinstance(to, dict) and key not in values:
            raise ValueError(f"{name} have no {key!r}")
        write_batch(values[key], to[key], f"{name}[{key!r}]")


def check_space(space: gym.Space[Any], what: str) -> None:
    """`TypeError` if values of a space do not fit into arrays of one shape."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for name, inner in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            check_space(inner, f"{what}[{name!r}]")
    elif not isinstance(space, FIXED):
        raise TypeError(
            f"{what} is {space}, whose values have no fixed shape: Box, Discrete, MultiDiscrete and MultiBinary can be "
            "shared, and Dict and Tuple of them"
        )


class Block:
    """Environments `first` to `first + len(makers) - 1`.

    Parameters
    ----------
    makers : sequence of callable
        Each makes an environment.
    first : int
        The number of the first one.
    mode : AutoresetMode
    where : str
        Names the process in errors: " (worker 1)", or "".
    """

    first: int
    envs: list[gym.Env[Any, Any]]
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    _seeds: list[int | None]  # of the next reset, of environments that replace others

    def __init__(self, makers: Sequence[Callable[[], gym.Env[Any, Any]]], first: int, mode: AutoresetMode, where: str):
        self.first, self._where = first, where
        # Members by themselves: in Python 3.11 looking one up in its class takes 0.1 us.
        self._is_same_step, self._is_disabled = mode is AutoresetMode.SAME_STEP, mode is AutoresetMode.DISABLED
        self.envs = [made(make, self._name(i)) for i, make in enumerate(makers)]
        env = self.envs[0]
        self.observation_space, self.action_space = env.observation_space, env.action_space
        check_space(self.observation_space, "the observation space")
        check_space(self.action_space, "the action space")
        for i, other in enumerate(self.envs):
            self.check_spaces(i, other.observation_space, other.action_space)
        self._batch_of_actions = batch_space(self.action_space, len(self.envs))
        self._over = np.zeros(len(self.envs), np.bool_)  # whose episode is over: reset at the next step
        self._seeds = [None] * len(self.envs)

    def check_spaces(self, i: int, observation: gym.Space[Any], action: gym.Space[Any]) -> None:
        """`EnvFailedError` if an environment has other spaces than the first."""
        if observation != self.observation_space or action != self.action_space:
            raise EnvFailedError(
                f"{self._name(i)} has the spaces {observation} and {action}, and environment {self.first} has "
                f"{self.observation_space} and {self.action_space}: all environments need the same"
            )

    def attach(self, arrays: Arrays) -> None:
        """From now on write to these rows."""
        self._arrays = arrays
        self._write = _writer(self.observation_space, arrays.observations)
        floats = [values for values in _leaves(arrays.observations) if values.dtype.kind == "f" and values.size]
        numbers = [(arrays.rewards, "reward"), *((values, "observation") for values in floats)]
        self._numbers = [(values, values.reshape(-1), what) for values, what in numbers]

    # ---- what a vector environment asks for
    def reset(
        self, seeds: Sequence[int | None], options: dict[str, Any] | None, mask: NDArray[np.bool_] | None
    ) -> Infos:
        """Begin new episodes, of those in the mask if there is one."""
        infos: Infos = []
        for i, seed in enumerate(seeds):
            if mask is None or mask[i]:
                self._reset(i, infos, seed=self._seeds[i] if seed is None else seed, options=options)
                self._seeds[i] = None
                self._over[i] = self._arrays.terminations[i] = self._arrays.truncations[i] = False
                self._arrays.rewards[i] = 0.0
        self._check_numbers()
        return [(self.first + i, info) for i, info in infos]

    def reset_at_next_step(self, seeds: Sequence[int]) -> None:
        """All episodes are over, as those of a worker that has died."""
        self._over[:], self._seeds[:] = True, seeds

    def step(self) -> Infos:
        """Step every environment with its row of the actions."""
        arrays, infos = self._arrays, Infos()
        rewards, ended, cut = [], [], []
        # A copy, as an environment may keep its action.
        actions = copied(arrays.actions)
        for i, (env, action, is_over) in enumerate(
            zip(self.envs, self._iterate(actions), self._over.tolist(), strict=True)
        ):
            if is_over:
                if self._is_disabled:
                    raise EnvFailedError(
                        f"{self._name(i)}: its episode is over, and nothing resets it in this autoreset mode: "
                        'reset(options={"reset_mask": ...})'
                    )
                self._reset(i, infos, seed=self._seeds[i])
                self._seeds[i] = None
                reward, terminated, truncated = 0.0, False, False
            else:
                try:
                    observation, reward, terminated, truncated, info = env.step(action)
                except Exception as error:
                    raise self._failed(i, "raised in step", error) from error
                if self._is_same_step and (terminated or truncated):
                    # A copy, as an environment may write its next observation into the same array.
                    infos.append((i, {"final_obs": deepcopy(observation), "final_info": info}))
                    self._reset(i, infos)
                else:
                    self._keep(i, observation, info, infos)
            rewards.append(reward)
            ended.append(terminated)
            cut.append(truncated)
        self._fill(arrays.rewards, rewards, "reward")
        self._fill(arrays.terminations, ended, "`terminated`")
        self._fill(arrays.truncations, cut, "`truncated`")
        if self._is_same_step:
            self._over[:] = False
        else:
            np.logical_or(arrays.terminations, arrays.truncations, out=self._over)
        self._check_numbers()
        return [(self.first + i, info) for i, info in infos]

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Call a method of every environment, or read an attribute."""
        found = []
        for i, env in enumerate(self.envs):
            value = self._of_user(i, f"has no attribute {name}", lambda env=env: env.get_wrapper_attr(name))
            if callable(value):
                value = self._of_user(i, f"raised in {name}", lambda method=value: method(*args, **kwargs))
            found.append(value)
        return found

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of every environment."""
        for env, value in zip(self.envs, values, strict=True):
            env.set_wrapper_attr(name, value)

    def states(self) -> list[bytes | None]:
        """Every environment as it is now, None if it cannot be told."""
        return [_state_of(env) for env in self.envs]

    def restore(self, states: Sequence[bytes]) -> None:
        """Go on with environments as they were."""
        self.close()
        self.envs = [pickle.loads(state) for state in states]
        self._over[:] = False

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    # ---- one environment
    def _reset(self, i: int, infos: Infos, **arguments: Any) -> None:
        observation, info = self._of_user(i, "raised in reset", lambda: self.envs[i].reset(**arguments))
        self._keep(i, observation, info, infos)

    def _keep(self, i: int, observation: Any, info: dict[str, Any], infos: Infos) -> None:
        try:
            self._write(i, observation)
        except (TypeError, ValueError, KeyError) as error:
            raise EnvFailedError(f"{self._name(i)} returned an observation that is not of its space: {error}") from None
        if info:
            infos.append((i, info))

    def _iterate(self, actions: Batch) -> Iterable[Any]:
        return actions if isinstance(actions, np.ndarray) else iterate(self._batch_of_actions, actions)

    def _fill(self, array: NDArray[Any], values: list[Any], what: str) -> None:
        try:
            array[:] = values
        except (TypeError, ValueError):
            wrong = next((i for i, value in enumerate(values) if np.ndim(value) or not np.isreal(value)), 0)
            raise EnvFailedError(
                f"{self._name(wrong)} returned the {what} {values[wrong]!r}: it is one number"
            ) from None

    def _check_numbers(self) -> None:
        """`EnvFailedError` if a reward or an observation is NaN: of squares no other sum is."""
        for values, flat, what in self._numbers:
            if (total := flat.dot(flat)) != total:
                wrong = int(np.isnan(values).reshape(len(values), -1).any(axis=1).argmax())
                raise EnvFailedError(f"{self._name(wrong)} returned NaN in its {what}: {values[wrong]!r}")

    def _of_user(self, i: int, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise self._failed(i, what, error) from error

    def _failed(self, i: int, what: str, error: Exception) -> EnvFailedError:
        return EnvFailedError(f"{self._name(i)} {what}: {in_words(error)}{where(error)}")

    def _name(self, i: int) -> str:
        return f"environment {self.first + i}{self._where}"


def _state_of(env: gym.Env[Any, Any]) -> bytes | None:
    inner: Any = env
    while inner is not None:
        if isinstance(inner, EzPickle):  # its pickle has the constructor's arguments alone
            return None
        inner = getattr(inner, "env", None)
    try:
        return code_pickles.dumps(env)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError, NotImplementedError):
        return None  # it holds what no pickle can: a window, a connection


def _leaves(values: Batch) -> list[NDArray[Any]]:
    if isinstance(values, np.ndarray):
        return [values]
    return [leaf for inner in (values.values() if isinstance(values, dict) else values) for leaf in _leaves(inner)]


def _writer(space: gym.Space[Any], values: Batch) -> Callable[[int, Any], None]:
    """What writes a value of a space into a row, having looked at its shape and dtype."""
    if isinstance(space, spaces.Dict):
        inner = [(name, _writer(one, values[name])) for name, one in space.spaces.items()]
        return lambda i, value: _write_dict(inner, i, value)
    if isinstance(space, spaces.Tuple):
        each = [_writer(one, values[k]) for k, one in enumerate(space.spaces)]
        return lambda i, value: _write_tuple(each, i, value)
    shape, dtype = space.shape, values.dtype

    def write(i: int, value: Any) -> None:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if array.shape != shape or (array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind")):
            raise ValueError(f"{array.dtype} of shape {array.shape}, and the space is {dtype} of shape {shape}")
        values[i] = array

    return write


def _write_dict(inner: list[tuple[str, Callable[[int, Any], None]]], i: int, value: Any) -> None:
    if not isinstance(value, dict) or len(value) != len(inner):
        found = f"a dict of {', '.join(map(repr, value))}" if isinstance(value, dict) else repr(value)
        raise TypeError(f"{found}, and the space is a Dict of {', '.join(repr(name) for name, _ in inner)}")
    for name, write in inner:
        write(i, value[name])


def _write_tuple(each: list[Callable[[int, Any], None]], i: int, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != len(each):
        raise TypeError(f"{value!r}, and the space is a Tuple of {len(each)}")
    for write, one in zip(each, value, strict=True):
        write(i, one)
