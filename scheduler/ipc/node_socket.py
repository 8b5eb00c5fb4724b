"""A session's one socket: making it, and asking whether a process listens. What is said over it is `transport`'s."""

from __future__ import annotations

import errno
import os
import socket

SOCKET_NAME = "node.sock"
MAX_PATH_BYTES = 107  # sizeof(sockaddr_un.sun_path) - 1


def listen(path: str) -> socket.socket:
    """Listen at `path`. The file appears when connections can be made, never before."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.bind(path + "~")
        sock.listen(128)
        os.rename(path + "~", path)
    except OSError:
        sock.close()
        raise
    return sock


# Errors of connect() at a path where no session of this user can ever have listened.
_FOREIGN = {errno.EPROTOTYPE, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}


class NoSessionSocket(OSError):
    """What lies at the path is no socket of a session of this user: it is of another kind, or cannot be reached."""


def is_alive(path: str) -> bool:
    """Whether a process listens at `path`, even if too busy to answer.

    Raises
    ------
    NoSessionSocket
        It is neither alive nor a dead session's, so it must not be removed.
    OSError
        The operating system cannot tell now.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise NoSessionSocket(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        probe.connect(path)
    except BlockingIOError:  # more connections wait to be accepted than fit
        return True
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError as error:
        if error.errno in _FOREIGN:
            raise NoSessionSocket(error.errno, error.strerror, path) from error
        raise
    finally:
        probe.close()
    return True
