"""What a command that fails says: `CommandError`, and what becomes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CommandError(Exception):
    """It did not work; the text says why."""


@contextmanager
def failures() -> Iterator[None]:
    from ..scheduler.cluster.net import address, client, keys, tokens
    from ..scheduler.node.private_dir import UnsafeDirectory

    try:
        yield
    except (address.AddressError, client.ClusterError, tokens.TokenError, keys.KeyFileError, UnsafeDirectory) as error:
        raise CommandError(str(error)) from None
