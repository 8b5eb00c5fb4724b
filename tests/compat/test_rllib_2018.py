"""RLlib as it was in 2018, on `compat.ray`: agents with `DEFAULT_CONFIG`, dicts of experiments, `train.py`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

pytest.importorskip("gymnasium", reason="no gymnasium: pip install 'cellmesh[rl]'")
pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")
from support import probe_envs as probes

import cellmesh as cm
from cellmesh import rl
from cellmesh.cli.main import main
from cellmesh.compat.ray import tune
from cellmesh.compat.ray.rllib import legacy
from cellmesh.compat.ray.rllib.train import translated
from cellmesh.compat.ray.tune.logger import pretty_print
from cellmesh.compat.ray.tune.registry import get_registry, register_env

cloudpickle.register_pickle_by_value(probes)  # which workers cannot import

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
AGENTS = {"ppo": "PPOAgent", "dqn": "DQNAgent", "a3c": "A3CAgent", "es": "ESAgent"}
NAMES = {"PPO": "PPO", "DQN": "DQN", "APEX": "ApexDQN", "A3C": "A3C", "ES": "ES"}


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    cm.init(num_cpus=2, object_store_memory=256 << 20)
    register_env("probe", lambda config: probes.ActionReward())
    yield
    get_registry().pop("probe")
    cm.shutdown()


def test_the_program_as_printed(session: None) -> None:
    import cellmesh.compat.ray.rllib.ppo as ppo

    config = ppo.DEFAULT_CONFIG.copy()
    config["num_workers"] = 0
    config["timesteps_per_batch"] = config["sgd_batchsize"] = 16
    agent = ppo.PPOAgent(config=config, env="probe", registry=get_registry())
    result = agent.train()
    assert result.timesteps_total == result.timesteps_this_iter == 16 and result.training_iteration == 1
    assert result["episode_reward_mean"] == result.episode_reward_mean and -1 <= result.episode_reward_mean <= 1
    assert result.info["entropy"] > 0 and "episode_len_mean: 1.0\n" in pretty_print(result._replace(config=None))
    checkpoint = agent.save()
    assert Path(checkpoint).is_dir() and agent.compute_action([0.0]) in (0, 1)
    assert agent.train().timesteps_total == 32
    agent.restore(checkpoint)
    assert agent.train().timesteps_total == 32
    agent.stop()


@pytest.mark.parametrize("module", AGENTS)
def test_modules_of_then(module: str) -> None:
    home: Any = importlib.import_module(f"cellmesh.compat.ray.rllib.{module}")
    agent = getattr(home, AGENTS[module])
    assert agent is legacy.get_agent_class(module.upper()) and home.DEFAULT_CONFIG is agent.DEFAULT_CONFIG
    assert importlib.import_module("cellmesh.compat.ray.rllib.agent").get_agent_class is legacy.get_agent_class
    with pytest.raises(tune.TuneError, match="no agent 'PG': there are PPO"):
        legacy.get_agent_class("PG")


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_cellmeshs(session: None, name: str) -> None:
    agent = legacy.AGENTS[name]({"num_workers": 0}, env="probe")
    ours = getattr(rl, f"{NAMES[name]}Hyperparameters")
    wanted = ours()
    try:
        found = agent.algorithm.hyperparameters
        differing = {
            field: getattr(found, field)
            for field in wanted.__dataclass_fields__
            if getattr(found, field) != getattr(wanted, field)
        }
        assert differing == ({"n_steps": 512} if name == "PPO" else {}), "four environments, of 2,048 steps together"
    finally:
        agent.stop()


def test_an_experiment_of_then(session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    trials = tune.run_experiments(
        {
            "probe-es": {
                "run": "ES",
                "env": "probe",
                "trial_resources": {"cpu": 1},
                "stop": {"episode_reward_mean": 1, "training_iteration": 50},
                "config": {"num_workers": 0, "episodes_per_batch": 8, "stepsize": tune.grid_search([0.2, 0.3])},
            }
        }
    )
    assert [trial.status for trial in trials] == ["TERMINATED"] * 2
    assert all(trial.last_result["episode_reward_mean"] == 1 for trial in trials)


def test_options_of_then() -> None:
    assert legacy.todays({"sgd_stepsize": 1e-3, "devices": ["/cpu:0"]}) == {"lr": 1e-3}
    found = legacy.todays({"schedule_max_timesteps": 1000, "prioritized_replay": True, "buffer_size": 7})
    assert found["epsilon"] == [(0, 1.0), (100, 0.05)]
    assert found["replay_buffer_config"] == {"capacity": 7, "type": "PrioritizedEpisodeReplayBuffer"}
    with pytest.raises(TypeError, match="unexpected option 'sgd_stepsise': did you mean"):
        legacy.PPOAgent({"sgd_stepsise": 1}, env="CartPole-v1")
    with pytest.raises(ValueError, match=r"kl_coeff=1\.0: PPO here clips"):
        legacy.PPOAgent({"kl_coeff": 1.0}, env="CartPole-v1")


def test_train_py(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = translated(["--run", "PPO", "--env", "CartPole-v0", "--repeat", "2", "--trial-resources", '{"cpu": 1}'])
    assert told == [
        "rl",
        "train",
        "--run",
        "PPO",
        "--env",
        "CartPole-v0",
        "--num-samples",
        "2",
        "--resources",
        '{"cpu": 1}',
    ]
    (tmp_path / "a.yaml").write_text("a: {run: PG, env: CartPole-v0, stop: {time_total_s: 1}}")
    assert main(translated(["-f", str(tmp_path / "a.yaml")])) == 2
    assert "a: run: 'PG' is no algorithm. There are A3C" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        translated(["--upload-dir", "s3://x"])
    assert "unrecognized arguments: --upload-dir" in capsys.readouterr().err
    assert "cellmesh.cli.main" in sys.modules
