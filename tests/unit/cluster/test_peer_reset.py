"""Two nodes that end what is between them, at the same time or not, with messages on their way: nothing of before
counts afterwards."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from cellmesh.scheduler.cluster.agent.peer_reset import PeerResets
from cellmesh.scheduler.cluster.messages import Reset

OTHER = 2


class End:
    """As an agent does it. `life`: of what is between the two; `line`: what goes to the other end, in order."""

    def __init__(self) -> None:
        self.resets, self.line = PeerResets(), deque[Any]()
        self.life = self.n_heard = 0
        self.has_room = True

    def cut(self, for_good: bool = False) -> None:
        if OTHER not in self.resets:
            self.resets.begin(OTHER, Reset("tired", for_good))
            self.life += 1
            self.say()

    def say(self) -> None:
        for node, reset in self.resets.owed() if self.has_room else ():
            self.line.append(reset)
            self.resets.said(node)

    def send(self) -> None:
        if OTHER not in self.resets:
            self.line.append(self.life)

    def receive(self, message: Any) -> None:
        if isinstance(message, Reset):
            self.cut(message.for_good)
            if OTHER in self.resets:
                self.resets.heard(OTHER, message)
        elif OTHER not in self.resets:
            assert message == self.life, "it is of before"
            self.n_heard += 1


@pytest.mark.parametrize("seed", range(200))
def test_nothing_of_before_is_taken_for_what_has_begun_anew(seed: int) -> None:
    dice = random.Random(seed)
    one, other = ends = End(), End()
    for _ in range(400):
        here, there = dice.sample(ends, 2)
        what = dice.choices(["send", "receive", "cut", "room"], [10, 10, 1, 2])[0]
        if what == "send":
            here.send()
        elif what == "receive" and there.line:
            here.receive(there.line.popleft())
        elif what == "cut":
            here.cut()
        else:
            here.has_room = dice.random() < 0.5
            here.say()
    one.has_room = other.has_room = True
    while one.line or other.line or one.resets.owed() or other.resets.owed():
        for here, there in ((one, other), (other, one)):
            here.say()
            if there.line:
                here.receive(there.line.popleft())
    assert OTHER not in one.resets and OTHER not in other.resets and one.life == other.life > 0
    for here, there in ((one, other), (other, one)):
        n = here.n_heard
        there.send()
        here.receive(there.line.popleft())
        assert here.n_heard == n + 1


@pytest.mark.parametrize("crosses", [False, True])
@pytest.mark.parametrize("is_liar", [False, True])
def test_for_good_is_for_good_at_both_ends(crosses: bool, is_liar: bool) -> None:
    one, other = End(), End()
    one.cut(for_good=True)
    if crosses:
        other.cut()
    other.receive(one.line.popleft())
    one.receive(other.line.popleft())
    assert not one.line and not other.line
    for end in (one, other):
        end.receive(Reset("again")) if is_liar else None
        assert OTHER in end.resets and end.life == 1
        end.resets.forget(OTHER)
        assert OTHER not in end.resets
