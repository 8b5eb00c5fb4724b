"""The actors of the engine "dask", as the engine's process has them. Each lives with a *host*, see `host`, to
which its calls are handed over in their order once it is there. All of this is the loop's thread.

A host that has died with its worker Dask would begin again; it notes that it begins, and does not a second time. That
its worker has gone is seen by who is there.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...exceptions import EngineError
from ..interface import ActorEnded, Blob, Ended, EngineActor, Event, Failed, FailureKind, Handle, Parcel, Said
from .host import CANCEL, END, KILL, RUN, SAY, Order, host_actor, orders_of
from .terms import Worker, failure_of, limits_for
from .worker import AT, CANCELLED, ENDED, LOST, OVER, SAID, Told, marks

MOST_AT_ONCE = 64  # orders in one message
KNOWN_S = 5.0  # for the scheduler to know of a value that it has told of, or not any more

Values = Callable[[], Awaitable[list[Any] | None]]
"""Dask's futures of a parcel's blobs, once Dask has them; None: one is lost. Keeps them."""


@dataclass
class _Call:
    """A parcel, a constructor's or a call's; no parcel: that it is to end."""

    number: Handle
    parcel: Parcel | None
    values: Values


@dataclass
class _Actor:
    """`line`: what its host has not been given; `given`: what that has, and has not told the end of. `worker`: where it
    is, "": not known yet."""

    number: int
    future: Any
    orders: Any = None
    worker: str = ""
    line: deque[_Call] = field(default_factory=deque["_Call"])
    given: dict[Handle, _Call] = field(default_factory=dict[Handle, "_Call"])
    is_constructed: bool = False
    is_giving: bool = False


class DaskActors:
    """See above.

    Parameters
    ----------
    dask, client : module, Client
    session : str
        By which Dask calls what is this process's.
    spawn : callable (coroutine)
        Has it run.
    say : callable (event)
    adopt : callable (future) -> Blob
        Takes over a value.
    lost : callable (error) -> bool
        Whether the engine is lost by that error, which it has noted then.
    """

    def __init__(
        self,
        dask: Any,
        client: Any,
        session: str,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        say: Callable[[Event], None],
        adopt: Callable[[Any], Blob],
        lost: Callable[[BaseException | None], bool],
    ) -> None:
        self._dask, self._client, self._session = dask, client, session
        self._spawn, self._say, self._adopt, self._lost = spawn, say, adopt, lost
        self._actors: dict[EngineActor, _Actor] = {}
        self._of_call: dict[Handle, _Actor] = {}

    # ---- what is asked for
    def create(
        self, number: int, parcel: Parcel, keeps: Mapping[str, float], workers: Mapping[str, Worker], values: Values
    ) -> None:
        """Have an actor constructed."""
        try:
            limits = limits_for(parcel.resources, workers)
        except EngineError as error:
            self._say(Failed(number, "unschedulable", 0, str(error)))
            return
        cpus = [amounts.get("CPU", 0.0) for amounts in (parcel.resources, keeps)]
        key = f"{self._session}-actor", number
        future = self._client.submit(
            host_actor,
            self._session,
            number,
            *cpus,
            list(parcel.limits),
            key=key,
            pure=False,
            priority=1,  # as tasks may wait for it
            **limits,
        )
        actor = self._actors[number] = _Actor(number, future)
        self._stand_in_line(actor, _Call(number, parcel, values))
        self._spawn(self._see_it_end(actor))

    def call(self, actor: EngineActor, number: int, parcel: Parcel, values: Values) -> None:
        """Have a call run."""
        found = self._actors.get(actor)
        if found is None:
            self._say(Failed(number, "crashed"))
        else:
            self._stand_in_line(found, _Call(number, parcel, values))

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor."""
        found = self._actors.get(actor)
        if found is None:
            return
        if not force:
            self._stand_in_line(found, _Call(0, None, _no_values))
        elif found.worker:
            self._spawn(found.orders.put([list(Order(KILL))]))
        else:
            self._end(found, "crashed")

    def cancel(self, number: Handle) -> None:
        """Have a call not begin."""
        actor = self._of_call.get(number)
        if actor is None:
            return
        for call in actor.line:
            if call.number == number:
                actor.line.remove(call)
                self._fail(call, "cancelled")
                return
        assert isinstance(number, int)
        self._spawn(actor.orders.put([list(Order(CANCEL, number))]))

    def say(self, number: Handle, message: bytes) -> None:
        """Tell the pocket of an actor something, or that which runs a call."""
        if (actor := self._actors.get(number) or self._of_call.get(number)) is not None and actor.worker:
            self._spawn(actor.orders.put([list(Order(SAY, data=message))]))

    def look(self, workers: Mapping[str, Worker]) -> None:
        """These are there by now."""
        there = {worker.id for worker in workers.values()}
        for actor in list(self._actors.values()):
            if actor.worker and actor.worker not in there:
                self._end(actor, "node_died")

    # ---- orders
    def _stand_in_line(self, actor: _Actor, call: _Call) -> None:
        actor.line.append(call)
        if call.parcel is not None:
            self._of_call[call.number] = actor
        self._go_on(actor)

    def _go_on(self, actor: _Actor) -> None:
        if actor.worker and actor.line and not actor.is_giving:
            actor.is_giving = True
            self._spawn(self._give(actor))

    async def _give(self, actor: _Actor) -> None:
        while actor.line and actor.number in self._actors:
            orders: list[list[Any]] = []
            for call in list(itertools.islice(actor.line, MOST_AT_ONCE)):
                if call.parcel is not None and call.parcel.blobs and orders:
                    break  # which nothing waits for that comes before
                values = await self._sent(actor, await call.values())
                if not actor.line or actor.line[0] is not call:
                    break  # cancelled meanwhile, or all is over
                actor.line.popleft()
                if call.parcel is None:
                    orders.append(list(Order(END)))
                elif values is None:
                    self._lack(actor, call)
                else:
                    assert isinstance(call.number, int)
                    actor.given[call.number] = call
                    keys = [value.key for value in values]
                    orders.append(list(Order(RUN, call.number, call.parcel.data, keys, call.parcel.group)))
            if orders:
                await actor.orders.put(orders)
        actor.is_giving = False

    async def _sent(self, actor: _Actor, values: list[Any] | None) -> list[Any] | None:
        """Send a host what the next order is to find there."""
        try:
            for value in values or []:
                await actor.orders.put(value, timeout=KNOWN_S)
        except TimeoutError:
            return None
        return values

    # ---- what hosts tell
    def take(self, told: Told, values: list[Any]) -> None:
        """A host has told something."""
        if (actor := self._actors.get(told.actor)) is not None:
            self._take(actor, told, values)

    def _take(self, actor: _Actor, told: Told, values: list[Any]) -> None:
        if told.what == AT:
            assert isinstance(told.data, str)
            actor.worker = told.data
            actor.orders = self._dask.Queue(orders_of(self._session, actor.number), client=self._client)
            self._go_on(actor)
        elif told.what == OVER:
            self._end(actor, "crashed", told.code, told.code == 0, told.begun)
        elif told.what == SAID:
            assert isinstance(told.data, bytes)
            self._say(Said(told.data, [self._adopt(value) for value in values]))
        else:
            if not all(value.status == "finished" for value in values):
                return  # its worker has died meanwhile, which will be seen
            call = actor.given.pop(told.number)
            if told.what == LOST:
                self._lack(actor, call)
            elif told.what == CANCELLED:
                self._fail(call, "cancelled")
            elif told.what == ENDED:
                assert isinstance(told.data, bytes)
                del self._of_call[call.number]
                actor.is_constructed = True
                self._say(Ended(call.number, told.data, [self._adopt(value) for value in values]))

    async def _see_it_end(self, actor: _Actor) -> None:
        """A host that has come to its end has told so. One that has not has an error."""
        error = await actor.future.exception()
        if error is None or self._actors.get(actor.number) is not actor or self._lost(error):
            return
        kind, _, text = failure_of(error, False, 1)
        if kind == "crashed" and actor.worker:
            kind = "node_died"  # as `look` would have said
        self._end(actor, kind, text=text)

    def _lack(self, actor: _Actor, call: _Call) -> None:
        """A blob of it is lost."""
        self._fail(call, "object_lost")
        if call.number == actor.number:
            self._end(actor, "crashed")

    def _fail(self, call: _Call, kind: FailureKind, n_runs: int = 0, text: str = "", code: int = 0) -> None:
        del self._of_call[call.number]
        self._say(Failed(call.number, kind, n_runs, text, code))

    def _end(
        self,
        actor: _Actor,
        kind: FailureKind,
        code: int = 0,
        has_left: bool = False,
        begun: Collection[int] | None = None,
        text: str = "",
    ) -> None:
        """It has ended. `begun`: the calls that it was about; None: that is not known."""
        del self._actors[actor.number]
        for call in actor.given.values():
            self._fail(call, kind, int(begun is None or call.number in begun), text, code)
        for call in actor.line:
            if call.parcel is not None:
                self._fail(call, kind, int(call.number == actor.number), text, code)
        actor.given.clear()
        actor.line.clear()
        if actor.is_constructed:
            self._say(ActorEnded(actor.number, kind, code, has_left))
        self._spawn(self._leave(actor))

    async def _leave(self, actor: _Actor) -> None:
        """Have Dask drop all that there is of it."""
        if actor.orders is not None:
            actor.orders.close()
        actor.future.release()
        for name in marks(orders_of(self._session, actor.number), 1):
            await self._dask.Event(name, client=self._client).clear()


async def _no_values() -> list[Any]:
    return []
