"""What the machine was doing over time: a bounded history, and the look at the machine.

The history is as long as the session: when it is full, of neighbours one goes, so that the old is told as evenly as the
new, only coarser.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..scheduler.local_scheduler import memory_monitor
from .panel_messages import NodeLabel, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

N_SAMPLES_MAX = 1200  # of each node; a snapshot carries them all, some 60 kB
THIS_NODE = 0


class Samples:
    """The samples of all nodes. Pure.

    Attributes
    ----------
    nodes : dict of NodeLabel by number
    count : int
        How many there have been; the number of the next one.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, NodeLabel] = {}
        self.count = 0
        self._kept: list[tuple[int, Sample]] = []  # by number, ascending

    def add(self, sample: Sample) -> None:
        self._kept.append((self.count, sample))
        self.count += 1
        if len(self._kept) > N_SAMPLES_MAX * max(1, len(self.nodes)):
            # Of each node every second one, and the latest as it is.
            turns: dict[int, int] = {}
            thinned = []
            for number, each in self._kept:
                turns[each.node] = turn = turns.get(each.node, 0) + 1
                if turn % 2 or number == self.count - 1:
                    thinned.append((number, each))
            self._kept = thinned

    def since(self, number: int) -> list[Sample]:
        """Those from this number on that are still kept."""
        first = next((at for at in range(len(self._kept), 0, -1) if self._kept[at - 1][0] < number), 0)
        return [sample for _, sample in self._kept[first:]]


class Machine:
    """Looks at this machine."""

    def __init__(self) -> None:
        self._busy, self._total = _processor_times()

    def label(self, total: Mapping[str, float], stats: Mapping[str, Any]) -> NodeLabel:
        memory = min((usage.total for usage in memory_monitor.usages()), default=0)
        return NodeLabel(os.uname().nodename, total.get("CPU", 0.0), total.get("GPU", 0.0), memory, stats["capacity_bytes"])

    def sample(self, at_s: float, total: Mapping[str, float], available: Mapping[str, float], stats: Mapping[str, Any]) -> Sample:
        """What it is doing now.

        Parameters
        ----------
        at_s : float
            Seconds of the session.
        total, available : amounts by resource
        stats : dict
            Of the segment, as `Client.stats` returns them.
        """
        busy, ticks = _processor_times()
        passed = ticks - self._total
        load = (busy - self._busy) / passed if passed > 0 else 0.0
        self._busy, self._total = busy, ticks
        # Of the memories there are (the machine's, a container's) the one that is nearest to its end.
        fullest = max(memory_monitor.usages(), key=lambda usage: usage.used / usage.total, default=None)
        taken = {name: max(0.0, total.get(name, 0.0) - available.get(name, 0.0)) for name in ("CPU", "GPU")}
        return Sample(THIS_NODE, round(at_s, 2), round(min(1.0, max(0.0, load)), 3), taken["CPU"], taken["GPU"],
                      max(0, fullest.used) if fullest else 0, stats["used_bytes"], stats["disk_bytes"])


def _processor_times() -> tuple[int, int]:
    """Ticks that all processors have worked, and all ticks, since the machine was started."""
    with open("/proc/stat", "rb") as file:
        times = [int(word) for word in file.readline().split()[1:9]]  # user nice system idle iowait irq softirq steal
    return sum(times) - times[3] - times[4], sum(times)
