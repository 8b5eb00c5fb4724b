"""Which cell is which number: tasks carry a small number, people know cells.

A task in the segment has room for 32 bits of origin. Before a cell runs, it gets the next number here, and the
session's client stamps that number on whatever the cell submits. Everything that must find its way back to a cell
(output, cards, the graph, jumps of the panel) looks the number up again.

A *run* of a cell has a number, not the cell: output belongs under the run that started the task, and a re-run has
another parent message. `cell_id` says which runs are runs of one cell.
"""
from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

# Runs kept. A forgotten run's output has no parent any more and goes to the cell in front; nothing fails.
N_KEPT = 4096


@dataclass(frozen=True)
class Cell:
    """One run of one cell.

    Attributes
    ----------
    number : int
        What tasks carry as their origin; 0 for what no cell submitted.
    label : str
        As the notebook shows it: ``"In [3]"``, ``"In [ ]"`` for a run outside the history, ``""`` for number 0.
    cell_id : str
        The notebook's id of the cell, ``""`` where the front end has none (terminals).
    parent : dict
        The message that asked for the run, without its content: what `set_thread_parent` and `Session.send(parent=...)`
        need to put output under this run. Empty outside a kernel.
    filename : str
        The file name the cell was compiled with, as code objects and tracebacks have it; ``""`` if unknown.
    """

    number: int
    label: str
    cell_id: str = ""
    parent: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    filename: str = ""


NO_CELL = Cell(0, "")


class CellRegistry:
    """Numbers the runs of cells, and remembers the last `N_KEPT` of them.

    Written by the thread that runs cells, read by any.
    """

    def __init__(self) -> None:
        self._cells: OrderedDict[int, Cell] = OrderedDict()
        self._bodies: dict[int, str] = {}
        self._running: list[tuple[object, int]] = []
        self._last_number = 0
        self._current = 0

    @property
    def current(self) -> Cell:
        """The cell that runs now, or the last that did: its threads may still submit. `NO_CELL` before the first."""
        return self.cell(self._current)

    def cell(self, number: int) -> Cell:
        """The run with that number; for a number never given or already forgotten a `Cell` without label and parent."""
        found = self._cells.get(number)
        return found if found is not None else (Cell(number, "") if number else NO_CELL)

    def enter(self, run: object, *, label: str, cell_id: str = "", parent: dict[str, Any] | None = None,
              filename: str = "") -> Cell:
        """Give the run that begins its number and make it the current one; `leave` gets the same object `run` again."""
        self._last_number += 1
        cell = Cell(self._last_number, label, cell_id, _without_content(parent or {}), filename)
        self._cells[cell.number] = cell
        while len(self._cells) > N_KEPT:
            self._bodies.pop(self._cells.popitem(last=False)[0], None)
        self._running.append((run, cell.number))
        self._current = cell.number
        return cell

    def name_body(self, number: int, name: str) -> None:
        """The run with that number is about to become a task of its own, called so."""
        self._bodies[number] = name

    def body(self, number: int) -> str:
        """What the task is called that a run has become; "" if it has not become one."""
        return self._bodies.get(number, "")

    def leave(self, run: object) -> None:
        """A run has ended, for None the innermost. If it was nested in another, that one is the current one again."""
        if run is None:
            self._running = self._running[:-1]
        self._running = [entry for entry in self._running if entry[0] is not run]
        if self._running:
            self._current = self._running[-1][1]


def _without_content(parent: dict[str, Any]) -> dict[str, Any]:
    # The content is the cell's whole text; thousands of runs would keep it for nothing.
    return {key: parent[key] for key in ("header", "parent_header", "metadata", "msg_id", "msg_type") if key in parent}


registry = CellRegistry()
