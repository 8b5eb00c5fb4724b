"""Words and types that programs match, as Ray 2.60 has them."""

from __future__ import annotations

import asyncio
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cellmesh.objstore import _core
from support.waiting import wait_until

import cellmesh.compat.ray as compat
from cellmesh.compat.ray.util.placement_group import VALID_PLACEMENT_GROUP_STRATEGIES, get_placement_group

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def ray() -> Iterator[ModuleType]:
    handler = signal.getsignal(signal.SIGTERM)
    compat.init(num_cpus=2, object_store_memory=64 << 20)
    yield compat
    compat.shutdown()
    signal.signal(signal.SIGTERM, handler)


# ---------------------------------------------------------------- errors of tasks
def test_the_error_of_a_task_is_called_as_ray_calls_it(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        raise ValueError("bad")

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(fail.remote())
    assert repr(caught.value).startswith("RayTaskError(ValueError)(") and isinstance(caught.value, ValueError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ValueError)


def test_the_cause_of_an_exception_that_cannot_be_pickled(ray: ModuleType) -> None:
    @ray.remote
    def fail() -> None:
        class Held(Exception):
            def __init__(self) -> None:
                super().__init__("held")
                self.lock = threading.Lock()

        raise Held

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(fail.remote())
    assert isinstance(caught.value.cause, ray.exceptions.RayError)
    assert "Held isn't serializable" in str(caught.value.cause) and "held" in str(caught.value.cause)
    assert repr(caught.value).startswith("RayTaskError(")


def test_a_cancelled_task_that_ran_is_an_error_of_the_task_one_that_waited_is_not(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote(num_cpus=2)
    def sleep(path: Path) -> None:
        path.touch()
        time.sleep(50)

    running, waiting = sleep.remote(tmp_path / "begun"), sleep.remote(tmp_path / "never")
    wait_until((tmp_path / "begun").exists)
    ray.cancel(waiting)
    ray.cancel(running)
    with pytest.raises(ray.exceptions.TaskCancelledError, match="was cancelled") as of_waiting:
        ray.get(waiting)
    with pytest.raises(ray.exceptions.RayTaskError, match="was cancelled") as of_running:
        ray.get(running)
    assert not isinstance(of_waiting.value, ray.exceptions.RayTaskError)
    assert isinstance(of_running.value, ray.exceptions.TaskCancelledError) and repr(of_running.value).startswith(
        "RayTaskError(TaskCancelledError)("
    )
    assert isinstance(of_running.value.cause, ray.exceptions.TaskCancelledError)
    assert isinstance(pickle.loads(pickle.dumps(of_running.value)), ray.exceptions.TaskCancelledError)


def test_an_actor_that_was_killed(ray: ModuleType) -> None:
    actor = Actor().remote()
    assert ray.get(actor.call.remote()) == 1
    ray.kill(actor)
    with pytest.raises(ray.exceptions.RayActorError, match=r"was killed by `ray.kill`"):
        ray.get(actor.call.remote())


def test_code_that_cannot_be_imported_in_the_worker(ray: ModuleType) -> None:
    module = ModuleType("found_here_alone")
    exec("def f(): return 1\nclass A:\n    def f(self): return 1", module.__dict__)
    sys.modules["found_here_alone"] = module
    try:
        with pytest.raises(ImportError, match="'f' failed to import in the worker"):
            ray.get(ray.remote(module.f).remote())
        with pytest.raises(ray.exceptions.RayActorError, match="'A' failed to import in the worker"):
            ray.get(ray.remote(module.A).remote().f.remote())
    finally:
        del sys.modules["found_here_alone"]


# ---------------------------------------------------------------- wrong use
def Actor() -> Any:
    @compat.remote
    class Actor:
        def call(self) -> int:
            return 1

        async def wait(self) -> None:
            await asyncio.sleep(50)

    return Actor


def of_a_task(**options: Any) -> Callable[[], Any]:
    return lambda: compat.remote(**options)(lambda: 1)


def of_an_actor(**options: Any) -> Callable[[], Any]:
    return lambda: Actor().options(**options)


async def coroutine() -> None:
    pass


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: compat.get_actor("nobody"), ValueError, "Failed to look up actor with name 'nobody'"),
    (lambda: compat.get_actor("nobody", namespace="x"), ValueError, "Failed to look up actor with name 'nobody'"),
    (lambda: compat.get_actor(""), ValueError, "Please supply a non-empty value to get_actor"),
    (lambda: compat.get_actor(3), TypeError, "a string"),
    (lambda: compat.get_actor("a", namespace=3), TypeError, "namespace must be None or a string"),
    (lambda: compat.get_actor("a", namespace=""), ValueError, '"" is not a valid namespace'),
    (lambda: get_placement_group("nothing"), ValueError, "Failed to look up placement group with name: nothing"),
    (lambda: get_placement_group(""), ValueError, "Please supply a non-empty value"),
    (lambda: Actor()(), TypeError, "cannot be instantiated directly"),
    (lambda: compat.remote(len)("a"), TypeError, "cannot be called directly"),
    (lambda: compat.remote(coroutine), ValueError, "'async def' should not be used for remote tasks"),
    (lambda: compat.remote(num_cpus=1)(coroutine), ValueError, "'async def' should not be used for remote tasks"),
    (lambda: compat.actor.exit_actor(), TypeError, "exit_actor API is called on a non-actor worker"),
    (lambda: compat.kill(3), ValueError, r"only supported for actors. For tasks, try ray.cancel\(\)"),
    (lambda: compat.cancel(3), TypeError, r"only supported for object refs.* For actors, try ray.kill\(\)"),
    (lambda: compat.cancel(Actor().remote().wait.remote(), force=True), ValueError, "force=True is not supported"),
    (lambda: compat.get(3), ValueError, "Invalid type of object refs, <class 'int'>, is given"),
    (lambda: compat.wait(compat.put(1)), TypeError, "expected a list of ray.ObjectRef"),
    (of_a_task(num_cpus="a"), TypeError, "num_cpus"),
    (of_a_task(num_cpus=-1), ValueError, "num_cpus"),
    (of_a_task(num_returns=1.5), TypeError, "num_returns"),
    (of_a_task(num_returns=-1), ValueError, "num_returns"),
    (of_a_task(max_retries="x"), TypeError, "max_retries"),
    (of_a_task(max_retries=-2), ValueError, "max_retries"),
    (of_a_task(retry_exceptions=3), TypeError, "retry_exceptions"),
    (of_a_task(resources="x"), TypeError, "resources"),
    (of_a_task(runtime_env=3), TypeError, "runtime_env"),
    (of_a_task(nonsense=1), ValueError, "nonsense"),
    (of_an_actor(name=3), TypeError, "name"),
    (of_an_actor(namespace=3), TypeError, "namespace"),
    (of_an_actor(lifetime=3), TypeError, "lifetime"),
    (of_an_actor(lifetime="x"), ValueError, "lifetime"),
    (of_an_actor(max_concurrency="x"), TypeError, "max_concurrency"),
    (of_an_actor(get_if_exists=3), TypeError, "get_if_exists"),
    (of_an_actor(max_restarts=-2), ValueError, "max_restarts"),
]


