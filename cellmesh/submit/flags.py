"""How options are written in a line: one table, from which the magics and `cellmesh start` take names, help and values.

An option has one name in Python and in every line, `num_cpus` and `--num-cpus`. A short form, where there is one, is
read too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..text import bytes_of


@dataclass(frozen=True, slots=True)
class Written:
    """An option as a flag.

    Attributes
    ----------
    help : str
    metavar : str
        What stands for the value in the documentation; ``""`` for a flag without value, which means True.
    parse : callable
        From the text to the value; its ValueError's text is what the user reads.
    short : str
        Another name of the flag.
    """

    help: str
    metavar: str = ""
    parse: Callable[[str], Any] = str
    short: str = ""

    def spellings(self, option: str) -> tuple[str, ...]:
        """The names of the flag, that of the option first."""
        return (flag_of(option), self.short) if self.short else (flag_of(option),)


def flag_of(option: str) -> str:
    """'num_cpus' -> '--num-cpus'."""
    return f"--{option.replace('_', '-')}"


def argument_type(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """For argparse, which shows the text of no other error."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


# ---- values


def amount(text: str) -> float:
    """A number of CPUs or the like, fractions allowed."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r} is not an amount: it must be 0 or more")
    return int(value) if value == int(value) else value


def whole(text: str) -> int:
    """A whole number; whether it may be that one is for who uses it to say."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def count(text: str) -> int:
    """A whole number >= 0, or -1 for "for ever"."""
    value = whole(text)
    if value < -1:
        raise ValueError(f"{text!r} must be 0 or more, or -1 for no limit")
    return value


def delay(text: str) -> float | tuple[float, ...]:
    """Seconds, or the first and the longest: 2 or 1,60."""
    found = tuple(amount(part) for part in text.split(","))
    return found[0] if len(found) == 1 else found


def size(text: str) -> int:
    """A number of bytes: 1000000, 500M, 2G, 1.5GiB."""
    return bytes_of(text)


def resources(text: str) -> dict[str, float]:
    """Custom resources: disk=1,licence=0.5 or JSON."""
    if text.startswith("{"):
        return {name: amount(str(value)) for name, value in mapping(text).items()}
    return {name: amount(value) for name, value in _pairs(text, "name=amount").items()}


def labels(text: str) -> dict[str, str]:
    """Labels of nodes: zone=eu,disk=ssd."""
    return _pairs(text, "name=value")


def mapping(text: str) -> dict[str, Any]:
    """A dict as JSON."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{text!r} is not a dict as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a dict as JSON, such as '{{\"a\": 1}}'")
    return value


def _pairs(text: str, form: str) -> dict[str, str]:
    """`a=1,b=in(x,y)`: a comma within parentheses separates nothing."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    pairs = [part.partition("=") for part in parts if part.strip()]
    if not pairs or any(not sign or not name.strip() or not value.strip() for name, sign, value in pairs):
        raise ValueError(f"{text!r} is not of the form {form},{form}")
    return {name.strip(): value.strip() for name, _, value in pairs}


# ---- the options

