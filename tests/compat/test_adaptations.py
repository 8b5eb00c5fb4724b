"""Where Ray's behaviour differs from cellmesh's, or its options are spelled otherwise."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.waiting import wait_until

import cellmesh
import cellmesh.compat.ray as compat

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ray() -> Iterator[ModuleType]:
    compat.init(num_cpus=2, object_store_memory=64 << 20)
    yield compat
    compat.shutdown()


def test_a_second_init_is_an_error_unless_it_is_to_be_ignored(ray: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="twice"):
        ray.init()
    assert ray.init(ignore_reinit_error=True, num_cpus=7)["node_id"] == ray.nodes()[0]["NodeID"]


def test_ids(ray: ModuleType) -> None:
    context = ray.get_runtime_context()
    assert isinstance(context.job_id, ray.JobID) and context.job_id.hex() == context.get_job_id()
    assert isinstance(context.node_id, ray.NodeID) and not context.node_id.is_nil() and context.task_id is None
    assert ray.TaskID.from_hex("ab") == ray.TaskID.from_hex("ab") != ray.TaskID.nil() and ray.TaskID.nil().is_nil()

    @ray.remote
    class Actor:
        def ids(self):
            context = ray.get_runtime_context()
            return context.actor_id, context.task_id

    actor = Actor.remote()
    actor_id, task_id = ray.get(actor.ids.remote())
    assert actor_id.hex() == actor._actor_id.hex() and isinstance(task_id, ray.TaskID)


def test_arguments_of_init() -> None:
    for arguments, error, match in [
        ({"num_cpu": 2}, RuntimeError, "num_cpus"),
        ({"local_mode": True}, ValueError, "local"),
        ({"address": "ray://host:1"}, ValueError, "cellmesh.init.*'ray://host:1'.*tcp://HOST"),
        ({"address": "/nowhere"}, ValueError, "no such session"),
    ]:
        with pytest.raises(error, match=match):
            compat.init(**arguments)
    with compat.init(
        num_cpus=1,
        dashboard_port=1,
        logging_level="INFO",
        _temp_dir="x",
        configure_logging=True,
        logging_config=compat.LoggingConfig(encoding="JSON"),
    ) as context:
        assert context.address_info["session_name"] and "session" in context._repr_html_() and dict(context)
    assert not compat.is_initialized()


def test_kill_of_what_is_no_actor_is_a_value_error(ray: ModuleType) -> None:
    with pytest.raises(ValueError, match="cancel"):
        ray.kill(ray.put(1))


def test_get_and_cancel_as_ray_has_them(ray: ModuleType) -> None:
    for wrong in (3, (ray.put(1),), "ref"):
        with pytest.raises(ValueError, match="list"):
            ray.get(wrong)
    with pytest.raises(TypeError):
        ray.get([3])
    ray.cancel(ray.put(1))
    with pytest.raises(TypeError):
        ray.cancel(3)


def test_the_error_as_its_cause(ray: ModuleType) -> None:
    @ray.remote
    def fail():
        raise KeyError("k")

    with pytest.raises(KeyError) as caught:
        ray.get(fail.remote())
    assert caught.value.function_name == "fail" and isinstance(caught.value.as_instanceof_cause(), KeyError)


def test_resources_and_nodes_have_rays_keys(ray: ModuleType) -> None:
    assert {name for name in ray.cluster_resources() if name.startswith("node:")} == {"node:127.0.0.1"}
    wait_until(lambda: ray.available_resources().get("CPU") == 2, what="the CPU of the task of the test before")
    assert ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"


def test_options_as_ray_spells_them(ray: ModuleType) -> None:
    @ray.remote(accelerator_type="A100", label_selector={"zone": "a"}, _metadata={}, enable_task_events=False)
    def f():
        yield 1
        yield 2

    values = f.options(_generator_backpressure_num_objects=1, object_store_memory=1 << 20).remote()
    assert [ray.get(ref) for ref in values] == [1, 2]
    with pytest.raises(ValueError, match="whole number"):
        f.options(_generator_backpressure_num_objects=0)


def test_what_every_actor_can_do(ray: ModuleType) -> None:
    @ray.remote
    class Box:
        def __init__(self, value):
            self.value = value

    @ray.remote
    class AsyncBox:
        value = 3

        async def nothing(self):
            pass

    for actor in (Box.remote(3), AsyncBox.remote()):
        assert ray.get(actor.__ray_ready__.remote()) is True
        assert ray.get(actor.__ray_call__.remote(lambda self, *, factor: self.value * factor, factor=2)) == 6
        assert "__ray_call__" not in dir(actor)


def test_dask_and_joblib(ray: ModuleType) -> None:
    import dask
    import joblib

    from cellmesh.compat.ray.util.dask import disable_dask_on_ray, enable_dask_on_ray
    from cellmesh.compat.ray.util.joblib import register_ray

    with enable_dask_on_ray():
        assert dask.delayed(sum)([1, 2]).compute() == 3
    disable_dask_on_ray()
    register_ray()
    with joblib.parallel_config("ray"):
        assert joblib.Parallel()(joblib.delayed(abs)(-i) for i in range(3)) == [0, 1, 2]

    def cpus(_: int) -> float:
        return ray.get_runtime_context().get_assigned_resources()["CPU"]

    with joblib.parallel_config("ray", n_jobs=2, ray_remote_args={"num_cpus": 2, "max_restarts": 1}):
        assert joblib.Parallel()(joblib.delayed(cpus)(i) for i in range(3)) == [2.0] * 3
        assert (
            joblib.Parallel(ray_remote_args={"num_cpus": 0.5})(joblib.delayed(cpus)(i) for i in range(3)) == [0.5] * 3
        )


def test_the_processes_of_a_pool_take_turns(ray: ModuleType) -> None:
    from cellmesh.compat.ray.util.multiprocessing import Pool

    with Pool(4) as pool:
        counts = Counter(pid for _, pid in pool.map(lambda x: (x, os.getpid()), range(1000)))
        assert sorted(counts.values()) == [244, 252, 252, 252]
        with pytest.raises(ray.exceptions.RayActorError, match="exit status 3"):
            pool.apply(os._exit, (3,))
        assert len({pool.apply(os.getpid) for _ in range(8)}) == 4
        assert [next(pool.imap(abs, [-1])) for _ in range(3)] == [1] * 3
    with Pool(2, maxtasksperchild=2) as pool:
        assert sorted(Counter(pool.map(lambda _: os.getpid(), range(6), chunksize=1)).values()) == [1, 1, 2, 2]
        pool.close()
        pool.join()


def test_a_pool_starts_a_session_of_as_many_cpus() -> None:
    from cellmesh.compat import ray
    from cellmesh.compat.ray.util.multiprocessing import Pool

    with Pool(3) as pool:
        assert ray.cluster_resources()["CPU"] == 3 and pool.map(abs, [-1, 2]) == [1, 2]
    ray.shutdown()


def test_rows_of_the_listings(ray: ModuleType) -> None:
    from cellmesh.compat.ray.util import state

    row = state.list_nodes()[0]
    assert row.state == row["state"] == "ALIVE" and state.get_node(row.node_id) == row and state.get_node("x") is None
    with pytest.raises(AttributeError, match="node_id"):
        row.colour  # noqa: B018 (reading the attribute is what raises)
    with pytest.raises(ValueError, match="columns are"):
        state.list_nodes(filters=[("colour", "=", 1)])


def test_what_the_runtime_context_tells(ray: ModuleType) -> None:
    env = {"env_vars": {"A": "1"}}

    @ray.remote(runtime_env=env)
    def look() -> tuple:
        context = ray.get_runtime_context()
        return (
            context.runtime_env,
            json.loads(context.get_runtime_env_string()),
            context.get_placement_group_id(),
            context.current_placement_group_id,
            context.is_canceled(),
            context.get_resource_ids(),
        )

    assert ray.get(look.remote()) == (env, env, None, None, False, {"GPU": []})


def test_logs_and_jobs(tmp_path: Path) -> None:
    from cellmesh.compat.ray.util.state import get_log, list_jobs, list_logs

    with cellmesh.init(num_cpus=1, log_dir=str(tmp_path)):

        @compat.remote
        def say() -> int:
            print("one\ntwo")
            return os.getpid()

        pid = compat.get(say.remote())
        wait_until(lambda: list(get_log(pid=pid, tail=2)) == ["one\n", "two\n"])
        assert list_logs(glob_filter="*.log") == {"worker_out": [f"worker-{pid}.log"]} and list_logs(
            glob_filter="*.err"
        ) == {"worker_out": []}
        assert list(get_log(filename=f"worker-{pid}.log", tail=1)) == ["two\n"]
        assert list_jobs()[0].status == "RUNNING"


def test_names_of_calls_and_owners(ray: ModuleType) -> None:
    @ray.remote
    class Actor:
        def call(self) -> int:
            return 1

    actor = Actor.remote()
    assert ray.get(actor.call.options(name="mine").remote()) == 1
    assert [row.name for row in ray.util.state.list_tasks(filters=[("name", "=", "mine")])] == ["mine"]
    assert ray.get(ray.put(3, _owner=actor)) == 3

    @ray.remote
    def count() -> Iterator[int]:
        yield 1

    stream = count.remote()
    assert not stream.is_finished() and ray.get(next(stream)) == 1
    ray.get(stream.completed())
    assert stream.is_finished()
