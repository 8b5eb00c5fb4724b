"""`every`: a task that is submitted again and again."""

from __future__ import annotations

import math
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..exceptions import SessionError
from ..scheduler.sync.threads import ServiceThread
from ..session.current import current
from ..session.session import Session
from ..submit.generator import ObjectRefGenerator
from ..submit.mapping import Mappable
from ..submit.option_values import is_number

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..type_variables import Submits


def every(seconds: float, function: Submits[Any, Any], /, *args: Any, overlap: bool = False, **kwargs: Any) -> Periodic:
    """Call a remote function, or an actor's method, now and then every so many seconds, until the session ends.

        watching = cm.every(60, look_at, path)      # look_at is a remote function
        cm.get(watching.last)
        watching.cancel()

    Calls are due at whole multiples of `seconds` after the first, however long they take. One that is due while the one
    before has not ended is skipped.

    Parameters
    ----------
    seconds : float
    function : RemoteFunction or actor's method
        `f`, `f.options(...)`, `actor.method`.
    *args, **kwargs
        Of each call.
    overlap : bool
        Submit a call that is due in any case.

    Returns
    -------
    Periodic
        Can be cancelled, also by the end of a `with` over it. It goes on when nobody holds it.

    Raises
    ------
    TypeError, ValueError
        The first call does not fit the function, or `seconds` is no time.
    RuntimeError
        In a task, which would have ended before the next call: a driver or an actor can do it.
    """
    if not is_number(seconds) or not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"every({seconds!r}, ...): needs a number of seconds > 0")
    if not isinstance(function, Mappable):
        raise TypeError(
            f"every() needs a remote function or an actor's method, not {function!r}: cellmesh.remote(f) makes one of f"
        )
    of = current()
    if of.is_worker and of.client.actor_info() is None:
        raise RuntimeError("every() is for drivers and actors: a task ends before the next call is due")
    # A submitter of this session: when that has ended, `function.remote` would begin another one.
    return Periodic(of, float(seconds), partial(function._bind(of), *args, **kwargs), function.__name__, overlap)


class Periodic:
    """What `every` returns.

    Attributes
    ----------
    last : ObjectRef
        Of the latest call.
    n_calls, n_skipped : int
        How many have been submitted, and how many were due and were not.
    """

    last: ObjectRef[Any]
    n_calls: int
    n_skipped: int

    def __init__(self, of: Session, seconds: float, submit: Callable[[], Any], name: str, overlap: bool) -> None:
        self._submit, self._seconds, self._name, self._overlap = submit, seconds, name, overlap
        self.n_calls = self.n_skipped = 0
        self._begun, self._n_due = time.monotonic(), 1
        self._is_cancelled = False
        self._sleeper = allocate_lock()  # in which the thread sleeps
        self._sleeper.acquire()
        self._call()
        self._of = of
        of.periodic.add(self)
        self._thread = ServiceThread(self._run, f"cellmesh-every-{name}")
        self._thread.start()

    def cancel(self) -> None:
        """Make no more calls. One that runs goes on: `cellmesh.cancel(periodic.last)` ends it. Harmless when
        repeated.
        """
        self.stop()
        self._thread.join()
        self._of.periodic.discard(self)

    def stop(self) -> None:
        """As `cancel`, without waiting for a call that is just being submitted."""
        self._is_cancelled = True
        try:
            self._sleeper.release()
        except RuntimeError:  # it has been woken already
            return

    @property
    def is_cancelled(self) -> bool:
        """Whether there will be no more calls."""
        return self._is_cancelled

    def __enter__(self) -> Periodic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    def __repr__(self) -> str:
        skipped = f", {self.n_skipped} skipped" if self.n_skipped else ""
        state = (
            "cancelled" if self._is_cancelled else f"the next in {max(0.0, self._due_at() - time.monotonic()):.1f} s"
        )
        return f"<{self._name} every {self._seconds:g} s: {self.n_calls} calls{skipped}, {state}>"

    def _due_at(self) -> float:
        return self._begun + self._n_due * self._seconds

    def _call(self) -> None:
        result = self._submit()
        if isinstance(result, ObjectRefGenerator):
            result = result.completed()
        elif isinstance(result, list):
            result = result[0]
        if result is None:
            raise ValueError(f"every() of {self._name!r}, which has num_returns=0: nothing says when a call has ended")
        self.last = result
        self.n_calls += 1

    def _run(self) -> None:
        try:
            while not self._sleeper.acquire(timeout=max(0.0, self._due_at() - time.monotonic())):
                n_due = max(self._n_due + 1, beats(self._begun, self._seconds, time.monotonic()))
                self.n_skipped += n_due - self._n_due - 1  # this process was stopped, or the machine asleep
                self._n_due = n_due
                if self._overlap or self.last.client.ready(self.last):
                    self._call()
                else:
                    self.n_skipped += 1
        except SessionError:  # it has ended
            return
        finally:
            self._is_cancelled = True


def beats(begun: float, seconds: float, now: float) -> int:
    """How many calls have been due by now, the first one included."""
    return math.floor((now - begun) / seconds) + 1
