"""Ids as Ray spells them: hexadecimal digits, as many as each kind has there."""

from __future__ import annotations

ID_BYTES = 16  # of an ObjectRef's; Ray's has 28
TASK_DIGITS, WORKER_DIGITS = 48, 56


def task_id_of(number: int) -> str:
    """The id of a task by its number."""
    return f"{number:0{TASK_DIGITS}x}"


def worker_id_of(index: int) -> str:
    """The id of a process by its number."""
    return f"{index:0{WORKER_DIGITS}x}"
