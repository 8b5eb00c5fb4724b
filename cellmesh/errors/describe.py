"""How an exception leaves a worker: as a tuple that always can be stored, whatever the exception is.

The exception itself travels along as a pickle when it can be pickled *and* unpickled; the text always travels.
"""

from __future__ import annotations

import io
import os
import pickle
import traceback
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from types import TracebackType
from typing import Any, NoReturn, TypeGuard, TypeVar

from .. import front_end
from ..environment import driver_env
from ..exceptions import CellmeshError, TaskError
from ..text import in_one_line, in_unicode
from ..tracebacks import from_users_frame, up_to_users_frame

T = TypeVar("T", bound=BaseException)

# One exception; or it and what it came from, the latest first, each with whether it was raised `from` the next. None:
# it cannot be sent.
Pickled = bytes | tuple[tuple[bytes, bool], ...] | None

MAX_MESSAGE, MAX_TEXT = 8_000, 20_000  # characters of message and of traceback; what is longer loses its middle
MAX_NOTE = 1000  # of what is said about an exception that cannot be sent
MAX_PICKLE_BYTES = 10 << 20
MAX_CHAIN_BYTES = 256 << 10  # of the pickles of what an exception came from
MAX_LINKS = 100  # told of what an exception came from
MAX_LINKS_SENT = 10  # of them as exceptions
MAX_PLAIN_FRAMES = 50
SCALARS: set[type] = {str, int, float, bool, bytes, type(None)}
HEAD = "Traceback (most recent call last):"
# Below an exception, before the one that came of it: by whether that was raised `from` it.
JOINTS = {
    True: "\nThe above exception was the direct cause of the following exception:\n\n",
    False: "\nDuring handling of the above exception, another exception occurred:\n\n",
}
# Of these the `traceback` module says more than class and text: parts, the place in the source, what may have been
# meant.
TOLD_BY_TRACEBACK = (BaseExceptionGroup, SyntaxError, NameError, AttributeError, ImportError)


def describe(error: BaseException, function_name: str) -> tuple[Any, ...]:
    """The tuple for `rebuild.make_error`. Never raises.

    Returns
    -------
    tuple
        "task_error", the function's name, the exception's type, its message, the traceback, the pickled exception (see
        `_pickled`) or None, the pid (with the machine's name, where there are several), a note; where they are kept,
        the frames of `failed_frames.describe` and what `post_mortem.keep` says.
    """
    passed = error.record if _is(error, TaskError) else None
    text = ""
    kept: Sequence[Any] = ()
    if (
        passed is not None
    ):  # of a task that this one waited for: what was raised first is what is told, however many have let it pass
        _, _, cause_type, message, _, pickled, _, note, *kept = passed
    else:
        text = text_of(error)
        cause_type, message = _type_of(error), _headline(error, text)
        pickled, note = _pickled(error, text)
    place = (os.getpid(), driver_env.node) if driver_env.node else os.getpid()
    record = "task_error", function_name, cause_type, message, _traceback(error, text), pickled, place, note
    if front_end.current.keep_frames or error is driver_env.kept_error:
        driver_env.kept_error = None
        return (*record, *_frames_of(error))
    return (*record, *kept)


def _frames_of(error: BaseException) -> Sequence[Any]:
    """What `frames.describe` and `post_mortem.keep` have of an exception's frames. Where none of them is the user's, as
    in a training, whose ranks are tasks of their own, those of the task whose failure it came from.
    """
    from . import frames, post_mortem

    tb = _of(error, "__traceback__")
    if own := frames.describe(tb):
        return own, post_mortem.keep(tb)
    records = [link.record for link, _ in _links(error) if _is(link, TaskError) and link.record is not None]
    return next((kept for _, _, _, _, _, _, _, _, *kept in records if kept), ((), None))


# An exception's class may define attributes that raise, and be asked for none that it defines.
def _is(error: BaseException, kinds: type[T] | tuple[type[T], ...]) -> TypeGuard[T]:
    return issubclass(type(error), kinds)


def _of(error: BaseException, name: str) -> Any:
    """What any exception has."""
    return getattr(BaseException, name).__get__(error)


def _module_of(cls: type) -> str:
    try:
        module = type.__getattribute__(cls, "__module__")
    except AttributeError:  # made where there was none
        return ""
    return module if isinstance(module, str) else ""


def _type_of(error: BaseException) -> str:
    name = shortened(type(error).__qualname__, MAX_NOTE)
    return name if name.isprintable() else in_one_line(name)  # made by type(...); people read it among our words


