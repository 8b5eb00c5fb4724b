"""What the engine "dask" has run in Dask's workers, and in its scheduler. `distributed` is imported late."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from . import pocket
from .dask_terms import BegunTooOften


def library() -> Any:
    """`distributed`, of which nothing is known where it is not installed."""
    return import_module("distributed")


class Kept:
    """What a parcel has made, with values that its worker keeps for as long as this. Whoever gathers it gets their
    keys."""

    def __init__(self, data: bytes, values: Sequence[Any]) -> None:
        self._data, self._values = data, values

    def __reduce__(self) -> Any:
        return tuple, ((self._data, [value.key for value in self._values]),)


def run_parcel(topic: str, claim: tuple[str, int] | None, data: bytes, *blobs: Any) -> bytes | Kept:
    """A Dask task: runs a parcel. `topic`: of what it tells meanwhile; `claim`: as of `begin`."""
    dask = library()
    if claim is not None:
        begin(dask, *claim)
    tell = partial(say, dask.get_worker(), topic)
    outcome = pocket.run(data, [memoryview(blob).cast("B") for blob in blobs], tell)
    if not outcome.large:
        return outcome.data
    return Kept(outcome.data, dask.get_client().scatter([bytes(one) for one in outcome.large], hash=False))


def keep(value: Any) -> Any:
    """A Dask task: what a parcel has scattered is the engine's, and the parcel can go."""
    return value


def begin(dask: Any, name: str, most_runs: int) -> None:
    """Note in the scheduler that a parcel begins, which it may so often."""
    for mark in (dask.Event(one, client=dask.get_client()) for one in marks(name, most_runs)):
        if not mark.is_set():
            mark.set()
            return
    raise BegunTooOften(f"it was begun {most_runs} times")


def marks(name: str, most_runs: int) -> list[str]:
    """The names of the events which say how often a parcel was begun."""
    return [f"{name}-{n}" for n in range(most_runs)]


def say(worker: Any, topic: str, message: bytes) -> bool:
    """Tell the engine's process something."""
    worker.log_event(topic, message)
    return True


def look(dask_scheduler: Any) -> tuple[int, dict[str, tuple[str, int, dict[str, float], str]]]:
    """In the scheduler: after how many deaths of its worker a task is still begun again, and by address each worker's
    name, how many threads it has, what it was declared to have, and what it alone is called."""
    workers = {
        address: (str(worker.name), worker.nthreads, dict(worker.resources), worker.server_id)
        for address, worker in dask_scheduler.workers.items()
    }
    return dask_scheduler.allowed_failures, workers


def known_of(keys: Sequence[Any], dask_scheduler: Any) -> list[Any]:
    """In the scheduler: those keys of which it knows."""
    return [key for key in keys if key in dask_scheduler.tasks]
