"""`ObjectRefGenerator`: what a call of a generator function returns. It hands out refs while the task still runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..exceptions import GetTimeoutError

if TYPE_CHECKING:
    from ..objstore._core import Client, Ref

Y = TypeVar("Y")  # what is yielded


class ObjectRefGenerator(Iterator["Ref[Y]"], AsyncIterator["Ref[Y]"], Generic[Y]):
    """The refs of what a remote generator yields, by `for` or `async for`, each as soon as it is there.

    If the task fails, the last ref is that of its error. When the generator object goes, or after `close`, the task is
    ended at its next `yield`. `cellmesh.cancel(generator)` interrupts it at once, `cellmesh.wait` takes generators too:
    one is ready when its next ref is. It can be passed to other tasks; each ref goes to one of those that ask.
    """

    def __init__(self, stream: Ref[Any] | None, result: Ref[int]) -> None:
        self._stream = stream
        self._result = result

    @property
    def _client(self) -> Client:
        return self._result.client

    def __iter__(self) -> ObjectRefGenerator[Y]:
        return self

    def __next__(self) -> Ref[Y]:
        ref = self._client.next_item(self._stream, None) if self._stream is not None else None
        if ref is None:
            self.close()
            raise StopIteration
        return ref

    def next(self, timeout: float | None = None) -> Ref[Y]:
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

    def __aiter__(self) -> ObjectRefGenerator[Y]:
        return self

    async def __anext__(self) -> Ref[Y]:
        from ..session.notifier import until_ready

        while (pending := self.peek()) is not None:
            await until_ready(pending)
            if self._stream is None:
                break
            ref = self._client.next_item(self._stream, 0)
            if ref is not None and ref is not False:
                return ref
        self.close()
        raise StopAsyncIteration

    def peek(self) -> Ref[Y] | None:
        """What will be handed out next, there already or not; None when that was all. For `wait`."""
        return self._client.peek_item(self._stream) if self._stream is not None else None

    def completed(self) -> Ref[int]:
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
        if self._client.closed:
            return "<ObjectRefGenerator: its session has ended>"
        state = "closed" if self._stream is None else "running" if not self._client.ready(self._result) else "ended"
        from ..observe.history import submission_of

        name = self._client.info(self._result)["name"] or submission_of(self._client, self._result.creator)[0]
        return f"<ObjectRefGenerator of {name or self._result.hex()[16:]}: {state}>"

    def __copy__(self) -> ObjectRefGenerator[Y]:
        # Both read the same stream: each ref goes to one of them.
        return ObjectRefGenerator(self._stream, self._result)

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectRefGenerator[Y]:
        return self.__copy__()

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
