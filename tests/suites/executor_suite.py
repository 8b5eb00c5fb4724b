"""CPython's test_concurrent_futures, of its ProcessPoolExecutor, on `cellmesh.util.Executor`."""

from __future__ import annotations

import os
import re

from test import test_concurrent_futures as suite
from test.support.script_helper import assert_python_ok

import cellmesh
from cellmesh.util import Executor

N_CPUS = 5  # the suite's executors have as many workers


def setUpModule() -> None:
    cellmesh.init(num_cpus=N_CPUS)


def tearDownModule() -> None:
    cellmesh.shutdown()


class OurMixin(suite.ExecutorMixin):
    """What the suite has for each kind of executor and way to start processes."""

    executor_type = Executor
    ctx = "spawn"  # as with it, workers have nothing of the program but what is sent to them


def run_script(flag: str, code: str) -> tuple[int, bytes, bytes]:
    """A script of the suite, with our executor for what it imports; lines of tasks without what they begin with, which
    says whose they are.
    """
    code = code.replace(
        "from concurrent.futures import Executor",
        f"import cellmesh, multiprocessing; cellmesh.init(num_cpus={N_CPUS}); from cellmesh.util import Executor",
    )
    status, out, err = assert_python_ok(flag, code, PYTHONPATH=os.environ["PYTHONPATH"])
    return status, re.sub(rb"(?m)^\(\w+ pid=\d+\) ", b"", out), err


suite.assert_python_ok = run_script
MIXINS = [
    suite.InitializerMixin,
    suite.FailingInitializerMixin,
    suite.ProcessPoolShutdownTest,
    suite.WaitTests,
    suite.AsCompletedTests,
    suite.ProcessPoolExecutorTest,
    suite.ExecutorDeadlockTest,
]
for mixin in MIXINS:
    name = mixin.__name__.removesuffix("s").removesuffix("Mixin").removesuffix("Test") + "Test"
    globals()[name] = type(name, (mixin, OurMixin, suite.BaseTestCase), {"__module__": __name__})
del mixin
