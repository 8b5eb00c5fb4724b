"""What cellmesh asks of an engine: the methods of `Engine`, the events that it tells, and what may fail.

An engine is somebody else's cluster, Ray's or Dask's, reached by its own public interface. It knows nothing of
cellmesh's tasks: it is given *parcels*, bytes that a `pocket` in one of its workers runs, and has *blobs*, bytes that
it keeps. No method blocks: what becomes of a parcel or a blob is told by an event, of which one follows each
`submit`, `call` and `fetch`. Events may be told from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..errors import engine_limits as limits

Handle = Hashable
"""The engine's own for a parcel that is under way."""
Blob = Hashable
"""The engine's own for bytes that it keeps."""

FailureKind = Literal[
    "crashed",  # the worker that ran it has died
    "oom",  # ... because it took too much memory
    "node_died",  # its machine was lost
    "cancelled",  # as it was asked to
    "object_lost",  # a blob that it was given is not there any more
    "unschedulable",  # no machine of the engine can run it, or ever will
    "env_failed",  # its process could not be made what it asks for
]

Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do. What it cannot is a typed error at the call that wants it.

    Attributes
    ----------
    retries : bool
        It runs a parcel again by itself when the worker has died, at most `Parcel.most_runs` times in all.
    cancels_running, cancels_by_force : bool
        It can interrupt a parcel that runs; it can kill its worker.
    actors, named_actors, groups, streams, environments, output, nested : bool
        It has what `create_actor`, `find_actor`, `reserve`, streams of a task, its `runtime_env`, prints, and calls of
        a task need.
    """

    retries: bool = False
    cancels_running: bool = False
    cancels_by_force: bool = False
    actors: bool = False
    named_actors: bool = False
    groups: bool = False
    streams: bool = False
    environments: bool = False
    output: bool = False
    nested: bool = False

    @property
    def lacks(self) -> tuple[str, ...]:
        """What calls may ask for and it cannot do, as `limits` calls it."""
        has = {
            limits.ACTORS: self.actors,
            limits.GENERATORS: self.streams,
            limits.GROUPS: self.groups,
            limits.ENVIRONMENTS: self.environments,
        }
        return tuple(name for name, is_there in has.items() if not is_there)


@dataclass(frozen=True)
class Facts:
    """What an engine says of itself once it is connected. `versions`: by name, of both sides where they must agree;
    `dashboard`: where people look at it; `grows`: it gets machines that tasks ask for."""

    name: str
    versions: Mapping[str, str] = field(default_factory=dict)
    dashboard: str = ""
    grows: bool = False


@dataclass(frozen=True)
class EngineNode:
    """A machine of the engine's, and what tasks may ask for there."""

    name: str
    total: Mapping[str, float]


@dataclass(frozen=True)
class Parcel:
    """Tasks for one worker, as bytes for its pocket. `blobs`: what `data` refers to by place; the pocket is given their
    bytes. `resources`: what the engine is to set aside. `most_runs`: how often it may be begun, crashes included.
    `n_results`: how many large values its outcome has, most likely, at most."""

    data: bytes
    blobs: Sequence[Blob] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    most_runs: int = 1
    n_results: int = 1
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a pocket gives back: bytes, and others that stay with the engine."""

    data: bytes
    large: Sequence[bytes | memoryview] = ()


# ---- events
@dataclass(frozen=True)
class Ended:
    """A parcel has run. `blobs`: of the outcome's `large`, in their order."""

    handle: Handle
    data: bytes
    blobs: Sequence[Blob] = ()


@dataclass(frozen=True)
class Failed:
    """A parcel has not, or not to its end. `n_runs`: how often it was begun; `text`: what the engine says."""

    handle: Handle
    kind: FailureKind
    n_runs: int = 0
    text: str = ""


@dataclass(frozen=True)
class Came:
    """The bytes of a blob that was fetched."""

    blob: Blob
    data: bytes | memoryview


@dataclass(frozen=True)
class Lost:
    """The bytes of a blob are not there any more."""

    blob: Blob


@dataclass(frozen=True)
class Said:
    """A pocket says something while its parcel runs; see `parcels.Progress`. May come after the parcel's end."""

    message: bytes


@dataclass(frozen=True)
class ActorEnded:
    """An actor has ended, for good or to begin again."""

    actor: EngineActor
    kind: FailureKind
    restarts: bool


@dataclass(frozen=True)
class NodesChanged:
    """`nodes()` tells something else than before."""


@dataclass(frozen=True)
class Gone:
    """The engine is lost, with all that is under way; nothing is told after this."""

    reason: str


Event = Ended | Failed | Came | Lost | Said | ActorEnded | NodesChanged | Gone
EngineActor = Hashable
Group = Hashable


class Engine(Protocol):
    """One engine, as its process sees it."""

    @property
    def can(self) -> Capabilities:
        """What it can do. Does not change."""
        ...

    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin, the one method that may take long. Raises `cellmesh.exceptions.EngineError`."""
        ...

    def nodes(self) -> list[EngineNode]:
        """Its machines, as known last."""
        ...

    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run. Exactly one `Ended` or `Failed` follows, or `Gone`."""
        ...

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel. It fails as "cancelled", unless it was quicker, or cannot be stopped."""
        ...

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep bytes, copied before this returns."""
        ...

    def fetch(self, blob: Blob) -> None:
        """Get the bytes of a blob. One `Came` or `Lost` follows."""
        ...

    def release(self, blobs: Sequence[Blob]) -> None:
        """These are not needed any more, once what was submitted with them has ended."""
        ...

    def create_actor(self, parcel: Parcel, spec: Mapping[str, Any]) -> EngineActor:
        """Have an actor constructed by a parcel."""
        ...

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a parcel run in the actor's process, behind those before it. As `submit`."""
        ...

    def kill(self, actor: EngineActor, restart: bool) -> None:
        """End an actor's process; `restart`: it may begin again."""
        ...

    def find_actor(self, name: str, namespace: str) -> EngineActor | None:
        """An actor of any driver's."""
        ...

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Strategy) -> Group:
        """Put resources aside."""
        ...

    def unreserve(self, group: Group) -> None:
        """Give them back."""
        ...

    def say(self, worker: str, message: bytes) -> None:
        """Tell a pocket whose parcel runs something: credit of a stream, an interrupt, to dump its stack."""
        ...

    def close(self) -> None:
        """End all that is under way, and the connection."""
        ...
