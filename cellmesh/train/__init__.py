"""Train: several processes train one model; never a journal of its own, as a training is an experiment of Tune.

    from cellmesh import train

    def loop(config):
        model = train.torch.prepare_model(Net())
        for epoch in range(5):
            ...
            train.report({"loss": loss}, checkpoint={"model": model.module.state_dict()})

    result = train.TorchTrainer(loop, num_workers=2).fit()

`trainer.py` has what a training is, `group.py` starts and watches its ranks, `rank.py` and `context.py` are around the
user's function, `collective.py` is sums and the like over shared memory, `process_group.py` the same for
torch.distributed, and `parameter_server.py` arrays that tasks add to. Everything is imported when it is first used;
only what has torch in its name needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tune.checkpoint import Checkpoint as Checkpoint
    from ..tune.results import Result as Result
    from ..tune.tuner import CheckpointConfig as CheckpointConfig
    from ..tune.tuner import FailureConfig as FailureConfig
    from ..tune.tuner import RunConfig as RunConfig
    from . import tensorflow as tensorflow
    from . import torch as torch
    from .collective import CollectiveMemory as CollectiveMemory
    from .collective import Communicator as Communicator
    from .context import TrainContext as TrainContext
    from .context import get_checkpoint as get_checkpoint
    from .context import get_context as get_context
    from .context import get_dataset_shard as get_dataset_shard
    from .context import report as report
    from .exceptions import CollectiveMismatchError as CollectiveMismatchError
    from .exceptions import GroupBrokenError as GroupBrokenError
    from .exceptions import RankDiedError as RankDiedError
    from .exceptions import RankFailedError as RankFailedError
    from .exceptions import TrainError as TrainError
    from .exceptions import TrainingFailedError as TrainingFailedError
    from .parameter_server import ParameterServer as ParameterServer
    from .reductions import Reduction as Reduction
    from .tensorflow import TensorflowTrainer as TensorflowTrainer
    from .torch import TorchTrainer as TorchTrainer
    from .trainer import ScalingConfig as ScalingConfig
    from .trainer import Trainer as Trainer

# public name -> the module that defines it
_HOMES = {
    **dict.fromkeys(("CheckpointConfig", "FailureConfig", "RunConfig"), "..tune.tuner"),
    **dict.fromkeys(("CollectiveMemory", "Communicator"), ".collective"),
    **dict.fromkeys(("TrainContext", "get_checkpoint", "get_context", "get_dataset_shard", "report"), ".context"),
    **dict.fromkeys(
        (
            "CollectiveMismatchError",
            "GroupBrokenError",
            "RankDiedError",
            "RankFailedError",
            "TrainError",
            "TrainingFailedError",
        ),
        ".exceptions",
    ),
    **dict.fromkeys(("ScalingConfig", "Trainer"), ".trainer"),
    "Checkpoint": "..tune.checkpoint",
    "ParameterServer": ".parameter_server",
    "Reduction": ".reductions",
    "Result": "..tune.results",
    "TensorflowTrainer": ".tensorflow",
    "TorchTrainer": ".torch",
}

_MODULES = ("tensorflow", "torch")

__all__ = [name for name in _HOMES if name != "TorchTrainer"]  # `import *` works without torch, too


if not TYPE_CHECKING:  # for whom any name would be there then

    def __getattr__(name: str) -> Any:
        if name not in _HOMES and name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            home = import_module(_HOMES.get(name, f".{name}"), __name__)
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] != "torch":
                raise
            raise ImportError(f"cellmesh.train.{name} needs torch: pip install 'cellmesh[train]'") from missing
        value = globals()[name] = home if name in _MODULES else getattr(home, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
