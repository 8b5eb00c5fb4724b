"""What IPython keeps of cells that have run, their values and their errors: no longer than a person expects."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

LAST = ("_", "__", "___")
# Whose frames run a cell, from the one that its traceback begins with to the one that replies; the next is another's.
RUNNERS = {"IPython.core.interactiveshell", "IPython.core.async_helpers", "ipykernel.zmqshell", "ipykernel.ipkernel"}


class KeptResults:
    """Lets go of what a person has let go of, and says what is still kept.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._numbers = set[int]()  # of cells whose value IPython has noted as hidden
        self._failed = weakref.WeakSet[Any]()  # results whose error leads back to them

    def cell_ends(self, result: ExecutionResult | None) -> None:
        """A cell has run, to a result if it was not stopped before its first line."""
        self._forget_outputs()
        for before in list(self._failed):
            if before is not result and opens_cycle(before.error_in_exec or before.error_before_exec):
                self._failed.discard(before)
        if result is not None and not result.success:
            self._failed.add(result)

    def held(self) -> Iterator[tuple[str, Any]]:
        """The values that IPython keeps besides the variables and `Out`, and as what, in words."""
        shell = self._shell
        for name in LAST:
            value = getattr(shell.displayhook, name)
            if shell.user_ns.get(name) is not value:  # assigned by the user
                yield f"what IPython keeps as {name}", value
        result: Any = shell.last_execution_result
        if result is not None and shell.user_ns.get("_oh", {}).get(result.execution_count) is not result.result:
            yield "the value of the last cell", result.result

    def _forget_outputs(self) -> None:
        """IPython notes outputs as hidden variables. `%reset out` leaves those of `_`, `__` and `___`: the variables
        count as the user's from then on, and IPython changes them no more. A full `Out` leaves the notes of `_12`.
        """
        shell, hidden = self._shell, self._shell.user_ns_hidden
        for name in LAST:
            if name in hidden:
                hidden[name] = getattr(shell.displayhook, name)
        outputs = shell.user_ns.get("_oh", {})
        self._numbers |= outputs.keys()
        for number in self._numbers - outputs.keys():
            name = f"_{number}"
            if name not in hidden or shell.user_ns.get(name) is not hidden[name]:
                hidden.pop(name, None)
                self._numbers.discard(number)


def opens_cycle(error: BaseException | None) -> bool:
    """Clear the frames that ran the cell of an error: its result has the error, that its traceback, which leads to
    these frames, and they have the result. Frames of the user's code stay whole, for %debug.

    False: one of them still runs, of a cell that another thread has just run (of a subshell).
    """
    entry = error.__traceback__ if error is not None else None
    frame = entry.tb_frame if entry is not None else None
    while frame is not None and frame.f_globals.get("__name__") in RUNNERS:
        try:
            frame.clear()
        except RuntimeError:
            return False
        frame = frame.f_back
    return True
