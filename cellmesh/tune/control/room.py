"""What the machines have room for: how many trials that take the same, and which ones where each takes its own. Pure.

What a trial takes is said in the options of its task (`num_cpus`, `num_gpus`, `memory`, `resources`), and beside them
`bundles` and `strategy` where it takes a placement group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_BUNDLES = 255  # of all placement groups of a session
MAX_AT_A_TIME = 1000  # trials that take so little that nothing else bounds them
LEAST = 1e-9  # amounts are sums of floats

Amounts = Mapping[str, float]


def bundles_of(options: Mapping[str, Any]) -> list[dict[str, float]]:
    """What must be there together: the bundles of a group, or the one of a task."""
    if "bundles" in options:
        return [dict(bundle) for bundle in options["bundles"]]
    whole = {
        "CPU": float(options.get("num_cpus", 1)),
        "GPU": float(options.get("num_gpus", 0)),
        "memory": float(options.get("memory", 0)),
        **options.get("resources", {}),
    }
    return [{name: amount for name, amount in whole.items() if amount > 0}]


def in_words(options: Mapping[str, Any]) -> str:
    """What a trial takes: "CPU 2, GPU 1"."""
    bundles = [", ".join(f"{name} {amount:g}" for name, amount in each.items()) for each in bundles_of(options)]
    return " and ".join(text or "nothing" for text in bundles) + (
        f" ({options['strategy']})" if "strategy" in options else ""
    )


def capacity(options: Mapping[str, Any], nodes: Sequence[Amounts], most: int | None) -> int:
    """How many trials that take this the machines can run at a time: 0 if none can, `most` at most."""
    bundles = bundles_of(options)
    if "bundles" in options:
        limit = MAX_BUNDLES // len(bundles) if most is None else min(most, MAX_BUNDLES // len(bundles))
        free, n = [dict(node) for node in nodes], 0
        while n < limit and _take(free, bundles, options["strategy"]) is not None:
            n += 1
        return n
    (needs,) = bundles
    n = 0
    for node in nodes:
        if needs:
            n += min(int(node.get(name, 0.0) / amount + LEAST) for name, amount in needs.items())
        else:
            n += max(1, int(node.get("CPU", 1)))
    return n if most is None else min(n, most)


class Room:
    """What the machines have, and who takes how much of it, for trials each of which takes its own.

    Which machine a trial really runs on is the scheduler's to decide, so what fits here may wait there for a moment.
    """

    def __init__(self) -> None:
        self.nodes: list[Amounts] = []  # none: everything fits
        self._free: list[dict[str, float]] = []
        self._taken: dict[int, tuple[Mapping[str, Any], list[int]]] = {}  # by trial: its options, a machine a bundle

    def set(self, nodes: Sequence[Amounts]) -> None:
        """The machines are these now. Where they are others, who runs counts as far as it fits."""
        if list(nodes) == self.nodes:
            return
        self.nodes = list(nodes)
        self._free = [dict(node) for node in self.nodes]
        taken, self._taken = self._taken, {}
        for trial, (options, _) in taken.items():
            self.take(trial, options)

    def fits(self, options: Mapping[str, Any]) -> bool:
        """Whether there is room for it now."""
        return not self.nodes or _fits([dict(node) for node in self._free], options)

    def could_fit(self, options: Mapping[str, Any]) -> bool:
        """Whether there would be if nothing else ran."""
        return not self.nodes or _fits([dict(node) for node in self.nodes], options)

    def take(self, trial: int, options: Mapping[str, Any]) -> None:
        """A trial runs; again, nothing changes."""
        if self.nodes and trial not in self._taken:
            placed = _take(self._free, bundles_of(options), options.get("strategy", "PACK"))
            self._taken[trial] = options, placed or []

    def give(self, trial: int) -> None:
        """It does not run any more; harmless if it did not."""
        options, placed = self._taken.pop(trial, ({}, []))
        for bundle, node in zip(bundles_of(options), placed, strict=False):
            _add(self._free[node], bundle, 1)


def _fits(free: list[dict[str, float]], options: Mapping[str, Any]) -> bool:
    return _take(free, bundles_of(options), options.get("strategy", "PACK")) is not None


def _take(free: list[dict[str, float]], bundles: Sequence[Amounts], strategy: str) -> list[int] | None:
    """Take bundles out of what is free: the machine of each; None, with nothing changed, where they do not fit.

    Each goes to the first machine with room: to one for all of them if that is possible ("PACK") or a must
    ("STRICT_PACK"), to one that has none yet if that is possible ("SPREAD") or a must ("STRICT_SPREAD").
    """
    if "PACK" in strategy:
        for number, node in enumerate(free):
            left = dict(node)
            if all(_subtract(left, bundle) for bundle in bundles):
                free[number] = left
                return [number] * len(bundles)
        if strategy == "STRICT_PACK":
            return None
    rest, placed = [dict(node) for node in free], list[int]()
    for bundle in bundles:
        order = range(len(rest))
        if "SPREAD" in strategy:
            order = sorted(order, key=placed.count)
        found = next(
            (n for n in order if not (strategy == "STRICT_SPREAD" and n in placed) and _subtract(rest[n], bundle)), None
        )
        if found is None:
            return None
        placed.append(found)
    free[:] = rest
    return placed


def _subtract(node: dict[str, float], bundle: Amounts) -> bool:
    """Take a bundle from a machine; False, with nothing changed, if it has no room."""
    if any(node.get(name, 0.0) + LEAST < amount for name, amount in bundle.items()):
        return False
    _add(node, bundle, -1)
    return True


def _add(node: dict[str, float], bundle: Amounts, sign: int) -> None:
    for name, amount in bundle.items():
        node[name] = node.get(name, 0.0) + sign * amount