def _headline(error: BaseException, text: str) -> str:
    """Of our own errors the first line: what more lines say (a constructor's traceback, who holds memory) stands below
    the traceback.
    """
    return text.partition("\n")[0] if _is(error, CellmeshError) else text


def text_of(error: BaseException, most: int = MAX_MESSAGE, end: str = "\n") -> str:
    """What its `__str__` returns, shortened. It may be long, and take long."""
    try:
        return shortened(str(error), most, end)
    except BaseException as problem:  # the user's
        return f"<its __str__ raised {type(problem).__name__}>"


# ---- what an exception came from
def _links(error: BaseException) -> list[tuple[BaseException, bool]]:
    """The exception and what it came from, as Python shows it, the latest first; each with whether it was raised `from`
    the next.
    """
    links: list[tuple[BaseException, bool]] = []
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(links) < MAX_LINKS:
        seen.add(id(link))
        cause = _of(link, "__cause__")
        links.append((link, cause is not None))
        link = cause or (None if _of(link, "__suppress_context__") else _of(link, "__context__"))
    return links


# ---- text
def _traceback(error: BaseException, text: str) -> str:
    links = _links(error)
    told = _told(error, text)
    for (_, direct), (link, _) in pairwise(links):
        told = f"{_told(link)}{JOINTS[direct]}{told}"
    return shortened(
        told if len(links) < MAX_LINKS else f"[... what the first of these came from is left out ...]\n\n{told}"
    )


def _told(error: BaseException, text: str | None = None) -> str:
    """The traceback of an exception without what it came from; `text`: that of the exception, if it is known."""
    if _is(error, TaskError) and error.record is not None:
        return _told_by_task(error)
    if _is(error, TOLD_BY_TRACEBACK):
        return _told_by_python(error)
    return _plain_traceback(error, text_of(error) if text is None else text)


def _told_by_task(error: TaskError) -> str:
    """Where the error of a task that was waited for came by here, and the traceback of that task."""
    frames = _frames(up_to_users_frame(_users_part(error.__traceback__)))
    where = f"the worker with pid {error.pid}{f' on {error.node}' if error.node else ''}"
    return (
        f"{HEAD}\n{frames}{_notes_of(error)}\nIt came from the task {error.task_name!r} in {where}. Its traceback "
        "there:\n\n"
        f"{error.remote_traceback.strip()}\n"
    )


def _told_by_python(error: BaseException) -> str:
    tb = _shown_part(error)
    try:
        told = traceback.TracebackException(type(error), error, tb)
        told.__cause__ = told.__context__ = None
        return shortened("".join(told.format()))
    except BaseException as problem:  # the user's __str__, __repr__ or __notes__ again
        return shortened(
            f"{HEAD}\n{_frames(tb)}{type(error).__qualname__}: <could not be formatted: {type(problem).__name__}>\n"
        )


def _plain_traceback(error: BaseException, text: str) -> str:
    """The traceback of an exception by itself, without source lines.

    Looking up and parsing the source costs more than all the rest of a failed task. The process that shows the text has
    the files too, and the notebook's cells, which a worker has not: `tracebacks.with_source_lines`.
    """
    cls = type(error)
    module = _module_of(cls)
    name = cls.__qualname__ if module in ("", "builtins", "__main__") else f"{module}.{cls.__qualname__}"
    return shortened(f"{HEAD}\n{_frames(_shown_part(error))}{f'{name}: {text}' if text else name}\n{_notes_of(error)}")


def _notes_of(error: BaseException) -> str:
    try:
        notes = getattr(error, "__notes__", ())  # whatever the user has put there
    except BaseException:  # the user's __getattr__
        return ""
    return "".join(f"{note}\n" for note in notes if isinstance(note, str)) if isinstance(notes, list) else ""


def _frames(tb: TracebackType | None) -> str:
    """The frames of a traceback, a line for each."""
    lines, entry = [], tb
    while entry is not None:
        code = entry.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}\n')
        entry = entry.tb_next
        if len(lines) > MAX_PLAIN_FRAMES:  # a recursion, whose repeated lines `traceback` folds
            return "".join(traceback.format_tb(tb))
    return "".join(lines)


def _shown_part(error: BaseException) -> TracebackType | None:
    """What people see of an exception's traceback."""
    tb = _users_part(_of(error, "__traceback__"))
    return up_to_users_frame(tb) if _is(error, CellmeshError) else tb


