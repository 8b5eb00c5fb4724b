"""The levels of the driver's loggers hold in workers, so that a record nobody wants is not made there.

They lie in the session's context in the segment. The driver puts them there when one of them changes. A worker looks,
whenever something is logged, whether the context is another one. So running tasks and actors follow, no message is
sent, and what logs nothing pays nothing.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..exceptions import SessionError

if TYPE_CHECKING:
    from ..objstore._core import Client

# What `logging.disable` was told, whether the root logger has handlers, and the levels of loggers that have their own.
Levels = tuple[int, bool, dict[str, int]]
ROOT = "root"
OF_PYTHON: Levels = (logging.NOTSET, False, {ROOT: logging.WARNING})


# ---- in the driver
def of_driver() -> Levels:
    """What workers are to have.

    Loggers of a class of a library's own are left out: a worker that made one before the library is imported there
    would make one of the wrong class.
    """
    root = logging.root
    named = [(name, logger) for name, logger in list(root.manager.loggerDict.items()) if type(logger) is logging.Logger]
    levels = {name: logger.level for name, logger in named if logger.level != logging.NOTSET}
    return root.manager.disable, root_has_handlers(), {ROOT: root.level, **levels}


def root_has_handlers() -> bool:
    """Whether logging is set up here."""
    return bool(logging.root.handlers)


def on_change(changed: Callable[[], object]) -> Callable[[], None]:
    """Call `changed()` when a level has been set, in any thread; returns the function that ends it."""
    # Nothing public tells of it. A logger remembers which levels are enabled; its manager has all of them forget that
    # whenever a level is set, and when `logging.disable` is called.
    manager: Any = logging.root.manager
    forget: Callable[[], None] = manager._clear_cache

    def forget_and_tell() -> None:
        forget()
        changed()

    def end() -> None:
        if vars(manager).get("_clear_cache") is forget_and_tell:
            del manager._clear_cache

    manager._clear_cache = forget_and_tell
    return end


# ---- in a worker
ASKS = ("isEnabledFor", "getEffectiveLevel", "setLevel")


def follow(client: Client, levels_in: Callable[[Any], Levels]) -> None:
    """Have the loggers of this process follow the driver's from now on.

    Parameters
    ----------
    client : Client
    levels_in : callable
        Finds the levels in the session's context.
    """
    from ..scheduler.worker.integrations import log_records

    seen, held = 0, OF_PYTHON

    def look() -> None:
        nonlocal seen, held
        seen = client.context_version
        try:
            context = client.context()
        except SessionError:  # it ends
            return
        if context is not None:
            before, held = held, levels_in(context)
            _set(before, held)

    def looking(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def looked(logger: logging.Logger, *args: Any) -> Any:
            if client.context_version != seen:
                look()
            return method(logger, *args)

        return looked

    def has_handlers() -> bool:
        if client.context_version != seen:
            look()
        return held[1]

    methods = {name: getattr(logging.Logger, name) for name in ASKS}
    for name, method in methods.items():
        setattr(logging.Logger, name, looking(method))
    log_records.driver_has_handlers = has_handlers

    def stop() -> None:  # a forked child is no client of the segment
        for name, method in methods.items():
            setattr(logging.Logger, name, method)
        log_records.driver_has_handlers = lambda: held[1]

    os.register_at_fork(after_in_child=stop)


def _set(before: Levels, now: Levels) -> None:
    """What has changed is set; what has not may have been set by a task meanwhile, and stays."""
    if now[0] != before[0]:
        logging.disable(now[0])
    for name in before[2].keys() | now[2].keys():
        level = now[2].get(name, logging.NOTSET)
        if level != before[2].get(name, logging.NOTSET):
            (logging.root if name == ROOT else logging.getLogger(name)).setLevel(level)
