"""Which calls go to the engine together, in one parcel: those of quick functions, since a parcel costs an engine about
a millisecond, whatever is in it (decision 148). Pure.

A function is quick if the median of its last runs is below `QUICK_S`; then as many of its calls as fill `FILL_S` are
packed, but fewer if there are others who could run some of them meanwhile. Calls do not come all at once: while each of
the engine's workers has `PER_WORKER` parcels, a parcel that is not full waits for more calls, `FILL_S` at most.

Of a function that is not known yet twice as many calls as the engine can run at a time are sent alone. The others wait
until these have told how long it runs, `HOLD_S` at most, as an engine may grow.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from statistics import median

from msgspec import Struct, field

from .interface import Handle
from .parcels import Key

QUICK_S = 0.001
FILL_S = 0.02
SPREAD_S = 0.002  # a parcel of less is not divided for the sake of those who have nothing to do
PER_WORKER = 2  # one that runs, and the next
EACH_S = 0.0001  # what a call takes in its pocket beside its run, about
N_RUNS, N_KNOWN = 15, 3  # that count, and that are needed
N_TRIED = 16  # of a function that is not known, at least
HOLD_S = 5.0
SLOW_S = 1.0  # of a function of which nothing better is known
MOST_FUNCTIONS = 1000

Kind = Hashable
"""What a call wants of the worker that runs it. Calls that go together want the same."""


class Function(Struct):
    """`runs`: how long the last ones took, seconds; `n_tried`: calls that were sent to learn that; `since`: when the
    first of them was."""

    runs: deque[float] = field(default_factory=lambda: deque[float](maxlen=N_RUNS))
    n_tried: int = 0
    since: float = 0.0


class Packing:
    """See above. The calls are numbers here.

    Parameters
    ----------
    clock : callable () -> float
        Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._functions: dict[Key, Function] = {}
        self._lines: dict[Kind, dict[int, Key]] = {}  # by number: the function
        self._parcels: dict[Handle, Kind] = {}  # under way
        self._n_parcels: Counter[Kind] = Counter()
        self._filling: dict[Kind, float] = {}  # since when quick calls wait for more of them

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def note_run(self, function: Key, ran_s: float) -> None:
        """A call of that has run."""
        self._known(function).runs.append(ran_s)

    def add(self, number: int, function: Key, kind: Kind) -> None:
        """A call can begin."""
        self._lines.setdefault(kind, {})[number] = function

    def discard(self, number: int) -> None:
        """It is not to begin any more."""
        for line in self._lines.values():
            line.pop(number, None)

    def sent(self, handle: Handle, kind: Kind) -> None:
        """The engine was given a parcel that `take` has told."""
        self._parcels[handle] = kind
        self._n_parcels[kind] += 1

    def ended(self, handle: Handle) -> None:
        """A parcel has ended, one of those or another."""
        if (kind := self._parcels.pop(handle, None)) is not None:
            self._n_parcels[kind] -= 1
            if not self._n_parcels[kind]:
                del self._n_parcels[kind]

    def wait_s(self) -> float | None:
        """Seconds until `take` has something to tell, whatever happens until then; None: there is nothing."""
        if self._filling:
            return max(0.0, min(self._filling.values()) + FILL_S - self._clock())
        return HOLD_S if len(self) else None

    def take(self, n_at_once: Callable[[int], int]) -> list[list[int]]:
        """What is to be sent now: the calls of each parcel. `n_at_once`: how many calls of the kind of that one the
        engine can run at the same time."""
        parcels: list[list[int]] = []
        for kind in list(self._lines):
            line = self._lines.pop(kind)
            if not line:
                self._filling.pop(kind, None)
                continue
            n_workers = max(1, n_at_once(next(iter(line))))
            quick: list[tuple[int, float]] = []
            for number, key in line.items():
                function = self._known(key)
                if len(function.runs) >= N_KNOWN and (ran_s := median(function.runs)) < QUICK_S:
                    quick.append((number, ran_s + EACH_S))
                elif self._may_go(function, n_workers):
                    parcels.append([number])
                else:
                    self._lines.setdefault(kind, {})[number] = key
            going, waiting = self._parcels_of(quick, kind, n_workers)
            parcels += going
            if waiting:
                self._lines.setdefault(kind, {}).update((number, line[number]) for number in waiting)
        return parcels

    def _parcels_of(
        self, calls: list[tuple[int, float]], kind: Kind, n_workers: int
    ) -> tuple[list[list[int]], list[int]]:
        """Parcels of quick calls, and the calls that wait for more of them."""
        is_free = self._n_parcels[kind] < PER_WORKER * n_workers
        parcels = packed(calls, n_workers if is_free else 1)
        if parcels and not is_free:
            now = self._clock()
            if now < self._filling.setdefault(kind, now) + FILL_S:
                return parcels[:-1], parcels[-1]
        self._filling.pop(kind, None)
        return parcels, []

    def _may_go(self, function: Function, n_workers: int) -> bool:
        """Whether a call of one that is not quick, or not known, goes alone."""
        if len(function.runs) >= N_KNOWN:
            return True
        now = self._clock()
        if not function.n_tried:
            function.since = now
        if function.n_tried < max(N_TRIED, 2 * n_workers):
            function.n_tried += 1
            return True
        if now - function.since < HOLD_S:
            return False
        function.runs.extend([SLOW_S] * N_KNOWN)
        return True

    def _known(self, key: Key) -> Function:
        function = self._functions.get(key)
        if function is None:
            if len(self._functions) >= MOST_FUNCTIONS:
                del self._functions[next(iter(self._functions))]
            function = self._functions[key] = Function()
        return function


def packed(calls: list[tuple[int, float]], n_workers: int) -> list[list[int]]:
    """Calls, each with how long it is going to take, in parcels, in their order."""
    most_s = min(FILL_S, max(SPREAD_S, sum(costs for _, costs in calls) / n_workers))
    parcels: list[list[int]] = []
    left_s = 0.0
    for number, costs in calls:
        if costs > left_s + 1e-9:  # sums of floats
            parcels.append([])
            left_s = most_s
        parcels[-1].append(number)
        left_s -= costs
    return parcels
