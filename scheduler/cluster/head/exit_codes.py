"""Exit statuses of the process that serves as the head, by which its supervisor knows whether to begin another life."""

from __future__ import annotations

ENDED = 0  # the cluster has ended
UNUSABLE = 2  # trying again would not help
STOPPED = 3  # SIGTERM
AWAY = 4  # the control store does not answer just now
