"""What tasks print, on the driver's own stdout and stderr: a line says whose it is, many equal lines become one.

    (train pid=4711) epoch 1
    (train pid=4712) epoch 1
    (load, 98 more on 4 workers) done

`TaskText` turns pieces of output into such text and is pure. `Pump` collects pieces for a moment, so that a thousand
small prints become few writes; its thread ends when it has had nothing to do for a while. `start` connects both to a
session. In a notebook kernel this module prints nothing: the kernel extension takes over and puts output under the cell
that it belongs to.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from msgspec import Struct, field

from .. import front_end
from ..exceptions import CellmeshError, SessionError
from ..observe.history import names_of
from ..observe.states import UNKNOWN
from ..scheduler.ipc.messages import PROGRESS_MIME, Message, NodeEvent, WorkerDied, WorkerOutput
from ..scheduler.sync.condition import Condition
from ..scheduler.sync.threads import ServiceThread
from . import log_records, shown_warnings
from .terminal_bars import Bars, Guards
from .whose import OwnOutput

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..session.session import Session

Piece = WorkerOutput | NodeEvent  # a message for people to read

BATCH_S = 0.03  # pieces that arrive within this time are written together
HOLD_S = 0.25  # an unfinished line, or the count of equal lines, is shown when nothing else has come for this long
LINGER_S = 1.0  # the pump's thread ends after that much quiet
N_NAMES_KEPT = 4096
LINE_CHARS_MAX = 100_000  # of an unfinished line the end is kept
PENDING_CHARS_MAX = 4_000_000  # beyond it pieces are dropped and counted: the reader is slower than the tasks

DIM = ("\x1b[2m", "\x1b[0m")


Writer = tuple[int, int]  # (task, pid)
PLAIN: Writer = (-1, 0)  # who writes text that is passed on as it is


class _Equal(Struct):
    """The last whole line written on a stream, and how many other tasks have printed an equal one since; the last of
    these.
    """

    name: str
    line: str
    task: int
    pid: int = 0
    count: int = 0
    pids: set[int] = field(default_factory=set)


class TaskText:
    """The text that a person reads for what tasks print, on one place (a terminal, the output of one cell).

    Parameters
    ----------
    dim : (str, str)
        Written before and after a prefix; empty strings where there are no colours.

    Notes
    -----
    While output keeps coming, one unfinished line (a progress bar, ``print(end="")``) is on view per stream; those of
    other tasks wait until it ends, or several bars would pile up line after line. Whole lines are never held back,
    except equal ones.
    """

    def __init__(self, dim: tuple[str, str] = ("", "")) -> None:
        self._dim = dim
        self._text: list[tuple[str, list[str]]] = []  # (stream, pieces), consecutive ones of different streams
        # Unfinished lines that are not written yet: (prefix, text).
        self._partial: dict[tuple[str, Writer], tuple[str, str]] = {}
        self._open: dict[str, Writer | None] = {}  # whose unfinished line a stream ends with
        self._equal: dict[str, _Equal] = {}

    def add(self, stream: str, text: str, *, task: int, pid: int, name: str) -> None:
        """A piece of what a task printed; not necessarily whole lines."""
        writer = (task, pid)
        prefix = f"{self._dim[0]}({name or 'worker'} pid={pid}){self._dim[1]} "
        text = self._partial.pop((stream, writer), ("", ""))[1] + text
        whole, newline, rest = text.rpartition("\n")
        if newline:
            for line in whole.split("\n"):
                self._line(stream, line, prefix, writer, name)
        if len(rest) > LINE_CHARS_MAX:
            rest = rest[rest.rfind("\r", 0, -1) + 1 :][-LINE_CHARS_MAX:]
        if rest:
            self._partial[stream, writer] = (prefix, rest)

    def add_plain(self, stream: str, text: str) -> None:
        """Text that is passed on as it is."""
        if text:
            if self._open.get(stream) != PLAIN:
                self._end_line(stream)
            self._write(stream, text)
            self._open[stream] = None if text.endswith("\n") else PLAIN

    def take(self, quiet: bool = False) -> list[tuple[str, str]]:
        """What is to be written now, as (stream, text) in order; `quiet`: nothing comes soon, hold nothing back."""
        if quiet:
            for stream in list(self._equal):
                self._tell_equal(stream)
                del self._equal[stream]
        for (stream, writer), (prefix, text) in list(self._partial.items()):
            if text != "\r" and (quiet or self._open.get(stream) in (None, writer)):
                del self._partial[stream, writer]
                if text.endswith("\r"):  # what comes next is drawn over it
                    text = text[:-1]
                    self._partial[stream, writer] = (prefix, "\r")
                self._write_line(stream, text, prefix, writer)
                self._open[stream] = writer
        text, self._text = self._text, []
        return [(stream, "".join(pieces)) for stream, pieces in text]

    @property
    def holds(self) -> bool:
        """Whether `take(quiet=True)` would give something."""
        return any(text != "\r" for _, text in self._partial.values()) or any(e.count for e in self._equal.values())

    @property
    def ends_lines(self) -> bool:
        """Whether the cursor stands at the beginning of a line, as far as what was written here goes."""
        return all(writer is None for writer in self._open.values())

    def _line(self, stream: str, line: str, prefix: str, writer: Writer, name: str) -> None:
        line = line.removesuffix("\r")
        equal, key = self._equal.get(stream), front_end.current.folding.key
        if (
            equal
            and (name, key(line)) == (equal.name, key(equal.line))
            and writer[0] != equal.task
            and self._open.get(stream) is None
        ):
            equal.line, equal.pid = line, writer[1]
            equal.count += 1
            equal.pids.add(writer[1])
            return
        self._tell_equal(stream)
        self._write_line(stream, line, prefix, writer)
        self._write(stream, "\n")
        self._open[stream] = None
        self._equal[stream] = _Equal(name, line, writer[0])

    def _write_line(self, stream: str, text: str, prefix: str, writer: Writer) -> None:
        """Write a line or its beginning, or go on with the one that is open; of what was redrawn the last state."""
        _before, redrawn, last = text.rpartition("\r")
        if self._open.get(stream) != writer:
            self._end_line(stream)
            self._write(stream, prefix + last)
        else:
            self._write(stream, f"\r{prefix}{last}" if redrawn else last)

    def _end_line(self, stream: str) -> None:
        self._tell_equal(stream)
        self._equal.pop(stream, None)
        if self._open.get(stream) is not None:
            self._write(stream, "\n")
            self._open[stream] = None

    def _tell_equal(self, stream: str) -> None:
        equal = self._equal.get(stream)
        if equal and equal.count:
            before, after = self._dim
            tell = front_end.current.folding.tell
            who, what = tell(equal.name or "worker", equal.pid, equal.line, equal.count, len(equal.pids))
            self._write(stream, f"{before}{who}{after} {what}\n")
            equal.count = 0
            equal.pids.clear()

    def _write(self, stream: str, text: str) -> None:
        if self._text and self._text[-1][0] == stream:
            self._text[-1][1].append(text)
        else:
            self._text.append((stream, [text]))


class TaskNames:
    """The names of the tasks that print. Workers send numbers only; the event ring knows what was submitted under them.

    Parameters
    ----------
    client : Client
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: OrderedDict[int, str] = OrderedDict()

    def of(self, tasks: set[int]) -> dict[int, str]:
        """A name for each of the tasks, "" if nothing is known of it (any more)."""
        unknown = [task for task in tasks if task and task not in self._names]
        if unknown:
            self._look_for(unknown)
        return {task: self._names.get(task, "") for task in tasks}

    def _look_for(self, tasks: list[int]) -> None:
        self._names.update(dict.fromkeys(tasks, ""))
        try:
            found = names_of(self._client, set(tasks))
        except SessionError:  # it has been lost
            return
        self._names.update((task, name) for task, name in found.items() if name != UNKNOWN)
        while len(self._names) > N_NAMES_KEPT:
            self._names.popitem(last=False)


