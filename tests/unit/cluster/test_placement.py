"""Placement in a cluster: numbers in, numbers out."""

from __future__ import annotations

import itertools

import pytest
from cellmesh.scheduler.cluster import placement
from cellmesh.scheduler.cluster.agent import strategies
from cellmesh.scheduler.cluster.messages import SESSION_LABEL, Member, Strategy
from cellmesh.scheduler.cluster.placement import Candidate, place, place_bundles, why_infeasible
from hypothesis import given, settings
from hypothesis import strategies as st

CPU = {"CPU": 10_000}
SPREAD = Strategy("spread")


def node(number: int, cpus: float, free: float | None = None, **others: float) -> Candidate:
    total = {"CPU": int(cpus * 10_000), **{kind: int(n * 10_000) for kind, n in others.items()}}
    return Candidate(number, total, total if free is None else {**total, "CPU": int(free * 10_000)})


def table(*candidates: Candidate) -> dict[int, Candidate]:
    return {c.node: c for c in candidates}


def test_packing_fills_the_fullest_node_first_and_then_the_next() -> None:
    nodes = table(node(1, 8), node(2, 8, free=3), node(3, 8, free=1))
    assert place(nodes, CPU, 6) == [(3, 1), (2, 3), (1, 2)]


def test_ties_go_to_the_lower_number_whatever_the_order_of_the_table() -> None:
    for order in itertools.permutations([node(3, 4), node(1, 4), node(2, 4)]):
        assert place(table(*order), CPU, 5) == [(1, 4), (2, 1)]
        assert place(table(*order), CPU, 4, SPREAD) == [(1, 2), (2, 1), (3, 1)]


def test_large_arguments_draw_tasks_to_where_they_lie_and_small_ones_do_not() -> None:
    nodes = table(node(1, 8, free=1), node(2, 8))
    assert place(nodes, CPU, 1, near={2: 1 << 20}) == [(1, 1)]
    assert place(nodes, CPU, 1, near={2: placement.PACK_BYTES}) == [(2, 1)]


def test_nodes_with_gpus_are_kept_for_those_who_need_them() -> None:
    nodes = table(node(1, 8, GPU=2), node(2, 8))
    assert place(nodes, CPU, 9) == [(2, 8), (1, 1)]
    assert place(nodes, {"CPU": 10_000, "GPU": 10_000}, 9) == [(1, 2)]


def test_spreading_takes_the_least_full_node_each_time() -> None:
    nodes = table(node(1, 4, free=1), node(2, 4), node(3, 8))
    assert sorted(place(nodes, CPU, 7, SPREAD)) == [(2, 2), (3, 5)], "and of two equally full ones the larger"


def test_spreading_counts_what_takes_nothing() -> None:
    nodes = table(node(1, 1), node(2, 2), node(3, 4))
    for demand in ({}, {"CPU": 0}):
        assert dict(place(nodes, demand, 6, SPREAD, home=1)) == {1: 1, 2: 2, 3: 3}, "in one burst, home as any other"
    one_by_one = []
    for _ in range(7):
        ((chosen, n),) = place(nodes, {}, 1, SPREAD, home=1)
        nodes[chosen].n_running += n
        one_by_one.append(chosen)
    assert one_by_one == [3, 2, 1, 3, 3, 2, 3]
    none = table(node(1, 0), node(2, 1))
    assert dict(place(none, {}, 3, SPREAD)) == {2: 2, 1: 1}, "a node without CPUs is the smallest"


def test_the_node_that_lacks_least_is_the_nearest_to_having_room() -> None:
    nodes = table(node(1, 8, free=0), node(2, 4, free=1), node(3, 1), node(4, 4, free=1.5))
    two = {"CPU": 20_000}
    assert placement.nearest_to_room(nodes, two) == 4
    nodes[4].kept = {"CPU": 30_000}
    assert placement.nearest_to_room(nodes, two) == 1, (
        "what actors hold does not become free: a quarter of a large node is missing"
    )
    assert placement.nearest_to_room(nodes, two, avoid=[1]) == placement.nearest_to_room(nodes, two, home=1) == 2
    assert placement.nearest_to_room(nodes, two, Strategy("node", node=2)) == 2
    assert placement.nearest_to_room(nodes, {"CPU": 90_000}) is None


