"""Ranks with GPUs: which backend they have, where their models lie, `%ranks --gpus`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kernels import Kernel, error
from support.strips import text

from cellmesh import train, tune

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]


def loop(config: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    torch.manual_seed(1)
    model = train.torch.prepare_model(torch.nn.Linear(4, 1))
    device = train.torch.get_device()
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    loader = train.torch.prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=16))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in loader:
        assert x.device == device
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
    total = torch.ones(1000, device=device) * (dist.get_rank() + 1)
    dist.all_reduce(total)
    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.environ["CUDA_VISIBLE_DEVICES"])
    train.report(
        backend=dist.get_backend(),
        device=str(device),
        total=float(total.mean()),
        names=names,
        loss=float(loss.detach()),
    )


def test_a_rank_with_a_gpu_has_nccl(torch: Any) -> None:
    result = train.TorchTrainer(loop, config={}, scaling_config=train.ScalingConfig(use_gpu=True), verbose=0).fit()
    found = result.metrics
    assert (found["backend"], found["device"], found["total"], found["names"]) == ("nccl", "cuda:0", 1.0, ["0"])
    on_cpu = train.TorchTrainer(loop, config={}, verbose=0).fit().metrics
    assert (on_cpu["backend"], on_cpu["device"]) == ("shared", "cpu")
    assert found["loss"] == pytest.approx(on_cpu["loss"], rel=1e-4)


def test_ranks_that_share_a_gpu_have_gloo(torch: Any) -> None:
    result = train.TorchTrainer(loop, config={}, num_workers=2, resources={"cpu": 1, "gpu": 0.5}, verbose=0).fit()
    found = result.metrics
    assert (found["backend"], found["device"], found["names"]) == ("gloo", "cuda:0", ["0", "0"])
    assert found["total"] == pytest.approx(3.0)


def test_shared_memory_is_not_for_tensors_of_a_gpu(torch: Any) -> None:
    def reduce() -> None:
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.ones(3, device="cuda"))

    scaling = train.ScalingConfig(use_gpu=True)
    with pytest.raises(train.TrainingFailedError, match="nccl"):
        train.TorchTrainer(reduce, scaling_config=scaling, backend="shared", verbose=0).fit()


def test_trials_share_a_gpu(torch: Any) -> None:
    def trial(config: dict[str, Any]) -> None:
        import torch

        tune.report(score=float(torch.full((8,), config["x"], device="cuda").sum()))

    search = tune.Tuner(
        trial, {"x": tune.grid_search([1.0, 2.0, 3.0, 4.0])}, metric="score", resources={"cpu": 0, "gpu": 0.25}
    ).fit()
    assert [result.metrics["score"] for result in search] == [8.0, 16.0, 24.0, 32.0]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    started = Kernel(tmp_path)
    yield started
    started.close()


def test_a_cell_in_a_rank_with_a_gpu(kernel: Kernel) -> None:
    kernel.run("%load_ext cellmesh\n%mesh init --num-cpus 2", 60)
    assert "one for each rank" in error(kernel, "%ranks 2 --backend nccl --gpus 0.5")[1]
    kernel.run("%ranks 1 --gpus 1 --backend nccl", 120)
    kernel.run("%%ranks\nimport torch, torch.distributed as dist", 60)
    shown = text(
        kernel,
        kernel.run("%%ranks\nx = torch.ones(4, device=device)\ndist.all_reduce(x)\n(device, x.sum().item())", 60),
    )
    assert "('cuda:0', 4.0)" in shown
    kernel.run("%ranks stop")
