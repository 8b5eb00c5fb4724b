"""Pictures of a run of learning: the return over the steps, and a small plot of each loss. Pure: a view in, SVG out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...observe.learning import ITERATION, STEPS, Column, LearningView, is_count
from .plot_svg import AXIS, Box, Point, Scale, linear, log_scale, picture, polyline, range_of, text_at, title_at_top
from .plot_svg import x_axis as x_axis_of
from .plot_svg import y_axis as y_axis_of

RETURN, LOWEST, HIGHEST = "episode_return_mean", "episode_return_min", "episode_return_max"
LENGTH, RATE, EVALUATION = "episode_length_mean", "steps_per_s", "evaluation_return_mean"
N_POINTS = 120  # of a curve: the card is sent four times a second
N_LOSSES = 4  # small plots
BLUE, BAND, AMBER = "#3b82f6", "rgba(59,130,246,.16)", "#b58100"
MAIN = Box()
SMALL = Box(200, 93, 46, 8, 22, 8)


def metric_of(view: LearningView) -> str:
    """What the large plot shows: the return, else the goal, else the first loss, else the first metric; "" for none."""
    goal = view.goal[0] if view.goal is not None else ""
    of_losses = losses_of(view)
    for name in (RETURN, goal, *of_losses):
        if name in view.columns and np.isfinite(view.columns[name]).any():
            return name
    return ""


def losses_of(view: LearningView) -> list[str]:
    """What the small plots show: losses first, then what else an algorithm tells, such as entropy."""
    known = {RETURN, LOWEST, HIGHEST, LENGTH, RATE, EVALUATION}
    names = [name for name in view.columns if name not in known and not is_count(name)]
    return sorted(names, key=lambda name: "loss" not in name)[:N_LOSSES]


def main_svg(view: LearningView, label: str, x_titles: tuple[str, str], goal_title: str) -> str:
    """The return, with the range of the last episodes around it, over steps or iterations; "" for nothing."""
    metric = metric_of(view)
    if not metric:
        return ""
    over = STEPS if STEPS in view.columns else ITERATION
    xs = view.columns.get(over, np.arange(1.0, len(view.at) + 1))
    line = _points(xs, view.columns[metric])
    has_band = metric == RETURN and {LOWEST, HIGHEST} <= view.columns.keys()
    band = [_points(xs, view.columns[name]) if has_band else [] for name in (LOWEST, HIGHEST)]
    tested = _points(xs, view.columns[EVALUATION]) if metric == RETURN and EVALUATION in view.columns else []
    goal = view.goal[1] if view.goal is not None and view.goal[0] == metric else math.nan
    values = [y for points in (line, *band, tested) for _, y in points]
    values += [goal] if math.isfinite(goal) else []
    low, high, is_log = range_of(values) if metric != RETURN else (min(values), max(values), False)
    box, first, last = MAIN, line[0][0], line[-1][0]
    x_of = linear(first, last, box.left, box.width - box.right)
    y_of = (log_scale if is_log else linear)(low, high, box.height - box.bottom, box.top)
    drawn = y_axis_of(box, low, high, y_of, is_log)
    if all(len(points) > 1 for points in band):
        lower, upper = (_placed(points, x_of, y_of) for points in band)
        around = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
        drawn += f'<polygon points="{around}" fill="{BAND}"/>'
    if math.isfinite(goal):
        y = y_of(goal)
        beside = y - 4 if y > box.top + 12 else y + 12
        drawn += (
            f'<line x1="{box.left}" x2="{box.width - box.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{AMBER}" '
            'stroke-dasharray="4 3"/>' + text_at(box.left + 4, beside, f"{goal_title} {goal:g}", "start")
        )
    drawn += polyline(_placed(line, x_of, y_of), BLUE, 2.0)
    drawn += "".join(polyline([point], AMBER, 2.0) for point in _placed(tested, x_of, y_of))
    drawn += x_axis_of(box, first, last, x_titles[0] if over == STEPS else x_titles[1])
    return picture(box, label, drawn + title_at_top(box, metric))


def small_svg(view: LearningView, name: str, label: str) -> str:
    """One metric over the whole run, with its latest value; "" if there is none."""
    points = _points(np.arange(len(view.at), dtype=float), view.columns[name])
    if not points:
        return ""
    box = SMALL
    low, high, is_log = range_of([y for _, y in points])
    x_of = linear(points[0][0], points[-1][0], box.left, box.width - box.right)
    y_of = (log_scale if is_log else linear)(low, high, box.height - box.bottom, box.top)
    latest = text_at(box.width - box.right, box.top - 8, f"{points[-1][1]:.4g}", "end")
    frame = (
        f'<line x1="{box.left}" x2="{box.width - box.right}" y1="{box.height - box.bottom}" '
        f'y2="{box.height - box.bottom}" stroke="{AXIS}" stroke-width=".5"/>'
    )
    drawn = frame + y_axis_of(box, low, high, y_of, is_log, 2) + polyline(_placed(points, x_of, y_of), BLUE, 1.5)
    return picture(box, label, drawn + title_at_top(box, name) + latest, "0 1 calc(50% - .25rem)")


def _points(xs: Column, ys: Column) -> list[Point]:
    """The points that there are, thinned evenly, the last one among them."""
    there = np.flatnonzero(np.isfinite(xs) & np.isfinite(ys))
    if len(there) > N_POINTS:
        there = there[np.linspace(0, len(there) - 1, N_POINTS).round().astype(np.intp)]
    return list(zip(xs[there].tolist(), ys[there].tolist(), strict=True))


def _placed(points: Sequence[Point], x_of: Scale, y_of: Scale) -> list[Point]:
    return [(x_of(x), y_of(y)) for x, y in points]
