"""Where tasks and actors go: placement groups, which reserve bundles of resources together, and scheduling strategies.

A bundle is a pool of its own in the store, taken out of the node's or, in a cluster, of another node's. A task that names a group takes
from one of its bundles, so it competes with nobody but the group's own tasks.
"""
from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from . import exceptions
from .ids import PlacementGroupID
from .objstore import _core
from .session import current, current_or_none
from .text import NAME_ALLOWED, in_resources, is_name, warn_user

if TYPE_CHECKING:
    from .exports import Export
    from .refs import ObjectRef
    from .session import Session

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
MAX_BUNDLES = 255  # what the store can count, of all groups together
MAX_WISH_BYTES = 247  # what the store keeps of where a task is to run
MOST_LABELS = 10_000
STATES = {"pending": "PENDING", "reserved": "CREATED", "removed": "REMOVED"}

_labels: dict[tuple[str, int], str] = {}  # of the groups that this process has seen


# ---------------------------------------------------------------- groups
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
            _labels[self.session, self.number] = self.label
            if len(_labels) > MOST_LABELS:
                del _labels[next(iter(_labels))]

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
        return f"placement group {self.name!r}" if self.name else f"placement group {self.number}"

    def ready(self) -> ObjectRef:
        """A ref whose value is this group, there once all bundles are reserved; fails if the group is removed first."""
        of = _session_of(self)
        submit = of.client.submitter(_answer().ref(of, {}), of.client.resource_class({}, None, placement=self.number)[0],
                                     placement=self.number, max_retries=-1, hidden=True)
        return submit(self)

    def wait(self, timeout_seconds: float | None = 30) -> bool:
        """Wait until all bundles are reserved; False when the time is up.

        Raises
        ------
        TaskPlacementGroupRemoved
            The group has been removed.
        """
        client = _session_of(self).client
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
    from .exports import Export
    return Export("function", "placement_group.ready", _itself)


def placement_group(bundles: Sequence[Mapping[str, float]], strategy: str = "PACK", name: str = "",
                    lifetime: str | None = None) -> PlacementGroup:
    """Reserve bundles of resources together, all or none. Returns at once; see `ready` and `wait` of the group.

    Groups are served in the order in which they were made, before tasks that wait for the same resources; a group that
    does not fit yet lets younger ones pass that do.

    Parameters
    ----------
    bundles : list of dict of str to float
        Each with amounts of "CPU", "GPU", "memory" (bytes) or custom resources.
    strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
        How bundles are spread over nodes: on few if that is possible; on many if that is possible; all on one; each on one of its own. Where
        there is one machine only "STRICT_SPREAD" matters: several bundles never fit. A group that can be on this machine as a whole, and is
        not to be spread, is. A bundle whose machine is lost is reserved on another one, and its tasks are retried there.
    name : str
        How `get_placement_group` finds it.
    lifetime : None or "detached"
        "detached": the group outlives the driver that makes it, until the session ends. A group that a task or actor makes
        lives as long as the session anyway, unless it is removed.

    Raises
    ------
    ValueError
        An argument has no sense, or a group of that name exists.
    """
    checked = _checked(bundles, strategy, name, lifetime)
    of = current()
    number = of.client.placement_number()
    group = PlacementGroup(of.node.session_id, number, tuple(tuple(bundle.items()) for bundle in checked), strategy, name,
                           of.namespace)
    of.client.create_placement(number=number, bundles=checked, meta=dataclasses.astuple(group), name=name, namespace=of.namespace,
                               owned=not of.is_worker and lifetime is None, mode=STRATEGIES.index(strategy))
    _warn_of_infeasible(of, group)
    return group


def _checked(bundles: Any, strategy: Any, name: Any, lifetime: Any) -> list[dict[str, float]]:
    from .options import is_bundle
    if not isinstance(bundles, (list, tuple)) or not 0 < len(bundles) <= MAX_BUNDLES or not all(map(is_bundle, bundles)):
        raise ValueError(f"placement_group(bundles={bundles!r}): must be a list of 1 to {MAX_BUNDLES} dicts of resource names "
                         "to amounts, not all 0, such as [{'CPU': 1, 'GPU': 1}]")
    if strategy not in STRATEGIES:
        raise ValueError(f"placement_group(strategy={strategy!r}): must be one of {', '.join(STRATEGIES)}")
    if name != "" and not is_name(name):
        raise ValueError(f"placement_group(name={name!r}): must be {NAME_ALLOWED}, or empty")
    if lifetime not in (None, "detached"):
        raise ValueError(f"placement_group(lifetime={lifetime!r}): must be None or 'detached'")
    return [{kind: float(amount) for kind, amount in bundle.items()} for bundle in bundles]


