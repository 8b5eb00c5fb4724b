"""The task of a rank: what is around the user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..objects import get
from ..tune import reporting
from ..tune.exceptions import StopTrial
from . import context, layout
from .collective import CollectiveMemory, Communicator

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..submit.actor import ActorHandle


@dataclass(frozen=True)
class GroupTask:
    """What all ranks of a group are told.

    Attributes
    ----------
    loop : ObjectRef
        The user's function.
    config : dict or None
        Its argument; None: it takes none.
    setup : callable or None
        A context manager around the function, made with the rank's `RankInfo`: what the framework needs.
    start : checkpoint or None
        What the training begins from, until it has a checkpoint of its own.
    order, host
        The trial that the group is, as its process was told.
    memory : CollectiveMemory or None
        None: the ranks are not all on one machine.
    folder : str
        A folder on this machine for the time of the group.
    addresses : tuple of str
        Of each rank, "host:port".
    datasets : dict of str to ObjectRef
    """

    loop: ObjectRef[Callable[..., Any]]
    config: dict[str, Any] | None
    setup: Callable[[RankInfo], AbstractContextManager[None]] | None
    start: Any
    order: reporting.Order
    host: ActorHandle[Any]
    memory: CollectiveMemory | None
    folder: str
    addresses: tuple[str, ...]
    datasets: dict[str, ObjectRef[Any]]


@dataclass(frozen=True)
class RankInfo:
    """A rank's place in its group, for what sets up a framework."""

    rank: int
    n_ranks: int
    n_cpus: float
    communicator: Communicator | None
    folder: str
    addresses: tuple[str, ...]  # of all ranks, "host:port", each with a port that was free there


def run_rank(task: GroupTask, environment: Mapping[str, str], n_cpus: float) -> str:
    """Run the user's function as a rank; returns how it ended: "done", "stop" or "pause"."""
    rank = int(environment["RANK"])
    comm = Communicator(task.memory, rank) if task.memory is not None else None
    try:
        return _run(
            task, environment, RankInfo(rank, int(environment["WORLD_SIZE"]), n_cpus, comm, task.folder, task.addresses)
        )
    except BaseException:
        if comm is not None:
            comm.abort()
        raise


def _run(task: GroupTask, environment: Mapping[str, str], info: RankInfo) -> str:
    trial = reporting.TrialContext(task.order, task.host, task.config or {})
    trial.checkpoint()  # on another machine it is fetched here, before the others begin
    setup = task.setup(info) if task.setup is not None else _nothing()
    with layout.variables_set(environment), setup:
        context.enter(context.TrainContext(environment, trial, info.communicator, task.datasets, task.start))
        reporting.enter(trial)
        try:
            get(task.loop)(*([] if task.config is None else [task.config]))
            if info.communicator is not None:  # ranks that had one batch more than others would wait for ever
                info.communicator.barrier("the end of the function")
        except StopTrial as stop:
            return str(stop.args[0])
        finally:
            reporting.enter(None)
            context.enter(None)
    return "done"


@contextmanager
def _nothing() -> Iterator[None]:
    yield