class Pump:
    """Hands pieces of output to `write` in batches, from a thread of its own that lives only while there are any.

    Parameters
    ----------
    write : callable
        ``write(pieces, quiet)``: the pieces in order; `quiet` when nothing has come for `HOLD_S`. Returns whether it
        holds something back, and so wants to be called again with `quiet`.
    """

    def __init__(self, write: Callable[[list[Piece], bool], bool]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._changed = Condition()
        self._writing = threading.Lock()
        self._writer = 0  # the thread that has it
        self._pieces: deque[Piece] = deque()
        self._n_chars = self._n_dropped = 0
        self._thread: ServiceThread | None = None
        self._finished = False

    def add(self, piece: Piece) -> None:
        """Take a piece; never blocks for long."""
        size = len(piece.text) + len(getattr(piece, "bundle", ""))
        with self._lock:
            if self._n_chars + size > PENDING_CHARS_MAX:
                self._n_dropped += size
                return
            self._pieces.append(piece)
            self._n_chars += size
            if not self._finished:
                self._start()
        self._changed.notify_all()
        if self._finished:
            self._drain(quiet=True)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = ServiceThread(self._run, "cellmesh-output")
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter ends: `finish` comes
            self._thread = None

    def flush(self, quiet: bool = False) -> None:
        """Write what has come so far; `quiet`: lines without an end, too."""
        self._drain(quiet)

    def finish(self) -> None:
        """Write everything now. What still comes is written at once, by the thread that brings it."""
        self._finished = True
        self._changed.notify_all()
        self._drain(quiet=True)

    def _drain(self, quiet: bool) -> bool:
        if self._writer == threading.get_ident():
            return False  # a handler of log records fails, or gets an error: what has come stands below that
        with self._writing:
            with self._lock:
                pieces, self._pieces = list(self._pieces), deque()
                dropped, self._n_chars, self._n_dropped = self._n_dropped, 0, 0
            if dropped:
                pieces.append(
                    NodeEvent(
                        "output_lost",
                        f"{dropped:,} characters of output are not shown: they came faster than they could be written",
                    )
                )
            self._writer = threading.get_ident()
            try:
                return self._write(pieces, quiet)
            finally:
                self._writer = 0

    def _run(self) -> None:
        quiet_since = time.monotonic()
        holds = False
        while True:
            self._changed.wait_for(
                lambda: self._pieces or self._finished,
                (HOLD_S if holds else LINGER_S) - (time.monotonic() - quiet_since),
            )
            with self._lock:
                arrived = bool(self._pieces)
                if not arrived and not holds:
                    self._thread = None
                    return
            if arrived:
                self._changed.wait_for(lambda: self._finished, BATCH_S)
                quiet_since = time.monotonic()
            holds = self._drain(quiet=not arrived) and arrived


class _Printing(NamedTuple):
    pump: Pump
    end: Callable[[], None]
    forget: Callable[[], None]


_printing: weakref.WeakKeyDictionary[Session, _Printing] = weakref.WeakKeyDictionary()


def start(session: Session) -> None:
    """Show what the tasks of a driver's session print, from now on until the session ends."""
    if front_end.current.takes_output(session):
        return
    texts = TaskText(DIM if _is_terminal() else ("", ""))
    names, own = TaskNames(session.client), OwnOutput(session.client)
    bars = Bars()
    drawing_lock = threading.RLock()

    def erase() -> None:
        with drawing_lock:
            guards.lift()
            if erasing := bars.erase():
                _write("stderr", erasing)

    guards = Guards(erase)

    def show(quiet: bool) -> None:
        erase()
        for name, text in texts.take(quiet):
            _write(name, text)
            guards.ends_line = True  # or `texts` knows better

    def write(pieces: list[Piece], quiet: bool) -> bool:
        pieces = own.of(pieces)
        known = names.of(tasks_of(pieces))
        for piece in pieces:
            if isinstance(piece, WorkerOutput) and piece.stream == "log":
                record = log_records.record_of(piece)
                if log_records.has_handlers(record):
                    with drawing_lock:
                        show(quiet=False)
                    log_records.hand_over(record)
                    continue
                if not log_records.is_for_stderr(record):
                    continue
            elif isinstance(piece, WorkerOutput) and piece.stream == "warning" and shown_warnings.is_ignored(piece):
                continue
            _add(texts, bars, piece, known)
        with drawing_lock:
            show(quiet)
            draws = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
            if draws and (drawing := bars.draw(_terminal_width())):
                _write("stderr", f"{'' if texts.ends_lines and guards.ends_line else chr(10)}{drawing}")
                guards.install()
        return texts.holds

    pump = Pump(write)

    def hear(message: Message) -> None:
        if is_output(message):
            pump.add(message)
        elif isinstance(message, WorkerDied):
            bars.forget(message.pid)

    forget = session.node.link.add_listener(hear)
    session.node.link.on_lost(lambda reason: pump.finish())
    show_error = sys.excepthook
    alive = weakref.ref(session)  # what `_printing` holds must not hold its key

    def excepthook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
        if (of := alive()) is not None:
            for task in _failed_tasks(error):
                catch_up(of, task)
        show_error(kind, error, tb)

    def print_all(task: int) -> None:
        if (of := alive()) is not None:
            catch_up(of, task)

    sys.excepthook = excepthook
    front_end.printers.append(print_all)

    def end() -> None:  # what workers print when they leave is heard still
        if print_all in front_end.printers:
            front_end.printers.remove(print_all)
        pump.finish()
        erase()
        if sys.excepthook is excepthook:  # what somebody else has put around it stays, and passes through
            sys.excepthook = show_error

    session.ends_showing.append(end)
    _printing[session] = _Printing(pump, end, forget)


def stop(session: Session) -> None:
    """Undo `start`, having printed what there is; harmless if this module does not print the session's output."""
    if (printing := _printing.pop(session, None)) is not None:
        printing.forget()
        printing.end()


def catch_up(session: Session, task: int) -> None:
    """Print what tasks have printed so far; of one that has failed, whose error is to stand below, what is on its way
    still, too.
    """
    if (printing := _printing.get(session)) is not None:
        session.hear_out(task)
        printing.pump.flush()


def _failed_tasks(error: BaseException | None) -> list[int]:
    """The numbers of the tasks that an error, or what it came from, tells of; 0 where that is not known."""
    found: list[int] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, CellmeshError):
            found.append(error.task)
        error = error.__cause__ or error.__context__
    return found


