"""What this machine has and what it is doing, as the samples of the panel say it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...scheduler.system.load import MachineLoad
from ...scheduler.system.memory import usages
from ..panel_messages import NodeLabel, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

THIS_NODE = 0


class Machine:
    """Looks at this machine."""

    def __init__(self) -> None:
        self._load = MachineLoad()

    def label(self, total: Mapping[str, float], stats: Mapping[str, Any]) -> NodeLabel:
        memory = min((usage.total for usage in usages()), default=0)
        return NodeLabel(
            os.uname().nodename, total.get("CPU", 0.0), total.get("GPU", 0.0), memory, stats["capacity_bytes"]
        )

    def sample(
        self, at_s: float, total: Mapping[str, float], available: Mapping[str, float], stats: Mapping[str, Any]
    ) -> Sample:
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
        return Sample(
            THIS_NODE,
            round(at_s, 2),
            self._load.processors(),
            taken["CPU"],
            taken["GPU"],
            self._load.memory()[0],
            stats["used_bytes"],
            stats["offloaded_bytes"],
        )
