"""What the engine "dask" has run in Dask's workers for actors: the *host*, a Dask task for as long as its actor lives.

A host has a process of its own for the actor, see `actor_process`. It hears what to do by a queue of Dask's that is the
actor's, and tells what becomes of it by another one, the session's. It keeps its worker's thread while the actor is to
keep a CPU; else it secedes. Dask does not tell a task that nobody wants it any more, so a host looks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..actor_process import ActorProcess
from ..interface import ActorRunner, Outcome
from ..news import Line
from .worker import AT, CANCELLED, ENDED, LOST, OVER, SAID, Told, begin, is_wanted, library, put

LOOK_S = 0.25  # how often a host looks whether it is wanted
RUN, SAY, CANCEL, END, KILL = "run", "say", "cancel", "end", "kill"


class Order(NamedTuple):
    """What a host is to do: run a parcel; tell the pocket that runs one something; pass over one that has not begun;
    end once what came before has run; end at once. `keys`: Dask's, of the parcel's blobs, whose futures come before."""

    what: str
    number: int = 0
    data: bytes = b""
    keys: Sequence[Any] = ()


class Host:
    """Runs the parcels of an actor in their order.

    Parameters
    ----------
    make : callable (ended) -> ActorRunner
        Begins its process, which calls that with its exit status or -signal.
    find : callable (futures) -> values or None
        Gets blobs; None: one of them is lost.
    tell : callable (what, number, outcome, code)

    Attributes
    ----------
    is_wanted : bool
        Somebody hears what it tells.
    """

    def __init__(
        self,
        make: Callable[[Callable[[int], None]], ActorRunner],
        find: Callable[[Sequence[Any]], Sequence[Any] | None],
        tell: Callable[[str, int, Outcome, int], None],
    ) -> None:
        self._find, self._tell = find, tell
        self.is_wanted = True
        self._orders: deque[Order] = deque()
        self._cancelled: set[int] = set()
        self._latest = 0  # parcel that was heard of
        self._code: int | None = None
        self._changed = threading.Condition()
        self._process = make(self._ended)

    def hear(self, order: Order) -> None:
        """Take an order; from another thread."""
        with self._changed:
            if order.what == SAY:
                self._process.hear(order.data)
            elif order.what == CANCEL:
                self._cancelled.add(order.number)
            elif order.what == KILL:
                self._process.end(True)
            else:
                self._latest = max(self._latest, order.number)
                self._orders.append(order)
            passed = [order for order in self._orders if order.number in self._cancelled]
            self._orders = deque(order for order in self._orders if order not in passed)
            self._cancelled = {number for number in self._cancelled if number > self._latest}  # yet to come
            self._changed.notify_all()
        for order in passed:
            self._tell(CANCELLED, order.number, Outcome(b""), 0)

    def serve(self, constructed: Callable[[], None]) -> None:
        """Returns when the process has ended. `constructed`: called once the first parcel has run."""
        number, nothing, is_constructed = 0, Outcome(b""), False
        while (order := self._next()) is not None:
            if order.what == END:
                self._process.end(False)
                continue
            if (blobs := self._find(order.keys)) is None:
                self._tell(LOST, order.number, nothing, 0)
            elif (outcome := self._process.run(order.data, blobs)) is None:
                number = order.number
            else:
                self._tell(ENDED, order.number, outcome, 0)
                if not is_constructed:
                    is_constructed = True
                    constructed()
        assert self._code is not None
        if self.is_wanted:
            self._tell(OVER, number, nothing, self._code)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended; whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._code is not None, timeout)

    def _next(self) -> Order | None:
        with self._changed:
            self._changed.wait_for(lambda: self._orders or self._code is not None)
            return None if self._code is not None else self._orders.popleft()

    def _ended(self, code: int) -> None:
        with self._changed:
            self._code = code
            self._changed.notify_all()


# ---------------------------------------------------------------- with Dask
def host_actor(session: str, number: int, placed_cpus: float, kept_cpus: float) -> None:
    """A Dask task: the host of an actor. `session`: the name of what is told; `number`: the actor's."""
    dask = library()
    client, worker = dask.get_client(), dask.get_worker()
    begin(dask, orders_of(session, number), 1)
    key = worker.get_current_task()
    if not placed_cpus:
        dask.secede()
    orders, told = (dask.Queue(name, client=client) for name in (orders_of(session, number), session))
    host = Host(
        partial(ActorProcess, HostLine(client, told, number)),
        partial(_found, client),
        lambda what, call, outcome, code: put(
            client, told, Told(number, what, call, outcome.data, code=code), outcome.large
        ),
    )
    for work in (partial(_hear, dask, orders, host), partial(_look, worker, key, host)):
        threading.Thread(target=work, name="cellmesh-host", daemon=True).start()
    told.put(list(Told(number, AT, data=worker.id)))
    gives_back = placed_cpus and not kept_cpus
    host.serve(dask.secede if gives_back else lambda: None)
    orders.put([])
    told.close()


class HostLine(Line):
    """The line of an actor's process, by its host."""

    def __init__(self, client: Any, queue: Any, actor: int) -> None:
        self._client, self._queue, self._actor = client, queue, actor

    def say(self, message: bytes, large: Sequence[bytes]) -> bool:
        """Tell the engine's process something."""
        put(self._client, self._queue, Told(self._actor, SAID, data=message), large)
        return True


def orders_of(session: str, actor: int) -> str:
    """The name of the queue from which a host hears."""
    return f"{session}-actor-{actor}"


def _hear(dask: Any, orders: Any, host: Host) -> None:
    futures: dict[str, Any] = {}
    try:
        while heard := orders.get():
            if isinstance(heard, dask.Future):
                futures[heard.key] = heard
                continue
            for order in (Order(*one) for one in heard):
                host.hear(order._replace(keys=[futures[key] for key in order.keys]))
            futures = {}
        orders.close()
    except OSError:  # the scheduler has gone, or this worker goes
        _abandon(host)


def _abandon(host: Host) -> None:
    host.is_wanted = False
    host.hear(Order(KILL))


def _look(worker: Any, key: Any, host: Host) -> None:
    while not host.wait(LOOK_S):
        if not is_wanted(worker, key):
            _abandon(host)


def _found(client: Any, futures: Sequence[Any]) -> Sequence[Any] | None:
    if any(future.status != "finished" for future in futures):
        return None
    found: dict[int, Any] = client.gather(dict(enumerate(futures)), errors="skip") if futures else {}
    values: list[Any] = [found.get(i) for i in range(len(futures))]
    if any(value is None for value in values):
        return None
    return [memoryview(value).cast("B") for value in values]
