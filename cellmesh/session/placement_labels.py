"""What messages call the placement groups that this process has seen, by session and number."""

from __future__ import annotations

from .current import current_or_none

MOST_LABELS = 10_000

_labels: dict[tuple[str, int], str] = {}


def label(number: int, name: str) -> str:
    """What messages call a group."""
    return f"placement group {name!r}" if name else f"placement group {number}"


def note(session_id: str, number: int, name: str) -> None:
    """This process has seen a group."""
    _labels[session_id, number] = label(number, name)
    if len(_labels) > MOST_LABELS:
        del _labels[next(iter(_labels))]


def label_of(number: int) -> str:
    """What messages call the group of that number in this process's session."""
    of = current_or_none()
    session_id = of.node.session_id if of is not None else ""
    return _labels.get((session_id, number), f"placement group {number}")
