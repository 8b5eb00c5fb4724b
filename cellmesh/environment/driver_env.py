"""What a driver may change after its workers have started: its import path, its folder, modules that it reloads, and
whether they keep the frames of what fails."""

from __future__ import annotations

import functools
import importlib.machinery
import inspect
import os
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import front_end

Place = tuple[list[str], str, bool]  # absolute import path, working folder, whether frames of failures are kept

# In a worker: what a task that wants its frames kept is about to raise.
kept_error: BaseException | None = None

# In a worker of a cluster's node: what its machine is called, for errors.
node = ""


def keep(error: BaseException) -> None:
    """In a worker: the frames of this error, with which a task is about to end, are kept."""
    global kept_error
    kept_error = error


def keeping_frames(code: Any) -> Any:
    """In a worker: a function whose failures keep their frames; of an actor's class all that fails in this process,
    which is its own.
    """
    if isinstance(code, type):
        front_end.current.keep_frames = True
        return code

    @contextmanager
    def kept() -> Iterator[None]:
        try:
            yield
        except Exception as error:
            keep(error)
            raise

    @functools.wraps(code)
    def run(*args: Any, **kwargs: Any) -> Any:
        with kept():
            return code(*args, **kwargs)

    @functools.wraps(code)
    def items(*args: Any, **kwargs: Any) -> Any:
        with kept():
            return (yield from code(*args, **kwargs))

    @functools.wraps(code)
    async def items_of_async(*args: Any, **kwargs: Any) -> Any:
        with kept():
            async for item in code(*args, **kwargs):
                yield item

    return items if inspect.isgeneratorfunction(code) else items_of_async if inspect.isasyncgenfunction(code) else run


_NOT_THE_USERS = tuple(os.path.join(path, "") for path in [os.path.dirname(os.__file__), *site.getsitepackages()])


def place() -> Place:
    """What workers that start now are to have."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it has been removed
        folder = ""
    return [os.path.abspath(path) for path in sys.path], folder, front_end.current.keep_frames


class DriverEnv:
    """Remembers what they were when last looked at."""

    def __init__(self) -> None:
        self._place = (*place()[:2], False)  # as the workers have it that start with the session
        self._names: list[str] = []  # of all modules
        self._specs: dict[str, Any] = {}  # of all modules, by name
        self._users: list[str] = []  # the names of the user's modules
        self._times: dict[str, int] = {}  # of the files of the user's modules, by path
        self._any_reloaded()

    def changed(self, autoreload: bool = False) -> bool:
        """Whether any of `place()` has changed since, or a module of the user's has been reloaded.

        `autoreload`: modules whose files have changed have been reloaded too, in whatever way.
        """
        before, self._place = self._place, place()
        reloaded = self._any_reloaded()
        return (autoreload and self._any_edited()) or reloaded or self._place != before

    def _any_reloaded(self) -> bool:
        """`importlib.reload` gives a module another `__spec__`. There may be thousands of modules, few of them the
        user's, so all are looked at only when there are others than before.
        """
        names, found = list(sys.modules), False
        if names == self._names:
            names = self._users
        else:
            self._names = names
        for name in names:
            spec = getattr(sys.modules.get(name), "__dict__", {}).get("__spec__")
            known = self._specs.get(name)
            if spec is not known:
                self._specs[name] = spec
                if (path := file_of_users(spec)) is not None:
                    self._times[path] = _time_of(path)
                    found |= known is not None
                    if name not in self._users:
                        self._users.append(name)
        return found

    def _any_edited(self) -> bool:
        """`%autoreload` may also patch a module where it is."""
        before, self._times = self._times, {path: _time_of(path) for path in self._times}
        return self._times != before


def _time_of(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # removed
        return 0


def file_of_users(spec: object) -> str | None:
    """The file of a module that the user has written."""
    origin = spec.origin if isinstance(spec, importlib.machinery.ModuleSpec) else None
    is_users = origin is not None and origin.endswith(".py") and not origin.startswith(_NOT_THE_USERS)
    return origin if is_users else None
