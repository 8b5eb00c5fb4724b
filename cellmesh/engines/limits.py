"""What calls may ask for and an engine cannot do, said at the call. Imported where there is an engine alone.

What this machine can run does so here; where it cannot, the call raises an error that names the engine, the option and
the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..exceptions import (
    EngineError,
    EngineUnreachableError,
    EngineUnsupportedError,
    EngineVersionError,
)

if TYPE_CHECKING:
    from ..scheduler.ipc.messages import EngineErrorKind, EngineState
    from ..session.session import Session

ACTORS, GENERATORS, GROUPS, ENVIRONMENTS = "actors", "generators", "placement groups", "runtime environments"
KINDS: dict[EngineErrorKind, type[EngineError]] = {
    "unreachable": EngineUnreachableError,
    "version": EngineVersionError,
    "unsupported": EngineUnsupportedError,
    "other": EngineError,
}


def unsupported(engine: str, what: str, option: str = "") -> str:
    """The text of an `EngineUnsupportedError`."""
    asked = f", which {option} asks for" if option else ""
    return (
        f"{engine} cannot run {what} for cellmesh{asked}. Start the session with CPUs of this machine, as in init(..., "
        "num_cpus=2), and have it run here"
    )


def kind_of(error: EngineError) -> EngineErrorKind:
    """How a message calls what kind of error that is."""
    for kind, of in KINDS.items():
        if isinstance(error, of):
            return kind
    return "other"


def lost(state: EngineState) -> EngineError:
    """Why the engine cannot be used."""
    return KINDS[state.kind](f"the engine {state.name} cannot be used: {state.lost}")


def options_for(
    of: Session, options: dict[str, Any], demand: Mapping[str, float], owner: str, kind: str = ""
) -> dict[str, Any]:
    """The options that a task or actor is submitted with: what the engine cannot run is to run here.

    Raises
    ------
    EngineUnsupportedError
        The engine cannot do what is asked for, and there is no room for it here.
    EngineUnreachableError
        There is none, and the engine is not there.
    """
    from ..submit.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

    assert of.engine is not None  # the caller has looked
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return options  # its bundles are here
    fits = all(amount <= of.config.resources.get(name, 0.0) for name, amount in demand.items())
    wanted = {kind: f"{owner!r}"} if kind else {}
    if options.get("runtime_env") or of.config.runtime_env:
        wanted[ENVIRONMENTS] = f"runtime_env of {owner!r}"
    what = next((one for one in wanted if one in of.engine.lacks), "")
    if fits and what:
        return {**options, "scheduling_strategy": NodeAffinitySchedulingStrategy(of.node.session_id, soft=False)}
    if fits:
        return options
    if of.engine.lost:
        raise EngineUnreachableError(
            f"{owner!r} asks for more than this machine has, and the engine {of.engine.name} cannot be used: "
            f"{of.engine.lost}. It is tried again; what this machine can run goes on"
        )
    if what:
        raise EngineUnsupportedError(unsupported(of.engine.name, what, wanted[what]))
    return options


def check_group(of: Session, bundles: Sequence[Mapping[str, float]]) -> None:
    """See to it that a placement group has room here, where its engine has none.

    Raises
    ------
    EngineUnsupportedError
        It has not.
    """
    assert of.engine is not None  # the caller has looked
    wanted: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            wanted[name] = wanted.get(name, 0.0) + amount
    fits = all(amount <= of.config.resources.get(name, 0.0) for name, amount in wanted.items())
    if not fits and GROUPS in of.engine.lacks:
        raise EngineUnsupportedError(unsupported(of.engine.name, GROUPS, f"placement_group({list(bundles)})"))
