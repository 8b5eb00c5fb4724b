"""The graph as a still SVG picture, where nothing is live: in exported notebooks and saved files. Pure.

Up to `N_SINGLE_MAX` rows are drawn one by one, with their names. More are grouped by cell and function, as people think
of them, with a small square for each row while there is room. Layers go from left to right: a task stands to the right
of what it depends on. A layer that would become a tower is broken into several columns. States differ by colour and by
mark, kinds by shape. Text and lines take the colour of the text around the picture, so it fits light and dark pages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np

from ..panel_messages import Arrays, GraphMessage, Kind, State

N_SINGLE_MAX = 30
N_GROUPS_MAX = 60
LABEL_CHARS = 22
N_LINES = 12  # rows above one another
N_SQUARES = 14  # in a line of a group
N_SQUARES_MAX = 12 * N_SQUARES  # of a group; of a larger one the states have shares of a bar
STEP_X, STEP_Y, GROUP_X, GROUP_GAP, SQUARE = 64, 26, 190, 14, 9
TOWER = 560  # a column of groups is not much higher
MARGIN = 22

COLOURS = {
    State.WAITING: "#8a8f98",
    State.QUEUED: "#8a8f98",
    State.RUNNING: "#3b82f6",
    State.FINISHED: "#22a06b",
    State.FAILED: "#e5484d",
    State.CANCELLED: "#b58100",
    State.RETRYING: "#b58100",
}
# Drawn in the middle of a node, so that states can be told without colours.
MARKS = {
    State.RUNNING: '<path d="M-2-3.5 4 0-2 3.5z" fill="#fff"/>',
    State.FAILED: '<path d="M-3-3 3 3M3-3-3 3" stroke="#fff" stroke-width="1.8"/>',
    State.CANCELLED: '<path d="M-3.5 0H3.5" stroke="#fff" stroke-width="1.8"/>',
    State.RETRYING: '<circle r="2.5" fill="none" stroke="#fff" stroke-width="1.4"/>',
}


@dataclass
class Group:
    """Rows of one cell, function and kind."""

    label: str
    cell: str
    states: dict[State, int]
    row_states: np.ndarray  # in the order of submission, of the first `N_SQUARES_MAX`

    @property
    def count(self) -> int:
        return sum(self.states.values())


def graph_svg(header: GraphMessage, arrays: Arrays) -> str:
    """The picture of a whole graph, in a frame that scrolls if it is wide.

    Parameters
    ----------
    header, arrays : Snapshot, Arrays
        A snapshot that holds everything, as `GraphView.next` makes it without a budget.
    """
    if not header.new:
        text = f'<text x="{MARGIN}" y="34" fill-opacity=".62">No tasks yet.</text>'
        return _svg(340, 60, text, "An empty task graph")
    function, cell, _, _, kind = arrays.new_u32.reshape(5, header.new)
    states = np.where(kind == Kind.OBJECT, State.FINISHED, State.WAITING).astype(np.uint8)
    states[arrays.update_row] = arrays.update_state
    edges = arrays.edges.reshape(-1, 2).astype(np.int64)
    names = dict(header.functions)
    if header.new <= N_SINGLE_MAX:
        labels = [names.get(int(f), "?") for f in function]
        body, width, height = _singles(labels, kind, states, edges)
    else:
        cells = {number: label.label for number, label in header.cells}
        body, width, height = _groups(names, cells, np.stack([cell, function, kind]), states, edges)
    words = summary(header)
    body += f'<text x="{MARGIN}" y="{height + 14}" fill-opacity=".75">{escape(words)}</text>'
    return _svg(max(width, 8 * len(words) + 2 * MARGIN), height + 30, body, f"Task graph: {words}")


def layers(n: int, edges: np.ndarray) -> np.ndarray:
    """The layer of each node: one more than the deepest of those it depends on. Edges that close a cycle are ignored.

    Nodes come in the order of submission, and nearly always depend on earlier ones, so a few passes are enough.
    """
    forward = edges[edges[:, 0] < edges[:, 1]]
    forward = forward[np.argsort(forward[:, 1], kind="stable")]
    depth = np.zeros(n, np.int64)
    for source, target in forward.tolist():
        depth[target] = max(depth[target], depth[source] + 1)
    return depth


def _columns(depth: np.ndarray, edges: np.ndarray, heights: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
    """(column, y) of each node.

    Within a layer nodes stand in the order of the mean height of what they depend on. A layer is broken into columns
    that are not much higher than `most`, and each column stands in the middle.
    """
    column, y = np.zeros(len(depth), np.int64), np.zeros(len(depth))
    tallest, first = 0.0, 0
    totals = []
    for layer in range(int(depth.max()) + 1):
        members = np.flatnonzero(depth == layer)
        if layer:
            wish = np.zeros(len(depth))
            count = np.zeros(len(depth))
            into = edges[(depth[edges[:, 1]] == layer) & (depth[edges[:, 0]] < layer)]
            np.add.at(wish, into[:, 1], y[into[:, 0]])
            np.add.at(count, into[:, 1], 1)
            members = members[np.argsort((wish / np.maximum(count, 1))[members], kind="stable")]
        n_columns = max(1, round(float(heights[members].sum()) / most + 0.35))
        share = float(heights[members].sum()) / n_columns
        below = np.cumsum(heights[members])
        at = np.minimum(((below - heights[members] / 2) / share).astype(np.int64), n_columns - 1)
        for i in range(n_columns):
            part = members[at == i]
            column[part] = first + i
            y[part] = np.cumsum(heights[part]) - heights[part]
            totals.append((part, float(heights[part].sum())))
            tallest = max(tallest, totals[-1][1])
        first += n_columns
    for part, total in totals:
        y[part] += (tallest - total) / 2
    return column, y


def _singles(labels: list[str], kinds: np.ndarray, states: np.ndarray, edges: np.ndarray) -> tuple[str, int, int]:
    column, y = _columns(layers(len(labels), edges), edges, np.full(len(labels), float(STEP_Y)), N_LINES * STEP_Y)
    names, labels = labels, [label if len(label) <= LABEL_CHARS else f"{label[: LABEL_CHARS - 1]}…" for label in labels]
    longest = max(map(len, labels))
    x, y = MARGIN + 8 + column * (STEP_X + 7 * longest), MARGIN + 8 + y
    parts = [
        _curve(float(x[s]) + 15 + 6 * len(labels[s]), float(y[s]), float(x[t]), float(y[t]), 1.0)
        for s, t in edges.tolist()
        if column[s] < column[t]
    ]
    for i, label in enumerate(labels):
        state = State(states[i])
        text = f'<text x="12" y="4">{escape(label)}</text>'
        title = escape(f"{names[i]}: {state.word}")
        parts.append(
            f'<g transform="translate({x[i]:.0f} {y[i]:.0f})"><title>{title}</title>'
            f"{_shape(Kind(kinds[i]), state)}{MARKS.get(state, '')}{text}</g>"
        )
    return "".join(parts), int(x.max()) + MARGIN + 8 + 7 * longest, int(y.max()) + MARGIN + 8


def _shape(kind: Kind, state: State) -> str:
    colour = COLOURS[state]
    # What has not begun is hollow.
    fill = f'fill="{colour}" fill-opacity=".18" stroke="{colour}" stroke-width="1.6"'
    if state not in (State.WAITING, State.QUEUED):
        fill = f'fill="{colour}"'
    if kind == Kind.ACTOR_CREATION:
        return f'<path d="M-8 0-4-7H4L8 0 4 7H-4z" {fill}/>'
    if kind == Kind.ACTOR_CALL:
        return f'<rect x="-6.5" y="-6.5" width="13" height="13" rx="3" {fill}/>'
    if kind == Kind.OBJECT:
        return f'<path d="M0-7.5 7.5 0 0 7.5-7.5 0z" {fill}/>'
    return f'<circle r="7" {fill}/>'


def grouped(
    names: dict[int, str], cells: dict[int, str], keys: np.ndarray, states: np.ndarray, edges: np.ndarray
) -> tuple[list[Group], np.ndarray, np.ndarray, int]:
    """Rows put together by cell, function and kind.

    Returns the groups in the order of their first rows, at most `N_GROUPS_MAX`; the pairs of them that edges join, and
    how many edges each; and how many groups there are beyond them.
    """
    cell, function, kind = keys.astype(np.uint64)
    key = cell << np.uint64(32) | function << np.uint64(8) | kind
    distinct, first, member = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    member = rank[member]
    n = min(len(order), N_GROUPS_MAX)
    counts = np.bincount(member * 8 + states, minlength=8 * len(order)).reshape(-1, 8)
    by_group = np.argsort(member, kind="stable")
    ends = np.cumsum(np.bincount(member, minlength=len(order)))
    groups = []
    for i, number in enumerate(distinct[order[:n]].tolist()):
        name = names.get(number >> 8 & 0xFFFFFF, "?") if number & 0xFF != Kind.OBJECT else "put objects"
        rows = by_group[ends[i] - counts[i].sum() : ends[i]][:N_SQUARES_MAX]
        groups.append(
            Group(
                name,
                cells.get(number >> 32, ""),
                {state: int(counts[i, state]) for state in State if counts[i, state]},
                states[rows],
            )
        )
    between = member[edges]
    between = between[(between[:, 0] != between[:, 1]) & (between < n).all(axis=1)]
    joined, weights = np.unique(between[:, 0] * n + between[:, 1], return_counts=True)
    return groups, np.stack([joined // n, joined % n], axis=1), weights, len(order) - n


def _groups(
    names: dict[int, str], cells: dict[int, str], keys: np.ndarray, states: np.ndarray, edges: np.ndarray
) -> tuple[str, int, int]:
    groups, pairs, weights, n_more = grouped(names, cells, keys, states, edges)
    n = len(groups)
    heights = np.array([_height(group) for group in groups], float)
    column, y = _columns(layers(n, pairs), pairs, heights + GROUP_GAP, TOWER)
    x, y = MARGIN + column * GROUP_X, MARGIN + y
    width = GROUP_X - 50
    parts = [
        _curve(
            float(x[s]) + width,
            float(y[s] + heights[s] / 2),
            float(x[t]),
            float(y[t] + heights[t] / 2),
            1 + min(4.0, math.log10(w + 1)),
        )
        for (s, t), w in zip(pairs.tolist(), weights.tolist(), strict=True)
        if column[s] < column[t]
    ]
    parts += [_box(x[i], y[i], width, int(heights[i]), group) for i, group in enumerate(groups)]
    bottom = int((y + heights).max())
    if n_more:
        parts.append(f'<text x="{MARGIN}" y="{bottom + 20}" fill-opacity=".62">and {n_more} more groups</text>')
    return "".join(parts), int(x.max()) + GROUP_X, bottom + (34 if n_more else 14)


def _height(group: Group) -> int:
    lines = -(-group.count // N_SQUARES) if 1 < group.count <= N_SQUARES_MAX else 0
    return 40 + (lines * SQUARE if lines else 6)


def _box(x: float, y: float, width: int, height: int, group: Group) -> str:
    bar = _squares(group) if 1 < group.count <= N_SQUARES_MAX else _bar(group, width, height)
    words = ", ".join(f"{count:,} {state.word}" for state, count in sorted(group.states.items()))
    name = group.label if len(group.label) <= 16 else group.label[:15] + "…"
    title = escape(f"{group.label}, {group.cell}: {words}")
    return (
        f'<g transform="translate({x:.0f} {y:.0f})"><title>{title}</title>'
        f'<rect width="{width}" height="{height}" rx="7" fill="currentColor" fill-opacity=".05" '
        f'stroke="currentColor" stroke-opacity=".3"/><text x="8" y="17" font-weight="600">{escape(name)}</text>'
        f'<text x="{width - 8}" y="17" text-anchor="end" fill-opacity=".62">{group.count:,}</text>'
        f'<text x="8" y="29" font-size="9" fill-opacity=".62">{escape(group.cell)}</text>{bar}</g>'
    )


def _squares(group: Group) -> str:
    """A square for each row, hollow if it has not begun.

    There is one path for each state, since a picture may have thousands of squares.
    """
    parts = []
    for state in State:
        at = np.flatnonzero(group.row_states == state)
        if not len(at):
            continue
        path = "".join(f"M{8 + SQUARE * (i % N_SQUARES)} {35 + SQUARE * (i // N_SQUARES)}h6v6h-6z" for i in at.tolist())
        fill = (
            f'fill="none" stroke="{COLOURS[state]}"'
            if state in (State.WAITING, State.QUEUED)
            else f'fill="{COLOURS[state]}"'
        )
        parts.append(f'<path d="{path}" {fill}/>')
    return "".join(parts)


def _bar(group: Group, width: int, height: int) -> str:
    bar, at = "", 8.0
    for state in State:
        share = group.states.get(state, 0) / group.count * (width - 16)
        if share:
            bar += f'<rect x="{at:.1f}" y="{height - 10}" width="{share:.1f}" height="4" fill="{COLOURS[state]}"/>'
            at += share
    return bar


def _curve(x0: float, y0: float, x1: float, y1: float, width: float) -> str:
    middle = (x0 + x1) / 2
    return (
        f'<path d="M{x0:.0f} {y0:.0f}C{middle:.0f} {y0:.0f} {middle:.0f} {y1:.0f} {x1:.0f} {y1:.0f}" fill="none" '
        f'stroke="currentColor" stroke-opacity=".28" stroke-width="{width:.1f}"/>'
    )


def summary(header: GraphMessage) -> str:
    counts = header.counts
    words = [f"{getattr(counts, name):,} {name}" for name in counts.__struct_fields__ if getattr(counts, name)]
    tasks = f"{header.tasks:,} task{'s' if header.tasks != 1 else ''}"
    lost = f" ({header.dropped:,} events were lost)" if header.dropped else ""
    return f"{tasks}: {', '.join(words)}{lost}" if words else tasks + lost


def _svg(width: int, height: int, body: str, label: str) -> str:
    return (
        f'<div style="max-width:100%;overflow-x:auto"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{escape(label)}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="currentColor">{body}</svg></div>'
    )
