"""The collectives, with threads as ranks: the bits of results, whatever the size, the dtype and the number of ranks."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.waiting import wait_until

from cellmesh.train.collective import CollectiveMemory, Communicator
from cellmesh.train.exceptions import CollectiveMismatchError, GroupBrokenError
from cellmesh.train.reductions import REDUCTIONS
from cellmesh.train.rounds import HEADER_BYTES, waits_in_parts

pytestmark = pytest.mark.usefixtures("session")

WHOLE = ["bool", "int8", "uint16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64", "complex64"]
OTHERS = ["U3", "S5", "datetime64[s]", "i4,f8"]
SLOT = 512  # small, so that small arrays take several rounds

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ranks(n: int, call: Callable[[Communicator], Any], slot_bytes: int = SLOT) -> list[Any]:
    """What `call` returns on each rank, or the error that it raises."""
    memory = CollectiveMemory(n, slot_bytes)

    def one(rank: int) -> Any:
        try:
            with Communicator(memory, rank) as comm:
                return call(comm)
        except Exception as error:
            return error

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


def values(n: int, shape: Any, dtype: str, seed: int) -> list[np.ndarray]:
    """An array for each rank, of any bits that a number of this dtype may have and that are no NaN."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "biu":
        return [rng.integers(0, 100, shape).astype(kind) for _ in range(n)]
    if kind.kind in "fc":
        return [(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(kind) for _ in range(n)]
    return [rng.integers(65, 90, (*np.atleast_1d(shape), kind.itemsize), np.uint8).view(kind)[..., 0] for _ in range(n)]


def bits(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


sizes = st.one_of(st.integers(0, 9), st.sampled_from([127, 128, 129, 511, 513, 1000]))
some = st.integers(0, 1 << 20)
OPS = {
    **dict.fromkeys(FLOATS, ("sum", "avg", "product", "min", "max")),
    **dict.fromkeys(WHOLE, ("sum", "product", "min", "max", "band", "bor", "bxor")),
}
typed_ops = st.sampled_from([(dtype, op) for dtype, ops in OPS.items() for op in ops])


def in_order(arrays: list[np.ndarray], op: str) -> np.ndarray:
    """The plain loop over ranks."""
    total = functools.reduce(lambda a, b: REDUCTIONS[op].combine(a, b, out=np.empty_like(a)), arrays)
    return (total / len(arrays)).astype(total.dtype) if op == "avg" else total


@quick
@given(st.integers(1, 8), sizes, typed_ops, some)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reductions_are_those_of_a_loop_over_ranks_bit_by_bit(
    n: int, size: int, typed_op: tuple[str, str], seed: int
) -> None:
    dtype, op = typed_op
    given = values(n, size, dtype, seed)
    whole = values(n, n * size, dtype, seed + 1)

    def call(comm: Communicator) -> list[np.ndarray]:
        array, kept, part = given[comm.rank].copy(), given[comm.rank].copy(), np.empty(size, dtype)
        comm.all_reduce(array, op)
        comm.reduce(kept, n - 1, op)
        comm.reduce_scatter(part, whole[comm.rank], op)
        return [array, kept, part]

    with np.errstate(all="ignore"):
        expected, scattered = in_order(given, op), in_order(whole, op)
        for rank, (array, kept, part) in enumerate(ranks(n, call)):
            assert bits(array) == bits(expected)
            assert bits(kept) == bits(expected if rank == n - 1 else given[rank])
            assert bits(part) == bits(scattered[rank * size : (rank + 1) * size])


@quick
@given(st.integers(1, 6), sizes, st.sampled_from(WHOLE + FLOATS + OTHERS), some)
def test_what_is_moved_arrives_as_it_was(n: int, size: int, dtype: str, seed: int) -> None:
    given, whole = values(n, size, dtype, seed), values(n, n * size, dtype, seed + 1)
    root = seed % n

    def call(comm: Communicator) -> list[np.ndarray]:
        me = comm.rank
        one, all_of, gathered, part, turned = (np.zeros(k, dtype) for k in (size, n * size, n * size, size, n * size))
        if me == root:
            one[:] = given[me]
        comm.broadcast(one, root)
        comm.all_gather(all_of, given[me])
        comm.gather(gathered if me == root else None, given[me], root)
        comm.scatter(part, whole[me] if me == root else None, root)
        comm.all_to_all(turned, whole[me])
        return [one, all_of, part, turned, gathered]

    for rank, (one, all_of, part, turned, gathered) in enumerate(ranks(n, call)):
        mine = slice(rank * size, (rank + 1) * size)
        assert bits(one) == bits(given[root])
        assert bits(all_of) == bits(np.concatenate(given))
        assert bits(part) == bits(whole[root][mine])
        assert bits(turned) == bits(np.concatenate([array[mine] for array in whole]))
        if rank == root:
            assert bits(gathered) == bits(np.concatenate(given))


@quick
@given(st.integers(1, 5), st.data())
def test_all_to_all_with_counts_of_its_own(n: int, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.lists(st.integers(0, 70), min_size=n, max_size=n), min_size=n, max_size=n))
    sent = [np.arange(sum(row)) + 1000 * i for i, row in enumerate(counts)]

    def call(comm: Communicator) -> np.ndarray:
        takes = [row[comm.rank] for row in counts]
        out = np.zeros(sum(takes), int)
        comm.all_to_all(out, sent[comm.rank], takes, counts[comm.rank])
        return out

    for rank, out in enumerate(ranks(n, call)):
        pieces = [np.split(array, np.cumsum(row)[:-1])[rank] for array, row in zip(sent, counts, strict=True)]
        assert out.tolist() == np.concatenate(pieces).tolist()


@pytest.mark.parametrize("order", ["C", "F", "step"])
def test_any_layout(order: str) -> None:
    def call(comm: Communicator) -> np.ndarray:
        array = np.arange(120.0).reshape(4, 30)
        array = {"C": array, "F": np.asfortranarray(array), "step": array[::2, ::3]}[order]
        comm.all_reduce(array)
        return array

    array = np.arange(120.0).reshape(4, 30)
    expected = 3 * (array[::2, ::3] if order == "step" else array)
    assert all((found == expected).all() for found in ranks(3, call))


def test_messages_go_both_ways_at_once_and_in_order() -> None:
    def call(comm: Communicator) -> list[int]:
        other, got = 1 - comm.rank, []
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(lambda: [comm.send(np.full(20_000, i + comm.rank), other, tag=i) for i in range(5)])
            for i in range(5):
                array = np.zeros(20_000, int)
                comm.recv(array, other, tag=i)
                got += sorted(set(array.tolist()))
            sending.result()
        return got

    assert ranks(2, call) == [[1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]


def test_groups_of_some_ranks() -> None:
    def call(comm: Communicator) -> list[float]:
        found = []
        for members in ([2, 0], [1], [0, 1, 2]):
            part = comm.split(members)
            if part is not None:
                array = np.array([10.0**comm.rank])
                part.all_reduce(array)
                found.append(array[0])
        return found

    assert ranks(3, call) == [[101, 111], [10, 111], [101, 111]]


# ---- what goes wrong
def different_shapes(comm: Communicator) -> None:
    comm.all_reduce(np.zeros((3, 1 + comm.rank), np.float32))


def different_dtypes(comm: Communicator) -> None:
    comm.all_reduce(np.zeros(2, [np.float32, np.int64][comm.rank]))


def different_reductions(comm: Communicator) -> None:
    comm.all_reduce(np.zeros(100_000), ["sum", "max"][comm.rank])


def different_collectives(comm: Communicator) -> None:
    comm.barrier() if comm.rank else comm.broadcast(np.zeros(4))


def different_roots(comm: Communicator) -> None:
    comm.broadcast(np.zeros(4), comm.rank)


def one_more(comm: Communicator) -> None:
    for _ in range(1 + comm.rank):
        comm.barrier()
    comm.all_reduce(np.zeros(3))


def different_messages(comm: Communicator) -> None:
    comm.recv(np.zeros(3), 0) if comm.rank else comm.send(np.zeros(3, int), 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (different_shapes, ["rank 0: all_reduce(sum) of float32 (3, 1)", "rank 1: all_reduce(sum) of float32 (3, 2)"]),
        (different_dtypes, ["rank 0: all_reduce(sum) of float32 (2,)", "rank 1: all_reduce(sum) of int64 (2,)"]),
        (different_reductions, ["all_reduce(sum) of float64 (100000,)", "all_reduce(max)"]),
        (different_collectives, ["rank 0: broadcast from rank 0 of float64 (4,)", "rank 1: barrier"]),
        (different_roots, ["broadcast from rank 0", "broadcast from rank 1"]),
        (one_more, ["rank 0: all_reduce(sum) of float64 (3,)", "rank 1: barrier"]),
        (different_messages, ["int64 (3,)", "float64 (3,)"]),
    ],
)
def test_ranks_that_do_not_agree_all_learn_of_it(call: Callable[[Communicator], None], words: list[str]) -> None:
    for error in ranks(2, call):
        assert isinstance(error, CollectiveMismatchError)
        assert all(word in str(error) for word in words), str(error)


def test_counts_that_do_not_fit() -> None:
    def call(comm: Communicator) -> None:
        takes = [2, 2] if comm.rank else [1, 3]
        comm.all_to_all(np.zeros(4), np.zeros(4), takes)

    for error in ranks(2, call):
        assert "rank 0 sends 2 elements to rank 0, which expects 1" in str(error)


def test_a_rank_that_raises_ends_the_waiting_of_the_others() -> None:
    def call(comm: Communicator) -> None:
        comm.barrier()
        if comm.rank == 1:
            raise ZeroDivisionError("mine")
        comm.all_reduce(np.zeros(3))

    first, second, third = ranks(3, call)
    assert isinstance(second, ZeroDivisionError)
    for error in (first, third):
        assert type(error) is GroupBrokenError
        assert "all_reduce(sum) of float64 (3,) cannot be done" in str(error)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.all_reduce(np.zeros(1), "mean"), ValueError, "op='mean'"),
        (lambda c: c.all_reduce(np.zeros(1, int), "avg"), TypeError, "op='avg' of an array of int64"),
        (lambda c: c.all_reduce(np.zeros(1), "band"), TypeError, "op='band' of an array of float64"),
        (lambda c: c.all_reduce(np.array([None])), TypeError, "an array of object cannot be sent"),
        (lambda c: c.all_reduce(np.broadcast_to(1.0, 3)), ValueError, "read-only"),
        (lambda c: c.broadcast(np.zeros(1), 1), ValueError, "root)=1: the group has ranks 0 to 0"),
        (lambda c: c.send(np.zeros(1), 0), ValueError, "this is rank 0 itself"),
        (lambda c: c.all_gather(np.zeros(3), np.zeros(2)), ValueError, "all_gather(out) is float64 (3,): 1 times"),
        (lambda c: c.gather(None, np.zeros(2)), TypeError, "gather(out) is None, and this is the root"),
        (lambda c: c.all_to_all(np.zeros(3), np.zeros(3), [2]), ValueError, "out_counts=[2]"),
        (lambda c: c.split([0, 0]), ValueError, "split([0, 0])"),
        (lambda c: CollectiveMemory(0), ValueError, "1 to 64 ranks"),
        (lambda c: CollectiveMemory(2, 0), ValueError, "slot_bytes=0"),
        (lambda c: Communicator(CollectiveMemory(1), 1), ValueError, "rank=1"),
    ],
)
def test_bad_input(call: Callable[[Communicator], None], kind: type[Exception], words: str) -> None:
    (error,) = ranks(1, call)
    assert isinstance(error, kind)
    assert words in str(error)


