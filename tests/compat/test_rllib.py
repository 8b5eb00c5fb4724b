"""`compat.ray.rllib`: an algorithm from a configuration, by hand and in Tune; which options are taken, which are
refused.
"""

from __future__ import annotations

import importlib
import json
import math
import subprocess
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
from cellmesh.compat.ray import tune
from cellmesh.compat.ray.rllib import algorithms, options
from cellmesh.compat.ray.rllib.algorithms.algorithm import Algorithm
from cellmesh.compat.ray.rllib.algorithms.dqn import DQN
from cellmesh.compat.ray.rllib.algorithms.ppo import PPO, PPOConfig
from cellmesh.compat.ray.rllib.env import EnvContext
from cellmesh.compat.ray.tune import trainables
from cellmesh.rl.algorithm import OF_ALL

for module in (sys.modules[__name__], probes):
    cloudpickle.register_pickle_by_value(module)  # which workers cannot import

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
RECORDED = json.loads((Path(__file__).parent / "rllib_options.json").read_text())
SMALL: dict[str, dict[str, Any]] = {
    "PPO": {"train_batch_size": 16, "num_epochs": 1},
    "DQN": {"num_steps_sampled_before_learning_starts": 4, "min_sample_timesteps_per_iteration": 20},
    "A3C": {"min_sample_timesteps_per_iteration": 20},
    "ApexDQN": {"min_sample_timesteps_per_iteration": 20, "learning_starts": 4, "play_steps": 5},
    "ES": {"episodes_per_batch": 4, "n_evaluations": 1, "noise_size": 1000},
}


# What a result of RLlib 2.60's PPO has, but for what it tells of its own works (timers, perf, fault_tolerance, ...).
KEYS = """
    config date done env_runners hostname iterations_since_restore learners node_ip num_env_steps_sampled_lifetime pid
    time_since_restore time_this_iter_s time_total_s timestamp training_iteration trial_id
""".split()


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    cm.init(num_cpus=2, object_store_memory=256 << 20)
    yield
    cm.shutdown()


@pytest.fixture(autouse=True)
def _storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(trainables, "environments", {})
    monkeypatch.setattr(importlib.import_module(Algorithm.__module__), "environments", trainables.environments)


class Configured(probes.ActionReward):
    """An environment as RLlib makes it."""

    def __init__(self, config: EnvContext) -> None:
        super().__init__()
        assert config.worker_index == 0 and config["reward"] == 2.0
        self.paid = config["reward"]

    def reward(self, action: Any) -> float:
        return self.paid * super().reward(action)


def small(name: str) -> Any:
    config = getattr(algorithms, f"{name}Config")().environment(Configured, env_config={"reward": 2.0})
    config.env_runners(num_env_runners=0).rl_module(model_config={"fcnet_hiddens": [8]})
    return config.training(**SMALL[name]).debugging(seed=1)


def untimed(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result["env_runners"].items() if "throughput" not in name}


@pytest.mark.parametrize("name", SMALL)
def test_an_algorithm_by_hand(session: None, tmp_path: Path, name: str) -> None:
    algo = small(name).evaluation(evaluation_duration=3).build()
    try:
        assert type(algo.algorithm) is getattr(rl, name)
        result = algo.train()
        played = result["env_runners"]
        assert set(KEYS) <= set(result)
        assert played["num_env_steps_sampled"] == result["num_env_steps_sampled_lifetime"] > 0
        assert -2.0 <= played["episode_return_mean"] == result["episode_reward_mean"] <= 2.0
        assert played["episode_len_mean"] == 1.0 and result["learners"]["default_policy"]
        assert result["training_iteration"] == 1 and result["time_total_s"] >= result["time_this_iter_s"] > 0
        assert result["config"]["env"] is Configured and not result["done"]
        evaluated = algo.evaluate()["env_runners"]
        assert evaluated["num_episodes"] == 3 and evaluated["episode_return_max"] in (-2.0, 2.0)
        action = algo.compute_single_action([0.0], explore=False)
        assert action == algo.algorithm.policy([0.0]) and algo.compute_actions({"a": [0.0]})["a"] in (0, 1)
        assert algo.compute_single_action([0.0], explore=False, full_fetch=True) == (action, [], {})
        saved = algo.save(str(tmp_path / "one"))
        assert saved.checkpoint.path == str(tmp_path / "one") and saved.metrics is result
        assert rl.Policy.load(saved.checkpoint.path)([0.0]) == action, "cellmesh's own, too"
        further = algo.train()
        assert (
            further["env_runners"]["num_episodes_lifetime"]
            == played["num_episodes_lifetime"] + further["env_runners"]["num_episodes"]
        )
    finally:
        algo.stop()
    other = Algorithm.from_checkpoint(saved)
    try:
        assert other.config["env_config"] == {"reward": 2.0} and isinstance(other, getattr(algorithms, name))
        resumed = other.train()
        assert resumed["training_iteration"] == 2 and resumed["iterations_since_restore"] == 1
        assert 0 < resumed["time_since_restore"] < resumed["time_total_s"]
        assert untimed(resumed) == untimed(further)
        other.restore(saved.checkpoint)
        assert other.iteration == 1
    finally:
        other.stop()


