"""A process that steps some environments of a vector environment, and the caller's end of it.

While episodes run the worker is inside one call, `serve`. A step has two barriers of the worker and its caller: at the
first the worker waits for the actions, and the caller only arrives; at the second it is the other way round
(decision 150). What has no fixed shape (infos) goes through a buffer of bytes. Everything else (reset, attributes, the
end) is a call of the actor, for which it leaves `serve`. An environment that raises ends `serve`, so the error travels
as any task's error does; a process that dies breaks the barriers, which is the caller's `MemberDiedError` at once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...api import kill, remote
from ...exceptions import ActorDiedError, MemberDiedError
from ...objects import get
from ...objstore import code_pickles
from ...refs import ObjectRef
from ...shared_memory import shared_array
from ...submit.actor import ActorHandle
from ...util.shared_sync import Barrier
from .block import Arrays, Block, Infos
from .makers import pickled

GO_ON, LEAVE = 0, 1  # what the caller says
DONE, RAISED, FULL = 0, 1, 2  # what the worker says: FULL: the infos need a larger buffer
COMMAND, STATUS, N_BYTES = 0, 1, 2  # places in `control`
BUFFER_BYTES = 64 << 10  # of infos at first


@dataclass(frozen=True)
class Channel:
    """What a worker and its caller share while steps are made."""

    actions_there: Barrier
    results_there: Barrier
    control: NDArray[np.int64]
    buffer: NDArray[np.uint8]


@dataclass(frozen=True)
class Description:
    """What a vector environment tells of its environments."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    metadata: dict[str, Any]
    render_mode: str | None
    spec: Any


def described(block: Block) -> Description:
    """The description of a block's first environment."""
    env = block.envs[0]
    return Description(env.observation_space, env.action_space, dict(env.metadata), env.render_mode, env.spec)


@remote(num_cpus=0)  # beside the trainer that waits for it, however many CPUs there are
class EnvWorker:
    """The actor."""

    _unsent = b""

    def make(self, makers: bytes, first: int, mode: AutoresetMode, number: int) -> Description:
        self._block = Block(pickle.loads(makers), first, mode, f" (worker {number})")
        return described(self._block)

    def attach(self, arrays: Arrays, channel: Channel) -> None:
        """Write to these rows, and join the barriers: whoever comes there from now on hears of this process's death."""
        self._block.attach(arrays)
        for barrier in (channel.actions_there, channel.results_there):
            with suppress(TimeoutError):
                barrier.wait(0)

    def reset(self, seeds: list[int | None], options: dict[str, Any] | None, mask: NDArray[np.bool_] | None) -> Infos:
        return self._block.reset(seeds, options, mask)

    def reset_at_next_step(self, seeds: list[int]) -> None:
        self._block.reset_at_next_step(seeds)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return self._block.call(name, args, kwargs)

    def set_attr(self, name: str, values: list[Any]) -> None:
        self._block.set_attr(name, values)

    def states(self) -> list[bytes | None]:
        return self._block.states()

    def restore(self, states: list[bytes]) -> None:
        self._block.restore(states)

    def serve(self, channel: Channel) -> None:
        """Step when told to, until told to leave."""
        control, buffer, tell = channel.control, channel.buffer, channel.results_there.arrive
        if self._unsent:  # the buffer was too small, and this one is large enough
            _put(self._unsent, control, buffer)
            self._unsent = b""
            tell()
        while True:
            channel.actions_there.wait()
            if control[COMMAND] == LEAVE:
                return
            try:
                infos = self._block.step()
                packed = _packed(infos) if infos else b""
            except BaseException:
                control[STATUS] = RAISED
                tell()
                raise
            if len(packed) > len(buffer):
                self._unsent = packed
                control[STATUS], control[N_BYTES] = FULL, len(packed)
                tell()
                return
            _put(packed, control, buffer)
            tell()

    def close(self) -> None:
        self._block.close()


def _put(packed: bytes, control: NDArray[np.int64], buffer: NDArray[np.uint8]) -> None:
    control[STATUS], control[N_BYTES] = DONE, len(packed)
    if packed:
        buffer[: len(packed)] = np.frombuffer(packed, np.uint8)


def _packed(infos: Infos) -> bytes:
    try:
        return pickle.dumps(infos, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):  # classes of a notebook travel by value
        return code_pickles.dumps(infos)


class RemoteBlock:
    """The caller's end: environments `first` to `first + n - 1`, in a worker of their own.

    Parameters
    ----------
    makers : sequence of callable
    first, number : int
        Of the first environment, and of the worker.
    mode : AutoresetMode
    """

    first: int
    n: int
    number: int
    rows: slice[int, int, None]
    gone: bool

    def __init__(self, makers: Sequence[Callable[[], Any]], first: int, mode: AutoresetMode, number: int) -> None:
        self.first, self.n, self.number = first, len(makers), number
        self.rows = slice(first, first + len(makers))
        self._makers, self._mode = pickled(makers), mode
        self._serving: ObjectRef[Any] | None = None
        self.begin()

    def begin(self) -> None:
        """Start the process."""
        self.gone = False
        self._actor: ActorHandle[Any] = EnvWorker.remote()
        self.made: ObjectRef[Description] = self._actor.make.remote(self._makers, self.first, self._mode, self.number)
        self._control = shared_array(3, np.int64)
        self._channel = Channel(Barrier(2), Barrier(2), self._control, shared_array(BUFFER_BYTES, np.uint8))

    def attach(self, arrays: Arrays) -> None:
        get(self.made)
        get(self._actor.attach.remote(arrays, self._channel))

    # ---- a step: `send` for all workers, then `receive`
    def send(self) -> None:
        """Have the worker step: the actions are written."""
        if self._serving is None:
            self._serving = self._actor.serve.remote(self._channel)
        self._channel.actions_there.arrive()

    def receive(self) -> Infos:
        """Wait for the results.

        Raises
        ------
        EnvFailedError
            Of an environment.
        MemberDiedError
            The worker died, also of `send`.
        """
        self._channel.results_there.wait()
        status, n_bytes = int(self._control[STATUS]), int(self._control[N_BYTES])
        if status == RAISED:
            get(self._left())
        if status == FULL:
            get(self._left())
            self._channel = replace(self._channel, buffer=shared_array(2 * n_bytes, np.uint8))
            self._serving = self._actor.serve.remote(self._channel)
            return self.receive()
        return pickle.loads(self._channel.buffer[:n_bytes].data) if n_bytes else []

    # ---- everything else
    def ask(self, method: str, *arguments: Any) -> ObjectRef[Any]:
        """Call a method of the actor, which is not within a step. If it has died the answer is an `ActorDiedError`."""
        if self._serving is not None:
            self._control[COMMAND] = LEAVE
            with suppress(MemberDiedError, ActorDiedError):
                self._channel.actions_there.arrive()
                get(self._left())
            self._control[COMMAND] = GO_ON
        return getattr(self._actor, method).remote(*arguments)

    def __str__(self) -> str:
        return f"worker {self.number} of environments {self.first} to {self.first + self.n - 1}"

    def kill(self) -> None:
        """End the process at once, wherever it is."""
        if not self.gone:
            self.gone, self._serving = True, None
            kill(self._actor)

    def _left(self) -> ObjectRef[Any]:
        serving, self._serving = self._serving, None
        assert serving is not None
        return serving
