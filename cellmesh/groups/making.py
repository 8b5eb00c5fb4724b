"""`group`: makes the actors of a group, all or none."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..exceptions import GroupPlacementError
from ..objstore._core import MAX_CLIENTS
from ..observe.nodes import rows
from ..session.current import current
from ..submit.actor import ActorHandle
from ..submit.actor_blueprint import methods_of
from ..submit.actor_class import ActorClass, make_actor_class
from ..submit.actor_names import GROUP_NAMESPACE
from ..submit.options import Options, resource_demand
from ..submit.placement_groups import (
    MAX_BUNDLES,
    STRATEGIES,
    PlacementGroup,
    placement_group,
    remove_placement_group,
)
from ..submit.scheduling_strategies import PlacementGroupSchedulingStrategy
from ..submit.signatures import call_check
from ..text import warn_user
from . import on_death as deaths
from .actor_group import OWN_NAMES, ActorGroup
from .arguments import divided
from .calls import _stored_once
from .fitting import Machine, misfit, there
from .members import Members

if TYPE_CHECKING:
    from ..session.session import Session
    from ..submit.actor_blueprint import Member

    Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
    Policy = Literal["fail", "restart", "shrink"]

C = TypeVar("C")

# Options that mean one actor, or a place, and what says it of a group.
REFUSED = {
    "get_if_exists": "a group is made anew each time",
    "lifetime": "a group ends with its handle",
    "scheduling_strategy": "strategy= of the group says how its members are spread",
}
MOST_HERE = MAX_CLIENTS - 2  # beside the driver and the local scheduler
RESERVED_WITHIN_S = 0.1  # else it is said that others have what the group needs


@overload
def group(
    actor_class: ActorClass[C, Any],
    n: int | None = None,
    /,
    *args: Any,
    shape: Mapping[str, int] | None = None,
    strategy: Strategy | None = None,
    on_death: Policy = "fail",
    **kwargs: Any,
) -> ActorGroup[C]: ...
@overload
def group(
    actor_class: type[C],
    n: int | None = None,
    /,
    *args: Any,
    shape: Mapping[str, int] | None = None,
    strategy: Strategy | None = None,
    on_death: Policy = "fail",
    **kwargs: Any,
) -> ActorGroup[C]: ...
def group(
    actor_class: Any,
    n: int | None = None,
    /,
    *args: Any,
    shape: Mapping[str, int] | None = None,
    strategy: Strategy | None = None,
    on_death: Policy = "fail",
    **kwargs: Any,
) -> ActorGroup[Any]:
    """Start several actors of one class, to be called together; returns their handle at once.

        workers = cm.group(Trainer, 8, lr=0.1)
        losses = cm.get(workers.step.remote(batch))      # of every member, in rank order
        grid = cm.group(Stage, dp=2, pp=4)               # named dimensions: grid.at(pp=0)

    In the members, from the constructor on, `cellmesh.current_group()` says which one this is.

    Parameters
    ----------
    actor_class : ActorClass, or a plain class
    n : int
        How many members.
    *args, **kwargs
        The constructor's, the same for all. Where neither `n` nor `shape` is given, keywords that the constructor has
        no parameter for are named dimensions.
    shape : dict of str to int
        Named dimensions and their sizes, the last of which varies fastest; in place of `n`, or agreeing with it.
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
        How members are spread over machines, as for `placement_group`. What they hold by `num_cpus`, `num_gpus`,
        `memory` and `resources` is reserved for all of them together, or not at all; with a strategy and none of these
        a CPU for each.
    on_death : {"fail", "restart", "shrink"}
        What the death of a member means: calls of the group raise GroupMemberDiedError until `restart(rank)`; or it is
        started again, with what it kept by `save_checkpoint`; or the group goes on without it.

    Raises
    ------
    TypeError, ValueError
        An argument has no sense, or the constructor does not take it.
    GroupPlacementError
        The machines cannot hold the group.
    """
    return grouped(actor_class, n, args, kwargs, shape=shape, strategy=strategy, on_death=on_death)


def grouped(
    actor_class: Any,
    n: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    shape: Mapping[str, int] | None = None,
    strategy: Strategy | None = None,
    on_death: Policy = "fail",
    n_machines: int | None = None,
) -> ActorGroup[Any]:
    """`group`, of arguments that are none of its own keywords.

    Parameters
    ----------
    n_machines : int, optional
        The members are on so many, of which it divides the number, equally many on each, in rank order.
    """
    made = _class_of(actor_class)
    name, options, described = made.__name__, made._cellmesh_options, made._cellmesh_described()
    called = f"group({name})"
    members, kwargs = divided(name, described.constructor, n, shape, kwargs)
    deaths.check(on_death, called)
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError(f"{called}: strategy={strategy!r} must be one of {', '.join(STRATEGIES)}")
    for option, remedy in REFUSED.items():
        if option in options:
            raise ValueError(f"{called}: option {option}={options[option]!r} is for single actors: {remedy}")
    if described.constructor is not None:
        call_check(described.constructor, name)(args, kwargs)
    of = current()
    if members.size > 1:
        args, kwargs = _stored_once(args, kwargs)
    options = {**options, "max_restarts": deaths.max_restarts(on_death, options.get("max_restarts"))}
    if "name" not in options:  # members find each other by their names
        options |= {"name": name, "namespace": f"{GROUP_NAMESPACE}{uuid.uuid4().hex[:12]}"}
    options, reserved = _reserved(of, members.size, options, strategy, name, n_machines)
    if hidden := [own for own in OWN_NAMES if own in methods_of(described.methods)]:
        warn_user(
            f"{called}: {hidden[0]} is the group's own, and the class has a method of that name, which is called as "
            f"group[{hidden[0]!r}].remote(...)",
            UserWarning,
        )
    again = partial(_make, made, args, kwargs, options, reserved, (members.size, members.dims, on_death))
    try:
        handles = [again(rank) for rank in range(members.size)]
    except BaseException:
        if reserved is not None:
            remove_placement_group(reserved)
        raise
    return ActorGroup(Members(handles, members, on_death, again, reserved))


def _class_of(given: Any) -> ActorClass[Any, Any]:
    if isinstance(given, ActorClass):
        return given
    if inspect.isclass(given):
        return make_actor_class(given, {})
    raise TypeError(
        f"group() needs a class, as group(Trainer, 8), not {given!r}; tasks that end together are cellmesh.task_group()"
    )


def _make(
    made: ActorClass[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    reserved: PlacementGroup | None,
    about: tuple[int, tuple[tuple[str, int], ...], str],
    rank: int,
) -> ActorHandle[Any]:
    placed: Options = {}
    if reserved is not None:  # a bundle is of one member, or of all that are on one machine
        index = rank * reserved.bundle_count // about[0]
        placed = {"scheduling_strategy": PlacementGroupSchedulingStrategy(reserved, index)}
    member: Member = (rank, *about)
    return made._cellmesh_create(
        current(), args, kwargs, {**options, **placed, "name": f"{options['name']}[{rank}]"}, member
    )


def _reserved(
    of: Session, n: int, options: Options, strategy: Strategy | None, name: str, n_machines: int | None
) -> tuple[Options, PlacementGroup | None]:
    """The options of members that have their resources reserved, and the reservation; none where they hold nothing."""
    if not of.in_cluster and n > MOST_HERE:
        raise GroupPlacementError(
            f"group({name}): {n} members, each a process, and a session on one machine has {MOST_HERE} at most"
        )
    demand, hold = resource_demand("actor", options)
    bundle = demand if hold is None else hold
    if not bundle and strategy is None and n_machines is None:
        return options, None
    if not bundle:
        bundle = {"CPU": 1.0}
    options = {**options, "num_cpus": bundle.get("CPU", 0)}
    machines = [
        Machine(row["NodeName"], row["Resources"], row["Available"]) for row in rows(of) if row["State"] == "alive"
    ]
    strategy = strategy or "PACK"
    bundles = [bundle] * n
    if n_machines is not None:
        strategy, bundles = "STRICT_SPREAD", [{kind: x * (n // n_machines) for kind, x in bundle.items()}] * n_machines
    if (why := misfit(n, bundle, strategy, machines, n_machines)) is not None:
        raise GroupPlacementError(f"group({name}): {why}")
    if len(bundles) > MAX_BUNDLES:
        raise GroupPlacementError(
            f"group({name}): {n} members, and at most {MAX_BUNDLES} can have resources reserved together"
        )
    reserved = placement_group(bundles, strategy=strategy, lifetime="process")
    if not reserved.wait(RESERVED_WITHIN_S):
        warn_user(
            f"group({name}): its {n} members wait until what they need is free. {there(bundle, machines)}", UserWarning
        )
    return options, reserved
