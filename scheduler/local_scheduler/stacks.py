"""Where a worker is: its stack, dumped through a pipe of its own when a driver asks for it, or by a crash.

The dump comes from faulthandler, which needs no interpreter, so it works for code that is stuck in C as well. It is
many small writes without an end mark; it has ended when nothing more has come for a moment.
"""

from __future__ import annotations

import os
import signal
import time

from ...objstore._core import Client
from ..ipc import messages
from ..ipc.messages import StackReply, StackRequest
from .loop import Loop, earliest
from .peers import Peer, Peers
from .worker_pipes import READ_BYTES

MAX_DUMP_BYTES = 1 << 20
DUMP_QUIET_S = 0.03  # without another byte: the dump has ended
SCHEDULER_FOLDER = os.path.dirname(os.path.dirname(__file__))


class StackPipe:
    """The reading end of a worker's stack dumps, and the dump under way."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._dump = b""
        self.deadline: float | None = None  # None: no dump is under way

    def expect(self, deadline: float) -> None:
        """A dump has been asked for and must have begun by `deadline`."""
        self._dump, self.deadline = b"", deadline

    def read(self, now: float) -> bool:
        """Take what has arrived; False when no process can write any more. Never waits."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        self._dump = (self._dump + data)[:MAX_DUMP_BYTES]
        if self.deadline is not None:
            self.deadline = now + DUMP_QUIET_S
        return bool(data)

    def read_to_the_end(self, now: float) -> None:
        """Take all that is there. The worker has ended."""
        before = -1
        while len(self._dump) > before:
            before = len(self._dump)
            self.read(now)

    def take(self) -> str:
        """End the dump and return it; empty if none has come."""
        text = self._dump.decode("utf-8", "replace")
        self._dump, self.deadline = b"", None
        return text


def readable_stack(dump: str, hidden: str) -> str:
    """faulthandler's dump for people: what the user's code does, the outermost call first as in a traceback.

    What led there (the first frame of a file below the folder `hidden`, and all before it) is left out, and so are
    threads that do nothing but wait in there. The first line of a crash, which names it, stays.
    """
    import threading  # late, for the name of its file: a start need not wait for it

    blocks: list[str] = []
    for block in dump.split("\n\n"):
        head, *frames = block.strip("\n").split("\n")
        if frames and "most recent call first" in head:
            led_here = next((i for i, frame in enumerate(frames) if f'File "{hidden}' in frame), None)
            shown = frames[:led_here]
            if led_here is None or any(f'File "{threading.__file__}"' not in frame for frame in shown):
                head = head.replace("most recent call first", "most recent call last")
                blocks.append("\n".join([head, *reversed(shown)]))
        elif head.startswith("Fatal Python error"):
            blocks.append(head)
    return "\n\n".join(blocks)


class Stacks:
    """The stack pipes of all workers, and the peers that wait for a dump."""

    def __init__(self, client: Client, loop: Loop, peers: Peers) -> None:
        self._client, self._loop, self._peers = client, loop, peers
        self._pipes: dict[int, StackPipe] = {}  # by pid
        self._asked: dict[
            int, list[tuple[Peer, int]]
        ] = {}  # by pid: the peers that wait, and the number of the request

    def add_worker(self, pid: int, fd: int) -> None:
        """Read this pipe of a worker from now on; it is closed here."""
        self._pipes[pid] = StackPipe(fd)
        self._loop.watch(fd, lambda fd: self._read(pid))

    def forget_worker(self, pid: int) -> None:
        """The worker has ended, and its end has been told."""
        if (pipe := self._pipes.pop(pid, None)) is not None:
            self._loop.forget(pipe.fd)
            os.close(pipe.fd)

    def ask(self, peer: Peer, request: StackRequest) -> None:
        """Have the worker dump its stack, and answer when it has."""
        pipe = self._pipes.get(request.pid)
        if pipe is None:
            error = f"process {request.pid} is no worker of this session (any more)"
            self._peers.post(peer, StackReply(request.request, error=error))
            return
        self._asked.setdefault(request.pid, []).append((peer, request.request))
        if pipe.deadline is None:
            pipe.expect(time.monotonic() + messages.STACK_TIMEOUT_S)
            self._client.signal(request.pid, signal.SIGUSR2)

    def read_last(self, pid: int) -> str:
        """Read what a worker that has ended dumped last, and answer who waits for it; else return what a crash has
        dumped."""
        pipe = self._pipes.get(pid)
        if pipe is None:
            return ""
        pipe.read_to_the_end(time.monotonic())
        if pid in self._asked:
            self._answer(pid, pipe)
            return ""
        return readable_stack(pipe.take(), SCHEDULER_FOLDER)

    def _read(self, pid: int) -> None:
        pipe = self._pipes[pid]
        if not pipe.read(time.monotonic()):
            self._loop.forget(pipe.fd)

    def _answer(self, pid: int, pipe: StackPipe) -> None:
        dump = pipe.take()
        text = readable_stack(dump, SCHEDULER_FOLDER)  # empty while no code of the user's runs
        error = "" if dump else f"process {pid} does not answer; it is stopped or has just ended"
        for peer, request in self._asked.pop(pid, []):
            self._peers.post(peer, StackReply(request, text, error))

    @property
    def deadline(self) -> float | None:
        return earliest(*(pipe.deadline for pipe in self._pipes.values()))

    def pass_deadline(self, now: float) -> None:
        for pid, pipe in self._pipes.items():
            if pipe.deadline is not None and now >= pipe.deadline:
                self._answer(pid, pipe)
