"""The engine's side of the messages, under a virtual clock: whatever happens, in whatever order, each task is answered
once with what it makes, none runs too often, and nothing is kept in the end."""

from __future__ import annotations

from random import Random

import pytest
from cellmesh.scheduler.cluster import messages as m
from engines.home import Home, Tree, story

from cellmesh.engines.fake_engine import Faults
from cellmesh.engines.values import KEEP_BLOB_S, MOST_SPARE_BYTES

QUICK, ALL, AT_ONCE = 100, 1000, 25  # seeds


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=[pytest.mark.slow] * (n >= QUICK)) for n in range(0, ALL, AT_ONCE)]
)
def test_seeds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            story(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_faults_happen() -> None:
    """Else the seeds would show nothing."""
    homes = [story(seed) for seed in range(100)]
    assert any(home.n_failed for home in homes)
    assert any(home.n_returned for home in homes)
    assert any(n > 1 for home in homes for n in home.runs.values())
    assert any(home.n_ended for home in homes)
    assert any(home.n_come[number] and home.runs[number] > 1 for home in homes for number in home.items)
    assert any(home.packed for home in homes)
    assert any(home.n_unplaced for home in homes)
    assert any(home.n_back for home in homes)
    assert any(story(seed).n_not_begun for seed in range(1000)), "rare, and looked for until there is one"


def test_what_has_begun_has_what_it_asks_for_until_it_ends() -> None:
    home = Home(0, Faults())
    home.submit_with([home.functions[0], home.make(Tree(b"one"))], 0)
    assert home.peer.news_of_used() is None
    home.begin()
    assert home.peer.news_of_used() == {"CPU": 10_000}
    assert home.peer.news_of_used() is None, "it is told once"
    home.drain()
    assert home.peer.news_of_used() == {}
    home.end()


def test_a_task_has_waited_for_the_engine_until_it_ran() -> None:
    home = Home(0, Faults())
    home.submit_with([home.functions[0], home.make(Tree(b"one"))], 0)
    home.clock = 4.0
    home.drain()
    assert list(home.waited_s.values()) == [4.0]


def large(home: Home, n_bytes: int = 2 * m.MAX_INLINE_BYTES) -> Tree:
    return home.make(Tree(bytes(n_bytes)))


def n_fetched_for(home: Home, value: Tree) -> int:
    """A task takes that value, and what it makes is let go of; how many pieces have come from home for that."""
    before = home.n_fetched
    home.submit_with([home.functions[0], value], 1)
    home.drain()
    while home.theirs:
        home.release()
    home.drain()
    assert value.key is not None and not home.told[value.key], "home need not keep it"
    return home.n_fetched - before


def test_a_large_value_that_tasks_take_one_after_the_other_travels_once() -> None:
    home = Home(0, Faults())
    value = large(home)
    first = n_fetched_for(home, value)
    assert first > 0 and n_fetched_for(home, value) == 0
    home.peer.sweep(0.0)
    home.peer.sweep(KEEP_BLOB_S)
    assert n_fetched_for(home, value) == 0
    home.peer.sweep(10.0)
    home.peer.sweep(10.1 + KEEP_BLOB_S)
    assert not home.engine.blobs, "it has been idle for too long"
    assert n_fetched_for(home, value) == first
    home.end()


def test_of_large_values_that_no_task_needs_the_last_ones_stay() -> None:
    home = Home(0, Faults())
    values = [large(home, MOST_SPARE_BYTES // 2) for _ in range(3)]
    first = [n_fetched_for(home, value) for value in values]
    assert all(first) and home.engine.blobs == 2
    assert [n_fetched_for(home, value) for value in values[1:]] == [0, 0]
    assert n_fetched_for(home, values[0]) == first[0]
    home.end()


def test_a_value_that_a_task_has_not_found_travels_again_for_the_next() -> None:
    home = Home(0, Faults())
    value = large(home)
    first = n_fetched_for(home, value)
    home.engine.lose_blobs()
    assert n_fetched_for(home, value) == 0 and home.n_failed == 1
    assert n_fetched_for(home, value) == first and home.n_failed == 1
    home.end()


def test_what_is_in_a_group_that_goes_fails_as_that_and_is_not_begun_again() -> None:
    home = Home(0, Faults())
    home.random = Random(3)
    home.reserve()
    while home.work():
        pass
    assert home.reserved
    for _ in range(20):
        home.submit_there()
    assert home.engine.work()  # the first one begins
    home.unreserve()
    home.end()
    assert home.n_unplaced > 10


def test_tasks_wait_in_a_bundle_that_is_lost_until_it_is_put_aside_again() -> None:
    home = Home(0, Faults())
    home._n += 1
    home.groups[home._n] = 1
    home._say(m.Reserve(home._n, home._tell(home.functions[0]), [0], [{"CPU": 10_000}], "PACK"))
    while home.work():
        pass
    (group,) = home.reserved
    home.engine.lose_node("one")
    home.submit_with([home.functions[0], home.functions[1]], 0, bundle=m.GroupBundle(group, 0, False))
    home.drain()
    assert not home.n_failed, "it has run on the other machine"
    home.end()


def test_a_call_after_the_kill_is_none_of_that_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may take its time to kill, and run what it is given meanwhile."""
    home = Home(0, Faults())
    home.create()
    home.drain()
    (actor,) = home.actors
    kill = home.engine.kill
    asked: list[tuple[int, bool]] = []
    monkeypatch.setattr(home.engine, "kill", lambda *what: asked.append(what))
    home.peer.receive(m.Kill(m.Told(*actor), 0, True))
    for _ in range(3):
        home.call()
    while home.work():
        pass
    assert len(home.open) == 3
    (what,) = asked
    kill(*what)
    home.drain()
    assert home.n_not_begun == 3
    home.end()
