"""The host of an actor that takes several calls at a time, in Ray's workers: a Ray actor that hands them over to a
process beside it, see `actor.process`. Public interfaces of Ray alone, which is imported late.

Ray begins calls of such an actor in any order, so each comes with its place. The first is the constructor's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pickle import PickleBuffer
from typing import Any

from ..actor.lines import Lines
from ..interface import ActorRunner, Outcome
from ..news import Line
from ..parcels import Large

AGAIN_S = 0.2  # for an office to be there again


@dataclass(eq=False)
class _Call:
    """One in front of the process. `outcome`: comes; None: it is passed over; else, if the process has ended, whether
    the call had begun."""

    group: int
    data: bytes
    blobs: Sequence[Any]
    outcome: asyncio.Future[Outcome | bool | None]


class HostLine(Line):
    """The line of the process, by that of a parcel. What an actor's process has said it does not say again."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell the engine's process something. Returns when that has it."""
        while not self._line.say(message, large):
            time.sleep(AGAIN_S)  # the office's machine is lost: it begins again on another one
        return True


class ConcurrentHost:
    """See above.

    Parameters
    ----------
    limits : sequence of int
        As of `Parcel`.
    make : callable (ended) -> ActorRunner
        Begins the process, which calls that with its exit status or -signal.
    """

    def __init__(self, limits: Sequence[int], make: Callable[[Callable[[int], None]], ActorRunner]) -> None:
        self._lines: Lines[_Call] = Lines(limits)
        self._calls: dict[int, _Call] = {}  # by place: that have come, and not ended
        self._passed: set[int] = set()  # places of calls that will not come, or are not to begin
        self._place = 0  # of the one that stands in line next
        self._code: int | None = None  # of the process
        self._is_over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = make(self._ended)

    async def run(self, place: int, group: int, n_results: int, data: bytes, *blobs: Any) -> Any:
        """Run a parcel, see `returned`; nothing, if it was cancelled; whether it had begun, if the process
        has ended."""
        self._loop = asyncio.get_running_loop()
        call = self._calls[place] = _Call(group, data, blobs, self._loop.create_future())
        if place < self._place:  # it was cancelled
            call.outcome.set_result(None)
        self._go_on()
        outcome = await call.outcome
        del self._calls[place]
        if isinstance(outcome, Outcome):
            return returned(outcome, n_results)
        return [outcome, *[None] * n_results] if n_results else outcome

    async def cancel(self, place: int) -> bool:
        """Have a call not begin, whether it has come or not; False: it has begun."""
        call = self._calls.get(place)
        if place >= self._place:
            self._passed.add(place)
        elif call is None or not self._lines.take_out(lambda waiting: waiting is call):
            return False
        else:
            call.outcome.set_result(None)
        self._go_on()
        return True

    async def hear(self, message: bytes) -> None:
        """Tell the actor's pocket something."""
        self._process.hear(message)

    async def watch(self) -> int:
        """Returns the exit status of the process, or -signal, when it has ended."""
        self._loop = asyncio.get_running_loop()
        if self._code is None:
            await self._is_over.wait()
        assert self._code is not None
        return self._code

    async def end(self) -> None:
        """Have the process end once its calls have."""
        self._process.end(False)

    def _go_on(self) -> None:
        while self._place in self._passed or self._place in self._calls:
            call = self._calls.get(self._place)
            if self._place not in self._passed:
                assert call is not None
                self._lines.add(call, call.group)
            elif call is not None:
                call.outcome.set_result(None)
            self._passed.discard(self._place)
            self._place += 1
        if self._code is not None:
            for call in self._lines.take_out(lambda call: True):
                call.outcome.set_result(False)
        while (call := self._lines.next()) is not None:
            self._give(call)

    def _give(self, call: _Call) -> None:
        def over(outcome: Outcome | None) -> None:  # in another thread
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._has_run, call, outcome)

        self._process.run(call.data, [memoryview(blob).cast("B") for blob in call.blobs], over)

    def _has_run(self, call: _Call, outcome: Outcome | None) -> None:
        self._lines.ended(call.group)
        call.outcome.set_result(True if outcome is None else outcome)
        self._go_on()

    def _ended(self, code: int) -> None:  # in another thread
        self._code = code
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._is_over.set)
            self._loop.call_soon_threadsafe(self._go_on)


def returned(outcome: Outcome, n_results: int) -> Any:
    """What a Ray task returns that has run a parcel: its outcome's data, with refs of what is large beyond `n_results`,
    and that many that may be."""
    large = [PickleBuffer(one) for one in outcome.large]
    first: Any = outcome.data
    if len(large) > n_results:
        import ray

        first = outcome.data, [ray.put(one) for one in large[n_results:]]
    if not n_results:
        return first
    return [first, *large[:n_results], *[None] * (n_results - len(large))]
