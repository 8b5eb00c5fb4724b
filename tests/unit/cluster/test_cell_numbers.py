"""Cells of several machines, told apart."""

from __future__ import annotations

from cellmesh.scheduler.cluster.peer.cell_numbers import FIRST, CellNumbers


def test_numbers_of_other_machines_get_one_here_and_find_their_way_back() -> None:
    cell_numbers = CellNumbers()
    first, second = cell_numbers.here(7, 3), cell_numbers.here(8, 3)
    assert {first, second} == {FIRST, FIRST + 1} and cell_numbers.here(7, 3) == first
    assert cell_numbers.there(first) == (7, 3) and cell_numbers.there(3) is None


def test_a_cell_that_is_told_to_its_own_machine_is_that_machine_s_number_again() -> None:
    cell_numbers = CellNumbers()
    theirs = cell_numbers.here(7, 3)
    assert cell_numbers.told(7, theirs) == (3, True)
    assert cell_numbers.told(8, theirs) == (theirs, False), "a third machine knows it by ours"
    assert cell_numbers.told(7, 3) == (3, False), "a cell of this node"
