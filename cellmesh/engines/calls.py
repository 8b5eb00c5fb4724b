"""A call of home's as the engine's side has it, and what is said of calls: what they want, and why they fail. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import engine_limits as limits
from ..exceptions import EngineError, ObjectLostError
from ..objstore._core import (
    FAILURE_CANCELLED,
    FAILURE_NODE_DIED,
    FAILURE_OBJECT_LOST,
    FAILURE_OUT_OF_MEMORY,
    FAILURE_UNROUTED,
    FAILURE_WORKER_CRASHED,
    RESOURCE_UNIT,
    TASK_FLAG_RETRY_EXCEPTIONS,
)
from ..scheduler.cluster import messages
from ..scheduler.cluster.messages import Ref, Task
from .actors import limits_of
from .interface import Blob, Bundle, Engine, EngineNode, FailureKind, Handle, Parcel
from .parcels import Key, Progress

ANY_NUMBER = 1 << 30  # of runs
CODES: dict[FailureKind, int] = {
    "crashed": FAILURE_WORKER_CRASHED,
    "oom": FAILURE_OUT_OF_MEMORY,
    "node_died": FAILURE_NODE_DIED,
    "cancelled": FAILURE_CANCELLED,
    "object_lost": FAILURE_OBJECT_LOST,
    "unschedulable": FAILURE_UNROUTED,
    "env_failed": FAILURE_WORKER_CRASHED,
}
RERUN: frozenset[FailureKind] = frozenset({"crashed", "oom", "node_died"})


class Pack(Struct):
    """A parcel of several calls. `numbers`: of those that are under way in it."""

    numbers: set[int]
    is_withdrawn: bool = False  # as far as it can be


class Call(Struct):
    """A task of home's."""

    task: Task
    # Objects that it holds: function first, then its refs, those of the actor that it makes, what describes its group.
    needs: list[Key]
    missing: set[Key]
    kind: Hashable | None = None  # see `kind_of`
    handle: Handle | None = None
    pack: Pack | None = None  # whose parcel it is in, if it is not alone there
    given_at: float = 0.0  # when the engine was given it
    n_runs: int = 0
    is_cancelled: bool = False
    is_unplaced: bool = False  # its placement group was removed
    blobs: list[Blob] = field(default_factory=list)
    run: int = 0  # of which there are news
    n_news: int = 0  # that home was told
    past_runs: set[int] = set()  # that have died
    names: dict[Key, Key] = {}  # what its pocket calls what it has yielded, and refers to
    taken: int = 0  # of its items by its reader, or `CLOSED`
    uses: messages.Shares = {}  # of what the engine has, since it is known to have begun
    # To calls that it has made, by their numbers there and how many items came before: what was said and is not known
    # to be heard, and whether it should be by now.
    answers: dict[tuple[int, int], tuple[bytes, bool]] = {}
    brought: dict[int, list[Key]] = {}  # by answers to these: it may refer to that
    early: list[tuple[Progress, Sequence[Blob]]] = []  # what came before what was said earlier

    @property
    def n_left(self) -> int:
        """How often it may be begun again; -1: any number."""
        return self.task.max_retries - self.n_runs if self.task.max_retries >= 0 else -1


