"""What `init(engine_options=...)` may say, by engine. Pure.

What is said goes to the engine's process, and is written down beside a session with detached actors: so it is what JSON
has, and of keys their files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...exceptions import UnknownArgumentError
from ...text import closest


class Option(NamedTuple):
    """One of them. `allowed`: what it may be, in words."""

    fits: Callable[[Any], bool]
    allowed: str


def _is_plain(value: Any) -> bool:
    """Whether that is what JSON has."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int | float)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict) and _is_plain(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_security(value: Any) -> bool:
    return _is_dict(value) and not any(isinstance(one, str) and "\n" in one for one in value.values())


SHIP = Option(lambda value: value is True or value is False or value == "auto", "'auto', True or False")
TIMEOUT = Option(_is_time, "a number of seconds > 0")
OPTIONS: dict[str, dict[str, Option]] = {
    "fake": {"timeout": TIMEOUT},
    "ray": {
        "ship": SHIP,
        "timeout": TIMEOUT,
        "namespace": Option(lambda value: isinstance(value, str) and bool(value), "a text that is not empty"),
        "runtime_env": Option(_is_dict, "a dict of what JSON has, as ray.init(runtime_env=...) takes it"),
    },
    "dask": {
        "ship": SHIP,
        "timeout": TIMEOUT,
        "security": Option(
            _is_security, "a dict of what distributed.Security takes, such as {'tls_ca_file': PATH}, with keys as files"
        ),
    },
}


def checked(engine: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options for the engine of that name.

    Raises
    ------
    UnknownArgumentError
        It has none of that name.
    ValueError
        It does not take that value.
    """
    table = OPTIONS[engine]
    for name, value in given.items():
        if name not in table:
            hint = f"did you mean {close!r}? " if (close := closest(name, table)) else ""
            raise UnknownArgumentError(
                f"init(engine_options=...) has no option {name!r} for {engine}: {hint}It takes {', '.join(table)}"
            )
        if not table[name].fits(value):
            raise ValueError(f"init(engine_options={{{name!r}: {value!r}}}): must be {table[name].allowed}")
    return dict(given)
