"""Dask as an engine: `init(address="dask://HOST:PORT")`, or "dask+tls://" with the credentials of Dask's configuration.

A parcel is a Dask task, which runs it in the pocket of its worker (`worker`). What is large stays there: a task
scatters it, so Dask keeps it, and never makes it again, which is home's business. What has ended is gathered together,
as much as there is by then. What tasks tell while they run comes as events of Dask's. The client is an asynchronous
one, in a thread of its own, so no method waits. Public interfaces of `distributed` alone.

Dask begins a task again when its worker has died, as often as its scheduler allows. A parcel that may be begun less
often than that notes in the scheduler that it begins, and does not if that was noted often enough. So does one of
several tasks, which this side has not begin by noting that it is withdrawn. Actors are in
`actors`.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ...environment.packages import pack
from ...exceptions import EngineError, EngineUnreachableError, EngineVersionError
from ...text import first_line
from ..connection import shipping
from ..connection.connecting import imported
from ..interface import (
    Blob,
    Came,
    Capabilities,
    Ended,
    EngineActor,
    EngineNode,
    Event,
    Facts,
    Failed,
    FailureKind,
    Gone,
    Handle,
    Lost,
    NodesChanged,
    Notice,
    Parcel,
    Said,
    TaskEngine,
)
from .actors import DaskActors
from .sending import for_scheduler, for_workers, unpacks
from .terms import Worker, dashboard_of, failure_of, limits_for, native, nodes_of
from .worker import Claim, Told, keep, known_of, look, marks, run_parcel, withdrawn

CONNECT_S = 10.0
CLOSE_S = 3.0
AGAIN_S = 0.01  # for the scheduler to know what it was sent
NODES_S = 1.0  # how often to look which workers there are
SLOW_S = 5.0  # without an answer to that, after which people are told
# Why Dask has cancelled all that this process has there.
LOST_ALL = ("scheduler-connection-lost", "scheduler-restart")


@dataclass
class _Run:
    """A parcel that is under way. `future`: Dask's, once it was submitted. `claim`: if it is to be noted that it
    begins. Of a generator: `said`: by its runs, how often each has
    said something; `orders`: the queue by which the last one hears; `outcome`: of one, whose words are yet to come."""

    parcel: Parcel
    future: Any = None
    claim: Claim | None = None
    said: Counter[str] = field(default_factory=Counter[str])
    orders: Any = None
    outcome: Any = None
    is_cancelled: bool = False


@dataclass
class _Kept:
    """A blob. `future`: of Dask's future; `data`: of one that was put, until it is released: Dask loses it with the
    worker that has it."""

    future: asyncio.Future[Any]
    data: bytes | None = None

    @property
    def is_lost(self) -> bool:
        """Whether Dask has it no more."""
        return self.future.done() and (self.future.exception() is not None or self.future.result().cancelled())


class DaskEngine(TaskEngine):
    """See above; `interface.Engine`. What begins with `_` runs in the loop's thread."""

    can: Capabilities = Capabilities(
        retries=True, actors=True, concurrent_actors=True, output=True, nested=True, streams=True
    )

    def __init__(self) -> None:
        self._tell: Callable[[Event], None] = lambda event: None
        self._loop = asyncio.new_event_loop()
        self._dask: Any = None
        self._client: Any = None
        self._numbers = itertools.count(1)
        self._name = f"cellmesh-{uuid.uuid4().hex}"  # of this process in Dask: its keys, its topic
        self._runs: dict[Handle, _Run] = {}
        self._blobs: dict[Blob, _Kept] = {}
        self._workers: dict[str, Worker] = {}
        self._most_failures = 0
        self._cancels: set[Handle] = set()
        self._ended: list[Handle] = []
        self._comes = asyncio.Event()  # something has ended
        self._tasks: set[asyncio.Task[None]] = set()
        self._actors: Any = None  # `DaskActors`, once there is a client
        self._told: Any = None  # the queue of what pockets and hosts tell
        self._listener: Any = None  # the task that takes it from there
        self._has_sent = False  # packages of this program
        self._is_over = False

    # ---- connection
    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin."""
        self._dask, self._tell = imported("distributed"), tell
        threading.Thread(target=self._loop.run_forever, name="cellmesh-dask", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(self._connected(address, options), self._loop).result()

    async def _connected(self, address: str, options: Mapping[str, Any]) -> Facts:
        try:
            self._client = await self._dask.Client(
                native(address),
                asynchronous=True,
                timeout=options.get("timeout", CONNECT_S),
                security=options.get("security"),
                name="cellmesh",
            )
        except (OSError, RuntimeError, TypeError, ValueError) as error:  # the last three: of addresses and credentials
            raise EngineUnreachableError(f"no Dask scheduler at {address}: {first_line(error)}") from None
        try:
            versions = await self._agree(options.get("ship", "auto"))
            self._most_failures, self._workers = await self._look()
        except EngineError:  # which is an OSError
            raise
        except OSError as error:
            raise EngineUnreachableError(f"{address} does not answer: {first_line(error)}") from None
        self._client.subscribe_topic(self._name, lambda event: self._say(Said(event[1])))
        self._actors = DaskActors(
            self._dask, self._client, self._name, self._spawn, self._say, self._adopt, self._is_lost_by
        )
        self._told = self._dask.Queue(self._name, client=self._client)
        self._listener = self._spawn(self._listen())
        self._spawn(self._watch())
        self._spawn(self._gather())
        services = self._client.scheduler_info(n_workers=0).get("services", {})
        return Facts("dask", versions, dashboard_of(self._client.scheduler.address, services))

    async def _agree(self, ship: Literal["auto"] | bool) -> dict[str, str]:
        """See to it that what is sent can be run there, if need be with packages of this program; its versions."""
        look = shipping.looks(shipping.ASKED)
        here = look()
        sent = shipping.SENT if ship is True else ()
        await self._send(sent)
        there = await self._look_at_versions(look)
        if ship == "auto" and (sent := shipping.to_send(here, there)):
            await self._send(sent)
            there = await self._look_at_versions(look)
        if problem := shipping.problem(here, there, may_send=ship is not False, has_sent=bool(sent)):
            raise EngineVersionError(problem)
        return {name: here[name] for name in ("Python", *shipping.ASKED)}

    async def _send(self, names: tuple[str, ...]) -> None:
        """Packages of this program, to the scheduler, workers, and those that begin later."""
        if not names:
            return
        self._has_sent = True
        unpack = unpacks({name: pack(folder) for name, folder in shipping.folders(names).items()})
        await self._client.run_on_scheduler(for_scheduler(unpack))
        await self._client.register_plugin(for_workers(self._dask.WorkerPlugin, unpack), name=self._name)

    async def _look_at_versions(self, look: Callable[[], dict[str, str]]) -> dict[str, dict[str, str]]:
        workers = await self._client.run(look)
        found = {f"Dask's worker {address}": of for address, of in workers.items()}
        return {"Dask's scheduler": await self._client.run_on_scheduler(look)} | found

    async def _look(self) -> tuple[int, dict[str, Worker]]:
        most_failures, workers = await self._client.run_on_scheduler(look)
        return most_failures, {address: Worker(*worker) for address, worker in workers.items()}

    async def _look_patiently(self) -> tuple[int, dict[str, Worker]]:
        """Tell people of a scheduler that takes its time."""
        is_slow = self._loop.call_later(SLOW_S, self._say, Notice(line="slow"))
        try:
            found = await self._look()
        finally:
            is_slow.cancel()
        if self._loop.time() >= is_slow.when():
            self._say(Notice(line="connected"))
        return found

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(NODES_S)
            if self._client.status != "running":  # it tries to connect again, without what was under way
                raise EngineUnreachableError("the connection with the scheduler is lost")
            _, found = await self._look_patiently()
            if found != self._workers:
                self._workers = found
                self._actors.look(found)
                self._say(NodesChanged())

    def nodes(self) -> list[EngineNode]:
        """Its workers."""
        return nodes_of(self._workers)

    def close(self) -> None:
        """End."""
        self._is_over = True
        if self._client is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_S)
        except TimeoutError:
            pass  # nobody answers, and the process ends

    async def _close(self) -> None:
        if self._told is not None and self._client.status == "running":
            await self._told.put(b"")
            await self._listener
            for _ in range(2):  # it was made twice: as it was named, and as it was waited for
                self._told.close()
            if self._has_sent:  # workers that begin from now on need it no more
                await self._client.unregister_worker_plugin(self._name)
        await self._client.close()  # in the loop: from another thread it would wait itself, for as long as it takes

    # ---- the loop
    def _soon(self, what: Callable[..., None], *arguments: Any) -> None:
        """Do something in the loop, behind what was to be done before. Called from any thread."""
        self._loop.call_soon_threadsafe(self._do, what, *arguments)

    def _do(self, what: Callable[..., None], *arguments: Any) -> None:
        try:
            what(*arguments)
        except Exception as error:  # whatever a client says whose scheduler has gone
            self._lose(error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop does not keep it
        task.add_done_callback(self._spawned)
        return task

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        self._say(Gone(f"Dask does not answer: {first_line(error)}"))
        self._is_over = True

    def _say(self, event: Event) -> None:
        if not self._is_over:
            self._tell(event)

    # ---- parcels
    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run."""
        number = next(self._numbers)
        self._soon(self._take, number, parcel)
        return number

    def _take(self, number: Handle, parcel: Parcel) -> None:
        self._runs[number] = _Run(parcel)
        blobs = self._put_again([self._blobs[blob] for blob in parcel.blobs])
        if all(kept.future.done() for kept in blobs):
            self._submit(number, blobs)
        else:
            self._spawn(self._submit_later(number, blobs))

    def _put_again(self, blobs: list[_Kept]) -> list[_Kept]:
        for kept in blobs:
            if kept.is_lost and kept.data is not None:
                kept.future = self._scattered(kept.data)
        return blobs

    async def _submit_later(self, number: Handle, blobs: list[_Kept]) -> None:
        await self._come(blobs)
        self._submit(number, blobs)

    async def _come(self, blobs: list[_Kept]) -> None:
        while waits := [kept.future for kept in blobs if not kept.future.done()]:
            await asyncio.wait(waits)

    def _submit(self, number: Handle, blobs: list[_Kept]) -> None:
        run = self._runs[number]
        if run.is_cancelled:
            self._fail(number, "cancelled")
            return
        if any(kept.is_lost for kept in blobs):
            self._fail(number, "object_lost")
            return
        try:
            limits = limits_for(run.parcel.resources, self._workers)
        except EngineError as error:
            self._fail(number, "unschedulable", 0, str(error))
            return
        if run.parcel.most_runs <= self._most_failures or run.parcel.is_packed:
            run.claim = Claim(f"{self._name}-{number}", run.parcel.most_runs, run.parcel.is_packed)
        run.future = self._client.submit(
            run_parcel,
            self._name,
            number,
            run.claim,
            run.parcel.data,
            *(kept.future.result() for kept in blobs),
            key=self._key(number),
            pure=False,
            **limits,
        )
        run.future.add_done_callback(lambda future: self._soon(self._note_end, number))

    def _key(self, number: Handle) -> tuple[str, Handle]:
        return self._name, number

    def _note_end(self, number: Handle) -> None:
        self._ended.append(number)
        self._comes.set()

    async def _gather(self) -> None:
        """Tell of what has ended, together what has meanwhile."""
        while True:
            await self._comes.wait()
            self._comes.clear()
            ended, self._ended = self._ended, []
            outcomes = await self._client.gather({number: self._runs[number].future for number in ended}, errors="skip")
            for number in ended:
                if outcomes[number] is not None:
                    self._tell_end(number, outcomes[number])
                else:
                    await self._tell_failure(number)

    async def _listen(self) -> None:
        """Take what pockets and hosts tell by the queue."""
        queue = await self._told
        values: dict[str, Any] = {}
        while self._take_told(await queue.get(), values):
            pass  # and nothing of it is kept here

    def _take_told(self, item: Any, values: dict[str, Any]) -> bool:
        """False: it was the last."""
        if isinstance(item, self._dask.Future):
            values[item.key] = item
            return True
        if not item:
            return False
        told = Told(*item)
        found = [values.pop(key) for key in told.keys]
        if told.actor:
            self._actors.take(told, found)
        elif (run := self._runs.get(told.number)) is not None:
            self._take_said(run, told, found)
        return True

    def _take_said(self, run: _Run, told: Told, values: list[Any]) -> None:
        assert isinstance(told.data, bytes)
        self._say(Said(told.data, [self._adopt(value) for value in values]))
        if told.run not in run.said:
            self._forget_orders(run)
            run.orders = self._dask.Queue(told.run, client=self._client)
        run.said[told.run] += 1
        if run.outcome is not None:
            self._tell_end(told.number, run.outcome)

    def _forget_orders(self, run: _Run) -> None:
        if run.orders is not None:
            run.orders.close()

    def say(self, handle: Handle, message: bytes) -> None:
        """Tell the pocket that runs a generator something."""
        self._soon(self._say_to, handle, message)

    def _say_to(self, number: Handle, message: bytes) -> None:
        self._actors.say(number, message)
        if (run := self._runs.get(number)) is not None and run.orders is not None:
            self._spawn(run.orders.put(message))

    def _tell_end(self, number: Handle, found: bytes | tuple[bytes, list[str], str, int]) -> None:
        data, keys, run, n_said = found if isinstance(found, tuple) else (found, [], "", 0)
        if self._runs[number].said[run] < n_said:
            self._runs[number].outcome = found  # it was quicker than what it has said
            return
        futures = [self._client.submit(keep, self._dask.Future(key, self._client), pure=False) for key in keys]
        blobs = [self._adopt(future) for future in futures]
        self._forget(number, futures)
        self._say(Ended(number, data, blobs))

    def _adopt(self, future: Any) -> Blob:
        number = next(self._numbers)
        self._blobs[number] = _Kept(self._loop.create_future())
        self._blobs[number].future.set_result(future)
        return number

    def _is_lost_by(self, error: BaseException | None) -> bool:
        if error is None or getattr(error, "reason", "") not in LOST_ALL:
            return False
        self._lose(error)
        return True

    async def _tell_failure(self, number: Handle) -> None:
        run = self._runs[number]
        error = await run.future.exception()
        if not run.is_cancelled and self._is_lost_by(error):
            return
        kind, n_runs, text = failure_of(error, run.is_cancelled, run.parcel.most_runs)
        blobs = [self._blobs[blob] for blob in run.parcel.blobs if blob in self._blobs]
        if kind == "object_lost" and all(kept.data is not None for kept in blobs if kept.is_lost):
            kind = "crashed"  # which took along what can be put again; it may have been this parcel that it ran
        self._fail(number, kind, n_runs, text)

    def _fail(self, number: Handle, kind: FailureKind, n_runs: int = 0, text: str = "") -> None:
        self._forget(number)
        self._say(Failed(number, kind, n_runs, text))

    def _forget(self, number: Handle, values: Sequence[Any] = ()) -> None:
        run = self._runs.pop(number)
        self._forget_orders(run)
        if values or run.claim is not None:
            self._spawn(self._leave(run, values))

    async def _leave(self, run: _Run, values: Sequence[Any]) -> None:
        """Have Dask drop all that there is of a parcel, once it keeps the values without it."""
        for value in values:
            await value.exception()
        if run.claim is not None:
            names = marks(run.claim.name, run.claim.most_runs)
            for name in [*names, withdrawn(run.claim.name)] if run.claim.may_be_withdrawn else names:
                await self._dask.Event(name, client=self._client).clear()

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel. One that runs goes on in its worker, and nobody hears of it."""
        self._soon(self._cancel, handle)

    def _cancel(self, number: Handle) -> None:
        self._actors.cancel(number)
        run = self._runs.get(number)
        if run is not None:
            run.is_cancelled = True
            if run.future is not None:
                self._cancels.add(number)
                if len(self._cancels) == 1:
                    self._spawn(self._cancel_all())

    def withdraw(self, handle: Handle) -> None:
        """Have a parcel not begin."""
        self._soon(self._withdraw, handle)

    def _withdraw(self, number: Handle) -> None:
        run = self._runs.get(number)
        if run is None:
            return
        if run.future is None:
            run.is_cancelled = True
        else:
            self._spawn(self._withdrawn(number, run))

    async def _withdrawn(self, number: Handle, run: _Run) -> None:
        """Say that it is withdrawn, and only then look whether it has begun: its worker does so the other way round."""
        assert run.claim is not None
        await self._dask.Event(withdrawn(run.claim.name), client=self._client).set()
        (mark,) = marks(run.claim.name, run.claim.most_runs)
        if not await self._dask.Event(mark, client=self._client).is_set():
            self._cancel(number)

    async def _cancel_all(self) -> None:
        """Cancel what is to be, once the scheduler knows of it: before, it would pass that over."""
        while self._cancels:
            asked = [number for number in self._cancels if number in self._runs]
            known = set(await self._client.run_on_scheduler(known_of, [self._key(number) for number in asked]))
            there = [number for number in asked if self._key(number) in known]
            await self._client.cancel([self._runs[number].future for number in there if number in self._runs])
            self._cancels -= {*there, *(number for number in self._cancels if number not in self._runs)}
            if self._cancels:
                await asyncio.sleep(AGAIN_S)

    # ---- actors
    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """Have an actor constructed."""
        number = next(self._numbers)
        self._soon(lambda: self._actors.create(number, parcel, keeps, self._workers, self._values_of(parcel)))
        return number

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a call run."""
        number = next(self._numbers)
        self._soon(lambda: self._actors.call(actor, number, parcel, self._values_of(parcel)))
        return number

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor."""
        self._soon(lambda: self._actors.kill(actor, force))

    def _values_of(self, parcel: Parcel) -> Callable[[], Coroutine[Any, Any, list[Any] | None]]:
        return partial(self._found, [self._blobs[blob] for blob in parcel.blobs])

    async def _found(self, blobs: list[_Kept]) -> list[Any] | None:
        await self._come(self._put_again(blobs))
        return None if any(kept.is_lost for kept in blobs) else [kept.future.result() for kept in blobs]

    # ---- values
    def put(self, data: bytes | memoryview) -> Blob:
        """Keep bytes."""
        number = next(self._numbers)
        self._soon(self._put, number, bytes(data))
        return number

    def _put(self, number: Blob, data: bytes) -> None:
        self._blobs[number] = _Kept(self._scattered(data), data)

    def _scattered(self, data: bytes) -> asyncio.Future[Any]:
        return self._loop.create_task(self._scatter(data))

    async def _scatter(self, data: bytes) -> Any:
        while True:
            if not self._workers:  # a cluster that starts workers for tasks sees one
                await self._client.submit(int, pure=False)
            try:
                (future,) = await self._client.scatter([data], hash=False)
                return future
            except OSError:  # the worker has died, or none has come for long
                await asyncio.sleep(NODES_S)

    def fetch(self, blob: Blob) -> None:
        """Get the bytes of a blob."""
        self._soon(self._fetch, blob)

    def _fetch(self, blob: Blob) -> None:
        self._spawn(self._fetched(blob, self._blobs[blob].future))

    async def _fetched(self, blob: Blob, kept: asyncio.Future[Any]) -> None:
        found = await self._client.gather({blob: await kept}, errors="skip")
        self._say(Lost(blob) if found[blob] is None else Came(blob, memoryview(found[blob]).cast("B")))

    def release(self, blobs: Sequence[Blob]) -> None:
        """These are not needed any more."""
        self._soon(self._release, blobs)

    def _release(self, blobs: Sequence[Blob]) -> None:
        for blob in blobs:
            self._blobs.pop(blob, None)
