"""`ActorGroup`: the handle of a group of actors, or of a part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, overload

from ..exceptions import SessionError
from ..observe import processes
from ..observe.actor_life import life_in_words
from ..observe.nodes import namer
from ..observe.tables import Rows
from ..scheduler.system.memory import private_bytes
from ..submit.actor import ActorHandle
from ..type_variables import C
from .calls import GroupMethod
from .members import Members
from .shape import Shape, places, ranks_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN_NAMES = ("at", "members", "ranks", "restart", "shape", "where")  # of an `ActorGroup`


@dataclass(frozen=True)
class GroupMember(Generic[C]):
    """A member as it is just now, for `where` and for looking.

    Attributes
    ----------
    rank : int
    coordinates : dict of str to int
        By named dimension; {} in a row.
    state : str
        "alive", "pending", "restarting", "dead: ..." and what of.
    node : str
        The machine's name; "" where it is not known yet.
    pid : int
        Of its process; 0 for none.
    handle : ActorHandle
    """

    rank: int
    coordinates: dict[str, int]
    state: str
    node: str
    pid: int
    handle: ActorHandle[C]


class ActorGroup(Generic[C]):
    """A group of actors, as others see it: `workers.method.remote(...)` calls every member and returns a RefGroup.

    The members end when the last handle of the group goes, after the calls already made; a handle of one of them keeps
    that one. A group can be passed to tasks and actors. `workers["where"]` is a method whose name is one of the group's
    own.
    """

    _cellmesh_members: Members
    _cellmesh_ranks: tuple[int, ...]
    _cellmesh_remedy = ": calls of its methods return refs, workers.method.remote(...)"

    def __init__(self, members: Members, ranks: tuple[int, ...] | None = None) -> None:
        ranks = tuple(range(len(members.handles))) if ranks is None else ranks
        self.__dict__.update(_cellmesh_members=members, _cellmesh_ranks=ranks)

    def __getattr__(self, name: str) -> GroupMethod[..., Any]:
        if name.startswith("_cellmesh_"):  # an instance that is just being made
            raise AttributeError(name)
        bound = GroupMethod(self._cellmesh_members, self._cellmesh_ranks, name)
        self.__dict__[name] = bound
        return bound

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"the state of actors lives in their own processes: {name!r} cannot be set on a group")

    # ---- its members
    @property
    def ranks(self) -> tuple[int, ...]:
        """Whose handle this is: of a part, the ranks that its members have in the whole group."""
        return self._cellmesh_ranks

    @property
    def shape(self) -> dict[str, int]:
        """The named dimensions of the whole group and their sizes; {} in a row."""
        return dict(self._cellmesh_members.shape.dims)

    @property
    def members(self) -> list[GroupMember[C]]:
        """The members as they are just now."""
        members = self._cellmesh_members
        node_of = namer(members.session)
        members.found_again(self._cellmesh_ranks)
        return [_member(members, rank, node_of) for rank in self._cellmesh_ranks]

    def __len__(self) -> int:
        return len(self._cellmesh_ranks)

    def __iter__(self) -> Iterator[ActorHandle[C]]:
        return iter([self._cellmesh_members.handles[rank] for rank in self._cellmesh_ranks])

    @overload
    def __getitem__(self, index: int, /) -> ActorHandle[C]: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int], /) -> ActorGroup[C]: ...
    @overload
    def __getitem__(self, index: str, /) -> GroupMethod[..., Any]: ...

    def __getitem__(self, index: Any, /) -> Any:
        """`workers[3]` is the handle of a member, `workers[2:4]` and `workers[[0, 5]]` are parts: groups too.

        Raises
        ------
        IndexError
            There is no such member.
        """
        members, ranks = self._cellmesh_members, self._cellmesh_ranks
        if isinstance(index, str):
            return GroupMethod(members, ranks, index)
        found = places(index, len(ranks), f"{members.class_name} group[{index!r}]")
        if hasattr(type(index), "__index__"):
            return members.handles[ranks[found[0]]]
        return ActorGroup(members, tuple(ranks[i] for i in found))

    def at(self, **coordinates: int | slice | Sequence[int]) -> ActorGroup[C]:
        """The part whose members stand there: `grid.at(pp=0)`, `grid.at(dp=[0, 1], pp=slice(2))`."""
        members, ranks = self._cellmesh_members, self._cellmesh_ranks
        return ActorGroup(members, tuple(members.shape.at(ranks, coordinates)))

    def where(self, predicate: Callable[[GroupMember[C]], Any], /) -> ActorGroup[C]:
        """The part whose members the predicate is true of: `workers.where(lambda m: m.node == "gpu-3")`."""
        if not callable(predicate):
            raise TypeError(f"where({predicate!r}): needs a function of a member, such as lambda m: m.rank % 2")
        return ActorGroup(self._cellmesh_members, tuple(m.rank for m in self.members if predicate(m)))

    def restart(self, rank: int, /) -> ActorHandle[C]:
        """End a member, if it lives, and make it anew, with the arguments of the group; returns its handle.

        For the process that has made the group. What the member has kept by `save_checkpoint` it has no more; a member
        that the option `on_death="restart"` has started again has it.

        Raises
        ------
        IndexError
            The group, or this part, has no member of that rank.
        """
        if rank not in self._cellmesh_ranks:
            raise IndexError(f"restart({rank!r}): the ranks are {ranks_in_words(self._cellmesh_ranks)}")
        return self._cellmesh_members.restart(rank)

    # ---- as a value
    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, ActorGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._cellmesh_ranks)

    def __reduce__(self) -> tuple[Any, ...]:
        members = self._cellmesh_members
        return _group_of, (list(members.handles), members.shape, members.on_death, self._cellmesh_ranks)

    def __copy__(self) -> ActorGroup[C]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorGroup[C]:
        return self

    def __dir__(self) -> list[str]:
        return sorted({*OWN_NAMES, *self._cellmesh_members.handles[0]._cellmesh_blueprint.methods})

    def __repr__(self) -> str:
        members, ranks = self._cellmesh_members, self._cellmesh_ranks
        n = len(members.handles)
        dims = ", ".join(f"{name}={size}" for name, size in members.shape.dims)
        whose = f"{n} members" if len(ranks) == n else f"{len(ranks)} of {n} members, of ranks {ranks_in_words(ranks)}"
        states: dict[str, list[int]] = {}
        for rank in ranks:
            states.setdefault(life_in_words(members.handles[rank]._cellmesh_ref), []).append(rank)
        told = "; ".join(
            state if len(some) == len(ranks) else f"{state} ({ranks_in_words(tuple(some))})"
            for state, some in states.items()
        )
        return f"<group {members.class_name}{f' ({dims})' if dims else ''} of {whose}: {told or 'none'}>"

    def _repr_html_(self) -> str:
        try:
            return self._cellmesh_table()._repr_html_()
        except SessionError:
            return f"<code>{escape(repr(self))}</code>"

    def _cellmesh_table(self) -> Rows:
        """The members as they are just now; of those on this machine also what they run, and their own memory."""
        found = self.members
        here = {row["pid"]: row for row in processes.rows(self._cellmesh_members.session.client) if row["actor"] >= 0}
        this_node = namer(self._cellmesh_members.session)(0)
        return Rows(
            {
                "rank": m.rank,
                **m.coordinates,
                "state": m.state,
                "process": m.pid or None,
                "node": m.node,
                "runs": processes.calls_in_words(here[m.pid]) if is_here else "",
                "memory_bytes": private_bytes(m.pid) if is_here else None,
            }
            for m in found
            for is_here in [m.pid in here and m.node == this_node]
        )


def _group_of(handles: list[ActorHandle[Any]], shape: Shape, on_death: Any, ranks: tuple[int, ...]) -> ActorGroup[Any]:
    return ActorGroup(Members(handles, shape, on_death), ranks)


def _member(members: Members, rank: int, node_of: Callable[[int], str]) -> GroupMember[Any]:
    handle = members.handles[rank]
    ref = handle._cellmesh_ref
    known = ref.client.actor(*ref.client.actor_place(ref)) or {"pid": 0, "node": 0}
    node = node_of(known["node"]) if known["pid"] or known["node"] else ""
    return GroupMember(rank, members.shape.coordinates(rank), life_in_words(ref), node, known["pid"], handle)
