"""`%%remote --progress`: a bar for the tasks that a cell's task submits in its turn, by function."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import task_progress
from ..progress_view import Counts
from . import host
from .cell_registry import Cell

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..session import Session
    from .recorder import Recorder


def show_progress(session: Session, ref: ObjectRef, run: Cell, name: str) -> None:
    """Show the progress of a run of a cell here, until all its tasks have ended.

    Parameters
    ----------
    session : Session
    ref : ObjectRef
        A future of the cell's own task.
    run : Cell
    name : str
        What the cell's own task is called.
    """
    shown_by = host.current()
    recorder = shown_by.recorder if shown_by is not None else None
    if recorder is None or recorder.session is not session:  # a terminal: only the cell's own task is known
        look = task_progress.look_at([ref])
    else:
        look = look_at_cell(recorder, ref, run.number, name)
    task_progress.Follower(look, run.label or name, session).show()


def look_at_cell(recorder: Recorder, ref: ObjectRef, number: int, name: str) -> Callable[[], task_progress.Looked]:
    """A function that looks how far the tasks of a cell are, in the graph."""

    def look() -> task_progress.Looked:
        is_over = ref.client.closed or ref.client.ready(ref)  # before the events are read that tell of it
        found = recorder.look(lambda graph: graph.counts_of_cell(number))
        groups = {function: _counts(states) for function, states in found.items()}
        if len(groups) > 1 and groups.get(name, Counts()).total == 1:  # they are what it does
            own = groups.pop(name)
            is_over = is_over and own.ended == 1
        elif not groups:  # its submission has not been read yet
            groups, is_over = {name: Counts(1)}, False
        is_over = is_over and all(counts.ended == counts.total for counts in groups.values()) or not recorder.is_live
        error = task_progress.error_of(ref) if is_over and recorder.is_live else ""
        return task_progress.Looked(groups, is_over, error)

    return look


def _counts(states: dict[str, int]) -> Counts:
    return Counts(sum(states.values()), states.get("finished", 0), states.get("failed", 0), states.get("cancelled", 0),
                  states.get("running", 0))
