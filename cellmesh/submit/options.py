"""The options of tasks and actors: one table says which exist, for what, and which values they take."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..environment import runtime_env
from ..text import NAME_ALLOWED, closest, is_name
from .option_values import (
    GRANULARITY,
    MAX_CONCURRENCY,
    MAX_GROUPS,
    MAX_RATE,
    MAX_RETURNS,
    MAX_SECONDS,
    RESERVED,
    is_amount,
    is_count,
    is_delay,
    is_exception_filter,
    is_gpu_amount,
    is_groups,
    is_one_of,
    is_resources,
    is_returns,
    is_seconds,
    is_selector,
    seconds_apart,
)

Kind = Literal["task", "actor", "method"]
Options = dict[str, Any]

MAX_CALLS = 65_534
DEFAULT_RETRIES = 3  # of a task whose process dies
MAX_RETRIES = 32_767  # likewise; more than that is "for ever", written -1
MAX_RETRY_DELAY_S = 60.0  # up to which the waits before retries double, unless the first is longer or it is said
MAX_PRIORITY = 100  # either way: there is room for 512 kinds of tasks, and each priority makes one
MAX_IN_FLIGHT = (1 << 32) - 1
CALL_IT = {"task": "a task", "actor": "an actor", "method": "an actor's method"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is allowed for and which values it takes."""

    kinds: tuple[Kind, ...]
    allowed: str  # completes the sentence "... must be"
    valid: Callable[[Any], bool]


