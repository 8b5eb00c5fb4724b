"""The load of the machine, whichever processes cause it: its processors and its memory."""

from __future__ import annotations

from .memory import usages


class MachineLoad:
    """The load since the last look."""

    def __init__(self) -> None:
        self._busy, self._total = _processor_times()

    def processors(self) -> float:
        """Share of the processors' time that was used since the last look."""
        busy, ticks = _processor_times()
        passed = ticks - self._total
        load = (busy - self._busy) / passed if passed > 0 else 0.0
        self._busy, self._total = busy, ticks
        return round(min(1.0, max(0.0, load)), 3)

    @staticmethod
    def memory() -> tuple[int, int]:
        """Bytes in use, and bytes there are: of the memories (the machine's, a container's) the one that is nearest to
        its end.
        """
        fullest = max(usages(), key=lambda usage: usage.used / usage.total, default=None)
        return (max(0, fullest.used), fullest.total) if fullest else (0, 0)


def _processor_times() -> tuple[int, int]:
    """Ticks that all processors have worked, and all ticks, since the machine was started."""
    with open("/proc/stat", "rb") as file:
        times = [int(word) for word in file.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
    return sum(times) - times[3] - times[4], sum(times)
