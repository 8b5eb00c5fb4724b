"""Addresses of machines, as people write them and as sockets take them."""

from __future__ import annotations

import ipaddress
import socket

DEFAULT_PORT = 7421


class AddressError(ValueError):
    """It is none, or not one that can be used for this; the text says why."""


def parse(text: str, what: str = "address") -> tuple[str, int]:
    """Host and port of "HOST:PORT", "[IPV6]:PORT", with "tcp://" before it or not.

    Raises
    ------
    AddressError
        It is no address; `what` says in the text which one was meant.
    """
    host, colon, port = text.removeprefix("tcp://").rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_host = bool(bare) and (bare != host or ":" not in bare) and not any(c.isspace() or c == "/" for c in bare)
    if not colon or not is_host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise AddressError(
            f"{what} {text!r}: must be HOST:PORT, such as 192.0.2.7:{DEFAULT_PORT} or [2001:db8::7]:{DEFAULT_PORT}"
        )
    return bare, int(port)


def join(host: str, port: int) -> str:
    """ "HOST:PORT"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint(host: str, port: int) -> str:
    """As sockets take it."""
    return f"tcp://{join(host, port)}"


def check_host(host: str) -> None:
    """See to it that the host is one that others can be told.

    Raises
    ------
    AddressError
        It stands for every address of the machine, and so for none.
    """
    try:
        is_any = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_any = host in ("", "*")
    if is_any:
        raise AddressError(
            f"host {host!r} stands for every network of this machine: name the one address by which the "
            "other machines reach it. Nothing is ever offered on all of them"
        )


def towards(host: str, port: int) -> str:
    """This machine's own address on the way to another one.

    Raises
    ------
    AddressError
        There is no way.
    """
    try:
        family, kind, protocol, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(there)  # of a datagram socket: sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise AddressError(f"{join(host, port)} cannot be reached: {error.strerror or error}") from None


def same(one: str, other: str) -> bool:
    """Whether two addresses are of the same port of the same machine, as far as names can be resolved."""
    return one == other or bool(_resolved(one) & _resolved(other))


def _resolved(text: str) -> set[tuple[str, int]]:
    host, port = parse(text)
    try:
        return {(str(found[4][0]), port) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:  # a name that nobody knows now
        return {(host, port)}
