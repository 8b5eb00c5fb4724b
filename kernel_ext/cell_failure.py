"""The error of a cell's task, under the cell: nobody may ever ask for the futures of a cell that has failed."""
from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import hooks
from ..scheduler.threads import ServiceThread
from .cell_registry import Cell, registry

if TYPE_CHECKING:
    from ..session import Session

FLAGS = {"max_retries": "--retries", "memory": "--memory", "num_cpus": "--cpus"}
_CELL_BODY = re.compile(r'File "Cell In\[(\d+)\]", line \d+, in <module>')


def tell_failure(session: Session, ref: Any, run: Cell, name: str) -> None:
    """Write the error of a task under the cell that submitted it, as soon as it fails. Cancelled tasks are no news.

    Parameters
    ----------
    session : Session
    ref : ObjectRef
        The value of the cell's last expression, which a cell without one does not show.
    run : Cell
    name : str
        What the task is called.
    """
    # In a thread: what the task has printed may be on its way still, and the notifier waits for nobody.
    session.notifier.add(ref, None, ServiceThread(partial(_tell, ref, run, name), "cellmesh-failure").start)


def as_flag(option: str, name: str, origin: int) -> str:
    """How an option of a task is written where the task comes from: what a cell has become has flags."""
    flag = FLAGS.get(option)
    return f"%%remote {flag}" if flag and name and name == registry.body(origin) else f"option {option}"


def _tell(ref: Any, run: Cell, name: str) -> None:
    """The task has ended."""
    if not ref.client.closed and (error := _error_of(ref)) is not None:
        hooks.before_error(getattr(error, "task", 0))
        text = _in_words(error, run, name)
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


def _in_words(error: Exception, run: Cell, name: str) -> str:
    from ..exceptions import TaskError
    from ..tracebacks import readable_traceback
    from .failed_inputs import inputs_in_words
    label = run.label or "The cell"
    if not isinstance(error, TaskError):
        return f"{label} has failed: {type(error).__name__}: {error}\n"
    failed = _CELL_BODY.search(error.remote_traceback)
    if failed is not None and (other := f"In [{failed[1]}]") != label:  # which has told it already
        return f"{label} has not run, because {other} has failed: {error.cause_type}: {error.message}\n"
    what = "failed" if error.task_name == name else f"not run, because the task {error.task_name!r} has failed"
    inputs = inputs_in_words(error.task, error.task_name)
    return f"{label} has {what} in the worker with pid {error.pid}{f' on {error.node}' if error.node else ''}.{' ' if inputs else ''}{inputs}\n{readable_traceback(error.remote_traceback)}"
