"""`ray.train.torch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....train import Trainer as _Trainer
from ....train.torch import TorchTrainer as _TorchTrainer
from ....train.torch import get_device as get_device
from ....train.torch import prepare_data_loader as _prepare_data_loader
from ....train.torch import prepare_model as prepare_model
from ... import missing as _missing
from .trainers import DataParallelTrainer

__all__ = ["TorchConfig", "TorchTrainer", "get_device", "get_devices", "prepare_data_loader", "prepare_model"]


@dataclass
class TorchConfig:
    """Which backend; without a name "nccl" with GPUs, "shared", over shared memory, without. `init_method` and
    `timeout_s` are accepted without effect: ranks find each other, and one that has died is noticed at once.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800


class TorchTrainer(DataParallelTrainer):
    """Trains with PyTorch on several workers."""

    def __init__(
        self, train_loop_per_worker: Callable[..., Any], *, torch_config: TorchConfig | None = None, **others: Any
    ) -> None:
        super().__init__(train_loop_per_worker, backend_config=torch_config or TorchConfig(), **others)

    def _ours(self, loop: Callable[..., Any], **options: Any) -> _Trainer:
        return _TorchTrainer(loop, backend=self._backend_config.backend, **options)


def prepare_data_loader(
    data_loader: Any, add_dist_sampler: bool = True, move_to_device: bool = True, auto_transfer: bool = False
) -> Any:
    """`cellmesh.train.torch.prepare_data_loader`. `auto_transfer` has no effect: a batch moves when it is asked for."""
    return _prepare_data_loader(data_loader, add_dist_sampler, move_to_device)


def get_devices() -> list[Any]:
    """The devices of this worker: one."""
    return [get_device()]


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.train.torch")
