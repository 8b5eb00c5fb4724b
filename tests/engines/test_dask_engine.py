"""What the engine "dask" makes of what Dask says; without Dask."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cellmesh.engines.addresses import address_of, prefix_of
from cellmesh.engines.dask import engine
from cellmesh.engines.dask.engine import DaskEngine
from cellmesh.engines.dask.host import CANCEL, END, KILL, RUN, SAY, Host, Order
from cellmesh.engines.dask.terms import (
    BegunTooOften,
    Worker,
    dashboard_of,
    failure_of,
    limits_for,
    native,
    nodes_of,
)
from cellmesh.engines.dask.worker import CANCELLED, ENDED, LOST, OVER, Kept
from cellmesh.engines.interface import EngineNode, Event, Notice, Outcome, Over
from cellmesh.exceptions import EngineError

SMALL, LARGE = Worker("small", 1, {}), Worker("large", 4, {"GPU": 2.0})
WORKERS = {"tcp://small": SMALL, "tcp://large": LARGE}


@pytest.mark.parametrize(
    ("address", "of_dask"),
    [("dask://head:8786", "tcp://head:8786"), ("dask+tls://head:8786/", "tls://head:8786")],
)
def test_an_address_is_dasks_own_with_another_beginning(address: str, of_dask: str) -> None:
    assert native(address) == of_dask
    assert prefix_of(address)


@pytest.mark.parametrize(
    ("has", "address"),
    [("tcp://10.0.0.1:8786", "dask://10.0.0.1:8786"), ("tls://10.0.0.1:8786", "dask+tls://10.0.0.1:8786")],
)
def test_a_cluster_of_dasks_stands_for_its_schedulers_address(has: str, address: str) -> None:
    assert address_of(SimpleNamespace(scheduler_address=has)) == address


@pytest.mark.parametrize("asked", ["auto", SimpleNamespace(scheduler_address="inproc://1"), 3])
def test_anything_else_stays_what_it_is(asked: Any) -> None:
    assert address_of(asked) is asked


def test_a_thread_is_a_cpu() -> None:
    assert nodes_of(WORKERS) == [EngineNode("small", {"CPU": 1.0}), EngineNode("large", {"GPU": 2.0, "CPU": 4.0})]


def test_a_cluster_without_workers_is_sent_tasks() -> None:
    assert [node.total for node in nodes_of({})] == [{"CPU": 1.0}]


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        ({}, {}),
        ({"CPU": 1.0}, {}),
        ({"CPU": 0.5, "GPU": 1.0}, {"resources": {"GPU": 1.0}}),
        ({"CPU": 2.0}, {"workers": ["tcp://large"], "allow_other_workers": True}),
    ],
)
def test_dask_is_told_what_is_not_a_thread(resources: dict[str, float], limits: dict[str, Any]) -> None:
    assert limits_for(resources, WORKERS) == limits


def test_what_every_worker_has_room_for_may_go_to_each() -> None:
    assert limits_for({"CPU": 3.0}, {"tcp://large": LARGE}) == {}


def test_what_no_worker_has_any_more_is_an_error() -> None:
    with pytest.raises(EngineError, match="has 8 threads"):
        limits_for({"CPU": 8.0}, WORKERS)


class KilledWorker(Exception):
    allowed_failures = 3


class FutureCancelledError(Exception):
    pass


class NoValidWorkerError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "n_runs"),
    [
        (KilledWorker(), "crashed", 4),
        (BegunTooOften("it was begun 2 times"), "crashed", 2),
        (FutureCancelledError("lost dependencies"), "object_lost", 1),
        (None, "object_lost", 1),
        (NoValidWorkerError(), "unschedulable", 0),
        (ModuleNotFoundError("No module named 'torch'"), "env_failed", 1),
    ],
)
def test_an_error_of_dasks_is_a_kind_of_failure(error: BaseException | None, kind: str, n_runs: int) -> None:
    assert failure_of(error, False, 2)[:2] == (kind, n_runs)
    assert failure_of(error, True, 2) == ("cancelled", 0, "")


def test_what_is_said_of_a_failure_is_its_first_line() -> None:
    assert failure_of(OSError("\nno room\nat all"), False, 1)[2] == "OSError: no room"


def test_what_is_kept_travels_as_its_keys() -> None:
    kept = Kept(b"data", [SimpleNamespace(key="a"), SimpleNamespace(key="b")], ("run", 2))
    assert pickle.loads(pickle.dumps(kept)) == (b"data", ["a", "b"], "run", 2)


class Process:
    """In the place of an actor's process: dies of what says so."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended
        self._heard = b""

    def hear(self, message: bytes) -> None:
        self._heard += message

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        if data == b"die":
            self._ended(3)
            over(None)
        else:
            over(Outcome(b" ".join([data, *blobs]) + self._heard))

    def end(self, force: bool) -> None:
        self._ended(-signal.SIGKILL if force else 0)


