"""What tasks log goes to the loggers of the driver, where levels, formats and filters are what the user has set.

A worker's root logger has a handler of ours. It sends each record as plain data: its message with the arguments in it,
its traceback as text, and of what `extra` brought numbers and strings as they are, the rest as text.

What a task sets up itself holds. A record that another handler of the process has shown on stdout or stderr is not
sent, as it is on its way to the driver already, and `logging.basicConfig` in a task finds no handler where the driver
has none either.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Protocol

from ...ipc.fitting import fitting_text
from ...ipc.messages import MAX_TEXT_CHARS

MOST_CHARS = 256 << 10  # of a message, and of a traceback
MOST_EXTRA, MOST_EXTRA_CHARS = 64, 4096  # of what `extra` brings: how many, and each
_KEPT = (str, int, float, bool, type(None))
_FORMATTED = ("msg", "args", "exc_info", "exc_text", "stack_info", "message", "asctime")
_OWN = frozenset(vars(logging.makeLogRecord({})))

_formatter = logging.Formatter()


class Send(Protocol):
    """What takes a record: what a terminal would show of it, and its attributes as JSON has them."""

    def __call__(self, text: str, attributes: dict[str, Any]) -> None: ...


class Forwarder(logging.Handler):
    """Sends records to the driver."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        if _is_shown(record):
            return
        try:
            text, attributes = as_data(record)
        except Exception:  # arguments that do not fit the message, or whose __str__ raises
            self.handleError(record)
        else:
            self._send(text, attributes)


def driver_has_handlers() -> bool:
    """Whether the driver has set its root logger up; `cellmesh.environment.log_levels` replaces this."""
    return False


def install(send: Send) -> None:
    """Send what this process logs."""
    forwarder = Forwarder(send)
    logging.root.addHandler(forwarder)
    basic_config: Callable[..., None] = logging.basicConfig

    def make_room(**options: Any) -> None:
        if logging.root.handlers == [forwarder] and not driver_has_handlers():
            logging.root.removeHandler(forwarder)
        basic_config(**options)

    make_room.__doc__ = basic_config.__doc__
    logging.basicConfig = make_room


def as_data(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """What a terminal would show of a record, and the record as plain data."""
    message = fitting_text(record.getMessage(), MOST_CHARS)
    trace = record.exc_text or (_formatter.formatException(record.exc_info) if record.exc_info else "")
    stack = _formatter.formatStack(record.stack_info) if record.stack_info else ""
    attributes = {name: _plain(value) for name, value in vars(record).items() if name in _OWN}
    extra = [name for name in vars(record) if name not in _OWN and name not in _FORMATTED]
    attributes.update((name, _plain(getattr(record, name))) for name in extra[:MOST_EXTRA])
    for name in _FORMATTED:
        attributes.pop(name, None)
    attributes["msg"] = message
    if trace:
        attributes["exc_text"] = fitting_text(trace, MOST_CHARS)
    if stack:
        attributes["stack_info"] = fitting_text(stack, MOST_CHARS)
    text = fitting_text("\n".join(filter(None, (message, trace, stack))), MAX_TEXT_CHARS - 1)
    return f"{text}\n", attributes


def _plain(value: object) -> object:
    return value if type(value) in _KEPT and type(value) is not str else fitting_text(_text(value), MOST_EXTRA_CHARS)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # the user's class: the record is worth more than this part of it
        return f"<{type(value).__name__}, whose str() raises {type(error).__name__}>"


def _is_shown(record: logging.LogRecord) -> bool:
    """Whether another handler of this process writes the record to its stdout or stderr."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        for handler in logger.handlers:
            if record.levelno >= handler.level and _stream_of(handler) in _shown_streams():
                return True
        logger = logger.parent if logger.propagate else None
    return False


def _stream_of(handler: Any) -> object:
    """What a handler writes to: logging's own have a stream, rich's has a console. 0: something else."""
    return getattr(handler, "stream", None) or getattr(getattr(handler, "console", None), "file", None) or 0


def _shown_streams() -> tuple[object, ...]:
    return sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