def _is_strategy(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("DEFAULT", "SPREAD")
    from .scheduling_strategies import (
        NodeAffinitySchedulingStrategy,
        NodeLabelSchedulingStrategy,
        PlacementGroupSchedulingStrategy,
    )

    return isinstance(
        value, (NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, PlacementGroupSchedulingStrategy)
    )


_AMOUNT = f"a number >= 0, whole or down to {GRANULARITY:g}"
_RETRIES = f"a whole number from 0 to {MAX_RETRIES}, or -1 for ever"

TABLE: dict[str, Option] = {
    "num_cpus": Option(("task", "actor"), _AMOUNT, is_amount),
    "num_gpus": Option(
        ("task", "actor"), f"a whole number >= 0, or a fraction of one GPU down to {GRANULARITY:g}", is_gpu_amount
    ),
    "memory": Option(("task", "actor"), "a number of bytes >= 0", is_amount),
    "resources": Option(
        ("task", "actor"),
        "a dict of custom resource names to amounts >= 0, such as {'disk': 1}; for "
        "CPU, GPU and memory use num_cpus, num_gpus and memory",
        is_resources,
    ),
    "num_returns": Option(
        ("task", "method"),
        f"a whole number from 0 to {MAX_RETURNS}, or for generators 'streaming' or 'dynamic'",
        is_returns,
    ),
    "generator_backpressure_num_objects": Option(
        ("task", "method"),
        "a whole number >= 1, of items that a generator may be ahead of its reader",
        is_count(1, (1 << 32) - 1),
    ),
    "max_retries": Option(("task",), _RETRIES, is_count(-1, MAX_RETRIES)),
    "retry_exceptions": Option(("task", "method"), "True, False, or a list of exception classes", is_exception_filter),
    "retry_delay": Option(
        ("task", "method"),
        f"a number of seconds from 0 to {MAX_SECONDS:,} before the first retry, or (first, longest)",
        is_delay,
    ),
    "timeout": Option(
        ("task", "method"),
        f"a number of seconds from 0.001 to {MAX_SECONDS:,}, that an attempt may run",
        is_seconds(0.001),
    ),
    "name": Option(("task", "actor", "method"), NAME_ALLOWED, is_name),
    "namespace": Option(("actor",), NAME_ALLOWED, is_name),
    "get_if_exists": Option(("actor",), "True or False", is_one_of(True, False)),
    "lifetime": Option(("actor",), "None or 'detached'", is_one_of("detached", "non_detached")),
    "max_restarts": Option(("actor",), _RETRIES, is_count(-1, MAX_RETRIES)),
    "max_task_retries": Option(("actor", "method"), _RETRIES, is_count(-1, MAX_RETRIES)),
    "max_calls": Option(("task",), f"a whole number from 0 (any number) to {MAX_CALLS}", is_count(0, MAX_CALLS)),
    "max_concurrency": Option(
        ("actor",), f"a whole number from 1 to {MAX_CONCURRENCY:,}", is_count(1, MAX_CONCURRENCY)
    ),
    "concurrency_groups": Option(
        ("actor",),
        f"a dict of at most {MAX_GROUPS} names to how many calls run at a time, such as {{'io': 2}}",
        is_groups,
    ),
    "concurrency_group": Option(("method",), "the name of one of the actor's concurrency groups", is_name),
    "max_pending_calls": Option(
        ("actor",),
        "a whole number >= 1, or -1 for any number",
        lambda value: value == -1 or is_count(1, (1 << 32) - 1)(value),
    ),
    "allow_out_of_order_execution": Option(("actor",), "True or False", is_one_of(True, False)),
    "priority": Option(
        ("task", "actor"),
        f"a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}; the higher ones begin first",
        is_count(-MAX_PRIORITY, MAX_PRIORITY),
    ),
    "max_in_flight": Option(
        ("task",), "a whole number >= 1, of the function's tasks that run at a time", is_count(1, MAX_IN_FLIGHT)
    ),
    "rate_limit": Option(
        ("task",),
        f"a rate of starts, such as '10/s', '100/m' or '5/h', or a number of starts a second, at most {MAX_RATE}",
        lambda value: seconds_apart(value) is not None,
    ),
    "scheduling_strategy": Option(
        ("task", "actor"),
        "'DEFAULT' or 'SPREAD' (on one machine they mean the same), or from "
        "cellmesh.util a PlacementGroupSchedulingStrategy, NodeAffinitySchedulingStrategy or "
        "NodeLabelSchedulingStrategy",
        _is_strategy,
    ),
    "label_selector": Option(
        ("task", "actor"),
        "a dict of labels to values, such as {'zone': 'eu'}, where a value may be 'in(eu,us)' "
        "and '!' before it means the opposite",
        is_selector,
    ),
    "keep_frames": Option(("task", "actor"), "True or False", is_one_of(True, False)),
    "readonly": Option(("task", "actor"), "True or False", is_one_of(True, False)),
    "runtime_env": Option(("task", "actor"), runtime_env.ALLOWED, runtime_env.is_valid),
}

# What programs written for Ray say: another spelling of an option, or one that has no meaning on one machine ("").
SPELLINGS = {
    "_generator_backpressure_num_objects": "generator_backpressure_num_objects",
    "accelerator_type": "",
    "object_store_memory": "",
    "fallback_strategy": "",
    "enable_task_events": "",
    "_labels": "",
    "_metadata": "",
}


# The types of values that an option may take at all, where another one is a mistake of its own kind.
TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(
        (
            "num_cpus",
            "num_gpus",
            "memory",
            "max_retries",
            "max_restarts",
            "max_task_retries",
            "max_calls",
            "max_concurrency",
            "max_pending_calls",
        ),
        numbers.Real,
    ),
    **dict.fromkeys(("resources", "concurrency_groups", "label_selector", "runtime_env"), Mapping),
    **dict.fromkeys(("name", "namespace", "lifetime"), str),
    "num_returns": (numbers.Integral, str),
    "retry_exceptions": (bool, list, tuple),
    "get_if_exists": bool,
}


class OptionTypeError(ValueError, TypeError):
    """The value of an option is of a type that the option never takes: a ValueError as every wrong value, and, as Ray's
    programs expect, a TypeError."""


def valid_names(kind: Kind) -> list[str]:
    """The options of a kind, in the order of the table."""
    return [name for name, option in TABLE.items() if kind in option.kinds]


def check_options(kind: Kind, options: Mapping[str, Any], owner: str) -> Options:
    """Check options; None means "not given".

    Parameters
    ----------
    kind : {"task", "actor", "method"}
    options : mapping
        As the user gave them.
    owner : str
        Whose options they are, for messages.

    Returns
    -------
    dict
        Those that were given.

    Raises
    ------
    ValueError
        An option is unknown, belongs to another kind, or has a value that it does not take.
    """
    checked = {}
    for given, value in options.items():
        name = SPELLINGS.get(given, given)
        if not name:
            continue
        option = TABLE.get(name)
        if option is None or kind not in option.kinds:
            raise ValueError(_unknown(kind, name, option, owner))
        if value is None:
            continue
        if not option.valid(value):
            is_typed = isinstance(value, TYPES.get(name, object)) and (
                name != "runtime_env" or runtime_env.has_types(value)
            )
            wrong = ValueError if is_typed else OptionTypeError
            raise wrong(
                f"option {name}={_short(value)} of {owner}: must be {option.allowed}"
                f"{runtime_env.not_there(value) if name == 'runtime_env' else ''}"
            )
        checked[name] = value
    return checked


