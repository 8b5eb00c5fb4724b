"""Which values options take: one predicate for each kind of value. Pure."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeGuard

from ..objstore import _core
from ..text import is_name

GRANULARITY = 1 / _core.RESOURCE_UNIT  # of resource amounts, as in the store
MAX_SECONDS = 2_000_000  # 23 days; times of tasks are kept in milliseconds, 31 bits of them
MAX_GROUPS = _core.MAX_GROUPS - 1  # of an actor, beside the unnamed one
MAX_CONCURRENCY = (1 << 31) - 1  # threads and coroutines are made when there are calls for them
MAX_RATE = 1000  # starts a second: each takes a step of the local scheduler
MOST_APART_S = 1e8  # starts: three years
RATE_UNITS = {"s": 1, "m": 60, "h": 3600}
RESERVED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}  # resources with an option of their own
MAX_RETURNS = 65_535  # what a task slot can count


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number, numpy's included; True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number, numpy's included; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_amount(value: object) -> TypeGuard[float]:
    return is_number(value) and math.isfinite(value) and (value == 0 or value >= GRANULARITY)


def is_gpu_amount(value: object) -> bool:
    return is_amount(value) and (value <= 1 or value == int(value))


def is_bundle(value: object) -> bool:
    """Whether it is a bundle of a placement group."""
    return (
        isinstance(value, Mapping)
        and any(value.values())
        and all(map(is_name, value))
        and all(map(is_amount, value.values()))
        and is_gpu_amount(value.get("GPU", 0))
    )


def is_count(least: int, most: int | None = None) -> Callable[[Any], bool]:
    def valid(value: object) -> bool:
        return is_whole(value) and value >= least and (most is None or value <= most)

    return valid


def is_resources(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(map(is_amount, value.values()))
        and all(is_name(name) and name not in RESERVED for name in value)
    )


def is_returns(value: object) -> bool:
    return value in ("streaming", "dynamic") if isinstance(value, str) else is_count(0, MAX_RETURNS)(value)


def is_exception_filter(value: object) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(t, type) and issubclass(t, BaseException) for t in value)


def is_groups(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and 0 < len(value) <= MAX_GROUPS
        and all(map(is_name, value))
        and all(map(is_count(1, MAX_CONCURRENCY), value.values()))
    )


def is_seconds(least: float) -> Callable[[Any], bool]:
    return lambda value: is_number(value) and least <= value <= MAX_SECONDS


def is_delay(value: Any) -> bool:
    seconds = value if isinstance(value, (list, tuple)) else (value, MAX_SECONDS)
    return len(seconds) == 2 and all(map(is_seconds(0), seconds)) and seconds[0] <= seconds[1]


def is_one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Hashable) and value in values


def seconds_apart(rate: Any) -> float | None:
    """How far apart tasks start at a rate: "10/s", "100/m", "5/h", or a number of starts a second. None: it is no
    rate.
    """
    number, _, unit = rate.partition("/") if isinstance(rate, str) else (rate, "", "s")
    if isinstance(number, str):
        number = float(number) if re.fullmatch(r"\d+(\.\d+)?", number) else None
    if unit not in RATE_UNITS or not is_number(number):
        return None
    in_range = (
        RATE_UNITS[unit] / MOST_APART_S <= number <= RATE_UNITS[unit] * MAX_RATE
    )  # looked at first: it may be no float
    return RATE_UNITS[unit] / float(number) if in_range else None


def is_selector(value: object) -> bool:
    """Whether it says which labels a node must have, as `policy.holds` reads it."""
    return (
        isinstance(value, Mapping)
        and all(map(is_name, value))
        and all(map(is_name, value.values()))
        and all(re.fullmatch(r"!?(in\([^()!]+\)|exists\(\)|[^()!]+)", condition) for condition in value.values())
    )
