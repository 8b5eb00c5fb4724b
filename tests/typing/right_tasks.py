"""Remote functions as they may be written: no checker may object, and the types are these."""
from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from functools import partial
from typing import Any, assert_type

import cellmesh as cm
import numpy as np
from cellmesh.util import Executor
from cellmesh.util.multiprocessing import Pool
from cellmesh.util.shared_sync import Barrier, Condition, Counter
from numpy.typing import NDArray


@cm.remote
def scale(x: int, by: float = 1.0, *, label: str = "") -> float:
    return x * by


@cm.remote()
def bare() -> None:
    pass


@cm.remote(num_cpus=2, max_retries=0, retry_exceptions=[ValueError], resources={"disk": 1}, runtime_env={"env_vars": {"A": "b"}})
def load(path: str) -> dict[str, int]:
    return {path: 1}


@cm.remote(name="total", scheduling_strategy="SPREAD", num_gpus=None)
def total(*parts: float) -> float:
    return sum(parts)


@cm.remote
def train(data: dict[str, int], epochs: int = 1, *, rate: float = 0.1, **more: str) -> list[float]:
    return [rate] * epochs


@cm.remote
def whatever(x: int) -> Any:
    return x


@cm.remote(num_cpus=1)
def whatever_else(x: int) -> Any:
    return x


