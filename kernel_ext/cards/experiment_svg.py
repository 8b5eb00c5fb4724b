"""Pictures of an experiment's trials: curves of the metric, and parallel coordinates. Pure: facts in, SVG out.

The best trials are in colour and above the others, which are grey. Text has the colour of the page around it, so the
pictures are right in light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...text import in_one_line
from .experiment_facts import N_BEST, ExperimentFacts, Line, in_words, number
from .plot_svg import (
    AXIS,
    Box,
    Point,
    linear,
    log_scale,
    picture,
    polyline,
    range_of,
    text_at,
    title_at_top,
    x_axis,
    y_axis,
)

BOX = Box()
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = BOX
N_AXES = 6  # of the parallel coordinates, the metric's among them
N_CHOICES = 12  # of values that are no numbers; more are drawn as one
LABEL_CHARS = 12
LETTER = 6.6  # how wide a bold letter is
COLOURS = ("#3b82f6", "#22a06b", "#b58100")  # of the best
GREY = "rgba(128,128,128,.4)"


def curves_svg(facts: ExperimentFacts, label: str, x_title: str, trials_title: str) -> str:
    """The metric by iteration, a curve a trial; where trials report once, by trial, and the best so far. "" for
    nothing.
    """
    lines = [line for line in facts.lines if line.curve]
    if not lines:
        return ""
    if all(len(line.curve) == 1 for line in lines):
        return _by_trial(facts, lines, label, trials_title)
    xs = [x for line in lines for x, _ in line.curve]
    values = [y for line in lines for _, y in line.curve]
    x_of = linear(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    low, high, is_log = range_of(values)
    y_of = (log_scale if is_log else linear)(low, high, HEIGHT - BOTTOM, TOP)
    drawn = "".join(_polyline([(x_of(x), y_of(min(max(y, low), high))) for x, y in line.curve], line) for line in lines)
    return picture(
        BOX,
        label,
        drawn
        + y_axis(BOX, low, high, y_of, is_log)
        + x_axis(BOX, min(xs), max(xs), x_title)
        + title_at_top(BOX, facts.metric),
    )


def _by_trial(facts: ExperimentFacts, lines: Sequence[Line], label: str, title: str) -> str:
    lines = sorted(lines, key=lambda line: line.number)
    numbers, values = [line.number for line in lines], [line.curve[0][1] for line in lines]
    x_of = linear(min(numbers), max(numbers), LEFT + 4, WIDTH - RIGHT - 4)
    low, high, is_log = range_of(values)
    y_of = (log_scale if is_log else linear)(low, high, HEIGHT - BOTTOM, TOP)
    best, step, dots = math.nan, list[tuple[float, float]](), ""
    for line, value in zip(lines, values, strict=True):
        x, y = x_of(line.number), y_of(min(max(value, low), high))
        is_better = math.isnan(best) or (value > best if facts.mode == "max" else value < best)
        best = value if is_better else best
        step.append((x, y_of(min(max(best, low), high))))
        fill = COLOURS[line.rank] if line.rank < N_BEST else GREY
        dots += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3.5 if line.rank < N_BEST else 2.5}" fill="{fill}"/>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in step)
    path = f'<polyline points="{points}" fill="none" stroke="{AXIS}" stroke-width="1"/>'
    axes = (
        y_axis(BOX, low, high, y_of, is_log)
        + x_axis(BOX, min(numbers), max(numbers), title)
        + title_at_top(BOX, facts.metric)
    )
    return picture(BOX, label, path + dots + axes)


def parallel_svg(facts: ExperimentFacts, label: str) -> str:
    """An axis for each varying parameter and one for the metric, a line a trial; "" if there is nothing to compare."""
    lines = [line for line in facts.lines if math.isfinite(line.value)]
    names = facts.names[: N_AXES - 1]
    if len(names) < 2 or not lines:
        return ""
    columns = [[line.parameters[i] for line in lines] for i in range(len(names))]
    axes = [_Axis(name, column) for name, column in zip(names, columns, strict=True)]
    axes.append(_Axis(facts.metric, [line.value for line in lines]))
    left, right = 34, WIDTH - 34
    xs = [left + (right - left) * i / (len(axes) - 1) for i in range(len(axes))]
    n_chars = min(16, int((xs[1] - xs[0]) / LETTER))
    drawn = ""
    for line in lines:
        values = [*line.parameters[: len(names)], line.value]
        places = [axis.place(value) for axis, value in zip(axes, values, strict=True)]
        points = [(x, y) for x, y in zip(xs, places, strict=True) if y is not None]
        drawn += _polyline(points, line)
    for x, axis in zip(xs, axes, strict=True):
        drawn += f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP + 12}" y2="{HEIGHT - BOTTOM}" stroke="{AXIS}"/>'
        drawn += text_at(x, TOP - 4, in_one_line(axis.name, n_chars), "middle", bold=True)
        drawn += text_at(x, TOP + 9, axis.top, "middle") + text_at(x, HEIGHT - BOTTOM + 11, axis.bottom, "middle")
    return picture(BOX, label, drawn)


class _Axis:
    """One axis of the parallel coordinates: numbers by size, other values in the order of their texts."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        low_y, high_y = HEIGHT - BOTTOM, TOP + 12
        numbers = [float(value) for value in values if _is_number(value)]
        self._choices: list[str] = []
        if numbers and len(numbers) == sum(value is not None for value in values):
            low, high, is_log = range_of(numbers)
            self._scale = (log_scale if is_log else linear)(low, high, low_y, high_y)
            self._low, self._high = low, high
            self.bottom, self.top = number(low), number(high) if high > low else ""
            return
        self._choices = sorted({in_words(value) for value in values if value is not None})[:N_CHOICES]
        self._scale = linear(0, max(1, len(self._choices) - 1), low_y, high_y)
        self.bottom = in_one_line(self._choices[0], LABEL_CHARS) if self._choices else ""
        self.top = in_one_line(self._choices[-1], LABEL_CHARS) if len(self._choices) > 1 else ""

    def place(self, value: Any) -> float | None:
        """How high a value lies; None if it is not there."""
        if value is None:
            return None
        if self._choices:
            text = in_words(value)
            return self._scale(self._choices.index(text) if text in self._choices else len(self._choices) - 1)
        return self._scale(min(max(float(value), self._low), self._high))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _polyline(points: Sequence[Point], line: Line) -> str:
    colour, width = (COLOURS[line.rank], 2.0 if line.rank == 0 else 1.5) if line.rank < N_BEST else (GREY, 1.0)
    return polyline(points, colour, width)