def test_who_waits_in_which_collective_is_seen_from_outside() -> None:
    memory, may_come = CollectiveMemory(3, SLOT), threading.Event()

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            comm.barrier()
            if rank == 1:
                may_come.wait()
            comm.all_reduce(np.ones(200))
            comm.barrier("the end")

    assert memory.waits() == {}
    with ThreadPoolExecutor(3) as pool:
        ends = [pool.submit(one, rank) for rank in range(3)]
        try:
            wait_until(lambda: memory.waits() == dict.fromkeys([0, 2], (2, "all_reduce(sum) of float64 (200,)")))
        finally:
            may_come.set()
        for end in ends:
            end.result()
    assert memory.waits() == {} and not memory.broken
    memory.abort()
    assert memory.broken


def check_waits(
    memory: CollectiveMemory, one: Callable[[int], None], may_come: threading.Event, waits: dict[int, tuple[int, str]]
) -> None:
    """What is seen from outside of three ranks until who is missing may come, and then nothing."""
    with ThreadPoolExecutor(3) as pool:
        ends = [pool.submit(one, rank) for rank in range(3)]
        try:
            wait_until(lambda: memory.waits() == waits)
        finally:
            may_come.set()
        for end in ends:
            end.result()
    assert memory.waits() == {}


def test_who_waits_for_the_other_end_of_a_message_is_seen_from_outside() -> None:
    memory, may_come = CollectiveMemory(3, SLOT), threading.Event()

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            if rank == 1:
                may_come.wait()
                comm.recv(np.zeros(200), 2, tag=7)
            elif rank == 2:
                comm.send(np.ones(200), 1, tag=7)
            comm.barrier()

    check_waits(memory, one, may_come, {0: (1, "barrier"), 2: (1, "message 7 from rank 2 to 1 of float64 (200,)")})