def test_packing_leaves_out_who_asks_and_spreading_does_not() -> None:
    nodes = table(node(1, 4))
    assert place(nodes, CPU, 1, home=1) == []
    assert place(nodes, CPU, 1, SPREAD, home=1) == [(1, 1)]


def test_hard_affinity_waits_and_soft_affinity_goes_elsewhere() -> None:
    nodes = table(node(1, 4, free=1), node(2, 4))
    assert place(nodes, CPU, 3, Strategy("node", node=1)) == [(1, 1)]
    assert place(nodes, CPU, 3, Strategy("node", node=1, soft=True)) == [(1, 1), (2, 2)]
    assert place(nodes, CPU, 3, Strategy("node", node=9)) == []
    assert place(nodes, CPU, 3, Strategy("node", node=9, soft=True)) == [(1, 1), (2, 2)]


def test_labels_must_all_hold() -> None:
    nodes = table(node(1, 4), node(2, 4))
    nodes[2].labels = {"zone": "b", "disk": "ssd"}
    assert place(nodes, CPU, 9, Strategy("labels", labels={"zone": "b"})) == [(2, 4)]
    assert place(nodes, CPU, 9, Strategy("labels", labels={"zone": "b", "disk": "hdd"})) == []


def test_nothing_goes_to_a_closed_or_avoided_node() -> None:
    nodes = table(node(1, 4), node(2, 4), node(3, 4))
    nodes[1].is_open = False
    assert place(nodes, CPU, 99, avoid=[2]) == [(3, 4)]


@pytest.mark.parametrize(
    "strategy, words",
    [
        (Strategy(), "A task needs 9 CPU on one node; the largest of 2 has 8 CPU."),
        (Strategy("node", node=1), "on node 1, which has 4 CPU in all"),
        (Strategy("node", node=7), "on node 7, which is no member"),
        (Strategy("labels", labels={"a": "b"}), "labelled a=b; none of the 2 nodes is"),
    ],
)
def test_what_can_run_nowhere_is_told_in_a_sentence(strategy: Strategy, words: str) -> None:
    nodes = table(node(1, 4), node(2, 8))
    assert words in str(why_infeasible(nodes, {"CPU": 90_000}, strategy))
    assert why_infeasible(nodes, {"CPU": 40_000}, Strategy()) is None


# ---- groups
def test_bundles_in_the_four_modes() -> None:
    nodes = table(node(1, 4), node(2, 4), node(3, 2))
    two = [CPU, CPU]
    assert place_bundles(nodes, two, "STRICT_PACK") == [3, 3]  # best fit
    assert place_bundles(nodes, two, "PACK") == [3, 3]
    assert place_bundles(nodes, [{"CPU": 40_000}, {"CPU": 10_000}], "PACK") == [1, 3]
    assert len(set(place_bundles(nodes, [CPU] * 3, "SPREAD"))) == 3
    assert sorted(place_bundles(nodes, [CPU] * 4, "SPREAD")) in ([1, 1, 2, 3], [1, 2, 2, 3])
    assert len(set(place_bundles(nodes, [CPU] * 3, "STRICT_SPREAD"))) == 3


