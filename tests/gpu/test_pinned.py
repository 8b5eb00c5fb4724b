"""The recipe of docs/shared-memory.md for shared arrays that are copied to a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import cellmesh

pytestmark = [
    pytest.mark.may_keep("threads", "of the session, which this module shares, and of CUDA"),
    pytest.mark.may_keep("descriptors", "of CUDA, which a process opens once"),
]
PAGE = Path(__file__).resolve().parents[2] / "docs/shared-memory.md"
(RECIPE,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)


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
