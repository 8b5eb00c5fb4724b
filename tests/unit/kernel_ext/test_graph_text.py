"""The graph as text: one line for each task or group, below what it came from."""

from __future__ import annotations

import numpy as np
from cellmesh.kernel_ext.panel.graph_text import N_LINES_MAX, N_SINGLE_MAX, graph_text
from cellmesh.kernel_ext.panel_messages import NOTHING, Arrays, CellLabel, Counts, Kind, Snapshot, State
from hypothesis import given, settings
from hypothesis import strategies as st

EVIL = "\x1b[31m\nevil"


def graph(
    functions: list[int],
    edges: list[tuple[int, int]],
    names: list[str],
    states: list[State] | None = None,
    kind: Kind = Kind.TASK,
) -> tuple[Snapshot, Arrays]:
    n = len(functions)
    rows, zeros = np.arange(n), np.zeros(n, np.int64)
    states = states or [State.FINISHED] * n
    header = Snapshot(
        new=n,
        updates=n,
        edges=len(edges),
        tasks=n,
        functions=list(enumerate(names)),
        cells=[(0, CellLabel("In [1]", ""))],
        counts=Counts(
            finished=states.count(State.FINISHED),
            running=states.count(State.RUNNING),
            failed=states.count(State.FAILED),
        ),
    )
    return header, NOTHING._replace(
        new_u32=np.concatenate([np.array(functions, np.int64), zeros, zeros, zeros, zeros + kind]).astype(np.uint32),
        new_submitted=np.zeros(n),
        update_row=rows.astype(np.uint32),
        update_state=np.array(states, np.uint8),
        update_started=np.full(n, 1.0),
        update_finished=np.full(n, 1.5),
        edges=np.array(edges, np.uint32).reshape(-1),
    )


def test_an_empty_graph_says_so() -> None:
    assert graph_text(Snapshot(), NOTHING) == "No tasks yet."


def test_a_small_graph_is_a_tree_that_names_further_inputs() -> None:
    text = graph_text(
        *graph(
            [0, 1, 1, 2],
            [(0, 1), (0, 2), (1, 3), (2, 3)],
            ["load", "split", "join"],
            [State.FINISHED, State.FINISHED, State.RUNNING, State.WAITING],
        )
    )
    assert text.splitlines() == [
        "4 tasks: 1 running, 2 finished",
        "● load · finished · In [1] · 500 ms",
        "├─ ● split · finished · In [1] · 500 ms",
        "│  └─ ◌ join · waiting · In [1] · 500 ms · also from split",
        "└─ ◐ split · running · In [1]",
    ]


def test_a_large_graph_is_grouped_and_shows_first_what_has_failed() -> None:
    n = N_SINGLE_MAX
    text = graph_text(
        *graph(
            [0] * n + [1] * n,
            [(i, n + i) for i in range(n)],
            ["load", "split"],
            [State.FINISHED] * n + [State.FAILED] + [State.FINISHED] * (n - 1),
        )
    )
    assert text.splitlines()[1:] == [
        f"● load ×{n} · {n} finished · In [1]",
        f"└─ ✕ split ×{n} · {n - 1} finished, 1 failed · In [1]",
    ]


def test_very_much_is_cut() -> None:
    text = graph_text(*graph(list(range(200)), [], [f"f{i}" for i in range(200)]))
    assert len(text.splitlines()) == N_LINES_MAX + 2 and text.endswith("… and 140 more")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_task_or_group_has_one_line_and_foreign_text_stays_text(data: st.DataObject) -> None:
    n = data.draw(st.sampled_from([1, 2, 7, N_SINGLE_MAX, N_SINGLE_MAX + 1, 100]))
    edges = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    text = graph_text(*graph([i % 3 for i in range(n)], edges, ["a", EVIL, ""]))
    assert "\x1b" not in text and len(text.splitlines()) == 1 + (n if n <= N_SINGLE_MAX else 3)
