"""GPUs as resources: who sees them, what becomes of their memory, tensors that travel, errors of CUDA."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.util.preloading import preload

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares, and of CUDA"),
    pytest.mark.may_keep("descriptors", "of CUDA, which a process opens once"),
]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _cuda_is_up(torch: Any) -> None:
    """What CUDA opens in this process is there before any test looks at what it leaves."""
    torch.zeros(1, device="cuda")


@cm.remote(num_gpus=1)
def on_gpu(function: Any, *args: Any) -> Any:
    return function(*args)


@cm.remote
def elsewhere(function: Any, *args: Any) -> Any:
    return function(*args)


def seen() -> tuple[str, list[str], int, str]:
    import torch

    return os.environ["CUDA_VISIBLE_DEVICES"], cm.get_gpu_ids(), torch.cuda.device_count(), torch.__version__


def test_the_session_has_the_gpus_of_the_machine(torch: Any) -> None:
    assert cm.cluster_resources()["GPU"] == torch.cuda.device_count()


def test_a_task_sees_the_gpu_that_it_has_asked_for_and_others_see_none(torch: Any) -> None:
    mine, ids, n_devices, version = cm.get(on_gpu.remote(seen))
    assert [mine] == ids and n_devices == 1 and version == torch.__version__
    assert cm.get(elsewhere.remote(seen))[:3] == ("", [], 0)


def test_torch_is_warm_in_a_task_with_a_gpu() -> None:
    def product() -> tuple[bool, float]:
        was_there = "torch" in sys.modules
        import torch

        return was_there, float((torch.ones(256, 256, device="cuda") @ torch.ones(256, 256, device="cuda")).sum())

    preload("torch")
    wait_until(lambda: cm.get(on_gpu.remote(product))[0], 60)
    assert cm.get(on_gpu.remote(product)) == (True, 256.0**3)


def test_a_tasks_memory_on_the_gpu_is_free_after_it(torch: Any) -> None:
    def fill() -> int:
        import torch

        kept = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
        globals()["kept_by_a_task"] = kept
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    free = cm.get(on_gpu.remote(fill))
    wait_until(lambda: torch.cuda.mem_get_info()[0] > free + 500 * MIB, 20)


def test_tensors_of_a_gpu_travel(torch: Any) -> None:
    def twice(tensor: Any) -> Any:
        assert tensor.is_cuda
        return tensor * 2

    given = torch.arange(1000, device="cuda")
    ref = on_gpu.remote(twice, given)
    got = cm.get(ref)
    assert got.is_cuda and torch.equal(got, given * 2)
    assert torch.equal(cm.get(on_gpu.remote(twice, ref)), given * 4)


def test_a_tensor_of_a_gpu_where_there_is_none_is_an_error_that_says_so(torch: Any) -> None:
    with pytest.raises(RuntimeError, match="num_gpus=1 reserves one"):
        cm.get(elsewhere.remote(type, torch.ones(3, device="cuda")))


def test_parts_of_a_gpu() -> None:
    @cm.remote(num_gpus=0.5, num_cpus=0)
    class Half:
        def __init__(self) -> None:
            import torch

            self.weights = torch.ones(4, device="cuda")

        def where(self) -> tuple[str, float]:
            return os.environ["CUDA_VISIBLE_DEVICES"], float(self.weights.sum())

    halves = [Half.remote() for _ in range(2)]
    assert [cm.get(half.where.remote()) for half in halves] == [("0", 4.0)] * 2
    for half in halves:
        cm.kill(half)


def test_the_memory_of_an_actor_is_free_after_its_end(torch: Any) -> None:
    @cm.remote(num_gpus=1)
    class Model:
        def __init__(self) -> None:
            import torch

            self.weights = torch.ones(128 * MIB, device="cuda")

        def free(self) -> int:
            import torch

            return torch.cuda.mem_get_info()[0]

    model = Model.remote()
    free = cm.get(model.free.remote())
    cm.kill(model)
    wait_until(lambda: torch.cuda.mem_get_info()[0] > free + 500 * MIB, 20)


def test_what_does_not_fit_on_the_gpu_is_torchs_own_error(torch: Any) -> None:
    def too_much() -> Any:
        import torch

        return torch.empty(1 << 50, dtype=torch.uint8, device="cuda")

    with pytest.raises(torch.cuda.OutOfMemoryError, match="out of memory"):
        cm.get(on_gpu.remote(too_much))


def test_a_kernel_that_fails_does_not_harm_the_next_task(torch: Any) -> None:
    def out_of_range() -> None:
        import torch

        torch.zeros(2, device="cuda")[torch.tensor([7], device="cuda")].sum().item()

    with pytest.raises(RuntimeError, match="device-side assert"):
        cm.get(on_gpu.remote(out_of_range))
    assert cm.get(on_gpu.remote(seen))[2] == 1


def test_a_task_that_waits_for_its_gpu_is_cancelled(torch: Any) -> None:
    def spin() -> None:
        import torch

        print("begun", flush=True)
        while True:
            torch.cuda._sleep(10_000_000)
            torch.cuda.synchronize()

    ref = on_gpu.remote(spin)
    wait_until(lambda: cm.available_resources().get("GPU", 0) == 0)
    cm.cancel(ref)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(ref)
    assert cm.get(on_gpu.remote(seen))[2] == 1
