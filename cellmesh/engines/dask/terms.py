"""What Dask's words mean here: addresses, workers, resources, failures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...exceptions import EngineError
from ...text import first_line
from ..interface import EngineNode, FailureKind

SCHEMES = {"dask://": "tcp://", "dask+tls://": "tls://"}  # how addresses begin here, and Dask's own
NO_WORKER = EngineNode("no worker yet", {"CPU": 1.0})  # some clusters start workers once they see a task


@dataclass(frozen=True)
class Worker:
    """One of Dask's. `resources`: what it was declared to have; `id`: its own; its address another may get."""

    name: str
    n_threads: int
    resources: Mapping[str, float]
    id: str = ""


class BegunTooOften(Exception):
    """A parcel is not begun once more."""


class Withdrawn(Exception):
    """A parcel is not begun."""


def native(address: str) -> str:
    """An address as Dask has it."""
    scheme = next(scheme for scheme in SCHEMES if address.startswith(scheme))
    return SCHEMES[scheme] + address.removeprefix(scheme).rstrip("/")


def nodes_of(workers: Mapping[str, Worker]) -> list[EngineNode]:
    """The workers as machines: a thread is a CPU, and of all else one has what it was declared to have."""
    return [
        EngineNode(worker.name, {**worker.resources, "CPU": float(worker.n_threads)}) for worker in workers.values()
    ] or [NO_WORKER]


def limits_for(resources: Mapping[str, float], workers: Mapping[str, Worker]) -> dict[str, Any]:
    """What Dask is told of a parcel: what to set aside, and, where it needs more threads than each worker has, the
    workers that are to run it. What needs one CPU or less takes a thread.

    Raises
    ------
    EngineError
        No worker has so many.
    """
    cpus = resources.get("CPU", 0.0)
    declared = {name: amount for name, amount in resources.items() if name != "CPU"}
    limits: dict[str, Any] = {"resources": declared} if declared else {}
    if cpus > 1.0:
        fitting = [address for address, worker in workers.items() if worker.n_threads >= cpus]
        if not fitting:
            raise EngineError(f"no worker of Dask's has {cpus:g} threads any more")
        if len(fitting) < len(workers):
            limits |= {"workers": fitting, "allow_other_workers": True}  # should these die before it has run
    return limits


def failure_of(error: BaseException | None, is_cancelled: bool, most_runs: int) -> tuple[FailureKind, int, str]:
    """What has become of a parcel by that error of Dask's, how often it may have been begun, and what there is to be
    said of it. None: Dask has dropped it with what it was given."""
    name, text = type(error).__name__, "" if error is None else first_line(error)
    if is_cancelled or isinstance(error, Withdrawn):
        return "cancelled", 0, ""
    if error is None or "Cancelled" in name:
        return "object_lost", 1, text
    if isinstance(error, BegunTooOften):
        return "crashed", most_runs, text
    if name == "KilledWorker":
        return "crashed", getattr(error, "allowed_failures", most_runs - 1) + 1, text
    if name == "NoValidWorkerError":
        return "unschedulable", 0, text
    return "env_failed", 1, text


def dashboard_of(address: str, services: Mapping[str, Any]) -> str:
    """Where people look at the scheduler with that address, by what it says of its services; "": nowhere."""
    port = services.get("dashboard")
    return f"http://{address.partition('://')[2].rpartition(':')[0]}:{port}/status" if port else ""
