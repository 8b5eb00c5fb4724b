"""`await ref`, `ref.future()`: one thread per process that watches refs for everybody, and a few that call back.

The segment knows how to wake a process when a ref is sealed, not how to resume a coroutine. So one daemon thread sleeps
in the core's `watch` while there is something to wait for, and hands what has become ready to those who asked:
coroutines through their event loop, futures through one of a few threads (`Callers`): what the user has added to a
future may wait for another one. A few more threads decode, for futures and for loops, the values that may take their
time: what is pickled runs code of the user's, and large bytes are copied, or come from disk or from another machine.
There is no thread per ref, and none at all before the first use.

No wake-up is lost. A thread that asks first enters its request and then marks the ref (`mark_waiting`): if the ref was
sealed
before the mark, `mark_waiting` says so; if it is sealed after it, the inbox changes, `watch` returns, and the thread
finds the request.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..exceptions import SessionError, StoreCorruptedError
from ..scheduler.sync.condition import LOOK_S, Condition
from ..scheduler.sync.threads import ServiceThread
from .current import of_client
from .futures import Future, without_frames
from .waiting_for import tell_why

if TYPE_CHECKING:
    from ..objstore._core import Client, Ref

Callback = Callable[[], object]
ENDED = (SessionError, StoreCorruptedError)  # who asked learns which of them from get()
MOST_CALLERS = 8  # threads; of as many callbacks may each wait for the next one
IDLE_S = 0.2  # after that these end
ASKS_AFTER_S = 0.05  # then what is waited for goes before what nobody waits for, as with `get`
PATIENCE_S = 2.0  # then it is looked at why somebody waits, and told, as `get` does


class Callers:
    """Threads that call back, as many as there is something to call at a time; none when there is nothing.

    What is called must not raise.

    Parameters
    ----------
    name : str
        Of the threads.
    idle_s : float
        After that they end.
    """

    def __init__(self, name: str = "cellmesh-notifier-calls", idle_s: float = IDLE_S) -> None:
        self._name, self._idle_s = name, idle_s
        self._calls: queue.SimpleQueue[Callback | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[ServiceThread] = set()
        self._n_free = 0  # threads that wait, less calls that wait

    def call(self, callback: Callback) -> None:
        """Have it called by the first thread that is free. Not for the main thread, which may be interrupted in
        here.
        """
        new = None
        with self._lock:
            self._n_free -= 1
            if self._n_free < 0 and len(self._threads) < MOST_CALLERS:
                new = ServiceThread(self._run, self._name)
                self._threads.add(new)
                self._n_free += 1
        self._calls.put(callback)
        if new is not None:
            new.start()

    def close(self) -> None:
        """Call what is left, and end the threads."""
        try:
            while callback := self._calls.get_nowait():  # all of them may wait for these
                contextvars.Context().run(callback)
        except queue.Empty:
            pass
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._calls.put(None)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while True:
            try:
                callback = self._calls.get(timeout=self._idle_s)
            except queue.Empty:
                with self._lock:
                    if self._n_free <= 0:  # something has come just now
                        continue
                    self._n_free -= 1
                    self._threads.discard(threading.current_thread())
                return
            if callback is None:
                return
            try:
                contextvars.Context().run(callback)  # the next one finds nothing of it
            except (
                BaseException
            ):  # of a user's function: futures let SystemExit through, which must not end this thread
                logging.getLogger("cellmesh").exception("a callback of a future raised")
            del callback  # and with it a ref, or a value
            with self._lock:
                self._n_free += 1


Request = tuple[asyncio.AbstractEventLoop | Callers, Callback]  # what calls back, and what it calls


class Notifier:
    """Calls back when refs are ready.

    Callbacks for an event loop run in that loop and must be quick, the others in any thread; they must not raise. All
    methods may be called from any thread.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._asked = Condition()  # there are requests, or it is time to end
        self._requests: dict[Ref, list[Request]] = {}
        self._since: dict[Ref, float] = {}  # those of which it has not been looked at why they wait, the oldest first
        self._new: dict[Ref, float] = {}  # those that have not been asked for, likewise
        self._closing = False
        self._thread: ServiceThread | None = None
        self._callers = Callers()
        # Apart from those, whose callbacks may wait for a loop that waits for a value.
        self.decoders: Callers = Callers()

    def add(self, ref: Ref, where: asyncio.AbstractEventLoop | Callers | None, callback: Callback) -> None:
        """Call `callback()` once the ref is ready, or once the session has ended.

        Parameters
        ----------
        where : event loop or Callers, optional
            What calls it; without, threads for callbacks that may take their time.
        """
        request = (self._callers if where is None else where, callback)
        with self._lock:
            closing = self._closing
            if not closing:
                if ref not in self._requests:
                    self._requests[ref] = []
                    self._since[ref] = self._new[ref] = time.monotonic()
                self._requests[ref].append(request)
                if self._thread is None:
                    self._thread = ServiceThread(self._run, "cellmesh-notifier")
                self._thread.start()
                self._asked.notify_all()
        ready, ended = False, closing
        if not ended:
            try:
                ready = self._client.mark_waiting(ref)
            except ENDED:
                ended = True
        if ready and isinstance(request[0], Callers):
            self._client.wake()  # for our thread: this one may be interrupted
        elif closing or ((ready or ended) and self.discard(ref, callback)):
            _tell([request], _call)

    def discard(self, ref: Ref, callback: Callback) -> int:
        """Forget the requests with a callback; how many. 0: taken already, and the callback has come or is on its
        way.
        """
        with self._lock:
            requests = self._requests.get(ref, [])
            left = list(filter(lambda request: request[1] != callback, requests))
            if left:
                self._requests[ref] = left
            else:
                self._requests.pop(ref, None)
                self._since.pop(ref, None)
                self._new.pop(ref, None)
            return len(requests) - len(left)

    def close(self) -> None:
        """Answer everybody (their `get` will say that the session has ended) and end the thread."""
        with self._lock:
            self._closing = True
            thread = self._thread
        self._asked.notify_all()
        self._client.wake()
        if thread is not None:
            thread.join()
        self.decoders.close()
        self._callers.close()

    def _run(self) -> None:
        while True:
            self._asked.wait_for(lambda: self._requests or self._closing)
            ended = self._closing
            if not ended:
                try:
                    self._client.watch(self._pause_s())
                except ENDED:
                    ended = True
            _tell(self._take(everything=ended), Callers.call)
            if ended:
                return
            self._look_at_who_waits()  # nothing here has a name for a ref, which would keep it until the next time

    def _look_at_who_waits(self) -> None:
        if refs := self._to_ask_for():
            ask_for(self._client, refs)
        if (ref := self._overdue()) is not None:
            tell_why_it_waits(ref)

    def _take(self, everything: bool) -> list[Request]:
        """Remove and return the requests whose refs are ready."""
        with self._lock:
            refs = list(self._requests)
        ready = refs
        if not everything and refs:
            try:
                ready, _ = self._client.wait(refs, len(refs), 0)
            except ENDED:
                everything = True
        with self._lock:
            self._closing = self._closing or everything
            for ref in ready:
                self._since.pop(ref, None)
                self._new.pop(ref, None)
            return [request for ref in ready for request in self._requests.pop(ref, ())]

    def _pause_s(self) -> float:
        """Until it is looked again: who asked may have been interrupted before it marked its ref, its ref is asked
        for, or it is told why it waits.
        """
        with self._lock:
            asks = next(iter(self._new.values()), math.inf) + ASKS_AFTER_S
            tells = next(iter(self._since.values()), math.inf) + PATIENCE_S
        return min(LOOK_S, max(0.0, min(asks, tells) - time.monotonic()))

    def _to_ask_for(self) -> list[Ref]:
        """Once the oldest has been waited for long enough, all that is new: together they keep their order."""
        before = time.monotonic() - ASKS_AFTER_S
        with self._lock:
            refs = list(self._new) if next(iter(self._new.values()), math.inf) <= before else []
            if refs:
                self._new.clear()
        return refs

    def _overdue(self) -> Ref | None:
        """What has been waited for longest, if it is time to say why; what is overdue with it counts as told."""
        before = time.monotonic() - PATIENCE_S
        with self._lock:
            overdue = list(takewhile(lambda ref: self._since[ref] <= before, self._since))
            for ref in overdue:
                del self._since[ref]
        return overdue[0] if overdue else None


