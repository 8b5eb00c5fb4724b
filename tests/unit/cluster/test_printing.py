"""Output on its way to the drivers of other machines: who asks whom, and when it is answered."""

from __future__ import annotations

import pytest
from cellmesh.scheduler.cluster.agent.printing import Printing
from cellmesh.scheduler.cluster.messages import Died, Flush, Flushed, Message, Output
from cellmesh.scheduler.ipc.messages import Drain, Drained, WorkerDied, WorkerOutput


class World:
    """A node's printing, and what it has said."""

    def __init__(self, *worked: int) -> None:
        self.home: list[object] = []
        self.sent: list[tuple[int, Message]] = []
        self.printing = Printing(self._post, lambda node, message: self.sent.append((node, message)), lambda: worked, 0)

    def _post(self, message: object, *, droppable: bool = False) -> None:
        self.home.append(message)

    @property
    def answered(self) -> list[int]:
        return [message.request for message in self.home if isinstance(message, Drained)]


def test_where_nothing_has_run_nobody_is_asked() -> None:
    world = World()
    world.printing.heard_here(Drain(1))
    assert world.answered == [1] and not world.sent


def test_each_node_that_has_run_tasks_answers_first() -> None:
    world = World(7, 8)
    world.printing.heard_here(Drain(1))
    assert sorted(world.sent) == [(7, Flush(1, 1)), (8, Flush(1, 1))] and not world.answered
    world.printing.heard(7, Output(3, 0, "stdout", 12, "the last line"))
    world.printing.heard(7, Flushed(1))
    assert not world.answered
    world.printing.heard(8, Flushed(1))
    assert world.home == [WorkerOutput(3, 0, "stdout", 12, "the last line"), Drained(1)]


def test_a_node_that_is_lost_is_not_waited_for() -> None:
    world = World(7, 8)
    for request in (1, 2):
        world.printing.heard_here(Drain(request))
    world.printing.heard(8, Flushed(2))
    world.printing.lost(7)
    assert world.answered == [2]
    world.printing.lost(8)
    assert world.answered == [2, 1]


@pytest.mark.parametrize("number", [1, 2])
def test_an_answer_to_nothing_is_nothing(number: int) -> None:
    world = World(7)
    world.printing.heard_here(Drain(1))
    world.printing.heard(7, Flushed(1))
    world.printing.heard(7, Flushed(number))
    assert world.answered == [1]


def test_another_node_hears_what_was_printed_here_before_its_answer() -> None:
    world = World()
    world.printing.heard(7, Flush(4, 50))
    world.printing.heard(8, Flush(4, 51))
    first, second = [message.request for message in world.home if isinstance(message, Drain)]
    world.printing.heard_here(Drained(first))
    assert world.sent == [(7, Flushed(4))]
    world.printing.heard_here(Drained(second))
    assert world.sent == [(7, Flushed(4)), (8, Flushed(4))]


def test_it_asks_first_where_its_own_tasks_have_run_which_those_have_begun() -> None:
    world = World(7, 8, 9)
    world.printing.heard(7, Flush(4, 50))
    assert sorted(world.sent) == [(8, Flush(1, 50)), (9, Flush(1, 50))] and not world.home
    world.printing.heard(9, Flushed(1))
    world.printing.heard(8, Output(3, 0, "stdout", 12, "of a nested task"))
    world.printing.heard(8, Flushed(1))
    said, drain = world.home
    assert said == WorkerOutput(3, 0, "stdout", 12, "of a nested task") and isinstance(drain, Drain)
    world.printing.heard_here(Drained(drain.request))
    assert world.sent[2:] == [(7, Flushed(4))]


def test_a_question_that_comes_round_again_goes_no_further() -> None:
    world = World(7, 8)
    world.printing.heard(7, Flush(4, 50))
    del world.sent[:]
    world.printing.heard(8, Flush(2, 50))
    (drain,) = world.home
    assert isinstance(drain, Drain) and not world.sent
    world.printing.heard_here(Drained(drain.request))
    assert world.sent == [(8, Flushed(2))]
    mine = World(7)
    mine.printing.heard_here(Drain(1))
    ((_, asked),) = mine.sent
    assert isinstance(asked, Flush)
    mine.printing.heard(7, Flush(6, asked.wave))
    assert len(mine.sent) == 1 and isinstance(mine.home[0], Drain)


def test_a_death_there_is_told_as_one_of_no_process_of_this_machine() -> None:
    world = World()
    world.printing.heard(7, Died(3, 12, -11, ["the last line"]))
    assert world.home == [WorkerDied(12, -1, -11, 3, ["the last line"])]
