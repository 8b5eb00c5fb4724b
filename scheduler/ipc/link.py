"""A driver's connection to its local scheduler. A daemon thread reads it and calls the listeners, because the main
thread belongs to the user. Running tasks does not need it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..sync.condition import Condition
from ..sync.threads import ServiceThread
from .messages import Message, NodeEvent
from .transport import Channel, ConnectionLost, ProtocolError, Unreadable

Listener = Callable[[Message], None]


class Link:
    """Sends to the local scheduler and tells listeners what arrives.

    Listeners run in the reading thread, one message after another: they must be quick. A listener that raises ends
    with a traceback on stderr (`threading.excepthook`) and is not called again; the others are not disturbed.

    Parameters
    ----------
    channel : Channel
        Connected and greeted.
    explain : callable, optional
        Turns the reason why the connection ended into the text that listeners of `on_lost` get.
    """

    def __init__(self, channel: Channel, explain: Callable[[str], str] = str) -> None:
        self._channel = channel
        self._explain = explain
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._listeners: dict[Listener, None] = {}
        self._lost_listeners: list[Callable[[str], None]] = []
        self._lost: str | None = None
        self._losing = Condition()
        self._closing = False
        self._misses_some = False
        self._thread = ServiceThread(self._read, "cellmesh-link")
        _after_fork.add(self)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Send `message`; raises `ConnectionLost` when the local scheduler has gone."""
        self._channel.send(message)

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(message)` for everything that arrives from now on; returns the function that ends it."""
        self._listeners[listener] = None
        return lambda: self.remove_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Undo `add_listener`; harmless if it is not there."""
        self._listeners.pop(listener, None)

    def tell(self, message: Message) -> None:
        """Have the listeners hear something that this process says itself."""
        self._tell(message)

    def on_lost(self, listener: Callable[[str], None]) -> None:
        """Call `listener(reason)` once, if the connection ends unexpectedly; at once if it has already.

        The last one added is called first, so that earlier ones can clean up behind the others.
        """
        with self._lock:
            if self._lost is None:
                self._lost_listeners.append(listener)
                return
        listener(self._lost)

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until the connection has ended unexpectedly; whether it has."""
        return self._losing.wait_for(lambda: self._lost is not None, timeout_s)

    def expect_end(self) -> None:
        """From now on the connection's end is no loss."""
        self._closing = True

    def close(self) -> None:
        """End the connection and the thread. Harmless when repeated."""
        self._closing = True
        if self._pid != os.getpid():
            return
        self._channel.shut_down()
        self._thread.join()
        self._channel.close()
        self._listeners, self._lost_listeners = {}, []  # which may hold on to all of a session

    def _read(self) -> None:
        while True:
            try:
                message, fds = self._channel.receive()
            except Unreadable as error:  # the session lives, whatever this was
                if not self._misses_some:
                    self._misses_some = True
                    self._tell(
                        NodeEvent(
                            "output_lost",
                            f"A message of the local scheduler is lost, and further ones like it will be: {error}",
                        )
                    )
                continue
            except (ConnectionLost, ProtocolError) as error:
                reason = str(error)
                break
            for fd in fds:  # only answers to `Node.connect` carry any, and it reads them itself
                os.close(fd)
            self._tell(message)
        if self._closing:
            return
        reason = self._explain(reason)
        with self._lock:
            self._lost = reason
            listeners = list(reversed(self._lost_listeners))
        self._losing.notify_all()
        for listener in listeners:
            listener(reason)

    def _tell(self, message: Message) -> None:
        for listener in list(self._listeners):
            try:
                listener(message)
            except Exception as error:  # theirs, not ours: shown, and they are out
                self.remove_listener(listener)
                self._report(error)

    def _report(self, error: Exception) -> None:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread)))

    def _close_in_child(self) -> None:
        self._channel.close()


# A forked child of the driver must not hold the connection, or the scheduler would not see the driver let go of it.
_after_fork: weakref.WeakSet[Any] = weakref.WeakSet()


def _close_in_child() -> None:
    for link in list(_after_fork):
        link._close_in_child()


os.register_at_fork(after_in_child=_close_in_child)
