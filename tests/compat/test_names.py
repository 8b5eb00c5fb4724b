"""Which of Ray 2.60's public names there are beside those of its main modules (test_names_page.py), and what is said of
the others.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import cellmesh
import cellmesh.compat.ray as ray

# module -> the names that Ray 2.60 has there: (offered, not offered)
NAMES = {
    "ray.util.metrics": ("Counter Gauge Histogram", "Metric"),
    "ray.util.queue": ("Empty Full Queue", ""),
    "ray.util.actor_pool": ("ActorPool", ""),
    "ray.util.multiprocessing": ("JoinableQueue Pool TimeoutError", ""),
    "ray.util.joblib": ("register_ray", ""),
    "ray.util.dask": ("ray_dask_get enable_dask_on_ray disable_dask_on_ray", ""),
    "ray.util.serialization": ("register_serializer deregister_serializer", ""),
    "ray.util.placement_group": (
        "PlacementGroup VALID_PLACEMENT_GROUP_STRATEGIES get_current_placement_group get_placement_group "
        "placement_group placement_group_table remove_placement_group",
        "check_placement_group_index",
    ),
    "ray.util.scheduling_strategies": (
        "DoesNotExist Exists In NodeAffinitySchedulingStrategy NodeLabelSchedulingStrategy NotIn "
        "PlacementGroupSchedulingStrategy",
        "",
    ),
    "ray.util.state": (
        "get_actor get_job get_log get_node get_objects get_placement_group get_task get_worker list_actors list_jobs "
        "list_logs list_nodes list_objects list_placement_groups list_tasks list_workers summarize_actors "
        "summarize_objects summarize_tasks",
        "StateApiClient list_cluster_events list_runtime_envs",
    ),
    "ray.remote_function": ("RemoteFunction", ""),
    "ray.runtime_env": ("RuntimeEnv RuntimeEnvConfig", ""),
    "ray.types": ("ObjectRef", ""),
    "ray.cloudpickle": ("CloudPickler dump dumps load loads register_pickle_by_value", ""),
    "ray.job_config": ("JobConfig LoggingConfig", ""),
    "ray.cluster_utils": ("Cluster", "AutoscalingCluster"),
    "ray.util.annotations": ("Deprecated DeveloperAPI PublicAPI", ""),
    "ray.experimental": ("tqdm_ray", "internal_kv set_resource"),
    "ray.experimental.tqdm_ray": ("tqdm safe_print", ""),
    "ray.train": (
        "Checkpoint CheckpointConfig FailureConfig Result RunConfig ScalingConfig SyncConfig TRAIN_DATASET_KEY "
        "TrainContext TrainingFailedError get_checkpoint get_context get_dataset_shard report",
        "BackendConfig CheckpointConsistencyMode CheckpointUploadMode ControllerError DataConfig MLflowLoggerCallback "
        "ReportedCheckpoint ReportedCheckpointStatus UserCallback ValidationConfig ValidationFn ValidationTaskConfig "
        "WorkerGroupError get_all_reported_checkpoints get_preemption_info",
    ),
}


def home(module: str) -> object:
    return importlib.import_module(f"cellmesh.compat.{module}")


@pytest.mark.parametrize("module", NAMES)
def test_names_of(module: str) -> None:
    offered, absent = (names.split() for names in NAMES[module])
    found = home(module)
    assert [name for name in offered if not hasattr(found, name)] == []
    for name in absent:
        with pytest.raises(AttributeError, match=f"{module}.{name} has no counterpart in cellmesh: "):
            getattr(found, name)


def test_the_tree_of_exceptions() -> None:
    errors = ray.exceptions
    assert errors.RayError is cellmesh.exceptions.CellmeshError and errors.RayTaskError is cellmesh.exceptions.TaskError
    for name in ("OwnerDiedError", "ObjectFreedError", "ReferenceCountingAssertionError", "ObjectFetchTimedOutError"):
        assert issubclass(getattr(errors, name), errors.ObjectLostError)
    for name in ("ActorDiedError", "ActorUnavailableError"):
        assert issubclass(getattr(errors, name), errors.RayActorError)
    roots = {name for name in errors.__all__ if not issubclass(getattr(errors, name), errors.RayError)}
    assert roots == {"ActorHandleNotFoundError"}, "as in Ray, this one is a ValueError alone"
    assert issubclass(errors.ActorAlreadyExistsError, ValueError)
    assert issubclass(errors.GetTimeoutError, TimeoutError)


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="keep Ray for this part"):
        ray.serve  # noqa: B018 (reading the attribute is what raises)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("cellmesh.compat.ray.serve")


def alone(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_install_and_uninstall() -> None:
    assert (
        alone("""
import sys
import cellmesh.compat.ray as compat
compat.install()
compat.install()
import ray, ray.util.queue
from ray.exceptions import RayError
assert ray is compat and ray.util.queue is compat.util.queue and ray.__spec__.name == "cellmesh.compat.ray"
try:
    import ray.serve
except ImportError as error:
    assert error.name == "ray.serve" and "no counterpart" in str(error)
compat.uninstall()
assert "ray" not in sys.modules and not [f for f in sys.meta_path if "alias" in type(f).__module__]
""")
        == ""
    )


def test_install_comes_too_late() -> None:
    assert "import" in alone("""
import sys, types
sys.modules["ray"] = types.ModuleType("ray")
import cellmesh.compat.ray as compat
try:
    compat.install()
except RuntimeError as error:
    print(error)
""")
    assert "before" in alone("""
import cellmesh.compat.ray as compat
with compat.init(num_cpus=1):
    try:
        compat.install()
    except RuntimeError as error:
        print(error)
""")
