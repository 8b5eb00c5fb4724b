"""What is around a rank's function so that a framework finds its group. torch is imported by the rank alone: the
process that starts the ranks, which gets these functions too, does without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from ..environment import gpus

if TYPE_CHECKING:
    from .rank import RankInfo

Backend = Literal["shared", "gloo", "nccl"]
BACKENDS = ("shared", "gloo", "nccl")
MODULES = ("cellmesh.train.process_group", "torch._dynamo")  # which take long; the last one is for DDP


@contextmanager
def torch_group(backend: Backend, info: RankInfo) -> Iterator[None]:
    """torch's default process group, for the time of a function."""
    import torch.distributed as dist

    begin(backend, info)
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def begin(backend: Backend, info: RankInfo, gives_way: bool = False) -> None:
    """Begin torch's default process group; anew, where there is one. `gives_way`: as of `process_group.begin`."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    # As many as the rank has CPUs, unless the user has said: torch, where it was imported before the fork, did not see.
    given = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(given) if given.isdecimal() and int(given) else max(1, int(info.n_cpus)))
    # Those on one machine find each other in a file, which needs no port.
    store = FileStore(os.path.join(info.folder, "store"), info.n_ranks) if info.folder else None
    if backend == "shared":
        from . import process_group

        assert info.communicator is not None and store is not None  # such ranks are on one machine
        process_group.begin(info.communicator, store, gives_way)
        return
    if dist.is_initialized():
        dist.destroy_process_group()
    if gpus.ids:
        torch.cuda.set_device(gpus.device())  # where nccl has its collectives of objects, and `.cuda()` its tensors
    if store is not None:
        dist.init_process_group(backend, store=store, rank=info.rank, world_size=info.n_ranks)
    else:
        dist.init_process_group(backend)
    if backend == "gloo":
        from .dispatched import note_collectives

        note_collectives()
