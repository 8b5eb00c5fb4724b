"""The options of tasks and actors: one table says which exist, for what, and which values they take."""
from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import environment
from .text import NAME_ALLOWED, is_name

Kind = Literal["task", "actor", "method"]
Options = dict[str, Any]

GRANULARITY = 1e-4         # of resource amounts, as in the store
MAX_RETURNS = 65_535       # what a task slot can count
MAX_CALLS = 65_534
MAX_RETRIES = 32_767       # likewise; more than that is "for ever", written -1
MAX_CONCURRENCY = 10_000
MAX_GROUPS = 11            # what an actor slot can count, beside the unnamed one
RESERVED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}  # resources with an option of their own
CALL_IT = {"task": "a task", "actor": "an actor", "method": "an actor's method"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is allowed for and which values it takes."""

    kinds: tuple[Kind, ...]
    allowed: str                    # completes the sentence "... must be"
    valid: Callable[[Any], bool]


def _is_amount(value: Any) -> bool:
    return (isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
            and (value == 0 or value >= GRANULARITY))


def _is_gpu_amount(value: Any) -> bool:
    return _is_amount(value) and (value <= 1 or value == int(value))


def is_bundle(value: Any) -> bool:
    """Whether it is a bundle of a placement group."""
    return (isinstance(value, Mapping) and any(value.values()) and all(map(is_name, value))
            and all(map(_is_amount, value.values())) and _is_gpu_amount(value.get("GPU", 0)))


def _is_count(least: int, most: int | None = None) -> Callable[[Any], bool]:
    def valid(value: Any) -> bool:
        return (isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least
                and (most is None or value <= most))
    return valid


def _is_resources(value: Any) -> bool:
    return (isinstance(value, Mapping) and all(map(_is_amount, value.values()))
            and all(is_name(name) and name not in RESERVED for name in value))


def _is_returns(value: Any) -> bool:
    return value in ("streaming", "dynamic") if isinstance(value, str) else _is_count(0, MAX_RETURNS)(value)


def _is_exception_filter(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, (list, tuple)) and all(isinstance(t, type) and issubclass(t, BaseException) for t in value)


def _is_groups(value: Any) -> bool:
    return (isinstance(value, Mapping) and 0 < len(value) <= MAX_GROUPS and all(map(is_name, value))
            and all(map(_is_count(1, MAX_CONCURRENCY), value.values())))


def _is_one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Hashable) and value in values


def _is_strategy(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("DEFAULT", "SPREAD")
    from .placement import NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, PlacementGroupSchedulingStrategy
    return isinstance(value, (NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, PlacementGroupSchedulingStrategy))


def is_selector(value: Any) -> bool:
    """Whether it says which labels a node must have, as `policy.holds` reads it."""
    return (isinstance(value, Mapping) and all(map(is_name, value)) and all(map(is_name, value.values()))
            and all(re.fullmatch(r"!?(in\([^()!]+\)|exists\(\)|[^()!]+)", condition) for condition in value.values()))


_AMOUNT = f"a number >= 0, whole or down to {GRANULARITY:g}"
_RETRIES = f"a whole number from 0 to {MAX_RETRIES}, or -1 for ever"

TABLE: dict[str, Option] = {
    "num_cpus": Option(("task", "actor"), _AMOUNT, _is_amount),
    "num_gpus": Option(("task", "actor"), "a whole number >= 0, or a fraction of one GPU down to "
                                          f"{GRANULARITY:g}", _is_gpu_amount),
    "memory": Option(("task", "actor"), "a number of bytes >= 0", _is_amount),
    "resources": Option(("task", "actor"), "a dict of custom resource names to amounts >= 0, such as {'disk': 1}; for "
                                           "CPU, GPU and memory use num_cpus, num_gpus and memory", _is_resources),
    "num_returns": Option(("task", "method"), f"a whole number from 0 to {MAX_RETURNS}, or for generators 'streaming' or "
                                              "'dynamic'", _is_returns),
    "generator_backpressure_num_objects": Option(("task", "method"), "a whole number >= 1, of items that a generator may "
                                                 "be ahead of its reader", _is_count(1, (1 << 32) - 1)),
    "max_retries": Option(("task",), _RETRIES, _is_count(-1, MAX_RETRIES)),
    "retry_exceptions": Option(("task", "method"), "True, False, or a list of exception classes", _is_exception_filter),
    "name": Option(("task", "actor", "method"), NAME_ALLOWED, is_name),
    "namespace": Option(("actor",), NAME_ALLOWED, is_name),
    "get_if_exists": Option(("actor",), "True or False", _is_one_of(True, False)),
    "lifetime": Option(("actor",), "None or 'detached'", _is_one_of("detached", "non_detached")),
    "max_restarts": Option(("actor",), _RETRIES, _is_count(-1, MAX_RETRIES)),
    "max_task_retries": Option(("actor", "method"), _RETRIES, _is_count(-1, MAX_RETRIES)),
    "max_calls": Option(("task",), f"a whole number from 0 (any number) to {MAX_CALLS}", _is_count(0, MAX_CALLS)),
    "max_concurrency": Option(("actor",), f"a whole number from 1 to {MAX_CONCURRENCY}", _is_count(1, MAX_CONCURRENCY)),
    "concurrency_groups": Option(("actor",), f"a dict of at most {MAX_GROUPS} names to how many calls run at a time, such as "
                                             "{'io': 2}", _is_groups),
    "concurrency_group": Option(("method",), "the name of one of the actor's concurrency groups", is_name),
    "max_pending_calls": Option(("actor",), "a whole number >= 1, or -1 for any number",
                                lambda value: value == -1 or _is_count(1, (1 << 32) - 1)(value)),
    "allow_out_of_order_execution": Option(("actor",), "True or False", _is_one_of(True, False)),
    "scheduling_strategy": Option(("task", "actor"), "'DEFAULT' or 'SPREAD' (on one machine they mean the same), or from "
                                  "cellmesh.util a PlacementGroupSchedulingStrategy, NodeAffinitySchedulingStrategy or "
                                  "NodeLabelSchedulingStrategy", _is_strategy),
    "label_selector": Option(("task", "actor"), "a dict of labels to values, such as {'zone': 'eu'}, where a value may be 'in(eu,us)' "
                             "and '!' before it means the opposite", is_selector),
    "runtime_env": Option(("task", "actor"), environment.ALLOWED, environment.is_valid),
}

# What programs written for Ray say: another spelling of an option, or one that has no meaning on one machine ("").
SPELLINGS = {"_generator_backpressure_num_objects": "generator_backpressure_num_objects", "accelerator_type": "",
             "object_store_memory": "", "fallback_strategy": "", "enable_task_events": "", "_labels": "",
             "_metadata": ""}


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
            raise ValueError(f"option {name}={_short(value)} of {owner}: must be {option.allowed}"
                             f"{environment.not_there(value) if name == 'runtime_env' else ''}")
        checked[name] = value
    return checked


def _unknown(kind: Kind, name: str, option: Option | None, owner: str) -> str:
    names = valid_names(kind)
    if option is not None:
        others = " and ".join({"task": "tasks", "actor": "actors", "method": "actor methods"}[k] for k in option.kinds)
        hint = f"it is an option of {others}, and {owner} is {CALL_IT[kind]}."
    else:
        close = difflib.get_close_matches(str(name), names, n=1)
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
        raise ValueError(f"option generator_backpressure_num_objects={ahead} of {owner}: needs a generator function, and "
                         f"num_returns=\"streaming\", not {asked!r}")
    return {"num_returns": 1 if asked == "dynamic" else asked, "stream": None}


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


def _without_zeros(amounts: dict[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if amount}


def options_key(options: Mapping[str, Any]) -> Hashable:
    """Equal for equal options; for caches."""
    return tuple((name, _frozen(options[name])) for name in sorted(options))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((k, _frozen(v)) for k, v in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
