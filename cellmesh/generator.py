"""`ObjectRefGenerator`: what a call of a generator function returns. It hands out refs while the task still runs."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from .exceptions import GetTimeoutError

if TYPE_CHECKING:
    from .objstore._core import Client, Ref


class ObjectRefGenerator(Iterator["Ref"], AsyncIterator["Ref"]):
    """The refs of what a remote generator yields, by `for` or `async for`, each as soon as it is there.

    If the task fails, the last ref is that of its error. When the generator object goes, or after `close`, the task is
    ended at its next `yield`. `cellmesh.cancel(generator)` interrupts it at once, `cellmesh.wait` takes generators too:
    one is ready when its next ref is. It can be passed to other tasks; each ref goes to one of those that ask.
    """

    def __init__(self, stream: Ref, result: Ref) -> None:
        self._stream: Ref | None = stream
        self._result = result

    @property
    def _client(self) -> Client:
        return self._result.client

    def __iter__(self) -> ObjectRefGenerator:
        return self

    def __next__(self) -> Ref:
        ref = self._client.next_item(self._stream, None) if self._stream is not None else None
        if ref is None:
            self.close()
            raise StopIteration
        return ref

    def next(self, timeout: float | None = None) -> Ref:
        """The next ref; waits for it at most `timeout` seconds.

        Raises
        ------
        GetTimeoutError
            It is not there yet.
        StopIteration
            That was all.
        """
        ref = self._client.next_item(self._stream, timeout) if self._stream is not None else None
        if ref is False:
            raise GetTimeoutError(f"next() gave up after {timeout:g} s: the task has not yielded again yet; it goes on")
        if ref is None:
            self.close()
            raise StopIteration
        return ref

    def __aiter__(self) -> ObjectRefGenerator:
        return self

    async def __anext__(self) -> Ref:
        from .notifier import until_ready
        while (pending := self.peek()) is not None:
            await until_ready(pending)
            if self._stream is None:
                break
            if ref := self._client.next_item(self._stream, 0):
                return ref
        self.close()
        raise StopAsyncIteration

    def peek(self) -> Ref | None:
        """What will be handed out next, there already or not; None when that was all. For `wait`."""
        return self._client.peek_item(self._stream) if self._stream is not None else None

    def completed(self) -> Ref:
        """The ref of the task itself: ready when it has ended, with the number of items, or with its error."""
        return self._result

    def is_finished(self) -> bool:
        """Whether all refs have been handed out."""
        return self.peek() is None

    def close(self) -> None:
        """Read no further. The task ends at its next `yield`; refs handed out stay valid. Harmless when repeated."""
        self._stream = None

    async def aclose(self) -> None:
        """`close`, for `contextlib.aclosing`."""
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._stream is None else "running" if not self._client.ready(self._result) else "ended"
        return f"<ObjectRefGenerator of {self._result.hex()[16:]}, {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stream is None:
            raise TypeError("this ObjectRefGenerator is closed: there is nothing to pass on")
        return ObjectRefGenerator, (self._stream, self._result)


def iterate(generator: Any) -> Iterator[Any]:
    """What an async generator yields, driven by an event loop of its own."""
    async def advance() -> Any:
        return await anext(generator)

    with asyncio.Runner() as runner:
        try:
            while True:
                try:
                    value = runner.run(advance())
                except StopAsyncIteration:
                    return
                yield value
        finally:
            runner.run(generator.aclose())
