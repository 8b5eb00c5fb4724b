"""Placement groups, which reserve bundles of resources together.

A bundle is a pool of its own in the store, taken out of the node's or, in a cluster, of another node's. A task that
names a group takes from one of its bundles, so it competes only with the group's own tasks. `scheduling_strategies`
says how a task names one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import exceptions
from ..ids import PlacementGroupID
from ..objstore._core import MAX_POOLS, PLACEMENT_MODES
from ..session import placement_labels
from ..session.current import current, current_or_none
from ..text import NAME_ALLOWED, in_resources, is_name, warn_user
from .option_values import is_bundle

if TYPE_CHECKING:
    from ..refs import ObjectRef
    from ..session.session import Session
    from .export import Export

STRATEGIES = PLACEMENT_MODES
MAX_BUNDLES = MAX_POOLS - 1  # of all groups together: one pool is the node's
STATES = {"pending": "PENDING", "reserved": "CREATED", "removed": "REMOVED"}


@dataclass(frozen=True)
class PlacementGroup:
    """Bundles of resources that are reserved together, all or none; made by `placement_group`.

    Attributes
    ----------
    bundle_specs : list of dict of str to float
        What was asked for.
    id : str
        Its `hex()` is the id in listings.
    """

    session: str = ""
    number: int = 0  # 0: the empty group
    bundles: tuple[tuple[tuple[str, float], ...], ...] = field(default=(), compare=False)
    strategy: str = field(default="PACK", compare=False)
    name: str = field(default="", compare=False)
    namespace: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.number:
            placement_labels.note(self.session, self.number, self.name)

    @staticmethod
    def empty() -> PlacementGroup:
        """No group, in places where one is expected."""
        return PlacementGroup()

    @property
    def is_empty(self) -> bool:
        """Whether it is no group."""
        return not self.number

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """What each bundle asks for."""
        return [dict(bundle) for bundle in self.bundles]

    @property
    def bundle_count(self) -> int:
        """How many bundles there are."""
        return len(self.bundles)

    @property
    def id(self) -> PlacementGroupID:
        """Unique among all groups of all sessions."""
        return PlacementGroupID(f"{self.session}{self.number:08x}")

    @property
    def label(self) -> str:
        """What messages call it."""
        return placement_labels.label(self.number, self.name)

    def ready(self) -> ObjectRef[PlacementGroup]:
        """A ref whose value is this group, there once all bundles are reserved; fails if the group is removed first."""
        of = session_of(self)
        shape, _ = of.client.resource_class({}, None, of.environment_number({}), placement=self.number)
        submit = of.client.submitter(_answer().ref(of, {}), shape, placement=self.number, max_retries=-1, hidden=True)
        return submit(self)

    def wait(self, timeout_seconds: float | None = 30) -> bool:
        """Wait until all bundles are reserved; False when the time is up.

        Raises
        ------
        TaskPlacementGroupRemoved
            The group has been removed.
        """
        client = session_of(self).client
        if client.placement_reserved(self.number):
            return True
        answer = self.ready()
        try:
            client.get(answer, timeout_seconds)
        except exceptions.GetTimeoutError:
            client.cancel(answer, False)
            return False
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacementGroup, dataclasses.astuple(self)

    def __repr__(self) -> str:
        if self.is_empty:
            return "<no placement group>"
        return f"<{self.label}: {self.strategy} of {'; '.join(map(in_resources, self.bundle_specs))}>"


def _itself(group: PlacementGroup) -> PlacementGroup:
    return group


@cache
def _answer() -> Export:
    from .export import Export

    return Export("function", "placement_group.ready", _itself)


def placement_group(
    bundles: Sequence[Mapping[str, float]], strategy: str = "PACK", name: str = "", lifetime: str | None = None
) -> PlacementGroup:
    """Reserve bundles of resources together, all or none. Returns at once; see `ready` and `wait` of the group.

    Groups are served in the order in which they were made, before tasks that wait for the same resources; a group that
    does not fit yet lets younger ones pass that do.

    Parameters
    ----------
    bundles : list of dict of str to float
        Each with amounts of "CPU", "GPU", "memory" (bytes) or custom resources.
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
        How bundles are spread over nodes: on few if that is possible; on many if that is possible; all on one; each on
        one of its own. Where there is one machine only "STRICT_SPREAD" matters: several bundles never fit. A group that
        can be on this machine as a whole, and is not to be spread, is. A bundle whose machine is lost is reserved on
        another one, and its tasks are retried there.
    name : str
        How `get_placement_group` finds it.
    lifetime : None, "detached" or "process"
        "detached": the group outlives the driver that makes it, until the session ends. A group that a task or actor
        makes lives as long as the session anyway, unless it is removed. "process": until the process ends that makes
        it, a driver or a worker.

    Raises
    ------
    ValueError
        An argument has no sense, or a group of that name exists.
    """
    checked = _checked(bundles, strategy, name, lifetime)
    of = current()
    _refuse_on_engine(of, f"placement_group({checked})")
    if of.engine is not None:
        from ..errors.engine_limits import check_group

        check_group(of, checked)
    number = of.client.placement_number()
    group = PlacementGroup(
        of.node.session_id, number, tuple(tuple(bundle.items()) for bundle in checked), strategy, name, of.namespace
    )
    of.client.create_placement(
        number=number,
        bundles=checked,
        meta=dataclasses.astuple(group),
        name=name,
        namespace=of.namespace,
        owned=lifetime == "process" or (lifetime is None and not of.is_worker),
        mode=STRATEGIES.index(strategy),
    )
    _warn_of_infeasible(of, group)
    return group


def _checked(bundles: Any, strategy: Any, name: Any, lifetime: Any) -> list[dict[str, float]]:
    if (
        not isinstance(bundles, (list, tuple))
        or not 0 < len(bundles) <= MAX_BUNDLES
        or not all(map(is_bundle, bundles))
    ):
        raise ValueError(
            f"placement_group(bundles={bundles!r}): must be a list of 1 to {MAX_BUNDLES} dicts of resource names "
            "to amounts, not all 0, such as [{'CPU': 1, 'GPU': 1}]"
        )
    if strategy not in STRATEGIES:
        raise ValueError(f"placement_group(strategy={strategy!r}): must be one of {', '.join(STRATEGIES)}")
    if name != "" and not is_name(name):
        raise ValueError(f"placement_group(name={name!r}): must be {NAME_ALLOWED}, or empty")
    if lifetime not in (None, "detached", "process"):
        raise ValueError(f"placement_group(lifetime={lifetime!r}): must be None, 'detached' or 'process'")
    return [{kind: float(amount) for kind, amount in bundle.items()} for bundle in bundles]


def _warn_of_infeasible(of: Session, group: PlacementGroup) -> None:
    if of.in_cluster:
        return  # its head says what no machines can hold
    total, _ = of.client.resources()
    asked = sum((Counter(bundle) for bundle in group.bundle_specs), Counter())
    lacking = {kind: amount for kind, amount in asked.items() if amount > total.get(kind, 0.0)}
    if lacking:
        there = {kind: total.get(kind, 0.0) for kind in lacking}
        why = (
            f"asks for {in_resources(lacking)} together, but all this node has is {in_resources(there)}",
            "Ask for less, or start the session with more, cellmesh.shutdown() and cellmesh.init(...).",
        )
    elif group.strategy == "STRICT_SPREAD" and group.bundle_count > 1:
        why = (
            f"wants each of its {group.bundle_count} bundles on a node of its own, and there is one node",
            "Use the strategy SPREAD or PACK.",
        )
    else:
        return
    warn_user(f"{group.label} {why[0]}: it will wait for ever. {why[1]}", exceptions.InfeasibleResourcesWarning)


def remove_placement_group(group: PlacementGroup) -> None:
    """Give a group's resources back. Its tasks and actors end: TaskPlacementGroupRemoved, ActorPlacementGroupRemoved.

    Nothing happens when it is gone already.
    """
    _check_group(group, "remove_placement_group")
    session_of(group).client.remove_placement(group.number)


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group that was given a name, of this session's namespace.

    Raises
    ------
    ValueError
        There is none.
    """
    name = placement_group_name
    if not isinstance(name, str) or not name:
        raise ValueError(f"get_placement_group() needs the name of a group, a string that is not empty, not {name!r}")
    from ..observe.placement_groups import table

    of = current()
    _refuse_on_engine(of, f"get_placement_group({name!r})")
    found = of.client.find_placement(name, of.namespace)
    if found is None:
        known = sorted(repr(row["name"]) for row in table(of) if row["name"])
        there = f"those with names are {', '.join(known)}" if known else "no group has a name"
        raise ValueError(f"no placement group named {name!r} exists in namespace {of.namespace!r}: {there}")
    return PlacementGroup(*found)


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the calling task or actor runs in; None outside of groups."""
    of = current_or_none()
    found = of.client.current_placement() if of is not None else None
    return PlacementGroup(*found) if found is not None else None


def placement_group_table(group: PlacementGroup | None = None) -> dict[str, Any]:
    """What is known of a group, or of all groups by id, as Ray words it; `cellmesh.state.list_placement_groups` is a
    table.
    """
    from ..observe.nodes import ids
    from ..observe.placement_groups import table

    of = current()
    nodes = ids(of)
    rows = {
        row["id"]: {
            "placement_group_id": row["id"],
            "name": row["name"],
            "strategy": row["strategy"],
            "state": STATES[row["state"]],
            "bundles": dict(enumerate(row["bundles"])),
            "bundles_to_node_id": {
                i: "" if number is None else nodes.get(number, "") for i, number in enumerate(row["machines"])
            },
        }
        for row in table(of)
    }
    if group is None:
        return rows
    _check_group(group, "placement_group_table")
    gone = {
        "placement_group_id": str(group.id),
        "name": group.name,
        "strategy": group.strategy,
        "state": "REMOVED",
        "bundles": dict(enumerate(group.bundle_specs)),
        "bundles_to_node_id": {},
    }
    return rows.get(str(group.id), gone)


def _check_group(group: Any, caller: str) -> None:
    if not isinstance(group, PlacementGroup) or group.is_empty:
        raise TypeError(f"{caller}() needs what placement_group(...) has returned, not {group!r}")


def _refuse_on_engine(of: Session, what: str) -> None:
    of.refuse_on_engine(what, "nothing can be reserved: reserve them in the notebook or program")


def session_of(group: PlacementGroup) -> Session:
    of = current()
    _refuse_on_engine(of, group.label)
    if group.session != of.node.session_id and of.in_cluster and of.is_worker:
        raise ValueError(
            f"{group.label} belongs to another machine, and only there can something be submitted to it; what runs in "
            "it submits to its bundles here with placement_group_capture_child_tasks=True"
        )
    if group.session != of.node.session_id:
        raise exceptions.SessionClosedError(f"{group.label} belongs to a session that has been shut down")
    return of
