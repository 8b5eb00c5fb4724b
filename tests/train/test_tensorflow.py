"""What ranks of TensorFlow are told; TensorFlow itself is not needed for that."""

from __future__ import annotations

import json
import os
import sys

import pytest

from cellmesh import train
from cellmesh.environment import gpus
from cellmesh.train.layout import Member, Place, variables
from cellmesh.train.tensorflow import tf_config


def test_tf_config_is_exact() -> None:
    assert tf_config(["10.0.0.1:7000", "10.0.0.2:7001"], 1) == (
        '{"cluster": {"worker": ["10.0.0.1:7000", "10.0.0.2:7001"]}, "task": {"type": "worker", "index": 1}}'
    )


@pytest.mark.usefixtures("session")
def test_ranks_have_it_while_they_run() -> None:
    def loop() -> None:
        mine = json.loads(os.environ["TF_CONFIG"])
        workers = mine["cluster"]["worker"]
        assert len({*workers}) == 3
        assert all(worker.startswith("127.0.0.1:") for worker in workers)
        assert mine["task"] == {"type": "worker", "index": train.get_context().get_world_rank()}
        train.report(tensorflow="tensorflow" in sys.modules)

    assert train.TensorflowTrainer(loop, num_workers=3, verbose=0).fit().metrics["tensorflow"] is False


def test_the_variables_of_ranks_on_several_machines() -> None:
    on = [Place("a", "10.0.0.1", 7), Place("b", "10.0.0.2", 8), Place("a", "10.0.0.1", 9), Place("b", "10.0.0.2", 10)]
    found = variables(on, 2, "run")
    assert found[3] == {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "7",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_RUN_ID": "run",
    }
    assert [one["LOCAL_RANK"] for one in found] == ["0", "0", "1", "1"]


def test_ranks_on_one_machine_see_the_gpus_of_all_of_them() -> None:
    on = [
        Place("a", "", 7, ("3",)),
        Place("b", "", 8, ("GPU-1", "GPU-2")),
        Place("a", "", 9, ("1",)),
        Place("a", "", 9, ("1",)),
    ]
    found = [one["CUDA_VISIBLE_DEVICES"] for one in variables(on, 0, "run")]
    assert found == ["3,1", "GPU-1,GPU-2", "3,1", "3,1"]


def test_which_of_the_gpus_that_a_rank_sees_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus.device() == "cpu"
    monkeypatch.setattr(gpus, "ids", ["2"])
    Member().prepare({"CUDA_VISIBLE_DEVICES": "1,2"})
    assert gpus.device() == "cuda:1"
    Member().prepare({"CUDA_VISIBLE_DEVICES": "0,1"})  # it was started again, with another GPU
    assert (os.environ["CUDA_VISIBLE_DEVICES"], gpus.device()) == ("2", "cuda:0")