def is_output(message: Message) -> TypeGuard[Piece]:
    """Whether a message is for people to read."""
    return isinstance(message, WorkerOutput | NodeEvent)


def tasks_of(pieces: Iterable[Piece]) -> set[int]:
    """The numbers of the tasks whose output this is."""
    return {piece.task for piece in pieces if isinstance(piece, WorkerOutput)}


def as_text(pieces: Iterable[WorkerOutput], client: Client) -> str:
    """What tasks have printed before, as it would have been shown."""
    texts, pieces = TaskText(DIM if _is_terminal() else ("", "")), list(pieces)
    names = TaskNames(client).of({piece.task for piece in pieces})
    for piece in pieces:
        texts.add("stdout", piece.text, task=piece.task, pid=piece.pid, name=piece.name or names[piece.task])
    text = "".join(text for _, text in texts.take(quiet=True))
    return text if text.endswith("\n") or not text else f"{text}\n"


_told_of: dict[str, Any] = {}  # by name the stream that could not be written to, as has been told


def _write(name: str, text: str) -> None:
    """Write to `sys.stdout` or `sys.stderr`, whatever somebody has put there; a stream that fails does not end the
    thread, and the next text is tried again.
    """
    stream = getattr(sys, name)
    if stream is None or getattr(stream, "closed", False):
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError as error:  # what a task prints need not be what this terminal can show
            stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        if flush := getattr(stream, "flush", None):
            flush()
    except Exception as error:  # a full disk, a pipe without a reader, a stream of the user's, one just closed
        if not getattr(stream, "closed", False) and _told_of.get(name) is not stream:
            _told_of[name] = stream
            logging.getLogger("cellmesh").warning(
                "what tasks print cannot be written to sys.%s: %s: %s", name, type(error).__name__, error
            )


