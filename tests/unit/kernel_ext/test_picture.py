"""The still picture: well-formed for any graph, foreign text escaped, grouped when large."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from cellmesh.kernel_ext.panel.picture import N_GROUPS_MAX, N_SINGLE_MAX, graph_svg, layers
from cellmesh.kernel_ext.panel_messages import NOTHING, Arrays, CellLabel, Counts, Snapshot, State
from hypothesis import given, settings
from hypothesis import strategies as st

EVIL = '<script>alert("x")</script>&\''
SVG = "{http://www.w3.org/2000/svg}"


def graph(n: int, edges: list[tuple[int, int]], names: list[str], n_cells: int = 1) -> tuple[Snapshot, Arrays]:
    """A graph in which functions, cells, kinds and states take turns."""
    rows = np.arange(n)
    columns = [rows % len(names), rows * n_cells // max(n, 1), rows * 0, rows * 0, rows % 4]
    header = Snapshot(
        new=n,
        updates=n,
        edges=len(edges),
        tasks=n,
        functions=list(enumerate(names)),
        cells=[(i, CellLabel(f"In [{i}] {EVIL}", "")) for i in range(n_cells)],
        counts=Counts(finished=n),
    )
    return header, NOTHING._replace(
        new_u32=np.concatenate(columns).astype(np.uint32),
        new_submitted=np.zeros(n),
        update_row=rows.astype(np.uint32),
        update_state=(rows % len(State)).astype(np.uint8),
        edges=np.array(edges, np.uint32).reshape(-1),
    )


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_an_empty_graph_has_a_picture() -> None:
    assert "No tasks yet" in "".join(read(graph_svg(Snapshot(), NOTHING)).itertext())


def test_a_small_graph_shows_each_row_with_its_name_and_state() -> None:
    root = read(graph_svg(*graph(4, [(0, 1), (0, 2), (1, 3), (2, 3)], ["load", "split"])))
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles == ["load: waiting", "split: queued", "load: running", "split: finished"]
    assert "4 tasks: 4 finished" in "".join(root.itertext())


def test_what_depends_on_something_stands_to_the_right_of_it() -> None:
    assert layers(5, np.array([(0, 1), (1, 2), (0, 2), (3, 4), (2, 4)])).tolist() == [0, 1, 2, 0, 3]
    assert layers(2, np.array([(1, 0), (0, 0)])).tolist() == [0, 0]  # cycles do no harm


def test_a_large_graph_is_grouped_by_cell_and_function() -> None:
    n = 4 * N_SINGLE_MAX
    root = read(graph_svg(*graph(n, [(i, i + 1) for i in range(n - 1)], ["f", "g"], n_cells=3)))
    counts = [int(part.replace(",", "")) for part in root.itertext() if part.replace(",", "").isdigit()]
    assert sum(counts) == n and len(counts) == 12  # two functions by kinds (each has two of the four), three cells


@pytest.mark.parametrize("n, edges", [(N_SINGLE_MAX, []), (67, []), (67, [(i, i + 40) for i in range(27)]), (3000, [])])
def test_no_graph_is_a_tower_and_each_name_can_be_read(n: int, edges: list[tuple[int, int]]) -> None:
    root = read(graph_svg(*graph(n, edges, ["load", "train"])))
    svg = root.find(f"{SVG}svg")
    assert svg is not None and 3 * int(svg.get("width", "0")) > int(svg.get("height", "0")) < 700
    assert {"load", "train"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_a_group_has_a_square_for_each_row() -> None:
    root = read(graph_svg(*graph(67, [], ["load"])))
    assert sum(path.get("d", "").count("z") for path in root.iter(f"{SVG}path")) == 67


def test_very_many_groups_are_cut() -> None:
    n = 5 * N_SINGLE_MAX
    root = read(graph_svg(*graph(n, [], [f"f{i}" for i in range(n)])))
    assert f"and {n - N_GROUPS_MAX} more groups" in "".join(root.itertext())


@pytest.mark.parametrize("n", [3, 2 * N_SINGLE_MAX])
def test_foreign_text_stays_text(n: int) -> None:
    svg = graph_svg(*graph(n, [], [EVIL], n_cells=2))
    assert "<script" not in svg and EVIL in "".join(read(svg).itertext())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_graph_is_well_formed(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 7, 50, N_SINGLE_MAX, N_SINGLE_MAX + 1, 1000]))
    edges = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    root = read(graph_svg(*graph(n, edges, ["a", EVIL, ""], n_cells=data.draw(st.integers(1, 5)))))
    assert root.tag == "div"
