"""A fixed set of actors that share a stream of work."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..exceptions import GetTimeoutError
from ..objects import get
from ..refs import ObjectRef
from ..submit.actor import ActorHandle
from ..waiting import wait

Returned = ObjectRef | list[ObjectRef]  # by a method of several returns
Submit = Callable[[ActorHandle, Any], Returned]


class ActorPool:
    """Hands work to whichever of its actors is free.

    Parameters
    ----------
    actors : iterable of ActorHandle

    Notes
    -----
    For one thread. What an actor raises is raised by the call that fetches that result; the actor serves on.
    """

    def __init__(self, actors: Iterable[ActorHandle]) -> None:
        self._idle = deque(actors)
        self._waiting: deque[tuple[Submit, Any]] = deque()
        self._busy: dict[ObjectRef, ActorHandle] = {}  # who runs a call, by its last ref
        self._returned: dict[int, Returned] = {}  # not fetched yet, by number of the submission
        self._n_submitted = 0
        self._next = 0  # number that get_next() returns

    def map(self, function: Submit, values: Iterable[Any]) -> Iterator[Any]:
        """The results of `function(actor, value)` in the order of `values`; function calls a method and returns its
        ref, or its list of refs: then each result is a list."""
        self._begin(function, values)
        return self._results(self.get_next)

    def map_unordered(self, function: Submit, values: Iterable[Any]) -> Iterator[Any]:
        """Likewise, in the order in which they are ready."""
        self._begin(function, values)
        return self._results(self.get_next_unordered)

    def submit(self, function: Submit, value: Any) -> None:
        """Have `function(actor, value)` called as soon as an actor is free; that is looked at in the calls of this
        pool."""
        self._waiting.append((function, value))
        self._hand_out()

    def has_next(self) -> bool:
        """Whether results are left to fetch."""
        return bool(self._returned or self._waiting)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of submission.

        Parameters
        ----------
        timeout : float, seconds, optional
        ignore_if_timedout : bool
            When the time is up, give up this result and give its actor other work, after what it does now.

        Raises
        ------
        StopIteration
            No results are left.
        GetTimeoutError
            It is not there in time; the next call asks for it again, unless it is given up.
        """
        if not self.has_next():
            raise StopIteration("no results are left: submit() something first")
        while self._next not in self._returned:  # fetched out of order before, or not handed out yet
            if self._next < self._n_submitted:
                self._next += 1
            else:
                self._collect(timeout)
        last = _last(self._returned[self._next])
        end = None if timeout is None else time.monotonic() + timeout
        while last in self._busy:  # who ends before has other work meanwhile
            if not self._one_is_free(None if end is None else max(0.0, end - time.monotonic())):
                if ignore_if_timedout:
                    self._forget(self._next)
                raise GetTimeoutError(f"get_next() gave up after {timeout:g} s; the call goes on")
        return get(self._forget(self._next))

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Whichever result is ready first; as `get_next` otherwise. Given up is the oldest."""
        if not self.has_next():
            raise StopIteration("no results are left: submit() something first")
        if not self._returned:
            self._collect(timeout)
        numbers = {_last(returned): number for number, returned in self._returned.items()}
        ready, _ = wait(list(numbers), timeout=timeout)
        if not ready:
            if ignore_if_timedout:
                self._forget(next(iter(self._returned)))
            raise GetTimeoutError(f"get_next_unordered() gave up after {timeout:g} s; the calls go on")
        return get(self._forget(numbers[ready[0]]))

    def has_free(self) -> bool:
        """Whether an actor is idle and no work waits."""
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> ActorHandle | None:
        """Take an idle actor out of the pool; None if there is none."""
        return self._idle.popleft() if self.has_free() else None

    def push(self, actor: ActorHandle) -> None:
        """Add an actor.

        Raises
        ------
        ValueError
            It is in the pool already.
        """
        if actor in self._idle or actor in self._busy.values():
            raise ValueError(f"{actor!r} is in the pool already")
        self._idle.append(actor)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            function, value = self._waiting.popleft()
            actor = self._idle.popleft()
            try:
                returned = function(actor, value)
                last = _last(returned)
            except BaseException:
                self._idle.appendleft(actor)
                raise
            self._busy[last] = actor
            self._returned[self._n_submitted] = returned
            self._n_submitted += 1

    def _collect(self, timeout: float | None = None) -> None:
        """Wait for an actor to become free and give it the next piece of work."""
        if not self._busy and not self._idle:
            raise ValueError("the pool has no actors: push() one")
        if not self._one_is_free(timeout):
            raise GetTimeoutError(f"no actor of the pool became free within {timeout:g} s; the calls go on")

    def _one_is_free(self, timeout: float | None) -> bool:
        """Wait for a call to end, whose actor gets the next piece of work; False: none has in that time."""
        ready, _ = wait(list(self._busy), timeout=timeout)
        for last in ready:
            self._release(last)
        return bool(ready)

    def _release(self, last: ObjectRef) -> None:
        actor = self._busy.pop(last, None)
        if actor is not None:
            self._idle.append(actor)
            self._hand_out()

    def _forget(self, number: int) -> Returned:
        returned = self._returned.pop(number)
        self._release(_last(returned))
        return returned

    def _results(self, get_one: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield get_one()

    def _begin(self, function: Submit, values: Iterable[Any]) -> None:
        """A map starts afresh: what was submitted before is run, but its results are given up."""
        while self.has_next():
            if not self._returned:
                self._collect()
            number, returned = next(iter(self._returned.items()))
            wait([_last(returned)])
            self._forget(number)
        for value in values:
            self.submit(function, value)


def _last(returned: Returned) -> ObjectRef:
    """The part of a call that is ready last."""
    if isinstance(returned, list) and returned:
        return returned[-1]
    if not isinstance(returned, ObjectRef):
        raise TypeError(
            "the function of an ActorPool must return the ref of its call, or a list of refs of a method with "
            f"several returns, not {returned!r}"
        )
    return returned
