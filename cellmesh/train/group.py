"""A group of ranks: started together, watched, and ended together. It runs in the task of a trial (`cellmesh.tune`).

Ranks are the members of an actor group, for which resources are reserved together by this process: if it dies, they go
with it. The first rank that fails ends the others at once; what is raised names it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from ..api import cancel, get_runtime_context, kill, nodes, remote
from ..exceptions import GetTimeoutError, TaskError
from ..groups.fitting import most_that_fit
from ..groups.making import group
from ..groups.ref_group import RefGroup
from ..objects import get, put
from ..session.scratch import scratch_folder
from ..tune import reporting
from ..tune.exceptions import StopTrial
from ..waiting import wait
from .collective import MAX_RANKS, CollectiveMemory
from .exceptions import GroupBrokenError, RankDiedError, RankFailedError, TrainError
from .failures import errors_of, first_cause, is_death
from .layout import places_of, variables
from .rank import GroupPlan, GroupTask, Rank

if TYPE_CHECKING:
    from ..groups.actor_group import ActorGroup
    from ..groups.making import Strategy
    from .rounds import Wait

LOOKS_EVERY_S = 1.0  # whether all ranks wait
CAUSE_ENDS_WITHIN_S = 1.0  # a rank that has broken the group
LEAVES_WITHIN_S = 5.0  # a rank that is interrupted has this long for what it does at its end
ROOM_WITHIN_S = 2.0  # for all ranks, as those of the attempt before leave it; then fewer begin, where they may be


def run_group(plan: GroupPlan, config: dict[str, Any] | None) -> None:
    """Run the ranks to their end, within a trial.

    Raises
    ------
    StopTrial
        The trial is to end, or to pause.
    RankDiedError, RankFailedError
        Of the rank that was the first.
    """
    ranks = _made(plan)
    try:
        with scratch_folder() as folder:
            words = _watch(*_start(plan, config, ranks, folder))
    except BaseException:
        kill(ranks)
        raise
    finally:
        del ranks  # for what it has reserved is free when nobody has it, and the frames of an error may be kept
    for word in words:
        if word != "done":
            raise StopTrial(word)


def _made(plan: GroupPlan) -> ActorGroup[Rank]:
    """The ranks: as many as the machines hold; if others have a part of that, as many as there is room for."""
    n = _n_that_fit(plan, [node["Resources"] for node in nodes() if node["Alive"]])
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it waits for its turn, as trials do
            ranks = group(remote(**plan.options)(Rank), n, strategy=cast("Strategy", plan.strategy))
        reserved = ranks._cellmesh_members.reserved
        if n == plan.least or reserved is None or reserved.wait(ROOM_WITHIN_S):
            return ranks
        kill(ranks)
        del ranks
        own = get_runtime_context().get_assigned_resources()  # which is given back while this waits for its ranks
        n = _n_that_fit(
            plan,
            [
                {kind: node["Available"].get(kind, 0) + own.get(kind, 0) * node["ThisNode"] for kind in plan.bundle}
                for node in nodes()
                if node["Alive"]
            ],
        )


def _n_that_fit(plan: GroupPlan, machines: list[dict[str, float]]) -> int:
    return max(plan.least, most_that_fit(plan.n_ranks, plan.bundle, plan.strategy, machines))


def _start(
    plan: GroupPlan, config: dict[str, Any] | None, ranks: ActorGroup[Rank], folder: str
) -> tuple[RefGroup[str], CollectiveMemory | None]:
    trial = reporting.get_context()
    order, host = trial.handed_on()
    places = places_of(ranks)
    get(ranks.prepare.scatter(variables(places, trial.attempt - 1, trial.get_trial_name())))
    are_here = {place.node for place in places} == {get_runtime_context().get_node_id()}
    shares_memory = plan.shares_memory or (are_here and len(ranks) <= MAX_RANKS)
    memory = CollectiveMemory(len(ranks)) if shares_memory else None
    addresses = tuple(f"{place.address}:{place.port}" for place in places)
    task = put(GroupTask(plan, config, order, host, memory, folder if memory is not None else "", addresses))
    get(ranks.load.remote(task))
    calls = (member.run.options(name=f"{plan.name}[{i}]").remote() for i, member in enumerate(ranks))
    return RefGroup(calls, ranks.ranks, plan.name), memory


def _watch(refs: RefGroup[str], memory: CollectiveMemory | None) -> list[str]:
    """Wait for all ranks; how they ended. The first that fails ends the others."""
    try:
        return _values(refs, memory)
    except Exception as error:
        if type(error) is GroupBrokenError:  # all wait
            raise
        if isinstance(error, GroupBrokenError):  # of which the cause is to come
            if memory is not None:
                memory.abort()
            wait(refs, num_returns=len(refs), timeout=CAUSE_ENDS_WITHIN_S)
        errors = errors_of(refs)
        rank = first_cause(errors)
        raise _failure(rank, errors[rank], memory) from errors[rank]
    finally:
        _end(refs)


def _values(refs: RefGroup[str], memory: CollectiveMemory | None) -> list[str]:
    """What the ranks return.

    Raises
    ------
    GroupBrokenError
        All wait for others, so none will come.
    """
    seen: dict[int, Wait] = {}
    while True:
        try:
            return get(refs, LOOKS_EVERY_S if memory is not None else None)
        except GetTimeoutError as error:
            if memory is None or isinstance(error, TaskError):
                raise
        waits = memory.waits()
        if len(waits) == len(refs) and waits == seen:  # twice, as a look sees one rank after the other
            memory.abort()
            each = "; ".join(f"rank {rank} at {called.what}" for rank, called in sorted(waits.items()))
            raise GroupBrokenError(f"all ranks wait for others, and none can go on: {each}")
        seen = waits


def _failure(rank: int, error: Exception, memory: CollectiveMemory | None) -> TrainError:
    """What is raised of a rank's failure."""
    if is_death(error):
        pid = int(memory.all.pids[rank]) if memory is not None else 0
        return RankDiedError(f"rank {rank}{f' (process {pid})' if pid else ''} died: {error}", rank=rank, pid=pid)
    text = f"{error.cause_type}: {error.message}" if isinstance(error, TaskError) else f"{error}"
    failed = RankFailedError(f"rank {rank} raised {text}")
    failed.rank = rank
    return failed


def _end(refs: RefGroup[str]) -> None:
    """Interrupt the ranks that still run, and give them time to leave."""
    _, left = wait(refs, num_returns=len(refs), timeout=0)
    if left:
        if not get_runtime_context().is_canceled():  # else they are with their trial: twice would interrupt their ends
            cancel(left)
        wait(left, num_returns=len(left), timeout=LEAVES_WITHIN_S)
    errors_of(refs)  # else they would be told as errors that nobody has asked for
