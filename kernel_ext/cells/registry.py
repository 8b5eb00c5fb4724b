"""The numbers of cells: a task carries a small number, and the registry knows the cell.

A task in the segment has room for 32 bits of origin. Before a cell runs, it gets the next number, and the session's
client stamps that number on everything that the cell submits. What must find its way back to a cell (output, cards, the
graph, jumps of the panel) looks the number up here.

A number stands for one *run* of a cell. Output belongs under the run that started the task, and each run has another
parent message. `cell_id` says which runs are runs of the same cell.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from ...session.current import current_or_none

# Runs kept. A forgotten run's output has no parent any more and goes to the cell in front; nothing fails.
N_KEPT = 4096


@dataclass(frozen=True, slots=True)
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
    experiment : str
        The experiment whose tasks carry this number: they stand under the cell, and go on when the cell is stopped.
        ``""``: the cell's own.
    """

    number: int
    label: str
    cell_id: str = ""
    parent: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    filename: str = ""
    experiment: str = ""


NO_CELL = Cell(0, "")


class CellRegistry:
    """Numbers the runs of cells, and remembers the last `N_KEPT` of them.

    Written by the thread that runs cells, read by any.
    """

    def __init__(self) -> None:
        self._cells: OrderedDict[int, Cell] = OrderedDict()
        self._bodies: dict[int, str] = {}
        self._running: list[tuple[object, int]] = []
        self._experiments: dict[str, int] = {}
        self._last_number = 0
        self._current = 0

    @property
    def current(self) -> Cell:
        """The cell that runs now, or the last that did: its threads may still submit. `NO_CELL` before the first."""
        return self.cell(self._current)

    def cell(self, number: int) -> Cell:
        """The run with that number; a `Cell` without label and parent if there is none, or it is forgotten."""
        found = self._cells.get(number)
        return found if found is not None else (Cell(number, "") if number else NO_CELL)

    def enter(
        self, run: object, *, label: str, cell_id: str = "", parent: dict[str, Any] | None = None, filename: str = ""
    ) -> Cell:
        """Give the run that begins its number and make it the current one; `leave` gets the same object `run` again."""
        cell = self._add(Cell(self._last_number + 1, label, cell_id, _without_content(parent or {}), filename))
        self._running.append((run, cell.number))
        self._current = cell.number
        return cell

    def for_experiment(self, name: str, begins: bool = False) -> Cell:
        """The number of what an experiment submits. It stands under the cell in which the experiment begins, or is
        first spoken of.
        """
        if begins or name not in self._experiments or self._experiments[name] not in self._cells:
            cell = self._add(replace(self.current, number=self._last_number + 1, experiment=name))
            self._experiments[name] = cell.number
        return self._cells[self._experiments[name]]

    def experiment_cell(self, name: str) -> str:
        """The label of the cell under which an experiment stands; "" for one of another session."""
        number = self._experiments.get(name, 0)
        return self.cell(number).label if number else ""

    def _add(self, cell: Cell) -> Cell:
        self._last_number = cell.number
        self._cells[cell.number] = cell
        while len(self._cells) > N_KEPT:
            self._bodies.pop(self._cells.popitem(last=False)[0], None)
        return cell

    def name_body(self, number: int, name: str) -> None:
        """The run with that number is about to become a task of this name."""
        self._bodies[number] = name

    def body(self, number: int) -> str:
        """The name of the task that a run has become; "" if it has not become one."""
        return self._bodies.get(number, "")

    def is_running(self, number: int) -> bool:
        """Whether the run with that number has not ended."""
        return any(entry[1] == number for entry in self._running)

    def leave(self, run: object) -> None:
        """A run has ended (None: the innermost). If it was nested in another run, that one is current again."""
        if run is None:
            self._running = self._running[:-1]
        self._running = [entry for entry in self._running if entry[0] is not run]
        if self._running:
            self._current = self._running[-1][1]


def _without_content(parent: dict[str, Any]) -> dict[str, Any]:
    # The content is the cell's whole text; thousands of runs would keep it for nothing. And each message that has been
    # read has strings of its own for what all messages say.
    kept = {key: parent[key] for key in ("header", "parent_header", "metadata", "msg_id", "msg_type") if key in parent}
    for part in kept.keys() & {"header", "parent_header", "metadata"}:
        kept[part] = {sys.intern(key): _shared(key, value) for key, value in kept[part].items()}
    return kept


def _shared(key: str, value: Any) -> Any:
    return sys.intern(value) if type(value) is str and key != "msg_id" else value


registry = CellRegistry()


def n_unfinished() -> Counter[int]:
    """How many tasks of each cell have not ended, by the number of the cell.

    Those of experiments are not the cells': `%tune` and `Experiment.stop` end them.
    """
    session = current_or_none()
    if session is None or session.client.closed:
        return Counter()
    found: Counter[int] = Counter()
    for (number, _), n in session.client.count_tasks().items():
        if not registry.cell(number).experiment:
            found[number] += n
    return found
