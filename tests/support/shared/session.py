"""One session for the tests of a file, each of which leaves it as it found it.

Nothing that a test leaves is hidden by that: a test that leaves a task, an object, an actor or a resource that is taken
fails by name, and the tests after it get another session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cellmesh.objstore._core import Client
from support.waiting import Holdings, after_garbage, descriptors, wait_until

import cellmesh
from cellmesh.observe.function_names import name_of
from cellmesh.session.current import current_or_none
from cellmesh.session.session import Session

SETTLE_S = 5.0  # what a test has let go of is gone by then


def _is_code_of(workers: set[int], row: dict[str, Any], client: Client) -> bool:
    """Whether an object is a function or class, and only workers hold it: of what they call they keep a copy."""
    if row["pins"] or not row["holders"] or not workers.issuperset(row["holders"]):
        return False
    generation = int(row["id"][-8:], 16)
    return name_of(client, row["slot"], generation & 0xFFFF) is not None


def left_in(session: Session) -> dict[str, object]:
    """What it has that it had not when it began, by kind; kinds of which nothing is left are absent."""
    session.export_anew()  # the next test's functions are exported as in a session of its own
    session.method_functions.clear()
    client = session.client
    kept = None if session._context is None else session._context._slot
    free = cellmesh.available_resources()
    workers = [row for row in client.clients() if row["role"] == "worker"]
    numbers = {row["index"] for row in workers}
    found: dict[str, list[object]] = {
        "tasks": list(client.tasks()),
        "objects": [row for row in client.objects() if row["slot"] != kept and not _is_code_of(numbers, row, client)],
        "actors": [row for row in client.actors() if row["state"] != "dead"],
        "placements": list(client.placements()),
        "busy workers": [row["pid"] for row in workers if row["task"] or row["actor"] >= 0],
        "taken": [name for name, n in cellmesh.cluster_resources().items() if free.get(name, 0.0) != n],
        "damage": list(client.check()),
    }
    return {kind: what for kind, what in found.items() if what}


class SharedSession:
    """Begun before the first test that uses it, and ended after the last or after one that has spoilt it.

    Parameters
    ----------
    begin : callable
        Starts the session.
    """

    def __init__(self, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._session: Session | None = None
        self._threads: dict[threading.Thread, str] = {}  # with the test in which each began

    def begin(self) -> None:
        """Begin it, unless a test before has."""
        if self._session is None:
            self._begin()
            self._session = current_or_none()

    def end(self) -> None:
        """End it, or what a test has begun in its place.

        Raises
        ------
        AssertionError
            Names threads that have not ended with it, and the tests in which they began.
        """
        if self._session is None:
            return
        self._session = None
        cellmesh.shutdown()
        try:
            wait_until(lambda: not any(thread.is_alive() for thread in self._threads), SETTLE_S, "threads to end")
        except AssertionError:
            left = [f"{thread.name} (of {test})" for thread, test in self._threads.items() if thread.is_alive()]
            raise AssertionError(f"left by the session that tests share: {left}") from None
        finally:
            self._threads.clear()

    def add_begun(self, holdings: Holdings, test: str) -> None:
        """Add its threads, those that it has begun in this test among them, and what its client has opened in it."""
        if self._session is not None:
            for thread in threading.enumerate():
                if thread.name.startswith("cellmesh-"):
                    self._threads.setdefault(thread, test)
            # The first large array that is let go of has the client look at its pages.
            holdings.descriptors.update({n: to for n, to in descriptors().items() if to.endswith("/pagemap")})
        holdings.threads.update(self._threads)

    def check(self) -> None:
        """Keep it if it is as it began; end it otherwise.

        Raises
        ------
        AssertionError
            Says what is left.
        """
        session = self._session
        if session is None or current_or_none() is not session:  # ended, with all that it had
            self.end()
            return
        is_clean = False
        try:
            # An expected error and the frames that it went through hold each other, and a thread perhaps one of them.
            if left_in(session):
                wait_until(after_garbage(lambda: not left_in(session)), SETTLE_S, "a session as it began")
            is_clean = True
        except AssertionError:
            raise AssertionError(f"left in the session that tests share: {left_in(session)}") from None
        finally:
            if not is_clean:
                self.end()
