"""What cellmesh asks of an engine: the methods of `Engine`, the events that it tells, and what may fail.

An engine is somebody else's cluster, Ray's or Dask's, reached by its own public interface. It knows nothing of
cellmesh's tasks: it is given *parcels*, bytes that a `pocket` in one of its workers runs, and has *blobs*, bytes that
it keeps. No method blocks: what becomes of a parcel or a blob is told by an event, of which one follows each
`submit`, `create_actor`, `call` and `fetch`. Events may be told from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from ..errors import engine_limits as limits
from ..exceptions import EngineUnsupportedError
from ..scheduler.cluster.messages import Spread
from ..scheduler.ipc.messages import EngineLine

Handle = Hashable
"""The engine's own for a parcel that is under way."""
Blob = Hashable
"""The engine's own for bytes that it keeps."""
Group = Hashable
"""The engine's own for bundles that it puts aside."""

FailureKind = Literal[
    "crashed",  # the worker that ran it has died
    "oom",  # ... because it took too much memory
    "node_died",  # its machine was lost
    "cancelled",  # as it was asked to
    "object_lost",  # a blob that it was given is not there any more
    "unschedulable",  # no machine of the engine can run it, or ever will
    "env_failed",  # its process could not be made what it asks for
]


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do. What it cannot is a typed error at the call that wants it.

    Attributes
    ----------
    retries : bool
        It runs a parcel again by itself when the worker has died, at most `Parcel.most_runs` times in all.
    cancels_running, cancels_by_force : bool
        It can interrupt a parcel that runs; it can kill its worker.
    actors, concurrent_actors : bool
        It has actors; of them such with several calls at a time.
    groups, streams, output, nested : bool
        It has what `reserve`, streams of a task, prints, and calls of a task need.
    """

    retries: bool = False
    cancels_running: bool = False
    cancels_by_force: bool = False
    actors: bool = False
    concurrent_actors: bool = False
    groups: bool = False
    streams: bool = False
    output: bool = False
    nested: bool = False

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """What calls may ask for and it cannot do, as `limits` calls it."""
        has = {
            limits.ACTORS: self.actors,
            limits.CONCURRENT_ACTORS: self.concurrent_actors,
            limits.GENERATORS: self.streams,
            limits.GROUPS: self.groups,
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
class Bundle:
    """One of those that the engine has put aside together. `captures`: what is submitted there goes there, too."""

    group: Group
    index: int
    captures: bool = False


@dataclass(frozen=True)
class Parcel:
    """Tasks for one worker, as bytes for its pocket. `blobs`: what `data` refers to by place; the pocket is given their
    bytes. `resources`: what the engine is to set aside. `most_runs`: how often it may be begun, crashes included.
    `n_results`: how many large values its outcome has, most likely, at most. `is_packed`: it is of several tasks, which
    end one by one; then it may be begun once. Of a constructor, `limits`: how many calls of each concurrency group may
    be under way at a time; none: one call after the other. Of a call, `group`: the place of its group there. `bundle`:
    its resources are of that, and so is its place."""

    data: bytes
    blobs: Sequence[Blob] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    most_runs: int = 1
    n_results: int = 1
    is_packed: bool = False
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Sequence[int] = ()
    group: int = 0
    bundle: Bundle | None = None


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
    """A parcel has not, or not to its end. `n_runs`: how often it was begun; `text`: what the engine says; `code`: exit
    status or -signal of its worker, 0: not known."""

    handle: Handle
    kind: FailureKind
    n_runs: int = 0
    text: str = ""
    code: int = 0


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
    """A pocket says something while its parcel runs; see `parcels.Progress`. May come after the parcel's end if its
    `Line` does not say that it has come. `blobs`: of what was large in it."""

    message: bytes
    blobs: Sequence[Blob] = ()


@dataclass(frozen=True)
class ActorEnded:
    """The process of an actor has ended whose constructor had: once of each, whatever its end was. May come before what
    became of its calls, and its constructor, is told. `code`: exit status or -signal, 0: not known; `has_left`: it has
    ended itself, and has done what it was there for."""

    actor: EngineActor
    kind: FailureKind = "crashed"
    code: int = 0
    has_left: bool = False


@dataclass(frozen=True)
class SetAside:
    """The bundles of a group are, all of them. Those that are lost with their machine the engine puts aside again, and
    says nothing."""

    group: Group


@dataclass(frozen=True)
class NodesChanged:
    """`nodes()` tells something else than before."""


@dataclass(frozen=True)
class Notice:
    """Something that people should read, if there is a `text`. `line`: what has become of the line to the engine."""

    text: str = ""
    line: EngineLine | None = None


@dataclass(frozen=True)
class Gone:
    """The engine is lost, with all that is under way; nothing is told after this."""

    reason: str


Event = Ended | Failed | Came | Lost | Said | ActorEnded | SetAside | NodesChanged | Notice | Gone
EngineActor = Hashable


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

    def withdraw(self, handle: Handle) -> None:
        """Have a parcel that is packed not begin: it fails as "cancelled". One that has begun goes on; it may begin no
        more of its tasks, and says then which these are."""
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

    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """Have a parcel, a constructor, run in a process of its own, which is not begun again. As `submit`, with the
        actor in place of the handle; it has `parcel.resources` set aside, and from then on `keeps`. A constructor that
        has raised has run: the process is there until `kill`."""
        ...

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a parcel run in the actor's process, behind those of its group before it. As `submit`; what its end has
        ended has failed as "crashed", "oom" or "node_died", with `n_runs` 0 if it had not begun for certain."""
        ...

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor's process; not by `force`: as a program ends, once its calls have."""
        ...

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Spread) -> Group:
        """Put resources aside, all or none, for parcels that name them. `SetAside` follows, once there is room, unless
        they are given back before."""
        ...

    def unreserve(self, group: Group) -> None:
        """Give them back. What is there, actors too, ends, and is not begun again."""
        ...

    def say(self, handle: Handle, message: bytes) -> None:
        """Tell a pocket something, see `pocket.hear`: that of an actor, or that which runs a parcel which listens; for
        the latter it may be lost."""
        ...

    def close(self) -> None:
        """End all that is under way, and the connection."""
        ...


Over = Callable[[Outcome | None], None]
"""Called once, in any thread, when a parcel of an actor has run; None: its process has ended."""


class ActorRunner(Protocol):
    """What runs the parcels of one actor."""

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        """Have one run, and do not wait for it."""
        ...

    def hear(self, message: bytes) -> None:
        """Tell the pocket there something, see `Engine.say`."""
        ...

    def end(self, force: bool) -> None:
        """End, once all that was to run has; by `force` now."""
        ...


class TaskEngine:
    """What an engine that runs tasks alone has of `Engine` besides: refusals. `can` says so, and nobody asks; one that
    can do more has its own in their place.
    """

    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """It has no actors."""
        raise EngineUnsupportedError("this engine has no actors for cellmesh")

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """It has no actors."""
        raise EngineUnsupportedError("this engine has no actors for cellmesh")

    def kill(self, actor: EngineActor, force: bool) -> None:
        """It has no actors."""
        raise EngineUnsupportedError("this engine has no actors for cellmesh")

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Spread) -> Group:
        """It reserves nothing."""
        raise EngineUnsupportedError("this engine has no placement groups for cellmesh")

    def unreserve(self, group: Group) -> None:
        """It reserves nothing."""

    def say(self, handle: Handle, message: bytes) -> None:
        """Its pockets hear nothing while they run."""
