"""What the engine "ray" makes of what Ray says; without Ray."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from cellmesh.engines.interface import EngineNode, Event, Notice
from cellmesh.engines.ray import engine, joining
from cellmesh.engines.ray.engine import amounts_of, failure_of
from cellmesh.engines.ray.joining import NotServed, check_listens, environment_of, joined
from cellmesh.exceptions import EngineUnreachableError


def test_amounts_are_what_tasks_may_ask_for() -> None:
    said = {"CPU": 2.0, "memory": 1e9, "object_store_memory": 1e8, "node:10.0.0.1": 1.0, "node:__internal_head__": 1.0}
    assert amounts_of(said) == {"CPU": 2.0, "memory": 1e9}


class RayError(Exception):
    pass


class RayTaskError(RayError):
    cause: BaseException | None = None


KINDS = {
    "TaskCancelledError": "cancelled",
    "OutOfMemoryError": "oom",
    "NodeDiedError": "node_died",
    "ObjectLostError": "object_lost",
    "TaskUnschedulableError": "unschedulable",
    "WorkerCrashedError": "crashed",
}
EXCEPTIONS = SimpleNamespace(RayTaskError=RayTaskError, **{name: type(name, (RayError,), {}) for name in KINDS})


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_failure_of_rays_has_its_kind(name: str, kind: str) -> None:
    error = getattr(EXCEPTIONS, name)("\nwhat Ray says\nat length")
    assert failure_of(EXCEPTIONS, error) == (kind, f"{name}: what Ray says")


def test_the_failure_within_a_task_of_rays_counts() -> None:
    error = RayTaskError("long")
    error.cause = ModuleNotFoundError("No module named 'cellmesh'")
    assert failure_of(EXCEPTIONS, error) == ("env_failed", "ModuleNotFoundError: No module named 'cellmesh'")


def test_a_head_that_takes_its_time_is_told_of_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLOW_S", 0.0)
    made, told, answers = engine.RayEngine(), list[Event](), threading.Event()

    def tell(event: Event) -> None:
        told.append(event)
        answers.set()

    def machines() -> list[EngineNode]:
        answers.wait()
        return []

    monkeypatch.setattr(made, "_tell", tell)
    monkeypatch.setattr(made, "_machines", machines)
    assert made._look_patiently() == []
    assert told == [Notice(line="slow"), Notice(line="connected")]


def test_packages_that_are_sent_come_before_what_the_job_is_to_have() -> None:
    assert environment_of({}, {}) == {}
    assert environment_of({"pip": ["six"]}, {}) == {"pip": ["six"]}
    asked = {"env_vars": {"A": "1"}, "py_modules": ["/mine"]}
    assert environment_of(asked, {"cellmesh": "/site/cellmesh"}) == asked | {"py_modules": ["/site/cellmesh", "/mine"]}


def test_an_address_where_nothing_listens_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(EngineUnreachableError, match=r"no Ray cluster at ray:127.*Try another"):
            check_listens("ray:", f"127.0.0.1:{free.getsockname()[1]}", "Try another")


@pytest.mark.parametrize(
    ("address", "error", "again", "words"),
    [
        ("ray://head:10001", ConnectionError("Request can't be sent"), True, "broke off .*: .*can't be sent"),
        ("ray://head:10001", ConnectionAbortedError("Failed:\nTraceback\n  why"), True, "no process .*:   why"),
        (
            "ray://head:10001",
            ConnectionError("ray client connection timeout"),
            False,
            "no Ray cluster at .*timeout.*hint",
        ),
        ("ray:head:6379", ConnectionError("refused"), False, "no Ray cluster at .*refused.*hint"),
    ],
)
def test_a_connection_that_breaks_off_as_it_begins_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, address: str, error: ConnectionError, again: bool, words: str
) -> None:
    def begin(**given: object) -> None:
        raise error

    monkeypatch.setattr(joining, "_asks_for_token", lambda where: False)
    ray = SimpleNamespace(__version__="2.60.0", runtime_env=SimpleNamespace(RuntimeEnv=lambda **given: None))
    with pytest.raises(EngineUnreachableError, match=words) as told:
        joined(ray, address, "hint", {}, begin)
    assert isinstance(told.value, NotServed) == again
