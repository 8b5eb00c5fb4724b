"""What the engine "dask" has run in Dask's workers for actors: the *host*, a Dask task for as long as its actor lives.

A host has a process of its own for the actor, see `actor.process`. It hears what to do by a queue of Dask's that is the
actor's, and tells what becomes of it by another one, the session's. It keeps its worker's thread while the actor is to
keep a CPU; else it secedes. Dask does not tell a task that nobody wants it any more, so a host looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..actor.lines import Lines
from ..actor.process import ActorProcess
from ..interface import ActorRunner, Outcome
from ..news import Line
from ..parcels import Large
from .worker import AT, CANCELLED, ENDED, LOST, OVER, SAID, Told, begin, is_wanted, library, put

LOOK_S = 0.25  # how often a host looks whether it is wanted
RUN, SAY, CANCEL, END, KILL = "run", "say", "cancel", "end", "kill"
CONSTRUCTED = "constructed"  # what a host tells itself


class Order(NamedTuple):
    """What a host is to do: run a parcel; tell the pocket that runs one something; pass over one that has not begun;
    end once what came before has run; end at once. `keys`: Dask's, of the parcel's blobs, whose futures come before;
    `group`: as of `Parcel`."""

    what: str
    number: int = 0
    data: bytes = b""
    keys: Sequence[Any] = ()
    group: int = 0


class Host:
    """Runs the parcels of an actor, those of a concurrency group in their order.

    Parameters
    ----------
    make : callable (ended) -> ActorRunner
        Begins its process, which calls that with its exit status or -signal.
    find : callable (futures) -> values or None
        Gets blobs; None: one of them is lost.
    tell : callable (what, number, outcome, code, begun)
        `begun`: when all is over, the parcels in the midst of which the process has ended.
    limits : sequence of int
        As of `Parcel`.

    Attributes
    ----------
    is_wanted : bool
        Somebody hears what it tells.
    """

    def __init__(
        self,
        make: Callable[[Callable[[int], None]], ActorRunner],
        find: Callable[[Sequence[Any]], Sequence[Any] | None],
        tell: Callable[[str, int, Outcome, int, Sequence[int]], None],
        limits: Sequence[int] = (),
    ) -> None:
        self._find, self._tell = find, tell
        self.is_wanted = True
        self._lines: Lines[Order] = Lines(limits)
        self._begun: set[int] = set()  # parcels that the process has
        self._n_ended = 0
        self._is_to_end = self._ends = False
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
            elif order.what == END:
                self._is_to_end = True
            elif not self._is_to_end:
                self._latest = max(self._latest, order.number)
                self._lines.add(order, order.group)
            passed = self._lines.take_out(lambda order: order.number in self._cancelled) if self._cancelled else []
            self._cancelled = {number for number in self._cancelled if number > self._latest}  # yet to come
            self._changed.notify_all()
        for order in passed:
            self._tell(CANCELLED, order.number, _NOTHING, 0, ())

    def serve(self, constructed: Callable[[], None]) -> None:
        """Returns when the process has ended. `constructed`: called once the first parcel has run."""
        is_constructed = False
        while (order := self._next(is_constructed)) is not None:
            if order.what == RUN:
                self._run(order)
            elif order.what == END:
                self._process.end(False)
            else:
                is_constructed = True
                constructed()
        assert self._code is not None
        if self.is_wanted:
            self._tell(OVER, 0, _NOTHING, self._code, sorted(self._begun))

    def _run(self, order: Order) -> None:
        if (blobs := self._find(order.keys)) is None:
            with self._changed:
                self._lines.ended(order.group)
            self._tell(LOST, order.number, _NOTHING, 0, ())
            return
        with self._changed:
            self._begun.add(order.number)
        self._process.run(order.data, blobs, partial(self._has_run, order))

    def _has_run(self, order: Order, outcome: Outcome | None) -> None:
        """In another thread."""
        if outcome is None:
            return
        self._tell(ENDED, order.number, outcome, 0, ())
        with self._changed:
            self._begun.discard(order.number)
            self._lines.ended(order.group)
            self._n_ended += 1
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended; whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._code is not None, timeout)

    def _next(self, is_constructed: bool) -> Order | None:
        """What is to be done now; None: the process has ended."""
        with self._changed:
            while self._code is None:
                if self._n_ended and not is_constructed:
                    return Order(CONSTRUCTED)
                if (order := self._lines.next()) is not None:
                    return order
                if self._is_to_end and not self._ends and not len(self._lines):
                    self._ends = True
                    return Order(END)
                self._changed.wait()
            return None

    def _ended(self, code: int) -> None:
        with self._changed:
            self._code = code
            self._changed.notify_all()


_NOTHING = Outcome(b"")


# ---------------------------------------------------------------- with Dask
def host_actor(session: str, number: int, placed_cpus: float, kept_cpus: float, limits: Sequence[int]) -> None:
    """A Dask task: the host of an actor. `session`: the name of what is told; `number`: the actor's; `limits`: as of
    `Parcel`."""
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
        lambda what, call, outcome, code, begun: put(
            client, told, Told(number, what, call, outcome.data, code=code, begun=begun), outcome.large
        ),
        limits,
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

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
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