def ask_for(client: Client, refs: list[Ref]) -> None:
    """Have what somebody waits for go before what nobody waits for."""
    try:
        client.ask_for(refs)
    except ENDED:  # meanwhile: then nobody waits
        return


def tell_why_it_waits(ref: Ref) -> None:
    """See `waiting_for.tell_why`."""
    try:
        tell_why(ref)
    except ENDED:  # ended meanwhile: then nobody waits
        return


def _call(_: Callers, callback: Callback) -> None:
    callback()


def _tell(requests: list[Request], call: Callable[[Callers, Callback], None]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Callback]] = {}
    for where, callback in requests:
        if isinstance(where, Callers):
            call(where, callback)
        else:
            by_loop.setdefault(where, []).append(callback)
    for loop, callbacks in by_loop.items():
        _call_in(loop, partial(_call_all, callbacks))


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callback) -> None:
    if not loop.is_closed():
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:  # closed at this moment; nobody waits in a closed loop
            return


def _call_all(callbacks: list[Callback]) -> None:
    for callback in callbacks:
        callback()


def notifier_of(ref: Ref) -> Notifier:
    """That of the ref's session."""
    return of_client(ref.client).notifier


async def until_ready(ref: Ref) -> None:
    """Return when a ref is ready, without blocking the event loop."""
    if not ref.client.ready(ref):
        await until_any_ready([ref])


