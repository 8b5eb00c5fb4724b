"""A pytest plugin: Dask's tests of schedulers and arrays, with `dask_get` for each of Dask's own schedulers that share
memory.
"""

from __future__ import annotations

import dask.base
import dask.local
import dask.threaded
from dask.delayed import Delayed

import cellmesh
from cellmesh.util import dask_get

N_CPUS = 4

# Before Dask's conftest is loaded, and with it collections, which take their default from here. Delayed has done so
# already.
for name in ("sync", "synchronous", "single-threaded", "threads", "threading"):
    dask.base.named_schedulers[name] = dask_get
dask.local.get_sync = dask.threaded.get = dask_get
Delayed.__dask_scheduler__ = staticmethod(dask_get)


def pytest_configure() -> None:
    """Before tests are collected, some of which compute then."""
    cellmesh.init(num_cpus=N_CPUS)


def pytest_unconfigure() -> None:
    cellmesh.shutdown()
