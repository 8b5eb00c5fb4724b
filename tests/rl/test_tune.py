"""Every algorithm is a trainable of Tune: searched over, checkpointed, gone on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import probe_envs as probes

from cellmesh import rl, tune

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
SMALL: dict[str, dict[str, Any]] = {
    "PPO": {"num_envs": 2, "n_steps": 16, "minibatch_size": 16, "hidden": (8,), "lr": tune.loguniform(1e-4, 1e-2)},
    "DQN": {
        "num_envs": 2,
        "iteration_steps": 20,
        "learning_starts": 4,
        "hidden": (8,),
        "lr": tune.loguniform(1e-4, 1e-2),
    },
    "A3C": {"num_envs": 2, "iteration_steps": 20, "hidden": (8,), "lr": tune.loguniform(1e-4, 1e-2)},
    "ApexDQN": {
        "num_envs": 2,
        "play_steps": 5,
        "iteration_steps": 20,
        "learning_starts": 4,
        "hidden": (8,),
        "lr": tune.loguniform(1e-4, 1e-2),
    },
    "ES": {"n_pairs": 4, "n_evaluations": 1, "hidden": (4,), "lr": tune.loguniform(1e-2, 1.0)},
}


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("name", SMALL)
def test_a_search_over_the_step_size(session_with_torch: None, name: str) -> None:
    if name != "ES":
        pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")
    algorithm = getattr(rl, name)
    results = tune.Tuner(
        algorithm,
        {"env": probes.ActionReward, "seed": 1, **SMALL[name]},
        metric="episode_return_mean",
        mode="max",
        num_samples=2,
        seed=0,
        stop={"training_iteration": 4},
        run_config=tune.RunConfig(
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=None), verbose=0
        ),
    ).fit()
    assert not results.errors and len(results) == 2
    assert [result.metrics["training_iteration"] for result in results] == [4, 4]
    assert len({result.config["lr"] for result in results}) == 2
    for result in results:
        checkpoints = [checkpoint for checkpoint, iteration in result.checkpoints if iteration == 2]
        restored = algorithm({**result.config, "env": probes.ActionReward})  # the journal has no classes
        try:
            with checkpoints[0].as_directory() as folder:
                restored.load_checkpoint(folder)
                policy = rl.Policy.load(folder)
            assert policy([0.0]) in (0, 1)
            for _ in range(2):
                metrics = restored.step()
            assert metrics["timesteps_total"] == result.metrics["timesteps_total"]
            assert metrics["episode_return_mean"] == result.metrics["episode_return_mean"]
        finally:
            restored.cleanup()
