"""torch.distributed over shared memory: the backend "shared".

A `torch.distributed.ProcessGroup` whose collectives are those of `collective.py`. It opens no port, and a rank that has
died is an error, not a timeout. A collective is done when its call returns, also one that is asked for with
`async_op=True`: there is no other thread that could do it, on a machine whose ranks use its processors. Messages
(`send`, `recv`) go through a thread for each peer and direction, as they must not wait for each other.

Tensors lie in the processor's memory. What a backend may do beside that is refused, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.futures import Future as TorchFuture

from .collective import Communicator
from .reductions import REDUCTIONS, Reduction

if TYPE_CHECKING:
    from numpy.typing import NDArray

BACKEND = "shared"

# Numbers that numpy has not, or not vectorised, as structures of one field with the dtype's name; torch adds them.
_OTHERS = {
    dtype: np.dtype([(str(dtype).removeprefix("torch."), f"u{dtype.itemsize}")])
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype not in (torch.float32, torch.float64)
}
_OPS = {
    "SUM": "sum",
    "AVG": "avg",
    "PRODUCT": "product",
    "MIN": "min",
    "MAX": "max",
    "BAND": "band",
    "BOR": "bor",
    "BXOR": "bxor",
}
_TORCH_OPS = {"sum": torch.add, "avg": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum}


if TYPE_CHECKING:

    class _ProcessGroup:
        """torch's class, whose stubs say how its operations are called, not how they are overridden."""

        def __init__(self, rank: int, size: int) -> None: ...
        def rank(self) -> int: ...
        def size(self) -> int: ...

else:
    _ProcessGroup = dist.ProcessGroup

_work_from: Callable[[TorchFuture[Any]], dist.Work] = getattr(c10d, "_create_work_from_future")  # noqa: B009 (no stub)