def _unknown(kind: Kind, name: str, option: Option | None, owner: str) -> str:
    names = valid_names(kind)
    if option is not None:
        others = " and ".join({"task": "tasks", "actor": "actors", "method": "actor methods"}[k] for k in option.kinds)
        hint = f"it is an option of {others}, and {owner} is {CALL_IT[kind]}."
    else:
        from . import flags

        close = [flags.long_form(str(name), flags.OF_TASKS), closest(name, names)]
        close = [known for known in close if known in names]
        hint = f"did you mean {close[0]!r}?" if close else f"{CALL_IT[kind]} has no such option."
    return f"unknown option {name!r} for {owner}: {hint} Valid options: {', '.join(names)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def returns_of(options: Mapping[str, Any], is_generator: bool, owner: str) -> dict[str, Any]:
    """How a call's values come back, for the core's submitter: `num_returns`, and `stream` for those that yield.

    Raises
    ------
    ValueError
        Back-pressure is asked for where nothing is streamed.
    """
    asked = options.get("num_returns", "streaming" if is_generator else 1)
    ahead = options.get("generator_backpressure_num_objects")
    if asked == "streaming":
        return {"num_returns": 1, "stream": ahead or 0}
    if ahead is not None:
        raise ValueError(
            f"option generator_backpressure_num_objects={ahead} of {owner}: needs a generator function, and "
            f'num_returns="streaming", not {asked!r}'
        )
    return {"num_returns": 1 if asked == "dynamic" else asked, "stream": None}


def times_of(options: Mapping[str, Any]) -> tuple[int, int, int, bool] | None:
    """How long an attempt may run, the first and the longest wait before another one, in ms, and whether one that ran
    too long is followed by another; for the core's submitter. None: the options say nothing of it."""
    delay = options.get("retry_delay", 0)
    timeout_s = options.get("timeout", 0)
    first_s, most_s = delay if isinstance(delay, (list, tuple)) else (delay, max(delay, MAX_RETRY_DELAY_S))
    if not timeout_s and not first_s:
        return None
    return _in_ms(timeout_s), _in_ms(first_s), _in_ms(most_s), _retries_timeout(options.get("retry_exceptions", False))


def _in_ms(seconds: float) -> int:
    return round(seconds * 1000) or int(seconds > 0)  # what is little is not nothing


def _retries_timeout(retried: bool | Sequence[type[BaseException]]) -> bool:
    if isinstance(retried, bool):
        return retried
    from ..exceptions import TaskTimeoutError

    return issubclass(TaskTimeoutError, tuple(retried))


def resource_demand(kind: Kind, options: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float] | None]:
    """What a task or actor needs in order to start, and what an actor keeps then.

    A task takes one CPU unless told otherwise. An actor without `num_cpus` takes one to be placed and holds none, so
    that hundreds of idle actors fit on two CPUs.

    Returns
    -------
    demand : dict of resource name to amount
    hold : dict or None
        None: the same as `demand`.
    """
    demand = {name: float(amount) for name, amount in options.get("resources", {}).items()}
    for resource, option in RESERVED.items():
        if option in options:
            demand[resource] = float(options[option])
    if "num_cpus" in options:
        return _without_zeros(demand), None
    hold = None if kind == "task" else _without_zeros(demand)
    return _without_zeros({**demand, "CPU": 1.0}), hold


def terms_of(options: Mapping[str, Any], definition: str) -> dict[str, Any]:
    """When a task may begin although there is room for it, for `Client.resource_class`; empty: as soon as there is.

    Parameters
    ----------
    definition : str
        Names the function for the store, which counts its tasks.
    """
    terms = {"priority": options.get("priority", 0)}
    if "max_in_flight" in options or "rate_limit" in options:
        rate = options.get("rate_limit")
        terms |= {
            "function": definition,
            "most": options.get("max_in_flight", 0),
            "interval_s": seconds_apart(rate) if rate else 0.0,
        }
    return {name: value for name, value in terms.items() if value}


def _without_zeros(amounts: dict[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if amount}


def options_key(options: Mapping[str, Any]) -> Hashable:
    """Equal for equal options; for caches."""
    return tuple((name, _frozen(options[name])) for name in sorted(options))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((k, _frozen(v)) for k, v in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