def test_updates_go_on_from_a_checkpoint_as_if_there_had_been_none(session: None, tmp_path: Path) -> None:
    algo = small("PPO").build()
    algo.train()
    path = algo.save_to_path(str(tmp_path / "ppo"))
    wanted = algo.train()["learners"]
    algo.restore_from_path(path)
    assert algo.train()["learners"] == wanted
    algo.stop()
    with pytest.raises(ValueError, match="is a checkpoint of PPO, and not of DQN"):
        DQN.from_checkpoint(path)
    with pytest.raises(ValueError, match="is no checkpoint of an algorithm"):
        PPO.from_checkpoint(str(tmp_path))


def test_evaluation_after_training(session: None) -> None:
    algo = small("PPO").evaluation(evaluation_interval=2, evaluation_duration=2).build()
    assert "evaluation" not in algo.train()
    evaluated = algo.train()["evaluation"]["env_runners"]
    assert evaluated["episode_return_mean"] in (-2.0, 0.0, 2.0) and evaluated["num_episodes"] == 2
    algo.stop()


def test_what_has_raised_is_asked_again(session: None) -> None:
    algo = small("PPO").build()
    learn = algo.algorithm.learn
    algo.algorithm.learn = lambda: {"loss/policy": math.nan}
    with pytest.raises(rl.TrainingDivergedError):
        algo.train()
    algo.algorithm.learn = learn
    assert algo.train()["training_iteration"] == 1
    algo.stop()


# ---- in Tune
@pytest.mark.parametrize("trainable", ["ES", algorithms.ES])
def test_a_search_in_an_environment_with_a_name(session: None, trainable: Any) -> None:
    tune.register_env("paid", lambda config: Configured(config))
    config = small("ES").environment("paid").training(stepsize=tune.grid_search([0.1, 0.2]))
    grid = tune.Tuner(
        trainable,
        param_space=config,
        tune_config=tune.TuneConfig(metric="env_runners/episode_return_mean", mode="max"),
        run_config=tune.RunConfig(
            stop={"env_runners/num_episodes_lifetime": 2},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        ),
    ).fit()
    assert not grid.errors and sorted(result.config["stepsize"] for result in grid) == [0.1, 0.2]
    best = grid.get_best_result()
    assert best.metrics["training_iteration"] == 2 and best.metrics["env_runners"]["num_episodes_lifetime"] == 2
    trainables.environments.clear()
    algo = algorithms.ES.from_checkpoint(best.checkpoint)  # which has the environment's maker
    assert algo.train()["training_iteration"] == 3
    algo.stop()


