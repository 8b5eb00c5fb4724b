"""What ranks note of their collectives while somebody looks, and how the kernel reads it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from cellmesh.kernel_ext.graph import collectives as module
from cellmesh.kernel_ext.graph.collectives import Collectives, Watched
from cellmesh.kernel_ext.panel_messages import Collective

from cellmesh.groups import times as noted
from cellmesh.groups.times import N_RECORDS, RECORD, OwnTimes, RankTimes


@dataclass
class Memory:
    """`CollectiveTimes` without a session."""

    records: np.ndarray
    begun: np.ndarray
    pids: np.ndarray
    watched: np.ndarray


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(noted, "time", made)
    return made


def memory(n_ranks: int) -> Memory:
    shape = (n_ranks, N_RECORDS)
    return Memory(
        np.zeros(shape, RECORD), np.zeros(n_ranks, np.uint64), np.zeros(n_ranks, np.int64), np.zeros(1, np.bool_)
    )


def collective(rank: RankTimes, clock: Clock, what: str, seconds: float, then: float = 0.0) -> None:
    rank.enter(what)
    clock.now += seconds
    rank.leave()
    clock.now += then


def read(watched: Watched, kept: Collectives, version: int = 0, most: int = 10_000) -> list[tuple[int, Collective]]:
    pid = int(watched.times.pids[0])
    watched.read(kept, {pid: (7, True)}, 1000.0)
    told, _ = kept.since(version, most)
    return told


def test_a_collective_is_a_span_of_the_session_with_its_worker(clock: Clock) -> None:
    shared = memory(1)
    rank, watched, kept = RankTimes(shared, 0), Watched(shared), Collectives()
    clock.now = 1002.0
    collective(rank, clock, "all_reduce(sum) of float32 (4,)", 0.5)
    assert read(watched, kept) == [(0, Collective(7, 2.0, 2.5, 0.5, 1, "all_reduce(sum) of float32 (4,)"))]


def test_who_is_in_a_collective_has_a_span_without_an_end_which_it_then_gets(clock: Clock) -> None:
    shared = memory(1)
    rank, watched, kept = RankTimes(shared, 0), Watched(shared), Collectives()
    rank.enter("barrier")
    assert read(watched, kept) == [(0, Collective(7, 0.0, None, 0.0, 0, "barrier"))]
    before = kept.version
    assert read(watched, kept, before) == []  # nothing new
    clock.now += 3
    rank.leave()
    assert read(watched, kept, before) == [(0, Collective(7, 0.0, 3.0, 3.0, 1, "barrier"))]


def test_collectives_soon_after_each_other_are_one_span_named_after_the_longest(clock: Clock) -> None:
    shared = memory(1)
    rank, watched, kept = RankTimes(shared, 0), Watched(shared), Collectives()
    for what, seconds in (("broadcast", 0.001), ("all_reduce", 0.004), ("barrier", 0.002)):
        collective(rank, clock, what, seconds, then=0.001)
    collective(rank, clock, "barrier", 0.5, then=0.1)
    assert read(watched, kept) == [(0, Collective(7, 0.0, 0.51, 0.507, 4, "barrier"))]
    collective(rank, clock, "gather", 0.001)
    assert read(watched, kept)[1] == (1, Collective(7, 0.61, 0.611, 0.001, 1, "gather"))


def test_several_collectives_of_a_process_at_a_time_are_one_stretch(clock: Clock) -> None:
    shared = memory(1)
    own, watched, kept = OwnTimes(shared), Watched(shared), Collectives()
    with own.noted("barrier()"):  # which nobody looks at
        clock.now += 1
    shared.watched[0] = True
    for what in ("all_reduce of float32 (2,)", "broadcast of float32 (3,)"):
        own.enter(what)
        clock.now += 1
    own.leave()
    clock.now += 1
    own.leave()
    assert read(watched, kept) == [(0, Collective(7, 1.0, 4.0, 3.0, 1, "all_reduce of float32 (2,)"))]


def test_thousands_of_collectives_are_no_more_records_than_their_time_has_room_for(clock: Clock) -> None:
    shared = memory(1)
    rank, watched, kept = RankTimes(shared, 0), Watched(shared), Collectives()
    for _ in range(10_000):
        collective(rank, clock, "all_reduce", 0.00005, then=0.00005)
    assert 40 <= shared.begun[0] <= 50  # of 20 ms in one second
    told = [span for _, span in read(watched, kept)]
    assert sum(span.calls for span in told) == 10_000
    assert sum(span.inside for span in told) == pytest.approx(0.5, rel=0.01)


def test_who_reads_too_late_has_the_latest_and_no_torn_ones(clock: Clock) -> None:
    shared = memory(1)
    rank, watched, kept = RankTimes(shared, 0), Watched(shared), Collectives()
    for i in range(3 * N_RECORDS):
        collective(rank, clock, f"barrier {i}", 0.01, then=0.1)
    told = [span.what for _, span in read(watched, kept)]
    assert told == [f"barrier {i}" for i in range(2 * N_RECORDS + 2, 3 * N_RECORDS)]


def test_a_front_end_is_told_the_oldest_first_and_what_is_kept_is_bounded(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "N_COLLECTIVES_MAX", 5)
    kept = Collectives()
    spans = [Collective(1, float(i), float(i), 0.0, 1, "barrier") for i in range(8)]
    for span in spans:
        kept.put(None, span)
    told, version = kept.since(0, 2)
    assert told == [(3, spans[3]), (4, spans[4])]
    assert kept.since(version, 10) == ([(i, spans[i]) for i in (5, 6, 7)], 8)


def test_a_group_is_watched_as_long_as_one_of_its_processes_lives(clock: Clock) -> None:
    shared = memory(2)
    shared.pids[:] = 11, 12
    watched = Watched(shared)
    assert not watched.has_ended({11: (1, False), 12: (2, True)})
    assert watched.has_ended({11: (1, False), 12: (2, False)})


def test_ranks_write_side_by_side(clock: Clock) -> None:
    shared = memory(8)

    def run(rank: int) -> None:
        mine = RankTimes(shared, rank)
        for _ in range(100):
            mine.enter(f"of {rank}")
            mine.leave()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    assert shared.records["what"][:, 0].tolist() == [f"of {rank}".encode() for rank in range(8)]
    assert shared.records["calls"][:, 0].tolist() == [100] * 8


def test_a_group_has_ended_when_all_of_it_were_known_and_are_gone() -> None:
    shared = memory(3)
    watched = Watched(shared)
    assert not watched.has_ended({11: (1, True)}), "nobody has begun"
    shared.pids[:] = [11, 12, 0]
    assert not watched.has_ended({}), "its workers have just begun"
    assert not watched.has_ended({11: (1, True)})
    assert not watched.has_ended({11: (1, False)}), "the other one is not known yet"
    assert not watched.has_ended({11: (1, False), 12: (2, True)})
    assert watched.has_ended({11: (1, False), 12: (2, False)})
    assert watched.has_ended({12: (2, False)}), "another worker has the first one's place"
