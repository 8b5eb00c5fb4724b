"""CPython's tests of multiprocessing.Pool on `cellmesh.util.multiprocessing.Pool`."""

from __future__ import annotations

import multiprocessing
import unittest

from test import _test_multiprocessing as suite

import cellmesh
from cellmesh.util.multiprocessing import Pool

N_CPUS = 4  # the suite's largest pool
its_pool = multiprocessing.Pool


def setUpModule() -> None:
    cellmesh.init(num_cpus=N_CPUS)
    multiprocessing.Pool = Pool  # what some tests call


def tearDownModule() -> None:
    multiprocessing.Pool = its_pool
    cellmesh.shutdown()


class OurMixin(suite.BaseMixin):
    """What the suite has for processes, threads and managers."""

    TYPE = "processes"
    Pool = staticmethod(Pool)


for base in (suite._TestPool, suite._TestPoolWorkerErrors, suite._TestPoolWorkerLifetime):
    name = base.__name__.removeprefix("_Test") + "Test"
    globals()[name] = type(name, (base, OurMixin, unittest.TestCase), {"__module__": __name__})
del base