# ---- configurations
@pytest.mark.parametrize("name", RECORDED)
def test_options_of_ray_are_taken_or_refused_by_name(name: str) -> None:
    config, algorithm = getattr(algorithms, name)(), name.removesuffix("Config")
    refused = set()
    for option, default in RECORDED[name].items():
        meant = options.name_of(algorithm, option, tuple)  # TypeError: it is unknown
        if meant in options.DEFAULTS[algorithm] and option not in options.RENAMED and option != "model":
            mine = json.loads(json.dumps(config[option]))
            assert mine == default or (mine is None and default == "auto"), option
        try:
            config.copy().update_from_dict({option: default})
        except ValueError as error:
            assert option in str(error)
            refused.add(option)
    assert (
        refused
        == {
            "PPOConfig": {"use_kl_loss", "kl_coeff", "kl_target", "vf_clip_param"},
            "DQNConfig": set(),
        }[name]
    )


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("PPO", {}, {"n_steps": 2000, "num_envs": 2, "num_workers": 2, "max_grad_norm": math.inf, "gae_lambda": 1.0}),
        ("PPO", {"num_env_runners": 0, "train_batch_size": 100}, {"n_steps": 100, "num_envs": 1, "num_workers": 0}),
        ("PPO", {"num_envs_per_env_runner": 4, "minibatch_size": None}, {"n_steps": 500, "minibatch_size": 4000}),
        ("PPO", {"observation_filter": "MeanStdFilter"}, {"normalize_observations": True}),
        ("PPO", {"model": {"fcnet_hiddens": [32], "fcnet_activation": "tanh"}}, {"hidden": (32,)}),
        ("PPO", {"target_kl": 0.02, "lambda": 0.9}, {"target_kl": 0.02, "gae_lambda": 0.9}),
        ("DQN", {}, {"train_every": 1, "target_every": 500, "hidden": (256, 256, 256), "prioritized": True}),
        ("DQN", {"num_envs_per_env_runner": 4, "n_step": 3}, {"train_every": 12, "target_every": 42, "n_step": 3}),
        ("DQN", {"training_intensity": 8}, {"train_every": 4, "target_every": 125, "minibatch_size": 32}),
        ("DQN", {"epsilon": 0.1}, {"epsilon_start": 0.1, "epsilon_end": 0.1}),
        ("DQN", {"epsilon": [[0, 1.0], [500, 0.1]]}, {"epsilon_end": 0.1, "epsilon_steps": 500}),
        ("DQN", {"replay_buffer_config": {"type": "EpisodeReplayBuffer"}}, {"prioritized": False}),
        ("ApexDQN", {"num_env_runners": 2, "num_envs_per_env_runner": 4}, {"num_workers": 2, "num_envs": 4}),
        ("A3C", {"rollout_fragment_length": 10, "grad_clip": 40}, {"n_steps": 10, "max_grad_norm": 40}),
        ("ES", {"episodes_per_batch": 20, "stepsize": 0.02}, {"n_pairs": 10, "lr": 0.02}),
    ],
)  # fmt: skip
def test_what_options_are_here(name: str, given: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = getattr(algorithms, f"{name}Config").from_dict({"env": "CartPole-v1", **given}).translated({})
    assert found["env"] == "CartPole-v1"
    assert {key: found.get(key) for key in wanted} == wanted
    takes = [*OF_ALL, *getattr(rl, f"{name}Hyperparameters").__dataclass_fields__]
    assert set(found) <= set(takes)


@pytest.mark.parametrize(
    ("name", "given", "kind", "message"),
    [
        ("PPO", {"kl_coeff": 0.3}, ValueError, r"kl_coeff=0.3: PPO here clips .* target_kl=0.02"),
        ("PPO", {"lamda_": 0.9}, TypeError, r"unexpected option 'lamda_': did you mean lambda_\?"),
        ("PPO", {"colour": "red"}, TypeError, "unexpected option 'colour': there are env, "),
        ("PPO", {"framework": "tf2"}, ValueError, "framework='tf2': networks are torch's"),
        ("PPO", {"num_gpus_per_learner": 1}, ValueError, "num_gpus_per_learner=1: .*CPUs"),
        ("DQN", {"noisy": True}, ValueError, "noisy=True: .*double_q"),
        ("PPO", {"model": [1]}, ValueError, r"model=\[1\]: a dict"),
    ],
)
def test_options_without_a_counterpart(name: str, given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        getattr(algorithms, f"{name}Config")().update_from_dict(given)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("PPO", {"num_env_runners": -1}, "num_env_runners=-1: a whole number of at least 0"),
        ("PPO", {"train_batch_size": 0.5}, "train_batch_size=0.5: a whole number"),
        ("PPO", {"observation_filter": "Mine"}, "observation_filter='Mine': 'NoFilter' or 'MeanStdFilter'"),
        ("PPO", {"model": {"use_lstm": True}}, "use_lstm=True: networks are layers over one observation"),
        ("PPO", {"model": {"fcnet_activation": "relu"}}, "fcnet_activation='relu': it is 'tanh' here"),
        ("PPO", {"model": {"vf_share_layers": True}}, "vf_share_layers=True: policy and value"),
        ("PPO", {"shuffle_batch_per_epoch": False}, "drawn anew in each epoch"),
        ("DQN", {"epsilon": [(0, 1.0), (5, 0.5), (9, 0.1)]}, r"epsilon=.*\(steps, last\)"),
        ("DQN", {"replay_buffer_config": {"storage": 1}}, "'storage': there are type, capacity"),
        ("DQN", {"replay_buffer_config": {"type": dict}}, "a buffer of your own"),
        ("ApexDQN", {"replay_buffer_config": {"type": "EpisodeReplayBuffer"}}, "a prioritized one"),
    ],
)
def test_values_without_a_counterpart(name: str, given: dict[str, Any], message: str) -> None:
    config = getattr(algorithms, f"{name}Config").from_dict(given)
    with pytest.raises(ValueError, match=message):
        config.validate()


