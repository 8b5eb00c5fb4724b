"""In a worker: the GPUs of the task or actor that it runs."""

from __future__ import annotations

ids: list[str] = []  # as CUDA_VISIBLE_DEVICES names them
