"""What a member sees of its group: `current_group`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ..exceptions import GetTimeoutError, GroupMemberDiedError, TaskCancelledError
from ..session.current import current
from ..submit.actor import ActorHandle, ActorMethod, find_actor
from ..submit.actor_blueprint import blueprint_of
from ..submit.actor_class import make_actor_class
from ..submit.cancel import cancel_task
from .meeting import Meeting, meeting_name
from .shape import Shape
from .times import own_times

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..refs import ObjectRef
    from ..submit.actor_blueprint import Blueprint

MADE_WITHIN_S = 2.0  # members are made one after the other: the first may look for the last before that is there


class CurrentGroup:
    """The group of the actor that asks, and its place in it.

    Attributes
    ----------
    rank : int
    size : int
        With the members that have died.
    coordinates : dict of str to int
        By named dimension; {} in a row.
    shape : dict of str to int
        The dimensions and their sizes.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        assert blueprint.member is not None
        rank, size, dims, self._on_death = blueprint.member
        self.rank: int = rank
        self.size: int = size
        self._shape = Shape(self.size, dims)
        self._label, self._namespace = blueprint.class_name, blueprint.namespace
        self._base = blueprint.name.removesuffix(f"[{self.rank}]")
        self._meeting_name = meeting_name(blueprint.name, self.rank)
        self._meeting: ActorHandle[Any] | None = None
        self._all_made = False

    @property
    def coordinates(self) -> dict[str, int]:
        """By named dimension; {} in a row."""
        return self._shape.coordinates(self.rank)

    @property
    def shape(self) -> dict[str, int]:
        """The named dimensions and their sizes; {} in a row."""
        return dict(self._shape.dims)

    @property
    def peers(self) -> Peers:
        """The members by rank, this one too: `current_group().peers[0].method.remote(...)`. They keep no member alive:
        that is the affair of the group's handle.
        """
        return Peers(self)

    def barrier(self, timeout: float | None = None) -> None:
        """Wait until all members have come here.

        Members that are dead are waited for no more if the group is made with `on_death="shrink"`; one that is started
        again is.

        Parameters
        ----------
        timeout : float, seconds, optional
            When it is up, this one has not come.

        Raises
        ------
        GroupMemberDiedError
            A member that has not come is dead.
        TimeoutError
            The time is up.
        """
        if self._meeting is None:
            options = {
                "name": self._meeting_name,
                "namespace": self._namespace,
                "get_if_exists": True,
                "num_cpus": 0,
            }
            names = [self._name(rank) for rank in range(self.size)]
            self._meeting = make_actor_class(Meeting, options).remote(names, self._namespace, self._on_death)
        client = current().client
        arrived = self._meeting.arrive.remote(self.rank)
        try:
            with own_times().noted("barrier()"):
                dead = client.get(arrived, timeout)
        except GetTimeoutError:
            dead = _withdrawn(client, arrived)
            if dead is None:
                raise TimeoutError(
                    f"barrier(): not all {self.size} members of the group {self._label} have come within {timeout:g} s"
                ) from None
        except BaseException:  # this call is interrupted
            _withdrawn(client, arrived)
            raise
        if dead >= 0:
            raise self._died(dead)

    def _name(self, rank: int) -> str:
        return f"{self._base}[{rank}]"

    def _find(self, rank: int) -> ActorHandle[Any]:
        """The member of a rank, as it lives now."""
        of = current()
        found = find_actor(of, self._name(rank), self._namespace)
        end = time.monotonic() + MADE_WITHIN_S
        while found is None and not self._all_made and time.monotonic() < end:
            time.sleep(0.005)
            found = find_actor(of, self._name(rank), self._namespace)
        if found is None:
            self._all_made = True
            raise self._died(rank)
        return found

    def _died(self, rank: int) -> GroupMemberDiedError:
        return GroupMemberDiedError(f"member {rank} of the group {self._label} is dead", rank=rank)

    def __repr__(self) -> str:
        where = ", ".join(f"{name}={at}" for name, at in self.coordinates.items())
        return f"<group {self._label}, here member {self.rank} of {self.size}{f' ({where})' if where else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "what current_group() returns tells which member asks, and stays there: send its rank, or a peer"
        )


def _withdrawn(client: Client, arrived: ObjectRef[int]) -> int | None:
    """Have a member not have come, and wait until that is so: else the next round might begin with it. What the call
    has returned, if all had come before.
    """
    cancel_task(arrived)
    try:
        return client.get(arrived)
    except TaskCancelledError:
        return None


class Peers(Sequence["Peer"]):
    """The members of a group, as members see each other."""

    def __init__(self, group: CurrentGroup) -> None:
        self._group = group

    def __len__(self) -> int:
        return self._group.size

    @overload
    def __getitem__(self, rank: int) -> Peer: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Peer]: ...

    def __getitem__(self, rank: Any) -> Any:
        found = range(self._group.size)[rank]
        return Peer(self._group, found) if isinstance(found, int) else [Peer(self._group, one) for one in found]

    def __repr__(self) -> str:
        return f"<the {len(self)} members of the group {self._group._label}>"


class Peer:
    """A member of the group, by rank: `peer.method.remote(...)`. It does not keep the actor alive, and means the actor
    that has the rank when the call is made.
    """

    def __init__(self, group: CurrentGroup, rank: int) -> None:
        self._cellmesh_group, self._cellmesh_rank = group, rank

    @property
    def handle(self) -> ActorHandle[Any]:
        """A handle of the actor, which keeps it alive; to be sent to others."""
        return self._cellmesh_group._find(self._cellmesh_rank)

    def __getattr__(self, name: str) -> ActorMethod[..., Any, Any]:
        if name.startswith("_cellmesh_"):
            raise AttributeError(name)
        return getattr(self.handle, name)

    def __reduce__(self) -> Any:
        raise TypeError("a peer is for calls by members of its group: send peer.handle, which keeps the member alive")

    def __repr__(self) -> str:
        group = self._cellmesh_group
        return f"<member {self._cellmesh_rank} of the group {group._label}, as member {group.rank} sees it>"


_here: tuple[str, CurrentGroup] | None = None


def current_group() -> CurrentGroup:
    """The group of the actor whose method or constructor calls this, and its place in it.

    Raises
    ------
    RuntimeError
        The caller is no member of a group.
    """
    global _here
    of = current()
    info = of.client.actor_info() if of.is_worker else None
    id = info["object"].hex() if info is not None else ""
    if info is not None and _here is not None and _here[0] == id:
        return _here[1]
    blueprint = blueprint_of(of.client.get(info["object"])) if info is not None else None
    if blueprint is None or blueprint.member is None:
        raise RuntimeError(
            "current_group() is for the members of a group, in their constructors and methods, and this is none: "
            "cellmesh.group(Trainer, 8) makes one"
        )
    _here = id, CurrentGroup(blueprint)
    return _here[1]