@pytest.mark.parametrize("wrong, error, words", WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_use_is_told_in_rays_words(
    ray: ModuleType, wrong: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wrong()


def test_a_value_that_an_option_does_not_take_is_no_type_error(ray: ModuleType) -> None:
    with pytest.raises(ValueError) as caught:
        of_a_task(num_cpus=-1)()
    assert not isinstance(caught.value, TypeError)


def test_a_function_that_is_too_large(ray: ModuleType) -> None:
    big = bytes(100 << 20)
    with pytest.raises(ValueError, match="'f' is too large: it captures 105 MB"):

        @ray.remote
        def f() -> int:
            return len(big)

        f.remote()


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"namespace": ""}, ValueError, "not a valid namespace"),
        ({"namespace": 3}, TypeError, "must be None or a string"),
    ],
)
def test_namespaces_of_init(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    for given in (arguments, {"job_config": compat.job_config.JobConfig(ray_namespace=arguments["namespace"])}):
        with pytest.raises(error, match=words):
            compat.init(**given)


# ---------------------------------------------------------------- what is told
def test_the_runtime_context_has_rays_keys(ray: ModuleType) -> None:
    @ray.remote
    def task() -> tuple[dict[str, Any], str | None]:
        return ray.get_runtime_context().get(), ray.get_runtime_context().get_task_function_name()

    @ray.remote
    class Other:
        def method(self) -> tuple[dict[str, Any], str | None]:
            return ray.get_runtime_context().get(), ray.get_runtime_context().get_task_function_name()

        async def later(self) -> str | None:
            return ray.get_runtime_context().get_task_function_name()

    context = ray.get_runtime_context()
    assert list(context.get()) == ["job_id", "node_id", "namespace"] and context.get_task_function_name() is None
    told, name = ray.get(task.remote())
    assert list(told) == ["job_id", "node_id", "namespace", "task_id"] and name == f"{__name__}.task"
    assert (
        isinstance(told["task_id"], ray.TaskID) and len(told["task_id"].hex()) == 48 and int(told["task_id"].hex(), 16)
    )
    other = Other.remote()
    told, name = ray.get(other.method.remote())
    assert (
        list(told) == ["job_id", "node_id", "namespace", "task_id", "actor_id"] and name == f"{__name__}.Other.method"
    )
    assert ray.get(other.later.remote()) == f"{__name__}.Other.later"
    assert told["actor_id"] == ray.ActorID.from_binary(told["actor_id"].binary()) and len(context.get_worker_id()) == 56


def test_what_is_used_up_is_not_available(ray: ModuleType) -> None:
    @ray.remote(num_cpus=2)
    def look() -> dict[str, float]:
        return ray.available_resources()

    assert "CPU" not in ray.get(look.remote()) and ray.cluster_resources()["CPU"] == 2


def test_a_queue_that_was_shut_down_has_no_actor(ray: ModuleType) -> None:
    queue = ray.util.queue.Queue(2)
    queue.put(1)
    queue.shutdown()
    assert queue.actor is None
    queue.shutdown()


def test_once(ray: ModuleType) -> None:
    assert ray.util.log_once("a key") and not ray.util.log_once("a key")
    assert VALID_PLACEMENT_GROUP_STRATEGIES == {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}


# ---------------------------------------------------------------- refs
def test_refs_have_rays_methods(ray: ModuleType) -> None:
    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    ref = double.remote(21)
    assert isinstance(ref, ray.ObjectRef) and not isinstance(3, ray.ObjectRef)
    assert type(ref) == ray.ObjectRef  # noqa: E721 (programs of Ray write it so)
    assert (
        ray.ObjectRef(ref.binary()) == ray.ObjectRef.from_hex(ref.hex()) == ref
        and ref.size() == len(ref.binary())
        and not ref.is_nil()
    )
    assert str(ray.ObjectRef[int]).endswith("ObjectRef[int]")
    row = ray.util.state.get_task(ref)
    assert (
        row.name.endswith("double")
        and row.task_id == ref.task_id().hex()
        and ray.util.state.get_task(row.task_id) == row
    )
    assert ref.job_id() == ray.get_runtime_context().job_id and ray.put(1).task_id().is_nil()

    async def wait() -> list[int]:
        return await asyncio.gather(ref.as_future(), double.remote(4).as_future())

    assert asyncio.run(wait()) == [42, 8]
    assert ray.get(ref, timeout=-1) == 42
    with pytest.raises(TypeError, match="expected a dict"):
        _core.set_ref_methods([])
    with pytest.raises(AttributeError, match="no attribute 'columns'"):
        ref.columns  # noqa: B018 (reading the attribute is what raises)


def test_what_is_no_ref(ray: ModuleType) -> None:
    for wrong, error, words in (
        (b"short", ValueError, "length 16.*not 5"),
        ("0" * 16, TypeError, "needs the bytes"),
        (bytes(16), ValueError, "no such object"),
        (b"x" * 16, ValueError, "no such object"),
    ):
        with pytest.raises(error, match=words):
            ray.ObjectRef(wrong)


def test_a_ref_whose_object_is_gone(ray: ModuleType) -> None:
    ref = ray.put(bytes(1 << 20))  # so large that it is freed at once
    name = ref.binary()
    del ref
    more = [ray.put(i) for i in range(10)]
    with pytest.raises(ValueError, match="no such object"):
        ray.ObjectRef(name)
    assert ray.get(more) == list(range(10))


def test_cloudpickle_and_job_config(ray: ModuleType) -> None:
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps(lambda: 3))() == 3
    config = ray.job_config.JobConfig(runtime_env={"env_vars": {"A": "1"}}, ray_namespace="n")
    config.set_metadata("a", "b")
    assert (config.ray_namespace, config.metadata) == ("n", {"a": "b"})
    with pytest.raises(ValueError, match="lifetime='detached'"):
        ray.job_config.JobConfig(default_actor_lifetime="detached")


