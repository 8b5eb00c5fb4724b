"""What a task changes in its process and the next one is not to find there: the folder, timers, handlers, streams.

To ask for it takes system calls. So the functions that change it note that they have been called, and only then, or if
`sys.stdout` or `sys.stderr` is another one, the process is restored at the end of the task (decision 125). Actors keep
what they have changed.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from importlib import import_module
from typing import Any

from ...objstore._core import note_and_call

# By the module that defines them and the one that programs know them by. `signal.signal` calls that of `_signal`.
NOTED = {
    ("posix", "os"): ("chdir", "fchdir", "umask"),
    ("_signal", "signal"): ("alarm", "setitimer"),
    ("_signal",): ("signal",),
}
# Those that cancel and end a task, and those of the timers. A library may set another one once, at its import.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Noted(functools.partial[Any]):
    """A function of C whose calls are noted. It adds no frame to tracebacks."""

    __name__: str

    def __new__(cls, module: str, function: Any) -> Noted:
        noted = super().__new__(cls, note_and_call, function)
        noted.__name__, noted.__doc__, noted.__module__ = function.__name__, function.__doc__, module
        return noted

    def __repr__(self) -> str:
        return repr(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.__module__, self.__name__)


def named(module: str, name: str) -> Any:
    """What a process has under that name."""
    return getattr(import_module(module), name)


class ProcessState:
    """What tasks find, and how it is brought back."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._chdir, self._umask = os.chdir, os.umask
        self._setitimer = signal.setitimer
        self._signal, self._getsignal = (named("_signal", name) for name in ("signal", "getsignal"))  # in plain numbers
        self.keep()

    def keep(self) -> None:
        """Tasks are to find what there is now."""
        try:
            self._folder = os.getcwd()
        except FileNotFoundError:  # it was removed: nothing leads back to it
            self._folder = ""
        self._mask = self._umask(0o077)
        self._umask(self._mask)
        handlers = {number: self._getsignal(number) for number in SIGNALS}
        self._handlers = {number: handler for number, handler in handlers.items() if handler is not None}
        self._streams = sys.stdout, sys.stderr
        self._client.set_restore(self.restore, *self._streams)

    def restore(self) -> None:
        """A task has ended. What its handlers raise meanwhile is raised; then this is to be called again."""
        for timer in TIMERS:
            self._setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if self._getsignal(number) is not handler:
                self._signal(number, handler)
        sys.stdout, sys.stderr = self._streams
        self._umask(self._mask)
        if self._folder:
            self._chdir(self._folder)


_state: ProcessState | None = None


def install(client: Any) -> None:
    """Have this worker restored by its client after each task. Its streams and handlers are in place."""
    global _state
    _state = ProcessState(client)
    for modules, names in NOTED.items():
        for name in names:
            function = named(modules[0], name)
            noted = Noted(modules[0], function)
            for module in modules:
                setattr(import_module(module), name, noted)
            for supporting in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
                if function in supporting:
                    supporting.add(noted)


def keep() -> None:
    """Tasks of this worker are to find its process as it is now."""
    if _state is not None:
        _state.keep()
