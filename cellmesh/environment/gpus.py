"""In a worker: the GPUs of the task or actor that it runs."""

from __future__ import annotations

import os

ids: list[str] = []  # as CUDA_VISIBLE_DEVICES names them


def device() -> str:
    """torch's name of the first of them; "cpu" where there is none. A rank sees the GPUs of others, too."""
    if not ids:
        return "cpu"
    visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    return f"cuda:{visible.index(ids[0])}"
