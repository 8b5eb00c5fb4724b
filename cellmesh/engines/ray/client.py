"""The process that has Ray Client, for an engine's process outside of Ray's cluster: see `outside`, which begins it.

It carries requests to the relay, and answers back, over two connections, *lanes*: what is given by one, what is taken
by the other. If Ray Client's line breaks, or hangs, this process ends, or is killed, and another one finds the relay by
its name. If who has begun it ends, or wants no more, it has the relay end.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from ...exceptions import EngineError, EngineUnreachableError
from ...text import first_line
from ..connection.connecting import imported
from ..interface import EngineNode, Facts
from .joining import broken_off, check_listens, joined, not_served
from .relay import NAMESPACE, Relay

PREFIX = "ray://"
HINT = (
    "Ray Client's port is 10001 where `ray start --head` was given no --ray-client-server-port; "
    '"ray:HOST:6379" is for machines of the cluster'
)
HEAD = {"node:__internal_head__": 0.001}  # where the cluster's own processes are: no autoscaler takes that away
METHODS = ("give", "take")  # by lane
MOST_AT_ONCE = 8  # requests at the relay, as of connections that have broken
BEGIN_S = 600  # for all that happens before there is a relay: who has begun this has less patience
END_S = 10  # for the relay to be told to end
LOOK_S = 0.5  # how often to see whether the server has refused
AT_ONCE = {  # a connection that has broken is not mended by Ray Client, and one that is refused is tried three times
    "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "0",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "2",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "2",
}


@dataclass(frozen=True)
class Begin:
    """What to connect with. `name`: the relay's; `is_new`: it is to be made."""

    address: str
    options: Mapping[str, Any]
    name: str
    is_new: bool


@dataclass(frozen=True)
class Over:
    """There is no relay any more."""

    why: str


def main(*descriptors: int) -> None:
    """Run the process."""
    os.environ |= AT_ONCE
    warnings.simplefilter("ignore")  # Ray Client has words for who sends more than 10 MB
    logging.getLogger("ray.util.client").setLevel(logging.CRITICAL)  # a broken line is told elsewhere
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(BEGIN_S)
    lanes = [Connection(descriptor) for descriptor in descriptors]
    begin: Begin = lanes[0].recv()
    is_up = threading.Event()
    tell = partial(_end_with, threading.Lock(), lanes[0])
    watch = partial(watch_for_refusal, threading.get_ident(), begin.address, is_up, tell)
    threading.Thread(target=watch, daemon=True).start()
    try:
        ray = imported("ray")
        relay, up = _begun(ray, begin) if begin.is_new else _found(ray, begin)
    except (EngineError, _Gone) as error:
        tell(Over(str(error)) if isinstance(error, _Gone) else error)
    except ConnectionError as error:  # Ray Client's, whose line has broken already
        tell(broken_off(begin.address, error))
    is_up.set()
    signal.alarm(0)
    is_over = threading.Event()
    try:
        lanes[0].send(up)
    except OSError:
        is_over.set()
    for lane, method in zip(lanes, METHODS, strict=True):
        ask = partial(_asked, ray, getattr(relay, method))
        threading.Thread(target=_serve, args=(lane, ask, is_over), daemon=True).start()
    is_over.wait()
    signal.alarm(END_S)
    try:
        ray.get(relay.end.remote())
    except ray.exceptions.RayActorError:
        pass  # before it could answer
    ray.shutdown()
    os._exit(0)


def _end_with(says: threading.Lock, lane: Connection, what: Any) -> NoReturn:
    """Tell that there is no relay, and why. Ray's own end may take its time. `says`: for two threads that would."""
    with says:
        lane.send(what)
        os._exit(0)


def watch_for_refusal(thread: int, address: str, is_up: threading.Event, tell: Callable[[Any], None]) -> None:
    """Tell at once that Ray Client's server has no process for this program. `ray.init` in that thread knows it, and
    first waits, 40 s, until the server has no hope either for the log of the process that has never begun."""
    while not is_up.wait(LOOK_S):
        found: Any = sys._current_exceptions().get(thread)
        error = found[1] if isinstance(found, tuple) else found  # before Python 3.12
        if isinstance(error, ConnectionAbortedError):
            tell(not_served(address, error))
            return


class _Gone(Exception):
    """There is no relay of that name."""


def _begun(ray: Any, begin: Begin) -> tuple[Any, tuple[Facts, list[EngineNode]]]:
    check_listens(PREFIX, begin.address.removeprefix(PREFIX), HINT)
    context, versions = joined(ray, begin.address, HINT, begin.options, partial(ray.init, address=begin.address))
    options: dict[str, Any] = {"name": begin.name, "namespace": NAMESPACE, "lifetime": "detached"}
    options["get_if_exists"] = True  # of a try before that was given up
    relay = ray.remote(Relay).options(**options, num_cpus=0, resources=HEAD, max_concurrency=MOST_AT_ONCE).remote()
    try:
        nodes = pickle.loads(ray.get(relay.nodes.remote()))
    except ray.exceptions.RayError as error:
        raise EngineError(f"{begin.address}: the relay cannot begin there: {first_line(error)}") from None
    return relay, (Facts("ray", versions, context.dashboard_url or ""), nodes)


def _found(ray: Any, begin: Begin) -> tuple[Any, None]:
    try:
        ray.init(address=begin.address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError) as error:
        raise EngineUnreachableError(first_line(error)) from None
    try:
        return ray.get_actor(begin.name, NAMESPACE), None
    except ValueError:
        raise _Gone("the relay has ended") from None


def _asked(ray: Any, method: Any, request: Any) -> Any:
    try:
        return ray.get(method.remote(request))
    except (ray.exceptions.ActorDiedError, ray.exceptions.RayTaskError) as error:
        return Over(first_line(error))


def _serve(lane: Connection, ask: Callable[[Any], Any], is_over: threading.Event) -> None:
    """Carry requests of a lane until nobody has any."""
    while True:
        try:
            request = lane.recv()
        except (EOFError, OSError):
            is_over.set()
            return
        try:
            answer = ask(request)
        except Exception:  # whatever Ray Client says whose line has broken
            if is_over.is_set():
                return
            os._exit(1)
        try:
            lane.send(answer)
        except OSError:
            is_over.set()
            return
