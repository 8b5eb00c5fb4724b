"""A fake engine behind a line that loses, doubles and delays, by a seed: for tests of `home` and `submitter`, and for
`init(address="fake+relay:SEED")`."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..actor.calling import or_end
from ..fake_engine import FakeEngine, served
from ..interface import EngineNode, Event, Facts
from .home import RelayEngine
from .submitter import Submitter

PREFIX = "fake+relay:"
Request = tuple[str, Any]


@dataclass(frozen=True)
class LineFaults:
    """How likely what is, each from 0 to 1, of each request: that it is lost, that its answer is, that it comes twice,
    and that it comes once more, later."""

    lost: float = 0.1
    unanswered: float = 0.1
    twice: float = 0.1
    late: float = 0.1


class FaultyLine:
    """Carries requests.

    Parameters
    ----------
    serve : callable (request) -> answer
        The other end.
    seed : int
    faults : LineFaults
    """

    def __init__(self, serve: Callable[[Request], Any], seed: int, faults: LineFaults) -> None:
        self._serve, self._faults, self._random = serve, faults, random.Random(seed)
        self._late: list[Request] = []

    def ask(self, request: Request) -> Any:
        """The answer; None: none comes."""
        if self._late and self._happens(0.5):
            self._serve(self._late.pop(self._random.randrange(len(self._late))))
        if self._happens(self._faults.lost):
            return None
        answer = self._serve(request)
        if self._happens(self._faults.twice):
            answer = self._serve(request)
        if self._happens(self._faults.late):
            self._late.append(request)
        return None if self._happens(self._faults.unanswered) else answer

    def _happens(self, likely: float) -> bool:
        return self._random.random() < likely


class RelayedFake(RelayEngine):
    """See above. Nothing is carried by itself: see `carry`."""

    def __init__(self, engine: FakeEngine, seed: int = 0, faults: LineFaults = LineFaults()) -> None:
        super().__init__(engine.can)
        self.engine = engine
        self._there = Submitter(engine)
        self._line = FaultyLine(self._serve, seed, faults)

    def _serve(self, request: Request) -> Any:
        what, given = request
        if what == "give":
            return self._there.give(given)
        self._there.came(given)
        return self._there.take()

    def open(self, address: str, options: Mapping[str, Any]) -> tuple[Facts, list[EngineNode]]:
        """Begin."""
        return self.engine.connect("fake:", options, self._noted), self.engine.nodes()

    def _noted(self, event: Event) -> None:
        self._there.tell(event)

    @property
    def has_work(self) -> bool:
        """Whether there is something to be carried."""
        return bool(self._calls) or self._there.has_news

    def carry(self) -> bool:
        """Ask once each way, if there is something to be carried; False: there is not."""
        if not self.has_work:
            return False
        if (batch := self.calls()) and (n := self._line.ask(("give", batch))) is not None:
            self.given(n)
        if self._there.has_news and (come := self._line.ask(("take", self.n_come))) is not None:
            self.take(come)
        return True

    def close(self) -> None:
        """End."""
        self.engine.close()


class _Served(RelayedFake):
    """Carries in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(served())
        self._is_closed = False

    def open(self, address: str, options: Mapping[str, Any]) -> tuple[Facts, list[EngineNode]]:
        """Begin."""
        self._line = FaultyLine(self._serve, int(address.removeprefix(PREFIX) or 0), LineFaults())
        threading.Thread(target=or_end, args=(self._carry_on,), name="fake-relay", daemon=True).start()
        return super().open(address, options)

    def _noted(self, event: Event) -> None:
        super()._noted(event)
        with self._changed:
            self._changed.notify_all()

    def _carry_on(self) -> None:
        while not self._is_closed:
            if not self.carry():
                with self._changed:
                    self._changed.wait_for(lambda: self.has_work or self._is_closed)

    def close(self) -> None:
        """End."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        super().close()


def relayed() -> RelayEngine:
    """The engine of "fake+relay:SEED"."""
    return _Served()
