"""A still picture of the graph as SVG, for wherever nothing is live: exported notebooks, saved files. Pure.

Up to `N_SINGLE_MAX` rows are drawn one by one; more are grouped by cell and function, which is how one thinks of them.
Layers from left to right: what depends on something stands to the right of it. States differ by colour and by mark,
kinds by shape. Text and lines take the colour of the surrounding text, so the picture is at home in light and dark.
"""
from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from .panel_messages import Arrays, GraphMessage, Kind, State

N_SINGLE_MAX = 300
N_GROUPS_MAX = 60
N_LABELS_MAX = 40  # single rows are labelled up to this number
STEP_X, STEP_Y, GROUP_X, GROUP_Y = 64, 26, 190, 58
MARGIN = 22

COLOURS = {State.WAITING: "#8a8f98", State.READY: "#8a8f98", State.RUNNING: "#3b82f6", State.FINISHED: "#22a06b",
           State.FAILED: "#e5484d", State.CANCELLED: "#b58100", State.RETRYING: "#b58100"}
WORDS = {State.WAITING: "waiting", State.READY: "queued", State.RUNNING: "running", State.FINISHED: "finished",
         State.FAILED: "failed", State.CANCELLED: "cancelled", State.RETRYING: "queued again"}
# Drawn in the middle of a node, so that states can be told without colours.
MARKS = {State.RUNNING: '<path d="M-2-3.5 4 0-2 3.5z" fill="#fff"/>',
         State.FAILED: '<path d="M-3-3 3 3M3-3-3 3" stroke="#fff" stroke-width="1.8"/>',
         State.CANCELLED: '<path d="M-3.5 0H3.5" stroke="#fff" stroke-width="1.8"/>',
         State.RETRYING: '<circle r="2.5" fill="none" stroke="#fff" stroke-width="1.4"/>'}


@dataclass
class _Group:
    """Rows of one cell, function and kind."""

    label: str
    cell: str
    states: dict[State, int]

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
    summary = _summary(header)
    body += f'<text x="{MARGIN}" y="{height + 14}" fill-opacity=".75">{escape(summary)}</text>'
    return _svg(max(width, 8 * len(summary) + 2 * MARGIN), height + 30, body, f"Task graph: {summary}")


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


