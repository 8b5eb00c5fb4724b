"""Some of the failures of `tests/kernel/ranks/failure_drill.py`; `make nightly` has two hundred."""

from __future__ import annotations

import pytest
from kernel.ranks.failure_drill import TOLD, begin, check, drills, perform
from support.kernels import Kernel

pytest.importorskip("torch")  # pip install 'cellmesh[train]'


def test_a_kernel_goes_on_after_each_kind_of_failure(kernel: Kernel) -> None:
    kernel.run("from cellmesh.util import preload\npreload('torch')", 60)  # a dozen ranks would import it, for a second
    begin(kernel)
    some = drills(3, len(TOLD))
    assert {drill.what for drill in some} == set(TOLD)
    for drill in some:
        perform(kernel, drill)
        check(kernel, drill)
    kernel.run("%ranks stop")
