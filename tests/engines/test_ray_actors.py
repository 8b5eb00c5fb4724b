"""What the engine "ray" makes of actors; with something in Ray's place that has its interface, and no processes."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from support.waiting import wait_until

from cellmesh.engines.interface import ActorEnded, Ended, Event, Failed, Parcel
from cellmesh.engines.ray import engine as ray_engine
from cellmesh.engines.ray.engine import RayEngine, actor_failure_of, actor_options


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class RayTaskError(RayError):
    cause: BaseException | None = None


NAMES = (
    "TaskCancelledError",
    "OutOfMemoryError",
    "NodeDiedError",
    "ObjectLostError",
    "TaskUnschedulableError",
    "WorkerCrashedError",
    "ActorUnschedulableError",
)
ERRORS: Any = SimpleNamespace(
    RayTaskError=RayTaskError, RayActorError=RayActorError, **{name: type(name, (RayError,), {}) for name in NAMES}
)


class Method:
    """A method of a Ray actor. `futures`: of its calls."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.given: list[tuple[Any, ...]] = []

    def options(self, **options: Any) -> Method:
        return self

    def remote(self, *given: Any) -> Any:
        self.futures.append(Future())
        self.given.append(given)
        return SimpleNamespace(future=lambda future=self.futures[-1]: future)


class Ray:
    """Its interface, as far as actors go. `host`: the actor."""

    exceptions: Any = ERRORS

    def __init__(self) -> None:
        self.host: Any = SimpleNamespace(run=Method(), watch=Method(), end=Method(), cancel=Method())
        self.office: Any = SimpleNamespace(has_left=Method())
        self.options: dict[str, Any] = {}
        self.killed: list[Any] = []
        self._kills = Lock()

    def kill(self, host: Any) -> None:
        with self._kills:
            is_first = not self.killed
            self.killed.append(host)
        if is_first:
            self._end(host)

    def _end(self, host: Any) -> None:
        for method in (host.run, host.watch):
            for future in method.futures:
                if not future.done():
                    future.set_exception(RayActorError("it has died"))

    def make(self, **options: Any) -> Any:
        self.options = options
        return SimpleNamespace(remote=lambda name: self.host)


@pytest.fixture
def engine() -> tuple[Any, Ray, list[Event]]:
    """The engine, Ray, and what the engine tells."""
    made: Any = RayEngine()
    ray, told = Ray(), []
    made._ray, made._tell, made._office = ray, told.append, ray.office
    made._host = SimpleNamespace(options=ray.make)
    return made, ray, told


def answer(ray: Ray, has_left: bool) -> None:
    """The office says whether the actor has left."""
    wait_until(lambda: ray.office.has_left.futures)
    ray.office.has_left.futures.pop().set_result(has_left)


def test_a_constructor_a_call_and_the_end(engine: tuple[Any, Ray, list[Event]]) -> None:
    made, ray, told = engine
    actor = made.create_actor(Parcel(b"constructor", resources={"CPU": 2.0}), {"CPU": 2.0})
    assert ray.options["num_cpus"] == 2.0
    assert ray.options["max_restarts"] == 0
    ray.host.run.futures[0].set_result(b"constructed")
    call = made.call(actor, Parcel(b"call", n_results=0))
    assert ray.host.run.given == [(actor, 1, b"constructor"), (call, 0, b"call")]
    ray.host.run.futures[1].set_result(b"called")
    assert told == [Ended(actor, b"constructed", []), Ended(call, b"called", [])]
    made.kill(actor, False)
    assert not ray.killed
    ray.host.end.futures[0].set_result(None)
    answer(ray, has_left=False)
    assert told[2:] == [ActorEnded(actor, "crashed")]
    late = made.call(actor, Parcel(b"late"))
    assert told[3:] == [Failed(late, "crashed")]


def test_calls_that_end_with_it_may_have_begun(engine: tuple[Any, Ray, list[Event]]) -> None:
    made, ray, told = engine
    actor = made.create_actor(Parcel(b"constructor"), {})
    ray.host.run.futures[0].set_result(b"")
    calls = [made.call(actor, Parcel(b"")) for _ in range(2)]
    made.kill(actor, True)
    answer(ray, has_left=True)
    assert told[-1] == ActorEnded(actor, "crashed", has_left=True)
    assert told[1:-1] == [Failed(call, "crashed", 1, "RayActorError: it has died") for call in calls]


