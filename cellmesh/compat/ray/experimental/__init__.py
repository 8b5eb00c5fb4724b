"""`ray.experimental`: its progress bars; never imports tqdm before a program asks for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import missing as _missing

__all__ = ["tqdm_ray"]


def __getattr__(name: str) -> Any:
    if name == "tqdm_ray":  # not before it is asked for: it needs tqdm
        return import_module(".tqdm_ray", __name__)
    return _missing.no_such_name("ray.experimental")(name)
