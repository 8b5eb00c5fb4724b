"""Whether this process's warning filters ignore a warning of a task."""

from __future__ import annotations

import json
import re
import warnings

from ..scheduler.ipc.messages import WorkerOutput


def is_ignored(piece: WorkerOutput) -> bool:
    """As Python decides it for a warning of its own; the first filter that fits says."""
    warning = json.loads(piece.bundle)
    for action, message, category, module, lineno in warnings.filters:
        if (
            f"{category.__module__}.{category.__qualname__}" in warning["kinds"]
            and _fits(message, warning["message"])
            and _fits(module, warning["module"])
            and lineno in (0, warning["lineno"])
        ):
            return action == "ignore"
    return False


def _fits(pattern: re.Pattern[str] | str | None, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):  # Python's own filters have plain strings
        return pattern is None or pattern == text
    return pattern.match(text) is not None
