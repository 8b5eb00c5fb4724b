"""Trainings with torch: N ranks with batches of B are one process with batches of N * B."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import train

torch = pytest.importorskip("torch")  # pip install 'cellmesh[train]'

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]

N_STEPS, BATCH = 4, 3


def data(n: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.arange(n) % 3


def network() -> Any:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)).double()


def optimised(model: Any, kind: str) -> Any:
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), 0.01)
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def alone(n_ranks: int, kind: str) -> list[Any]:
    """The parameters after steps of one process with batches of n_ranks * BATCH."""
    model = network()
    optimizer = optimised(model, kind)
    x, y = data(N_STEPS * BATCH * n_ranks)
    for batch in range(N_STEPS):
        at = slice(batch * BATCH * n_ranks, (batch + 1) * BATCH * n_ranks)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def loop(config: dict[str, Any]) -> None:
    """The same as ranks of a group: DDP, or FSDP, over a loader whose data is divided."""
    c = train.get_context()
    n_ranks, strategy = c.get_world_size(), config["strategy"]
    whole = torch.utils.data.TensorDataset(*data(N_STEPS * BATCH * n_ranks))
    loader = train.torch.prepare_data_loader(torch.utils.data.DataLoader(whole, batch_size=BATCH))
    kept = network()
    if c.get_world_rank() and strategy == "ddp":
        for parameter in kept.parameters():
            parameter.data.zero_()  # those of rank 0 are taken
    options = {"use_orig_params": True} if strategy == "fsdp" else {}
    model = train.torch.prepare_model(kept, parallel_strategy=strategy, parallel_strategy_kwargs=options)
    optimizer = optimised(model, config["kind"])
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    if strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        with FullyShardedDataParallel.summon_full_params(model):
            state = [p.detach().clone() for p in kept.parameters()]
    else:
        state = [p.detach().clone() for p in kept.parameters()]
    train.report(loss=loss, checkpoint={"parameters": state} if c.get_world_rank() == 0 else None)


@pytest.mark.parametrize(
    ("n_ranks", "strategy", "kind", "backend"),
    [
        (2, "ddp", "sgd", "shared"),
        (3, "ddp", "adam", "shared"),
        (2, "fsdp", "adam", "shared"),
        (2, "ddp", "sgd", "gloo"),
    ],
)
def test_ranks_with_small_batches_are_one_process_with_a_large_one(
    n_ranks: int, strategy: str, kind: str, backend: Any
) -> None:
    result = train.TorchTrainer(
        loop, num_workers=n_ranks, backend=backend, config={"strategy": strategy, "kind": kind}, verbose=0
    ).fit()
    assert result.checkpoint is not None
    for found, expected in zip(result.checkpoint.value["parameters"], alone(n_ranks, kind), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


def test_the_rest_of_torch_distributed() -> None:
    def everything() -> None:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        rank, n = dist.get_rank(), dist.get_world_size()
        assert (dist.get_backend(), torch.get_num_threads()) == ("shared", 1)
        found: list[Any] = [None] * n
        dist.all_gather_object(found, {"rank": rank})
        assert [one["rank"] for one in found] == list(range(n))
        some = [None]
        dist.scatter_object_list(some, [["a"], ["b"]], src=0)
        assert some == [[["a"], ["b"]][rank]]
        tensor = torch.zeros(3)
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, torch.full((3,), float(rank)), 1 - rank), dist.P2POp(dist.irecv, tensor, 1 - rank)]
        )
        for work in works:
            work.wait()
        assert tensor.tolist() == [1.0 - rank] * 3
        group = dist.new_group([1, 0])
        dist.all_reduce(tensor, group=group, async_op=True).wait()
        assert tensor.tolist() == [1.0] * 3
        mesh = init_device_mesh("cpu", (2,))
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        model(torch.ones(2, 4)).sum().backward()
        train.report(done=1)

    assert train.TorchTrainer(everything, num_workers=2, verbose=0).fit().metrics["done"] == 1


def test_a_rank_that_dies_within_backward(flag: Callable[[str], Flag]) -> None:
    once = flag("once")

    def dies() -> None:
        model = train.torch.prepare_model(torch.nn.Linear(3, 1))
        start = train.get_checkpoint()
        for step in range(start.value if start else 0, 4):
            loss = model(torch.ones(2, 3)).sum()
            if train.get_context().get_world_rank() == 1 and step == 2 and not once.is_set():
                once.set()
                loss.register_hook(lambda grad: os.kill(os.getpid(), signal.SIGKILL))
            loss.backward()
            train.report(step=step, checkpoint=step + 1 if train.get_context().get_world_rank() == 0 else None)

    with pytest.raises(train.TrainingFailedError, match=r"rank 1 \(process \d+\) died"):
        train.TorchTrainer(dies, num_workers=2, verbose=0).fit()
    once.path.unlink()
    assert train.TorchTrainer(dies, num_workers=2, max_failures=1, verbose=0).fit().metrics["step"] == 3


def test_tasks_whose_workers_have_torch_from_their_birth_compute_with_one_thread() -> None:
    train.TorchTrainer(loop, num_workers=2).as_trainable()  # which asks for torch

    class Newborn:
        def look(self) -> tuple[bool, int, float]:
            had_it = "torch" in sys.modules
            return had_it, torch.get_num_threads(), (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item()

    def seen() -> tuple[bool, int, float]:
        return cm.get(cm.remote(num_cpus=0)(Newborn).remote().look.remote())

    wait_until(lambda: seen()[0])
    assert seen() == (True, 1, 300.0**3)


def test_accelerate_runs_unchanged() -> None:
    pytest.importorskip("accelerate")  # pip install accelerate

    def loop() -> None:
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        model = torch.nn.Linear(4, 1)
        rows = torch.utils.data.TensorDataset(torch.arange(32.0).view(8, 4))
        model, optimizer, loader = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(rows, batch_size=2)
        )
        n = 0
        for (batch,) in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch).mean())
            optimizer.step()
            n += len(batch)
        train.report(n=accelerator.gather(torch.tensor([n])), kind=type(model).__name__)

    metrics = train.TorchTrainer(loop, num_workers=2, verbose=0).fit().metrics
    assert (metrics["n"], metrics["kind"]) == ([4, 4], "DistributedDataParallel")


def test_lightning_runs_unchanged() -> None:
    pytest.importorskip("lightning")  # pip install lightning

    def loop() -> None:
        import lightning

        class Net(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
                loss = self.layer(batch[0]).pow(2).mean()
                self.log("loss", loss, sync_dist=True)  # counts batches of whole numbers
                return loss

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.SGD(self.parameters(), 0.1)

        rows = torch.utils.data.TensorDataset(torch.arange(32.0).view(8, 4) / 32)
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        net = Net()
        trainer.fit(net, torch.utils.data.DataLoader(rows, batch_size=2))
        weights = [torch.empty(1, 4) for _ in range(2)]
        torch.distributed.all_gather(weights, net.layer.weight.detach())
        train.report(
            ranks=trainer.world_size,
            steps=trainer.global_step,
            agree=bool((weights[0] == weights[1]).all()),
            logged="loss" in trainer.callback_metrics,
        )

    metrics = train.TorchTrainer(loop, num_workers=2, verbose=0).fit().metrics
    assert [metrics[name] for name in ("ranks", "steps", "agree", "logged")] == [2, 4, True, True]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: train.TorchTrainer(loop, backend="mpi"), ValueError, "backend='mpi': it is one of 'shared', 'gloo'"),
        (lambda: train.TorchTrainer(loop, backend="nccl"), ValueError, "'nccl' is between GPUs, one for each rank"),
        (lambda: train.TorchTrainer(loop, backend="nccl", resources={"gpu": 0.5}), ValueError, "one for each rank"),
        (lambda: train.torch.prepare_model(network(), parallel_strategy="x"), ValueError, "parallel_strategy='x'"),
    ],
)
def test_bad_input(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as told:
        call()
    assert words in str(told.value)


@pytest.mark.parametrize(("gpus", "backend"), [(0, "shared"), (0.5, "gloo"), (1, "nccl"), (2, "nccl")])
def test_the_backend_follows_from_the_gpus(gpus: float, backend: str) -> None:
    trainer = train.TorchTrainer(loop, resources={"cpu": 1, "gpu": gpus})
    assert (trainer.backend, trainer.shares_memory) == (backend, backend == "shared")
    assert train.TorchTrainer(loop, resources={"cpu": 1, "gpu": gpus}, backend="gloo").backend == "gloo"


def test_a_loader_that_cannot_be_divided() -> None:
    def loop() -> None:
        sampler = torch.utils.data.WeightedRandomSampler([1.0, 2.0], 2)
        train.torch.prepare_data_loader(torch.utils.data.DataLoader([1, 2], sampler=sampler))

    with pytest.raises(train.TrainingFailedError, match="a sampler or batches of its own, so it must"):
        train.TorchTrainer(loop, num_workers=2, verbose=0).fit()
