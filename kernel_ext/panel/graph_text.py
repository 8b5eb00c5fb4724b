"""The graph as text, for terminals: a tree in which each task stands below its latest input. Pure.

Up to `N_SINGLE_MAX` rows get a line each; more are grouped as in the picture. A graph is no tree: a task with several
inputs stands under the deepest of them and says how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...text import duration, in_one_line
from ..cards.html import STATES
from ..panel_messages import Arrays, GraphMessage, Kind, State
from .picture import Group, grouped, layers, summary

N_SINGLE_MAX = 24
N_LINES_MAX = 60
N_OTHERS_NAMED = 2
# The first of these states that a group's rows have is the group's.
FIRST = (State.FAILED, State.RUNNING, State.RETRYING, State.QUEUED, State.WAITING, State.CANCELLED, State.FINISHED)


@dataclass
class _Node:
    name: str
    sign: str
    words: str


def graph_text(header: GraphMessage, arrays: Arrays) -> str:
    """The whole graph, from a snapshot that holds everything."""
    if not header.new:
        return "No tasks yet."
    function, cell, _, _, kind = arrays.new_u32.reshape(5, header.new)
    states = np.where(kind == Kind.OBJECT, State.FINISHED, State.WAITING).astype(np.uint8)
    states[arrays.update_row] = arrays.update_state
    edges = arrays.edges.reshape(-1, 2).astype(np.int64)
    names, cells = dict(header.functions), {number: label.label for number, label in header.cells}
    if header.new <= N_SINGLE_MAX:
        seconds = np.full(header.new, np.nan)
        seconds[arrays.update_row] = arrays.update_finished - arrays.update_started
        nodes = [
            _single(
                names.get(int(function[i]), "?"),
                Kind(kind[i]),
                State(states[i]),
                cells.get(int(cell[i]), ""),
                float(seconds[i]),
            )
            for i in range(header.new)
        ]
        n_more = 0
    else:
        groups, edges, _, n_more = grouped(names, cells, np.stack([cell, function, kind]), states, edges)
        nodes = [_of_group(group) for group in groups]
    lines = _tree(nodes, edges[edges[:, 0] < edges[:, 1]])
    if len(lines) > N_LINES_MAX:
        n_more, lines = n_more + len(lines) - N_LINES_MAX, lines[:N_LINES_MAX]
    return "\n".join([summary(header), *lines, *([f"… and {n_more:,} more"] if n_more else [])])


def _single(name: str, kind: Kind, state: State, cell: str, seconds: float) -> _Node:
    if kind == Kind.OBJECT:
        return _Node("a value put into the store", "◆", cell)
    ran = duration(seconds) if np.isfinite(seconds) and state != State.RUNNING else ""
    what = f"actor {in_one_line(name)}" if kind == Kind.ACTOR_CREATION else in_one_line(name)
    return _Node(what, _sign(state), " · ".join(filter(None, (state.word, cell if cell != name else "", ran))))


def _of_group(group: Group) -> _Node:
    name, first = in_one_line(group.label), next(state for state in FIRST if state in group.states)
    if group.count == 1:
        return _Node(name, _sign(first), " · ".join(filter(None, (first.word, group.cell))))
    states = ", ".join(f"{n:,} {state.word}" for state, n in sorted(group.states.items()))
    return _Node(f"{name} ×{group.count:,}", _sign(first), " · ".join(filter(None, (states, group.cell))))


def _sign(state: State) -> str:
    return STATES[state.word][0]


def _tree(nodes: list[_Node], edges: np.ndarray) -> list[str]:
    """A line for each node, below the deepest of those it depends on."""
    depth = layers(len(nodes), edges)
    inputs: list[list[int]] = [[] for _ in nodes]
    for source, target in edges.tolist():
        if source not in inputs[target]:
            inputs[target].append(source)
    children: list[list[int]] = [[] for _ in nodes]
    for target, sources in enumerate(inputs):
        sources.sort(key=lambda source: -depth[source])  # stable: of equals the first
        if sources:
            children[sources[0]].append(target)
    lines = []
    stack = [(node, "", "") for node in range(len(nodes) - 1, -1, -1) if not inputs[node]]
    while stack:
        node, before, rest = stack.pop()
        lines.append(
            f"{before}{nodes[node].sign} {nodes[node].name} · {nodes[node].words}{_others(nodes, inputs[node][1:])}"
        )
        for child in reversed(children[node]):
            is_last = child == children[node][-1]
            stack.append((child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")))
    return lines


def _others(nodes: list[_Node], others: list[int]) -> str:
    if len(others) > N_OTHERS_NAMED:
        return f" · also from {len(others)} others"
    return f" · also from {', '.join(nodes[other].name for other in others)}" if others else ""
