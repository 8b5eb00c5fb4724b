"""Behind a test that has failed, all that tests share ends; the next test that needs it begins it anew.

Whatever has ended a session, a kernel, a server or a browser, or has left it in a wrong state, shows in the test in
which that happened or in the next one that uses it, and in no further one. What is shared are pytest's fixtures of a
scope above that of a test, so that whoever adds one has nothing to do for this.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext

import pytest

MOST = 20  # times; where more tests fail, that is no matter of what they share, and beginning anew takes its time
END_S = 60.0
HAS_FAILED = pytest.StashKey[bool]()


def has_failed(item: pytest.Item) -> bool:
    """Whether a test, or its setup, has failed."""
    return item.stash.get(HAS_FAILED, False)


@contextmanager
def limited() -> Iterator[None]:
    """What hangs in this block fails, each time that this long has passed. What a test waited for in vain, its
    fixtures wait for, too, and the test's own limit comes only once.
    """

    def fail(*_: object) -> None:
        pytest.fail(f"what the test used has not ended within {END_S:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, END_S, END_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Anew:
    """The plugin of pytest that does it."""

    def __init__(self) -> None:
        self._n_left = MOST

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        item.stash[HAS_FAILED] = has_failed(item) or report.failed
        return report

    @pytest.hookimpl(wrapper=True, trylast=True)  # inside of what captures what is printed
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        failed = True
        try:
            with limited() if has_failed(item) else nullcontext():
                yield
            failed = has_failed(item)
        finally:
            if failed and self._n_left:
                self._n_left -= 1
                with limited():
                    # As behind the last test, with no next one to keep anything for. There is no public word for it.
                    item.session._setupstate.teardown_exact(None)
