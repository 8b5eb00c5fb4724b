"""What the modules of cells need of the kernel's host (`kernel_ext/host.py`), which is passed in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...session.session import Session
    from ..ranks.folding import View
    from ..ranks.strip import Strip
    from .progress import TaskCounts
    from .registry import Cell


class CellHost(Protocol):
    """The notebook, as far as running its cells concerns it."""

    @property
    def is_to_be_saved(self) -> bool:
        """Whether a program runs the notebook to save it: what comes under a cell later is lost."""
        ...

    def write_error(self, text: str, run: Cell) -> None:
        """Write to stderr under a run of a cell; from any thread."""
        ...

    def recorder_of(self, session: Session) -> TaskCounts | None:
        """What counts the tasks of this session by cell; None in a terminal."""
        ...

    def strip(self, run: Cell, view: View) -> Strip | None:
        """What shows this of the output of ranks under a run of a cell; None where nothing can: in a terminal."""
        ...

    def showing(self, strip: Strip | None) -> AbstractContextManager[None]:
        """At the end of it all is shown that the ranks have printed."""
        ...
