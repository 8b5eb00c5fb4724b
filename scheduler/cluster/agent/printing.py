"""What tasks print on other machines than their drivers', on its way to those; and who waits until it is there.

A driver that ends waits for the output of tasks whose results it has (`ipc.messages.Drain`). Of those that ran
elsewhere their nodes are asked (`Flush`). Such a node asks those where its own tasks have run, which these have begun,
and then its local scheduler, which answers behind all that had been printed; and sends that before its own answer. A
node that a driver's question reaches again, on another way, asks nobody: questions go round in no circle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from secrets import randbits
from typing import Protocol

from ...ipc.messages import Drain, Drained, WorkerDied, WorkerOutput
from ..messages import Died, Flush, Flushed, Message, Output

N_WAVES = 1000  # drivers' questions that are known when they come again


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
    wave : int, optional
        Questions of drivers here are called by the numbers behind it: like those of no other node.
    """

    def __init__(
        self,
        post: Post,
        send: Callable[[int, Message], None],
        worked: Callable[[], Collection[int]],
        wave: int | None = None,
    ) -> None:
        self._post, self._send, self._worked = post, send, worked
        # Our question to other nodes -> those that have not answered, and what is done when all have.
        self._missing: dict[int, tuple[set[int], Callable[[], object]]] = {}
        self._asked: dict[int, tuple[int, int]] = {}  # our question to the local scheduler -> node, and its question
        self._n_questions = 0
        self._wave = randbits(48) if wave is None else wave
        self._waves: deque[int] = deque(maxlen=N_WAVES)

    # ---- this node's local scheduler
    def heard_here(self, message: Drain | Drained) -> None:
        """It asks for a driver, or answers what was asked for another node."""
        if isinstance(message, Drained):
            node, number = self._asked.pop(message.request)
            self._send(node, Flushed(number))
            return
        self._wave += 1
        self._waves.append(self._wave)
        self._ask(set(self._worked()), self._wave, partial(self._post, Drained(message.request)))

    # ---- other nodes
    def heard(self, node: int, message: Output | Died | Flush | Flushed) -> None:
        """Another node says something about output."""
        match message:
            case Output(task, origin, stream, pid, text, bundle, name):
                self._post(WorkerOutput(task, origin, stream, pid, text, bundle, name), droppable=True)
            case Died(task, pid, code, tail):
                self._post(WorkerDied(pid, -1, code, task, tail), droppable=True)
            case Flush(number, wave):
                others = set[int]() if wave in self._waves else set(self._worked()) - {node}
                self._waves.append(wave)
                self._ask(others, wave, partial(self._drain, node, number))
            case Flushed(number):
                self._answered(number, node)

    def lost(self, node: int) -> None:
        """A node is not connected any more."""
        for number in list(self._missing):
            self._answered(number, node)

    def _ask(self, nodes: set[int], wave: int, then: Callable[[], object]) -> None:
        if not nodes:
            then()
            return
        self._n_questions += 1
        self._missing[self._n_questions] = nodes, then
        for node in list(nodes):
            self._send(node, Flush(self._n_questions, wave))

    def _answered(self, number: int, node: int) -> None:
        nodes, then = self._missing.get(number, (None, None))
        if nodes is None or then is None:
            return
        nodes.discard(node)
        if not nodes:
            del self._missing[number]
            then()

    def _drain(self, node: int, number: int) -> None:
        self._n_questions += 1
        self._asked[self._n_questions] = node, number
        self._post(Drain(self._n_questions))