class InUse:
    """What is used of what the engine has, as far as this side knows."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._told: Counter[str] = Counter()

    def change(self, before: messages.Shares, now: messages.Shares) -> messages.Shares:
        """Something uses other amounts than before; which."""
        self._used.subtract(before)
        self._used.update(now)
        return now

    def news(self) -> messages.Shares | None:
        """It, if it is not what was told last."""
        self._used = +self._used
        if self._used == self._told:
            return None
        self._told = self._used.copy()
        return dict(self._used)


def to_send(call: Call, actor: Key | None) -> Task:
    """A call for its pocket, with what it refers to by the names that this side has. `actor`: what the pocket calls
    the one that it is a call of, if it is one."""
    task = call.task
    function, *refs = (Ref(*key) for key in (call.needs if task.bundle is None else call.needs[:-1]))
    more = refs[len(task.refs) :]
    # What it submits has its resources, wherever these are from.
    bundle = None if task.bundle is None else replace(task.bundle, captures=False)
    sent = replace(task, function=function, refs=refs[: len(task.refs)], max_retries=call.n_left, bundle=bundle)
    if task.creates is not None:
        checkpoint = more.pop() if task.checkpoint is not None else None
        return replace(sent, creates=replace(task.creates, refs=more), checkpoint=checkpoint)
    return sent if actor is None else replace(sent, actor=Ref(*actor, yours=True))


def parcel_of(calls: Sequence[Call], work: bytes, blobs: list[Blob], bundle: Bundle | None) -> Parcel:
    """What the engine is given of a call, or of several that go together. `work`: what their pocket is; `blobs`: what
    is large of that."""
    task, left, is_packed = calls[0].task, calls[0].n_left, len(calls) > 1
    by_exceptions = bool(task.flags & TASK_FLAG_RETRY_EXCEPTIONS)  # then the pocket tries again, and counts
    return Parcel(
        work,
        blobs,
        in_units(task.demand),
        1 if by_exceptions or is_packed else left + 1 if left >= 0 else ANY_NUMBER,
        0 if is_packed else task.n_returns,
        is_packed,
        limits=limits_for(task),
        group=0 if task.actor is None else task.group,
        bundle=bundle,
    )


def kind_of(task: Task) -> Hashable | None:
    """What a call must have in common with those that it goes with, see `packing`; None: it goes alone. A call that may
    not be repeated does, as a worker dies with all that it runs, and one whose attempts, or time, the pocket counts."""
    alone = task.actor is not None or task.creates is not None or task.stream >= 0 or task.bundle is not None
    if alone or not task.max_retries or task.times is not None or task.flags & TASK_FLAG_RETRY_EXCEPTIONS:
        return None
    return tuple(sorted(task.demand.items())), task.env


def n_at_once(task: Task, nodes: Sequence[EngineNode]) -> int:
    """How many calls of its kind these machines can run at the same time; of one that wants nothing as many as of one
    that wants a CPU."""
    demand = in_units(task.demand) or {"CPU": 1.0}
    return sum(int(min(node.total.get(name, 0.0) / amount for name, amount in demand.items())) for node in nodes)


def limits_for(task: Task) -> list[int]:
    """As of `Parcel`."""
    return limits_of(task.creates.actor) if task.creates is not None and task.creates.actor is not None else []


WANTS: dict[str, Callable[[Task], object]] = {
    limits.ACTORS: lambda task: task.creates is not None and task.creates.actor is not None,
    limits.CONCURRENT_ACTORS: limits_for,
    limits.GENERATORS: lambda task: task.stream >= 0,
    limits.GROUPS: lambda task: task.bundle is not None,
}
"""By what an engine may lack: whether a task wants it."""


def lacking(task: Task, engine: Engine) -> str:
    """What a task wants that the engine cannot do; "" if it can."""
    return next((what for what in engine.can.lacks if WANTS[what](task)), "")


def not_constructed(engine: str, kind: FailureKind, text: str) -> Exception:
    """Why an actor cannot begin, however often that is tried."""
    if kind == "object_lost":
        return ObjectLostError("an argument of the actor is gone, together with the process that held it")
    return EngineError(f"{engine} cannot begin this actor ({kind}): {text}")


def in_units(shares: messages.Shares) -> dict[str, float]:
    return {name: amount / RESOURCE_UNIT for name, amount in shares.items()}


def amounts(total: Mapping[str, float]) -> dict[str, int]:
    """Amounts of resources as messages have them."""
    return {name: int(amount * RESOURCE_UNIT) for name, amount in total.items() if amount > 0}
