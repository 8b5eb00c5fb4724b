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
            any(f"{kind.__module__}.{kind.__qualname__}" in warning["kinds"] for kind in _classes(category))
            and _fits(message, warning["message"])
            and _fits(module, warning["module"])
            and lineno in (0, warning["lineno"])
        ):
            return action == "ignore"
    return False


def _classes(category: type[Warning] | tuple[type[Warning], ...]) -> tuple[type[Warning], ...]:
    return category if isinstance(category, tuple) else (category,)


def _fits(pattern: re.Pattern[str] | str | None, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):  # Python's own filters have plain strings
        return pattern is None or pattern == text
    return pattern.match(text) is not None
