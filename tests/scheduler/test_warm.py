"""What is noted of imports that all workers share, and what can be done about them later."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own, in which numpy and its OpenBLAS are not loaded yet.
PROGRAM = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from cellmesh.scheduler.worker import warm

with warm.noting():
    import numpy
from threadpoolctl import threadpool_info

def n_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

seen = [n_threads()]
for n in (3, 1):
    warm.set_threads(n)
    seen.append(n_threads())
noted = {name.partition(".")[0] for name in warm.modules}
warm.forget()
print(json.dumps([seen, sorted(noted), "numpy" in sys.modules, "json" in sys.modules]))
"""


def test_threads_of_libraries_that_have_read_their_variables_and_modules_that_are_let_go() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    seen, noted, has_numpy, has_json = json.loads(run.stdout)
    assert seen == [[1], [3], [1]]
    assert noted == ["numpy"] and not has_numpy and has_json
