"""A session's one socket: making it, and asking whether anybody is there. What is said over it is `transport`'s."""
from __future__ import annotations

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


def is_alive(path: str) -> bool:
    """Whether somebody listens at `path`, even if too busy to answer."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        probe.connect(path)
    except BlockingIOError:  # more connections wait to be accepted than fit
        return True
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    finally:
        probe.close()
    return True
