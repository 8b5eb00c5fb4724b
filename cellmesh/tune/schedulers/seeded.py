"""Users' functions of chance, made to depend on a generator alone.

`lambda: random.uniform(0, 1)` is how many write a distribution. It draws from the process's generator, and a resumed
experiment would draw something else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def seeded(rng: np.random.Generator) -> Iterator[None]:
    """Within it, the generators of `random` and of `numpy.random` begin where one draw from `rng` says. Afterwards they
    are where they were."""
    import numpy as np

    seed = int(rng.integers(2**32))
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
