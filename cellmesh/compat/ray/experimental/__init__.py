"""`ray.experimental`: its progress bars."""
from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import missing as _missing

__all__ = ["tqdm_ray"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    return import_module(".tqdm_ray", __name__) if name == "tqdm_ray" else _missing.no_such_name("ray.experimental")(name)
