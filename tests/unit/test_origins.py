"""Cells of several machines, told apart."""
from __future__ import annotations

from cellmesh.scheduler.cluster.origins import FIRST, Origins


def test_numbers_of_other_machines_get_one_here_and_find_their_way_back() -> None:
    origins = Origins()
    first, second = origins.here(7, 3), origins.here(8, 3)
    assert {first, second} == {FIRST, FIRST + 1} and origins.here(7, 3) == first
    assert origins.there(first) == (7, 3) and origins.there(3) is None


def test_a_cell_that_is_told_to_its_own_machine_is_that_machine_s_number_again() -> None:
    origins = Origins()
    theirs = origins.here(7, 3)
    assert origins.told(7, theirs) == (3, True)
    assert origins.told(8, theirs) == (theirs, False), "a third machine knows it by ours"
    assert origins.told(7, 3) == (3, False), "a cell of ours"
