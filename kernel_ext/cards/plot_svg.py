"""Axes, scales and lines of the small plots in cards. Pure: numbers in, SVG out.

Text has the colour of the page around it, so the pictures are right in light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from ...text import in_one_line

LOG_FROM = 100.0  # how many times as large as the smallest the largest value is, on a logarithmic axis
AXIS = "rgba(128,128,128,.45)"
FONT_PX = 10

Scale = Callable[[float], float]
Point = tuple[float, float]


class Box(NamedTuple):
    """The size of a picture, and what is left free around what is drawn."""

    width: int = 400
    height: int = 190
    left: int = 46
    right: int = 10
    top: int = 20
    bottom: int = 26


# ---- scales


def range_of(values: Sequence[float]) -> tuple[float, float, bool]:
    """From where to where an axis goes, and whether it is logarithmic."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOG_FROM:
        return low, high, True
    return low, high, False


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """From values to places."""
    span = high - low
    return lambda value: start + (end - start) * ((value - low) / span if span > 0 else 0.5)


def log_scale(low: float, high: float, start: float, end: float) -> Scale:
    """From positive values to places."""
    inner = linear(math.log(low), math.log(high), start, end)
    return lambda value: inner(math.log(value))


def ticks(low: float, high: float, is_log: bool, n: int = 4) -> list[float]:
    """Round numbers within a range, about `n` of them."""
    if not high > low:
        return [low]
    if is_log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        stride = max(1, math.ceil((last - first + 1) / (n + 1)))
        return [10.0**power for power in range(first, last + 1, stride)]
    rough = (high - low) / n
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


# ---- parts


def picture(box: Box, label: str, drawn: str, flex: str = "1 1 18rem") -> str:
    """An SVG as an item of a flexible row, never larger than its box."""
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {box.width} {box.height}" '
        f'style="flex:{flex};width:100%;min-width:0;max-width:{box.width}px;height:auto">{drawn}</svg>'
    )


def polyline(points: Sequence[Point], colour: str, width: float) -> str:
    """A line, or a dot of a single point."""
    if len(points) == 1:
        ((x, y),) = points
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 0.5}" fill="{colour}"/>'
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def y_axis(box: Box, low: float, high: float, y_of: Scale, is_log: bool, n: int = 4) -> str:
    """Lines across, with their values on the left."""
    return "".join(
        f'<line x1="{box.left}" x2="{box.width - box.right}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}" '
        f'stroke="{AXIS}" stroke-width=".5"/>' + text_at(box.left - 4, y_of(tick) + 3, f"{tick:.4g}", "end")
        for tick in ticks(low, high, is_log, n)
    )


def x_axis(box: Box, low: float, high: float, title: str) -> str:
    """From where to where, and of what."""
    y, right = box.height - box.bottom + 13, box.width - box.right
    return (
        text_at(box.left, y, f"{low:g}", "start")
        + (text_at(right, y, f"{high:g}", "end") if high > low else "")
        + text_at((box.left + right) / 2, y, title, "middle")
    )


def title_at_top(box: Box, text: str) -> str:
    """What is drawn."""
    return text_at(4, box.top - 8, in_one_line(text, 40), "start", bold=True)


def text_at(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    """Text in the page's colour."""
    weight = ' font-weight="600"' if bold else ""
    opacity = ".85" if bold else ".62"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{FONT_PX}" fill="currentColor" fill-opacity="{opacity}" '
        f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
    )
