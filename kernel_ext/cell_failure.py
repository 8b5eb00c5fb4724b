"""The error of a cell's task, under the cell: nobody may ever ask for the futures of a cell that has failed."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .cell_registry import Cell

if TYPE_CHECKING:
    from ..session import Session


def tell_failure(session: Session, ref: Any, run: Cell) -> None:
    """Write the error of a task under the cell that submitted it, as soon as it fails. Cancelled tasks are no news.

    Parameters
    ----------
    session : Session
    ref : ObjectRef
        The value of the cell's last expression, which a cell without one does not show.
    run : Cell
    """
    session.notifier.add(ref, None, lambda: _tell(ref, run))


def _tell(ref: Any, run: Cell) -> None:
    """Called in the notifier's thread when the task has ended."""
    if not ref.client.closed and (error := _error_of(ref)) is not None:
        text = _in_words(error, run)
        from . import host
        shown_by = host.current()
        if shown_by is not None and shown_by.kernel is not None and run.parent:
            shown_by.send("stream", {"name": "stderr", "text": text}, run.parent, "stream.stderr")
        else:
            print(text, file=sys.stderr, end="", flush=True)


def _error_of(ref: Any) -> Exception | None:
    from ..exceptions import SessionError, TaskCancelledError
    try:
        ref.client.get(ref)
    except (TaskCancelledError, SessionError):
        return None
    except Exception as error:  # what the task raised, of any class
        return error
    return None


def _in_words(error: Exception, run: Cell) -> str:
    from ..exceptions import TaskError
    from ..tracebacks import with_source_lines
    label = run.label or "The cell"
    if not isinstance(error, TaskError):
        return f"{label} has failed: {type(error).__name__}: {error}\n"
    if error.task_name != run.label and error.task_name.startswith("In ["):
        return f"{label} has not run, because {error.task_name} has failed: {error.cause_type}: {error.message}\n"
    return f"{label} has failed in the worker with pid {error.pid}.\n{with_source_lines(error.remote_traceback)}"
