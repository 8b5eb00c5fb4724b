"""A member of the group of `%ranks`: a namespace in a process of its own. This module runs on the worker."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...api import get_runtime_context
from ...environment import gpus
from ...groups.inside import current_group
from ...objects import get
from ...train.layout import Member
from ..cells.task import CellCode, run_in
from ..cells.task_variables import HARMLESS, bring

if TYPE_CHECKING:
    from ...refs import ObjectRef
    from ...train.backends import Backend
    from ...train.collective import CollectiveMemory

    Memory = list[ObjectRef[CollectiveMemory]]

IMPORTS_TORCH = re.compile(r"^\s*(import|from)\b.*\btorch\b", re.M)
GIVEN = frozenset({"rank", "world_size", "local_rank", "device", "barrier"})  # names that each rank has from the start


class Rank(Member):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.namespace: dict[str, Any] = {"__name__": "__main__", "__doc__": None}
        self.rank = current_group().rank
        self._later: Callable[[], None] | None = None

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Have torchrun's variables, and the names that each rank has.

        Parameters
        ----------
        environment : mapping
            torchrun's variables, and those of the user.
        """
        super().prepare(environment)
        group = current_group()
        self.namespace |= {
            "rank": group.rank,
            "world_size": group.size,
            "local_rank": int(environment["LOCAL_RANK"]),
            "device": gpus.device(),
            "barrier": group.barrier,
        }

    def join(self, backend: Backend, memory: Memory, folder: str, later: bool) -> None:
        """Have torch's process group.

        Parameters
        ----------
        backend : {"shared", "gloo", "nccl"}
        memory : list of ref to CollectiveMemory
            Of "shared" one, which is opened where it is needed; else none.
        folder : str
            Of this machine, where all ranks are on it; "" otherwise.
        later : bool
            Whether it begins when a cell finds torch here, or imports it, without waiting for the other ranks.
        """
        self._later = None
        if later:
            self._later = partial(self._begin, backend, memory, folder, waits=False)
        else:
            self._begin(backend, memory, folder, waits=True)

    def _begin(self, backend: Backend, memory: Memory, folder: str, waits: bool) -> None:
        from ...train import backends
        from ...train.collective import Communicator
        from ...train.rank import RankInfo

        n_cpus = get_runtime_context().get_assigned_resources().get("CPU", 1)
        communicator = Communicator(get(memory[0]), self.rank, waits=waits) if memory else None
        info = RankInfo(self.rank, current_group().size, n_cpus, communicator, folder, ())
        backends.begin(backend, info, gives_way=not waits)

    def find_torch(self, source: str) -> None:
        """Begin the process group that is to begin later, if torch is here or a cell imports it; unless the user has
        begun another.
        """
        if self._later is None or ("torch" not in sys.modules and IMPORTS_TORCH.search(source) is None):
            return
        import torch.distributed as dist

        begin, self._later = self._later, None
        if not dist.is_initialized() or dist.get_backend() == "shared":
            begin()


def run_cell_in_rank(rank: Rank, cell: CellCode, *values: Any) -> Any:
    """Run a cell in the namespace of a rank.

    Parameters
    ----------
    rank : Rank
    cell : CellCode
    *values
        Of `cell.names`.

    Returns
    -------
    tuple
        As of `task.run_cell`; the value of the last expression is shown, and None in its place.
    """
    not_sent = dict(cell.not_sent)
    for name in cell.lives_there:
        if name not in rank.namespace:
            not_sent[name] = f"no cell has assigned it in rank {rank.rank}, or that was before the rank was restarted"
    bring(cell, values, not_sent, rank.namespace)
    rank.find_torch(cell.source)
    return run_in(cell, rank.namespace, not_sent, _show)


def _show(last: Any) -> None:
    """Show the value of a last expression, as a notebook does."""
    if type(last) in HARMLESS:
        if last is not None:
            print(repr(last))
        return
    builtins.__dict__["display"](last)
