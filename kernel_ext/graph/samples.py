"""The load of the machines over time: a bounded history. Pure; `machine` looks at this machine.

The history covers the whole session. When it is full, one of two neighbours is dropped, so the past is told as evenly
as the present, only coarser.
"""

from __future__ import annotations

from ..panel_messages import N_SAMPLES_MAX, NodeLabel, Sample


class Samples:
    """The samples of all nodes.

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
            # Every second one of each node stays, and the latest.
            turns: dict[int, int] = {}
            thinned = []
            for number, each in self._kept:
                turns[each.node] = turn = turns.get(each.node, 0) + 1
                if turn % 2 or number == self.count - 1:
                    thinned.append((number, each))
            self._kept = thinned

    def latest(self, node: int) -> Sample | None:
        """The last one of a machine."""
        return next((sample for _, sample in reversed(self._kept) if sample.node == node), None)

    def since(self, number: int) -> list[Sample]:
        """Those from this number on that are still kept."""
        first = next((at for at in range(len(self._kept), 0, -1) if self._kept[at - 1][0] < number), 0)
        return [sample for _, sample in self._kept[first:]]
