"""An async actor: its constructor and its calls are tasks of one asyncio loop in the main thread; a call of a plain
method needs no task (decision 144). Each concurrency group has a loop of its own.

A loop sleeps in the core, like any other worker, so that a call costs one wake-up and one turn of the loop. Meanwhile a
second thread watches the file descriptors of the asyncio loop, and wakes the core when one is ready.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import select
import selectors
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .generators import is_generator, run_generator

# Calls begun in one turn of the loop. More would only make the first wait for the last.
BATCH = 64
LEAVE, TIMED_OUT = -1, -2
NOT_CALLED, OVER = object(), object()
# What most methods return, and nobody waits for: to ask `inspect` takes longer than some methods.
PLAIN = frozenset((type(None), bool, int, float, str, bytes, tuple, list, dict))
# For what a constructor that failed has started, to end when it is cancelled.
CLOSING_S = 1.0

# The call that a coroutine belongs to, for the core: what it prints, submits and puts is that call's.
current_call: contextvars.ContextVar[int] = contextvars.ContextVar("current_call")


class MailboxSelector(selectors.DefaultSelector):
    """A selector that sleeps in the mailbox of an actor instead of in the operating system's `epoll`, once there is
    one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_room: Callable[[], bool] = lambda: False
        self._is_taking = False
        self._armed = threading.Semaphore(0)
        self._watching = False

    def sleep_in(
        self, has_room: Callable[[], bool], take: Callable[[float | None], None], wake: Callable[[], None]
    ) -> None:
        """Sleep in a mailbox from now on.

        Parameters
        ----------
        has_room : callable
            Whether calls can be taken.
        take : callable
            ``take(timeout)`` begins the calls that have come; with none there it waits at most `timeout` seconds for
            one.
        wake : callable
            Ends a `take` that waits, or else the next one at once, from another thread.
        """
        self._has_room, self._take, self._wake = has_room, take, wake
        threading.Thread(target=self._watch, name="descriptors", daemon=True).start()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._has_room():
            return super().select(timeout)
        if timeout is None or timeout > 0:
            if ready := super().select(0):
                timeout = 0
            elif not self._watching:
                self._watching = True
                self._armed.release()
        else:
            ready = []
        self._is_taking = True
        self._take(timeout)
        self._is_taking = False
        return ready or (super().select(0) if timeout == 0 else [])  # what has become ready meanwhile, the next finds

    def wake(self) -> bool:
        """From another thread, which has given the loop something to do: whether that is seen to by now."""
        is_taking = self._is_taking
        if is_taking:  # else, or when it has taken, the loop looks at what it has to do before it waits again
            self._wake()
        return is_taking

    def _watch(self) -> None:
        """In its thread, once for each time that it is armed: sleep until a descriptor is ready, then wake the loop."""
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            self._armed.acquire()
            poller.poll()
            self._watching = False
            self._wake()


class MailboxLoop(asyncio.SelectorEventLoop):
    """A loop that other threads wake without a descriptor, and so without the thread that watches those."""

    def __init__(self) -> None:
        self._mailbox = MailboxSelector()
        super().__init__(self._mailbox)

    @property
    def mailbox(self) -> MailboxSelector:
        """Where it sleeps."""
        return self._mailbox

    def _write_to_self(self) -> None:  # what `call_soon_threadsafe` does last
        if not self._mailbox.wake():
            super()._write_to_self()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] (in no stub)


def serve_loops(client: Any, hooks: Any, first: AsyncServer, limits: list[int]) -> None:
    """Serve by one loop for each concurrency group; that of the first, in the main thread, is there.

    Parameters
    ----------
    limits : list of int
        Of each group, how many calls are under way at a time.
    """

    def run(server: AsyncServer, limit: int, others: Sequence[AsyncServer] = ()) -> None:
        try:
            server.run(limit, others)
        except SystemExit as error:  # of what a method has begun beside its calls: asyncio lets it through
            hooks.exited(error, "", True, 0, 0)

    client.set_call_variable(current_call)
    others = [AsyncServer(client, group) for group in range(1, len(limits))]
    threads = [
        threading.Thread(target=run, args=(other, limit), name=f"group-{i}", daemon=True)
        for i, (other, limit) in enumerate(zip(others, limits[1:], strict=True), 1)
    ]
    for thread in threads:
        thread.start()
    run(first, limits[0], others)
    for thread in threads:
        thread.join()