def told_by_host(*orders: Order, is_wanted: bool = True) -> tuple[list[tuple[str, int, bytes, int]], int]:
    """What a host tells that hears these orders before it begins, and how often its actor was constructed. When all is
    over: the number of the parcel that its end was about."""
    told: list[tuple[str, int, bytes, int]] = []
    constructed: list[None] = []
    host = Host(
        Process,
        lambda keys: None if "lost" in keys else [key.encode() for key in keys],
        lambda what, number, outcome, code, begun: told.append((what, sum([number, *begun]), outcome.data, code)),
    )
    host.is_wanted = is_wanted
    for order in orders:
        host.hear(order)
    host.serve(lambda: constructed.append(None))
    assert host.wait(0.0)
    return told, len(constructed)


def test_a_host_runs_what_it_hears_in_order_and_ends_when_it_is_to() -> None:
    orders = [Order(RUN, 1, b"begin"), Order(RUN, 2, b"call", ["value"]), Order(END), Order(RUN, 3, b"late")]
    assert told_by_host(*orders) == (
        [(ENDED, 1, b"begin", 0), (ENDED, 2, b"call value", 0), (OVER, 0, b"", 0)],
        1,
    )


def test_a_host_hands_on_at_once_what_its_actors_pocket_is_told() -> None:
    told, _ = told_by_host(Order(RUN, 1, b"begin"), Order(SAY, data=b"!"), Order(END))
    assert told == [(ENDED, 1, b"begin!", 0), (OVER, 0, b"", 0)]


def test_a_host_tells_in_which_call_its_actor_has_died() -> None:
    told, n = told_by_host(Order(RUN, 1, b"begin"), Order(RUN, 2, b"die"), Order(RUN, 3, b"late"))
    assert (told, n) == ([(ENDED, 1, b"begin", 0), (OVER, 2, b"", 3)], 1)
    assert told_by_host(Order(RUN, 1, b"die")) == ([(OVER, 1, b"", 3)], 0)


def test_a_host_passes_over_what_is_cancelled_or_lacks_a_value() -> None:
    told, _ = told_by_host(
        Order(RUN, 1, b"begin"),
        Order(CANCEL, 4),  # it has overtaken what it cancels
        Order(RUN, 2, b"no"),
        Order(RUN, 3, b"no", ["lost"]),
        Order(CANCEL, 2),
        Order(RUN, 4, b"no"),
        Order(END),
    )
    cancelled = [(CANCELLED, number, b"", 0) for number in (2, 4)]
    assert told == [*cancelled, (ENDED, 1, b"begin", 0), (LOST, 3, b"", 0), (OVER, 0, b"", 0)]


def test_a_host_that_is_killed_begins_nothing_more_and_tells_whoever_wants_to_know() -> None:
    orders = [Order(RUN, 1, b"begin"), Order(KILL)]
    assert told_by_host(*orders) == ([(OVER, 0, b"", -signal.SIGKILL)], 0)
    assert told_by_host(*orders, is_wanted=False) == ([], 0)


def test_a_scheduler_that_takes_its_time_is_told_of_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLOW_S", 0.0)
    made, told, answers = DaskEngine(), list[Event](), asyncio.Event()

    def tell(event: Event) -> None:
        told.append(event)
        answers.set()

    async def look() -> tuple[int, dict[str, Worker]]:
        await answers.wait()
        return 3, {}

    monkeypatch.setattr(made, "_tell", tell)
    monkeypatch.setattr(made, "_look", look)
    try:
        assert made._loop.run_until_complete(made._look_patiently()) == (3, {})
    finally:
        made._loop.close()
    assert told == [Notice(line="slow"), Notice(line="connected")]


def test_its_dashboard_is_on_the_schedulers_machine() -> None:
    assert dashboard_of("tcp://10.0.0.1:8786", {"dashboard": 8787}) == "http://10.0.0.1:8787/status"
    assert dashboard_of("tcp://10.0.0.1:8786", {}) == ""
