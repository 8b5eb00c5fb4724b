"""Kernels for tests: one for all tests of a file, with the extension loaded, or a fresh one for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import START_TIMEOUT_S, Kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel for the tests of a file, with the extension loaded."""
    made = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        made.run("%load_ext cellmesh\nimport cellmesh as cm, time, os\ncm.init(num_cpus=2)", START_TIMEOUT_S)
        yield made
    finally:
        made.close()


@pytest.fixture
def fresh_kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel of one's own, with nothing loaded."""
    made = Kernel(tmp_path)
    try:
        yield made
    finally:
        made.close()
