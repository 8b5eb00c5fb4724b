"""What tasks print on other machines than their drivers', on its way to those; and who waits until it is there.

A driver that ends waits for the output of tasks whose results it has (`ipc.messages.Drain`). Of those that ran
elsewhere their nodes are asked (`Flush`). Such a node asks its own local scheduler, which answers behind all that had
been printed, and sends that before its own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ...ipc.messages import Drain, Drained, WorkerDied, WorkerOutput
from ..messages import Died, Flush, Flushed, Message, Output


class Post(Protocol):
    """How this node's local scheduler is told something."""

    def __call__(self, message: WorkerOutput | WorkerDied | Drain | Drained, *, droppable: bool = False) -> object: ...


class Printing:
    """This node's part in it.

    Parameters
    ----------
    post : callable (message, droppable)
        To the local scheduler.
    send : callable (node, message)
        To another node.
    worked : callable () -> nodes
        Where tasks of this node have run, of those that are connected.
    """

    def __init__(self, post: Post, send: Callable[[int, Message], None], worked: Callable[[], Collection[int]]) -> None:
        self._post, self._send, self._worked = post, send, worked
        self._missing: dict[int, set[int]] = {}  # a driver's question -> nodes that have not answered
        self._asked: dict[int, tuple[int, int]] = {}  # our question -> node, and its question
        self._n_asked = 0

    # ---- this node's local scheduler
    def heard_here(self, message: Drain | Drained) -> None:
        """It asks for a driver, or answers what was asked for another node."""
        if isinstance(message, Drained):
            node, number = self._asked.pop(message.request)
            self._send(node, Flushed(number))
            return
        self._missing[message.request] = nodes = set(self._worked())
        for node in nodes:
            self._send(node, Flush(message.request))
        self._answer_if_all_there(message.request)

    # ---- other nodes
    def heard(self, node: int, message: Output | Died | Flush | Flushed) -> None:
        """Another node says something about output."""
        match message:
            case Output(task, origin, stream, pid, text, bundle, name):
                self._post(WorkerOutput(task, origin, stream, pid, text, bundle, name), droppable=True)
            case Died(task, pid, code, tail):
                self._post(WorkerDied(pid, -1, code, task, tail), droppable=True)
            case Flush(number):
                self._n_asked += 1
                self._asked[self._n_asked] = node, number
                self._post(Drain(self._n_asked))
            case Flushed(number):
                self._missing.get(number, set()).discard(node)
                self._answer_if_all_there(number)

    def lost(self, node: int) -> None:
        """A node is not connected any more."""
        for number, missing in list(self._missing.items()):
            missing.discard(node)
            self._answer_if_all_there(number)

    def _answer_if_all_there(self, number: int) -> None:
        if self._missing.get(number) == set():
            del self._missing[number]
            self._post(Drained(number))
