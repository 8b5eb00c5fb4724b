"""What people read when a task is run again because its worker died: once for each, and not more than one can read."""

from __future__ import annotations

from collections import deque

from ..exit_codes import how_it_ended

N_LINES, WITHIN_S = 5, 10.0  # so many lines in that time


class Reruns:
    """Makes the lines; knows no clock."""

    def __init__(self) -> None:
        self._told: deque[float] = deque(maxlen=N_LINES)

    def admits(self, now: float) -> bool:
        """Whether there may be another line now."""
        if len(self._told) == N_LINES and now - self._told[0] < WITHIN_S:
            return False
        self._told.append(now)
        return True

    def line(self, name: str, exit_code: int, out_of_memory: bool, attempt: int, most: int, now: float) -> str:
        """The line for a task whose run of that number begins, of `most` (-1: any number).

        `exit_code`: as of `WorkerCrashedError`.
        """
        how = "was killed because memory ran out" if out_of_memory else how_it_ended(exit_code)
        count = f"attempt {attempt} of {most}" if most >= 0 else f"attempt {attempt}"
        is_last = len(self._told) == N_LINES and now - self._told[0] < WITHIN_S
        more = f"; of more within {WITHIN_S:g} s nothing is said" if is_last else ""
        return f"{repr(name) if name else 'a task'} is run again, after its worker {how} ({count}{more})"
