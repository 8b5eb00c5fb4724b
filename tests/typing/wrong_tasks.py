"""Mistakes with remote functions, each at the end of its line: who sees it."""
from __future__ import annotations

from collections.abc import Iterator

import cellmesh as cm
from cellmesh.util.shared_sync import Barrier, Counter


@cm.remote
def scale(x: int, by: float = 1.0, *, label: str = "") -> float:
    return x * by


@cm.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@cm.remote
def total(*parts: float) -> float:
    return sum(parts)


@cm.remote
def seven(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> int:
    return a + b + c + d + e + f + g


@cm.remote(num_cpu=2)  # error: both
def misspelt() -> None:
    pass


@cm.remote(num_cpus="two")  # error: both
def mistyped() -> None:
    pass


@cm.remote(num_returns=0)
def forgets() -> None:
    pass


@cm.remote(lifetime="forever")  # error: both
class Actor:
    pass


def arguments() -> None:
    scale.remote("two")  # error: both
    scale.remote(2, "three")  # error: both
    scale.remote(2, 3, "label")  # error: both
    scale.remote(cm.put("two"))  # error: both
    scale.remote(2, cm.put("three"))  # error: both
    scale.remote([cm.put(2)])  # error: both
    scale.remote("two", label="x")  # error: both
    count.remote("many")  # error: both
    total.remote("part")  # error: both
    total.remote(1, cm.put("part"))  # error: both
    seven.remote(1, 2, 3, 4, 5, "six", 7)  # error: both
    # Refs may be given by keyword, so checkers cannot tell these from valid calls. `.remote` itself can, at once.
    scale.remote()  # error: none
    scale.remote(2, lable="x")  # error: none
    scale.remote(2, label=3)  # error: none


def options() -> None:
    scale.options(num_cpu=2).remote(1)  # error: both
    scale.options(max_restarts=2).remote(1)  # error: both
    scale.options(num_returns="many").remote(1)  # error: both
    scale.options(scheduling_strategy="SPRAED")  # error: both
    cm.remote(num_cpu=2)(len)  # error: both
    cm.remote(3)  # error: both


def many() -> None:
    scale.map(["a"])  # error: both
    scale.map([1], chunksiz=2)  # error: both
    scale.map(1)  # error: both
    for text in scale.map([1]):
        text.upper()  # error: both
    with cm.task_group() as group:
        group.submit(len, [1])  # error: both
    cm.every(60, len, [1])  # error: both
    cm.retry(3)  # error: both


def refs_are_not_values() -> None:
    ref = scale.remote(1)
    ref + 1  # error: both
    ref < 3  # error: both
    ref[0]  # error: both
    for _ in ref:  # error: both
        pass
    round(ref)  # error: both
    value: float = ref  # error: both
    scale.function(cm.put(1))  # error: both
    ref.shape  # error: both
    len(count.remote(3))  # error: both
    forgets.remote().hex()  # error: both
    print(value)


def values() -> None:
    text: str = cm.get(scale.remote(1))  # error: both
    texts: list[str] = cm.get([scale.remote(1)])  # error: both
    wrong: cm.ObjectRef[str] = scale.remote(1)  # error: both
    cm.get(3)  # error: both
    cm.get([1, 2])  # error: both
    cm.get(count.remote(3))  # error: both
    cm.get(scale)  # error: both
    cm.get(scale.remote(1), timeout="long")  # error: both
    words: str = cm.get(next(count.remote(3)))  # error: both
    cm.get({"a": 3})  # error: both
    cm.get({scale.remote(1)})  # error: both
    texts = cm.get((scale.remote(1), scale.remote(2)))  # error: both
    cm.wait([1])  # error: both
    cm.wait({"a": 1})  # error: both
    scale.remote(1).result(timeout="long")  # error: both
    text = scale.remote(1).result()  # error: both
    scale.remote(1).add_done_callback(count)  # error: both
    for _, text in cm.as_completed([scale.remote(1)], with_results=True):  # error: both
        pass
    cm.as_completed([3])  # error: both
    cm.cancel(3)  # error: both
    cm.cancel(scale)  # error: both
    cm.fetch(scale.remote(1))  # error: both
    cm.util.Quueue()  # error: both
    print(text, texts, wrong, words)


def called_directly() -> None:
    scale(2)  # error: both
    scale.remtoe(2)  # error: both


async def awaited() -> None:
    text: str = await scale.remote(1)  # error: both
    for ref in cm.as_completed([scale.remote(1)]):
        text = cm.get(ref)  # error: both
    print(text)


def shared() -> None:
    cm.shared_array("3")  # error: both
    cm.shared_arrays([3])  # error: both
    Barrier()  # error: both
    Counter("1")  # error: both
