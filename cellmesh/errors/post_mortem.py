"""The frames of tasks that have failed, alive in the worker, and pdb over them: `%inspect --pdb`.

A worker that is to keep them holds the tracebacks of its last failures and goes on with other tasks. The first one
makes it listen on a socket in the session's folder (mode 0700). A client that connects says the number of a failure and
then
talks to pdb, in text; each prompt ends with `PROMPT`, the conversation with `END`: without it the worker has died. One
conversation at a time.
"""

from __future__ import annotations

import codecs
import linecache
import os
import pdb
import socket
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import IO, Any

from ..scheduler.sync.threads import ServiceThread
from ..session.current import current_or_none
from ..tracebacks import is_ours, library_of

N_KEPT = 3  # failures of a worker; the variables of their frames stay in memory
PROMPT, END = "\x04", "\x05"
ANSWER_S = 5.0  # for the first answer; what is evaluated afterwards may take as long as it likes
Kept = tuple[str, int]  # the socket's path and the failure's number


# ---- the worker's side


class Keeper:
    """The failures that a process has kept.

    Parameters
    ----------
    path : str
        Where to listen.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._kept: OrderedDict[int, TracebackType] = OrderedDict()
        self._n_kept = 0
        self._socket: socket.socket | None = None

    def keep(self, tb: TracebackType) -> Kept:
        """Keep a traceback in place of the oldest; raises OSError if nobody could reach it."""
        if self._socket is None:
            self._socket = _listen(self.path)
            ServiceThread(partial(self._serve, self._socket), "cellmesh-post-mortem").start()
        self._n_kept += 1
        self._kept[self._n_kept] = tb
        while len(self._kept) > N_KEPT:
            self._kept.popitem(last=False)
        return self.path, self._n_kept

    def _serve(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            try:
                with connection, connection.makefile("rw", encoding="utf-8", errors="replace", newline="\n") as stream:
                    self._converse(stream)
            except OSError:  # the client has gone
                continue

    def _converse(self, stream: IO[str]) -> None:
        number = stream.readline().strip()
        tb = self._kept.get(int(number)) if number.isdecimal() else None
        if tb is None:
            stream.write(f"The worker has kept {N_KEPT} later failures in place of this one.\n")
        else:
            _Pdb(stream).interaction(None, tb)
        stream.write(END)


class _Pdb(pdb.Pdb):
    """pdb over a connection."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stdin=stream, stdout=stream, nosigint=True, readrc=False)
        self.prompt = PROMPT
        self.reset()

    def setup(self, f: FrameType | None, tb: TracebackType | None) -> None:
        """Begin where the user's code is: below it are only libraries that it called."""
        super().setup(f, tb)
        users = [i for i, (frame, _) in enumerate(self.stack) if not library_of(frame.f_code.co_filename)]
        if users:
            self.curindex = users[-1]
            self.curframe = self.stack[self.curindex][0]
            self.curframe_locals = self.curframe.f_locals

    def canonic(self, filename: str) -> str:
        """Cells are no files: their names are no paths."""
        return filename if filename in linecache.cache else str(super().canonic(filename))

    def do_interact(self, arg: str) -> None:
        """It would read from the worker's own standard input; and the program that `run` begins again is the worker."""
        self.message("not possible here; statements work at the prompt: !x = 1")

    do_run = do_restart = do_debug = do_interact


def _listen(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(4)
    except OSError:
        listening.close()
        raise
    return listening


_keeper: Keeper | None = None


def keep(tb: TracebackType | None) -> Kept | None:
    """Keep the user's part of a task's traceback in this worker; None if there is none, or nobody could reach it."""
    global _keeper
    while tb is not None and is_ours(tb):
        tb = tb.tb_next
    of = current_or_none()
    if tb is None or of is None or not of.is_worker:
        return None
    if _keeper is None:
        _keeper = Keeper(os.path.join(of.node.session_dir, f"pdb-{os.getpid()}"))
    try:
        return _keeper.keep(tb)
    except OSError:  # a folder whose path is too long for a socket
        return None


# ---- the other side


def converse(kept: Kept, ask: Callable[[str], str], say: Callable[[str], Any]) -> None:
    """Talk to pdb over the frames of a failure until either side has enough.

    Parameters
    ----------
    kept : tuple of (str, int)
        `TaskError.kept`.
    ask : callable
        As `input`: shows the prompt, returns a line. EOFError ends the conversation.
    say : callable
        Shows text, whose line ends are its own.

    Raises
    ------
    LookupError
        The worker, and with it the frames, is not there any more; or it talks to somebody else.
    """
    path, number = kept
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(path)
            connection.sendall(f"{number}\n".encode())
            answer = _Answers(connection)
            text, wants_line = answer.next()
        except TimeoutError:
            raise LookupError(
                f"the worker that kept the frames does not answer within {ANSWER_S:g} s: somebody else looks at "
                "them, or it is stopped"
            ) from None
        except OSError:
            raise LookupError("the worker that kept the frames has ended") from None
        connection.settimeout(None)
        while True:
            say(text)
            if not wants_line:
                return
            try:
                line = ask("(pdb) ")
            except EOFError:
                return
            try:
                connection.sendall(f"{' '.join(line.splitlines())}\n".encode())
                text, wants_line = answer.next()
            except OSError:
                raise LookupError("the worker that kept the frames has ended meanwhile") from None


class _Answers:
    """Reads up to a prompt."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def next(self) -> tuple[str, bool]:
        """What has been said, and whether a line is wanted now; otherwise that was all."""
        text = ""
        while not text.endswith((PROMPT, END)):
            data = self._connection.recv(1 << 16)
            if not data:
                raise ConnectionResetError("it has gone without an end")
            text += self._decoder.decode(data)
        return text.replace(PROMPT, "").removesuffix(END), text.endswith(PROMPT)
