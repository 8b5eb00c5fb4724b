"""What machines have room for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tune.simulated import packs

from cellmesh.tune.control.room import Room, capacity, in_words
from cellmesh.tune.resources import PlacementGroupFactory, options_of


def group(*cpus: float, strategy: str = "PACK") -> dict[str, Any]:
    return options_of(PlacementGroupFactory([{"cpu": n} for n in cpus], strategy))


@pytest.mark.parametrize(
    "options, nodes, n",
    [
        ({}, [{"CPU": 3.0}], 3),
        ({"num_cpus": 2}, [{"CPU": 3.0}, {"CPU": 4.0}], 3),
        ({"num_cpus": 0}, [{"CPU": 3.0}], 3),
        ({"num_cpus": 1, "num_gpus": 0.5}, [{"CPU": 8.0, "GPU": 1.0}, {"CPU": 8.0}], 2),
        ({"num_cpus": 0.1}, [{"CPU": 1.0}], 10),
        ({"resources": {"disk": 1}}, [{"CPU": 1.0}], 0),
        (group(1, 1), [{"CPU": 4.0}], 2),
        (group(1, 2), [{"CPU": 2.0}, {"CPU": 2.0}], 1),
        (group(1, 2, strategy="STRICT_PACK"), [{"CPU": 2.0}, {"CPU": 2.0}], 0),
        (group(1, 1, strategy="STRICT_SPREAD"), [{"CPU": 4.0}], 0),
        (group(1, 1, strategy="STRICT_SPREAD"), [{"CPU": 2.0}, {"CPU": 2.0}], 2),
        (group(0, 1, 1), [{"CPU": 4.0}], 2),
        (group(1, 1), [{"CPU": 10_000.0}], 127),
    ],
)
def test_so_many_trials_fit(options: dict[str, Any], nodes: list[dict[str, float]], n: int) -> None:
    assert capacity(options, nodes, None) == n
    assert capacity(options, nodes, 1) == min(n, 1)


def test_what_is_given_back_is_there_again() -> None:
    room = Room()
    room.set([{"CPU": 2.0}, {"CPU": 2.0}])
    room.take(0, group(1, 2))
    room.take(0, group(1, 2))  # again: nothing changes
    assert room.fits({"num_cpus": 1}) and not room.fits({"num_cpus": 2}) and room.could_fit({"num_cpus": 2})
    room.give(0)
    room.give(0)
    assert room.fits(group(2, 2)) and not room.fits(group(2, 2, 1)) and not room.could_fit(group(2, 2, 1))


def test_without_machines_everything_fits() -> None:
    room = Room()
    room.take(0, {"num_cpus": 99})
    assert room.fits({"num_cpus": 99}) and room.could_fit({"num_gpus": 9})


def test_machines_that_come_and_go() -> None:
    room = Room()
    room.set([{"CPU": 4.0}])
    room.take(0, {"num_cpus": 3})
    room.set([{"CPU": 2.0}])  # it runs all the same
    assert room.fits({"num_cpus": 2})
    room.give(0)
    assert room.fits({"num_cpus": 2}) and not room.fits({"num_cpus": 3})


@pytest.mark.parametrize("seed", range(50))
def test_what_fits_can_be_placed(seed: int) -> None:
    draw = random.Random(seed)
    machines = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
    room, taken = Room(), dict[int, dict[str, Any]]()
    room.set([{"CPU": float(n)} for n in machines])
    for trial in range(20):
        options = draw.choice(
            ({"num_cpus": draw.randint(1, 4)}, group(1, draw.randint(1, 3), strategy=draw.choice(("PACK", "SPREAD"))))
        )
        if room.fits(options):
            room.take(trial, options)
            taken[trial] = options
        elif taken:
            gone = draw.choice(list(taken))
            room.give(gone)
            del taken[gone]
        assert packs(list(machines), list(taken.values()))


def test_it_says_what_is_taken() -> None:
    assert in_words({"num_gpus": 0.5, "resources": {"disk": 2}}) == "CPU 1, GPU 0.5, disk 2"
    assert in_words(group(1, 2, strategy="SPREAD")) == "CPU 1 and CPU 2 (SPREAD)"


@pytest.mark.parametrize(
    "make, what",
    [
        (lambda: PlacementGroupFactory([]), "bundles"),
        (lambda: PlacementGroupFactory({"cpu": 1}), "bundles"),
        (lambda: PlacementGroupFactory([{"cpu": 1}, {}]), "only the first"),
        (lambda: PlacementGroupFactory([{"cpu": -1}]), r"bundles\[0\]"),
        (lambda: PlacementGroupFactory([{"cpu": 1}], "TIGHT"), "STRICT_PACK"),
        (lambda: options_of(3), "a function"),
        (lambda: options_of({"cpu": float("nan")}), "cpu"),
    ],
)
def test_what_is_no_resource_is_named(make: Any, what: str) -> None:
    with pytest.raises((TypeError, ValueError), match=what):
        make()
