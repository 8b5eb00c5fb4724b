"""RLlib as it was in 2018: what programs of that time call, on today's.

    import ray.rllib.ppo as ppo

    config = ppo.DEFAULT_CONFIG.copy()
    config["num_workers"] = 1
    agent = ppo.PPOAgent(config=config, env="CartPole-v0", registry=get_registry())
    result = agent.train()
    print(result.episode_reward_mean, agent.save(), agent.compute_action(observation))

Everything of that shape is in this file. The modules `ray.rllib.ppo`, `dqn`, `a3c`, `es` and `agent` only name it.
Options have the names of then; their values in `DEFAULT_CONFIG` are those of cellmesh.rl, as nothing of then is left to
be compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ....tune.exceptions import TuneError
from ..tune.legacy import TrainingResult
from .algorithms.a3c import A3C
from .algorithms.algorithm import Algorithm
from .algorithms.apex_dqn import ApexDQN
from .algorithms.dqn import DQN
from .algorithms.es import ES
from .algorithms.ppo import PPO
from .results import MODULE

PPO_CONFIG: dict[str, Any] = {
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "env_config": {},
    "model": {"fcnet_hiddens": [64, 64]},
    "observation_filter": "NoFilter",
    "gamma": 0.99,
    "lambda": 0.95,
    "clip_param": 0.2,
    "num_sgd_iter": 10,
    "sgd_stepsize": 1e-3,
    "sgd_batchsize": 256,
    "timesteps_per_batch": 2048,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.0,
    "grad_clip": 0.5,
}
DQN_CONFIG: dict[str, Any] = {
    "num_workers": 0,
    "num_envs_per_worker": 4,
    "env_config": {},
    "model": {"fcnet_hiddens": [64, 64]},
    "hiddens": [],
    "gamma": 0.99,
    "lr": 1e-3,
    "n_step": 1,
    "double_q": True,
    "dueling": False,
    "buffer_size": 50_000,
    "store_buffer_in_checkpoints": True,  # always, then
    "prioritized_replay": False,
    "prioritized_replay_alpha": 0.6,
    "prioritized_replay_beta": 0.4,
    "learning_starts": 1000,
    "train_batch_size": 64,
    "sample_batch_size": 1,
    "target_network_update_freq": 400,
    "timesteps_per_iteration": 1000,
    "schedule_max_timesteps": 100_000,
    "exploration_fraction": 0.1,
    "exploration_final_eps": 0.05,
    "grad_norm_clipping": 10.0,
}
_EXPLORES = ("schedule_max_timesteps", "exploration_fraction", "exploration_final_eps")
APEX_CONFIG: dict[str, Any] = {
    **{name: value for name, value in DQN_CONFIG.items() if name not in _EXPLORES},
    "num_workers": 2,
    "n_step": 3,
    "dueling": True,
    "prioritized_replay": True,
}
A3C_CONFIG: dict[str, Any] = {
    "num_workers": 2,
    "num_envs_per_worker": 8,
    "env_config": {},
    "model": {"fcnet_hiddens": [64, 64]},
    "gamma": 0.99,
    "lr": 3e-3,
    "batch_size": 8,
    "timesteps_per_iteration": 2000,
    "vf_loss_coeff": 0.5,
    "entropy_coeff": 0.001,
    "grad_clip": 0.5,
}
ES_CONFIG: dict[str, Any] = {
    "num_workers": 2,
    "env_config": {},
    "model": {"fcnet_hiddens": [16]},
    "episodes_per_batch": 64,
    "noise_stdev": 0.2,
    "stepsize": 0.1,
    "l2_coeff": 0.005,
    "noise_size": 1_000_000,
}

_RENAMED = {
    "sgd_stepsize": "lr",
    "sgd_batchsize": "minibatch_size",
    "timesteps_per_batch": "train_batch_size",
    "batch_size": "rollout_fragment_length",
    "sample_batch_size": "rollout_fragment_length",
    "grad_norm_clipping": "grad_clip",
}
# About processes and graphs of then.
_EFFECTLESS = frozenset(
    """
    devices extra_frameskip horizon max_weight_sync_delay min_steps_per_task monitor num_gpus_per_worker
    num_replay_buffer_shards per_worker_exploration prioritized_replay_eps report_length reward_filter
    rollout_batchsize smoothing_num_episodes summarize tf_debug_filter_has_inf_or_nan tf_debug_inf_or_nan
    tf_session_args use_gpu_for_workers use_pytorch write_logs
    """.split()
)
_REPLAY = {
    "buffer_size": "capacity",
    "prioritized_replay_alpha": "alpha",
    "prioritized_replay_beta": "beta",
}


def todays(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options with their names of today."""
    found = {_RENAMED.get(name, name): value for name, value in config.items() if name not in _EFFECTLESS}
    replay = {new: found.pop(old) for old, new in _REPLAY.items() if old in found}
    if "prioritized_replay" in found:
        replay["type"] = "PrioritizedEpisodeReplayBuffer" if found.pop("prioritized_replay") else "EpisodeReplayBuffer"
    if replay:
        found["replay_buffer_config"] = {**replay, **found.get("replay_buffer_config", {})}
    if explores := {name: found.pop(name) for name in _EXPLORES if name in found}:
        whole = {**DQN_CONFIG, **explores}
        steps = max(1, round(whole["schedule_max_timesteps"] * whole["exploration_fraction"]))
        found["epsilon"] = [(0, 1.0), (steps, whole["exploration_final_eps"])]
    return found


class Agent(Algorithm):
    """An algorithm as it was in 2018."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: Any = None, env: Any = None, registry: Any = None, logger_creator: Any = None) -> None:
        whole = {**self.DEFAULT_CONFIG, **(config or {})}
        super().__init__(todays(whole), env)

    def train(self) -> Any:
        """One iteration: `result.episode_reward_mean`, `result.timesteps_total`, ..."""
        result = super().train()
        return TrainingResult.of({**result, "info": result["learners"][MODULE]})

    def save(self, checkpoint_dir: str | None = None) -> str:
        """Save into a folder or a new one: its path, for `restore`."""
        return self.save_to_path(checkpoint_dir)

    def compute_action(self, observation: Any) -> Any:
        """The action for an observation."""
        return self.compute_single_action(observation)


class PPOAgent(Agent, PPO):
    """`ray.rllib.ppo.PPOAgent`."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = PPO_CONFIG


class DQNAgent(Agent, DQN):
    """`ray.rllib.dqn.DQNAgent`."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = DQN_CONFIG


class ApexAgent(Agent, ApexDQN):
    """`ray.rllib.dqn.ApexAgent`."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = APEX_CONFIG


class A3CAgent(Agent, A3C):
    """`ray.rllib.a3c.A3CAgent`."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = A3C_CONFIG


class ESAgent(Agent, ES):
    """`ray.rllib.es.ESAgent`."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = ES_CONFIG


AGENTS: dict[str, type[Agent]] = {
    "PPO": PPOAgent,
    "DQN": DQNAgent,
    "APEX": ApexAgent,
    "A3C": A3CAgent,
    "ES": ESAgent,
}


def get_agent_class(alg: str) -> type[Agent]:
    """The class of a name.

    Raises
    ------
    TuneError
        There is none.
    """
    if alg not in AGENTS:
        raise TuneError(f"there is no agent {alg!r}: there are {', '.join(AGENTS)}")
    return AGENTS[alg]
