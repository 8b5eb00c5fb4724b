"""`ray.util.multiprocessing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from multiprocessing import JoinableQueue, TimeoutError
from typing import Any

from ....startup.init import is_initialized
from ....util import multiprocessing as _ours
from .._init import init

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]


class Pool(_ours.Pool):
    """`cellmesh.util.multiprocessing.Pool` with Ray's arguments. Its processes take turns, and are there when it is.

    Without a session one is started, of as many CPUs as the pool is to have processes, or that at `ray_address` is
    joined.
    """

    _takes_turns = True

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        if not is_initialized():
            init(ray_address, num_cpus=processes if ray_address in (None, "local") else None)
        super().__init__(
            processes,
            initializer,
            initargs or (),
            maxtasksperchild,
            context,
            actor_options={"num_cpus": 0, **(ray_remote_args or {})},
        )
        self._await_processes()
