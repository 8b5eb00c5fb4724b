"""What a driver may change after its workers have started: its import path, its folder, its environment variables,
modules that it reloads, whether they keep the frames of what fails, and the levels of its loggers."""

from __future__ import annotations

import functools
import importlib.machinery
import inspect
import os
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import front_end

if TYPE_CHECKING:
    from .log_levels import Levels

Place = tuple[list[str], str, bool]  # absolute import path, working folder, whether frames of failures are kept
Variables = dict[str, str | None]  # environment variables by name; None: it has been removed
Context = tuple[list[str], str, bool, Variables, "Levels"]  # what the segment has for workers
# Which GPUs a task sees is decided for each task; the other one is set anew for each phase of each test.
OF_OTHERS = frozenset({"CUDA_VISIBLE_DEVICES", "PYTEST_CURRENT_TEST"})

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


def levels_in(context: Context) -> Levels:
    """What loggers of workers follow."""
    return context[4]


class DriverEnv:
    """Remembers what they were when last looked at."""

    def __init__(self) -> None:
        self._place = (*place()[:2], False)  # as the workers have it that start with the session
        self._began_with = self._variables = _variables()
        self._names: list[str] = []  # of all modules
        self._specs: dict[str, Any] = {}  # of all modules, by name
        self._users: list[str] = []  # the names of the user's modules
        self._times: dict[str, int] = {}  # of the files of the user's modules, by path
        self._levels: Levels | None = None
        self._any_reloaded()

    def context(self) -> Context:
        """What workers that start now are to have, with what all workers are to have from now on."""
        from .log_levels import of_driver  # and with it logging, for which a program that only decorates need not wait

        now, before = _variables(), self._began_with
        changed: Variables = {name: value for name, value in now.items() if before.get(name) != value}
        changed.update(dict.fromkeys(before.keys() - now.keys()))
        return (*place(), changed, of_driver())

    def levels_changed(self, are_told: bool = False) -> bool:
        """Whether levels of loggers have changed since. `are_told`: this is called when one has been set, too, and
        otherwise need not look at all of them.
        """
        from .log_levels import OF_PYTHON, of_driver, root_has_handlers

        if are_told and self._levels is not None and self._levels[1] == root_has_handlers():
            return False
        before, self._levels = self._levels or OF_PYTHON, of_driver()
        return self._levels != before

    def changed(self, autoreload: bool = False) -> bool:
        """Whether any of `place()`, or an environment variable, has changed since, or a module of the user's has been
        reloaded.

        `autoreload`: modules whose files have changed have been reloaded too, in whatever way.
        """
        before, self._place = self._place, place()
        variables, self._variables = self._variables, _variables()
        reloaded = self._any_reloaded()
        return (autoreload and self._any_edited()) or reloaded or self._place != before or self._variables != variables

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


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_OTHERS}


def take_variables(changed: Variables) -> None:
    """In a worker: have the environment variables that the driver has set and removed since the session began."""
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


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
