"""PyTorch: `TorchTrainer`, and what makes a program of one process one of several ranks.

Each rank has torch's process group before the function begins, and torchrun's variables, so DDP, FSDP and libraries
that stand on them (accelerate, Lightning) find what they look for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler

from ..environment import gpus
from .backends import BACKENDS, MODULES, Backend, torch_group
from .context import get_context
from .exceptions import TrainError
from .rank import RankInfo
from .trainer import Trainer


class TorchTrainer(Trainer):
    """Trains with PyTorch on several ranks.

        def loop(config):
            model = train.torch.prepare_model(Net())
            for epoch in range(5):
                ...
                train.report({"loss": loss}, checkpoint={"model": model.module.state_dict()})

        result = train.TorchTrainer(loop, num_workers=2, config={"lr": 0.1}).fit()

    Parameters
    ----------
    train_loop_per_worker : callable
    backend : str, optional
        "shared": ranks on one machine, over shared memory, which opens no port. "gloo", "nccl": torch's own, also over
        several machines; their connections are not encrypted. Default: "nccl" where each rank has a GPU, "gloo" where
        they have parts of one, else "shared".
    **others
        As of `Trainer`.

    Raises
    ------
    ValueError
        There is no such backend, or it is "nccl" and not each rank has a GPU.
    """

    backend: Backend = "shared"
    modules: tuple[str, ...] = (*Trainer.modules, *MODULES, "cellmesh.train.torch")

    def __init__(
        self, train_loop_per_worker: Callable[..., Any], *, backend: Backend | None = None, **others: Any
    ) -> None:
        if backend is not None and backend not in BACKENDS:
            raise ValueError(f"backend={backend!r}: it is one of {', '.join(map(repr, BACKENDS))}")
        self._backend: Backend | None = backend
        super().__init__(train_loop_per_worker, **others)

    def choose_backend(self, n_gpus: float) -> None:
        """The one that was asked for, or the fastest that the ranks can have."""
        if self._backend == "nccl" and n_gpus < 1:
            raise ValueError("backend='nccl' is between GPUs, one for each rank: resources={'gpu': 1}, or use_gpu=True")
        fastest: Backend = "nccl" if n_gpus >= 1 else "gloo" if n_gpus else "shared"
        self.backend = self._backend or fastest
        self.shares_memory: bool = self.backend == "shared"

    def setup(self) -> Callable[[RankInfo], AbstractContextManager[None]]:
        """torch's process group around the function."""
        return functools.partial(torch_group, self.backend)


def get_device() -> torch.device:
    """The device of this rank: its first GPU if it has one and the backend takes it, else the processor."""
    return torch.device("cpu" if dist.get_backend() == "shared" else gpus.device())


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool = True,
    parallel_strategy: Literal["ddp", "fsdp"] | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """The model on this rank's device, its gradients averaged over all ranks.

    Parameters
    ----------
    model : torch.nn.Module
        The same on all ranks; DDP takes the parameters of rank 0.
    move_to_device : bool
    parallel_strategy : {"ddp", "fsdp", None}
        `DistributedDataParallel`, `FullyShardedDataParallel`, or nothing; nothing also where there is one rank.
    parallel_strategy_kwargs : dict, optional
        For that class.
    """
    if parallel_strategy not in ("ddp", "fsdp", None):
        raise ValueError(f"parallel_strategy={parallel_strategy!r}: it is 'ddp', 'fsdp' or None")
    device = get_device()
    if move_to_device:
        model = model.to(device)
    if parallel_strategy is None or get_context().get_world_size() == 1:
        return model
    options = dict(parallel_strategy_kwargs or {})
    if parallel_strategy == "ddp":
        return DistributedDataParallel(model, **options)
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, **{"device_id": device, **options})


def prepare_data_loader(
    data_loader: DataLoader[Any], add_dist_sampler: bool = True, move_to_device: bool = True
) -> Any:
    """A loader of this rank's part of the data, on its device.

    Parameters
    ----------
    data_loader : DataLoader
        Shuffled, if it is, in another order in each epoch by `loader.sampler.set_epoch(epoch)`.
    add_dist_sampler : bool
        Whether the data is divided; False where it is already.
    move_to_device : bool
        Whether batches are moved to the rank's device, where that is a GPU.

    Raises
    ------
    TrainError
        The loader has a sampler of its own, or its dataset is iterable: how to divide that, it does not say.
    """
    n, rank = get_context().get_world_size(), get_context().get_world_rank()
    if n > 1 and add_dist_sampler and not isinstance(data_loader.sampler, DistributedSampler):
        data_loader = _divided(data_loader, n, rank)
    device = get_device()
    return _Moving(data_loader, device) if move_to_device and device.type != "cpu" else data_loader


def _divided(loader: DataLoader[Any], n: int, rank: int) -> DataLoader[Any]:
    own = type(loader.sampler) not in (RandomSampler, torch.utils.data.SequentialSampler)
    if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None or own:
        raise TrainError(
            "prepare_data_loader: the loader has an iterable dataset, or a sampler or batches of its own, so it must "
            "divide the data itself: by get_context().get_world_rank(), and add_dist_sampler=False"
        )
    shuffle = isinstance(loader.sampler, RandomSampler)
    return DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=DistributedSampler(loader.dataset, n, rank, shuffle=shuffle, drop_last=loader.drop_last),
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


class _Moving:
    """A loader whose batches are moved to a device; everything else is the loader's."""

    def __init__(self, loader: DataLoader[Any], device: torch.device) -> None:
        self._loader, self._device = loader, device

    def __iter__(self) -> Iterator[Any]:
        return (_moved(batch, self._device) for batch in self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _moved(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: _moved(item, device) for key, item in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(item, device) for item in batch)
    return batch
