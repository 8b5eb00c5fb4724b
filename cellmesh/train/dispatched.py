"""torch's collectives over gloo, noted while somebody looks (decision 140).

All of them pass torch's dispatcher, whoever calls: `torch.distributed`, a library, DDP's reducer, which is C++. From
the first moment that somebody looks a kernel of ours stands there above the backend's. Until then nothing is in the way
but a thread that looks at a byte.

A collective is noted from its call until its work is done, which may be later than the call returns.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ..groups.times import own_times
from ..scheduler.sync.threads import ServiceThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOOKS_EVERY_S = 0.5
OPERATIONS = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "barrier": "barrier",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "scatter_": "scatter",
}


@cache
def note_collectives() -> None:
    """Have this process's collectives noted from when somebody looks; begins once."""
    own_times()  # which tells of itself
    ServiceThread(_wait_and_stand_in, "cellmesh-collectives").start()


def _wait_and_stand_in() -> None:
    while not own_times().watched:
        time.sleep(LOOKS_EVERY_S)
    _library()


@cache
def _library() -> torch.library.Library:
    """What has our kernels in their places, as long as it is there."""
    library = torch.library.Library("c10d", "IMPL")  # which stays
    for operation, name in OPERATIONS.items():
        library.impl(operation, _noting(operation, name), "Autograd")
    return library


def _noting(operation: str, name: str) -> Callable[..., Any]:
    below = getattr(torch.ops.c10d, operation).default

    def call(*args: Any, **kwargs: Any) -> Any:
        times = own_times()
        if not times.watched:
            with torch._C._AutoDispatchBelowAutograd():
                return below(*args, **kwargs)
        times.enter(name if name == "barrier" else f"{name} of {_in_words(args)}")
        try:
            with torch._C._AutoDispatchBelowAutograd():
                out = below(*args, **kwargs)
            work = dist.Work.unbox(out[-1] if isinstance(out, tuple | list) else out)
            work.get_future().add_done_callback(lambda _: times.leave())
        except BaseException:
            times.leave()
            raise
        return out

    return call


def _in_words(args: Iterable[Any]) -> str:
    """'float32 (2, 3)', of the first tensor among arguments, as collectives over shared memory are called."""
    for each in args:
        if isinstance(each, torch.Tensor):
            return f"{str(each.dtype).removeprefix('torch.')} {tuple(each.shape)}"
        if isinstance(each, list | tuple) and (found := _in_words(each)):
            return found
    return ""
