"""A session whose segment is overwritten at random places, by a task or by the driver itself: whatever the driver then does gives the
right value or a typed error, and nobody dies of it or waits beyond a timeout.

    python tests/runtime/stray_writes.py BEGIN END [MODE]    # seeds; MODE: task, driver

Prints what each seed came to, and a table. Exit status 1: somebody died of a signal, waited too long or got a wrong value that nobody
has overwritten. `python tests/runtime/stray_writes.py --one SEED MODE` is one of the drivers.
"""
from __future__ import annotations

import collections
import faulthandler
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MODES = ("task", "driver")
TIMEOUT_S = 5.0       # of each wait
LIMIT_S = 90.0        # of a driver
N_AT_ONCE = 2

# Offsets in objstore/core/layout.h: where a table begins, how many slots of it were used, and the size of one.
TABLES = {"clients": (56, None, 128, 8), "actors": (64, 212, 128, 8), "objects": (72, 196, 128, 1000), "tasks": (80, 204, 128, 1000),
          "classes": (48, 216, 3800, 4)}
ARENA = 8 * 119  # about: struct arena in the header
UNIT = 64


def word(memory: mmap.mmap, offset: int, form: str = "<Q") -> int:
    return struct.unpack_from(form, memory, offset)[0]


def chunks(memory: mmap.mmap, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Header and payload size of each chunk of the arena."""
    while begin + UNIT <= end:
        size = word(memory, begin + 8)
        if not size or size % UNIT or begin + UNIT + size > end:
            return
        yield begin, size
        begin += UNIT + size
