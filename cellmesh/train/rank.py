"""A rank: what is around the user's function. This module runs on the worker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..objects import get
from ..tune import reporting
from ..tune.exceptions import StopTrial
from ..tune.resources import options_of
from . import context, layout
from .collective import CollectiveMemory, Communicator

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..submit.actor import ActorHandle


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
    least : int
        With so many it begins where there is no room for all.
    bundle : dict of str to float
        The resources of each rank.
    shares_memory : bool
        Whether all ranks must be on one machine. Where they are, they have a communicator.
    strategy : str
        How the ranks are spread over machines, as of `placement_group`.
    setup : callable or None
        A context manager around the function, made with the rank's `RankInfo`: what the framework needs.
    start : checkpoint or None
        What the training begins from, until it has a checkpoint of its own.
    datasets : dict of str to ObjectRef
    """

    name: str
    loop: ObjectRef[Callable[..., Any]]
    n_ranks: int
    least: int
    bundle: dict[str, float]
    shares_memory: bool
    strategy: str
    setup: Callable[[RankInfo], AbstractContextManager[None]] | None = None
    start: Any = None
    datasets: dict[str, ObjectRef[Any]] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The bundle as options of an actor."""
        return {"num_cpus": 0, **options_of(self.bundle)}


@dataclass(frozen=True)
class GroupTask:
    """What all ranks of a group are told.

    Attributes
    ----------
    plan : GroupPlan
    config : dict or None
        The function's argument; None: it takes none.
    order, host
        The trial that the group is, as its process was told.
    memory : CollectiveMemory or None
        None: the ranks are not all on one machine.
    folder : str
        A folder for the time of the group; "" where the ranks are not all on one machine.
    addresses : tuple of str
        Of each rank, "host:port".
    """

    plan: GroupPlan
    config: dict[str, Any] | None
    order: reporting.Order
    host: ActorHandle[Any]
    memory: CollectiveMemory | None
    folder: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class RankInfo:
    """A rank's place in its group, for what sets up a framework."""

    rank: int
    n_ranks: int
    n_cpus: float
    communicator: Communicator | None
    folder: str  # of this machine, where all ranks are on it; "" otherwise
    addresses: tuple[str, ...]  # of all ranks, "host:port", each with a port that was free there


class Rank(layout.Member):
    """A member of the group that a training is."""

    def load(self, task: GroupTask) -> None:
        """Know what to do, and have the checkpoint to go on from, which may lie elsewhere. No rank runs before all have
        it: the next checkpoint takes its place.
        """
        self._task = task
        self._trial = reporting.TrialContext(task.order, task.host, task.config or {})
        self._trial.checkpoint()

    def run(self) -> str:
        """Run the user's function; returns how it ended: "done", "stop" or "pause"."""
        task = self._task
        rank, n_ranks = int(self.environment["RANK"]), int(self.environment["WORLD_SIZE"])
        n_cpus = task.plan.bundle.get("CPU", 0)
        comm = Communicator(task.memory, rank) if task.memory is not None else None
        try:
            return self._run(RankInfo(rank, n_ranks, n_cpus, comm, task.folder, task.addresses))
        except BaseException:
            if comm is not None:
                comm.abort()
            raise

    def _run(self, info: RankInfo) -> str:
        trial, plan, config = self._trial, self._task.plan, self._task.config
        with plan.setup(info) if plan.setup is not None else nullcontext():
            context.enter(context.TrainContext(self.environment, trial, info.communicator, plan.datasets, plan.start))
            reporting.enter(trial)
            try:
                get(plan.loop)(*([] if config is None else [config]))
                if info.communicator is not None:  # ranks that had one batch more than others would wait for ever
                    info.communicator.barrier("the end of the function")
            except StopTrial as stop:
                return str(stop.args[0])
        return "done"
