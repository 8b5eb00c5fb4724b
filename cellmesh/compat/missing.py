"""What a compatible module says of names and options that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

NoSuchName = Callable[[str], NoReturn]

# Parts of Ray that are not here, by their last name, each with what to do instead.
_KEEP = "keep Ray for this part"
_ONE_LANGUAGE = "tasks are Python functions and actors Python classes; ctypes or a subprocess reach other languages"
_CLIENT = (
    "there is no client server: cellmesh.init(address) joins a session or cluster that runs, from a machine that is a "
    "node of it"
)
_DEBUGGER = "%inspect --pdb TASK talks to a task that failed, in its worker"
_INTERNAL = "it is a part of Ray's own works"
HINTS = {
    "serve": "serve a model from an actor, or keep Ray for this part",
    "data": "use Arrow or pandas in tasks, or keep Ray for this part",
    "workflow": _KEEP,
    **dict.fromkeys(("client", "ClientBuilder", "client_builder", "client_connect", "connect", "disconnect"), _CLIENT),
    **dict.fromkeys(("java_function", "java_actor_class", "cpp_function", "cross_language", "Language"), _ONE_LANGUAGE),
    "collective": "cellmesh.train.Communicator, or torch.distributed among actors",
    "iter": "use generator tasks, cellmesh.as_completed, or ActorPool.map_unordered",
    "iter_metrics": "use cellmesh.util.metrics",
    **dict.fromkeys(
        (
            "_config",
            "core",
            "internal",
            "ray_constants",
            "serialization",
            "state",
            "worker",
            "widgets",
            "StateApiClient",
            "set_resource",
        ),
        _INTERNAL,
    ),
    "autoscaler": "a cluster has the machines that have joined it by `cellmesh start --address`",
    "accelerators": "num_gpus=, or a resource with a name of your own; accelerator_type= is accepted and has no "
    "meaning on one machine",
    "check_serialize": "cellmesh.inspect_serializability",
    **dict.fromkeys(("pdb", "rpdb", "debugpy", "ray_debugpy"), _DEBUGGER),
    "debug": "log_once is in ray.util",
    "get_node_instance_id": "machines are known by NodeID, NodeName and labels in cellmesh.nodes()",
    "helpers": "as_completed and map_unordered are in ray.util",
    "serialization_addons": "cellmesh.util.register_serializer",
    "timer": "time.perf_counter, and the run times in cellmesh.state.list_tasks()",
    "tpu": "reserve a resource with a name of your own",
    "tracing": "cellmesh.timeline, or the panel",
    "internal_kv": "cellmesh.util.kv has get, put, delete, exists, keys and compare_and_set",
    "Metric": "cellmesh.util.metrics has Counter, Gauge and Histogram",
    "ActorProxy": "the annotation of a handle is cellmesh.ActorHandle",
    "list_cluster_events": "cellmesh.nodes() says why a node has gone, `cellmesh logs` what a session's processes had "
    "to say",
    "list_runtime_envs": "cellmesh.get_runtime_context().runtime_env is the caller's",
    # Tune
    "HyperBandForBOHB": "HyperBandScheduler or ASHAScheduler, with tune.search.optuna.OptunaSearch for the proposals",
    "ResourceChangingScheduler": "resources of a trial are fixed: tune.with_resources(trainable, {'cpu': 2})",
    "PB2": "PopulationBasedTraining does the same with random changes",
    "SearchGenerator": "a Searcher is asked as it is",
    **dict.fromkeys(("UNRESOLVED_SEARCH_SPACE", "UNDEFINED_SEARCH_SPACE", "UNDEFINED_METRIC_MODE"), _INTERNAL),
    **dict.fromkeys(("ax", "bayesopt", "hebo"), "tune.search.optuna.OptunaSearch(sampler=optuna.samplers.GPSampler())"),
    **dict.fromkeys(("bohb", "hyperopt"), "tune.search.optuna.OptunaSearch() has the density estimator of both"),
    **dict.fromkeys(("nevergrad", "zoopt"), "tune.search.optuna.OptunaSearch(sampler=optuna.samplers.CmaEsSampler())"),
    "hb_bohb": "HyperBandScheduler or ASHAScheduler",
    "pb2": "PopulationBasedTraining does the same with random changes",
    "resource_changing_scheduler": "resources of a trial are fixed: tune.with_resources(trainable, {'cpu': 2})",
    "integration": "call tune.report from the library's own callback",
    "impl": _INTERNAL,
    # Train
    **dict.fromkeys(
        ("lightning", "huggingface", "horovod", "xgboost", "lightgbm", "v2"),
        "in the function of a TorchTrainer such libraries find torchrun's variables and torch's process group",
    ),
    "accelerate": "torch.autocast in the function, or Accelerator(cpu=True) of the library accelerate",
    **dict.fromkeys(("prepare_optimizer", "backward"), "call the optimizer, and loss.backward(), as without Ray"),
    "enable_reproducibility": "torch.manual_seed, and torch.use_deterministic_algorithms(True)",
    "TorchCheckpoint": "Checkpoint.from_directory, with torch.save and torch.load",
    "DataConfig": "each dataset is cut into equal parts, one for each worker",
    **dict.fromkeys(("BackendConfig", "Backend"), "TorchConfig(backend=...), or cellmesh.train.Trainer"),
    **dict.fromkeys(("WorkerGroupError", "ControllerError"), "TrainingFailedError, which names the rank"),
    **dict.fromkeys(
        ("get_all_reported_checkpoints", "ReportedCheckpoint", "ReportedCheckpointStatus", "CheckpointConsistencyMode"),
        "get_checkpoint in the function; afterwards result.checkpoint and result.best_checkpoints",
    ),
    "CheckpointUploadMode": "report copies the checkpoint's folder before it returns",
    **dict.fromkeys(
        ("ValidationConfig", "ValidationFn", "ValidationTaskConfig"),
        "report the metric in the function, or validate result.checkpoint in a task",
    ),
    "UserCallback": "callbacks of ray.tune: RunConfig(callbacks=[...])",
    "MLflowLoggerCallback": "a callback of ray.tune that logs what is reported: RunConfig(callbacks=[...])",
    **dict.fromkeys(
        ("PreemptionError", "PreemptionInfo"), "a rank whose machine goes is a failure: FailureConfig(max_failures=)"
    ),
    "NCCLHangError": "cellmesh.train.RankDiedError, RankFailedError or CollectiveMismatchError, which name the ranks",
    "LoggingConfig": "logging.getLogger(...).setLevel(...) in the notebook or program holds in all workers",
    "get_preemption_info": "a rank whose machine goes is a failure: FailureConfig(max_failures=)",
    # RLlib
    **dict.fromkeys(("APPO", "APPOConfig", "appo"), "PPOConfig, whose environments processes step; or A3CConfig"),
    **dict.fromkeys(
        ("IMPALA", "IMPALAConfig", "Impala", "ImpalaConfig", "impala"),
        "A3CConfig, whose learners change the weights without waiting for each other",
    ),
    **dict.fromkeys(("SAC", "SACConfig", "sac", "tqc"), "PPOConfig, which takes continuous actions; or keep Ray"),
    **dict.fromkeys(
        ("BC", "BCConfig", "bc", "CQL", "CQLConfig", "cql", "MARWIL", "MARWILConfig", "marwil", "iql", "offline"),
        "algorithms learn from what they play; cellmesh.rl.ReplayBuffer keeps transitions",
    ),
    "dreamerv3": "PPOConfig or DQNConfig; or keep Ray",
    "agents": "ray.rllib.ppo, dqn, a3c and es as in 2018, or ray.rllib.algorithms",
    **dict.fromkeys(("Policy", "TFPolicy", "TorchPolicy", "policy"), "cellmesh.rl.Policy, as algo.algorithm.policy"),
    **dict.fromkeys(("RolloutWorker", "evaluation", "execution"), "cellmesh.rl.make_vec, which steps environments"),
    **dict.fromkeys(("SampleBatch", "sample_batch", "utils"), "cellmesh.rl.ReplayBuffer, and arrays"),
    **dict.fromkeys(
        ("MultiAgentEnv", "multi_agent_env", "BaseEnv", "ExternalEnv", "VectorEnv", "base_env", "vector_env"),
        "environments are gymnasium's, of one agent; cellmesh.rl.make_vec makes a vector of them",
    ),
    **dict.fromkeys(("connectors", "callbacks"), "wrap the environment; read what train() returns"),
    **dict.fromkeys(("models", "rl_module"), "rl_module(model_config={'fcnet_hiddens': [64, 64]})"),
    "check_placement_group_index": "a bundle's index is checked by the call that names it",
}


def no_such_name(module: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` for the module that plays `module`."""

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by Python itself
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise AttributeError(explain(f"{module}.{name}"))

    return refuse


def explain(name: str) -> str:
    """Why a name is not there, for `AttributeError` and `ModuleNotFoundError`."""
    hint = HINTS.get(name.rpartition(".")[2], "docs/ray-names.md lists what there is")
    return f"{name} has no counterpart in cellmesh: {hint}"


def refuse_options(
    called: str, values: Mapping[str, Any], instead: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> None:
    """`ValueError` for the first option that is given and has no counterpart.

    Parameters
    ----------
    called : str
        What takes the options.
    values : mapping
        By option; None and False are not given.
    instead : dict of str to str
        The options that have no counterpart, and what there is in place of each.
    defaults : mapping, optional
        Values that are not given either.
    """
    for name, remedy in instead.items():
        value = values[name]
        if value is not None and value is not False and value != (defaults or {}).get(name):
            raise ValueError(f"{called}({name}={value!r}) has no counterpart: {remedy}")