def test_bundles_that_cannot_be_placed_say_why() -> None:
    nodes = table(node(1, 4), node(2, 4))
    assert "No node has room for all bundles together: 5 CPU." == place_bundles(nodes, [CPU] * 5, "STRICT_PACK")
    why = place_bundles(nodes, [CPU] * 3, "STRICT_SPREAD")
    assert why == "3 bundles are each to have a node of their own, and there are 2 nodes."
    assert "finds no room beside the others" in str(place_bundles(nodes, [{"CPU": 30_000}] * 3, "PACK"))
    assert placement.why_bundles_infeasible(table(node(1, 4, free=0)), [CPU], "PACK") is None


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=4),
)
def test_strict_spread_finds_a_way_whenever_there_is_one(
    rooms: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    nodes = table(*(node(i + 1, cpus, GPU=gpus) for i, (cpus, gpus) in enumerate(rooms)))
    bundles = [{"CPU": cpus * 10_000, "GPU": gpus * 10_000} for cpus, gpus in wanted]
    exists = any(
        all(placement.n_fitting(nodes[n].room, b, 1) for n, b in zip(chosen, bundles, strict=True))
        for chosen in itertools.permutations(nodes, len(bundles))
    )
    placed = place_bundles(nodes, bundles, "STRICT_SPREAD")
    assert isinstance(placed, list) == exists


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]),
)
def test_no_mode_gives_more_than_there_is(rooms: list[int], wanted: list[int], mode: placement.Mode) -> None:
    nodes = table(*(node(i + 1, cpus) for i, cpus in enumerate(rooms)))
    placed = place_bundles(nodes, [{"CPU": n * 10_000} for n in wanted], mode)
    if isinstance(placed, list):
        for number in nodes:
            assert sum(n for n, on in zip(wanted, placed, strict=True) if on == number) <= rooms[number - 1]
        assert mode != "STRICT_PACK" or len(set(placed)) == 1
        assert mode != "STRICT_SPREAD" or len(set(placed)) == len(placed)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6),
    st.integers(1, 30),
    st.sampled_from([Strategy(), SPREAD]),
)
def test_places_are_given_as_far_as_there_are_any(nodes_of: list[tuple[int, int]], n: int, strategy: Strategy) -> None:
    nodes = table(*(node(i + 1, max(total, free), free=free) for i, (total, free) in enumerate(nodes_of)))
    placed = place(nodes, CPU, n, strategy)
    there = sum(free for _, free in nodes_of)
    assert sum(k for _, k in placed) == min(n, there)
    assert all(0 < k <= nodes[number].room["CPU"] // 10_000 for number, k in placed)


# ---- fairness
def test_places_are_called_back_from_who_holds_more_than_an_equal_share() -> None:
    assert placement.to_recall({1: 10}, {2: 100}, 0) == {1: 5}
    assert placement.to_recall({1: 10}, {2: 2}, 0) == {1: 2}
    assert placement.to_recall({1: 6}, {2: 100}, 4) == {1: 1}  # four are coming already
    assert placement.to_recall({1: 5, 2: 5}, {2: 9}, 0) == {}
    assert placement.to_recall({1: 8, 2: 8, 3: 1}, {3: 100}, 0) == {1: 3, 2: 1}


def test_what_waits_at_a_node_is_taken_back_after_a_while_when_there_is_room_elsewhere() -> None:
    assert placement.to_take_back(5, 1.0, 3) == 3
    assert placement.to_take_back(5, 0.0, 3) == 0


def test_what_a_node_may_be_called() -> None:
    nodes = [
        Member(number, "", b"", host, {}, {SESSION_LABEL: session}, name)
        for number, host, session, name in (
            (0x3DCE98, "elm", "s1", ""),
            (0x3DCF00, "elm", "s2", "elm-2"),
            (0xCAFE00, "oak", "s3", "oak-7"),
            (0x123456, "cafe", "s4", ""),
        )
    ]
    for name, found in [
        ("s2", [1]),
        ("elm", [0]),
        ("elm-2", [1]),
        ("oak", [2]),
        ("elm-2 3dcf", [1]),
        ("elm 3dce", [0]),
        ("3dce98", [0]),
        ("3DCE", [0]),
        ("elm 3dcf", []),
        ("oak 3dcf", []),
        ("3dc", []),
        ("", []),
        (" ", []),
        ("cafe", [3]),
        ("cafe0", [2]),
        ("nosuch", []),
    ]:
        assert strategies.find(name, nodes) == [nodes[i] for i in found], name