class SharedProcessGroup(_ProcessGroup):
    """The process group of a `Communicator`.

    Parameters
    ----------
    communicator : Communicator
    """

    def __init__(self, communicator: Communicator) -> None:
        super().__init__(communicator.rank, communicator.n_ranks)
        self._comm = communicator
        self._threads: dict[tuple[int, int], ThreadPoolExecutor] = {}
        self._name, self._desc = "", "undefined"

    # ---- all ranks get the result
    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """All-reduce each tensor, in place."""
        for tensor in tensors:
            self._comm.all_reduce(_array(tensor), _reduction(opts, tensor))
        return _done(tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Broadcast each tensor from a rank, in place."""
        for tensor in tensors:
            self._comm.broadcast(_array(tensor), opts.rootRank)
        return _done(tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Gather each tensor of all ranks into a list of tensors."""
        for parts, tensor in zip(outputs, inputs, strict=True):
            self._gather_into(tensor, lambda out, array: self._comm.all_gather(out, array), parts)
        return _done(outputs)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> dist.Work:
        """Gather a tensor of all ranks into one."""
        self._comm.all_gather(_array(output), _array(tensor))
        return _done([output])

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Gather each tensor of all ranks into one."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, tensor)
        return _done(outputs)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Gather each tensor of all ranks: `outputs` has a list for each rank."""
        return self.allgather([list(parts) for parts in zip(*outputs, strict=True)], inputs)

    def barrier(self, opts: Any = None) -> dist.Work:
        """Wait until all ranks are here."""
        self._comm.barrier()
        return _done([])

    # ---- each rank gets a part
    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> dist.Work:
        """Reduce a list of tensors, of which each rank gets one."""
        for output, parts in zip(outputs, inputs, strict=True):
            self._comm.reduce_scatter(_array(output), _stacked(parts, output), _reduction(opts, output))
        return _done(outputs)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> dist.Work:
        """Reduce a tensor, of which each rank gets a part."""
        self._comm.reduce_scatter(_array(output), _array(tensor), _reduction(opts, output))
        return _done([output])

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Reduce each tensor, of which each rank gets a part."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self.reduce_scatter_single(output, tensor, opts)
        return _done(outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_counts: Sequence[int] | None = None,
        counts: Sequence[int] | None = None,
        opts: Any = None,
    ) -> dist.Work:
        """Exchange parts of a tensor, along its first dimension."""
        per_row = [t[:1].numel() if t.dim() else 1 for t in (output, tensor)]
        in_elements = [
            [n * row for n in given] if given else None
            for given, row in zip((output_counts, counts), per_row, strict=True)
        ]
        self._comm.all_to_all(_array(output), _array(tensor), *in_elements)
        return _done([output])

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> dist.Work:
        """Exchange tensors, one for each rank, of any sizes."""
        taken = torch.empty(sum(t.numel() for t in outputs), dtype=outputs[0].dtype)
        sent = torch.cat([t.reshape(-1) for t in inputs])
        self._comm.all_to_all(_array(taken), _array(sent), [t.numel() for t in outputs], [t.numel() for t in inputs])
        for output, part in zip(outputs, taken.split([t.numel() for t in outputs]), strict=True):
            output.copy_(part.view_as(output))
        return _done(outputs)

    # ---- one rank has, or gets, the result
    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Reduce each tensor, into that of a rank."""
        for tensor in tensors:
            self._comm.reduce(_array(tensor), opts.rootRank, _reduction(opts, tensor))
        return _done(tensors)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> dist.Work:
        """Gather a tensor of all ranks into a list of one rank."""
        root = opts.rootRank
        if self._comm.rank == root:
            self._gather_into(inputs[0], lambda out, array: self._comm.gather(out, array, root), outputs[0])
        else:
            self._comm.gather(None, _array(inputs[0]), root)
        return _done(outputs)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> dist.Work:
        """Scatter a rank's list of tensors, one to each rank."""
        given = _stacked(inputs[0], outputs[0]) if self._comm.rank == opts.rootRank else None
        self._comm.scatter(_array(outputs[0]), given, opts.rootRank)
        return _done(outputs)

    # ---- two ranks
    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> dist.Work:
        """Send a tensor; the work is done when it has been received."""
        return self._message("send(to)", (self._comm.rank, to), tag, tensors)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> dist.Work:
        """Receive a tensor."""
        return self._message("recv(source)", (source, self._comm.rank), tag, tensors)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> NoReturn:
        """Refused."""
        _refuse("recv() from any rank", "name the rank that sends, recv(tensor, src=...)")

    def _message(self, name: str, pair: tuple[int, int], tag: int, tensors: list[torch.Tensor]) -> dist.Work:
        comm, thread = self._comm, self._threads.get(pair)
        if thread is None:
            thread = self._threads[pair] = ThreadPoolExecutor(1, f"cellmesh-message-{pair[0]}-{pair[1]}")
        arrays = [_array(tensor) for tensor in tensors]
        return _Pending(
            thread.submit(lambda: [comm.message(name, pair, array, tag) for array in arrays]), tensors, comm, pair
        )

    # ---- the group
    def new_group(self, ranks: Sequence[int], **options: Any) -> SharedProcessGroup | None:
        """A group of some ranks, for `torch.distributed.new_group`; None on ranks that are not among them."""
        part = self._comm.split(list(ranks))
        if part is None:
            return None
        group = SharedProcessGroup(part)
        group._set_group_name(options.get("group_name") or "")
        group._set_group_desc(options.get("group_desc") or "undefined")
        return group

    def getBackendName(self) -> str:
        """The backend's name."""
        return BACKEND

    name = getBackendName

    # torch's own class keeps these in its backends, of which this one has none.
    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def getGroupName(self) -> str:
        """What torch calls the group."""
        return self._name

    def getGroupDesc(self) -> str:
        """What torch says of the group."""
        return self._desc

    @property
    def group_name(self) -> str:
        """What torch calls the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What torch says of the group."""
        return self._desc

    @property
    def is_used(self) -> bool:
        """Whether this rank has called anything of it."""
        return self._comm.is_used

    def renew(self, communicator: Communicator) -> None:
        """Go on with another communicator, of the same ranks."""
        self.shutdown()
        self._comm = communicator

    def shutdown(self) -> None:
        """End the threads of messages. The communicator is whose it was made by."""
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)
        self._threads.clear()

    def abort(self) -> None:
        """Break the group: the others get a GroupBrokenError."""
        self._comm.abort()
        self.shutdown()

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing: what a rank waits for is alive, or ends in an error."""

    def _start_coalescing(self, device: Any) -> None:
        """Nothing: each call is done at once."""

    def _end_coalescing(self, device: Any) -> dist.Work:
        return _done([])

    def _gather_into(
        self, tensor: torch.Tensor, call: Callable[[NDArray[Any], NDArray[Any]], None], parts: list[torch.Tensor]
    ) -> None:
        """Gather into one tensor, then copy into the list's."""
        whole = torch.empty((len(parts), *tensor.shape), dtype=tensor.dtype)
        call(_array(whole), _array(tensor))
        for part, row in zip(parts, whole, strict=True):
            part.copy_(row.view_as(part))

    # Names that torch had before 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


