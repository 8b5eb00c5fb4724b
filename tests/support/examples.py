"""How many examples are made up for a property: enough for every run of the tests, and many times as many at night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("CELLMESH_EXAMPLES", "1"))  # set by `make nightly`


def examples(n: int) -> int:
    """So many here, for `max_examples=`."""
    return n * TIMES


# Values of every kind, which take a while to make up.
MANY_VALUES = settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
