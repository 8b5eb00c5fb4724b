"""Values between a session on Ray and this program's own connection with Ray, by an actor of that, the *exchange*: Ray
counts who has what, so nothing is lost early or kept for ever.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from importlib import import_module
from typing import Any, NamedTuple

from ..api import remote
from ..exceptions import EngineError, ObjectLostError
from ..objects import get
from ..refs import ObjectRef
from ..submit.scheduling_strategies import NodeAffinitySchedulingStrategy

LOST = ("ObjectLostError", "OwnerDiedError", "ObjectFetchTimedOutError", "ReferenceCountingAssertionError")


class Exchange:
    """A Ray actor of this program's: keeps what one side offers until the other has taken it."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Future[Any]] = {}

    def _of(self, name: str) -> asyncio.Future[Any]:
        if name not in self._found:
            self._found[name] = asyncio.get_running_loop().create_future()
        return self._found[name]

    async def offer(self, name: str, value: Any, error: BaseException | None = None) -> None:
        """A value, or why there is none."""
        found = self._of(name)
        if found.done():
            return  # a task that was begun again offers it again
        if error is None:
            found.set_result(value)
        else:
            found.set_exception(error)

    async def take(self, name: str) -> Any:
        """It, once it is offered."""
        return await self._of(name)

    async def forget(self, name: str) -> None:
        """Nobody will take it any more."""
        self._found.pop(name, None)


class Place(NamedTuple):
    """Where something is offered: the actor's name and namespace in Ray, and its own."""

    actor: str
    namespace: str
    name: str


_exchange: tuple[str, Any, str, str] | None = None  # of which job of Ray's, its handle, its name and namespace


def take(ref: Any, there: NodeAffinitySchedulingStrategy) -> ObjectRef[Any]:
    """A ref of the session for one of Ray's."""
    exchange, place = _place()
    exchange.offer.remote(place.name, [ref])  # in a list it stays a ref
    taken = remote(_take).options(num_cpus=0, name="from_native", scheduling_strategy=there).remote(place)
    taken.add_done_callback(lambda _: _forget(exchange, place.name))
    return taken


def make(ref: ObjectRef[Any], there: NodeAffinitySchedulingStrategy) -> Any:
    """A ref of Ray's for one of the session."""
    exchange, place = _place()
    made = exchange.take.remote(place.name)

    def given(future: Any) -> None:
        if (error := future.exception()) is not None:
            exchange.offer.remote(place.name, None, _plain(error))
        _forget(exchange, place.name)

    giving = remote(_give).options(num_cpus=0, name="to_native", scheduling_strategy=there).remote(place, [ref])
    giving.future().add_done_callback(given)
    return made


def _forget(exchange: Any, name: str) -> None:
    if _ray().is_initialized():
        exchange.forget.remote(name)


def _place() -> tuple[Any, Place]:
    """The exchange, and a new place there."""
    global _exchange
    ray = _ray()
    if not ray.is_initialized():
        raise EngineError("this program has no connection of its own with Ray: call ray.init(address=...) first")
    context = ray.get_runtime_context()
    if _exchange is None or _exchange[0] != context.get_job_id():
        name = f"cellmesh-exchange-{uuid.uuid4().hex}"
        made = ray.remote(Exchange).options(name=name, num_cpus=0, max_concurrency=10_000).remote()
        _exchange = context.get_job_id(), made, name, context.namespace
    _, exchange, actor, namespace = _exchange
    return exchange, Place(actor, namespace, uuid.uuid4().hex)


def _ray() -> Any:
    return sys.modules.get("ray") or import_module("ray")


# ---------------------------------------------------------------- in Ray's workers
def _found(place: Place) -> Any:
    try:
        return _ray().get_actor(place.actor, namespace=place.namespace)
    except ValueError:
        raise EngineError(
            "this program's connection with Ray has ended, or is with another cluster than that of the session"
        ) from None


def _take(place: Place) -> Any:
    """A task: takes the value of a ref of Ray's."""
    ray, exchange = _ray(), _found(place)
    try:
        (ref,) = ray.get(exchange.take.remote(place.name))
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        if type(error).__name__ in LOST:
            raise ObjectLostError(f"Ray has that value no more: {error}") from None
        raise


def _give(place: Place, refs: list[ObjectRef[Any]]) -> None:
    """A task: hands a value of the session over."""
    ray, exchange = _ray(), _found(place)
    try:
        value = get(refs[0])
    except Exception as error:  # whatever the value's task has raised is what its reader gets
        ray.get(exchange.offer.remote(place.name, None, _plain(error)))
    else:
        ray.get(exchange.offer.remote(place.name, value))


def _plain(error: BaseException) -> BaseException:
    """An error as Ray can carry it."""
    cause = error.__cause__
    return cause if cause is not None else error
