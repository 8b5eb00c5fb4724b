"""Which calls go together, and what becomes of those that do: without an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellmesh.scheduler.cluster import messages as m
from engines.home import Home, Tree

from cellmesh.engines import news
from cellmesh.engines.batch import Batch
from cellmesh.engines.calls import kind_of
from cellmesh.engines.fake_engine import Faults
from cellmesh.engines.packing import (
    EACH_S,
    FILL_S,
    HOLD_S,
    N_KNOWN,
    N_TRIED,
    PER_WORKER,
    QUICK_S,
    SPREAD_S,
    Packing,
    packed,
)
from cellmesh.engines.parcels import Done, Progress, decode_progress

F, G = (1, 1), (2, 1)
CPU = (("CPU", 10_000),)


class Line:
    """Calls that stand in line, by a clock that a test moves."""

    def __init__(self, n_workers: int = 1) -> None:
        self.now, self._n, self._n_workers = 0.0, 0, n_workers
        self.packing = Packing(lambda: self.now)

    def know(self, function: tuple[int, int], *runs_s: float) -> None:
        for ran_s in runs_s:
            self.packing.note_run(function, ran_s)

    def add(self, function: tuple[int, int], n: int, kind: object = CPU) -> list[int]:
        numbers = list(range(self._n, self._n + n))
        self._n += n
        for number in numbers:
            self.packing.add(number, function, kind)
        return numbers

    def take(self) -> list[list[int]]:
        return self.packing.take(lambda number: self._n_workers)


def test_calls_of_a_quick_function_fill_twenty_milliseconds() -> None:
    line = Line()
    line.know(F, *[0.0004] * N_KNOWN)
    numbers = line.add(F, 100)
    assert line.take() == [numbers[:40], numbers[40:80], numbers[80:]]
    assert not len(line.packing)


def test_of_a_function_that_takes_a_millisecond_each_goes_alone() -> None:
    line = Line()
    line.know(F, *[QUICK_S] * N_KNOWN)
    numbers = line.add(F, 3)
    assert line.take() == [[number] for number in numbers]


def test_the_median_decides_since_the_first_call_in_a_worker_takes_longer() -> None:
    line = Line()
    line.know(F, 0.5, 0.0, 0.5, 0.0, 0.0)
    assert line.take() == [] and len(line.add(F, 3)) == 3
    assert line.take() == [[0, 1, 2]]
    line.know(G, 0.0, 1.0, 1.0)
    line.add(G, 2)
    assert line.take() == [[3], [4]]
    line.know(G, *[0.0] * 15)
    line.add(G, 2)
    assert line.take() == [[5, 6]], "it has become quick"


def test_who_has_nothing_to_do_gets_some_but_not_for_nothing() -> None:
    calls = [(number, 0.001) for number in range(12)]
    assert packed(calls, 1) == [list(range(12))]
    assert [len(parcel) for parcel in packed(calls, 4)] == [3, 3, 3, 3]
    assert all(len(parcel) * 0.001 >= SPREAD_S for parcel in packed(calls, 1000))
    assert packed([], 4) == []
    assert packed([(1, 5.0), (2, 5.0)], 1) == [[1], [2]], "one that is longer than a parcel is one"
    assert FILL_S > SPREAD_S > EACH_S


def test_only_calls_that_want_the_same_go_together() -> None:
    line = Line()
    line.know(F, *[0.0] * N_KNOWN)
    line.know(G, *[0.0] * N_KNOWN)
    plain, gpus = line.add(F, 2), line.add(F, 2, (("CPU", 10_000), ("GPU", 10_000)))
    others = line.add(G, 2)
    assert line.take() == [[*plain, *others], gpus], "functions may be different ones"


def test_some_calls_of_a_new_function_show_how_long_it_takes_and_the_others_wait_for_that() -> None:
    line = Line()
    numbers = line.add(F, 50)
    assert line.take() == [[number] for number in numbers[:N_TRIED]]
    assert line.take() == []
    line.know(F, *[0.0] * N_KNOWN)
    assert line.take() == [numbers[N_TRIED:]]


def test_they_do_not_wait_for_long() -> None:
    line = Line(n_workers=20)
    numbers = line.add(F, 50)
    assert len(line.take()) == 40, "twice as many as can run"
    line.now = HOLD_S * 0.9
    assert line.take() == [] and len(line.packing) == 10
    line.now = HOLD_S
    assert line.take() == [[number] for number in numbers[40:]]
    later = line.add(F, 30)
    assert line.take() == [[number] for number in later], "and none does after that"


def test_while_all_have_enough_to_do_a_parcel_waits_until_it_is_full_or_one_has_ended() -> None:
    line = Line(n_workers=2)
    line.know(F, *[0.0004] * N_KNOWN)
    for handle in range(PER_WORKER * 2):
        line.packing.sent(handle, CPU)
    first = line.add(F, 30)
    assert line.take() == [] and line.packing.wait_s() == FILL_S
    line.now = FILL_S / 2
    more = line.add(F, 30)
    assert line.take() == [[*first, *more[:10]]] and line.packing.wait_s() == FILL_S / 2
    line.packing.ended(0)
    line.packing.ended(99)  # another one
    assert line.take() == [more[10:20], more[20:]] and line.packing.wait_s() is None, "one for each worker"
    line.packing.sent(0, CPU)
    last = line.add(F, 5)
    assert line.take() == []
    line.now = FILL_S * 2
    assert line.packing.wait_s() == 0 and line.take() == [last], "it has waited for long enough"
    gone, other = line.add(F, 1), line.add(F, 1, "another kind")
    assert line.take() == [other]
    line.packing.discard(*gone)
    assert not len(line.packing) and line.take() == [] and line.packing.wait_s() is None


def test_what_is_not_to_begin_any_more_does_not() -> None:
    line = Line()
    line.know(F, *[0.0] * N_KNOWN)
    numbers = line.add(F, 3)
    line.packing.discard(numbers[1])
    line.packing.discard(99)
    assert line.take() == [[numbers[0], numbers[2]]]


def task(number: int = 0, retries: int = 3, **wants: Any) -> m.Task:
    return m.Task(number, m.Ref(1, 1), {"CPU": 10_000}, b"", [], 0, 1, retries, 0, **wants)


def test_what_may_not_be_repeated_and_what_is_no_plain_task_goes_alone() -> None:
    assert kind_of(task()) == kind_of(task(retries=-1)) != kind_of(task(env=1))
    for alone in (task(retries=0), task(stream=0), task(actor=m.Ref(1, 1)), task(times=m.Times(1, 0, 0, 0))):
        assert kind_of(alone) is None


# ---------------------------------------------------------------- in a pocket
DONE = Done(False, [], [], 1, 0)


def test_a_parcel_that_is_broken_up_gives_back_what_has_not_begun() -> None:
    batch = Batch([task(number) for number in range(4)])
    first = batch.next()
    assert first is not None
    batch.end(first, DONE, 0)
    second = batch.next()
    assert second is not None and not batch.interrupt()
    outcomes = batch.break_up()
    assert outcomes is not None and outcomes.ended == [(0, DONE)] and outcomes.back == [2, 3]
    assert batch.break_up() == outcomes, "as long as nobody says that it has come"
    assert not batch.told(outcomes), "it was interrupted before, for whatever call"
    assert batch.interrupt() and batch.break_up() is None
    assert batch.next() is None
    batch.end(second, DONE, 0)
    assert not batch.interrupt(), "it has ended"
    assert batch.rest().ended == [(1, DONE)] and batch.rest().back == []


def test_one_that_is_cancelled_while_the_others_are_told_of_is_interrupted_then() -> None:
    batch = Batch([task(number) for number in range(3)])
    assert batch.next() is not None
    outcomes = batch.break_up()
    assert outcomes is not None and not batch.interrupt()
    assert batch.told(outcomes) and batch.interrupt()


def test_one_that_is_stopped_begins_no_more() -> None:
    batch = Batch([task(number) for number in range(3)])
    first = batch.next()
    assert first is not None
    batch.is_stopped = True
    batch.end(first, DONE, 0)
    assert batch.next() is None and batch.rest().back == [1, 2]


def test_a_large_value_waits_for_no_other_task() -> None:
    batch = Batch([task(number) for number in range(3)])
    first = batch.next()
    assert first is not None
    batch.end(first, DONE, 1)
    assert batch.next() is None and batch.rest().back == [1, 2]


def test_what_has_no_room_beside_others_is_not_begun() -> None:
    batch = Batch([task(number) for number in range(3)])
    batch.refuse(batch.next())
    assert batch.rest().back == [0, 1, 2]


# ---------------------------------------------------------------- in the engine's process
def flood(home: Home, n: int) -> list[int]:
    """Calls that come together, of a function that is known to be quick, each with a value of its own."""
    home.submit_with([home.functions[2], home.make(Tree(b"first"))], 3)
    home.drain()
    for _ in range(N_KNOWN):
        home.submit_with([home.functions[2], home.make(Tree(b"small"))], 3)
    home.drain()
    home.is_lazy, before = True, set(home.tasks)
    for number in range(n):
        home.submit_with([home.functions[2], home.make(Tree(b"%d" % number))], 3)
    return sorted(set(home.tasks) - before)


def test_calls_that_come_together_go_together_and_each_is_answered() -> None:
    home = Home(0, Faults())
    flood(home, 50)
    home.drain()
    assert len(home.packed) == 50
    assert set(home.runs.values()) == {1}
    home.end()


def test_after_a_crash_each_is_begun_alone_as_often_as_it_may() -> None:
    home = Home(0, Faults())
    numbers = flood(home, 20)
    home.peer.flush()
    home.engine.work()  # what there is begins, a third of it on the second machine
    home.engine.lose_node("one")
    home.drain()
    assert sum(home.packed[number] > 0 for number in numbers) == 7, "those that were in a parcel are in none again"
    assert all(home.runs[number] == 1 for number in numbers)
    home.end()


def test_one_that_is_cancelled_takes_no_other_along() -> None:
    home = Home(0, Faults())
    numbers = flood(home, 10)
    home.peer.flush()
    home.cancel_these(numbers[3:4])
    home.drain()
    assert home.n_failed == 1
    assert {number: home.runs[number] for number in numbers} == {number: number != numbers[3] for number in numbers}
    home.end()


def test_all_of_a_parcel_are_cancelled() -> None:
    home = Home(0, Faults())
    numbers = flood(home, 10)
    home.peer.flush()
    home.cancel_these(numbers)
    home.drain()
    assert home.n_failed == 10 and not any(home.runs[number] for number in numbers)
    home.end()


# ---------------------------------------------------------------- what is told meanwhile
class SlowLine(news.Line):
    """A line by which a message has come once something else has happened."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.said: list[Progress] = []
        self._meanwhile = meanwhile

    def say(self, message: bytes, large: Sequence[bytes]) -> bool:
        self.said.append(decode_progress(message))
        self._meanwhile()
        return True


def test_what_comes_late_of_one_parcel_is_not_taken_for_another_ones() -> None:
    tells, first, second = news.News(), Batch([task(1), task(2)]), Batch([task(3), task(4)])
    tells._has_thread = True  # this one

    def another_begins() -> None:
        tells.end([])
        tells.begin_batch(second)
        while (begins := second.next()) is not None:
            second.end(begins, DONE, 0)

    line = SlowLine(another_begins)
    tells.begin_batch(first)
    tells._batch_since -= news.SAY_S
    assert first.next() is not None
    tells.begin(1, line, False)
    tells._say()
    assert line.said[0].others is not None and line.said[0].others.back == [2]
    assert first.rest().back == []
    assert [number for number, _ in second.rest().ended] == [3, 4]
