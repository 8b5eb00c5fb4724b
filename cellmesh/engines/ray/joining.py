"""How a job of Ray's begins, within the cluster and by Ray Client, and what its workers are sent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from ...exceptions import EngineError, EngineUnreachableError, EngineVersionError
from ...text import first_line
from ..connection import shipping
from ..connection.connecting import imported
from ..connection.sent_before import note_sent, sent_before

FIRST_WORKER_S = 120.0  # for the first worker to begin
A_WORKER = "a worker of Ray's"
PROBE_S = 5.0  # for a connection to an address
PING = "/ray.rpc.RayletDriver/ClusterInfo"  # what Ray Client asks a server first
TOKEN = (
    "asks for Ray's token, and was given none that it takes: set RAY_AUTH_MODE=token here, and RAY_AUTH_TOKEN, or the "
    "file ~/.ray/auth_token, to what `ray get-auth-token` says there"
)


class NotServed(EngineUnreachableError):
    """Ray Client's server has not begun a process for this program, or that not answered in time, as on a machine that
    has much to do. At times it does at the next try."""


def joined(
    ray: Any, address: str, hint: str, options: Mapping[str, Any], begin: Callable[..., Any]
) -> tuple[Any, dict[str, str]]:
    """A job whose workers can run what is sent there: what `begin` returns, and versions here.

    Parameters
    ----------
    ray : module
    address : str
        For errors, as `hint` is: where else there may be a cluster.
    options : mapping
        As of `init(engine_options=...)`.
    begin : callable (runtime_env=..., namespace=..., ...)
        Begins one by `ray.init`, with these arguments and others.
    """
    ship = options.get("ship", "auto")
    look = shipping.looks()
    here, sent = look(), shipping.SENT if ship is True else sent_before(address) if ship == "auto" else ()

    def job() -> tuple[Any, dict[str, dict[str, str]]]:
        """One with the packages that are sent by now, and what a worker has there."""
        return _begun(ray, address, hint, options, begin, sent), {A_WORKER: _versions(ray, look)}

    context, there = job()
    if ship == "auto":  # a job's environment is that from its beginning on, so another one is begun
        if sent and shipping.problem(here, there, may_send=True, has_sent=True):  # it is not as it was the last time
            sent = ()
            ray.shutdown()
            context, there = job()
        if not sent and (sent := shipping.to_send(here, there)):
            ray.shutdown()
            context, there = job()
    if problem := shipping.problem(here, there, may_send=ship is not False, has_sent=bool(sent)):
        raise EngineVersionError(problem)
    if ship == "auto":
        note_sent(address, sent)
    return context, {name: here[name] for name in ("Python", *shipping.SENT)} | {"ray": ray.__version__}


def _begun(
    ray: Any, address: str, hint: str, options: Mapping[str, Any], begin: Callable[..., Any], sent: tuple[str, ...]
) -> Any:
    """A job. `sent`: packages of this program, which its workers are given."""
    environment = environment_of(options.get("runtime_env", {}), shipping.folders(sent))
    try:
        ray.runtime_env.RuntimeEnv(**environment)
    except (TypeError, ValueError) as error:
        raise EngineError(f"engine_options: Ray does not take that runtime_env: {first_line(error)}") from None
    try:
        return begin(
            namespace=options.get("namespace"),
            runtime_env=environment or None,
            log_to_driver=False,
            logging_level="ERROR",
            ignore_reinit_error=False,
        )
    except (ConnectionError, ValueError) as error:
        if "ray[client]" in str(error):
            raise EngineVersionError(
                f"{address}: Ray Client is not installed here: pip install 'ray[client]=={ray.__version__}'"
            ) from None
        raise _unreached(address, hint, error) from None
    except RuntimeError as error:
        if "ersion" in str(error):
            raise EngineVersionError(" ".join(str(error).split())) from None
        raise EngineUnreachableError(f"{address}: {first_line(error)}. {hint}") from None


def not_served(address: str, error: ConnectionAbortedError) -> NotServed:
    """What Ray Client raises by the server's own words, which end with the reason."""
    why = str(error).strip().rpartition("\n")[2]
    return NotServed(f"{address} has no process for this program: {why}")


def broken_off(address: str, error: ConnectionError) -> NotServed:
    """Of a server that broke off the connection as it began."""
    return NotServed(f"{address} broke off the connection as it began: {first_line(error)}")


def _unreached(address: str, hint: str, error: Exception) -> EngineUnreachableError:
    """What `ray.init` means by that error, where something listens."""
    if address.startswith("ray://") and isinstance(error, ConnectionError):
        if isinstance(error, ConnectionAbortedError):
            return not_served(address, error)
        if "connection timeout" not in str(error):
            return broken_off(address, error)
        if _asks_for_token(address.removeprefix("ray://")):
            return EngineUnreachableError(f"{address} {TOKEN}")
    return EngineUnreachableError(f"no Ray cluster at {address}: {first_line(error)}. {hint}")


def _asks_for_token(where: str) -> bool:
    """Whether that is why a server does not answer: Ray Client does not say so."""
    grpc = imported("grpc")  # which Ray Client has brought
    with grpc.insecure_channel(where) as channel:
        try:
            channel.unary_unary(PING)(b"", timeout=PROBE_S)
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.UNAUTHENTICATED)
    return False


def _versions(ray: Any, look: Callable[[], dict[str, str]]) -> dict[str, str]:
    task = ray.remote(look).options(num_cpus=0, max_retries=0)
    try:
        return ray.get(task.remote(), timeout=FIRST_WORKER_S)
    except ray.exceptions.GetTimeoutError:
        raise EngineUnreachableError(
            f"Ray is there, but no worker of it has begun within {FIRST_WORKER_S:g} s"
        ) from None
    except ray.exceptions.RayError as error:
        raise EngineError(f"Ray cannot run a task: {first_line(error)}") from None


def check_listens(prefix: str, where: str, hint: str) -> None:
    """See to it that something listens at HOST:PORT: Ray would try for a quarter of an hour."""
    host, _, port = where.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()
        except OSError as error:
            raise EngineUnreachableError(f"no Ray cluster at {prefix}{where}: {error}. {hint}") from None


def environment_of(asked: Mapping[str, Any], sent: Mapping[str, str]) -> dict[str, Any]:
    """The `runtime_env` of this process's job: what was asked for, with packages of this program, by their folders."""
    modules = [*sent.values(), *asked.get("py_modules", [])]
    return {**asked, "py_modules": modules} if modules else dict(asked)