# ---------------------------------------------------------------- programs of their own
def alone(code: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done


def test_a_job_config_counts_unless_the_call_says_otherwise() -> None:
    assert (
        alone("""
import cellmesh.compat.ray as ray
config = ray.job_config.JobConfig(ray_namespace="n", runtime_env={"env_vars": {"A": "1"}})
for more in ({}, {"namespace": "m"}):
    with ray.init(num_cpus=1, job_config=config, **more):
        print(ray.get_runtime_context().namespace, ray.get_runtime_context().runtime_env)
""").stdout
        == "n {'env_vars': {'A': '1'}}\nm {'env_vars': {'A': '1'}}\n"
    )


def test_sigterm_ends_a_driver_by_system_exit() -> None:
    assert (
        alone(
            """
import atexit, os, signal
import cellmesh.compat.ray as ray
atexit.register(print, "at exit")
ray.init(num_cpus=1)
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    print("finally")
""",
            status=signal.SIGTERM,
        ).stdout
        == "finally\nat exit\n"
    )


def test_a_handler_of_the_programs_own_stays() -> None:
    assert (
        alone("""
import os, signal
import cellmesh.compat.ray as ray
signal.signal(signal.SIGTERM, lambda number, frame: print("mine"))
ray.init(num_cpus=1)
os.kill(os.getpid(), signal.SIGTERM)
""").stdout
        == "mine\n"
    )


def test_lines_of_actors_begin_with_their_class() -> None:
    done = alone("""
import cellmesh.compat.ray as ray
ray.init(num_cpus=1)

@ray.remote
class Speaker:
    def speak(self):
        print("spoken")

@ray.remote
def task():
    print("printed")

speaker = Speaker.remote()
ray.get([speaker.speak.remote(), task.remote()])
ray.shutdown()
""")
    assert "(Speaker pid=" in done.stdout and "(task pid=" in done.stdout and "Speaker.speak" not in done.stdout


@pytest.mark.parametrize(("switch", "n_lines"), [("1", 2), ("0", 4)])
def test_lines_that_differ_in_numbers_are_told_once_and_how_often(switch: str, n_lines: int) -> None:
    lines = alone(f"""
import os
os.environ["RAY_DEDUP_LOGS"] = {switch!r}
import cellmesh.compat.ray as ray
ray.init(num_cpus=1)

@ray.remote
def step(i):
    print("epoch", i, hex(i))

ray.get([step.remote(i) for i in range(4)])
ray.shutdown()
""").stdout.splitlines()
    assert len(lines) == n_lines and all(line.startswith("(step pid=") for line in lines)
    assert lines[-1].endswith(" epoch 3 0x3 [repeated 3x across cluster]" if n_lines == 2 else " epoch 3 0x3")
