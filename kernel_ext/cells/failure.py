"""The error of a cell's task, written under the cell, because the cell's futures may never be fetched."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import front_end
from ...submit.flags import OF_TASKS, flag_of
from .registry import Cell, registry

if TYPE_CHECKING:
    from ...session.session import Session
    from .host import CellHost

_CELL_BODY = re.compile(r'File "Cell In\[(\d+)\]", line \d+, in <module>')


def tell_failure(session: Session, ref: Any, run: Cell, name: str, host: CellHost) -> None:
    """Write the error of a task under the cell that submitted it, as soon as it fails. Cancelled tasks are no news.

    Parameters
    ----------
    session : Session
    ref : ObjectRef
        The value of the cell's last expression, which a cell without one does not show.
    run : Cell
    name : str
        What the task is called.
    host : CellHost
        Writes it.
    """
    from ..background import in_background

    # In a thread: output of the task may still be on its way, and the notifier must not wait for it.
    session.notifier.add(ref, None, partial(in_background, partial(_tell, ref, run, name, host)))


def as_flag(option: str, name: str, origin: int) -> str:
    """How an option is written where the task comes from: the task of a cell has flags."""
    is_cell = bool(name) and name == registry.body(origin)
    return f"%%remote {flag_of(option)}" if is_cell and option in OF_TASKS else f"option {option}"


def _tell(ref: Any, run: Cell, name: str, host: CellHost) -> None:
    """The task has ended."""
    if not ref.client.closed and (error := _error_of(ref)) is not None:
        front_end.current.before_error(getattr(error, "task", 0))
        host.write_error(_in_words(error, run, name), run)


def _error_of(ref: Any) -> Exception | None:
    from ...exceptions import SessionError, TaskCancelledError
    from ...session.futures import without_frames

    try:
        ref.client.get(ref)
    except (TaskCancelledError, SessionError):
        return None
    except Exception as error:  # what the task raised, of any class
        return without_frames(error)
    return None


def _in_words(error: Exception, run: Cell, name: str) -> str:
    from ...exceptions import TaskError
    from ...tracebacks import readable_traceback
    from .failed_inputs import inputs_in_words

    label = run.label or "The cell"
    if not isinstance(error, TaskError):
        return f"{label} has failed: {type(error).__name__}: {error}\n"
    failed = _CELL_BODY.search(error.remote_traceback)
    if failed is not None and (other := f"In [{failed[1]}]") != label:  # which has told it already
        return f"{label} has not run, because {other} has failed: {error.cause_type}: {error.message}\n"
    what = "failed" if error.task_name == name else f"not run, because the task {error.task_name!r} has failed"
    inputs = inputs_in_words(error.task, error.task_name)
    return (
        f"{label} has {what} in the worker with pid "
        f"{error.pid}{f' on {error.node}' if error.node else ''}.{' ' if inputs else ''}{inputs}\n"
        f"{readable_traceback(error.remote_traceback)}"
    )
