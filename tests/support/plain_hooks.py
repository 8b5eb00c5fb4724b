"""What the extension needs at least of whoever uses it: values by cloudpickle, buffers out of band."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle


class PlainHooks:
    """The least that the extension needs."""

    @staticmethod
    def pickle(value: Any) -> tuple[bytes, list[Any]]:
        buffers: list[Any] = []
        data = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return data, [b.raw() for b in buffers]

    @staticmethod
    def unpickle(data: bytes, buffers: list[Any]) -> Any:
        return pickle.loads(data, buffers=buffers)