def _warn_of_infeasible(of: Session, group: PlacementGroup) -> None:
    if of.in_cluster:
        return  # its head says what no machines can hold
    total, _ = of.client.resources()
    asked = sum((Counter(bundle) for bundle in group.bundle_specs), Counter())
    lacking = {kind: amount for kind, amount in asked.items() if amount > total.get(kind, 0.0)}
    if lacking:
        there = {kind: total.get(kind, 0.0) for kind in lacking}
        why = (f"asks for {in_resources(lacking)} together, but all this node has is {in_resources(there)}", "Ask for less, or "
               "start the session with more, cellmesh.shutdown() and cellmesh.init(...).")
    elif group.strategy == "STRICT_SPREAD" and group.bundle_count > 1:
        why = (f"wants each of its {group.bundle_count} bundles on a node of its own, and there is one node",
               "Use the strategy SPREAD or PACK.")
    else:
        return
    warn_user(f"{group.label} {why[0]}: it will wait for ever. {why[1]}", exceptions.InfeasibleResourcesWarning)


def remove_placement_group(group: PlacementGroup) -> None:
    """Give a group's resources back. Its tasks and actors end: TaskPlacementGroupRemoved, ActorPlacementGroupRemoved.

    Nothing happens when it is gone already.
    """
    _check_group(group, "remove_placement_group")
    _session_of(group).client.remove_placement(group.number)


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
    of = current()
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
    """What is known of a group, or of all groups by id, as Ray words it; `cellmesh.state.list_placement_groups` is a table."""
    from .machines import ids
    of = current()
    nodes = ids(of)
    rows = {row["id"]: {"placement_group_id": row["id"], "name": row["name"], "strategy": row["strategy"],
                        "state": STATES[row["state"]], "bundles": dict(enumerate(row["bundles"])),
                        "bundles_to_node_id": {i: "" if number is None else nodes.get(number, "")
                                               for i, number in enumerate(row["machines"])}} for row in table(of)}
    if group is None:
        return rows
    _check_group(group, "placement_group_table")
    gone = {"placement_group_id": str(group.id), "name": group.name, "strategy": group.strategy, "state": "REMOVED",
            "bundles": dict(enumerate(group.bundle_specs)), "bundles_to_node_id": {}}
    return rows.get(str(group.id), gone)


def table(of: Session) -> list[dict[str, Any]]:
    """A row for each group of the session, not for what it has put aside for groups of other machines: id, name, namespace, strategy, state,
    and of each bundle what it has, what of it is available, and where it is: 0 here, None nowhere, else the last 32 bits of a node's number."""
    def row(found: dict[str, Any]) -> dict[str, Any]:
        group = PlacementGroup(*found["meta"])
        return {"id": str(group.id), "name": group.name, "namespace": group.namespace, "strategy": group.strategy,
                "state": found["state"], "bundles": [total for total, _, _ in found["bundles"]],
                "available": [available for _, available, _ in found["bundles"]], "machines": [where for _, _, where in found["bundles"]]}
    return [row(found) for found in of.client.placements() if found["meta"][0] == of.node.session_id]


def listing(of: Session) -> list[dict[str, Any]]:
    """The same with names of machines; in a cluster the groups of all its machines.

    Raises
    ------
    ClusterError
        The head does not answer.
    """
    from msgspec import msgpack

    from . import cluster_desk
    from .machines import is_clustered, namer
    from .scheduler.cluster.messages import GroupRecord
    called = namer(of)
    here = of.node.session_id
    homes = {row["id"]: (row, 0) for row in table(of)}
    for value in cluster_desk.on_record(of, "groups") if is_clustered(of) else ():
        group = msgpack.decode(value, type=GroupRecord)
        row = {"id": str(PlacementGroupID(f"{group.session}{group.number:08x}")), "name": group.name, "namespace": group.namespace,
               "strategy": group.strategy, "state": group.state, "bundles": group.bundles, "available": None, "machines": group.machines}
        if group.session != here:
            homes[row["id"]] = row, group.node & 0xFFFFFFFF
    return [row | {"machines": ["" if where is None else called(where or home) for where in row["machines"]], "home": called(home)}
            for row, home in homes.values()]


