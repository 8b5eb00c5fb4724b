"""What the machine was doing over time: a bounded history, and the look at the machine.

The history is as long as the session: when it is full, of neighbours one goes, so that the old is told as evenly as the
new, only coarser.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..scheduler.local_scheduler import memory_monitor
from ..scheduler.machine_load import MachineLoad
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
        self._load = MachineLoad()

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
        taken = {name: max(0.0, total.get(name, 0.0) - available.get(name, 0.0)) for name in ("CPU", "GPU")}
        return Sample(THIS_NODE, round(at_s, 2), self._load.processors(), taken["CPU"], taken["GPU"], self._load.memory()[0],
                      stats["used_bytes"], stats["disk_bytes"])