def test_a_configuration_is_a_mapping_and_has_attributes() -> None:
    config = PPOConfig()
    config.lr = 1e-3
    config["num_workers"] = 3
    assert (
        config.lr == config["lr"] == config.get("lr") == 1e-3 and config.num_env_runners == config["num_workers"] == 3
    )
    assert "lr" in config and "colour" not in config and dict(config.items()) == config.to_dict() == dict(config)
    assert config.environment("A", env_config={"x": 1}).environment(env_config={"y": 2}).env_config == {"x": 1, "y": 2}
    other = cloudpickle.loads(cloudpickle.dumps(config.copy()))
    other.training(gamma=0.5)
    assert type(other) is PPOConfig and other.env == "A" and config.gamma == 0.99
    config.freeze()
    with pytest.raises(AttributeError, match="frozen"):
        config.training(gamma=0.5)
    assert config.copy(copy_frozen=False).training(gamma=0.5).gamma == 0.5
    with pytest.raises(AttributeError, match="PPOConfig has no 'colour': there are env, "):
        config.colour  # noqa: B018 (reading the attribute is what raises)
    with pytest.raises(AttributeError, match=r"multi_agent has no counterpart in cellmesh: .*one policy"):
        config.multi_agent(policies={})
    with pytest.raises(TypeError, match=r"PPOConfig\(\)"):
        algorithms.AlgorithmConfig()
    with pytest.raises(TypeError, match="of no kind"):
        Algorithm({})


# ---- what is not there
@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_what_is_not_installed_is_named_with_its_extra(name: str) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        f"from cellmesh.compat.ray.rllib.algorithms import {name}Config\n"
        f"{name}Config().environment('CartPole-v1').env_runners(num_env_runners=0).build()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"ModuleNotFoundError: rl.{name} needs torch: pip install 'cellmesh[rl]'" in ended.stderr


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("ray.rllib.algorithms", "APPOConfig", "A3CConfig"),
        ("ray.rllib.algorithms", "SACConfig", "continuous"),
        ("ray.rllib.algorithms", "IMPALA", "A3CConfig"),
        ("ray.rllib", "SampleBatch", "ReplayBuffer"),
        ("ray.rllib.algorithms.ppo", "PPOTorchPolicy", "ray-names"),
    ],
)
def test_names_that_are_refused(module: str, name: str, hint: str) -> None:
    there = importlib.import_module(f"cellmesh.compat.{module}")
    with pytest.raises(AttributeError, match=f"{module}.{name} has no counterpart in cellmesh: .*{hint}"):
        getattr(there, name)


def test_methods_that_are_refused(session: None) -> None:
    algo = small("ES").build()
    with pytest.raises(AttributeError, match=r"get_policy has no counterpart in cellmesh: algo\.algorithm"):
        algo.get_policy()
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        algo.colour  # noqa: B018 (reading the attribute is what raises)
    algo.stop()
