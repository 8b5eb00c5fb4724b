"""Values between a session on Dask and this program's own client, by variables of Dask's, which hold them meanwhile."""

from __future__ import annotations

import uuid
from importlib import import_module
from typing import Any

from ..api import remote
from ..exceptions import EngineError, ObjectLostError
from ..objects import get
from ..refs import ObjectRef
from ..submit.scheduling_strategies import NodeAffinitySchedulingStrategy

PATIENCE_S = 10.0  # for a variable that was set
OTHER = "this program's client has ended, or is of another cluster than that of the session"


def take(ref: Any, there: NodeAffinitySchedulingStrategy) -> ObjectRef[Any]:
    """A ref of the session for a future of Dask's."""
    dask = _dask()
    client = _usable(ref.client)
    try:
        dask.wait(ref)
    except dask.CancelledError:
        raise ObjectLostError(f"Dask has the value of {ref.key!r} no more: it was cancelled, or lost") from None
    place = dask.Variable(f"cellmesh-{uuid.uuid4().hex}", client=client)
    place.set(ref)
    taken = remote(_take).options(num_cpus=0, name="from_native", scheduling_strategy=there).remote(place.name)
    taken.add_done_callback(lambda _: place.delete())
    return taken


def make(ref: ObjectRef[Any], there: NodeAffinitySchedulingStrategy) -> Any:
    """A future of Dask's for a ref of the session."""
    dask = _dask()
    try:
        client = _usable(dask.default_client())
    except ValueError:
        raise EngineError("this program has no client of Dask's: make one, Client(address), first") from None
    place = dask.Variable(f"cellmesh-{uuid.uuid4().hex}", client=client)
    get(remote(_give).options(num_cpus=0, name="to_native", scheduling_strategy=there).remote(place.name, ref))
    try:
        return place.get(timeout=PATIENCE_S)
    except TimeoutError:
        raise EngineError(OTHER) from None
    finally:
        place.delete()


def _usable(client: Any) -> Any:
    if client.asynchronous:
        raise EngineError("from_native and to_native need a client of Dask's that is not asynchronous")
    return client


def _dask() -> Any:
    return import_module("distributed")


# ---------------------------------------------------------------- in Dask's workers
def _take(name: str) -> Any:
    """A task: takes the value of a future of Dask's."""
    dask = _dask()
    try:
        future = dask.Variable(name, client=dask.get_client()).get(timeout=PATIENCE_S)
    except TimeoutError:
        raise EngineError(OTHER) from None
    try:
        return future.result()
    except dask.CancelledError as error:
        raise ObjectLostError(f"Dask has that value no more: {error}") from None


def _give(name: str, value: Any) -> None:
    """A task: hands a value of the session over."""
    dask = _dask()
    client = dask.get_client()
    (future,) = client.scatter([value], hash=False)
    dask.Variable(name, client=client).set(future)
