"""Small things for messages: amounts in words, and warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from .scheduler.system.sizes import MAX_NAME_CHARS
from .scheduler.system.sizes import in_bytes as in_bytes

NAME_ALLOWED = f"a text of 1 to {MAX_NAME_CHARS} characters"
_PACKAGE = __name__.rpartition(".")[0]


class Shown(str):
    """A text of several lines that a notebook and an interactive Python show as it is, not as a literal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def in_limits(found: Mapping[str, Any], name: str) -> str:
    """What keeps a task of the function `name` from beginning though there is room, from `Client.why` or
    `Client.tasks`; "": nothing does.
    """
    if found["most"]:
        return f"{found['n_running']} of {found['most']} of {name} run, its max_in_flight"
    return f"{name} begins again in {found['wait_s']:.2g} s, its rate_limit" if found["wait_s"] else ""


def in_resources(amounts: Mapping[str, float]) -> str:
    """{'CPU': 2.0, 'memory': 1000} -> 'CPU: 2, memory: 1 kB'."""
    parts = [f"{name}: {in_bytes(amount) if name == 'memory' else f'{amount:g}'}" for name, amount in amounts.items()]
    return ", ".join(parts) or "nothing"


def duration(seconds: float) -> str:
    """0.00042 -> '420 µs', 75 -> '1 min 15 s'."""
    if seconds < 0.9995e-3:
        return f"{max(0.0, seconds) * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def closest(name: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that a wrong one was most likely meant for; "": none is like it.

    `cutoff`: how alike they must be, 0 to 1, as of `difflib.get_close_matches`.
    """
    import difflib  # for mistakes alone

    return next(iter(difflib.get_close_matches(str(name), [*map(str, known)], 1, cutoff)), "")


def next_attempt(info: Mapping[str, Any]) -> str:
    """What a task waits for that is to be tried again, from what the client tells of it: 'waits 3.2 s for its next
    attempt, 2 of 5'.
    """
    of = f", {info['attempt'] + 1} of {info['most_attempts']}" if info["most_attempts"] > 0 else ""
    return f"waits {duration(info['waits_s'])} for its next attempt{of}"


def bytes_of(text: str) -> int:
    """A number of bytes as people write it: 1000000, 500M, 2G, 1.5GiB; `ValueError` for what is none."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    number = text.upper().removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:] in "KMGT" else ""
    try:
        n = float(number.removesuffix(unit)) * units[unit]
    except ValueError:
        n = -1.0
    if not 0 <= n < float("inf"):
        raise ValueError(f"{text!r} is not a number of bytes, such as 500M or 2G")
    return int(n)


def is_unicode(text: str) -> bool:
    """Whether it can be encoded: it holds no lone surrogates, as file names do that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_unicode(text: str) -> str:
    """A text that everybody can show: lone surrogates, which no front end and no terminal takes, are written as
    escapes.
    """
    return text if is_unicode(text) else text.encode("utf-8", "backslashreplace").decode()


def is_name(value: object) -> bool:
    """Whether everybody can be told of it: messages have room for it."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and is_unicode(value)


def in_one_line(text: str, most: int = 80) -> str:
    """A name that a user has given, among our own words: no line breaks, nothing that a terminal obeys."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def first_line(error: BaseException) -> str:
    """What an error says, in a line: 'ValueError: no such thing'."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this package."""
    name = str(frame.f_globals.get("__name__", ""))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def user_frame() -> tuple[FrameType | None, int]:
    """The nearest frame outside this package, and how many frames the caller of this function lies below it."""
    frame: FrameType | None = sys._getframe(1)
    n_ours = 0
    while frame is not None and is_ours(frame):
        frame, n_ours = frame.f_back, n_ours + 1
    return frame, n_ours


def variable_of_caller(value: object) -> str | None:
    """The name by which the nearest caller outside this package knows the value."""
    frame, _ = user_frame()
    if frame is None:
        return None
    for namespace in (frame.f_locals, frame.f_globals):
        for name, held in list(namespace.items()):
            if held is value and not name.startswith("_"):
                return name
    return None


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, pointing at the user's line."""
    warnings.warn(message, category, stacklevel=user_frame()[1] + 1)
