"""How an exception leaves a worker: as a tuple that always can be stored, whatever the exception is.

The exception itself travels along as a pickle when it can be pickled *and* unpickled; the text always travels.
"""
from __future__ import annotations

import io
import os
import pickle
import traceback
from types import TracebackType
from typing import Any

from . import surroundings
from .exceptions import TaskError
from .text import in_one_line, in_unicode
from .tracebacks import is_ours

MAX_TEXT = 200_000          # characters of message and of traceback; what is longer loses its middle
MAX_NOTE = 1000             # of what is said about an exception that cannot be sent
MAX_PICKLE_BYTES = 10 << 20
MAX_PLAIN_FRAMES = 50
SCALARS = {str, int, float, bool, bytes, type(None)}
# Of these the `traceback` module says more than class and text: parts, the place in the source, what may have been meant.
TOLD_BY_TRACEBACK = (BaseExceptionGroup, SyntaxError, NameError, AttributeError, ImportError)


def describe(error: BaseException, function_name: str) -> tuple[Any, ...]:
    """The tuple for `exceptions.make_error`. Never raises.

    Returns
    -------
    tuple
        "task_error", the function's name, the exception's type, its message, the traceback, the pickled exception or
        None, the pid (with the machine's name, where there are several), a note; where they are kept, the frames of `failed_frames.describe` and what `post_mortem.keep` says.
    """
    pickled, note = _pickled(error)
    cause_type = error.cause_type if isinstance(error, TaskError) else type(error).__qualname__
    if not cause_type.isprintable():  # made by type(...); people read it among our words
        cause_type = in_one_line(cause_type)
    place = (os.getpid(), surroundings.node) if surroundings.node else os.getpid()
    record = "task_error", function_name, cause_type, _message(error), _traceback(error), pickled, place, note
    if surroundings.keep_frames or error is surroundings.kept_error:
        from . import failed_frames, post_mortem
        surroundings.kept_error = None
        return (*record, failed_frames.describe(error.__traceback__), post_mortem.keep(error.__traceback__))
    return record


def _message(error: BaseException) -> str:
    if isinstance(error, TaskError):  # of a task that this one waited for: its str() would repeat the whole traceback
        return _shortened(error.message)
    try:
        return _shortened(str(error))
    except Exception as problem:  # the user's __str__
        return f"<its __str__ raised {type(problem).__name__}>"


def _traceback(error: BaseException) -> str:
    quick = _plain_traceback(error)
    if quick is not None:
        return quick
    try:
        return _shortened("".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__))))
    except Exception as problem:  # the user's __str__, __repr__ or __notes__ again
        frames = "".join(traceback.format_tb(_users_part(error.__traceback__)))
        return _shortened(f"Traceback (most recent call last):\n{frames}{type(error).__qualname__}: "
                          f"<could not be formatted: {type(problem).__name__}>\n")


def _plain_traceback(error: BaseException) -> str | None:
    """The traceback of an exception that stands alone, without source lines; None for what only `traceback` can tell.

    Looking up and parsing the source costs more than all the rest of a failed task. Whoever reads the text has the files
    too, and the notebook's cells, which a worker has not: `tracebacks.with_source_lines`.
    """
    if (error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__)
            or hasattr(error, "__notes__") or isinstance(error, TOLD_BY_TRACEBACK)):
        return None
    lines = ["Traceback (most recent call last):"]
    tb = _users_part(error.__traceback__)
    while tb is not None:
        code = tb.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {tb.tb_lineno}, in {code.co_name}')
        tb = tb.tb_next
        if len(lines) > MAX_PLAIN_FRAMES:  # a recursion, whose repeated lines `traceback` folds
            return None
    try:
        text = str(error)
    except Exception:  # the user's __str__; told below
        return None
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"
    lines.append(f"{name}: {text}" if text else name)
    return _shortened("\n".join(lines) + "\n")


def _users_part(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that lead from the worker's loop into the user's function."""
    start = tb
    while start is not None and is_ours(start):
        start = start.tb_next
    return start if start is not None else tb


def _shortened(text: str) -> str:
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}\n[... {len(text) - MAX_TEXT} characters left out ...]\n{text[-half:]}"
    return in_unicode(text)


def _pickled(error: BaseException) -> tuple[bytes | None, str]:
    """The exception pickled, or why that is not possible."""
    if type(error).__module__ == "builtins" and not vars(error) and all(type(arg) in SCALARS for arg in error.args):
        return pickle.dumps(error, 5), ""  # the usual case; it can be unpickled anywhere
    problem = ""
    for dump in (_dump, _dump_parts):
        try:
            data = dump(error)
            pickle.loads(data)
        except (Exception, SystemExit, GeneratorExit) as reason:  # the user's classes again
            problem = problem or f"{type(reason).__name__}: {_message(reason)[:MAX_NOTE]}"
            continue
        if len(data) > MAX_PICKLE_BYTES:
            return None, f"the exception itself was not sent, this is its text: it holds {len(data) >> 20} MiB"
        return data, ""
    return None, f"the exception itself could not be sent, this is its text: {problem}"


def _dump(error: BaseException) -> bytes:
    import cloudpickle
    return cloudpickle.dumps(error, protocol=5)


def _dump_parts(error: BaseException) -> bytes:
    """The pickle of an exception that will be made again without its `__init__`, and likewise those that it holds.

    Many exception classes cannot be unpickled otherwise, because their `__init__` wants other arguments than `args`
    holds.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, BaseException):
                return _from_parts, (type(obj), obj.args, dict(vars(obj)))
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file, protocol=5).dump(error)
    return file.getvalue()


def _from_parts(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
