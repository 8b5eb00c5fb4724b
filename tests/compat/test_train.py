"""`compat.ray.train`: Ray's own first example, and what is refused."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import cellmesh as cm
from cellmesh.compat import ray
from cellmesh.compat.ray import train, tune
from cellmesh.compat.ray.train import trainers

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which workers cannot import

pytestmark = pytest.mark.may_keep("threads", "of the session")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    cm.init(num_cpus=2)
    yield str(tmp_path)
    cm.shutdown()


def run_config(store: str, **options: Any) -> train.RunConfig:
    return train.RunConfig(storage_path=store, **options)


def test_a_torch_trainer_in_rays_words(store: str) -> None:
    torch = pytest.importorskip("torch")  # pip install 'cellmesh[train]'
    from cellmesh.compat.ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model

    def loop(config: dict[str, Any]) -> None:
        model = prepare_model(torch.nn.Linear(4, 1))
        loader = prepare_data_loader(torch.utils.data.DataLoader(torch.arange(64.0).view(16, 4), batch_size=2))
        optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)
            for batch in loader:
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()
            with tempfile.TemporaryDirectory() as folder:  # on all ranks, as Ray's guide has it
                torch.save(model.module.state_dict(), os.path.join(folder, "model.pt"))
                train.report({"epoch": epoch}, checkpoint=train.Checkpoint.from_directory(folder))

    result = TorchTrainer(
        loop,
        train_loop_config={"lr": 1e-3},
        scaling_config=train.ScalingConfig(num_workers=2, use_gpu=False),
        run_config=run_config(store, name="linear"),
        torch_config=TorchConfig(backend="gloo"),
    ).fit()
    assert (result.metrics or {})["epoch"] == 1
    assert result.error is None
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as folder:
        assert torch.load(os.path.join(folder, "model.pt"))["weight"].shape == (1, 4)


def test_a_function_without_arguments_and_one_that_fails(store: str) -> None:
    def plain() -> None:
        train.report({"rank": train.get_context().get_world_rank(), "size": train.get_context().get_world_size()})

    scaling = train.ScalingConfig(num_workers=(1, 2))  # as many as there is room for
    done = trainers.DataParallelTrainer(plain, scaling_config=scaling, run_config=run_config(store)).fit()
    assert {name: (done.metrics or {})[name] for name in ("rank", "size")} == {"rank": 0, "size": 2}

    def fails(config: dict[str, Any]) -> None:
        raise ValueError(config)

    trainer = trainers.DataParallelTrainer(fails, scaling_config=scaling, run_config=run_config(store))
    with pytest.raises(train.TrainingFailedError, match=r"raised ValueError: \{\}"):
        trainer.fit()


def test_callbacks_of_tune_hear_a_training(store: str) -> None:
    class Diary(tune.Callback):
        def __init__(self) -> None:
            self.said: list[Any] = []

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
            self.said.append(result["x"])

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.said.append("complete")

    diary = Diary()
    loop, scaling = lambda: [train.report({"x": x}) for x in range(3)], train.ScalingConfig(num_workers=2)
    config = run_config(store, callbacks=[diary], failure_config=train.FailureConfig(controller_failure_limit=-1))
    trainers.DataParallelTrainer(loop, scaling_config=scaling, run_config=config).fit()
    assert diary.said == [0, 1, 2, "complete"]


def test_in_a_tuner(store: str) -> None:
    def loop(config: dict[str, Any]) -> None:
        train.report({"x": config["x"]})

    trainer = trainers.DataParallelTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2))
    space = {"train_loop_config": {"x": tune.grid_search([1, 2])}}
    grid = tune.Tuner(trainer, param_space=space, run_config=run_config(store)).fit()
    assert sorted((result.metrics or {})["x"] for result in grid) == [1, 2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: train.ScalingConfig(accelerator_type="A100"), "name a resource of your own"),
        (lambda: train.ScalingConfig(use_tpu=True), "ScalingConfig(use_tpu=True) has no counterpart: workers train on"),
        (lambda: train.ScalingConfig(topology="4x4"), "topology='4x4') has no counterpart: resources_per_worker"),
        (lambda: train.ScalingConfig(label_selector={"a": "b"}), "name a resource of your own"),
        (lambda: train.report({}, checkpoint_upload_fn=print), "no counterpart: upload the folder before report"),
        (lambda: train.report({}, validation=True), "report(validation=True) has no counterpart: report the metric"),
        (lambda: train.report({}, checkpoint_upload_mode="async"), "the folder is copied before report returns"),
        (lambda: train.report({}, delete_local_checkpoint_after_upload=True), "delete it when report has returned"),
        (lambda: train.get_all_reported_checkpoints, "get_checkpoint in the function; afterwards result.checkpoint"),
        (lambda: train.UserCallback, "RunConfig(callbacks=[...])"),
        (
            lambda: train.FailureConfig(controller_failure_limit=3),
            "has no counterpart: cellmesh.train's name=",
        ),
        (lambda: train.FailureConfig(controller_failure_limit=0), "failure_limit=0) has no counterpart"),
        (
            lambda: train.FailureConfig(max_preemption_failures=2),
            "failures=2) has no counterpart: a rank whose",
        ),
        (lambda: train.FailureConfig(relax_collectives_on_preemption=True), "a rank whose machine goes is a failure"),
        (lambda: train.FailureConfig(preemption_grace_s=5.0), "the others end with the first rank that fails"),
        (lambda: train.RunConfig(worker_runtime_env={"pip": ["a"]}), "ray.init(runtime_env=...) holds in all workers"),
        (lambda: train.RunConfig(logging_config=1), "logging.getLogger(...).setLevel(...) holds in all workers"),
        (
            lambda: trainers.DataParallelTrainer(lambda: None, validation_config=1),
            "Trainer(validation_config=1) has no",
        ),
        (lambda: train.NCCLHangError, "CollectiveMismatchError, which name the ranks"),
        (lambda: trainers.DataParallelTrainer(lambda a, b: None), "should take in 0 or 1 arguments, but it accepts 2"),
        (lambda: trainers.DataParallelTrainer(lambda: None, metadata={"a": 1}), "Trainer(metadata={'a': 1}) has no"),
        (lambda: trainers.DataParallelTrainer.restore("/x/mine"), "name='mine', if_exists='resume'"),
        (lambda: train.DataConfig, "ray.train.DataConfig has no counterpart in cellmesh: each dataset is cut"),
        (lambda: train.lightning, "find torchrun's variables"),
        (lambda: ray.train.huggingface, "find torchrun's variables"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((ValueError, AttributeError, cm.exceptions.CellmeshError)) as told:
        call()
    assert words in str(told.value)


def test_every_public_name_is_there() -> None:
    for module in ("", ".tensorflow", ".data_parallel_trainer"):
        found = importlib.import_module(f"cellmesh.compat.ray.train{module}")
        assert all(getattr(found, name) is not None for name in found.__all__)