class _Pending(dist.Work):
    """A message that is under way."""

    def __init__(
        self, future: Future[Any], tensors: list[torch.Tensor], communicator: Communicator, pair: tuple[int, int]
    ) -> None:
        super().__init__()
        self._future, self._tensors, self._comm, self._pair = future, tensors, communicator, pair

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        try:
            with self._comm.awaited(self._pair):
                self._future.result(timeout.total_seconds() or None)  # which Ctrl-C interrupts, unlike torch's futures
        except KeyboardInterrupt:  # else the other end would meet it later
            self._comm.abort()
            raise
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self._future.done() and self._future.exception() is None

    def exception(self) -> BaseException | None:
        return self._future.exception() if self._future.done() else None

    def result(self) -> list[torch.Tensor]:
        self._future.result()
        return self._tensors

    def get_future(self) -> TorchFuture[list[torch.Tensor]]:
        future: TorchFuture[list[torch.Tensor]] = TorchFuture()

        def tell(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                future.set_result(self._tensors)
            else:
                cast(Any, future).set_exception(error)  # whose annotation says a value

        self._future.add_done_callback(tell)
        return future


def _done(result: Any) -> dist.Work:
    """Work that is done."""
    future: TorchFuture[Any] = TorchFuture()
    future.set_result(result)
    return _work_from(future)


# ---- tensors and arrays
def _array(tensor: torch.Tensor) -> NDArray[Any]:
    """The tensor's memory as an array."""
    if tensor.device.type != "cpu":
        _refuse(f"a tensor on {tensor.device}", "move it, tensor.cpu(), or train with backend='nccl'")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        _refuse(f"a tensor of layout {tensor.layout}", "make it dense, tensor.to_dense()")
    tensor = tensor.detach()
    kind = _OTHERS.get(tensor.dtype)
    if kind is None:
        return tensor.numpy()
    bits = {1: torch.uint8, 2: torch.int16}[tensor.dtype.itemsize]
    array = tensor.view(bits).numpy()
    return np.ndarray(array.shape, kind, array, strides=array.strides)


def _stacked(parts: list[torch.Tensor], like: torch.Tensor) -> NDArray[Any]:
    return _array(torch.stack([part.detach().view_as(like) for part in parts]))


def _reduction(opts: Any, tensor: torch.Tensor) -> str | Reduction:
    op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    name = next((ours for theirs, ours in _OPS.items() if op == getattr(dist.ReduceOp, theirs)), None)
    if name is None:
        _refuse(f"the reduction {op}", f"there are {', '.join(_OPS)}")
    if name == "avg" and tensor.dtype is not torch.bool and not (tensor.is_floating_point() or tensor.is_complex()):
        return _AVG_OF_WHOLE
    if tensor.dtype not in _OTHERS:
        return name
    if tensor.dtype.itemsize == 1 or name not in _TORCH_OPS:
        _refuse(f"the reduction {name} of {tensor.dtype}", "convert the tensor, tensor.float()")
    return _of_torch(name, tensor.dtype)


def _divide_whole(total: NDArray[Any], n_ranks: int) -> None:
    """Towards zero, as NCCL does; numpy's way is down."""
    total -= np.fmod(total, n_ranks)
    total //= n_ranks


_AVG_OF_WHOLE = Reduction("avg", np.add, _divide_whole)


def _of_torch(name: str, dtype: torch.dtype) -> Reduction:
    """A reduction that torch computes, of arrays whose bytes are tensors of this dtype."""
    function = _TORCH_OPS[name]

    def tensor(array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array.view(np.int16)).view(dtype)

    def combine(a: NDArray[Any], b: NDArray[Any], /, *, out: NDArray[Any]) -> None:
        function(tensor(a), tensor(b), out=tensor(out))

    def divide(total: NDArray[Any], n_ranks: int) -> None:
        tensor(total).div_(n_ranks)

    return Reduction(REDUCTIONS[name].name, combine, divide if name == "avg" else None)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise NotImplementedError(f"the backend {BACKEND!r} cannot do {what}: {remedy}")


# ---- torch.distributed
_communicator: Communicator | None = None  # of the default group, which is being made


def begin(communicator: Communicator, store: c10d.Store, gives_way: bool = False) -> None:
    """Make a communicator torch.distributed's default group. If there is one over shared memory it has this one from
    then on, so that models which hold it go on with it.

    Parameters
    ----------
    communicator : Communicator
    store : Store
    gives_way : bool
        Whether a program's own `init_process_group` takes its place, as long as nobody has used it.
    """
    global _communicator
    if isinstance(dist.group.WORLD, SharedProcessGroup):
        dist.group.WORLD.renew(communicator)
        return
    _communicator = communicator
    try:
        dist.init_process_group(BACKEND, store=store, rank=communicator.rank, world_size=communicator.n_ranks)
    finally:
        _communicator = None
    if gives_way:
        _give_way()


@cache
def _give_way() -> None:
    """Put a function in the place of `init_process_group` that first ends a group which nobody has used yet."""
    begin_another = dist.init_process_group

    @wraps(begin_another)
    def init_process_group(*args: Any, **options: Any) -> None:
        there = dist.group.WORLD
        if isinstance(there, SharedProcessGroup) and not there.is_used and BACKEND not in (*args, *options.values()):
            dist.destroy_process_group()
        begin_another(*args, **options)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group


def _create(store: c10d.Store, rank: int, n_ranks: int, timeout: timedelta) -> SharedProcessGroup:
    if _communicator is None:
        raise RuntimeError(
            f"init_process_group({BACKEND!r}): the backend is for ranks that a TorchTrainer or %ranks has started, "
            "which have the group by then. Leave init_process_group out, or call it if not dist.is_initialized()"
        )
    return SharedProcessGroup(_communicator)


dist.Backend.register_backend(BACKEND, _create, devices="cpu")
