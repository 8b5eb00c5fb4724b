"""`%%remote --progress`: a bar, by function, for the tasks that a cell's task submits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ...output import progress
from ...output.progress_text import Counts
from .registry import Cell

if TYPE_CHECKING:
    from ...refs import ObjectRef
    from ...session.session import Session


class TaskCounts(Protocol):
    """Counts the tasks of a session by cell: the recorder of its graph."""

    @property
    def is_live(self) -> bool: ...

    def counts_of_cell(self, number: int) -> dict[str, dict[str, int]]:
        """The tasks that descend from a run of a cell: how many of each function are in which state."""
        ...


def show_progress(session: Session, ref: ObjectRef, run: Cell, name: str, recorder: TaskCounts | None) -> None:
    """Show the progress of a run of a cell here, until all its tasks have ended.

    Parameters
    ----------
    session : Session
    ref : ObjectRef
        A future of the cell's own task.
    run : Cell
    name : str
        What the cell's own task is called.
    recorder : TaskCounts or None
        None: only the cell's own task is known.
    """
    if recorder is None:
        look = progress.look_at([ref])
    else:
        look = look_at_cell(recorder, ref, run.number, name)
    progress.Follower(look, run.label or name, session).show()


def look_at_cell(recorder: TaskCounts, ref: ObjectRef, number: int, name: str) -> Callable[[], progress.Looked]:
    """A function that looks how far the tasks of a cell are, in the graph."""

    def look() -> progress.Looked:
        is_over = ref.client.closed or ref.client.ready(ref)  # before the events are read that tell of it
        found = recorder.counts_of_cell(number)
        groups = {function: _counts(states) for function, states in found.items()}
        if len(groups) > 1 and groups.get(name, Counts()).total == 1:  # they are what it does
            own = groups.pop(name)
            is_over = is_over and own.ended == 1
        elif not groups:  # its submission has not been read yet
            groups, is_over = {name: Counts(1)}, False
        is_over = (is_over and all(counts.ended == counts.total for counts in groups.values())) or not recorder.is_live
        error = progress.error_of(ref) if is_over and recorder.is_live else ""
        return progress.Looked(groups, is_over, error)

    return look


def _counts(states: dict[str, int]) -> Counts:
    return Counts(
        sum(states.values()),
        states.get("finished", 0),
        states.get("failed", 0),
        states.get("cancelled", 0),
        states.get("running", 0),
    )