class AsyncServer:
    """An asyncio loop whose tasks are the calls of one concurrency group of an actor."""

    def __init__(self, client: Any, group: int) -> None:
        self._client, self._group = client, group
        self._loop = MailboxLoop()
        self._max_concurrency = 0
        self._running: dict[int, asyncio.Task[None]] = {}
        self._started: set[int] = set()  # those of them that have begun
        self._doomed: set[int] = set()  # and those that were cancelled before
        self._ended = False
        self._end = asyncio.Event()

    def construct(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An instance, made on the loop: what its constructor has started there goes on beside the calls."""

        async def call() -> tuple[Any, BaseException | None]:
            try:
                return cls(*args, **kwargs), None
            except BaseException as error:  # raised here, the loop's frames would stand in its traceback
                return None, error

        instance, error = self._loop.run_until_complete(call())
        if error is not None:
            raise error
        return instance

    def close(self) -> None:
        """The constructor has failed: what it has started ends, and the loop."""
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=CLOSING_S))
        self._loop.close()

    def run(self, max_concurrency: int, others: Sequence[AsyncServer] = ()) -> None:
        """Serve until the actor ends and the calls in flight have ended too.

        Parameters
        ----------
        others : of AsyncServer
            In the main thread, those in others.
        """
        self._max_concurrency = max_concurrency
        self._loop.mailbox.sleep_in(self._has_room, self._take, self._client.wake)
        # Not asyncio.run, which would cancel what the class runs beside its calls: the process ends anyhow.
        self._loop.run_until_complete(self._serve(others))

    async def _serve(self, others: Sequence[AsyncServer]) -> None:
        if not self._group:
            # The core interrupts with SIGINT whatever it cancels. Here that is one of many coroutines.
            self._loop.add_signal_handler(signal.SIGINT, self._cancel_marked)
            if others:
                # Their calls can be cancelled while a call blocks this loop, which `add_signal_handler` only wakes.
                signal.signal(signal.SIGINT, lambda signum, frame: _cancel_marked_soon(others))
        await self._end.wait()
        await asyncio.gather(*self._running.values())

    def _has_room(self) -> bool:
        return not self._ended and len(self._running) < self._max_concurrency

    def _take(self, timeout: float | None) -> None:
        """Begin the calls that have come, waiting for the first at most `timeout` seconds."""
        n_free = min(self._max_concurrency - len(self._running), BATCH)
        call = self._client.next(timeout, self._group)
        while call >= 0:
            self._begin(call)
            n_free -= 1
            if not n_free:
                return
            call = self._client.next(0, self._group)
        if call == LEAVE:
            self._ended = True
            self._end.set()
            self._client.wake()  # the other loops, which may sleep

    def _begin(self, call: int) -> None:
        context = contextvars.copy_context()
        value = NOT_CALLED
        if len(self._started) == len(self._running):  # else it would overtake those which are to begin
            value = context.run(self._call, call)
            if value is OVER:
                return
        context.run(current_call.set, call)
        self._running[call] = self._loop.create_task(self._execute(call, value), context=context)

    def _call(self, call: int) -> Any:
        """Call the method here and now: without a task of the loop, which a plain method does not need. What it returns
        if that is to be waited for, else `OVER`.
        """
        current_call.set(call)
        try:
            method, args, kwargs = self._client.load(call)
            value = method(*args, **kwargs)
            if type(value) not in PLAIN and (inspect.isawaitable(value) or is_generator(value)):
                return value
        except BaseException as error:  # as in `_execute`
            self._client.fail(call, error)
        else:
            self._client.finish(call, value)
        return OVER

    async def _execute(self, call: int, value: Any) -> None:
        yielded: list[list[Any]] = []  # by a generator
        try:
            self._started.add(call)
            if call in self._doomed:
                if inspect.iscoroutine(value):
                    value.close()
                raise asyncio.CancelledError
            if value is NOT_CALLED:
                method, args, kwargs = self._client.load(call)
                value = method(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
            if is_generator(value):
                yielded.append([])
                value = await run_generator(self._client, call, value, yielded[0])
        except BaseException as error:  # the caller's to handle, CancelledError and SystemExit too
            self._client.fail(call, error, *yielded)
        else:
            self._client.finish(call, value)
        finally:
            del self._running[call]
            self._started.discard(call)
            self._doomed.discard(call)

    def cancel_marked_soon(self) -> None:
        """From another thread: cancel those of its calls that are to be."""
        self._loop.call_soon_threadsafe(self._cancel_marked)

    def _cancel_marked(self) -> None:
        for call, running in self._running.items():
            if not self._client.task_info(call)["cancelled"]:
                continue
            if call in self._started:
                running.cancel()
            else:  # asyncio would not even begin it, and then the call would never end
                self._doomed.add(call)


def _cancel_marked_soon(servers: Sequence[AsyncServer]) -> None:
    for server in servers:
        server.cancel_marked_soon()