def _users_part(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames that lead from the worker's loop into the user's function; of our own faults,
    all of it.
    """
    return from_users_frame(tb) or tb


def shortened(text: str, most: int = MAX_TEXT, end: str = "\n") -> str:
    """Without its middle, if it is longer. `end`: what the note about that stands between."""
    if len(text) > most:
        half = most // 2
        note = f"[... {len(text) - 2 * half:,} characters left out ...]"
        text = f"{text[:half]}{end}{note}{end}{text[-half:]}"
    return in_unicode(text)


# ---- the exception itself
def _pickled(error: BaseException, text: str) -> tuple[Pickled, str]:
    """The exception pickled, or why that is not possible.

    If it came from others, a tuple: for it and each of them the pickle, and whether it was raised `from` the next. One
    that cannot be sent ends them, and what would make them large: in a chain of tasks that each wrap the error of the
    next, each error holds all others.
    """
    pickled, note = _pickled_alone(error, text)
    if pickled is None:
        return None, note
    links = _links(error)
    parts = [(pickled, links[0][1])]
    room = MAX_CHAIN_BYTES
    for link, direct in links[1:MAX_LINKS_SENT]:
        earlier, _ = _pickled_alone(link, "")
        room -= len(earlier or ())
        if earlier is None or room < 0:
            break
        parts.append((earlier, direct))
    return tuple(parts) if len(parts) > 1 else pickled, note


def _pickled_alone(error: BaseException, text: str) -> tuple[bytes | None, str]:
    if _module_of(type(error)) == "builtins" and not vars(error) and all(map(_is_small, error.args)):
        return pickle.dumps(error, 5), ""  # the usual case; it can be unpickled anywhere
    problem = note = ""
    for dump in (_dump, _dump_parts, _dump_text):
        if dump is _dump_text and not note:  # only what is too large is sent as less than it is
            break
        try:
            data = dump(error, text)
            if not isinstance(pickle.loads(data), BaseException):
                raise TypeError("what is unpickled is no exception")
        except _TooLarge:
            note = f"what the exception held was not sent, more than {MAX_PICKLE_BYTES >> 20} MiB; this is its text"
        except BaseException as reason:  # the user's classes again
            problem = problem or f"{type(reason).__name__}: {text_of(reason, MAX_NOTE)}"
        else:
            return data, note
    return None, note or f"the exception itself could not be sent, this is its text: {problem}"


def _is_small(argument: object) -> bool:
    return type(argument) in SCALARS and (not isinstance(argument, str | bytes) or len(argument) <= MAX_MESSAGE)


class _TooLarge(Exception):
    """A pickle is longer than it may be."""


class _File(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MAX_PICKLE_BYTES:
            raise _TooLarge
        return super().write(data)


def _dump(error: BaseException, text: str) -> bytes:
    file = _File()
    _pickler()(file, protocol=5).dump(error)
    return file.getvalue()


@cache
def _pickler() -> Any:
    """One that refuses refs: nothing would hold what they stand for until the error is fetched."""
    from ..objstore import code_pickles
    from ..objstore._core import Ref

    class Pickler(code_pickles.Pickler):
        dispatch_table: Any = code_pickles.Pickler.dispatch_table.new_child({Ref: _refuse})

    return Pickler


def _refuse(ref: Any) -> NoReturn:
    raise TypeError("an exception cannot take an ObjectRef along")


def _dump_text(error: BaseException, text: str) -> bytes:
    """The pickle of an exception of that class which holds its text alone."""
    from ..objstore import code_pickles

    return code_pickles.dumps(_Text(type(error), text))


class _Text:
    def __init__(self, cls: type[BaseException], text: str) -> None:
        self.parts = cls, text

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_text, self.parts


def _dump_parts(error: BaseException, text: str) -> bytes:
    """The pickle of an exception that will be made again without its `__init__`, and likewise those that it holds,
    whatever their classes say of it.
    """
    from ..objstore import exception_pickles

    class Pickler(_pickler()):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, BaseException):
                return exception_pickles.parts(obj)
            return super().reducer_override(obj)

    file = _File()
    Pickler(file, protocol=5).dump(error)
    return file.getvalue()


def _with_text(cls: type[BaseException], text: str) -> BaseException:
    from ..objstore.exception_pickles import ARGS

    error = cls.__new__(cls, text)
    ARGS.__set__(error, (text,))
    return error
