"""RLlib's options, and what they are here: taken, accepted without effect, or refused with what there is instead
(decision 129). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ....rl.rllib_names import OPTIONS
from ....text import closest
from ....tune.space.domains import Domain

Values = Mapping[str, Any]

# What all algorithms take, with RLlib's defaults. None: nothing is passed on.
_OF_ALL = {
    "env": None,
    "env_config": {},
    "num_env_runners": 0,
    "num_envs_per_env_runner": 1,
    "explore": True,
    "gamma": 0.99,
    "lr": None,
    "grad_clip": None,
    "model": {},
    "evaluation_interval": None,
    "evaluation_duration": 10,
    "seed": None,
}
_Q = {
    "train_batch_size": None,
    "rollout_fragment_length": "auto",
    "training_intensity": None,
    "num_steps_sampled_before_learning_starts": None,
    "min_sample_timesteps_per_iteration": None,
    "target_network_update_freq": None,
    "replay_buffer_config": {},
    "store_buffer_in_checkpoints": None,
    "hiddens": None,
    "dueling": None,
    "double_q": None,
    "n_step": None,
}
# Those of RLlib 2.60 have its defaults; of A3C, Ape-X and ES, which it has no more, cellmesh's hold.
DEFAULTS: dict[str, dict[str, Any]] = {
    "PPO": {
        **_OF_ALL,
        "num_env_runners": 2,
        "lr": 5e-5,
        "train_batch_size": 4000,
        "minibatch_size": 128,
        "num_epochs": 30,
        "shuffle_batch_per_epoch": True,
        "lambda_": 1.0,
        "clip_param": 0.3,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.0,
        "observation_filter": "NoFilter",
        "model": {"fcnet_hiddens": [256, 256]},
    },
    "DQN": {
        **_OF_ALL,
        **_Q,
        "lr": 5e-4,
        "grad_clip": 40.0,
        "train_batch_size": 32,
        "num_steps_sampled_before_learning_starts": 1000,
        "min_sample_timesteps_per_iteration": 1000,
        "target_network_update_freq": 500,
        "replay_buffer_config": {
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 50_000,
            "alpha": 0.6,
            "beta": 0.4,
        },
        "store_buffer_in_checkpoints": False,
        "epsilon": [(0, 1.0), (10_000, 0.05)],
        "hiddens": [256],
        "dueling": True,
        "double_q": True,
        "n_step": 1,
        "model": {"fcnet_hiddens": [256, 256]},
    },
    "ApexDQN": {**_OF_ALL, **_Q},
    "A3C": {
        **_OF_ALL,
        "rollout_fragment_length": None,
        "min_sample_timesteps_per_iteration": None,
        "vf_loss_coeff": None,
        "entropy_coeff": None,
    },
    "ES": {
        **{name: value for name, value in _OF_ALL.items() if name not in ("grad_clip", "gamma")},
        "episodes_per_batch": None,
        "noise_stdev": None,
        "stepsize": None,
        "l2_coeff": None,
        "noise_size": None,
    },
}
RENAMED = {
    "lambda": "lambda_",
    "num_sgd_iter": "num_epochs",
    "sgd_minibatch_size": "minibatch_size",
    "train_batch_size_per_learner": "train_batch_size",
    "num_rollout_workers": "num_env_runners",
    "num_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "model_config": "model",
    "learning_starts": "num_steps_sampled_before_learning_starts",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
}
_NO_PENALTY = "PPO here clips and has no penalty: use_kl_loss=False; target_kl=0.02 ends an iteration's epochs early"
_CPUS = "networks are trained and asked on CPUs"
_CONSTANT = "it is one number; a Trainable of Tune, or a loop around train(), sets another"
_WRAP = "wrap the environment (gymnasium.wrappers), or make it in a function"
_NETWORKS = "networks are layers over one observation: fcnet_hiddens, and convolutions of their own for images"
_ONE_Q = "Q is one number for each action, without noise: double_q, dueling, n_step and a prioritized buffer there are"
_PLAYS = "algorithms learn from what they play"
_OWN = "write an algorithm of your own on cellmesh.rl.Algorithm"
# What may be said only so, and why.
FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "use_kl_loss": ((False,), _NO_PENALTY),
    "kl_coeff": ((0,), _NO_PENALTY),
    "kl_target": ((None,), _NO_PENALTY),
    "vf_clip_param": ((None, math.inf), "the value's error is not clipped"),
    "vf_share_layers": ((False,), "policy and value have networks of their own"),
    "use_critic": ((True,), "PPO here is of an actor and a critic"),
    "use_gae": ((True,), "lambda_=1.0 believes what was played alone"),
    "num_epochs": ((None, 1), "what is played, or drawn from a buffer, is learnt from once"),
    "minibatch_size": ((None,), "train_batch_size is what an update learns from"),
    "train_batch_size": ((None,), "rollout_fragment_length, or episodes_per_batch"),
    
    "grad_clip_by": (("global_norm",), "grad_clip is the most that the whole gradient's norm may be"),
    "lr_schedule": ((None,), _CONSTANT),
    "entropy_coeff_schedule": ((None,), _CONSTANT),
    "optimizer": ((None, {}), "the optimizer is the algorithm's own"),
    "adam_epsilon": ((1e-8,), "the optimizer is the algorithm's own"),
    "tau": ((1,), "Q_target is copied as a whole, every target_network_update_freq steps"),
    **dict.fromkeys(("num_atoms", "categorical_distribution_temperature"), ((1,), _ONE_Q)),
    "noisy": ((False,), _ONE_Q),
    "burn_in_len": ((0,), _NETWORKS),
    "td_error_loss_fn": (("huber",), "the loss is Huber's"),
    "before_learn_on_batch": ((None,), _OWN),
    "clip_rewards": ((None, False), _WRAP),
    **dict.fromkeys(("observation_space", "action_space"), ((None,), _WRAP)),
    "action_mask_key": ((None, "action_mask"), "no action is masked: an environment answers what is not allowed"),
    "observation_filter": ((None, "NoFilter"), f"PPO has 'MeanStdFilter', the others none; {_WRAP}"),
    **dict.fromkeys(("env_to_module_connector", "module_to_env_connector", "learner_connector"), ((None,), _WRAP)),
    "render_env": ((None, False), "cellmesh.rl's play() shows an episode: algo.algorithm.play()"),
    "env_task_fn": ((None,), _WRAP),
    **dict.fromkeys(
        ("num_gpus", "num_gpus_per_learner", "num_gpus_per_env_runner", "num_gpus_per_worker"), ((0,), _CPUS)
    ),
    "num_learners": ((0, 1), "one process learns"),
    "framework": (("torch", None), "networks are torch's"),
    **dict.fromkeys(("env_runner_cls", "learner_class", "rl_module_spec", "exploration_config"), ((None, {}), _OWN)),
    "batch_mode": (("truncate_episodes",), "each environment plays the same number of steps"),
    "evaluation_duration_unit": (("episodes",), "whole episodes are played"),
    "evaluation_config": ((None, {}, {"explore": False}), "each action is the most likely one"),
    "custom_evaluation_function": ((None,), "algo.algorithm.evaluate(), or a loop over compute_single_action"),
    "off_policy_estimation_methods": ((None, {}), "episodes are played"),
    **dict.fromkeys(("offline_evaluation_interval", "num_offline_eval_runners"), ((None, 0), _PLAYS)),
    **dict.fromkeys(("learner_config_dict", "algorithm_config_overrides_per_module"), ((None, {}), _OWN)),
    **dict.fromkeys(("sample_collector", "custom_stats_cls_lookup"), ((None, {}), _OWN)),
    "fake_sampler": ((False,), _PLAYS),
}  # fmt: skip
# What is accepted where the algorithm has no use for it: it is about RLlib's own processes, or holds anyway.
EFFECTLESS = frozenset(
    """
    _enable_rl_module_api _fake_gpus add_default_connectors_to_env_to_module_pipeline
    add_default_connectors_to_learner_pipeline add_default_connectors_to_module_to_env_pipeline
    broadcast_env_runner_states broadcast_offline_eval_runner_states checkpoint_trainable_policies_only clip_actions
    compress_observations create_env_on_local_worker create_local_env_runner custom_resources_for_main_process
    custom_resources_per_env_runner custom_resources_per_learner custom_resources_per_offline_eval_runner
    dataset_num_iters_per_offline_eval_runner delay_between_env_runner_restarts_s disable_env_checking
    eager_max_retraces eager_tracing enable_connectors enable_env_runner_and_connector_v2
    enable_rl_module_and_learner enable_tf1_exec_eagerly env_runner_health_probe_timeout_s
    env_runner_restore_timeout_s env_runner_state_server_max_concurrency episode_lookback_horizon episodes_to_numpy
    evaluation_auto_duration_max_env_steps_per_sample evaluation_auto_duration_min_env_steps_per_sample
    evaluation_error_after_n_consecutive_skips evaluation_force_reset_envs_before_iteration
    evaluation_num_env_runners evaluation_num_workers evaluation_parallel_to_training evaluation_sample_timeout_s
    evaluation_unhealthy_workers_timeout_s export_native_model_files gym_env_vectorize_mode
    ignore_env_runner_failures ignore_offline_eval_runner_failures is_atari keep_per_episode_custom_metrics
    local_gpu_idx local_tf_session_args log_gradients log_level log_sys_usage max_num_env_runner_restarts
    max_num_offline_eval_runner_restarts max_requests_in_flight_per_aggregator_actor
    max_requests_in_flight_per_env_runner max_requests_in_flight_per_learner
    max_requests_in_flight_per_offline_eval_runner merge_env_runner_states metrics_episode_collection_timeout_s
    metrics_num_episodes_for_smoothing min_sample_timesteps_per_iteration min_time_s_per_iteration
    min_train_timesteps_per_iteration normalize_actions num_aggregator_actors_per_learner
    num_consecutive_env_runner_failures_tolerance num_cpus_for_main_process num_cpus_per_env_runner
    num_cpus_per_learner num_cpus_per_offline_eval_runner num_cpus_per_worker num_gpus_per_offline_eval_runner
    offline_eval_batch_size_per_runner offline_eval_rl_module_inference_only offline_eval_runner_class
    offline_eval_runner_health_probe_timeout_s offline_eval_runner_restore_timeout_s offline_evaluation_timeout_s
    offline_evaluation_type offline_loss_for_module_fn ope_split_batch_by_episode placement_strategy
    preprocessor_pref remote_env_batch_wait_ms remote_worker_envs restart_failed_env_runners
    restart_failed_offline_eval_runners restart_failed_sub_environments rollout_fragment_length sample_timeout_s
    sampler_perf_stats_ema_coef shuffle_batch_per_epoch sigma0 tf_session_args torch_compile_learner
    torch_compile_learner_dynamo_backend torch_compile_learner_dynamo_mode torch_compile_learner_what_to_compile
    torch_compile_worker torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode torch_ddp_kwargs
    torch_skip_nan_gradients update_worker_filter_stats use_env_runner_state_server use_worker_filter_stats v_max
    v_min validate_env_runners_after_construction validate_offline_eval_runners_after_construction
    """.split()
)
_ACTIVATIONS = {"PPO": "tanh", "A3C": "tanh", "ES": "tanh", "DQN": "relu", "ApexDQN": "relu"}


def is_drawn(value: Any) -> bool:
    """Whether it is what Tune draws from, and no value yet."""
    return isinstance(value, Domain) or (isinstance(value, Mapping) and set(value) == {"grid_search"})


def name_of(algorithm: str, given: str, hyperparameters: Callable[[], tuple[str, ...]]) -> str | None:
    """The option that is meant; None: it has no effect. `hyperparameters`, which are taken, too, are asked for when it
    is none of Ray's: looking them up takes torch.

    Raises
    ------
    TypeError
        There is no such option.
    """
    name = RENAMED.get(given, given)
    if name in DEFAULTS[algorithm] or name in FIXED:
        return name
    if name in EFFECTLESS:
        return None
    own = hyperparameters()
    if name in own:
        return name
    there = [*DEFAULTS[algorithm], *own]
    close = closest(name, there)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(there)}"
    raise TypeError(f"{algorithm}Config got an unexpected option {given!r}: {hint}")


def check(algorithm: str, name: str, value: Any) -> None:
    """`ValueError` if it may be said only otherwise."""
    allowed, why = FIXED[name]
    if not is_drawn(value) and value not in allowed:
        raise ValueError(f"{algorithm}Config: {name}={value!r}: {why}")


def translated(algorithm: str, values: Values) -> dict[str, Any]:
    """The arguments of cellmesh's algorithm; `env` and `env_config` are left to the caller.

    Raises
    ------
    ValueError
        A value has no counterpart.
    """
    given = {name: value for name, value in values.items() if value is not None and name not in ("env", "env_config")}
    own: dict[str, Any] = {"num_workers": _whole(given.pop("num_env_runners"), "num_env_runners", 0)}
    per_runner = _whole(given.pop("num_envs_per_env_runner"), "num_envs_per_env_runner", 1)
    each_plays = algorithm in ("A3C", "ApexDQN")  # num_envs are those of each process
    n_envs = per_runner if each_plays else per_runner * max(1, own["num_workers"])
    if algorithm != "ES":
        own["num_envs"] = n_envs
    _whole(given.pop("evaluation_interval", 0), "evaluation_interval", 0)
    _whole(given.pop("evaluation_duration"), "evaluation_duration", 1)
    given.pop("explore")
    model, heads = dict(given.pop("model")), list(given.pop("hiddens", ()))
    hidden = _hidden(algorithm, model)
    if hidden is not None or heads:
        own["hidden"] = (*(hidden or ()), *heads)
    special = {"PPO": _ppo, "DQN": _dqn, "ApexDQN": _apex, "A3C": _a3c, "ES": _es}[algorithm]
    own |= special(given, n_envs)
    return {**own, **{OPTIONS.get(name, name): value for name, value in given.items()}}


def _whole(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: a whole number of at least {least}")
    return value


def _hidden(algorithm: str, model: dict[str, Any]) -> tuple[int, ...] | None:
    widths = model.pop("fcnet_hiddens", None)
    activation = model.pop("fcnet_activation", _ACTIVATIONS[algorithm])
    if activation != _ACTIVATIONS[algorithm]:
        raise ValueError(f"{algorithm}Config: fcnet_activation={activation!r}: it is {_ACTIVATIONS[algorithm]!r} here")
    if model.pop("vf_share_layers", False):
        raise ValueError(f"{algorithm}Config: vf_share_layers=True: {FIXED['vf_share_layers'][1]}")
    for name, value in model.items():
        if value:
            raise ValueError(f"{algorithm}Config: model: {name}={value!r}: {_NETWORKS}")
    return None if widths is None else tuple(widths)


# ---- what is said in other units; each takes its options out of `given`
def _ppo(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if "train_batch_size" in given:
        batch = _whole(given.pop("train_batch_size"), "train_batch_size", 1)
        own["n_steps"] = math.ceil(batch / n_envs)
        given.setdefault("minibatch_size", max(2, own["n_steps"] * n_envs))  # RLlib's None: all of it
    given.setdefault("grad_clip", math.inf)
    if not given.pop("shuffle_batch_per_epoch", True):
        raise ValueError("PPOConfig: shuffle_batch_per_epoch=False: minibatches are drawn anew in each epoch")
    filtered = given.pop("observation_filter")
    if filtered not in ("NoFilter", "MeanStdFilter"):
        raise ValueError(f"PPOConfig: observation_filter={filtered!r}: 'NoFilter' or 'MeanStdFilter'; else {_WRAP}")
    if filtered == "MeanStdFilter":
        own["normalize_observations"] = True
    return own


def _dqn(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    return {**_q(given, n_envs), **_epsilon(given.pop("epsilon", None))}


def _apex(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    own = _q(given, n_envs)
    if not own.pop("prioritized", True):
        raise ValueError("ApexDQNConfig: replay_buffer_config: its buffer is a prioritized one")
    return own


def _q(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    own: dict[str, Any] = {}
    batch = given.pop("train_batch_size", None)
    if batch is not None:
        own["minibatch_size"] = batch
    fragment, intensity = given.pop("rollout_fragment_length", "auto"), given.pop("training_intensity", None)
    if intensity is not None:  # steps learnt from for each that is played
        own["train_every"] = max(1, round((64 if batch is None else batch) / intensity))
    elif fragment != "auto" or batch is not None:  # a minibatch for each round of fragments
        steps = given.get("n_step", 1) if fragment == "auto" else fragment
        own["train_every"] = _whole(steps, "rollout_fragment_length", 1) * n_envs
    if "target_network_update_freq" in given:  # in steps; here in minibatches
        steps = _whole(given.pop("target_network_update_freq"), "target_network_update_freq", 1)
        own["target_every"] = max(1, math.ceil(steps / own.get("train_every", 4)))
    for rays, ours in (
        ("num_steps_sampled_before_learning_starts", "learning_starts"),
        ("min_sample_timesteps_per_iteration", "iteration_steps"),
        ("store_buffer_in_checkpoints", "checkpoint_replay"),
        ("double_q", "double"),
    ):
        if rays in given:
            own[ours] = given.pop(rays)
    given.setdefault("grad_clip", math.inf)
    return {**own, **_buffer(given.pop("replay_buffer_config"))}


def _buffer(config: Mapping[str, Any]) -> dict[str, Any]:
    names = {"capacity": "buffer_size", "alpha": "alpha", "beta": "beta"}
    names |= {f"prioritized_replay_{name}": name for name in ("alpha", "beta")}
    kind = config.get("type")
    if kind is not None and not isinstance(kind, str):
        raise ValueError(f"replay_buffer_config: type={kind!r}: a name; a buffer of your own is for {_OWN}")
    own = {names[name]: value for name, value in config.items() if name in names}
    if unknown := sorted(config.keys() - {*names, "type", "prioritized_replay_eps"}):
        raise ValueError(f"replay_buffer_config: {unknown[0]!r}: there are type, capacity, alpha and beta")
    return own if kind is None else {**own, "prioritized": "Prioritized" in kind}


def _epsilon(epsilon: Any) -> dict[str, Any]:
    if epsilon is None:
        return {}
    if not isinstance(epsilon, (list, tuple)):
        return {"epsilon_start": epsilon, "epsilon_end": epsilon}
    points = [tuple(point) for point in epsilon]
    if len(points) != 2 or points[0][0] != 0:
        raise ValueError(f"DQNConfig: epsilon={epsilon!r}: [(0, first), (steps, last)], between which it falls evenly")
    (_, first), (steps, last) = points
    return {"epsilon_start": first, "epsilon_end": last, "epsilon_steps": steps}


def _a3c(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    names = {"rollout_fragment_length": "n_steps", "min_sample_timesteps_per_iteration": "iteration_steps"}
    return {ours: given.pop(rays) for rays, ours in names.items() if rays in given}


def _es(given: dict[str, Any], n_envs: int) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if "episodes_per_batch" in given:  # each direction is tried there and back
        own["n_pairs"] = max(1, _whole(given.pop("episodes_per_batch"), "episodes_per_batch", 1) // 2)
    if "noise_size" in given:
        own["noise_table_size"] = given.pop("noise_size")
    return own
