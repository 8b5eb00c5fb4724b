"""torch's process group of the ranks, seen from the notebook: who waits for whom in a collective, and its repair."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from ...objects import get, put
from ...train.collective import MAX_RANKS, CollectiveMemory
from ..cells.analysis.read import CellError

if TYPE_CHECKING:
    from ...groups.actor_group import ActorGroup
    from ...train.backends import Backend
    from ...train.rounds import Wait
    from .rank import Rank


class Collectives:
    """The process group.

    Parameters
    ----------
    group : ActorGroup
    backend : {"shared", "gloo", "nccl"}
    on_one_machine : bool
        Whether all ranks are on this one.
    later : bool
        Whether a rank begins it when it has torch, as of `Rank.join`.

    Raises
    ------
    CellError
        They cannot share memory.
    """

    def __init__(self, group: ActorGroup[Rank], backend: Backend, on_one_machine: bool, later: bool = False) -> None:
        if backend == "shared" and not (on_one_machine and len(group) <= MAX_RANKS):
            raise CellError(
                f"--backend shared: at most {MAX_RANKS} ranks share memory, on the notebook's machine: --backend gloo"
            )
        self._group, self._backend, self._on_one_machine, self._later = group, backend, on_one_machine, later
        self._memory: CollectiveMemory | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def begin(self) -> None:
        """Have all ranks begin it; anew, where there was one."""
        self._memory = CollectiveMemory(len(self._group)) if self._backend == "shared" else None
        if self._on_one_machine and (self._folder is None or self._backend != "shared"):  # whose groups stay
            self._folder = tempfile.TemporaryDirectory(prefix="cellmesh-ranks-")
        folder = self._folder.name if self._folder is not None else ""
        memory = [put(self._memory)] if self._memory is not None else []
        try:
            get(self._group.join.remote(self._backend, memory, folder, self._later))
        except BaseException:  # no rank is to wait there for another
            if self._memory is not None:
                self._memory.abort()
            raise

    def mend(self) -> None:
        """Begin anew, if a rank was interrupted in a collective, or has failed while others waited for it there."""
        members = self._group._cellmesh_members
        if self._memory is not None and self._memory.broken and not any(map(members.is_dead, self._group.ranks)):
            self.begin()

    def waits(self) -> dict[int, Wait]:
        """The ranks that wait for others just now, in a collective or with a message, and what it is."""
        return self._memory.waits() if self._memory is not None else {}
