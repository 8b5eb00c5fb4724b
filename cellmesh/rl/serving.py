"""`serve`: a policy in an actor, for many callers at a time.

Observations that wait are put together and go through the network as one batch: its cost is that of the call more than
that of the rows.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..api import remote
from ..submit.actor import ActorHandle
from .policy import Policy


class PolicyServer:
    """The actor behind `serve`; its methods are called as `server.act.remote(observation)`."""

    def __init__(self, policy: Policy, max_batch: int) -> None:
        self._policy, self._max_batch = policy, max_batch
        self._waiting: list[tuple[NDArray[Any], asyncio.Future[Any]]] = []
        self._n_rows = self._n_batches = 0

    async def act(self, observation: Any) -> Any:
        """The action for an observation."""
        return (await self._queue(self._policy.encoded(observation)))[0]

    async def act_batch(self, observations: Any) -> Any:
        """Actions for a batch of observations: one call for many rows costs least."""
        return await self._queue(self._policy.encoded(observations, several=True))

    def update(self, policy: Policy) -> None:
        """Serve another policy from now on."""
        self._policy = policy

    def stats(self) -> dict[str, int]:
        """How many observations, and in how many batches."""
        return {"observations": self._n_rows, "batches": self._n_batches}

    async def _queue(self, rows: NDArray[Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((rows, future))
        if len(self._waiting) == 1:
            loop.call_soon(self._answer)  # after the calls that have arrived by now
        return await future

    def _answer(self) -> None:
        """Answer those who wait, as many as fit into a batch."""
        n, taken = 0, 0
        while taken < len(self._waiting) and (taken == 0 or n + len(self._waiting[taken][0]) <= self._max_batch):
            n += len(self._waiting[taken][0])
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._answer)
        self._n_rows, self._n_batches = self._n_rows + n, self._n_batches + 1
        try:
            actions = self._policy.act_on(np.concatenate([rows for rows, _ in batch]))
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for rows, future in batch:
            end = start + len(rows)
            if not future.done():  # a call that was cancelled
                future.set_result(actions[start:end])
            start = end


def serve(
    policy: Policy, *, name: str | None = None, max_batch: int = 256, max_pending: int = 10_000, num_cpus: float = 1
) -> ActorHandle[PolicyServer]:
    """Serve a policy to many callers: an actor that answers those who wait with one batch.

    Parameters
    ----------
    policy : Policy
    name : str, optional
        By which `cellmesh.get_actor` finds it.
    max_batch : int, >= 1
        How many observations go through the network at a time.
    max_pending : int, >= 1
        How many calls may wait; one more waits with its caller.
    num_cpus : float, >= 0

    Returns
    -------
    ActorHandle
        `handle.act.remote(observation)`: a future of the action. `handle.act_batch.remote(observations)`: of actions.
        `handle.update.remote(policy)` serves another one. `cellmesh.kill(handle)` ends it, and so does the end of the
        last handle.

    Raises
    ------
    TypeError
        It is no policy.

    Notes
    -----
    An observation that is not of the policy's space is the `ValueError` of its own caller; the others of the batch are
    answered.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"serve({policy!r}): a Policy is served, such as algorithm.policy or rl.Policy.load(path)")
    for text, value in (("max_batch", max_batch), ("max_pending", max_pending)):
        if value < 1:
            raise ValueError(f"serve({text}={value}): it is at least 1")
    actor = remote(num_cpus=num_cpus, max_concurrency=max_pending)(PolicyServer)
    return (actor if name is None else actor.options(name=name)).remote(policy, max_batch)
