"""Ray's trainers over cellmesh's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....objstore.annotations import get_signature
from ....train import ScalingConfig as _ScalingConfig
from ....train import Trainer as _Trainer
from ....train.exceptions import TrainError
from ....tune import Tuner as _Tuner
from ....tune.experiment import folder_of
from ...missing import refuse_options
from ..tune import configs
from ..tune.configs import RunConfig, TuneConfig
from ..tune.results import Result, result_of
from ..tune.tuner import analysis_of, set_aside

_NO_SCALING = {
    "use_tpu": "workers train on CPUs and GPUs",
    "topology": "resources_per_worker and placement_strategy say where workers are",
    "label_selector": "name a resource of your own in resources_per_worker",
}
_NOT_FOR_A_TRAINER = {
    "dataset_config": "each dataset is cut into equal parts",
    "metadata": "a checkpoint has what is put into its folder",
    "validation_config": "report the metric, or validate result.checkpoint in a task",
}


@dataclass
class ScalingConfig:
    """How many workers, and with what. `trainer_resources` and `elastic_resize_monitor_interval_s` are accepted without
    effect: what starts the workers takes nothing, and a range of workers is looked at when they begin, or begin again.
    """

    num_workers: int | tuple[int, int] | None = None
    use_gpu: bool = False
    resources_per_worker: Mapping[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    trainer_resources: Mapping[str, float] | None = None
    use_tpu: bool = False
    topology: str | None = None
    label_selector: Any = None
    elastic_resize_monitor_interval_s: float = 60.0

    def __post_init__(self) -> None:
        refuse_options("ScalingConfig", vars(self), _NO_SCALING)
        if self.accelerator_type is not None:
            raise ValueError(
                f"accelerator_type={self.accelerator_type!r}: name a resource of your own in resources_per_worker, and "
                "start the machines that have it with it"
            )

    def _ours(self) -> _ScalingConfig:
        return _ScalingConfig(self.num_workers or 1, self.use_gpu, self.resources_per_worker, self.placement_strategy)


class DataParallelTrainer:
    """Runs a function on several workers.

    Parameters are Ray's. `metadata`, `dataset_config` and `validation_config` must be left out: there is nothing that
    they would do.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: Mapping[str, Any] | None = None,
        backend_config: Any = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: Mapping[str, Any] | None = None,
        dataset_config: Any = None,
        metadata: Any = None,
        resume_from_checkpoint: Any = None,
        validation_config: Any = None,
    ) -> None:
        refuse_options(type(self).__name__, locals(), _NOT_FOR_A_TRAINER)
        self._backend_config, self._run = backend_config, run_config or RunConfig()
        self._trainer = self._ours(
            train_loop_per_worker,
            config=_config(train_loop_per_worker, train_loop_config),
            scaling_config=(scaling_config or ScalingConfig())._ours(),
            run_config=configs.run_config(self._run),
            datasets=datasets,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    def _ours(self, loop: Callable[..., Any], **options: Any) -> _Trainer:
        return _Trainer(loop, **options)

    def fit(self) -> Result:
        """Train, to the end.

        Raises
        ------
        TrainingFailedError
            A worker has raised or died, and is not to be tried again.
        """
        run = self._trainer.run_config
        if run.name is not None:
            set_aside(folder_of(run.name, run.storage_path))
        self._trainer.check_room()
        search = _Tuner(self.as_trainable(), {}, run_config=run).start()
        analysis = analysis_of(search, self._run, TuneConfig())
        result = result_of(analysis.trials[0])
        self._trainer.check_result(search)
        return result

    def as_trainable(self) -> Callable[[dict[str, Any]], None]:
        """What a Tuner runs."""
        return self._trainer.as_trainable()

    @classmethod
    def restore(cls, path: str, *args: Any, **options: Any) -> Any:
        """Refused: a name does it."""
        raise TrainError(
            f"{cls.__name__}.restore({path!r}): make the trainer again, with resume_from_checkpoint=, or "
            f"cellmesh.train's with name={Path(path).name!r}, if_exists='resume'"
        )


def _config(loop: Callable[..., Any], config: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """As in Ray: a function that takes an argument gets a dict, and one that takes none gets nothing."""
    n = len(get_signature(loop).parameters)
    if n > 1:
        raise ValueError(
            f"train_loop_per_worker should take in 0 or 1 arguments, but it accepts {n} arguments instead."
        )
    return dict(config or {}) if n else None