def test_one_that_is_not_reached_is_ended(engine: tuple[Any, Ray, list[Event]]) -> None:
    made, ray, told = engine
    actor = made.create_actor(Parcel(b"constructor"), {})
    ray.host.run.futures[0].set_exception(RayActorError("the line is broken"))
    answer(ray, has_left=False)
    assert told == [
        Failed(actor, "crashed", 1, "RayActorError: the line is broken"),
        ActorEnded(actor, "crashed"),
    ]


@pytest.mark.parametrize(
    ("placed", "keeps", "options"),
    [
        ({"CPU": 1.0}, {}, {"num_gpus": 0, "memory": None, "resources": {}}),
        ({}, {}, {"num_cpus": 0, "num_gpus": 0, "memory": None, "resources": {}}),
        (
            {"CPU": 2.0, "GPU": 1.0, "memory": 5.0, "tpu": 1.0},
            {"CPU": 2.0, "GPU": 1.0, "memory": 5.0, "tpu": 1.0},
            {"num_cpus": 2.0, "num_gpus": 1.0, "memory": 5.0, "resources": {"tpu": 1.0}},
        ),
    ],
)
def test_what_an_actor_keeps_in_rays_options(
    placed: dict[str, float], keeps: dict[str, float], options: dict[str, Any]
) -> None:
    assert actor_options(placed, keeps) == {**options, "max_restarts": 0, "max_task_retries": 0}


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: ERRORS.ActorUnschedulableError("no such node"), "unschedulable"),
        (lambda: RayActorError("it has died"), "crashed"),
        (lambda: ERRORS.OutOfMemoryError("full"), "oom"),
        (lambda: ERRORS.TaskCancelledError("as asked"), "cancelled"),
    ],
)
def test_the_failure_of_a_call_has_its_kind(make: Callable[[], BaseException], kind: str) -> None:
    assert actor_failure_of(ERRORS, make())[0] == kind


def test_a_call_is_cancelled_by_its_host_unless_it_has_begun(engine: tuple[Any, Ray, list[Event]]) -> None:
    made, ray, told = engine
    actor = made.create_actor(Parcel(b"constructor"), {})
    calls = [made.call(actor, Parcel(b"call")) for _ in range(2)]
    for call in calls:
        made.cancel(call, False)
    assert ray.host.cancel.given == [(call,) for call in calls]
    ray.host.cancel.futures[0].set_result(False)
    ray.host.cancel.futures[1].set_result(True)
    assert told == [Failed(calls[1], "cancelled")]
    for future in ray.host.run.futures:
        future.set_result(b"done")
    assert [event.handle for event in told if isinstance(event, Ended)] == [actor, calls[0]]


def test_a_host_passes_over_what_was_cancelled_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(shutdown=None))
    monkeypatch.setattr(ray_engine, "run_parcel", lambda number, n_results, data: data)
    host = ray_engine.ActorHost("name")
    assert host.run(1, 1, b"begin") == b"begin"
    assert host.cancel(2)
    assert not host.cancel(1)
    assert host.run(2, 1, b"no") == [None, None]
    assert host.run(3, 0, b"yes") == b"yes"
    assert not host.cancel(2)


@pytest.mark.parametrize("office_has_died", [False, True])
def test_a_line_whose_parcel_has_ended_keeps_no_ref(monkeypatch: pytest.MonkeyPatch, office_has_died: bool) -> None:
    is_over, asked = threading.Event(), threading.Event()

    class Kept:
        """In the place of a ref."""

    refs: list[weakref.ref[Kept]] = []

    class Hear:
        """Answers once it is told to forget who hears."""

        def remote(self, number: int, run: str) -> Any:
            refs.append(weakref.ref(ref := Kept()))
            return ref

    def get(ref: Any) -> list[bytes]:
        asked.set()
        assert is_over.wait(10.0)
        if office_has_died:
            error = RayActorError("it has died")  # as in Ray, whose frames know what they raise
            raise error
        return []

    office = SimpleNamespace(hear=Hear(), forget=SimpleNamespace(remote=lambda number, run: is_over.set()))
    context = SimpleNamespace(get_job_id=lambda: "1")
    ray = SimpleNamespace(
        get_runtime_context=lambda: context,
        get_actor=lambda **named: office,
        get=get,
        exceptions=SimpleNamespace(RayError=RayError),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(ray_engine, "_office", None)
    line = ray_engine.OfficeLine(1)
    line.listen()
    (hears,) = [thread for thread in threading.enumerate() if thread.name == "cellmesh-hear"]
    assert asked.wait(10.0)
    line.end()
    hears.join(10.0)
    assert [ref() for ref in refs] == [None], "Ray would keep the worker for it"
