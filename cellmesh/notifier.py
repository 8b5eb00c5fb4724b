"""`await ref`, `ref.future()`: one thread per process that watches refs for everybody.

The segment knows how to wake a process when a ref is sealed, not how to resume a coroutine. So one daemon thread sleeps
in the core's `watch` while there is something to wait for, and hands what has become ready to those who asked:
coroutines through their event loop, futures directly. There is no thread per ref, and none at all before the first use.

No wake-up is lost. Whoever asks first enters its request and then marks the ref (`mark_waiting`): if the ref was sealed
before the mark, `mark_waiting` says so; if it is sealed after it, the inbox changes, `watch` returns, and the thread
finds the request.
"""
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .exceptions import SessionError
from .futures import Future
from .scheduler.bell import LOOK_S, Bell
from .scheduler.threads import ServiceThread

if TYPE_CHECKING:
    from .objstore._core import Client, Ref

Callback = Callable[[], None]


class Notifier:
    """Calls back when refs are ready.

    Callbacks for an event loop run in that loop, the others in the notifier's thread; they must be quick and must not
    raise. All methods may be called from any thread.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._asked = Bell()  # there are requests, or it is time to end
        self._requests: dict[Ref, list[tuple[asyncio.AbstractEventLoop | None, Callback]]] = {}
        self._closing = False
        self._thread: ServiceThread | None = None

    def add(self, ref: Ref, loop: asyncio.AbstractEventLoop | None, callback: Callback) -> None:
        """Call `callback()` once the ref is ready, or once the session has ended."""
        with self._lock:
            closing = self._closing
            if not closing:
                self._requests.setdefault(ref, []).append((loop, callback))
                if self._thread is None:
                    self._thread = ServiceThread(self._run, "cellmesh-notifier")
                self._thread.start()
                self._asked.ring()
        try:
            ready = closing or self._client.mark_waiting(ref)
        except SessionError:  # ended meanwhile: whoever asked learns it from get()
            ready = True
        if closing or (ready and self.discard(ref, callback)):
            _tell([(loop, callback)])

    def discard(self, ref: Ref, callback: Callback) -> bool:
        """Forget a request. False: it has been taken already, and the callback has come or is on its way."""
        with self._lock:
            requests = self._requests.get(ref, [])
            left = [request for request in requests if request[1] is not callback]
            if left:
                self._requests[ref] = left
            else:
                self._requests.pop(ref, None)
            return len(left) < len(requests)

    def close(self) -> None:
        """Answer everybody (their `get` will say that the session has ended) and end the thread."""
        with self._lock:
            self._closing = True
            thread = self._thread
        self._asked.ring()
        self._client.wake()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            self._asked.wait_for(lambda: self._requests or self._closing)
            ended = self._closing
            if not ended:
                try:
                    self._client.watch(LOOK_S)  # who asked may have been interrupted before it marked its ref
                except SessionError:
                    ended = True
            _tell(self._take(everything=ended))
            if ended:
                return

    def _take(self, everything: bool) -> list[tuple[asyncio.AbstractEventLoop | None, Callback]]:
        """Remove and return the requests whose refs are ready."""
        with self._lock:
            refs = list(self._requests)
        ready = refs
        if not everything and refs:
            try:
                ready, _ = self._client.wait(refs, len(refs), 0)
            except SessionError:
                everything = True
        with self._lock:
            self._closing = self._closing or everything
            return [request for ref in ready for request in self._requests.pop(ref, ())]


def _tell(requests: list[tuple[asyncio.AbstractEventLoop | None, Callback]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop | None, list[Callback]] = {}
    for loop, callback in requests:
        by_loop.setdefault(loop, []).append(callback)
    for callback in by_loop.pop(None, ()):
        callback()
    for loop, callbacks in by_loop.items():
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(_call_all, callbacks)
            except RuntimeError:  # closed at this moment; nobody waits in a closed loop
                continue


def _call_all(callbacks: list[Callback]) -> None:
    for callback in callbacks:
        callback()


def _notifier_of(ref: Ref) -> Notifier:
    from . import session
    return session.of_client(ref.client).notifier


async def until_ready(ref: Ref) -> None:
    """Return when a ref is ready, without blocking the event loop."""
    if not ref.client.ready(ref):
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake() -> None:
            if not arrived.done():
                arrived.set_result(None)

        notifier = _notifier_of(ref)
        try:
            notifier.add(ref, loop, wake)
            await arrived
        except BaseException:  # cancelled or interrupted: nothing waits for the ref any more
            notifier.discard(ref, wake)
            raise


async def await_ref(ref: Ref) -> Any:
    """The value of a ref, without blocking the event loop."""
    await until_ready(ref)
    return ref.client.get(ref)


def future_of(ref: Ref) -> Future[Any]:
    """A `concurrent.futures.Future` of the ref's value. Cancelling it is not possible; `cellmesh.cancel(ref)` is."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def finish() -> None:
        try:
            value = ref.client.get(ref)
        except BaseException as error:  # a future carries whatever the task raised
            future.set_exception(error)
        else:
            future.set_result(value)

    if ref.client.ready(ref):
        finish()
    else:
        _notifier_of(ref).add(ref, None, finish)
    return future
