"""A fixed set of actors that share a stream of work."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..actor import ActorHandle
from ..api import wait
from ..exceptions import GetTimeoutError
from ..objects import get
from ..refs import ObjectRef

Submit = Callable[[ActorHandle, Any], ObjectRef]


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
        self._busy: dict[ObjectRef, tuple[int, ActorHandle]] = {}  # number of the submission and who runs it, by ref
        self._refs: dict[int, ObjectRef] = {}                      # not fetched yet, by number of the submission
        self._n_submitted = 0
        self._next = 0                                             # number that get_next() returns

    def map(self, function: Submit, values: Iterable[Any]) -> Iterator[Any]:
        """The results of `function(actor, value)` in the order of `values`; function calls a method and returns its
        ref."""
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
        return bool(self._refs or self._waiting)

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
        while self._next not in self._refs:  # fetched out of order before, or not handed out yet
            if self._next < self._n_submitted:
                self._next += 1
            else:
                self._collect(timeout)
        ref = self._refs[self._next]
        if not wait([ref], timeout=timeout)[0]:
            if ignore_if_timedout:
                self._forget(ref, self._next)
            raise GetTimeoutError(f"get_next() gave up after {timeout:g} s; the call goes on")
        return self._fetch(ref, self._next)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Whichever result is ready first; as `get_next` otherwise. Given up is the oldest."""
        if not self.has_next():
            raise StopIteration("no results are left: submit() something first")
        if not self._refs:
            self._collect(timeout)
        ready, _ = wait(list(self._refs.values()), timeout=timeout)
        if not ready:
            if ignore_if_timedout:
                self._forget(*next((ref, number) for number, ref in self._refs.items()))
            raise GetTimeoutError(f"get_next_unordered() gave up after {timeout:g} s; the calls go on")
        number = next(n for n, ref in self._refs.items() if ref == ready[0])
        return self._fetch(ready[0], number)

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
        if actor in self._idle or any(actor == busy for _, busy in self._busy.values()):
            raise ValueError(f"{actor!r} is in the pool already")
        self._idle.append(actor)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._idle and self._waiting:
            function, value = self._waiting.popleft()
            actor = self._idle.popleft()
            ref = function(actor, value)
            self._busy[ref] = self._n_submitted, actor
            self._refs[self._n_submitted] = ref
            self._n_submitted += 1

    def _collect(self, timeout: float | None = None) -> None:
        """Wait for an actor to become free and give it the next piece of work."""
        if not self._busy and not self._idle:
            raise ValueError("the pool has no actors: push() one")
        ready, _ = wait(list(self._busy), timeout=timeout)
        if not ready:
            raise GetTimeoutError(f"no actor of the pool became free within {timeout:g} s; the calls go on")
        self._release(ready[0])

    def _release(self, ref: ObjectRef) -> None:
        released = self._busy.pop(ref, None)
        if released is not None:
            self._idle.append(released[1])
            self._hand_out()

    def _fetch(self, ref: ObjectRef, number: int) -> Any:
        self._forget(ref, number)
        return get(ref)

    def _forget(self, ref: ObjectRef, number: int) -> None:
        del self._refs[number]
        self._release(ref)

    def _results(self, get_one: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield get_one()

    def _begin(self, function: Submit, values: Iterable[Any]) -> None:
        """A map starts afresh: what was submitted before is run, but its results are given up."""
        while self.has_next():
            if not self._refs:
                self._collect()
            number, ref = next(iter(self._refs.items()))
            wait([ref])
            self._forget(ref, number)
        for value in values:
            self.submit(function, value)
