"""Where tasks of a cluster go: pure functions over a table of nodes, numbers in, numbers out. The mechanism is in
`head` and `agent`.

Amounts are whole numbers (ten-thousandths of a resource), so nothing is ever a little less than it was. Every choice is
a function of its arguments alone: ties go to the lower node number. The order of a table matters only when more than
`MAX_SCORED` nodes of it have room: then the first of them are compared, as looking at all of a thousand takes a
millisecond and finds little better ones; Kubernetes' scheduler does the same [4]_.

Packing is best fit [1]_ over several resources, with a term for what need not be moved, added up linearly as in Tetris
[2]_:

    score = fullness after placing, 0 to 1, of the resource that would be fullest  +  bytes that lie there / PACK_BYTES

so `PACK_BYTES` of arguments weigh as much as the difference between an empty and a full node: moving them takes tens of
milliseconds, and a badly packed node costs about as much later. Nodes with GPUs come last for tasks that need none.

References
----------
.. [1] D. S. Johnson, Near-optimal bin packing algorithms, 1973: best fit, and decreasing order for bundles.
.. [2] Grandl et al., Multi-resource packing for cluster schedulers, SIGCOMM 2014.
.. [3] H. W. Kuhn, The Hungarian method for the assignment problem, 1955: augmenting paths, for STRICT_SPREAD.
.. [4] percentageOfNodesToScore, https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from ...objstore._core import RESOURCE_UNIT
from .messages import Strategy

# So many bytes of arguments that need not move outweigh any difference in fullness.
PACK_BYTES = 64 << 20
# Nodes with room that are compared for one ask, those where its arguments lie included.
MAX_SCORED = 64
# Leases of others are called back for an ask that has waited so long: what is returned by itself comes earlier.
RECALL_AFTER_S = 0.5
# A task that was sent and still waits there after so long is taken back once there is room elsewhere.
TAKE_BACK_AFTER_S = 0.2
# For tasks that may run anywhere.
ANYWHERE = Strategy()

Mode = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
Amounts = Mapping[str, int]


class Candidate(Struct):
    """A node as far as placement is concerned.

    `room`: what could be given away now, only of kinds that are in `total`. `is_open`: whether anything may be given
    away at this moment. `is_leaving`: it drains, so nothing ever will. `kept`: what actors hold, so it does not become
    free by itself. `n_running`: tasks and actors there, those that are on their way included.
    """

    node: int
    total: dict[str, int]
    room: dict[str, int] = {}
    labels: dict[str, str] = {}
    is_open: bool = True
    is_leaving: bool = False
    kept: dict[str, int] = {}
    n_running: int = 0


Table = Mapping[int, Candidate]


# ---------------------------------------------------------------- what fits
def n_fitting(room: Amounts, demand: Amounts, limit: int) -> int:
    """How often `demand` fits into `room`, at most `limit`."""
    n = limit
    for kind, amount in demand.items():
        if amount > 0:
            n = min(n, room.get(kind, 0) // amount)
    return max(0, n)


def holds(condition: str, value: str | None) -> bool:
    """Whether a label has a value as asked for: "a", "in(a,b)", "exists()", or with a "!" before it the opposite of one
    of these. None: there is no such label."""
    if condition.startswith("!"):
        return not holds(condition[1:], value)
    if condition == "exists()":
        return value is not None
    if condition.startswith("in(") and condition.endswith(")"):
        return value in [one.strip() for one in condition[3:-1].split(",")]
    return value == condition


def allows(strategy: Strategy, candidate: Candidate) -> bool:
    """Whether tasks of that strategy may run there at all, whatever room there is."""
    if strategy.kind == "node" and candidate.node != strategy.node and not strategy.soft:
        return False
    return _all_hold(strategy.labels, candidate)


def _all_hold(labels: Mapping[str, str], candidate: Candidate) -> bool:
    return all(holds(condition, candidate.labels.get(key)) for key, condition in labels.items())


def is_feasible(candidate: Candidate, demand: Amounts, strategy: Strategy) -> bool:
    """Whether the node could run such a task if it were idle."""
    return not candidate.is_leaving and allows(strategy, candidate) and n_fitting(candidate.total, demand, 1) == 1


def why_infeasible(table: Table, demand: Amounts, strategy: Strategy) -> str | None:
    """None if some node could run such a task if it were idle, else a sentence that says why not and what there is."""
    if any(is_feasible(c, demand, strategy) for c in table.values()):
        return None
    open_ones = [c for c in table.values() if not c.is_leaving]
    needs = f"A task needs {in_amounts(demand)}"
    if strategy.kind == "node":
        wanted = table.get(strategy.node)
        if wanted is None:
            return f"{needs} on node {strategy.node:x}, which is no member of the cluster."
        if wanted.is_leaving:
            return f"{needs} on node {strategy.node:x}, on which nothing new starts."
        return f"{needs} on node {strategy.node:x}, which has {in_amounts(wanted.total)} in all."
    if strategy.labels:
        said = ", ".join(f"{key}={value}" for key, value in sorted(strategy.labels.items()))
        matching = [c for c in open_ones if allows(strategy, c)]
        if not matching:
            return f"{needs} on a node labelled {said}; none of the {len(open_ones)} nodes is."
        return f"{needs} on a node labelled {said}; the largest such node has {in_amounts(_largest(matching, demand))}."
    if not open_ones:
        return f"{needs}; there is no node on which anything may start."
    return f"{needs} on one node; the largest of {len(open_ones)} has {in_amounts(_largest(open_ones, demand))}."


def _largest(candidates: Iterable[Candidate], demand: Amounts) -> dict[str, int]:
    """What the node that comes nearest to the demand has of what is demanded."""

    def lacking(c: Candidate) -> tuple[float, int]:
        return sum(max(0.0, 1 - c.total.get(kind, 0) / amount) for kind, amount in demand.items() if amount), c.node

    best = min(candidates, key=lacking)
    return {kind: best.total.get(kind, 0) for kind in demand}


def in_amounts(amounts: Amounts) -> str:
    """For people: "2 CPU, 0.5 GPU"."""
    return ", ".join(f"{amount / RESOURCE_UNIT:g} {kind}" for kind, amount in sorted(amounts.items())) or "no resources"


# ---------------------------------------------------------------- tasks
def place(
    table: Table,
    demand: Amounts,
    n: int,
    strategy: Strategy = ANYWHERE,
    *,
    near: Mapping[int, int] = {},
    avoid: Iterable[int] = (),
    home: int = 0,
) -> list[tuple[int, int]]:
    """Where up to `n` tasks of one shape may run.

    Takes O(nodes), or less once enough with room are found. Filling the best node before the next is what best fit does
    task by task, as a node only fits better the fuller it is.

    Parameters
    ----------
    table : mapping of node to Candidate
    demand : mapping of str to int
        What one task needs.
    n : int
        For how many tasks.
    near : mapping of node to int
        Bytes of large arguments that lie there.
    avoid : iterable of int
        Nodes not to use, even if the strategy names one.
    home : int
        The node that asks. Plain packing leaves it out: it has looked there itself. Tasks of other strategies wait for
        what is decided here.

    Returns
    -------
    list of (node, number of tasks)
        Together at most `n`; empty if there is no room.
    """
    kind = strategy.kind
    skipped = {*avoid, home} if strategy.leaves_home else set(avoid)
    if kind == "node":
        wanted = table.get(strategy.node)
        fitting = 0
        if wanted is not None and wanted.is_open and wanted.node not in skipped:
            fitting = n_fitting(wanted.room, demand, n)
        if wanted is not None and fitting:
            rest = n - fitting
            if not rest or not strategy.soft:
                return [(wanted.node, fitting)]
            others = place(table, demand, rest, near=near, avoid={*skipped, wanted.node})
            return [(wanted.node, fitting), *others]
        # Softly: elsewhere only if it never can run there, or has no room now. Hard: nowhere else.
        return place(table, demand, n, near=near, avoid=skipped) if strategy.soft else []
    needs = [(what, amount) for what, amount in demand.items() if amount > 0]
    labelled = strategy.labels
    found: list[tuple[int, Candidate]] = []
    there = 0
    nearest = [table[node] for node in sorted(near) if node in table]
    for c in itertools.chain(nearest, (c for c in table.values() if c.node not in near)) if nearest else table.values():
        if not c.is_open or c.node in skipped:
            continue
        fitting, room = n, c.room
        for what, amount in needs:
            fitting = min(fitting, room.get(what, 0) // amount)
        if fitting > 0 and (not labelled or allows(strategy, c)):
            found.append((fitting, c))
            there += fitting
            if there >= n and len(found) >= MAX_SCORED and kind != "spread":
                break
    if strategy.preferred and found:
        first = [(fitting, c) for fitting, c in found if _all_hold(strategy.preferred, c)]
        placed = _ranked(kind, first, needs, n, near)
        rest = n - sum(taken for _, taken in placed)
        return [*placed, *_ranked(kind, [pair for pair in found if pair not in first], needs, rest, near)]
    return _ranked(kind, found, needs, n, near)


def _ranked(
    kind: str, found: list[tuple[int, Candidate]], needs: list[tuple[str, int]], n: int, near: Mapping[int, int]
) -> list[tuple[int, int]]:
    return _spread(found, needs, n) if kind == "spread" else _packed(found, needs, n, near)


def _packed(
    found: list[tuple[int, Candidate]], needs: list[tuple[str, int]], n: int, near: Mapping[int, int]
) -> list[tuple[int, int]]:
    ranked = [(_wastes_gpu(c, needs), -_score(c, needs, near.get(c.node, 0)), c.node, fitting) for fitting, c in found]
    placed: list[tuple[int, int]] = []
    for _, _, node, fitting in [min(ranked)] if n == 1 and ranked else sorted(ranked) if n else ():
        taken = min(fitting, n)
        placed.append((node, taken))
        n -= taken
        if not n:
            break
    return placed


def _score(c: Candidate, needs: list[tuple[str, int]], near_bytes: int) -> float:
    fullness = 0.0
    for what, amount in needs:
        fullness = max(fullness, 1 - (c.room.get(what, 0) - amount) / c.total[what])
    return fullness + near_bytes / PACK_BYTES


def _wastes_gpu(c: Candidate, needs: list[tuple[str, int]]) -> bool:
    return bool(c.total.get("GPU")) and all(what != "GPU" for what, _ in needs)


def _spread(found: list[tuple[int, Candidate]], needs: list[tuple[str, int]], n: int) -> list[tuple[int, int]]:
    """One place after the other, each on the node that is least full by then, and of those equally full on the one that
    then is.

    Many things take nothing of what is counted, or only while they begin, as actors do: so it counts, too, how many
    there are for each CPU.
    """

    def fullness(c: Candidate, taken: int) -> float:
        full = (c.n_running + taken) * RESOURCE_UNIT / max(1, c.total.get("CPU", 0))
        return max(
            [full, *((c.total[what] - c.room.get(what, 0) + taken * amount) / c.total[what] for what, amount in needs)]
        )

    def ranked(c: Candidate, taken: int, fitting: int) -> tuple[float, float, int, int, int, Candidate]:
        return fullness(c, taken), fullness(c, taken + 1), c.node, taken, fitting, c

    heap = [ranked(c, 0, fitting) for fitting, c in found]
    heapq.heapify(heap)
    taken_of: dict[int, int] = {}
    while heap and n:
        _, _, node, taken, fitting, c = heap[0]
        taken_of[node] = taken = taken + 1
        n -= 1
        if taken < fitting:
            heapq.heapreplace(heap, ranked(c, taken, fitting))
        else:
            heapq.heappop(heap)
    return list(taken_of.items())


def nearest_to_room(
    table: Table, demand: Amounts, strategy: Strategy = ANYWHERE, *, avoid: Iterable[int] = (), home: int = 0
) -> int | None:
    """The node that lacks least for one more such task, of those that have room for one once what runs there has ended;
    None: there is no such node. `home` as for `place`."""
    skipped = {*avoid, home} if strategy.leaves_home else set(avoid)

    def lacking(c: Candidate) -> tuple[float, int]:
        return max((amount - c.room.get(what, 0)) / c.total[what] for what, amount in demand.items() if amount), c.node

    def may_fit(c: Candidate) -> bool:
        left = {what: c.total.get(what, 0) - c.kept.get(what, 0) for what in demand}
        return c.is_open and c.node not in skipped and allows(strategy, c) and n_fitting(left, demand, 1) == 1

    found = [c for c in table.values() if may_fit(c)]
    return min(found, key=lacking).node if found and any(demand.values()) else None


# ---------------------------------------------------------------- bundles of placement groups
def place_bundles(table: Table, bundles: Sequence[Amounts], mode: Mode) -> list[int] | str:
    """A node for each bundle, all or none.

    STRICT_PACK: all on one node. PACK: on few nodes, best fit in decreasing order. SPREAD: on many, the emptiest first.
    STRICT_SPREAD: each on another one, found whenever it exists [3]_. PACK and SPREAD are heuristics: filling bins with
    vectors is hard, and they can miss a way that exists when nodes are nearly full.

    Returns
    -------
    list of int, or str
        The node of each bundle, in the order of `bundles`; or a sentence that says why not.
    """
    nodes = sorted((c for c in table.values() if c.is_open), key=lambda c: c.node)
    if mode == "STRICT_PACK":
        together: dict[str, int] = {}
        for bundle in bundles:
            for kind, amount in bundle.items():
                together[kind] = together.get(kind, 0) + amount
        placed = place({c.node: c for c in nodes}, together, 1)
        if not placed:
            return f"No node has room for all bundles together: {in_amounts(together)}."
        return [placed[0][0]] * len(bundles)
    if mode == "STRICT_SPREAD":
        return _matched(nodes, bundles)
    whole = _whole(nodes)
    order = sorted(range(len(bundles)), key=lambda i: (-_weight(bundles[i], whole), i))
    if mode == "PACK" and not isinstance(on_one := place_bundles(table, bundles, "STRICT_PACK"), str):
        return on_one
    room = {c.node: dict(c.room) for c in nodes}
    n_on = dict.fromkeys(room, 0)
    chosen = [0] * len(bundles)
    for i in order:
        bundle = bundles[i]
        fitting = [c for c in nodes if n_fitting(room[c.node], bundle, 1)]
        if not fitting:
            return f"Bundle {i} ({in_amounts(bundle)}) finds no room beside the others."
        needs = [(kind, amount) for kind, amount in bundle.items() if amount > 0]

        def rank(c: Candidate, needs: list[tuple[str, int]] = needs) -> tuple[float, ...]:
            score = _score(Candidate(c.node, c.total, room[c.node]), needs, 0)
            if mode == "PACK":
                return (n_on[c.node] == 0, _wastes_gpu(c, needs), -score, c.node)
            return (n_on[c.node], _wastes_gpu(c, needs), score, c.node)

        best = min(fitting, key=rank).node
        for kind, amount in needs:
            room[best][kind] -= amount
        n_on[best] += 1
        chosen[i] = best
    return chosen


def why_bundles_infeasible(table: Table, bundles: Sequence[Amounts], mode: Mode) -> str | None:
    """None if the bundles could be placed were every node idle, else a sentence."""
    idle = {node: Candidate(node, c.total, c.total, c.labels, not c.is_leaving) for node, c in table.items()}
    placed = place_bundles(idle, bundles, mode)
    return f"{placed} That is so even with every node idle." if isinstance(placed, str) else None


def _whole(nodes: Iterable[Candidate]) -> dict[str, int]:
    """The most that any node has of each resource."""
    most: dict[str, int] = {}
    for c in nodes:
        for kind, amount in c.total.items():
            most[kind] = max(most.get(kind, 0), amount)
    return most


def _weight(bundle: Amounts, whole: Amounts) -> float:
    """The largest part that a bundle takes of any resource of a large node."""
    return max((amount / max(1, whole.get(kind, 0)) for kind, amount in bundle.items()), default=0.0)


def _matched(nodes: list[Candidate], bundles: Sequence[Amounts]) -> list[int] | str:
    """STRICT_SPREAD as a matching of bundles to nodes, by augmenting paths; emptiest nodes are tried first."""
    if len(bundles) > len(nodes):
        return f"{len(bundles)} bundles are each to have a node of their own, and there are {len(nodes)} nodes."
    whole = _whole(nodes)
    fitting = [
        [
            c.node
            for c in sorted(nodes, key=lambda c: (_wastes_gpu(c, list(b.items())), _weight(b, c.room), c.node))
            if n_fitting(c.room, b, 1)
        ]
        for b in bundles
    ]
    bundle_on: dict[int, int] = {}
    for i in sorted(range(len(bundles)), key=lambda i: (len(fitting[i]), -_weight(bundles[i], whole), i)):
        # node -> the bundle that would take it, and the node that one leaves
        came_from: dict[int, tuple[int, int | None]] = {}
        queue: list[tuple[int, int | None]] = [(i, None)]
        end = None
        for bundle, leaves in queue:  # grows meanwhile: breadth first
            for node in fitting[bundle]:
                if node not in came_from:
                    came_from[node] = (bundle, leaves)
                    if node not in bundle_on:
                        end = node
                        break
                    queue.append((bundle_on[node], node))
            if end is not None:
                break
        if end is None:
            return f"Bundle {i} ({in_amounts(bundles[i])}) finds no node of its own with room for it."
        while end is not None:
            bundle_on[end], end = came_from[end]
    node_of = {bundle: node for node, bundle in bundle_on.items()}
    return [node_of[i] for i in range(len(bundles))]


# ---------------------------------------------------------------- fairness, stealing
def share(n_fitting_tasks: int, n_waiting: int) -> int:
    """For how many of the tasks that fit on a node one of `n_waiting` askers is given a lease before it is the next
    one's turn."""
    return max(1, n_fitting_tasks // max(1, n_waiting))


def weight(demand: Amounts) -> int:
    """What a task counts when shares are compared: its largest amount of anything that is counted in pieces."""
    return max((amount for kind, amount in demand.items() if kind != "memory"), default=0) or RESOURCE_UNIT


def to_recall(held: Mapping[int, int], wanted: Mapping[int, int], coming: int) -> dict[int, int]:
    """How much to call back from whom, so that those who wait come nearer to an equal share.

    No node is brought under the equal share of all that hold or wait, so leases do not wander to and fro, and a node
    that wants less than its share is given what it wants (max-min fairness).

    Parameters
    ----------
    held : mapping of node to int
        What each holds, without what is called back already.
    wanted : mapping of node to int
        What each has waited for, long enough.
    coming : int
        What is called back already.
    """
    equal = (sum(held.values()) + coming) // max(1, len({*held, *wanted}))
    missing = sum(min(amount, max(0, equal - held.get(node, 0))) for node, amount in wanted.items()) - coming
    called: dict[int, int] = {}
    for node, amount in sorted(held.items(), key=lambda item: (-item[1], item[0])):
        if missing <= 0 or amount <= equal:
            break
        called[node] = min(missing, amount - equal)
        missing -= called[node]
    return called


class Recallable(Protocol):
    """A lease that may be called back: `keep` of its `n` tasks may be kept."""

    demand: dict[str, int]
    n: int
    keep: int


L = TypeVar("L", bound=Recallable)


def recall(leases: Sequence[L], holder: Callable[[L], int], wanted: Mapping[int, int]) -> list[L]:
    """Lower `keep` of leases, see `to_recall`; those that have changed. Counted in amounts, as shapes differ."""
    held: Counter[int] = Counter()
    coming = 0
    for lease in leases:
        held[holder(lease)] += min(lease.keep, lease.n) * weight(lease.demand)
        coming += max(0, lease.n - lease.keep) * weight(lease.demand)
    surplus = to_recall(held, wanted, coming)
    changed: list[L] = []
    for lease in leases:
        rest, one = surplus.get(holder(lease), 0), weight(lease.demand)
        kept = min(lease.keep, lease.n)
        n = min(kept, -(-rest // one))
        if n > 0:
            lease.keep = kept - n
            surplus[holder(lease)] = rest - n * one
            changed.append(lease)
    return changed


def to_take_back(n_waiting: int, waited_s: float, n_idle_elsewhere: int) -> int:
    """Of tasks that were sent to a node and wait in its queue: how many to take back because there is room
    elsewhere."""
    return min(n_waiting, n_idle_elsewhere) if waited_s >= TAKE_BACK_AFTER_S else 0
