"""`RefGroup`: what a call of a group returns, the refs of its members' calls in rank order."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..exceptions import ActorDiedError, GetTimeoutError, GroupMemberDiedError, TaskError
from ..observe.actor_life import death_in_words
from ..refs import ObjectRef
from ..session.current import current
from ..session.futures import without_frames
from ..submit.option_values import is_number
from .on_death import remedy
from .shape import ranks_in_words

if TYPE_CHECKING:
    from typing import SupportsIndex

    from ..objstore._core import ActorPlace, Client

T = TypeVar("T")
LOOKS_EVERY_S = 0.25  # whether a member has died, while values are waited for


class RefGroup(tuple["ObjectRef[T]", ...], Generic[T]):
    """The refs of a call of an actor group, in rank order: `cellmesh.get(refs)` is the list of their values.

    It can be used wherever a sequence of refs can: `get`, `wait`, `as_completed`, `cancel`, `progress`. As an argument
    of a task it arrives as it is, like a list of refs; `f.remote(*refs)` gives the values.

    Attributes
    ----------
    ranks : tuple of int
        Whose they are.
    """

    ranks: tuple[int, ...]
    _label: str
    _watched: tuple[ActorPlace, ...]  # the members whose death is told although their own calls are over

    def __new__(
        cls, refs: Iterable[ObjectRef[T]], ranks: tuple[int, ...], label: str, watched: tuple[ActorPlace, ...] = ()
    ) -> RefGroup[T]:
        self = tuple.__new__(cls, refs)
        self.ranks, self._label, self._watched = ranks, label, watched
        return self

    def map(self, function: Any) -> RefGroup[Any]:
        """A task for each value, `function.remote(ref)`; their refs, of the same ranks.

        Parameters
        ----------
        function : RemoteFunction, or a plain function
        """
        return RefGroup(map(submits(function).remote, self), self.ranks, getattr(function, "__name__", "map"))

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> ObjectRef[T]: ...
    @overload
    def __getitem__(self, index: slice, /) -> RefGroup[T]: ...

    def __getitem__(self, index: Any, /) -> Any:
        found = tuple.__getitem__(self, index)
        return RefGroup(found, self.ranks[index], self._label) if isinstance(index, slice) else found

    @classmethod
    def _make(cls, values: Iterable[Any]) -> list[Any]:
        """What `get` makes of one that is in another container."""
        return list(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return RefGroup, (tuple(self), self.ranks, self._label)

    def __repr__(self) -> str:
        n = len(self)
        if n and not self[0].client.closed:
            n_ready = sum(ref.client.ready(ref) for ref in self)
            state = "all ready" if n_ready == n else f"{n_ready} of {n} ready"
        else:
            state = "its session has ended" if n else "none"
        return f"<refs of {self._label} by rank {ranks_in_words(self.ranks)}: {state}>"


def submits(function: Any, **options: Any) -> Any:
    """A remote function; made of a plain one if it is that, with these options."""
    if hasattr(function, "remote"):
        return function
    if not callable(function):
        raise TypeError(f"needs a function, plain or remote, not {function!r}")
    from ..submit.remote_function import make_remote_function

    return make_remote_function(function, options)


def values_of(refs: RefGroup[T], timeout: float | None, return_exceptions: bool, readonly: bool) -> list[Any]:
    """`get` of a group's refs: what a dead member has not done is told with its rank."""
    client = current().client
    try:
        is_long = timeout is None or (is_number(timeout) and timeout > LOOKS_EVERY_S)
        if refs._watched and is_long and not return_exceptions:
            return _watching(refs, client, timeout, readonly)
        values = client.get(list(refs), timeout, return_exceptions=return_exceptions, readonly=readonly)
    except GroupMemberDiedError:
        raise
    except ActorDiedError as error:
        died = _first_death(refs, client) if not isinstance(error, TaskError) else None
        if died is None:
            raise
        try:
            raise died from None
        finally:
            del died, error  # a frame that holds what it raises is a reference cycle
    return (
        [told(value, rank, refs._label) for value, rank in zip(values, refs.ranks, strict=True)]
        if return_exceptions
        else values
    )


def _watching(refs: RefGroup[T], client: Client, timeout: float | None, readonly: bool) -> list[T]:
    """The values; or, while they are not there, the death of a member, for which the others may wait in their calls.

    Raises
    ------
    GroupMemberDiedError
        A member is dead, whose own call may be over.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = LOOKS_EVERY_S if end is None else min(LOOKS_EVERY_S, max(0.0, end - time.monotonic()))
        try:
            return client.get(list(refs), left, readonly=readonly)
        except GetTimeoutError as error:
            if end is not None and time.monotonic() >= end:
                raise GetTimeoutError(f"get() gave up after {timeout:g} s: {str(error).partition(': ')[2]}") from None
        for place, rank in zip(refs._watched, refs.ranks, strict=True):
            row = client.actor(*place)
            if row is not None and row["death"] is not None and row["death"].how != "ended":
                raise GroupMemberDiedError(
                    f"member {rank} of the group is dead, and {refs._label} has not ended everywhere: "
                    f"{death_in_words(*row['death'])}",
                    rank=rank,
                )


def _first_death(refs: RefGroup[Any], client: Client) -> GroupMemberDiedError | None:
    for ref, rank in zip(refs, refs.ranks, strict=True):
        if client.ready(ref):
            value = told(client.get([ref], 0, return_exceptions=True)[0], rank, refs._label)
            if isinstance(value, GroupMemberDiedError):
                return value
    return None


def told(value: Any, rank: int, label: str) -> Any:
    """What became of a member's call: its value, or its error, which has the rank if the member has died."""
    if not isinstance(value, ActorDiedError) or isinstance(value, (TaskError, GroupMemberDiedError)):
        return value
    text = f"member {rank} of the group has died, before it had served {label}: {value}\n\n{remedy(rank)}"
    return GroupMemberDiedError(text, rank=rank, error=without_frames(value))
