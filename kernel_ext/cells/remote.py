"""`%%remote` and `%%actor`: a cell becomes remote functions and actor classes, a task, or an actor."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from .actor import start_actor
from .analysis.read import Body, CellError, Definitions, read_cell
from .define import define
from .registry import Cell, registry
from .submission import Submission
from .task import FUTURE_FLAGS, CellCode, show_source

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .host import CellHost


class RemoteCells:
    """Runs the `%%remote` and `%%actor` cells of one notebook.

    Parameters
    ----------
    shell : InteractiveShell
    host : CellHost
    """

    def __init__(self, shell: InteractiveShell, host: CellHost) -> None:
        self.shell = shell
        self._host = host
        self.submission = Submission(shell, host)

    def run(self, text: str, head: list[str], options: argparse.Namespace) -> Any:
        """Run a cell.

        Parameters
        ----------
        text : str
            What stands below the ``%%remote`` line.
        head : list of str
            The lines above it, that line included.
        options : argparse.Namespace
            As `arguments.REMOTE` parses them.

        Returns
        -------
        ObjectRef or None
            The future of the cell's last expression.

        Raises
        ------
        CellError
            The cell cannot be run, or an option is wrong.
        """
        __tracebackhide__ = True
        run = registry.current
        cell, code = self.read(text, head, run)
        if isinstance(cell, Definitions) and options.on is None:
            return define(cell, code, options, self.shell.user_ns)
        if isinstance(cell, Definitions):
            cell = read_cell(text, n_lines_before=len(head), filename=code.filename, flags=code.flags, is_body=True)
        assert isinstance(cell, Body)
        if cell.ends_by_showing and self._host.is_to_be_saved:
            # The card keeps what is printed when the cell has ended.
            cell = dataclasses.replace(cell, has_last_expression=True)
        code = dataclasses.replace(code, has_last_expression=cell.has_last_expression, keep=options.keep_frames)
        return self.submission.submit(cell, code, run, options)

    def start_actor(self, text: str, head: list[str], options: argparse.Namespace) -> None:
        """Run an `%%actor` cell: parameters as those of `run`, options as `arguments.ACTOR` parses them."""
        __tracebackhide__ = True
        cell, code = self.read(text, head, registry.current)
        start_actor(cell, code, self.shell.user_ns, registry.current, options, self._host)

    def read(self, text: str, head: list[str], run: Cell, is_body: bool = False) -> tuple[Definitions | Body, CellCode]:
        """What a cell is, and as what it travels: parameters as those of `run` and of `read_cell`."""
        filename = _filename(run)
        whole = "".join(f"{line}\n" for line in head) + text
        flags = self.shell.compile.flags & FUTURE_FLAGS
        show_source(filename, whole)  # before anything can fail: the error shows the line
        try:
            cell = read_cell(text, n_lines_before=len(head), filename=filename, flags=flags, is_body=is_body)
        except SyntaxError as error:
            raise CellError(str(error), shown_as=error) from None
        return cell, CellCode(text=whole, source=cell.source, filename=filename, flags=flags)


def _filename(run: Cell) -> str:
    """What code of the cell is compiled with: tracebacks name the cell as its author knows it."""
    if run.label.strip("In []"):
        return f"Cell {run.label.replace(' ', '')}"
    return f"Cell run {run.number}"
