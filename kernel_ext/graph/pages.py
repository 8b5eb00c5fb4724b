"""Memory of large tables: the pages that are written to, and no more."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def reserve(n_items: int, dtype: Any) -> np.ndarray:
    """An array of zeros that takes memory page by page, as it is written to.

    Unlike `np.zeros`, which asks for huge pages: two megabytes for each column of a graph of three tasks.
    """
    n_bytes = n_items * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)
