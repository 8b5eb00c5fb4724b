"""A group of ranks: started together, watched, and ended together. It runs in the task of a trial (`cellmesh.tune`).

The resources of all ranks are reserved as one placement group, which belongs to this process: if it dies, the group
goes and the ranks with it. The first rank that fails ends the others at once; what is raised names it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..api import cancel, nodes, remote
from ..exceptions import NodeDiedError, TaskCancelledError, TaskError, WorkerCrashedError
from ..objects import get, put
from ..submit.placement_groups import placement_group, remove_placement_group
from ..submit.scheduling_strategies import PlacementGroupSchedulingStrategy
from ..tune import reporting
from ..tune.exceptions import StopTrial
from ..tune.resources import options_of
from ..waiting import wait
from . import layout
from .collective import MAX_RANKS, CollectiveMemory
from .exceptions import GroupBrokenError, RankDiedError, RankFailedError, TrainError
from .rank import GroupTask, RankInfo, run_rank

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..submit.placement_groups import PlacementGroup

CAUSE_ENDS_WITHIN_S = 1.0  # a rank that has broken the group
LEAVES_WITHIN_S = 5.0  # a rank that is interrupted has this long for what it does at its end


@dataclass(frozen=True)
class GroupPlan:
    """What a group is.

    Attributes
    ----------
    name : str
        The function's.
    loop : ObjectRef
        The user's function, which ranks alone open: it may need modules that are slow to import.
    n_ranks : int
    bundle : dict of str to float
        The resources of each rank.
    shares_memory : bool
        Whether all ranks must be on one machine. Where they are, they have a communicator.
    strategy : str
        How the ranks are spread over machines, as of `placement_group`.
    setup : callable or None
        See `rank.GroupTask`.
    datasets : dict of str to ObjectRef
    """

    name: str
    loop: ObjectRef[Callable[..., Any]]
    n_ranks: int
    bundle: dict[str, float]
    shares_memory: bool
    strategy: str
    setup: Callable[[RankInfo], AbstractContextManager[None]] | None = None
    start: Any = None  # the checkpoint to begin from, if there is none of the training's own
    datasets: dict[str, ObjectRef[Any]] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The bundle as options of a task."""
        return {"num_cpus": 0, **options_of(self.bundle)}


def run_group(plan: GroupPlan, config: dict[str, Any] | None) -> None:
    """Run the ranks to their end, within a trial.

    Raises
    ------
    StopTrial
        The trial is to end, or to pause.
    RankDiedError, RankFailedError
        Of the rank that was the first.
    """
    group = placement_group([plan.bundle] * plan.n_ranks, strategy=plan.strategy, lifetime="process")
    refs: list[ObjectRef[str]] = []
    try:
        get(group.ready())
        with tempfile.TemporaryDirectory(prefix="cellmesh-train-") as folder:
            on_one_machine = plan.shares_memory or (len(nodes()) == 1 and plan.n_ranks <= MAX_RANKS)
            memory = CollectiveMemory(plan.n_ranks) if on_one_machine else None
            refs = _start(plan, config, group, memory, folder)
            try:
                words = _watch(refs, memory)
            finally:
                _end(refs)
    finally:
        remove_placement_group(group)  # which ends what has not ended by now
    for word in words:
        if word != "done":
            raise StopTrial(word)


def _start(
    plan: GroupPlan, config: dict[str, Any] | None, group: PlacementGroup, memory: CollectiveMemory | None, folder: str
) -> list[ObjectRef[str]]:
    trial = reporting.get_context()
    order, host = trial.handed_on()

    def in_bundle(i: int) -> dict[str, Any]:
        return {**plan.options, "scheduling_strategy": PlacementGroupSchedulingStrategy(group, i), "max_retries": 0}

    if memory is not None or len(nodes()) == 1:
        places = [layout.Place("", "127.0.0.1", port) for port in layout.free_ports(plan.n_ranks)]
    else:
        look = remote(layout.here)
        places = get([look.options(**in_bundle(i), name="where").remote() for i in range(plan.n_ranks)])
    addresses = tuple(f"{place.address}:{place.port}" for place in places)
    task = put(
        GroupTask(plan.loop, config, plan.setup, plan.start, order, host, memory, folder, addresses, plan.datasets)
    )
    run = remote(run_rank)
    n_cpus = plan.bundle.get("CPU", 0)
    return [
        run.options(**in_bundle(rank), name=f"{plan.name}[{rank}]").remote(task, environment, n_cpus)
        for rank, environment in enumerate(layout.variables(places, trial.attempt - 1, trial.get_trial_name()))
    ]


def _watch(refs: list[ObjectRef[str]], memory: CollectiveMemory | None) -> list[str]:
    """Wait for all ranks; how they ended. The first that fails ends the others."""
    words: list[str] = []
    left = list(refs)
    while left:
        (ended,), left = wait(left, num_returns=1)
        try:
            words.append(get(ended))
        except Exception as error:
            rank, cause = _cause(refs, refs.index(ended), error, memory)
            raise _failure(rank, cause, memory) from cause
    return words


def _cause(
    refs: list[ObjectRef[str]], rank: int, error: Exception, memory: CollectiveMemory | None
) -> tuple[int, Exception]:
    """The failure that a rank's follows from, if it does, and whose that is."""
    if isinstance(error, GroupBrokenError):
        if memory is not None:
            memory.abort()
        wait(refs, num_returns=len(refs), timeout=CAUSE_ENDS_WITHIN_S)
        for other, found in enumerate(map(_error_of, refs)):
            if found is not None and not isinstance(found, (GroupBrokenError, TaskCancelledError)):
                return other, found
    return rank, error


def _failure(rank: int, error: Exception, memory: CollectiveMemory | None) -> TrainError:
    """What is raised of a rank's failure."""
    if isinstance(error, (WorkerCrashedError, NodeDiedError)):
        pid = int(memory.all.pids[rank]) if memory is not None else 0
        died = RankDiedError(f"rank {rank}{f' (process {pid})' if pid else ''} died: {error}")
        died.rank, died.pid = rank, pid
        return died
    text = f"{error.cause_type}: {error.message}" if isinstance(error, TaskError) else f"{error}"
    failed = RankFailedError(f"rank {rank} raised {text}")
    failed.rank = rank
    return failed


def _error_of(ref: ObjectRef[str]) -> Exception | None:
    """What a rank has raised by now."""
    if not wait([ref], timeout=0)[0]:
        return None
    try:
        get(ref)
    except Exception as error:
        return error
    return None


def _end(refs: list[ObjectRef[str]]) -> None:
    """Interrupt the ranks that still run, and give them time to leave."""
    _, left = wait(refs, num_returns=len(refs), timeout=0)
    for ref in left:
        cancel(ref)
    if left:
        wait(left, num_returns=len(left), timeout=LEAVES_WITHIN_S)
    for ref in refs:
        _error_of(ref)  # else it would be told as an error that nobody has asked for
