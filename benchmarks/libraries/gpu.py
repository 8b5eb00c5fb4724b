"""How fast values reach a GPU: from which memory, and what pinning costs. Needs a CUDA device and torch.

python benchmarks/libraries/gpu.py         prints a table; the median of nine copies of 1 GiB each
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cellmesh as cm

SIZE, ROUNDS = 1 << 30, 9


def seconds(function: Callable[[], Any], rounds: int = ROUNDS) -> float:
    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        function()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def row(what: str, took: float) -> None:
    print(f"| {what} | {took * 1e3:.1f} ms | {SIZE / took / 1e9:.1f} GB/s |", flush=True)


@cm.remote(num_gpus=1)
def in_a_task(array: Any) -> tuple[float, float]:
    target = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    source = torch.from_numpy(array)
    first = seconds(lambda: target.copy_(source), 1)
    return first, seconds(lambda: target.copy_(source))


def main() -> None:
    cm.init(num_cpus=4, object_store_memory=6 << 30)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, 1 GiB a copy\n")
    print("| from | time | |\n| --- | --- | --- |")
    target = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    plain = torch.from_numpy(np.ones(SIZE, np.uint8))
    row("an array of numpy", seconds(lambda: target.copy_(plain)))
    pinned = plain.pin_memory()
    row("the same, pinned by torch", seconds(lambda: target.copy_(pinned, non_blocking=True)))
    array = cm.shared_array(SIZE, "uint8")
    array[:] = 1
    shared = torch.from_numpy(array)
    row("a shared array", seconds(lambda: target.copy_(shared)))
    cudart, check = torch.cuda.cudart(), torch.cuda.check_error
    began = time.perf_counter()
    check(cudart.cudaHostRegister(shared.data_ptr(), SIZE, 0))
    registered = time.perf_counter() - began
    row("the same, pinned where it lies", seconds(lambda: target.copy_(shared, non_blocking=True)))
    began = time.perf_counter()
    check(cudart.cudaHostUnregister(shared.data_ptr()))
    released = time.perf_counter() - began
    ref = cm.put(np.ones(SIZE, np.uint8))
    got = torch.from_numpy(cm.get(ref))
    row("a value of get(), the first time", seconds(lambda: target.copy_(got), 1))
    row("again", seconds(lambda: target.copy_(got)))
    first, again = cm.get(in_a_task.remote(ref))
    row("an argument of a task, the first time", first)
    row("again", again)
    print(f"\nTo pin the shared array takes {registered * 1e3:.0f} ms, to release it {released * 1e3:.0f} ms.")
    cm.shutdown()


if __name__ == "__main__":
    main()
