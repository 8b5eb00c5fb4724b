"""An async actor: its calls are tasks of one asyncio loop in the main thread.

A thread takes calls out of the mailbox and hands them to the loop, a batch at a time; the loop wakes up once a batch.
"""
from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import sys
import threading
from typing import Any

from .output import current_call

# Calls handed to the loop at once. More would only make the first wait for the last.
BATCH = 64
# Two threads want the interpreter for microseconds at a time; the default of 5 ms is for long runs.
SWITCH_INTERVAL_S = 0.0005
LEAVE, TIMED_OUT = -1, -2


class AsyncServer:
    """An asyncio loop whose tasks are the calls of an actor."""

    def __init__(self, client: Any, max_concurrency: int) -> None:
        self._client = client
        self._running: dict[int, asyncio.Task[None]] = {}
        self._started: set[int] = set()   # those of them that have begun
        self._doomed: set[int] = set()    # and those that were cancelled before
        self._free = threading.Semaphore(max_concurrency)
        self._n_interrupts = 0

    def run(self) -> None:
        """Serve until the actor ends and the calls in flight have ended too."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        # Not asyncio.run, which would cancel what the class runs beside its calls: the process ends anyhow.
        asyncio.new_event_loop().run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        # The core interrupts with SIGINT whatever it cancels. Here that is one of many coroutines.
        self._loop.add_signal_handler(signal.SIGINT, self._cancel_marked)
        threading.Thread(target=self._pump, name="calls", daemon=True).start()
        await self._ended.wait()
        await asyncio.gather(*self._running.values())

    def _pump(self) -> None:
        """In its thread: take calls as long as there is room for more, hand them over in batches."""
        while True:
            self._free.acquire()
            n_interrupts = self._n_interrupts
            call = self._client.next(None)
            calls = [call]
            while call >= 0 and len(calls) < BATCH and self._free.acquire(blocking=False):
                call = self._client.next(0)
                if call == TIMED_OUT:
                    self._free.release()
                    break
                calls.append(call)
            self._loop.call_soon_threadsafe(self._begin, calls, n_interrupts)
            if call == LEAVE:
                return

    def _begin(self, calls: list[int], n_interrupts: int) -> None:
        for call in calls:
            if call == LEAVE:
                self._ended.set()
                return
            context = contextvars.copy_context()
            context.run(current_call.set, call)
            self._running[call] = self._loop.create_task(self._execute(call), context=context)
        if n_interrupts != self._n_interrupts:  # one of these was meant perhaps, when it was not known here yet
            self._cancel_marked()

    async def _execute(self, call: int) -> None:
        try:
            self._started.add(call)
            if call in self._doomed:
                raise asyncio.CancelledError
            method, args, kwargs = self._client.load(call)
            value = method(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        except BaseException as error:  # the caller's to handle, CancelledError and SystemExit too
            self._client.fail(call, error)
        else:
            self._client.finish(call, value)
        finally:
            del self._running[call]
            self._started.discard(call)
            self._doomed.discard(call)
            self._free.release()

    def _cancel_marked(self) -> None:
        self._n_interrupts += 1
        for call, running in self._running.items():
            if not self._client.task_info(call)["cancelled"]:
                continue
            if call in self._started:
                running.cancel()
            else:  # asyncio would not even begin it, and then nobody would end the call
                self._doomed.add(call)
