"""Where a control store is kept: the path of a file, or the address of a Redis."""

from __future__ import annotations

from .control_store import ControlStore, ControlStoreError


def open_store(where: str, cluster: str) -> ControlStore:
    """The control store of a cluster.

    Parameters
    ----------
    where : str
        The path of a file for SQLite, or an address for Redis: redis://host:port/number, rediss://... or unix:///path.
    cluster : str
        Its name, which keeps clusters apart that share one Redis.

    Raises
    ------
    ControlStoreError
        It cannot be used; the text says why.
    """
    if where.startswith(("redis://", "rediss://", "unix://")):
        from .redis import RedisBackend

        return ControlStore(RedisBackend(where, cluster))
    if "://" in where:
        raise ControlStoreError(
            f"control store {where!r}: must be the path of a file, or redis://, rediss:// or unix:// with an address"
        )
    from .sqlite import SqliteBackend

    return ControlStore(SqliteBackend(where))
