"""What the engine "dask" has run in Dask's workers, and in its scheduler. `distributed` is imported late."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from .. import pocket
from ..news import Line
from ..parcels import Large
from .terms import BegunTooOften, Withdrawn

AGAIN_S = 0.05  # for a worker whose task waits to be free
AT, ENDED, LOST, CANCELLED, OVER, SAID = "at", "ended", "lost", "cancelled", "over", "said"


class Told(NamedTuple):
    """What comes by the session's queue. A host of an actor tells that it is there, in the worker that `data` names;
    that a parcel has ended, lacks a blob, or was passed over; that all is over, `code` being the process's, in the
    midst of the parcels `begun`. Any pocket says something: `actor` 0: that of a parcel which is no actor's,
    in its `run`. `keys`: Dask's, of what is large in it, whose futures come before."""

    actor: int
    what: str
    number: int = 0
    data: bytes | str = b""
    keys: Sequence[str] = ()
    code: int = 0
    run: str = ""
    begun: Sequence[int] = ()


class Claim(NamedTuple):
    """By which name it is noted in the scheduler that a parcel begins, and how often it may; and whether it may be
    withdrawn before."""

    name: str
    most_runs: int
    may_be_withdrawn: bool


_rests = threading.Event()  # the task that runs here waits for an actor


def library() -> Any:
    """`distributed`, of which nothing is known where it is not installed."""
    return import_module("distributed")


class Kept:
    """What a parcel has made, with values that its worker keeps for as long as this. Whoever gathers it gets their
    keys. `said`: by which run of it, and how often, something went to the session's queue."""

    def __init__(self, data: bytes, values: Sequence[Any], said: tuple[str, int] = ("", 0)) -> None:
        self._data, self._values, self._said = data, values, said

    def __reduce__(self) -> Any:
        return tuple, ((self._data, [value.key for value in self._values], *self._said),)


class WorkerLine(Line):
    """The line of a task of Dask's: by events; that of a generator by the session's queue, which is as safe as Dask is,
    and by one of its own, of its run's name."""

    def __init__(self, dask: Any, session: str, number: int) -> None:
        self._dask, self._session, self._number = dask, session, number
        self._worker = dask.get_worker()
        self._key = self._worker.get_current_task()  # which the thread knows that runs it
        self._client: Any = None
        self._queue: Any = None
        self._has_seceded = False
        self.said: tuple[str, int] = "", 0

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell the engine's process something."""
        if self._queue is None:
            self._worker.log_event(self._session, message)
            return True
        run, n = self.said
        try:
            put(self._client, self._queue, Told(0, SAID, self._number, message, run=run), large)
        except OSError:  # the scheduler has gone, or this worker goes
            pocket.hear(None)
            return False
        self.said = run, n + 1
        if not is_wanted(self._worker, self._key):
            pocket.hear(None)
        return True

    def listen(self) -> None:
        """Hear what it says."""
        self._client = self._dask.get_client(self._worker.scheduler.address)  # in any thread
        self.said = f"{self._session}-{uuid.uuid4().hex}", 0
        self._heard = self._dask.Queue(self.said[0], client=self._client)
        self._queue = self._dask.Queue(self._session, client=self._client)
        threading.Thread(target=self._hear, name="cellmesh-hear", daemon=True).start()

    def end(self) -> None:
        """Hear no more."""
        _rests.clear()
        try:
            self._heard.put(b"")
            self._queue.close()
        except OSError:
            pass  # this worker goes

    def rest(self, comes: threading.Event, seconds: float) -> bool:
        """Sleep, and leave the thread to an actor's host; other tasks find the worker taken, see `take_turn`."""
        if not self._has_seceded:
            self._has_seceded = True
            self._dask.secede()
        _rests.set()
        if comes.wait(seconds):
            _rests.clear()
        return True

    def _hear(self) -> None:
        try:
            while message := self._heard.get():
                pocket.hear(message)
            self._heard.close()
        except OSError:
            pocket.hear(None)


def put(client: Any, queue: Any, told: Told, large: Sequence[Large]) -> None:
    """Tell something by the session's queue."""
    values = client.scatter([bytes(one) for one in large], hash=False) if large else []
    for value in values:
        queue.put(value)  # Dask keeps it until it was taken from there, and who takes it keeps it then
    queue.put(list(told._replace(keys=[value.key for value in values])))


def is_wanted(worker: Any, key: Any) -> bool:
    """Whether somebody waits for that task still, which runs. Dask tells it nothing of that."""
    task = worker.state.tasks.get(key)
    return (
        task is not None and task.state in ("executing", "long-running") and not worker.status.name.startswith("clos")
    )


def run_parcel(session: str, number: int, claim: Claim | None, data: bytes, *blobs: Any) -> bytes | Kept:
    """A Dask task: runs a parcel. `session`: the name of what it tells meanwhile; `claim`: as of `begin`."""
    dask = library()
    take_turn(dask)
    if claim is not None:
        begin(dask, *claim)
    line = WorkerLine(dask, session, number)
    outcome = pocket.run(data, [memoryview(blob).cast("B") for blob in blobs], line)
    if not outcome.large and not line.said[1]:
        return outcome.data
    large = [bytes(one) for one in outcome.large]
    return Kept(outcome.data, dask.get_client().scatter(large, hash=False) if large else [], line.said)


def take_turn(dask: Any) -> None:
    """Wait until the worker is free for a parcel. While its task waits for an actor, which may need this thread to
    begin, the parcel goes back to the scheduler."""
    while not pocket.is_free(AGAIN_S):
        if _rests.is_set():
            raise dask.Reschedule


def keep(value: Any) -> Any:
    """A Dask task: what a parcel has scattered is the engine's, and the parcel can go."""
    return value


def begin(dask: Any, name: str, most_runs: int, may_be_withdrawn: bool = False) -> None:
    """Note in the scheduler that a parcel begins, which it may so often, and not once it is withdrawn."""
    client = dask.get_client()
    for one in marks(name, most_runs):
        mark = dask.Event(one, client=client)
        if not mark.is_set():
            mark.set()
            break
    else:
        raise BegunTooOften(f"it was begun {most_runs} times")
    if may_be_withdrawn and dask.Event(withdrawn(name), client=client).is_set():
        raise Withdrawn("it is not to begin any more")


def marks(name: str, most_runs: int) -> list[str]:
    """The names of the events which say how often a parcel was begun."""
    return [f"{name}-{n}" for n in range(most_runs)]


def withdrawn(name: str) -> str:
    """The name of the event which says that a parcel is."""
    return f"{name}-withdrawn"


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