async def until_any_ready(refs: Sequence[Ref]) -> None:
    """Return when one of some refs of a session is ready, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    def wake() -> None:
        if not arrived.done():
            arrived.set_result(None)

    notifier = notifier_of(refs[0])
    try:
        for ref in refs:
            notifier.add(ref, loop, wake)
        await arrived
    finally:  # cancelled or interrupted perhaps: nothing waits for them any more
        for ref in refs:
            notifier.discard(ref, wake)


async def await_ref(ref: Ref, return_exceptions: bool = False) -> Any:
    """The value of a ref, without blocking the event loop."""
    await until_ready(ref)
    if ref.client.decodes_at_once(ref):
        return ref.client.get(ref)
    return await _decoded(ref, return_exceptions)


async def _decoded(ref: Ref, return_exceptions: bool) -> Any:
    """The value of a ref that is ready, decoded in a thread, in the context of the caller."""
    loop, run = asyncio.get_running_loop(), copy_context().run
    decoded = loop.create_future()
    outcome: list[tuple[Any, BaseException | None]] = []

    def wake() -> None:
        if not decoded.done():
            decoded.set_result(None)

    def decode() -> None:
        try:
            value, error = run(partial(ref.client.get, ref, return_exceptions=return_exceptions)), None
        except BaseException as raised:  # whatever the task raised; nobody misses the frame of this thread
            value, error = None, raised.with_traceback(raised.__traceback__ and raised.__traceback__.tb_next)
        outcome.append((value, error))
        del value, error  # whoever is woken has the only ones
        _call_in(loop, wake)

    notifier = notifier_of(ref)
    try:
        notifier.add(ref, notifier.decoders, decode)
        await decoded
    finally:
        notifier.discard(ref, decode)
    value, error = outcome.pop()
    if error is None:
        return value
    try:
        raise error
    finally:
        del error  # a frame that holds what it raises is a reference cycle


def future_of(ref: Ref) -> Future[Any]:
    """A `concurrent.futures.Future` of the ref's value. Cancelling it is not possible; `cellmesh.cancel(ref)` is."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def finish() -> None:
        try:
            value = ref.client.get(ref)
        except BaseException as error:  # a future carries whatever the task raised
            future.set_exception(without_frames(error))
        else:
            future.set_result(value)

    if ref.client.ready(ref) and ref.client.decodes_at_once(ref):
        finish()
    else:
        notifier_of(ref).add(ref, None, finish)
    return future
