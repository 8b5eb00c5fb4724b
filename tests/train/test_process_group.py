"""torch.distributed's operations on shared memory: threads as ranks, each with a process group of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

torch = pytest.importorskip("torch")  # pip install 'cellmesh[train]'

import torch.distributed as dist
from torch.distributed import (
    AllreduceOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

from cellmesh.train.collective import CollectiveMemory, Communicator
from cellmesh.train.process_group import SharedProcessGroup

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "torch keeps those with which it computes"),
]


def ranks(n: int, call: Callable[[SharedProcessGroup], Any]) -> list[Any]:
    memory = CollectiveMemory(n)

    def one(rank: int) -> Any:
        with Communicator(memory, rank) as comm:
            group = SharedProcessGroup(comm)
            try:
                return call(group)
            finally:
                group.shutdown()

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


def with_options(kind: Any, **values: Any) -> Any:
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.uint8, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 777, 70_001])
def test_all_reduce_is_torchs_sum_over_ranks_in_order(dtype: torch.dtype, size: int) -> None:
    torch.manual_seed(size)
    given = [(torch.randn(size, dtype=torch.float64) * 10).to(dtype) for _ in range(3)]
    expected = (given[0] + given[1]) + given[2]

    def call(group: SharedProcessGroup) -> torch.Tensor:
        tensor = given[group.rank()].clone()
        assert group.allreduce([tensor]).wait()
        return tensor

    for found in ranks(3, call):
        assert found.dtype == dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        (ReduceOp.AVG, torch.bfloat16, [1.5, 3.0]),
        (ReduceOp.PRODUCT, torch.float32, [2.0, 8.0]),
        (ReduceOp.MIN, torch.float16, [1.0, 2.0]),
        (ReduceOp.MAX, torch.int64, [2, 4]),
        (ReduceOp.BAND, torch.int32, [0, 0]),
        (ReduceOp.BOR, torch.int32, [3, 6]),
        (ReduceOp.BXOR, torch.uint8, [3, 6]),
    ],
)
def test_reductions(op: Any, dtype: torch.dtype, expected: list[float]) -> None:
    def call(group: SharedProcessGroup) -> list[float]:
        tensor = torch.tensor([1, 2], dtype=dtype) * (group.rank() + 1)
        group.allreduce([tensor], with_options(AllreduceOptions, reduceOp=op)).wait()
        return tensor.tolist()

    assert ranks(2, call) == [expected] * 2


def test_everything_else_that_moves_tensors() -> None:
    def call(group: SharedProcessGroup) -> None:
        me, n = group.rank(), group.size()
        mine = torch.arange(6.0).view(2, 3).t() + 10 * me  # not contiguous
        all_of = [torch.arange(6.0).view(2, 3).t() + 10 * i for i in range(n)]

        parts = [torch.empty(3, 2) for _ in range(n)]
        assert group.allgather([parts], [mine]).get_future().wait() is not None
        assert torch.equal(torch.stack(parts), torch.stack(all_of))
        whole = torch.empty(n * 3, 2)
        group.all_gather_single(whole, mine.contiguous()).wait()
        assert torch.equal(whole, torch.cat(all_of))
        group.all_gather_single_coalesced([whole], [mine.contiguous()]).wait()

        tensor = mine.clone()
        group.broadcast([tensor], with_options(BroadcastOptions, rootRank=1)).wait()
        assert torch.equal(tensor, all_of[1])
        tensor = mine.clone()
        group.reduce([tensor], with_options(ReduceOptions, rootRank=2)).wait()
        assert torch.equal(tensor, sum(all_of) if me == 2 else mine)

        out = torch.empty(2)
        rows = [torch.full((2,), 1.0 + me + i) for i in range(n)]
        group.reduce_scatter([out], [rows], ReduceScatterOptions()).wait()
        assert out.tolist() == [6.0 + 3 * me] * 2
        group.reduce_scatter_single(out, torch.cat(rows)).wait()
        assert out.tolist() == [6.0 + 3 * me] * 2

        group.gather([parts] if me == 0 else [], [mine + 1], with_options(GatherOptions, rootRank=0)).wait()
        assert me or torch.equal(torch.stack(parts), torch.stack(all_of) + 1)
        out = torch.empty(2)
        group.scatter([out], [rows] if me == 0 else [[]], with_options(ScatterOptions, rootRank=0)).wait()
        assert out.tolist() == [1.0 + me] * 2

        sizes = [1 + me + i for i in range(n)]
        taken = [torch.empty(size, dtype=torch.int64) for size in sizes]
        group.alltoall(taken, [torch.full((size,), me) for size in sizes]).wait()
        assert [t.tolist() for t in taken] == [[i] * sizes[i] for i in range(n)]
        pairs, got = torch.full((sum(sizes), 2), me), torch.empty(sum(sizes), 2, dtype=torch.int64)
        group.all_to_all_single(got, pairs, sizes, sizes).wait()
        assert got.tolist() == [[i, i] for i in range(n) for _ in range(sizes[i])]
        group.barrier().wait()

    ranks(3, call)


def test_messages_do_not_wait_for_each_other() -> None:
    def call(group: SharedProcessGroup) -> list[float]:
        other = 1 - group.rank()
        tensors = [torch.empty(3) for _ in range(4)]
        works = [group.send([torch.full((3,), 1.0 * i)], other, i) for i in range(4)]
        works += [group.recv([tensor], other, i) for i, tensor in enumerate(tensors)]
        futures = [work.get_future() for work in works]
        for work in works:
            assert work.wait()
            assert work.is_completed() and work.is_success() and work.exception() is None
        assert all(future.wait() is not None for future in futures)
        with pytest.raises(TimeoutError):
            group.recv([torch.empty(1)], other, 9).wait(timedelta(milliseconds=10))
        group.barrier()  # neither sends before both have given up
        group.send([torch.zeros(1)], other, 9).wait()
        return [tensor[0].item() for tensor in tensors]

    assert ranks(2, call) == [[0.0, 1.0, 2.0, 3.0]] * 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_an_average_of_whole_numbers_is_cut_towards_zero_as_nccls_is(dtype: torch.dtype) -> None:
    def call(group: SharedProcessGroup) -> list[int]:
        tensor = torch.tensor([5, 7, -4 if dtype.is_signed else 4]).to(dtype) + group.rank()
        group.allreduce([tensor], with_options(AllreduceOptions, reduceOp=dist.ReduceOp.AVG))
        return tensor.tolist()

    assert ranks(2, call) == [[5, 7, -3 if dtype.is_signed else 4]] * 2


def test_groups_of_some_ranks() -> None:
    def call(group: SharedProcessGroup) -> list[Any]:
        part = group.new_group([0, 2], group_name="pair", group_desc="two of three")
        if part is None:
            return []
        tensor = torch.ones(1) * group.rank()
        part.allreduce([tensor]).wait()
        return [tensor.item(), part.rank(), part.size(), part.group_name, part.group_desc, part.name()]

    assert ranks(3, call) == [
        [2.0, 0, 2, "pair", "two of three", "shared"],
        [],
        [2.0, 1, 2, "pair", "two of three", "shared"],
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: g.recv_anysource([torch.zeros(1)]), "recv() from any rank: name the rank"),
        (lambda g: g.allreduce([torch.zeros(1, device="meta")]), "a tensor on meta: move it"),
        (lambda g: g.allreduce([torch.zeros(2, 2).to_sparse()]), "layout torch.sparse_coo: make it dense"),
        (lambda g: g.allreduce([torch.zeros(1).to(torch.float8_e5m2)]), "the reduction sum of torch.float8_e5m2"),
        (
            lambda g: g.allreduce(
                [torch.zeros(1)], with_options(AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(2.0))
            ),
            "the reduction",
        ),
    ],
)
def test_what_it_does_not_do_is_refused_by_name(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(NotImplementedError) as told:
        ranks(1, call)
    assert "the backend 'shared' cannot do" in str(told.value)
    assert words in str(told.value)


def test_the_backend_is_for_ranks_of_a_trainer() -> None:
    with pytest.raises(RuntimeError, match="which have the group by then"):
        dist.init_process_group("shared", store=dist.HashStore(), rank=0, world_size=1)