def test_who_waits_in_a_part_of_the_group_is_seen_from_outside() -> None:
    memory, may_come = CollectiveMemory(3, SLOT), threading.Event()

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            part = comm.split([2, 0])
            if part is not None:
                part.barrier()
                if rank == 2:
                    may_come.wait()
                part.all_reduce(np.ones(2))
            comm.barrier()

    check_waits(memory, one, may_come, {0: (2, "all_reduce(sum) of float64 (2,) of the ranks 2,0"), 1: (1, "barrier")})


def test_who_waits_for_a_message_in_a_part_of_the_group_is_seen_from_outside() -> None:
    memory, may_come = CollectiveMemory(3, SLOT), threading.Event()

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            part = comm.split([2, 0])
            if part is not None:
                array = np.ones(2)
                if rank == 2:
                    part.send(array, 1)
                    may_come.wait()
                    part.send(array, 1, tag=5)
                else:
                    part.recv(array, 0)
                    part.recv(array, 0, tag=5)
            comm.barrier()

    check_waits(memory, one, may_come, {0: (2, "message 5 from rank 2 to 0 of float64 (2,)"), 1: (1, "barrier")})


def test_in_a_part_of_which_all_have_come_nobody_waits() -> None:
    notes = np.zeros((3, HEADER_BYTES), np.uint8)

    def say(rank: int, text: bytes) -> None:
        notes[rank] = np.frombuffer(text.ljust(HEADER_BYTES, b"\0"), np.uint8)

    say(0, b"a 0,2 4 barrier")
    assert waits_in_parts(notes) == {0: ((4, "barrier"), "0,2")}
    say(2, b"a 0,2 4 barrier")
    assert waits_in_parts(notes) == {}
    say(2, b"b 0,2 4 barrier")
    assert waits_in_parts(notes).keys() == {0, 2}, "they are in different parts"


