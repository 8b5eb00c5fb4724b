"""What calls may ask for and an engine cannot do, said at the call. Imported where there is an engine alone.

What this machine can run does so here; where it cannot, the call raises an error that names the engine, the option and
the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..exceptions import (
    EngineError,
    EngineUnreachableError,
    EngineUnsupportedError,
    EngineVersionError,
)

if TYPE_CHECKING:
    from ..scheduler.ipc.messages import EngineErrorKind, EngineState
    from ..session.session import Session

ACTORS, CONCURRENT_ACTORS = "actors", "actors with several calls at a time"
GENERATORS, GROUPS = "generators", "placement groups"
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


def fits_here(of: Session, wanted: Mapping[str, float]) -> bool:
    """Whether this machine has so much, in use or not."""
    return all(amount <= of.config.resources.get(name, 0.0) for name, amount in wanted.items())


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
    if GROUPS in of.engine.lacks and not fits_here(of, wanted):
        raise EngineUnsupportedError(unsupported(of.engine.name, GROUPS, f"placement_group({list(bundles)})"))
