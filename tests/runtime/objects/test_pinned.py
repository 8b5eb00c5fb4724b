"""The recipe of docs/shared-memory.md for shared arrays that are copied to a GPU."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cellmesh

PAGE = Path(__file__).resolve().parents[3] / "docs/shared-memory.md"
(RECIPE,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)


@pytest.fixture
def torch() -> Any:
    """torch, on a machine with a GPU."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PINNED MEMORY IS NOT TESTED: this machine has no CUDA device for it, nor torch")
    found: Any = importlib.import_module("torch")
    if not found.cuda.is_available():
        pytest.skip("PINNED MEMORY IS NOT TESTED: torch sees no CUDA device on this machine")
    return found


@pytest.fixture
def session() -> Iterator[None]:
    cellmesh.init(num_cpus=1, object_store_memory=256 << 20)
    yield
    cellmesh.shutdown()


def test_the_recipe_is_a_program() -> None:
    compile(RECIPE, str(PAGE), "exec")


@pytest.mark.usefixtures("session")
def test_a_shared_array_is_pinned_where_it_lies(torch: Any) -> None:
    names: dict[str, Any] = {"cm": cellmesh}
    exec(compile(RECIPE, str(PAGE), "exec"), names)
    assert names["on_gpu"].is_cuda and not names["host"].is_pinned()
    one, other = cellmesh.shared_array(1000, "float32"), cellmesh.shared_array((3, 1 << 20), "uint8")
    with names["pinned"](one) as small, names["pinned"](other) as large:
        assert small.is_pinned() and large.is_pinned() and small.data_ptr() == one.ctypes.data
        other[:] = 7
        copied = large.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        assert int(copied.sum()) == 7 * other.size
    assert not large.is_pinned()
