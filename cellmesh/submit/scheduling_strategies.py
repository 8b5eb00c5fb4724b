"""Where a task or actor goes: the values of the options `scheduling_strategy` and `label_selector`, and what they mean.

`place_of` turns them into a `Place`, which is what the core takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from .. import exceptions
from ..objstore import _core
from ..text import in_resources
from .option_values import is_selector
from .placement_groups import PlacementGroup, session_of

if TYPE_CHECKING:
    from ..session.session import Session

MAX_WISH_BYTES = _core.STRATEGY_SIZE - 1  # what the store keeps of where a task is to run


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
            raise ValueError(
                "PlacementGroupSchedulingStrategy(placement_group=...): must be what placement_group(...) has "
                f"returned, or None, not {group!r}"
            )
        n = group.bundle_count if group is not None else 0
        if not isinstance(index, int) or isinstance(index, bool) or not -1 <= index < max(n, 1):
            raise ValueError(
                f"PlacementGroupSchedulingStrategy(placement_group_bundle_index={index!r}): must be from 0 to "
                f"{max(n - 1, 0)}, or -1 for any bundle"
            )


@dataclass(frozen=True)
class NodeAffinitySchedulingStrategy:
    """For the option `scheduling_strategy`: run on a certain node.

    Parameters
    ----------
    node_id : str
        As `get_runtime_context().get_node_id()` gives it. In a cluster also the name of its host, or its number, or at
        least four digits of the number's beginning, as `cellmesh status` and the panel show it.
    soft : bool
        Whether another node will do where there is none of that id.
    """

    node_id: str
    soft: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.node_id, str) or not self.node_id or not isinstance(self.soft, bool):
            raise ValueError(
                f"NodeAffinitySchedulingStrategy(node_id={self.node_id!r}, soft={self.soft!r}): must be the id of a "
                "node, a string that is not empty, and True or False"
            )


class In:
    """For `NodeLabelSchedulingStrategy`: the label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.values: list[str] = list(values)

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
        self.hard: dict[str, str] = _conditions(hard, "hard")
        self.soft: dict[str, str] = _conditions(soft or {}, "soft")

    def __repr__(self) -> str:
        return f"NodeLabelSchedulingStrategy({self.hard}, soft={self.soft})"


def _conditions(given: Any, which: str) -> dict[str, str]:
    found = (
        {key: getattr(value, "condition", None) for key, value in given.items()} if isinstance(given, Mapping) else None
    )
    if found is None or not is_selector(found):
        raise ValueError(
            f"NodeLabelSchedulingStrategy({which}={given!r}): must be a dict of labels to In(...), NotIn(...), "
            "Exists() or DoesNotExist()"
        )
    return {str(key): str(value) for key, value in found.items()}


@dataclass(frozen=True)
class Place:
    """Where a task goes, for the core.

    Attributes
    ----------
    number : int or None
        Of a placement group; 0: the node, None: where the caller's group wants it.
    bundle : int
    captures : bool
        Whether what it submits goes there too.
    route, wish
        To which node of a cluster.
    """

    number: int | None = None
    bundle: int = -1
    captures: bool = False
    route: int = _core.ROUTE_ANY
    wish: str = ""


ANYWHERE = Place()
OUT_OF_GROUPS = Place(0)  # a strategy by name: not where the caller's group wants it, as in Ray


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
    labels = {
        **(options.get("label_selector") or {}),
        **(strategy.hard if isinstance(strategy, NodeLabelSchedulingStrategy) else {}),
    }
    if labels and of.has_left_cluster:  # in a session that never had one they mean nothing; here they mean a machine
        where = ", ".join(f"{key}={value}" for key, value in labels.items())
        raise exceptions.TaskUnschedulableError(
            f"{owner} must run where {where} holds, and this session is not part of its cluster any more: leave "
            "that out to run it here, or cellmesh.shutdown() and cellmesh.init(address=...) to join again"
        )
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        here = of.node.session_id
        if strategy.node_id != here and not strategy.soft:
            raise ValueError(
                f"option scheduling_strategy of {owner}: no node has the id {strategy.node_id!r}, and soft=False "
                f"allows no other; the session's one node is {here!r}"
            )
        return Place(0)
    return OUT_OF_GROUPS if isinstance(strategy, str) else ANYWHERE


def _in_cluster(of: Session, strategy: Any, selector: Mapping[str, str], owner: str) -> Place:
    from ..scheduler.cluster.agent.strategies import Wish, to_text

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
        return OUT_OF_GROUPS if isinstance(strategy, str) else ANYWHERE
    text = to_text(wish)
    if len(text.encode()) > MAX_WISH_BYTES:
        raise ValueError(
            f"the options scheduling_strategy and label_selector of {owner} are too long: {len(text.encode())} bytes "
            f"as {text}, and there is room for {MAX_WISH_BYTES}"
        )
    must = bool(labels) or (wish.kind == "node" and not wish.soft)
    return Place(0, route=_core.ROUTE_WAITS if must else _core.ROUTE_ASKS, wish=text)


def _in_group(strategy: PlacementGroupSchedulingStrategy) -> Place:
    group = strategy.placement_group
    if group is None or group.is_empty:
        return Place(0)
    return Place(
        session_of(group) and group.number,
        strategy.placement_group_bundle_index,
        bool(strategy.placement_group_capture_child_tasks),
    )


def options_with_engine(
    of: Session, options: dict[str, Any], demand: Mapping[str, float], owner: str, *kinds: str
) -> dict[str, Any]:
    """The options that a task or actor is submitted with: what the engine cannot run is to run here.

    Raises
    ------
    EngineUnsupportedError
        The engine cannot do what is asked for, and there is no room for it here.
    EngineUnreachableError
        There is none, and the engine is not there.
    """
    from ..errors.engine_limits import fits_here, unsupported

    assert of.engine is not None  # the caller has looked
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return options  # its bundles have their place
    fits = fits_here(of, demand)
    what = next((one for one in kinds if one in of.engine.lacks), "")
    if fits and what:
        return {**options, "scheduling_strategy": NodeAffinitySchedulingStrategy(of.node.session_id, soft=False)}
    if fits:
        return options
    if of.engine.lost:
        raise exceptions.EngineUnreachableError(
            f"{owner!r} asks for more than this machine has, and the engine {of.engine.name} cannot be used: "
            f"{of.engine.lost}. It is tried again; what this machine can run goes on"
        )
    if what:
        raise exceptions.EngineUnsupportedError(unsupported(of.engine.name, what, repr(owner)))
    return options


def raise_misfit(options: Mapping[str, Any], demand: Mapping[str, float], owner: str) -> NoReturn:
    """Raise the ValueError of what is more than the bundles of its group have."""
    strategy: PlacementGroupSchedulingStrategy = options["scheduling_strategy"]
    group, index = strategy.placement_group, strategy.placement_group_bundle_index
    assert group is not None
    bundles = group.bundle_specs if index < 0 else [group.bundle_specs[index]]
    which = f"bundle {index}" if index >= 0 else "none of the bundles" if len(bundles) > 1 else "the one bundle"
    raise ValueError(
        f"{owner!r} asks for {in_resources(demand)}, which {which} of {group.label} "
        f"{'has' if which[0] == 'n' else 'does not have'}: {'; '.join(map(in_resources, bundles))}. An actor without "
        "num_cpus takes a CPU to be placed"
    )
