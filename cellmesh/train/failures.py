"""Which failure of a rank those of the others follow from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..exceptions import ActorDiedError, TaskCancelledError, TaskError
from ..objects import get
from ..waiting import wait
from .exceptions import GroupBrokenError

if TYPE_CHECKING:
    from ..groups.ref_group import RefGroup


def errors_of(refs: RefGroup[Any]) -> dict[int, Exception]:
    """What ranks have failed with by now, by rank."""
    ready, _ = wait(refs, num_returns=len(refs), timeout=0)
    ended = {
        rank: get(ref, 0, return_exceptions=True) for rank, ref in zip(refs.ranks, refs, strict=True) if ref in ready
    }
    return {rank: error for rank, error in ended.items() if isinstance(error, Exception)}


def first_cause(errors: Mapping[int, Exception]) -> int:
    """The rank with whose failure it began: a process that has died; or else an error that is none of who waited for
    others, or was interrupted; of several the first.
    """
    deaths = [rank for rank, error in errors.items() if is_death(error)]
    own = [rank for rank, error in errors.items() if not isinstance(error, (GroupBrokenError, TaskCancelledError))]
    return [*deaths, *own, *errors][0]


def is_death(error: Exception) -> bool:
    """Whether a rank has failed as its process, or its machine, is gone."""
    return isinstance(error, ActorDiedError) and not isinstance(error, TaskError)
