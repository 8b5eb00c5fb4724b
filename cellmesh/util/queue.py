"""A first-in, first-out queue that any task, actor or driver can put into and take from."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

from ..api import kill, remote
from ..exceptions import ActorDiedError
from ..objects import get
from ..submit.actor import ActorHandle

Empty = queue.Empty
Full = queue.Full


class _QueueActor:
    """Holds the items; its async methods let many callers wait at a time."""

    def __init__(self, maxsize: int) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def put(self, item: Any, timeout: float | None = None) -> bool:
        try:
            await asyncio.wait_for(self._queue.put(item), timeout)
        except TimeoutError:
            return False
        return True

    async def get(self, timeout: float | None = None) -> tuple[bool, Any]:
        try:
            return True, await asyncio.wait_for(self._queue.get(), timeout)
        except TimeoutError:
            return False, None

    async def put_nowait(self, items: list[Any]) -> bool:
        """All of them or none."""
        if self._queue.maxsize > 0 and len(items) + self._queue.qsize() > self._queue.maxsize:
            return False
        for item in items:
            self._queue.put_nowait(item)
        return True

    async def get_nowait(self, n: int) -> list[Any] | None:
        """All of them or none."""
        if n > self._queue.qsize():
            return None
        return [self._queue.get_nowait() for _ in range(n)]

    async def qsize(self) -> int:
        return self._queue.qsize()

    async def close(self) -> None:
        """Answered after what was called before and did not have to wait."""


class Queue:
    """A queue; can be passed to tasks and actors.

    Parameters
    ----------
    maxsize : int
        How many items it holds at most; 0: any number.
    actor_options : dict, optional
        Options of the actor that holds the items.

    Notes
    -----
    `put` and `get` raise `Full` and `Empty` as `queue.Queue` does. Items are delivered once; the order of items of one
    producer is kept.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        options: dict[str, Any] = actor_options or {}
        self.actor: ActorHandle[_QueueActor] = remote(_QueueActor).options(**options).remote(maxsize)

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            return get(getattr(self.actor, method).remote(*args))
        except ActorDiedError as error:
            raise _as_queue(error) from None

    async def _asked(self, method: str, *args: Any) -> Any:
        try:
            return await getattr(self.actor, method).remote(*args)
        except ActorDiedError as error:
            raise _as_queue(error) from None

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; waits for room unless `block` is False."""
        if not block:
            return self.put_nowait(item)
        if not self._ask("put", item, _checked(timeout)):
            raise Full
        return None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item; waits for one unless `block` is False."""
        if not block:
            return self.get_nowait()
        found, item = self._ask("get", _checked(timeout))
        if not found:
            raise Empty
        return item

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """`put` for coroutines."""
        if not block:
            if not await self._asked("put_nowait", [item]):
                raise Full
        elif not await self._asked("put", item, _checked(timeout)):
            raise Full

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """`get` for coroutines."""
        if not block:
            items = await self._asked("get_nowait", 1)
            if items is None:
                raise Empty
            return items[0]
        found, item = await self._asked("get", _checked(timeout))
        if not found:
            raise Empty
        return item

    def put_nowait(self, item: Any) -> None:
        """Add an item at once, or raise Full."""
        self.put_nowait_batch([item])

    def get_nowait(self) -> Any:
        """Take the first item at once, or raise Empty."""
        return self.get_nowait_batch(1)[0]

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items at once, or raise Full and add none."""
        if not self._ask("put_nowait", list(items)):
            raise Full

    def get_nowait_batch(self, n: int) -> list[Any]:
        """Take n items at once, or raise Empty and take none."""
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"get_nowait_batch({n!r}): must be a whole number >= 0")
        items = self._ask("get_nowait", n)
        if items is None:
            raise Empty
        return items

    def qsize(self) -> int:
        """How many items there are."""
        return self._ask("qsize")

    size = qsize

    def __len__(self) -> int:
        return self.qsize()

    def empty(self) -> bool:
        """Whether there are none."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether no more fit."""
        return 0 < self.maxsize <= self.qsize()

    def shutdown(self, force: bool = True) -> None:
        """End the queue's actor; a process that waits then, or uses the queue later, gets ActorDiedError.

        Parameters
        ----------
        force : bool
            False: after the calls that it has been sent and that end by themselves.
        """
        if not force:
            self._ask("close")
        kill(self.actor)


def _as_queue(error: ActorDiedError) -> ActorDiedError:
    """What users of the queue are told in place of that: an actor that was ended on purpose has been shut down."""
    is_meant = type(error) is ActorDiedError and error.exit_code == 0 and error.cause is None
    return (
        ActorDiedError("the queue has been shut down (Queue.shutdown): what was in it is gone") if is_meant else error
    )


def _checked(timeout: float | None) -> float | None:
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout must be None or a number of seconds >= 0, not {timeout!r}")
    return timeout
