"""`ray.util.multiprocessing`."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from multiprocessing import JoinableQueue, TimeoutError
from typing import Any

from ....util import multiprocessing as _ours

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]


class Pool(_ours.Pool):
    """`cellmesh.util.multiprocessing.Pool` with Ray's arguments."""

    def __init__(self, processes: int | None = None, initializer: Callable[..., Any] | None = None,
                 initargs: Iterable[Any] | None = None, maxtasksperchild: int | None = None, context: Any = None,
                 ray_address: str | None = None, ray_remote_args: dict[str, Any] | None = None) -> None:
        super().__init__(processes, initializer, initargs or (), maxtasksperchild, context,
                         actor_options=ray_remote_args)