@cm.remote
def seven(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> int:
    return a + b + c + d + e + f + g


@cm.remote
def untyped(x, y=1):  # type: ignore[no-untyped-def]
    return x + y


@cm.remote
def fails() -> float:
    raise ValueError("always")


def plain(n: int) -> list[int]:
    return list(range(n))


def calls() -> None:
    assert_type(scale.remote(2), cm.ObjectRef[float])
    scale.remote(2, 3)
    scale.remote(2, by=3.0, label="x")
    scale.remote(x=2)
    assert_type(bare.remote(), cm.ObjectRef[None])
    assert_type(load.remote("a"), cm.ObjectRef[dict[str, int]])
    total.remote()
    total.remote(1, 2.5)
    total.remote(*[1.0, 2.0])
    train.remote({}, 2, rate=0.2, other="x")
    train.remote(**{"data": {}, "epochs": 2})
    seven.remote(1, 2, 3, 4, 5, 6, 7)
    untyped.remote(1)
    fails.remote()
    assert_type(cm.remote(plain).remote(3), cm.ObjectRef[list[int]])
    assert_type(cm.remote(num_cpus=1)(plain).remote(3), cm.ObjectRef[list[int]])
    cm.remote(len).remote([1])
    cm.remote(lambda x: x).remote(1)
    assert_type(scale.function(2), float)


def refs_in_place_of_values(flag: bool) -> None:
    number = cm.put(2)
    assert_type(number, cm.ObjectRef[int])
    data = load.remote("a")
    scale.remote(number)
    scale.remote(number, 1)
    scale.remote(number, scale.remote(1))
    scale.remote(x=number)
    scale.remote(1, by=scale.remote(1), label="x")
    scale.remote(number, label="x")
    scale.remote(number if flag else 2)
    train.remote(data)
    train.remote(data, epochs=3)
    train.remote(data=data, epochs=3, rate=0.2)
    train.remote(data, cm.put(3), other=cm.put("x"))
    total.remote(number, 1)
    total.remote(1, 2, number)
    total.remote(*[scale.remote(i) for i in range(4)])
    total.remote(1, *[scale.remote(i) for i in range(4)])
    seven.remote(number, number, 3, 4, 5, 6, number)
    seven.remote(1, 2, 3, 4, 5, f=number, g=number)
    untyped.remote(number, y=data)
    anything = [number, data]
    untyped.remote(anything)


def of_any_type(count: int) -> None:
    cm.get(whatever.remote(1))
    cm.get([whatever.remote(1), whatever_else.remote(2)]).sort()
    scale.remote(whatever.remote(1))
    for ref in scale.options(num_returns=count).remote(1):
        cm.get(ref)
    assert_type(scale.options(num_returns=3).remote(1), list[cm.ObjectRef[Any]])


def options() -> None:
    again = scale.options(num_cpus=0.5, name="again", max_retries=None)
    assert_type(again.remote(1), cm.ObjectRef[float])
    scale.options(priority=3, max_in_flight=2, rate_limit="10/s", retry_delay=(1, 60.0), timeout=2.5, keep_frames=True, readonly=True).remote(1)
    scale.options(label_selector={"zone": "eu"}, memory=1 << 20, max_calls=3).remote(cm.put(1), label="x")
    scale.options(scheduling_strategy=cm.util.NodeAffinitySchedulingStrategy("a", soft=True)).remote(1)


def values() -> None:
    ref = scale.remote(1)
    assert_type(cm.get(ref), float)
    assert_type(cm.get(ref, timeout=3), float)
    assert_type(cm.get([ref, ref]), list[float])
    assert_type(cm.get([scale.remote(i) for i in range(3)], timeout=1.5), list[float])
    mixed: list[Any] = [ref, bare.remote()]
    cm.get(mixed)
    one, other = cm.get([scale.remote(1), load.remote("a")])
    for value in cm.get([number for number in (cm.put(1), cm.put(2))]):
        assert_type(value, int)
    assert_type(cm.get(cm.put(np.zeros(3))).shape, tuple[int])
    array: np.ndarray[Any, Any] = cm.get(cm.put(np.zeros((3, 3))))
    nested: list[cm.ObjectRef[int]] = cm.get(cm.put([cm.put(1)]))
    wider: cm.ObjectRef[float | str] = ref
    several: list[cm.ObjectRef[object]] = [ref, wider, cm.put(array), *nested]
    ready, rest = cm.wait([ref, scale.remote(2)], num_returns=1, timeout=1)
    assert_type(ready, list[cm.ObjectRef[float]])
    assert_type(cm.get(rest), list[float])
    cm.wait(several)
    for done in cm.as_completed([ref], timeout=2):
        assert_type(done, cm.ObjectRef[float])
    cm.cancel(ref, force=True)
    cm.cancel(ref, recursive=False)
    assert_type(ref.future().result(), float)
    assert_type(ref.hex(), str)
    assert one == other or {ref: 1}[ref]


def sequences(refs: Sequence[cm.ObjectRef[int]], several: tuple[cm.ObjectRef[int], ...]) -> None:
    assert_type(cm.get(refs), Sequence[int])
    assert_type(cm.get(several, return_exceptions=True), tuple[int | BaseException, ...])


def containers() -> None:
    ref, text = scale.remote(1), cm.put("x")
    assert_type(cm.get((ref, text)), tuple[float, str])
    assert_type(cm.get((ref, text, ref)), tuple[float, str, float])
    assert_type(cm.get(tuple([ref, ref])), tuple[float, ...])
    assert_type(cm.get({"a": ref, "b": ref}), dict[str, float])
    assert_type(cm.get({1: [ref], 2: [ref, ref]}), dict[int, list[float]])
    assert_type(cm.get([[ref], [ref]]), list[list[float]])
    deep: dict[str, list[dict[str, float]]] = cm.get({"a": [{"b": ref}]})
    for value in cm.get([text, text], return_exceptions=True):
        if not isinstance(value, BaseException):
            assert_type(value, str)
    assert_type(cm.get(ref, return_exceptions=True), float | BaseException)
    ready, rest = cm.wait({"a": ref, "b": ref}, num_returns=2)
    assert_type(ready, list[cm.ObjectRef[float]])
    cm.wait(ref)
    cm.wait((ref, ref))
    cm.wait({ref}, timeout=0)
    cm.wait([[ref], {"a": text}], num_returns=2)
    cm.cancel([ref, text])
    cm.cancel({"a": [ref], "b": (text, ref)})
    cm.cancel({ref, ref})
    for done in cm.as_completed({"a": ref}):
        assert_type(done, cm.ObjectRef[float])
    for done in cm.as_completed(each for each in rest):
        assert_type(done, cm.ObjectRef[float])
    for done, number in cm.as_completed([ref], with_results=True):
        assert_type(done, cm.ObjectRef[float])
        assert_type(number, float)
    for done, outcome in cm.as_completed([ref], 3, with_results=True, return_exceptions=True):
        assert_type(outcome, float | BaseException)
    for every in cm.as_completed([[ref], [text]]):
        print(every, deep)


def refs_as_futures() -> None:
    ref = scale.remote(1)
    assert_type(ref.result(), float)
    assert_type(ref.result(timeout=1), float)
    assert_type(ref.exception(), BaseException | None)
    assert_type(ref.done() or ref.running() or ref.cancelled() or ref.cancel(), bool)

    def tell(done: cm.ObjectRef[float]) -> None:
        print(done.result())

    ref.add_done_callback(tell)
    ref.add_done_callback(print)


async def many() -> None:
    results = scale.map(range(3))
    for value in results:
        assert_type(value, float)
    for value in scale.map([1, cm.put(2)], [2.0, 3.0], chunksize=2, ordered=False, kwargs={"label": "x"}):
        assert_type(value, float)
    async for line in load.map(["a", "b"], timeout=3):
        assert_type(line, dict[str, int])
    for number in seven.map(*[range(3)] * 7, buffersize=9):
        assert_type(number, int)
    for outcome in load.map(["a"], return_exceptions=True):
        assert_type(outcome, dict[str, int] | BaseException)
    for value in scale.starmap([(1, 2.0)], chunksize=1):
        assert_type(value, float)
    with cm.task_group() as group:
        assert_type(group.submit(scale, 1), cm.ObjectRef[float])
        assert_type(group.submit(scale.options(num_cpus=1), x=cm.put(1)), cm.ObjectRef[float])
        assert_type(group.add(scale.remote(1)), cm.ObjectRef[float])
        assert_type(group.submit(count, 1), cm.ObjectRefGenerator[int])
    async with cm.task_group() as other:
        other.submit(bare)
    assert_type(cm.retry(scale.remote(1)), cm.ObjectRef[float])
    assert_type(cm.retry([scale.remote(1)]), list[cm.ObjectRef[float]])
    periodic = cm.every(60, load, "a", overlap=True)
    cm.get(periodic.last)
    periodic.cancel()
    cm.remote(partial(plain, 3)).remote()
    cm.remote("a".join).remote(["b"])
    cm.remote(np.sin).remote(1.0)


async def awaited() -> None:
    assert_type(await scale.remote(1), float)
    async for done in cm.as_completed([scale.remote(1)]):
        assert_type(await done, float)


# ---- several results, none, and streams

@cm.remote(num_returns=2)
def halves(n: int) -> tuple[int, str]:
    return n // 2, str(n)


@cm.remote(num_returns=0)
def forgets(n: int) -> None:
    pass


@cm.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@cm.remote(generator_backpressure_num_objects=2, num_cpus=1)
def generate(n: int) -> Generator[str, None, int]:
    yield str(n)
    return n


@cm.remote(num_returns="streaming")
def stream(n: int) -> Iterator[bytes]:
    yield bytes(n)


@cm.remote(num_returns="dynamic")
def dynamic(n: int) -> Iterator[int]:
    yield n


@cm.remote
async def ticks(n: int) -> AsyncIterator[float]:
    yield 1.0


async def streams(n: int) -> None:
    first, second = halves.remote(3)
    number: int = cm.get(first)
    text: str = cm.get(second)
    scale.remote(first, label=text)
    assert_type(forgets.remote(number), None)
    items = count.remote(cm.put(3))
    assert_type(items, cm.ObjectRefGenerator[int])
    for item in items:
        assert_type(cm.get(item), int)
    assert_type(next(count.remote(1)), cm.ObjectRef[int])
    assert_type(items.next(timeout=1), cm.ObjectRef[int])
    assert_type(cm.get(items.completed()), int)
    assert_type(generate.remote(1), cm.ObjectRefGenerator[str])
    assert_type(stream.remote(1), cm.ObjectRefGenerator[bytes])
    async for tick in ticks.remote(2):
        assert_type(await tick, float)
    for inner in cm.get(dynamic.remote(3)):
        cm.get(inner)
    cm.wait([items, scale.remote(1)])
    cm.wait([items])
    cm.cancel(items)
    items.close()
    for each in cm.get(scale.options(num_returns=n).remote(1)):
        print(each)
    assert_type(halves.options(num_returns=1).remote(3), cm.ObjectRef[tuple[int, str]])
    assert_type(scale.options(num_returns=0).remote(3), None)


# ---- annotations of one's own

def apply(function: cm.RemoteFunction[[int], float], n: int) -> cm.ObjectRef[float]:
    return function.remote(n)


def names(function: cm.RemoteFunction[..., Any, Any]) -> str:
    return repr(function)


def own() -> None:
    @cm.remote
    def exactly(n: int) -> float:
        return 0.0

    apply(exactly, 2)
    names(scale)
    names(count)


def as_others_have_it() -> None:
    with Executor() as executor:
        assert_type(executor.submit(plain, 3).result(), list[int])
        assert_type(list(executor.map(plain, [1, 2])), list[list[int]])
    pool = Pool(2)
    assert_type(pool.map(plain, [1, 2]), list[list[int]])
    assert_type(pool.apply_async(plain, (3,)).get(), list[int])
    for found in pool.imap_unordered(plain, range(3)):
        assert_type(found, list[int])


# ---- shared memory

@cm.remote
def write(part: NDArray[Any], barrier: Barrier, by: float = 1.0) -> None:
    barrier.wait(timeout=3)


def shared() -> None:
    array = cm.shared_array((3, 4), np.float32)
    assert_type(array, NDArray[Any])
    write.remote(array[1], Barrier(2), 3)
    many = cm.shared_arrays({"w": (3, float), "n": ((2, 2), "int64")})
    assert_type(many, dict[str, NDArray[Any]])
    assert_type(cm.put(array), cm.ObjectRef[NDArray[Any]])
    assert_type(Counter(3).add(), int)
    with Condition() as condition:
        assert_type(condition.wait(0.5), bool)
        condition.notify_all()