# Of `remote` and `.options`.
OF_TASKS = {
    "num_cpus": Written(
        "CPUs that it needs, fractions allowed; a task takes 1 by default, an actor 1 to be placed and none to stay.",
        "N",
        amount,
        "--cpus",
    ),
    "num_gpus": Written("GPUs that it needs.", "N", amount, "--gpus"),
    "memory": Written("Memory that it needs, such as 500M or 2G.", "BYTES", size),
    "resources": Written("Custom resources that it needs: name=amount,name=amount.", "LIST", resources),
    "name": Written("What a task is called in listings; how get_actor() and %%remote --on find an actor.", "NAME"),
    "max_retries": Written(
        "How often a task is run again when its process dies (3); -1 for no limit.", "N", count, "--retries"
    ),
    "retry_exceptions": Written("Run a task again, within --max-retries, also when it raises."),
    "retry_delay": Written(
        "How many seconds to wait before it is run again, twice as long each time; or the first and the longest, 1,60.",
        "S",
        delay,
    ),
    "timeout": Written(
        "An attempt that runs longer is interrupted, and its process killed 5 seconds later.", "S", amount
    ),
    "priority": Written(
        "Of what waits, higher ones begin first: a whole number from -100 to 100, 0 by default.", "N", whole
    ),
    "max_in_flight": Written(
        "In a cell of definitions: at most so many tasks of each function run at a time.", "N", whole
    ),
    "rate_limit": Written(
        "In a cell of definitions: tasks of each function start at most so often: 10/s, 100/m, 5/h.",
        "RATE",
        str,
        "--rate",
    ),
    "num_returns": Written("How many values a function that the cell defines returns.", "N", count),
    "max_restarts": Written(
        "How often an actor is restarted when its process dies (0); -1 for no limit.", "N", count, "--restarts"
    ),
    "max_task_retries": Written("How often a call of the actor is run again then (0); -1 for no limit.", "N", count),
    "max_concurrency": Written(
        "How many calls of an actor run at a time (1; 1000 with async methods).", "N", count, "--concurrency"
    ),
    "max_pending_calls": Written(
        "How many calls of an actor may be queued or running; another one is refused. -1, the default, for any number.",
        "N",
        count,
    ),
    "lifetime": Written(
        "detached: an actor outlives the variable and the kernel. After a restart this cell, or get_actor(NAME), "
        "finds it; it ends with kill() or shutdown().",
        "LIFETIME",
    ),
    "scheduling_strategy": Written(
        "SPREAD: on the node where least runs, not here as long as there is room; or DEFAULT.", "STRATEGY"
    ),
    "label_selector": Written("Labels that its node must have: zone=eu,disk=!hdd.", "LIST", labels),
    "runtime_env": Written('What its process is given, as JSON: \'{"env_vars": {"MODE": "fast"}}\'.', "JSON", mapping),
    "keep_frames": Written("Should it fail, its worker keeps the frames, for %inspect --pdb.", short="--keep"),
}

# Options that no line has, and why.
ONLY_IN_PYTHON = {
    "generator_backpressure_num_objects": "goes with one function: @cellmesh.remote(...) above its definition",
    "readonly": "goes with one function or class: @cellmesh.remote(...) above its definition",
    "max_calls": "goes with one function: @cellmesh.remote(...) above its definition",
    "concurrency_groups": "goes with @cellmesh.method(...) in the class",
    "concurrency_group": "is of a method",
    "allow_out_of_order_execution": "goes with one class: @cellmesh.remote(...) above its definition",
    "namespace": "cells look actors up in the session's: init(namespace=...)",
    "get_if_exists": "a cell that is run again finds or replaces its actor",
}

# Of `init`.
OF_SESSIONS = {
    "num_cpus": Written("How many CPUs tasks may use together.", "N", amount, "--cpus"),
    "num_gpus": Written("How many GPUs tasks may use together.", "N", amount, "--gpus"),
    "memory": Written("What tasks may ask for with --memory, such as 2G.", "BYTES", size),
    "resources": Written("Custom resources: name=amount,name=amount.", "LIST", resources),
    "object_store_memory": Written("Room for values, such as 2G.", "BYTES", size, "--store"),
    "namespace": Written("Where actors' names are looked up.", "NAME"),
    "log_dir": Written(
        "A folder where each worker writes all that its tasks print; what is shown is what a reader can follow.",
        "FOLDER",
        str,
        "--logs",
    ),
    "offload_dir": Written("A folder for values that the object store has no room for.", "FOLDER"),
    "offload_limit": Written("How much may lie there, such as 20G; 0 for nothing.", "BYTES", size),
    "labels": Written("Labels of the node: zone=eu,gpu=a100.", "LIST", labels),
    "engine_options": Written(
        "With the address of an engine: what it is told, as JSON: '{\"ship\": true}'.", "JSON", mapping
    ),
}


def long_form(short: str, table: dict[str, Written]) -> str:
    """The option that a short form stands for, in Python's spelling; "" if it is none: 'cpus' -> 'num_cpus'."""
    return next((name for name, written in table.items() if written.short and written.short == flag_of(short)), "")
