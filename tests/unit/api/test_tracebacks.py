"""Tracebacks and stacks as people read them."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import traceback
from types import ModuleType, TracebackType

import pytest
import zmq  # noqa: F401  (a library with compiled modules)
from cellmesh.kernel_ext.output.tracebacks import ShownTracebacks

from cellmesh.exceptions import CellmeshError, GetTimeoutError
from cellmesh.tracebacks import readable_stack, readable_traceback, up_to_users_frame

RAISES = """
def outer(f): f()
def inner(): raise GetTimeoutError("late")
"""


def module(name: str, folder: str = "/home/somebody") -> ModuleType:
    made = ModuleType(name)
    made.GetTimeoutError = GetTimeoutError
    exec(compile(RAISES, f"{folder}/{name}.py", "exec"), made.__dict__)
    return made


def names(error: BaseException, interrupted: bool = False) -> list[str]:
    shown = up_to_users_frame(error.__traceback__, interrupted=interrupted)
    return [frame.name for frame in traceback.extract_tb(shown)]


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


def test_of_an_interrupt_what_we_called_goes_too() -> None:
    ours, users, main, threading = map(module, ("cellmesh.something", "users", "__main__", "threading"))
    library = module("library", sysconfig.get_path("stdlib"))

    def shown(*callers: ModuleType) -> list[str]:
        function = callers[-1].inner
        for caller in reversed(callers[:-1]):
            function = functools.partial(caller.outer, function)
        with pytest.raises(CellmeshError) as late:
            function()
        assert names(late.value)[-1] == "inner" or callers[-1] in (ours, threading)
        return names(late.value, interrupted=True)[1:]  # without this test's own

    assert shown(users, ours, library, ours, library) == ["outer"]
    assert shown(main, ours, library) == ["outer"]
    assert shown(users, library, ours, library) == ["outer", "outer"], "what called us stays"
    assert shown(users, ours, library, users, library) == ["outer"] * 4 + ["inner"], "code of the user's in it is news"
    assert shown(users, library) == ["outer", "inner"], "it is no frame of cellmesh"
    assert shown(users, ours, module("_zmq", "zmq/backend/cython")) == ["outer"], (
        "a compiled library's file has no path"
    )
    assert shown(users, ours, module("part", "mine/somewhere")) == ["outer", "outer", "inner"], (
        "which a script's may not have, either"
    )
    assert shown(users, threading) == ["outer"], "where in a wait says nothing"


class Formatter:
    """As IPython's, as far as we touch it."""

    tb_offset = 1

    def __init__(self) -> None:
        self.formatted: list[BaseException] = []

    def structured_traceback(
        self,
        etype: type,
        evalue: BaseException,
        etb: TracebackType | None = None,
        tb_offset: int | None = None,
        context: int = 5,
    ) -> list[str]:
        self.formatted.append(evalue)
        return [*traceback.format_tb(etb), f"{etype.__name__}: {evalue}"]

    def get_parts_of_chained_exception(self, evalue: BaseException) -> None:
        return None


def test_a_cells_error_is_formatted_once() -> None:
    formatter = Formatter()
    shown = ShownTracebacks(formatter)
    shown.install()
    with pytest.raises(CellmeshError) as late:
        module("users").inner()
    error, tb = late.value, late.value.__traceback__
    first = formatter.structured_traceback(type(error), error, tb)
    assert (
        formatter.structured_traceback(type(error), error, tb, tb_offset=1) == first and len(formatter.formatted) == 1
    )
    assert (
        formatter.structured_traceback(type(error), error, tb, tb_offset=2) == first and len(formatter.formatted) == 2
    )
    assert formatter.structured_traceback(type(error), error, tb.tb_next) == first[1:], "another traceback"
    equal = ValueError()
    for error in (ValueError(), equal, equal):
        formatter.structured_traceback(ValueError, error)
    shown.forget()
    formatter.structured_traceback(ValueError, equal)
    assert len(formatter.formatted) == 6, "what is only equal, and what is of an earlier cell, is formatted again"
    shown.uninstall()
    formatter.structured_traceback(ValueError, equal)
    formatter.structured_traceback(ValueError, equal)
    assert len(formatter.formatted) == 8


def test_without_ipython_the_hook_gives_pythons_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with pytest.raises(CellmeshError) as late:
        module("cellmesh.something").inner()
    text = "".join(late.value._render_traceback_())
    assert "in inner" not in text and text.endswith("GetTimeoutError: late\n")


def test_frames_of_libraries_are_folded_except_the_one_that_raised() -> None:
    site, python = sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")
    text = f"""Traceback (most recent call last):
  File "{site}/tables/index.py", line 9999999, in get_loc
    return self.engine.get_loc(key)
           ^^^^^^^^^^^^^^^^^^^^^^^^
  File "tables/_libs/index.pyx", line 172, in tables._libs.IndexEngine.get_loc
  File "tables/_libs/hashed.pxi", line 7726, in tables._libs.get_item
KeyError: 'nope'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "Cell In[9]", line 2, in <module>
    table.apply(work)
  File "{site}/tables/frame.py", line 9999999, in apply
  File "{python}/functools.py", line 9999999, in wrapper
  [Previous line repeated 9 more times]
  File "Cell In[9]", line 3, in work
    total()
  File "{site}/single.py", line 9999999, in total
    raise KeyError(key)
KeyError: 'nope'
"""
    assert (
        readable_traceback(text)
        == f"""Traceback (most recent call last):
  [... 2 frames of tables]
  File "tables/_libs/hashed.pxi", line 7726, in tables._libs.get_item
KeyError: 'nope'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "Cell In[9]", line 2, in <module>
    table.apply(work)
  [... 2 frames of tables, Python]
  File "Cell In[9]", line 3, in work
    total()
  File "{site}/single.py", line 9999999, in total
    raise KeyError(key)
KeyError: 'nope'
"""
    )
    assert readable_traceback("no traceback\n") == "no traceback\n" and readable_traceback("") == ""


def test_a_stack_begins_with_the_users_code_and_has_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "Cell In[3]", (9, None, ["a\n", "    wait()\n"], "Cell In[3]"))
    dump = (
        'Current thread 0x1 (most recent call last):\n  File "/x/kernel_ext/cell_task.py", line 9 in run_cell\n'
        '  File "Cell In[3]", line 2 in <module>\n'
    )
    assert readable_stack(dump) == '  File "Cell In[3]", line 2 in <module>\n    wait()'
    assert readable_stack("Current thread 0x1 (most recent call last):\n") == ""
    threading = f'  File "{sysconfig.get_path("stdlib")}/threading.py", line 1002 in _bootstrap\n'
    others = (
        f'Thread 0x2 (most recent call last):\n{threading}  File "{sysconfig.get_path("stdlib")}/socket.py", line '
        "9999999 in accept\n\n"
        f'Thread 0x3 (most recent call last):\n{threading}  File "Cell In[3]", line 1 in work\n\n'
    )
    assert readable_stack(others + dump) == (
        '  File "Cell In[3]", line 2 in <module>\n    wait()\n\nIn another thread:\n'
        '  File "Cell In[3]", line 1 in work\n    a'
    )
