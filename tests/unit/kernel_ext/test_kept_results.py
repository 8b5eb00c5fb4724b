"""The errors of cells are let go of as soon as the frames that ran the cell have ended."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext.kept_results import RUNNERS, KeptResults

# As IPython runs a cell: the frame has the result, that the error, whose traceback has the frame.
RUN = """
def run(result, code, end):
    try:
        code()
    except Exception as error:
        result.error_in_exec = error
    end(result)
"""


class Result:
    """Of a cell, as IPython's."""

    error_in_exec: Exception | None = None
    error_before_exec: Exception | None = None
    success = property(lambda self: self.error_in_exec is None)


@pytest.fixture
def run() -> Iterator[Callable[..., None]]:
    """Runs a cell as IPython does, without a collector of garbage."""
    names: dict[str, Any] = {"__name__": min(RUNNERS)}
    exec(RUN, names)
    gc.disable()
    yield names["run"]
    gc.enable()


@pytest.fixture
def kept() -> KeptResults:
    shell: Any = SimpleNamespace(user_ns={}, user_ns_hidden={})
    return KeptResults(shell)


def fail() -> None:
    raise KeyError


def test_a_failed_cell_is_gone_when_the_next_has_run(kept: KeptResults, run: Callable[..., None]) -> None:
    result = Result()
    gone = weakref.ref(result)
    run(result, fail, kept.cell_ends)
    del result
    assert gone() is not None
    run(Result(), int, kept.cell_ends)
    assert gone() is None


def test_a_cell_whose_thread_is_slow_to_end_it_is_gone_after_another(
    kept: KeptResults, run: Callable[..., None]
) -> None:
    ended, goes_on = threading.Event(), threading.Event()

    def end(result: Result) -> None:
        kept.cell_ends(result)
        ended.set()
        goes_on.wait(30)

    results = [Result()]
    gone = weakref.ref(results[0])
    thread = threading.Thread(target=lambda: run(results.pop(), fail, end))
    thread.start()
    assert ended.wait(30)
    run(Result(), int, kept.cell_ends)
    goes_on.set()
    thread.join()
    assert gone() is not None
    run(Result(), int, kept.cell_ends)
    assert gone() is None


def test_a_cell_that_was_stopped_before_its_first_line_has_no_result(
    kept: KeptResults, run: Callable[..., None]
) -> None:
    result = Result()
    gone = weakref.ref(result)
    run(result, fail, kept.cell_ends)
    del result
    kept.cell_ends(None)
    assert gone() is None
