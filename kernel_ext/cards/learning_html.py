"""The card of a run of learning as HTML and as text. Pure; it escapes what is foreign as `html` does."""

from __future__ import annotations

import math
from html import escape

from ...observe.learning import ITERATION, STEPS, LearningView
from ...text import duration, in_one_line
from .experiment_facts import number
from .html import failure, frame, head
from .i18n import ENGLISH, Words, readers
from .learning_svg import HIGHEST, LENGTH, LOWEST, RATE, RETURN, losses_of, main_svg, metric_of, small_svg

WHY_CHARS, SETTINGS_CHARS = 1000, 200
SMALL_PLOTS = "display:flex;flex:1 1 18rem;flex-wrap:wrap;align-content:flex-start;gap:.25rem .5rem;max-width:408px"
N_FIGURES = 4  # of metrics that are none of episodes
# state -> (sign, colour), as of experiments
STATES = {
    "running": ("◐", "#3b82f6"),
    "paused": ("‖", "#b58100"),
    "reached": ("●", "#22a06b"),
    "stopped": ("■", "#8a8f98"),
    "diverged": ("✕", "#e5484d"),
    "failed": ("✕", "#e5484d"),
}


def learning_html(view: LearningView, now: float, words: Words | None = None) -> str:
    """The card, in the reader's language. No scripts, no style sheets, nothing loaded from anywhere."""
    words = words or readers()
    sign, colour = STATES[view.state]
    title, state, elapsed_s = in_one_line(view.title), _state(view.state, words), _elapsed_s(view, now)
    figures = "".join(
        f'<div><div style="opacity:.62;font-size:.85em">{escape(label)}</div>'
        f'<div style="font-variant-numeric:tabular-nums;white-space:nowrap">{escape(value)}</div></div>'
        for label, value in _figures(view, words)
    )
    metric = metric_of(view)
    main = main_svg(
        view,
        words.say("%1 over the steps of the run", metric),
        (words.say("steps"), words.say("iteration")),
        words.say("goal"),
    )
    small = "".join(
        small_svg(view, name, words.say("%1 over the steps of the run", name))
        for name in losses_of(view)
        if name != metric
    )
    if small:
        small = f'<div style="{SMALL_PLOTS}">{small}</div>'
    parts = [
        head(sign, colour, f"{words.say('learning')} ", title, state, duration(elapsed_s) if elapsed_s else ""),
        f'<div style="opacity:.62;overflow-wrap:anywhere">{escape(in_one_line(view.settings, SETTINGS_CHARS))}</div>',
        f'<div style="display:flex;flex-wrap:wrap;gap:.25rem 1.4rem;margin-top:.4rem">{figures}</div>',
        f'<div style="display:flex;flex-wrap:wrap;gap:.3rem 1rem;margin-top:.5rem">{main}{small}</div>' if main else "",
        failure(in_one_line(view.why, WHY_CHARS), ""),
    ]
    return frame(f"{words.say('learning')} {title}: {state}", "".join(parts))


def learning_text(view: LearningView, now: float) -> str:
    """The card in a line, for terminals; in two where it has failed."""
    elapsed_s = _elapsed_s(view, now)
    parts = [
        f"learning {in_one_line(view.title)}: {_state(view.state, ENGLISH)}",
        *(f"{label} {value}" for label, value in _figures(view, ENGLISH)),
        *([duration(elapsed_s)] if elapsed_s else []),
    ]
    return " · ".join(parts) + (f"\n{in_one_line(view.why, WHY_CHARS)}" if view.why else "")


def _elapsed_s(view: LearningView, now: float) -> float:
    """Until now, the end, or the latest result."""
    if not view.n_results:
        return 0.0
    end = view.at[-1] if view.state == "paused" else now if math.isnan(view.ended_at) else view.ended_at
    return max(0.0, float(end) - view.began_at)


def _figures(view: LearningView, words: Words) -> list[tuple[str, str]]:
    """What stands above the pictures: names and values of the latest result."""
    last, figures = view.last, list[tuple[str, str]]()

    def add(label: str, name: str, text: str) -> None:
        if name in last and math.isfinite(last[name]):
            figures.append((label, text))

    value = last.get
    if math.isfinite(value(RETURN, math.nan)):
        around = ""
        if LOWEST in last and HIGHEST in last:
            around = f" ({words.say('%1 to %2', number(last[LOWEST]), number(last[HIGHEST]))})"
        figures.append((words.say("return"), number(last[RETURN]) + around))
    add(words.say("episode length"), LENGTH, number(value(LENGTH, math.nan)))
    add(words.say("steps"), STEPS, f"{value(STEPS, 0):,.0f}")
    add(words.say("steps/s"), RATE, f"{value(RATE, 0):,.0f}" if value(RATE, 0) >= 10 else number(value(RATE, 0)))
    add(words.say("iteration"), ITERATION, f"{value(ITERATION, 0):,.0f}")
    if RETURN not in last:
        for name in losses_of(view)[:N_FIGURES]:
            add(in_one_line(name, 24), name, number(value(name, math.nan)))
    return figures


def _state(state: str, words: Words) -> str:
    return {
        "running": words.say("running"),
        "paused": words.say("paused"),
        "reached": words.say("goal reached"),
        "stopped": words.say("stopped"),
        "diverged": words.say("diverged"),
        "failed": words.say("failed"),
    }[state]
