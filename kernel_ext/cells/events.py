"""Before and after each cell: tasks get the cell's number, and a stopped cell says which tasks go on."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import IPython

from ...session.current import current_or_none
from .interrupts import LostInterrupts, SignalWakeup, held_back, was_interrupted_before
from .registry import n_unfinished, registry

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from ...session.session import Session
    from ...tasks.call_log import KeptCalls

# From IPython 9.8 on, the counter has already moved on when `pre_run_cell` tells of a cell.
COUNTS_BEFORE = (int(IPython.version_info[0]), int(IPython.version_info[1])) >= (9, 8)
N_CELLS_NAMED = 5
CYCLE_GC_AFTER_S = 0.5  # after a cell; a cell that follows at once does not wait for the garbage collector


class CellEvents:
    """Listens to IPython's events around cells."""

    def __init__(self, shell: InteractiveShell, begins: Callable[[], None], cancels: Callable[[], bool]) -> None:
        self.shell = shell
        self._begins = begins  # told of each cell
        self._cancels = cancels  # whether the tasks of a stopped cell are cancelled
        self.raw_cell = ""
        self._wakeup = SignalWakeup()
        self._lost_interrupts = LostInterrupts()
        self._cycle_gc: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._lost_interrupts.install()
        self.shell.events.register("pre_run_cell", self.before)
        running = self.shell.displayhook.exec_result
        if running is not None:  # the cell that loads the extension may submit tasks as well
            self.before(running.info)
        self.shell.events.register("post_run_cell", self.after)

    def stop(self) -> None:
        self.shell.events.unregister("pre_run_cell", self.before)
        self.shell.events.unregister("post_run_cell", self.after)
        self._lost_interrupts.uninstall()
        self._wakeup.disarm()
        self._cancel_cycle_gc()
        session = current_or_none()
        if session is not None:
            session.keep_calls(None)

    def before(self, info: ExecutionInfo) -> None:
        """A cell begins."""
        if was_interrupted_before():
            raise asyncio.CancelledError  # the one exception that IPython does not keep from ending the cell
        with held_back():
            self._enter(info)

    def _enter(self, info: ExecutionInfo) -> None:
        self._cancel_cycle_gc()
        self.shell.events.unregister("pre_run_cell", self.before)  # behind %autoreload, which reloads modules there
        self.shell.events.register("pre_run_cell", self.before)
        self._wakeup.arm()
        self.raw_cell = info.raw_cell or ""
        get_parent = getattr(self.shell, "get_parent", None)  # only kernels have messages
        parent = get_parent() if get_parent is not None else {}
        number = self.shell.execution_count - (COUNTS_BEFORE and info.store_history)
        raw = info.raw_cell or ""
        transformed = getattr(info, "transformed_cell", None) or raw
        registry.enter(
            info,
            label=f"In [{number}]" if info.store_history else "In [ ]",
            cell_id=info.cell_id or parent.get("metadata", {}).get("cellId", ""),
            parent=parent,
            filename=self.shell.compile.get_code_name(raw, transformed, number),
        )
        self._begins()
        session = current_or_none()
        if session is not None and not session.client.closed:
            attach(session).next_cell()
            with warnings.catch_warnings(record=True) as told:
                session.forget_changed_code(autoreload=_autoreloads(self.shell))
            for warning in told:  # it would point at IPython's line that runs us
                print(f"{warning.category.__name__}: {warning.message}", file=sys.stderr)

    def after(self, result: ExecutionResult | None) -> None:
        """A cell has ended; None: it was cancelled before it could say how."""
        self._collect_cycles_soon()
        run = registry.current
        registry.leave(result.info if result is not None else None)
        session = current_or_none()
        if session is not None and not session.client.closed:
            session.tell_imported()
        if result is None or isinstance(result.error_in_exec, KeyboardInterrupt | asyncio.CancelledError):
            left = n_unfinished()
            if left[run.number] and self._cancels():
                from .cancel import cancel_runs

                cancel_runs([run.number])
            elif left:
                print(what_goes_on(left, run.number))

    def _collect_cycles_soon(self) -> None:
        """Values that only reference cycles hold, as old tracebacks do, are to leave the object store soon."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # in a terminal nothing runs between cells
            return
        self._cycle_gc = loop.call_later(CYCLE_GC_AFTER_S, _collect_cycles)

    def _cancel_cycle_gc(self) -> None:
        if self._cycle_gc is not None:
            self._cycle_gc.cancel()
            self._cycle_gc = None


def _collect_cycles() -> None:
    session = current_or_none()
    if session is not None and not session.client.closed:
        session.client.flush()  # what has been let go of lately is still in a buffer
        session.client.collect_cycles()


def what_goes_on(left: Counter[int], number: int) -> str:
    """The line for a cell that was stopped: which tasks go on, and how to end them.

    Parameters
    ----------
    left : Counter
        How many tasks go on, by the number of the cell that submitted them.
    number : int
        The stopped cell's.
    """
    if left[number]:
        left, cells, cancel = Counter({number: left[number]}), "this cell", "%cancel"
    else:  # it waited, or might have, for those of others
        labels = list(dict.fromkeys(registry.cell(number).label for number in sorted(left)))
        numbers = [label.strip("In []") for label in labels]
        if all(numbers) and len(numbers) <= N_CELLS_NAMED:
            cells, cancel = ", ".join(labels), f"%cancel {' '.join(numbers)}"
        else:
            cells, cancel = "other cells", "%cancel --all"
    n = left.total()
    return (
        f"Stopped. 1 task of {cells} runs on; {cancel} ends it."
        if n == 1
        else f"Stopped. {n} tasks of {cells} run on; {cancel} ends them."
    )


def _autoreloads(shell: InteractiveShell) -> bool:
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    return bool(getattr(getattr(magics, "_reloader", None), "enabled", False))


def attach(session: Session) -> KeptCalls:
    """Have what is submitted from now on carry the number of the cell that runs, and its inputs kept: there."""
    session.client.origin = registry.current.number
    kept = session.kept_calls
    if kept is None or not kept.counts_cells:
        from ...tasks.call_log import KeptCalls
        from .task import run_cell

        kept = KeptCalls(session.client, of_cells=run_cell)
        session.keep_calls(kept)
    return kept