def _add(texts: TaskText, bars: Bars, piece: Piece, names: dict[int, str]) -> None:
    if isinstance(piece, NodeEvent):
        texts.add_plain("stderr", f"cellmesh: {piece.text}\n")
        return
    name = piece.name or front_end.current.label_of(names[piece.task], piece.origin)
    if piece.stream in ("stdout", "stderr", "log", "warning"):
        stream = "stdout" if piece.stream == "stdout" else "stderr"
        texts.add(stream, piece.text, task=piece.task, pid=piece.pid, name=name)
    elif piece.stream in ("display", "update_display"):
        data = json.loads(piece.bundle).get("data", {})
        if PROGRESS_MIME in data:
            is_own = piece.pid == os.getpid()
            who = "" if is_own else f"({name or 'worker'} pid={piece.pid}) "
            if text := bars.update(piece.pid, who, data[PROGRESS_MIME]):
                if is_own:
                    texts.add_plain("stderr", f"{text}\n")
                else:
                    texts.add("stderr", f"{text}\n", task=piece.task, pid=piece.pid, name=name)
            return
        text = data.get("text/plain", "") if piece.stream == "display" else ""
        texts.add("stdout", f"{text}\n" if text else "", task=piece.task, pid=piece.pid, name=name)


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: it does not know
    except (OSError, ValueError):  # a stream that only says that it is a terminal
        return 80


def _is_terminal() -> bool:
    return sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
