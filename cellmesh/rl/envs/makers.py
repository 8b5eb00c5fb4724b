"""What makes the environments of a vector environment, from what a user names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ...objstore import code_pickles
from ...tune.exceptions import in_words, where
from ..exceptions import EnvFailedError


def makers_of(
    env: Any, num_envs: int, wrappers: Sequence[Callable[..., Any]], kwargs: dict[str, Any]
) -> list[Callable[[], gym.Env[Any, Any]]]:
    """A function for each environment that makes it, with its wrappers; the arguments are those of `make_vec`."""
    if isinstance(env, Sequence) and not isinstance(env, str):
        given = list(env)
        if num_envs not in (1, len(given)) or not given:
            raise ValueError(f"num_envs={num_envs}, and {len(given)} environments are given")
    else:
        num_envs = operator.index(num_envs)
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs}: it is at least 1")
        given = [env] * num_envs
    return [_maker(one, tuple(wrappers), kwargs) for one in given]


def first_of(env: Any) -> Any:
    """The first one, where several environments are given."""
    return env[0] if isinstance(env, (list, tuple)) else env


def made(make: Callable[[], Any], name: str = "the environment") -> gym.Env[Any, Any]:
    """An environment; `EnvFailedError` if that raises, `TypeError` if it is none. `name`: for these."""
    try:
        env = make()
    except Exception as error:
        raise EnvFailedError(f"{name} could not be made: {in_words(error)}{where(error)}") from error
    if not isinstance(env, gym.Env):
        raise TypeError(f"{name} is {env!r}: what makes an environment returns a gymnasium.Env")
    return env


def pickled(makers: Sequence[Callable[[], Any]]) -> bytes:
    """What makes environments, as it is sent to a worker; `TypeError` if it cannot be."""
    try:
        return code_pickles.dumps(list(makers))
    except Exception as error:
        raise TypeError(
            f"the environment cannot be sent to a worker: {type(error).__name__}: {error}. What is called to make one "
            "must be picklable, so let it make what cannot be (a connection, a lock, an open file) when it is called; "
            "or num_workers=0"
        ) from error


def _maker(env: Any, wrappers: tuple[Callable[..., Any], ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    if isinstance(env, str):
        if env.startswith("ALE/"):
            _register_atari()
        # Looked up here, as what a notebook has registered is not known to a worker.
        env = gym.spec(env)
    if isinstance(env, EnvSpec):
        # Values are checked as they are written.
        make = partial(gym.make, env, **{"disable_env_checker": True, **kwargs})
    elif callable(env):
        if kwargs:
            raise TypeError(f"{', '.join(kwargs)}: arguments of gymnasium.make, and {env!r} is called without any")
        make = env
    else:
        raise TypeError(f"env={env!r}: the id of an environment, an EnvSpec, or what makes one when it is called")

    def make_wrapped() -> Any:
        one = make()
        for wrapper in wrappers:
            one = wrapper(one)
        return one

    return make_wrapped


def _register_atari() -> None:
    try:
        import ale_py
    except ModuleNotFoundError as error:
        if error.name != "ale_py":
            raise
        text = "Atari games need ale-py: pip install 'cellmesh[atari]'"
        raise ModuleNotFoundError(text, name="ale_py") from None
    gym.register_envs(ale_py)
