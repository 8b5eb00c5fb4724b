"""What trials report, and what is put together again of configurations that a journal only shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .space import Unstored

MAX_ELEMENTS = 1_000  # of an array among metrics; larger ones belong into a checkpoint


def completed(config: Any, whole: Any) -> Any:
    """The configuration, with what a journal only shows of it taken from `whole`, the one that it was made of."""
    if isinstance(config, Unstored):
        return whole
    if isinstance(config, dict) and isinstance(whole, dict):
        return {key: completed(item, whole.get(key)) for key, item in config.items()}
    if isinstance(config, (list, tuple)) and isinstance(whole, (list, tuple)) and len(config) == len(whole):
        return type(config)(completed(item, other) for item, other in zip(config, whole, strict=True))
    return config


def plain(result: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """What a trial reports, flat and as plain Python values: {"eval": {"loss": float32(1)}} -> {"eval/loss": 1.0}.

    Raises
    ------
    TypeError
        A name is no text, or a value is neither a number, a text, None nor an array of at most `MAX_ELEMENTS` of them.
    """
    flat: dict[str, Any] = {}
    for name, value in result.items():
        if type(name) is not str:
            raise TypeError(f"report(...): names of metrics are texts, and {name!r} is {type(name).__name__}")
        if type(value) in (float, int, str, bool) or value is None:
            flat[prefix + name] = value
        elif isinstance(value, Mapping):
            flat.update(plain(value, f"{prefix}{name}/"))
        else:
            flat[prefix + name] = _plain_value(prefix + name, value)
    return flat


def _plain_value(name: str, value: Any) -> Any:
    if hasattr(value, "detach"):  # a tensor of torch, which may need its gradient
        value = value.detach().cpu().numpy()
    import numpy as np

    if isinstance(value, (np.generic, np.ndarray, list, tuple)):
        array = np.asarray(value)
        if array.dtype.kind in "biufU" and array.size <= MAX_ELEMENTS:
            return array.item() if array.ndim == 0 else array.tolist()
        if array.dtype.kind in "biufU":
            raise TypeError(
                f"report(...): {name!r} has {array.size:,} elements, and a metric at most {MAX_ELEMENTS:,}: report "
                f"what "
                "sums it up, and put it into the checkpoint"
            )
    elif hasattr(value, "item"):
        return value.item()
    raise TypeError(
        f"report(...): {name!r} is {type(value).__name__}, and a metric is a number, a text, None, a small array of "
        f"numbers "
        "or a dict of those; other things go into the checkpoint"
    )
