"""Errors of magics: a mistake is shown in a sentence, a task's error with the traceback of the task."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from ...exceptions import CellmeshError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Mistakes:
    """Shows a mistake of a cell's author in a sentence, a task's error with the traceback from there."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if error is None:
            return False
        from ..cells.analysis.read import CellError

        if isinstance(error, CellError):
            if error.shown_as is None:
                raise UsageError(str(error)) from None
            self.show(error.shown_as)
        elif isinstance(error, CellmeshError):
            self.show(error)
        else:
            return False
        return True

    def show(self, error: Exception) -> None:
        """Show an error without a traceback; the cell counts as failed."""
        result = self.shell.displayhook.exec_result
        if result is None:  # not called from a cell
            raise error
        from ...session.futures import without_frames

        result.error_in_exec = without_frames(error)  # among them those of IPython, which have the result
        if isinstance(error, SyntaxError):
            formatter: Any = self.shell.SyntaxTB
            stack = formatter.structured_traceback(type(error), error, [])
            self.shell._showtraceback(type(error), error, stack)
        else:
            self.shell.showtraceback((type(error), error, None))
