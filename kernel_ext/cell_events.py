"""Before and after each cell: its number goes with whatever it submits, and a stopped cell says what goes on."""
from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import IPython

from .. import session as sessions
from .cell_registry import registry
from .kept_calls import KeptCalls
from .wakeup import LostInterrupts, SignalWakeup, held_back, was_interrupted_before

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from ..session import Session
    from .capture import Shipper

# From IPython 9.8 on, the counter has already moved on when `pre_run_cell` tells of a cell.
COUNTS_BEFORE = IPython.version_info[:2] >= (9, 8)
N_CELLS_NAMED = 5
LITTER_AFTER_S = 0.5  # after a cell; who runs the next one at once does not wait for the garbage collector


class CellEvents:
    """Listens to IPython's events around cells."""

    def __init__(self, shell: InteractiveShell, shipper: Shipper, cancels: Callable[[], bool] = lambda: False) -> None:
        self.shell = shell
        self.shipper = shipper
        self._cancels = cancels  # whether the tasks of a stopped cell are cancelled
        self.raw_cell = ""
        self._wakeup = SignalWakeup()
        self._lost_interrupts = LostInterrupts()
        self._litter: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._lost_interrupts.install()
        self.shell.events.register("pre_run_cell", self.before)
        running = self.shell.displayhook.exec_result
        if running is not None:  # the cell that loads the extension may submit tasks as well
            self.before(running.info)
        self.shell.events.register("post_run_cell", self.after)
        sessions.when_started.append(attach)  # what the cell that starts a session submits is its own already

    def stop(self) -> None:
        self.shell.events.unregister("pre_run_cell", self.before)
        self.shell.events.unregister("post_run_cell", self.after)
        sessions.when_started.remove(attach)
        self._lost_interrupts.uninstall()
        self._wakeup.disarm()
        self._leave_litter()
        session = sessions.current_or_none()
        if session is not None:
            session.keep_calls(None)

    def before(self, info: ExecutionInfo) -> None:
        """A cell begins."""
        if was_interrupted_before():
            raise asyncio.CancelledError  # the one exception that IPython does not keep from ending the cell
        with held_back():
            self._enter(info)

    def _enter(self, info: ExecutionInfo) -> None:
        self._leave_litter()
        self.shell.events.unregister("pre_run_cell", self.before)  # behind %autoreload, which reloads modules there
        self.shell.events.register("pre_run_cell", self.before)
        self._wakeup.arm()
        self.raw_cell = info.raw_cell
        parent = self.shell.get_parent() if hasattr(self.shell, "get_parent") else {}  # only kernels have messages
        number = self.shell.execution_count - (COUNTS_BEFORE and info.store_history)
        transformed = getattr(info, "transformed_cell", None) or info.raw_cell
        registry.enter(
            info,
            label=f"In [{number}]" if info.store_history else "In [ ]",
            cell_id=info.cell_id or parent.get("metadata", {}).get("cellId", ""),
            parent=parent,
            filename=self.shell.compile.get_code_name(info.raw_cell, transformed, number),
        )
        self.shipper.forget_rebound(self.shell.user_ns)
        session = sessions.current_or_none()
        if session is not None and not session.client.closed:
            attach(session)
            session.kept_calls.next_cell()
            session.forget_changed_code(autoreload=_autoreloads(self.shell))

    def after(self, result: ExecutionResult | None) -> None:
        """A cell has ended; None: it was cancelled before it could say how."""
        self._collect_litter_soon()
        run = registry.current
        registry.leave(result.info if result is not None else None)
        if result is None or isinstance(result.error_in_exec, KeyboardInterrupt | asyncio.CancelledError):
            left = n_unfinished()
            if left[run.number] and self._cancels():
                from .cancel import cancel_runs
                cancel_runs([run.number])
            elif left:
                print(what_goes_on(left, run.number))


    def _collect_litter_soon(self) -> None:
        """Values that only reference cycles hold, as old tracebacks do, are to leave the object store soon."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # in a terminal nothing runs between cells
            return
        self._litter = loop.call_later(LITTER_AFTER_S, _collect_litter)

    def _leave_litter(self) -> None:
        if self._litter is not None:
            self._litter.cancel()
            self._litter = None


def _collect_litter() -> None:
    session = sessions.current_or_none()
    if session is not None and not session.client.closed:
        session.client.flush()  # what has been let go of lately is still in a buffer
        session.client.collect_litter()


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
    return (f"Stopped. 1 task of {cells} runs on; {cancel} ends it." if n == 1 else
            f"Stopped. {n} tasks of {cells} run on; {cancel} ends them.")


def _autoreloads(shell: InteractiveShell) -> bool:
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    return bool(getattr(getattr(magics, "_reloader", None), "enabled", False))


def attach(session: Session) -> None:
    """Have what is submitted from now on carry the number of the cell that runs, and its inputs kept."""
    session.client.origin = registry.current.number
    session.tracks_code = True
    if session.kept_calls is None:
        session.keep_calls(KeptCalls(session.client))


def n_unfinished(limit: int = 1 << 20) -> Counter[int]:
    """How many tasks of each cell have not ended, by the number of the cell; at most so many are looked at."""
    session = sessions.current_or_none()
    if session is None or session.client.closed:
        return Counter()
    return Counter(task["origin"] for task in session.client.tasks(limit))
