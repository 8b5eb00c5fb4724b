"""An async actor: its calls are tasks of one asyncio loop in the main thread.

The loop sleeps in the core, like any other worker, so that a call costs one wake-up and one turn of the loop. What else an
asyncio loop waits for, its file descriptors, a second thread watches meanwhile; it wakes the core when one is ready.
"""
from __future__ import annotations

import asyncio
import contextvars
import inspect
import select
import selectors
import signal
import threading
from collections.abc import Callable
from typing import Any

from .streams import is_generator, run_generator

# Calls begun in one turn of the loop. More would only make the first wait for the last.
BATCH = 64
LEAVE, TIMED_OUT = -1, -2

# The call that a coroutine belongs to, for the core: what it prints, submits and puts is that call's.
current_call: contextvars.ContextVar[int] = contextvars.ContextVar("current_call")


class MailboxSelector(selectors.DefaultSelector):
    """A selector that sleeps in the mailbox of an actor instead of in the operating system's `epoll`.

    Parameters
    ----------
    take : callable
        ``take(timeout)`` begins the calls that have come; with none there it waits at most `timeout` seconds for one.
        False: there is no room for calls, it did not wait.
    wake : callable
        Ends a waiting `take` from another thread.
    """

    def __init__(self, take: Callable[[float | None], bool], wake: Callable[[], None]) -> None:
        super().__init__()
        self._take, self._wake = take, wake
        self._armed = threading.Semaphore(0)
        self._watching = False
        threading.Thread(target=self._watch, name="descriptors", daemon=True).start()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            if ready := super().select(0):
                timeout = 0
            elif not self._watching:
                self._watching = True
                self._armed.release()
        else:
            ready = []
        if not self._take(timeout):
            return ready or super().select(timeout)
        return ready or super().select(0)

    def _watch(self) -> None:
        """In its thread, once for each time that it is armed: sleep until a descriptor is ready, then wake the loop."""
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            self._armed.acquire()
            poller.poll()
            self._watching = False
            self._wake()


class AsyncServer:
    """An asyncio loop whose tasks are the calls of an actor."""

    def __init__(self, client: Any, max_concurrency: int) -> None:
        self._client = client
        self._max_concurrency = max_concurrency
        self._running: dict[int, asyncio.Task[None]] = {}
        self._started: set[int] = set()   # those of them that have begun
        self._doomed: set[int] = set()    # and those that were cancelled before
        self._ended = False

    def run(self) -> None:
        """Serve until the actor ends and the calls in flight have ended too."""
        self._client.set_call_variable(current_call)
        self._loop = asyncio.SelectorEventLoop(MailboxSelector(self._take, self._client.wake))
        # Not asyncio.run, which would cancel what the class runs beside its calls: the process ends anyhow.
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        # The core interrupts with SIGINT whatever it cancels. Here that is one of many coroutines.
        self._loop.add_signal_handler(signal.SIGINT, self._cancel_marked)
        self._end = asyncio.Event()
        await self._end.wait()
        await asyncio.gather(*self._running.values())

    def _take(self, timeout: float | None) -> bool:
        """Begin the calls that have come, waiting for the first at most `timeout` seconds."""
        n_free = min(self._max_concurrency - len(self._running), BATCH)
        if self._ended or n_free <= 0:
            return False
        call = self._client.next(timeout)
        while call >= 0:
            self._begin(call)
            n_free -= 1
            if not n_free:
                return True
            call = self._client.next(0)
        if call == LEAVE:
            self._ended = True
            self._end.set()
        return True

    def _begin(self, call: int) -> None:
        context = contextvars.copy_context()
        context.run(current_call.set, call)
        self._running[call] = self._loop.create_task(self._execute(call), context=context)

    async def _execute(self, call: int) -> None:
        try:
            self._started.add(call)
            if call in self._doomed:
                raise asyncio.CancelledError
            method, args, kwargs = self._client.load(call)
            value = method(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
            if is_generator(value):
                value = await run_generator(self._client, call, value)
        except BaseException as error:  # the caller's to handle, CancelledError and SystemExit too
            self._client.fail(call, error)
        else:
            self._client.finish(call, value)
        finally:
            del self._running[call]
            self._started.discard(call)
            self._doomed.discard(call)

    def _cancel_marked(self) -> None:
        for call, running in self._running.items():
            if not self._client.task_info(call)["cancelled"]:
                continue
            if call in self._started:
                running.cancel()
            else:  # asyncio would not even begin it, and then nobody would end the call
                self._doomed.add(call)