def _check_group(group: Any, caller: str) -> None:
    if not isinstance(group, PlacementGroup) or group.is_empty:
        raise TypeError(f"{caller}() needs what placement_group(...) has returned, not {group!r}")


def _session_of(group: PlacementGroup) -> Session:
    of = current()
    if group.session != of.node.session_id and of.in_cluster and of.is_worker:
        raise ValueError(f"{group.label} belongs to another machine, and only there can something be submitted to it; what runs in it "
                         "submits to its bundles here with placement_group_capture_child_tasks=True")
    if group.session != of.node.session_id:
        raise exceptions.SessionClosedError(f"{group.label} belongs to a session that has been shut down")
    return of


def label_of(number: int) -> str:
    """What messages call the group of that number in this process's session."""
    of = current_or_none()
    session_id = of.node.session_id if of is not None else ""
    return _labels.get((session_id, number), f"placement group {number}")


# ---------------------------------------------------------------- strategies
@dataclass(frozen=True)
class PlacementGroupSchedulingStrategy:
    """For the option `scheduling_strategy`: take resources from a group's bundle.

    Parameters
    ----------
    placement_group : PlacementGroup or None
        None: from the node, also where the caller's group captures what is submitted in it.
    placement_group_bundle_index : int
        Which bundle; -1: any that has room.
    placement_group_capture_child_tasks : bool
        Whether tasks and actors that the task or actor submits go to the same group, unless they say otherwise.
    """

    placement_group: PlacementGroup | None
    placement_group_bundle_index: int = -1
    placement_group_capture_child_tasks: bool | None = None

    def __post_init__(self) -> None:
        group, index = self.placement_group, self.placement_group_bundle_index
        if group is not None and not isinstance(group, PlacementGroup):
            raise ValueError("PlacementGroupSchedulingStrategy(placement_group=...): must be what placement_group(...) has "
                             f"returned, or None, not {group!r}")
        n = group.bundle_count if group is not None else 0
        if not isinstance(index, int) or isinstance(index, bool) or not -1 <= index < max(n, 1):
            raise ValueError(f"PlacementGroupSchedulingStrategy(placement_group_bundle_index={index!r}): must be from 0 to "
                             f"{max(n - 1, 0)}, or -1 for any bundle")


@dataclass(frozen=True)
class NodeAffinitySchedulingStrategy:
    """For the option `scheduling_strategy`: run on a certain node.

    Parameters
    ----------
    node_id : str
        As `get_runtime_context().get_node_id()` gives it. In a cluster also the name of its host, or its number, or at least four
        digits of the number's beginning, as `cellmesh status` and the panel show it.
    soft : bool
        Whether another node will do where there is none of that id.
    """

    node_id: str
    soft: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.node_id, str) or not self.node_id or not isinstance(self.soft, bool):
            raise ValueError(f"NodeAffinitySchedulingStrategy(node_id={self.node_id!r}, soft={self.soft!r}): must be the id of a "
                             "node, a string that is not empty, and True or False")


