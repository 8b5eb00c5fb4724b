"""Writes docs/ray-names.md: what cellmesh.compat.ray makes of each public name of Ray.

    python docs/tools/ray_names_page.py            # cellmesh must be importable

The names are those of tests/compat/ray_names.json, which docs/tools/record_ray_names.py writes. A name is the same if
it is there and takes what Ray's takes, adapted if something of it is said below, and refused if asking for it raises
what the page says.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from cellmesh.compat import missing

ROOT = Path(__file__).resolve().parents[2]
PAGE, RECORD = ROOT / "docs" / "ray-names.md", ROOT / "tests" / "compat" / "ray_names.json"
HEAD = """# Ray's names

What `import cellmesh.compat.ray as ray` makes of the public names of Ray {version}: *same* is there and takes the
same arguments, *adapted* is there with the difference that is named, *refused* raises `AttributeError` with what
stands here. The page is made by `docs/tools/ray_names_page.py`, and a test holds it to the code. [Coming from
Ray](migrating-from-ray.md) tells how programs are brought over and where behaviour differs.
"""

NEVER = "can be caught; nothing raises it here"
# What is different about a name that is there.
ADAPTED = {
    "ray.ActorClassID": "nothing has one",
    "ray.FunctionID": "nothing has one",
    "ray.LoggingConfig": "accepted, without effect: what tasks print goes to the driver as it is",
    "ray.ObjectRef": "16 bytes; `ObjectRef(bytes)` is the ref of an object that lives in this session, else "
    "ValueError; `task_id()` of what was put is nil",
    "ray.ObjectID": "as ObjectRef",
    "ray.DynamicObjectRefGenerator": 'is ObjectRefGenerator; `num_returns="dynamic"` gives a list of refs',
    "ray.ObjectRefGenerator": "a plain iterator, sync and async, with `next(timeout)`, `completed()`, "
    "`is_finished()`, `close()`",
    "ray.cancel": "reaches the running call of a plain actor too, by KeyboardInterrupt; Ray leaves it running",
    "ray.get": "a tuple is refused as in Ray; `_use_object_store` has no meaning",
    "ray.init": "what is about dashboards, logs and ports is ignored; no `local_mode`, no `ray://`",
    "ray.job_config": "of JobConfig the namespace and the runtime_env count",
    "ray.nodes": "a machine alone has the address 127.0.0.1",
    "ray.put": "`_owner` and `_tensor_transport` have no meaning: an object needs no owner to live on",
    "ray.timeline": "all recent tasks, with their dependencies",
    "ray.cloudpickle": "cloudpickle itself: dump, dumps, load, loads, CloudPickler, register_pickle_by_value",
    "ray.experimental": "tqdm_ray alone",
    "ray.util.as_completed": "`chunk_size` has no meaning",
    "ray.util.map_unordered": "`chunk_size` has no meaning",
    "ray.util.get_node_ip_address": "127.0.0.1",
    "ray.util.inspect_serializability": "`depth` has no meaning",
    "ray.util.placement_group": "`_soft_target_node_id`, `bundle_label_selector` and `topology_strategy` have no "
    "effect",
    "ray.actor.ActorClassInheritanceException": "what is raised is a plain TypeError",
    "ray.exceptions.RayError": "is cellmesh.exceptions.CellmeshError",
    "ray.exceptions.RayActorError": "is cellmesh.exceptions.ActorError",
    "ray.exceptions.RaySystemError": "is cellmesh.exceptions.SessionError",
    "ray.exceptions.LocalRayletDiedError": "is cellmesh.exceptions.SessionLostError",
    "ray.exceptions.RayTaskError": "is cellmesh.exceptions.TaskError; what is raised is called "
    "`RayTaskError(ValueError)` and is of both classes",
    "ray.exceptions.UserCodeException": "is RayTaskError",
    "ray.exceptions.TaskCancelledError": "of a task that ran, `RayTaskError(TaskCancelledError)` as in Ray",
    **{
        f"ray.exceptions.{name}": NEVER
        for name in (
            "ActorHandleNotFoundError",
            "ActorUnschedulableError",
            "AsyncioActorExit",
            "CrossLanguageError",
            "ObjectFetchTimedOutError",
            "ObjectFreedError",
            "ObjectReconstructionFailedError",
            "ObjectRefStreamEndOfStreamError",
            "OufOfBandObjectRefSerializationException",
            "OwnerDiedError",
            "PlasmaObjectNotAvailable",
            "RayCgraphCapacityExceeded",
            "RayChannelError",
            "RayChannelTimeoutError",
            "RayDirectTransportError",
            "ReferenceCountingAssertionError",
            "RpcError",
            "StreamingGeneratorReplayInconsistentError",
            "UnserializableException",
        )
    },
}
# Tune
_NO_EFFECT = "accepted, without effect: "
ADAPTED |= {
    "ray.tune.CLIReporter": _NO_EFFECT + "what is shown is a live card in notebooks, and nothing in scripts",
    "ray.tune.JupyterNotebookReporter": _NO_EFFECT + "what is shown is a live card",
    "ray.tune.ProgressReporter": _NO_EFFECT + "it is never called",
    "ray.tune.Callback": "called where `fit` or `run` waits, up to 0.1 s late; what it raises ends the experiment",
    "ray.tune.Checkpoint": "of this machine; a single value too: `report(..., checkpoint={...})`",
    "ray.tune.CheckpointConfig": "`num_to_keep` are the latest ones, and the best one beside them",
    "ray.tune.Experiment": "has its `name` and its `spec`",
    "ray.tune.ExperimentAnalysis": "of a folder of cellmesh; tables of a trial have what of its results is a number",
    "ray.tune.FailureConfig": 'fail_fast="raise" raises at the end, which comes at once',
    "ray.tune.PlacementGroupFactory": "no further arguments for `placement_group`",
    "ray.tune.ResultGrid": "made by `fit`; trials are numbered, 00000, 00001, ..., and so are their folders",
    "ray.tune.Result": "`path` is there once the trial has asked for it; `metrics_dataframe` has what is a number",
    "ray.tune.ResumeConfig": "`errored` alone; what had ended stays, what had not goes on",
    "ray.tune.RunConfig": "`storage_path` is a folder of this machine, by default cellmesh's own; `sync_config`, "
    "`progress_reporter`, `log_to_file` and `verbose` have no effect",
    "ray.tune.SyncConfig": _NO_EFFECT + "an experiment lies on one machine, and checkpoints go there",
    "ray.tune.Trainable": "the methods of 2018 will do, too",
    "ray.tune.TuneConfig": "`reuse_actors` and `trial_dirname_creator` have no effect; no `chdir_to_trial_dir`",
    "ray.tune.TuneContext": "ranks are 0 and sizes 1, not None",
    "ray.tune.TuneError": "is cellmesh.tune.TuneError",
    "ray.tune.Tuner": "functions of (config, reporter) too; `restore(..., stop=, scheduler=, search_alg=, callbacks=)` "
    "is given again what a journal cannot keep",
    "ray.tune.grid_search": "gives a domain; `{'grid_search': [...]}` means the same",
    "ray.tune.register_env": "of this process, and of trials that it begins",
    "ray.tune.report": "`report(loss=0.3)`, as in Ray 1, will do",
    "ray.tune.run": "`export_formats`, `restore` and `storage_filesystem` are refused by name",
    "ray.tune.run_experiments": "dicts of 2018 too; all experiments run at a time",
    "ray.tune.schedulers.MedianStoppingRule": "who yields to others depends on who waits, as in Ray",
    "ray.tune.schedulers.TrialScheduler": "is cellmesh.tune.Scheduler: pure, with other methods",
    "ray.tune.search.SearchAlgorithm": "is cellmesh.tune.Search, with other methods",
    "ray.tune.search.optuna.OptunaSearch": "a resumed experiment suggests what it would have",
    "ray.tune.logger.CSVLoggerCallback": "only where it is asked for",
    "ray.tune.logger.JsonLoggerCallback": "only where it is asked for",
    "ray.tune.logger.TBXLoggerCallback": "only where it is asked for",
    "ray.tune.logger.pretty_print": "lines of `name: value`, without YAML",
}
# RLlib
_OPTIONS = "options without a counterpart are a ValueError that says what there is"
ADAPTED |= {
    "ray.train.Checkpoint": "of this machine; a single value too: `report(..., checkpoint={...})`",
    "ray.train.CheckpointConfig": "`num_to_keep` are the latest ones, and the best one beside them",
    "ray.train.FailureConfig": "`max_failures`; of preemption and the controller only Ray's defaults are taken",
    "ray.train.Result": "`metrics_dataframe` has what is a number; a function's value is not kept: report it",
    "ray.train.RunConfig": "callbacks are those of ray.tune; no `worker_runtime_env`, no `logging_config`",
    "ray.train.ScalingConfig": "a fixed number of workers, without `label_selector`, `accelerator_type` and TPUs",
    "ray.train.SyncConfig": _NO_EFFECT + "an experiment lies on one machine, and checkpoints go there",
    "ray.train.TrainContext": "without metadata",
    "ray.train.TrainingFailedError": "is cellmesh.train.TrainingFailedError: `rank`, `result`, and the cause",
    "ray.train.report": "`checkpoint_dir_name` has no effect; uploads in the background and validation are refused",
    "ray.train.torch.TorchConfig": 'without a backend "shared", over shared memory, or "nccl" with GPUs',
    "ray.train.torch.TorchTrainer": "no `metadata`, `dataset_config` and `validation_config`; restored by its name",
    "ray.train.torch.get_devices": "one",
    "ray.train.torch.prepare_data_loader": "`auto_transfer` has no effect",
    "ray.rllib.algorithms.Algorithm": "`algo.algorithm` is the algorithm of cellmesh.rl; one policy for one agent",
    "ray.rllib.algorithms.AlgorithmConfig": _OPTIONS,
    "ray.rllib.algorithms.DQN": "is cellmesh.rl.DQN",
    "ray.rllib.algorithms.DQNConfig": _OPTIONS,
    "ray.rllib.algorithms.PPO": "is cellmesh.rl.PPO",
    "ray.rllib.algorithms.PPOConfig": _OPTIONS + "; no KL penalty, no clipping of the value's error",
}
CONSTRUCTED = ("ray.LoggingConfig", "ray.util.ActorPool")  # of the classes those that programs make instances of
# Members of classes that are not there, and why.
_OWN_WORKS = "Ray's own works"
LACKING = {
    "from_bytes": _OWN_WORKS,
    "to_bytes": _OWN_WORKS,
    "from_ray_exception": _OWN_WORKS,
    "from_task_error": _OWN_WORKS,
    "redis_shard_hash": _OWN_WORKS,
    "make_dual_exception_instance": _OWN_WORKS,
    "BASE_ERROR_MSG": _OWN_WORKS,
    "REASON_MESSAGES": _OWN_WORKS,
    "for_actor_creation_task": _OWN_WORKS,
    "for_actor_task": _OWN_WORKS,
    "for_driver_task": _OWN_WORKS,
    "for_fake_task": _OWN_WORKS,
    "for_normal_task": _OWN_WORKS,
    "of": _OWN_WORKS,
    "actor_init_failed": "an ActorDiedError has `cause`, which is not None if its constructor raised",
    "preempted": "machines are not preempted",
    "job_id": "`get_runtime_context().get_job_id()`",
    "actor_id": "`get_runtime_context().get_actor_id()`",
    "int": "an id is a text",
    "from_int": "an id is a text",
    "owner_address": "an object has no owner",
    "tensor_transport": "GPU objects stay in their process",
    "nil": "a ref stands for something; None says that there is none",
    "from_random": "the session gives ids",
    "asend": "a stream is read, not sent to",
    "send": "a stream is read, not sent to",
    "athrow": "a stream is read, not sent to",
    "throw": "a stream is read, not sent to",
    "next_ready": "`ray.wait([generator], timeout=0)`",
    "bind": "compiled graphs: call `.remote(...)`, whose refs are dependencies",
    "from_dict": "accepted, without effect",
    "to_dict": "accepted, without effect",
}
_DECIDES = "schedulers are pure, with other methods: `cellmesh.tune.Scheduler`"
_SEARCHES = "asked by the controller alone: `cellmesh.tune.Search`; one of your own is a `Searcher`"
_SHOWS = "never called: what is shown is ours"
_GIVEN = "ScalingConfig has what it is given"
_SPEC = "an Experiment is its `name` and its `spec`"
LACKING |= {
    **dict.fromkeys(
        "CONTINUE NOOP PAUSE STOP choose_trial_to_run debug_string last_scores on_trial_error on_trial_remove "
        "reset_stats state supports_buffered_results".split(),
        _DECIDES,
    ),
    **dict.fromkeys(
        "CKPT_FILE_TMPL FINISHED add_configurations add_evaluated_point add_evaluated_trials convert_search_space "
        "has_checkpoint is_finished mode next_trial on_pause on_unpause restore_from_dir save_to_dir set_finished "
        "set_max_concurrency total_samples".split(),
        _SEARCHES,
    ),
    **dict.fromkeys(
        "metric on_trial_complete restore save set_search_properties get_state set_state".split(),
        "schedulers and searchers have other methods: `cellmesh.tune.Scheduler`, `cellmesh.tune.Search`",
    ),
    **dict.fromkeys(
        "DEFAULT_COLUMNS VALID_SUMMARY_TYPES display output_queue set_start_time set_total_samples".split(), _SHOWS
    ),
    **dict.fromkeys(
        "PUBLIC_KEYS checkpoint_config checkpoint_dir get_trainable_name local_dir local_path path public_spec "
        "register_if_needed remote_path run_identifier stopper".split(),
        _SPEC,
    ),
    **dict.fromkeys(("VALID_HPARAMS", "VALID_NP_HPARAMS", "update_config"), _OWN_WORKS),
    **dict.fromkeys(("filesystem", "get_storage"), "experiments and checkpoints are folders of this machine"),
    **dict.fromkeys(("get_auto_filled_metrics", "get_current_ip_pid", "train_buffered"), _OWN_WORKS),
    **dict.fromkeys(
        "additional_resources_per_worker as_placement_group_factory elasticity_enabled from_placement_group_factory "
        "max_workers min_workers num_cpus_per_worker num_gpus_per_worker num_tpus_per_worker total_resources".split(),
        _GIVEN,
    ),
    **dict.fromkeys("backend_cls framework storage_context train_func_context".split(), _OWN_WORKS),
    "can_restore": "a training goes on by its name: `if_exists='resume'`",
    "get_metadata": "a checkpoint has what is put into its folder",
    "get_trial_resources": "the reserved resources are those of ScalingConfig",
    "return_value": "report what the function has found",
    "export_model": "write what you export into a checkpoint",
    "has_plateaued": "`stop_all()`",
    "is_valid_function": "`callable(function)`",
    "iteration": "an attribute of the instance",
    "to_placement_group": "a trial is a task with these resources",
}


def record() -> dict[str, Any]:
    """What was recorded of Ray."""
    return json.loads(RECORD.read_text())


def verdict(module: str, name: str) -> tuple[str, str]:
    """ "same", "adapted" or "refused", and the remark."""
    there = importlib.import_module(f"cellmesh.compat.{module}")
    full = f"{module}.{name}"
    if hasattr(there, name):
        return ("adapted", ADAPTED[full]) if full in ADAPTED else ("same", "")
    return "refused", missing.explain(full).partition(": ")[2]


def untaken(module: str, name: str, recorded: list[str] | None) -> list[str]:
    """The parameters of Ray's that ours does not take, and those that ours needs and Ray's does not."""
    ours = getattr(importlib.import_module(f"cellmesh.compat.{module}"), name)
    if recorded is None or (inspect.isclass(ours) and f"{module}.{name}" not in CONSTRUCTED):
        return []
    mine = list(inspect.signature(ours).parameters.values())
    names = [p.name for p in mine]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in mine)
    wanted = [part.rstrip("=") for part in recorded if not part.startswith(("*", "/"))]
    found = [name for name in wanted if name not in names and not takes_any and not name.startswith("_")]
    positional = [
        part.rstrip("=")
        for part in recorded[: next((i for i, part in enumerate(recorded) if part.startswith("*")), len(recorded))]
    ]
    found += [
        f"{name} by position"
        for i, name in enumerate(positional)
        if name in names and names.index(name) != i and not name.startswith("_")
    ]
    needed = {part for part in recorded if not part.endswith("=")}
    return found + [
        f"needs {p.name}"
        for p in mine
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in needed
    ]


def lacking(module: str, name: str, members: dict[str, Any]) -> list[str]:
    """The members of Ray's class that ours has not."""
    ours = getattr(importlib.import_module(f"cellmesh.compat.{module}"), name, None)
    return (
        [] if ours is None or not inspect.isclass(ours) else [member for member in members if not hasattr(ours, member)]
    )


def page() -> str:
    """The whole page."""
    recorded = record()
    parts, counts = [HEAD.format(version=recorded["version"]).strip()], {"same": 0, "adapted": 0, "refused": 0}
    absent: dict[str, set[str]] = {}
    for module, names in recorded["modules"].items():
        rows = []
        for name, of in sorted(names.items(), key=lambda item: item[0].lower()):
            kind, remark = verdict(module, name)
            counts[kind] += 1
            rows.append(f"| `{name}` | {kind} | {remark} |")
            for member in lacking(module, name, of.get("members", {})):
                absent.setdefault(member, set()).add(name)
        parts.append("\n".join([f"## {module}", "", "| name | | |", "| --- | --- | --- |", *rows]))
    rows = [
        f"| `{member}` | {', '.join(sorted(of)) if len(of) < 4 else 'all of a kind'} | {LACKING[member]} |"
        for member, of in sorted(absent.items())
    ]
    parts.append(
        "\n".join(
            ["## Members of these classes that are not there", "", "| member | of | |", "| --- | --- | --- |", *rows]
        )
    )
    parts.insert(1, ", ".join(f"{n} {kind}" for kind, n in counts.items()) + ".")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
