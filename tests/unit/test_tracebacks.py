"""Tracebacks and stacks as people read them."""
from __future__ import annotations

import linecache
import sys
import traceback
from types import ModuleType

import pytest
from cellmesh.exceptions import CellmeshError, GetTimeoutError
from cellmesh.tracebacks import readable_stack, up_to_users_frame

RAISES = """
def outer(f): f()
def inner(): raise GetTimeoutError("late")
"""


def module(name: str) -> ModuleType:
    made = ModuleType(name)
    made.GetTimeoutError = GetTimeoutError
    exec(compile(RAISES, f"<{name}>", "exec"), made.__dict__)
    return made


def names(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(up_to_users_frame(error.__traceback__))]


def test_only_the_frames_at_the_end_that_are_ours_go() -> None:
    ours, users = module("cellmesh.something"), module("users")
    with pytest.raises(CellmeshError) as late:
        ours.outer(lambda: users.outer(lambda: ours.outer(ours.inner)))
    assert names(late.value)[-2:] == ["outer", "<lambda>"], "the user's lambda called us"
    assert names(late.value).count("outer") == 2, "what lies above it stays"
    with pytest.raises(CellmeshError) as late:
        users.inner()
    assert names(late.value)[-1] == "inner"


def test_magics_above_us_and_waits_below_us_go_with_us() -> None:
    ours, users, ipython, threading = map(module, ("cellmesh.something", "users", "IPython.core", "threading"))
    with pytest.raises(CellmeshError) as late:
        users.outer(lambda: ipython.outer(lambda: ours.outer(threading.inner)))
    assert names(late.value)[-1] == "<lambda>", "this test's, which stands for a cell, calls IPython"
    with pytest.raises(CellmeshError) as late:
        users.outer(threading.inner)
    assert names(late.value)[-1] == "inner", "a wait of the user's own"


def test_without_ipython_the_hook_gives_pythons_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with pytest.raises(CellmeshError) as late:
        module("cellmesh.something").inner()
    text = "".join(late.value._render_traceback_())
    assert "in inner" not in text and text.endswith("GetTimeoutError: late\n")


def test_a_stack_begins_with_the_users_code_and_has_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "Cell In[3]", (9, None, ["a\n", "    wait()\n"], "Cell In[3]"))
    dump = ('Current thread 0x1 (most recent call last):\n  File "/x/kernel_ext/cell_task.py", line 9 in run_cell\n'
            '  File "Cell In[3]", line 2 in <module>\n')
    assert readable_stack(dump) == '  File "Cell In[3]", line 2 in <module>\n    wait()'
    assert readable_stack("Current thread 0x1 (most recent call last):\n") == ""