class In:
    """For `NodeLabelSchedulingStrategy`: the label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.values = list(values)

    @property
    def condition(self) -> str:
        """As a label selector says it."""
        return f"in({','.join(self.values)})"


class NotIn(In):
    """For `NodeLabelSchedulingStrategy`: the label has none of these values, or is not there."""

    @property
    def condition(self) -> str:
        return f"!{super().condition}"


class Exists:
    """For `NodeLabelSchedulingStrategy`: there is such a label."""

    condition = "exists()"


class DoesNotExist:
    """For `NodeLabelSchedulingStrategy`: there is no such label."""

    condition = "!exists()"


class NodeLabelSchedulingStrategy:
    """For the option `scheduling_strategy`: run on a node that has labels, see `cellmesh start --labels`.

    Parameters
    ----------
    hard : dict of str to In, NotIn, Exists or DoesNotExist
        What must hold.
    soft : dict of the same kind
        What is better to hold.
    """

    def __init__(self, hard: Mapping[str, Any], *, soft: Mapping[str, Any] | None = None) -> None:
        self.hard = _conditions(hard, "hard")
        self.soft = _conditions(soft or {}, "soft")

    def __repr__(self) -> str:
        return f"NodeLabelSchedulingStrategy({self.hard}, soft={self.soft})"


def _conditions(given: Any, which: str) -> dict[str, str]:
    from .options import is_selector
    found = {key: getattr(value, "condition", None) for key, value in given.items()} if isinstance(given, Mapping) else None
    if found is None or not is_selector(found):
        raise ValueError(f"NodeLabelSchedulingStrategy({which}={given!r}): must be a dict of labels to In(...), NotIn(...), Exists() or "
                         "DoesNotExist()")
    return {str(key): str(value) for key, value in found.items()}


@dataclass(frozen=True)
class Place:
    """Where a task goes, for the core: the number of a group (0: the node, None: where the caller's group wants it), the
    bundle, and whether what it submits goes there too; or, with `route` and `wish`, to which node of a cluster."""

    number: int | None = None
    bundle: int = -1
    captures: bool = False
    route: int = _core.ROUTE_ANY
    wish: str = ""


ANYWHERE = Place()


def place_of(of: Session, options: Mapping[str, Any], owner: str) -> Place:
    """What the options `scheduling_strategy` and `label_selector` mean in this session.

    Raises
    ------
    ValueError
        They name a node that is not there, or are too long.
    TaskUnschedulableError
        They ask for labels, and the session has left its cluster.
    """
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return _in_group(strategy)
    if of.in_cluster:
        return _in_cluster(of, strategy, options.get("label_selector") or {}, owner)
    labels = {**(options.get("label_selector") or {}), **(strategy.hard if isinstance(strategy, NodeLabelSchedulingStrategy) else {})}
    if labels and of.has_left_cluster:  # in a session that never had one they mean nothing; here they mean a machine
        where = ", ".join(f"{key}={value}" for key, value in labels.items())
        raise exceptions.TaskUnschedulableError(f"{owner} must run where {where} holds, and this session is not part of its cluster any more: leave "
                                                "that out to run it here, or cellmesh.shutdown() and cellmesh.init(address=...) to join again")
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        here = of.node.session_id
        if strategy.node_id != here and not strategy.soft:
            raise ValueError(f"option scheduling_strategy of {owner}: no node has the id {strategy.node_id!r}, and soft=False allows "
                             f"no other; the session's one node is {here!r}")
        return Place(0)
    return ANYWHERE


def _in_cluster(of: Session, strategy: Any, selector: Mapping[str, str], owner: str) -> Place:
    from .scheduler.cluster.strategies import Wish, to_text
    labels, preferred = dict(selector), {}
    if isinstance(strategy, NodeLabelSchedulingStrategy):
        labels, preferred = {**labels, **strategy.hard}, strategy.soft
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        if strategy.node_id == of.node.session_id and not strategy.soft and not labels:
            return Place(0, route=_core.ROUTE_HERE)
        wish = Wish("node", strategy.node_id, strategy.soft, labels)
    else:
        wish = Wish("spread" if strategy == "SPREAD" else "pack", labels=labels, preferred=preferred)
    if wish == Wish():
        return ANYWHERE
    text = to_text(wish)
    if len(text.encode()) > MAX_WISH_BYTES:
        raise ValueError(f"the options scheduling_strategy and label_selector of {owner} are too long: {len(text.encode())} bytes as "
                         f"{text}, and there is room for {MAX_WISH_BYTES}")
    must = bool(labels) or (wish.kind == "node" and not wish.soft)
    return Place(0, route=_core.ROUTE_WAITS if must else _core.ROUTE_ASKS, wish=text)


def _in_group(strategy: PlacementGroupSchedulingStrategy) -> Place:
    group = strategy.placement_group
    if group is None or group.is_empty:
        return Place(0)
    return Place(_session_of(group) and group.number, strategy.placement_group_bundle_index,
                 bool(strategy.placement_group_capture_child_tasks))


def raise_misfit(options: Mapping[str, Any], demand: Mapping[str, float], owner: str) -> NoReturn:
    """Raise the ValueError of what is more than the bundles of its group have."""
    strategy: PlacementGroupSchedulingStrategy = options["scheduling_strategy"]
    group, index = strategy.placement_group, strategy.placement_group_bundle_index
    assert group is not None
    bundles = group.bundle_specs if index < 0 else [group.bundle_specs[index]]
    which = f"bundle {index}" if index >= 0 else "none of the bundles" if len(bundles) > 1 else "the one bundle"
    raise ValueError(f"{owner!r} asks for {in_resources(demand)}, which {which} of {group.label} "
                     f"{'has' if which[0] == 'n' else 'does not have'}: {'; '.join(map(in_resources, bundles))}. An actor without "
                     "num_cpus takes a CPU to be placed")
