"""What tasks have printed: the last of it, which the local scheduler keeps, and all of it, in the files of
`init(log_dir=...)`.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..scheduler.ipc.messages import LAST_OUTPUT_TIMEOUT_S, LastOutputReply, LastOutputRequest, Message, WorkerOutput
from ..session.scheduler_client import ask

if TYPE_CHECKING:
    from ..session.session import Session

_FILE = re.compile(r"worker-(\d+)(?:\.descriptors)?\.log")  # a worker's prints; what C code and child processes write
_HEAD = re.compile(r"--- task (\d+)\n")  # as `scheduler.worker.output.LogFile` writes it


def files(folder: str) -> list[dict[str, Any]]:
    """Those of workers, by pid.

    Raises
    ------
    ValueError
        `folder` is "": the session keeps none.
    """
    if not folder:
        raise ValueError(
            'this session keeps no files of what tasks print: start it with cellmesh.init(log_dir="a folder")'
        )
    found = [(int(match[1]), entry) for entry in os.scandir(folder) if (match := _FILE.fullmatch(entry.name))]
    return [
        {"pid": pid, "size": entry.stat().st_size, "path": entry.path}
        for pid, entry in sorted(found, key=lambda pair: (pair[0], len(pair[1].name)))
    ]


def read(folder: str, pid: int | None, tasks: range | None, tail: int) -> str:
    """What one worker, or each, has printed, or of that the lines of some tasks; the last `tail` lines, or all for
    -1.
    """
    lines = (line for file in files(folder) if pid in (None, file["pid"]) for line in _lines(file["path"], tasks))
    return "".join(deque(lines, maxlen=None if tail < 0 else tail))


def _lines(path: str, tasks: range | None) -> Iterator[str]:
    current = -1
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = _HEAD.fullmatch(line)
            current = int(match[1]) if match else current
            if tasks is None or (current in tasks and not match):
                yield line


def last_output(of: Session) -> tuple[list[WorkerOutput], LastOutputReply]:
    """What the tasks of a session have printed last, as far as it is kept, and what became of the rest.

    Raises
    ------
    NoAnswerError
        The local scheduler did not answer in time.
    """
    pieces: list[WorkerOutput] = []

    def hear(message: Message) -> None:
        if isinstance(message, WorkerOutput):
            pieces.append(message)

    of.node.link.add_listener(hear)
    try:
        reply = ask(of.node.link, partial(LastOutputRequest), LastOutputReply, LAST_OUTPUT_TIMEOUT_S)
    finally:
        of.node.link.remove_listener(hear)
    return [piece for piece in pieces if piece.text], reply