def _places(depth: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(column, line) of each node; within a layer nodes stand near the mean line of what they depend on."""
    line = np.zeros(len(depth))
    for layer in range(int(depth.max()) + 1):
        members = np.flatnonzero(depth == layer)
        if layer:
            wish = np.zeros(len(depth))
            count = np.zeros(len(depth))
            into = edges[(depth[edges[:, 1]] == layer) & (depth[edges[:, 0]] < layer)]
            np.add.at(wish, into[:, 1], line[into[:, 0]])
            np.add.at(count, into[:, 1], 1)
            members = members[np.argsort((wish / np.maximum(count, 1))[members], kind="stable")]
        line[members] = np.arange(len(members)) - (len(members) - 1) / 2
    return depth, line - line.min()


def _singles(labels: list[str], kinds: np.ndarray, states: np.ndarray, edges: np.ndarray) -> tuple[str, int, int]:
    column, line = _places(layers(len(labels), edges), edges)
    with_labels = len(labels) <= N_LABELS_MAX
    step_x = STEP_X + (7 * max(map(len, labels)) if with_labels else 0)
    step_x = min(step_x, 220)
    x, y = MARGIN + 8 + column * step_x, MARGIN + 8 + line * STEP_Y
    parts = [_curve(x[s], y[s], x[t], y[t], 1.0) for s, t in edges.tolist()]
    for i, label in enumerate(labels):
        state = State(states[i])
        text = ""
        if with_labels:
            text = f'<text x="12" y="4">{escape(label if len(label) <= 22 else label[:21] + "…")}</text>'
        title = escape(f"{label}: {WORDS[state]}")
        parts.append(f'<g transform="translate({x[i]:.0f} {y[i]:.0f})"><title>{title}</title>'
                     f"{_shape(Kind(kinds[i]), state)}{MARKS.get(state, '')}{text}</g>")
    width = int(x.max()) + MARGIN + 8 + (min(150, 7 * max(map(len, labels))) if with_labels else 0)
    return "".join(parts), width, int(y.max()) + MARGIN + 8


def _shape(kind: Kind, state: State) -> str:
    colour = COLOURS[state]
    # What has not begun is hollow.
    fill = f'fill="{colour}" fill-opacity=".18" stroke="{colour}" stroke-width="1.6"'
    if state not in (State.WAITING, State.READY):
        fill = f'fill="{colour}"'
    if kind == Kind.ACTOR_CREATION:
        return f'<path d="M-8 0-4-7H4L8 0 4 7H-4z" {fill}/>'
    if kind == Kind.ACTOR_CALL:
        return f'<rect x="-6.5" y="-6.5" width="13" height="13" rx="3" {fill}/>'
    if kind == Kind.OBJECT:
        return f'<path d="M0-7.5 7.5 0 0 7.5-7.5 0z" {fill}/>'
    return f'<circle r="7" {fill}/>'


def _groups(names: dict[int, str], cells: dict[int, str], keys: np.ndarray, states: np.ndarray,
            edges: np.ndarray) -> tuple[str, int, int]:
    cell, function, kind = keys.astype(np.uint64)
    key = cell << np.uint64(32) | function << np.uint64(8) | kind
    distinct, first, member = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)  # groups in the order of their first rows
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    member = rank[member]
    n = min(len(order), N_GROUPS_MAX)
    counts = np.bincount(member * 8 + states, minlength=8 * len(order)).reshape(-1, 8)
    groups = []
    for i, number in enumerate(distinct[order[:n]].tolist()):
        name = names.get(number >> 8 & 0xffffff, "?") if number & 0xff != Kind.OBJECT else "put objects"
        groups.append(_Group(name, cells.get(number >> 32, ""),
                             {state: int(counts[i, state]) for state in State if counts[i, state]}))
    between = member[edges]
    between = between[(between[:, 0] != between[:, 1]) & (between < n).all(axis=1)]
    joined, weights = np.unique(between[:, 0] * n + between[:, 1], return_counts=True)
    pairs = np.stack([joined // n, joined % n], axis=1)
    column, line = _places(layers(n, pairs), pairs)
    x, y = MARGIN + column * GROUP_X, MARGIN + line * GROUP_Y
    width, height = GROUP_X - 50, GROUP_Y - 16
    parts = [_curve(x[s] + width, y[s] + height / 2, x[t], y[t] + height / 2, 1 + min(4.0, np.log10(w + 1)))
             for (s, t), w in zip(pairs.tolist(), weights.tolist(), strict=True) if column[s] < column[t]]
    for i, group in enumerate(groups):
        parts.append(_box(x[i], y[i], width, height, group))
    if len(order) > n:
        parts.append(f'<text x="{MARGIN}" y="{y.max() + GROUP_Y + 8:.0f}" fill-opacity=".62">'
                     f"and {len(order) - n} more groups</text>")
    return "".join(parts), int(x.max()) + GROUP_X, int(y.max()) + GROUP_Y + (30 if len(order) > n else 12)


def _box(x: float, y: float, width: int, height: int, group: _Group) -> str:
    bar, at = "", 8.0
    for state in State:
        share = group.states.get(state, 0) / group.count * (width - 16)
        if share:
            bar += f'<rect x="{at:.1f}" y="{height - 10}" width="{share:.1f}" height="4" fill="{COLOURS[state]}"/>'
            at += share
    words = ", ".join(f"{count:,} {WORDS[state]}" for state, count in sorted(group.states.items()))
    name = group.label if len(group.label) <= 16 else group.label[:15] + "…"
    title = escape(f"{group.label}, {group.cell}: {words}")
    return (f'<g transform="translate({x:.0f} {y:.0f})"><title>{title}</title>'
            f'<rect width="{width}" height="{height}" rx="7" fill="currentColor" fill-opacity=".05" '
            f'stroke="currentColor" stroke-opacity=".3"/><text x="8" y="17" font-weight="600">{escape(name)}</text>'
            f'<text x="{width - 8}" y="17" text-anchor="end" fill-opacity=".62">{group.count:,}</text>'
            f'<text x="8" y="29" font-size="9" fill-opacity=".62">{escape(group.cell)}</text>{bar}</g>')


def _curve(x0: float, y0: float, x1: float, y1: float, width: float) -> str:
    middle = (x0 + x1) / 2
    return (f'<path d="M{x0:.0f} {y0:.0f}C{middle:.0f} {y0:.0f} {middle:.0f} {y1:.0f} {x1:.0f} {y1:.0f}" fill="none" '
            f'stroke="currentColor" stroke-opacity=".28" stroke-width="{width:.1f}"/>')


def _summary(header: GraphMessage) -> str:
    counts = header.counts
    words = [f"{getattr(counts, name):,} {'queued' if name == 'ready' else name}" for name in counts.__struct_fields__
             if getattr(counts, name)]
    tasks = f"{header.tasks:,} task{'s' if header.tasks != 1 else ''}"
    lost = f" ({header.dropped:,} events were lost)" if header.dropped else ""
    return f"{tasks}: {', '.join(words)}{lost}" if words else tasks + lost


def _svg(width: int, height: int, body: str, label: str) -> str:
    return (f'<div style="max-width:100%;overflow-x:auto"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{escape(label)}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="11" fill="currentColor">{body}</svg></div>')
