"""The control store in Redis: one hash a cluster. Nothing is acknowledged before Redis has acknowledged it.

How safe that is depends on Redis: with `appendonly yes` and `appendfsync always` nothing acknowledged is lost when it
is killed; with `everysec`, its default for append-only files, up to two seconds; without an append-only file, all since
its last snapshot. An epoch lost in that way is noticed: agents refuse a head whose life is earlier than one they have
seen.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from .control_store import AwayError, Changes, ControlStoreError, ReplacedError

TIMEOUT_S = 5.0

# All in one step, so that a head of an earlier life cannot come in between. ARGV: the life ("" for any), how many to
# delete, those
# keys, then keys and values. In pieces, as Lua unpacks a few thousand values at most.
COMMIT = """
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'life') ~= ARGV[1] then return 0 end
local n = tonumber(ARGV[2])
for i = 3, 2 + n do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 3 + n, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""


class _Script(Protocol):
    """A registered Lua script."""

    def __call__(self, keys: list[str], args: list[Any]) -> Any: ...


class _Client(Protocol):
    """What is used of `redis.Redis`, whose own types leave open whether it answers at once and with bytes: it does."""

    def hgetall(self, name: str) -> dict[bytes, bytes]: ...

    def config_get(self, pattern: str) -> dict[str, str]: ...

    def register_script(self, script: str) -> _Script: ...

    def close(self) -> None: ...


class RedisBackend:
    """Records in the hash "cellmesh:CLUSTER" of the Redis at `url`."""

    def __init__(self, url: str, cluster: str) -> None:
        try:
            from redis import Redis
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
            from redis.retry import Retry
        except ImportError as error:
            raise ControlStoreError(
                "A control store in Redis needs its Python client: pip install 'cellmesh[redis]'."
            ) from error
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError)
        self._hash = f"cellmesh:{cluster}"
        try:
            # Without retries of its own: whether a commit that was cut off has been made is found out by loading
            # everything again.
            client = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]  # redis leaves **kwargs untyped
                url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0)
            )
        except ValueError as error:
            raise ControlStoreError(f"The address of the control store makes no sense: {error}") from error
        self._redis = cast("_Client", client)
        self._commit = self._redis.register_script(COMMIT)

    @property
    def warning(self) -> str:
        """What people should know about how safe this Redis is; empty if nothing acknowledged can be lost or it does
        not say."""
        try:
            said: dict[str, str] = {}
            for name in ("appendonly", "appendfsync"):
                said |= self._redis.config_get(name)
        except self._errors:
            return ""
        if said.get("appendonly") == "no":
            return (
                "Redis keeps no append-only file: what was written since its last snapshot is lost when it ends "
                "(appendonly yes helps)."
            )
        if said.get("appendfsync") != "always":
            return (
                "Redis may lose up to two seconds of what it has acknowledged when it is killed "
                "(appendfsync always helps)."
            )
        return ""

    def load(self) -> dict[str, bytes]:
        try:
            found = self._redis.hgetall(self._hash)
        except self._errors as error:
            raise self._away(error) from error
        return {key.decode(): value for key, value in found.items()}

    def commit(self, changes: Changes, life: bytes | None) -> None:
        deleted = [key for key, value in changes.items() if value is None]
        kept = [part for key, value in changes.items() if value is not None for part in (key, value)]
        try:
            done = self._commit(keys=[self._hash], args=[life or b"", len(deleted), *deleted, *kept])
        except self._errors as error:
            raise self._away(error) from error
        if not done:
            raise ReplacedError

    def close(self) -> None:
        self._redis.close()

    def _away(self, error: Exception) -> AwayError:
        return AwayError(
            f"The control store in Redis cannot be reached ({error}): nothing can be changed in it until it is back."
        )