def test_when_ranks_are_in_collectives_is_noted_while_somebody_looks() -> None:
    memory = CollectiveMemory(2, SLOT)
    come = threading.Event()

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            comm.barrier("nobody looks")
            memory.times.watched[0] = True
            if rank:
                assert come.wait(30)
            comm.all_reduce(np.ones(3))
            comm.barrier()

    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(one, rank) for rank in range(2)]
        wait_until(lambda: memory.times.begun[0] == 1, what="rank 0 in its collective")
        waits = memory.times.records[0, 0].copy()
        come.set()
        for each in ended:
            each.result()
    assert (waits["ended"], waits["what"]) == (0, b"all_reduce(sum) of float64 (3,)")
    assert memory.times.records["calls"].sum() == 4  # not those before somebody looked
    assert (memory.times.records["ended"][:, 0] >= waits["began"]).all()


def test_a_collective_that_is_broken_off_has_an_end() -> None:
    memory = CollectiveMemory(2, SLOT)
    memory.times.watched[0] = True

    def one(rank: int) -> None:
        with Communicator(memory, rank) as comm:
            comm.barrier() if rank else comm.broadcast(np.ones(1))

    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(one, rank) for rank in range(2)]
    assert all(isinstance(each.exception(), CollectiveMismatchError) for each in ended)
    assert (memory.times.records["ended"][:, 0] > 0).all()
