"""What a driver may change after its workers have started: its import path, its folder, modules that it reloads, and
whether they keep the frames of what fails."""
from __future__ import annotations

import importlib.machinery
import os
import site
import sys
from typing import Any

Place = tuple[list[str], str, bool]  # absolute import path, working folder, whether frames of failures are kept

# Whether tasks keep the frames of their failures: what the notebook wants, and what a worker does.
keep_frames = False
# In a worker: what a task that wants its frames kept is about to raise.
kept_error: BaseException | None = None

# In a worker of a cluster's node: what its machine is called, for errors.
node = ""

_NOT_THE_USERS = tuple(os.path.join(path, "") for path in [os.path.dirname(os.__file__), *site.getsitepackages()])


def place() -> Place:
    """What workers that start now are to have."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it has been removed
        folder = ""
    return [os.path.abspath(path) for path in sys.path], folder, keep_frames


class Surroundings:
    """Remembers what they were when last looked at."""

    def __init__(self) -> None:
        self._place = (*place()[:2], False)  # as the workers have it that start with the session
        self._specs: dict[str, Any] = {}
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
        """`importlib.reload` gives a module another `__spec__`."""
        found = False
        for name, module in list(sys.modules.items()):
            spec = getattr(module, "__dict__", {}).get("__spec__")
            known = self._specs.get(name)
            if spec is not known:
                self._specs[name] = spec
                if _is_users(spec):
                    self._times[spec.origin] = _time_of(spec.origin)
                    found |= known is not None
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


def _is_users(spec: Any) -> bool:
    origin = spec.origin if isinstance(spec, importlib.machinery.ModuleSpec) else None
    return origin is not None and origin.endswith(".py") and not origin.startswith(_NOT_THE_USERS)
