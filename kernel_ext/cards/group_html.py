"""The card of futures by rank as HTML and as text: a row for each, and a plot where the values are numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from ...text import in_bytes, in_one_line
from .html import SIZE_SHOWN, STATES, CardFacts, frame, head
from .plot_svg import Box, linear, picture, range_of, text_at, y_axis

TEXT_CHARS = 60  # of a value, in its row
N_ROWS = 64  # more ranks are told by their number
N_PLOTTED = 256
COLOUR = "#3b82f6"


class RankFacts(NamedTuple):
    """What is known of the future of one rank."""

    rank: int
    facts: CardFacts


def numbers_of(ranks: Sequence[RankFacts]) -> list[float] | None:
    """The values, where all of them are numbers."""
    found = [_number(one.facts) for one in ranks]
    return [x for x in found if x is not None] if None not in found else None


def _number(facts: CardFacts) -> float | None:
    preview = facts.preview or {}
    if preview.get("type") in ("int", "float"):
        text = preview.get("text", "")
    elif preview.get("type", "").startswith("numpy.") and "shape" not in preview and "(" in preview.get("text", ""):
        text = preview["text"].partition("(")[2].removesuffix(")")  # np.float64(3.5)
    elif preview.get("shape") == [] and "stats" in preview:
        text = str(preview["stats"].get("mean"))
    else:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def value_of(facts: CardFacts) -> str:
    """What stands in a rank's row: the value, or what is wrong, in one line."""
    if facts.error:
        return in_one_line(facts.error, 2 * TEXT_CHARS)
    preview = facts.preview or {}
    shape = preview.get("shape")
    large = in_bytes(facts.size) if facts.size and facts.size >= SIZE_SHOWN else ""
    if not preview:
        return large
    text = in_one_line(str(preview.get("text", "")), TEXT_CHARS)
    if shape or not text:
        parts = (preview["type"], " × ".join(map(str, shape or [])), preview.get("dtype", ""), large)
        return in_one_line(" · ".join(filter(None, parts)), TEXT_CHARS)
    return text


def group_text(label: str, ranks: Sequence[RankFacts]) -> str:
    """The card for terminals."""
    lines = [f"{in_one_line(label)} by rank"]
    for rank, facts in ranks[:N_ROWS]:
        sign, words, _ = STATES[facts.state]
        lines.append(f"  rank {rank}: {value_of(facts) if _says_all(facts) else f'{sign} {words}'}".rstrip())
    return "\n".join([*lines, *_more(ranks)])


def group_html(label: str, ranks: Sequence[RankFacts]) -> str:
    """The card. No scripts; styles as those of a future's card."""
    states = [one.facts.state for one in ranks]
    worst = next((state for state in STATES if state != "finished" and state in states), "finished")
    sign, words, colour = STATES["failed" if "failed" in states else worst]
    n_done = states.count("finished")
    said = words if n_done in (0, len(states)) else f"{n_done} of {len(states)} finished"
    rows = "".join(_row(one) for one in ranks[:N_ROWS])
    table = (
        f'<table style="border-collapse:collapse;table-layout:auto;width:auto;margin:.45rem 0 0"><tbody>{rows}</tbody>'
        "</table>"
    )
    more = "".join(f'<div style="opacity:.62">{escape(line)}</div>' for line in _more(ranks))
    body = head(sign, colour, "", in_one_line(label), said, "by rank") + table + more + plot(label, ranks)
    return frame(f"{label} by rank: {said}", body)


def plot(label: str, ranks: Sequence[RankFacts]) -> str:
    """A bar for each rank, where all values are numbers; "" otherwise."""
    numbers = numbers_of(ranks)
    if numbers is None or not 1 < len(numbers) <= N_PLOTTED:
        return ""
    box = Box(height=110, top=10, bottom=18)
    low, high, _ = range_of([*numbers, 0.0])
    if not high > low:
        return ""
    y_of = linear(low, high, box.height - box.bottom, box.top)
    width = (box.width - box.left - box.right) / len(numbers)
    bars = "".join(
        f'<rect x="{box.left + width * (i + 0.1):.1f}" width="{width * 0.8:.1f}" '
        f'y="{min(y_of(x), y_of(0)):.1f}" height="{max(abs(y_of(x) - y_of(0)), 0.5):.1f}" fill="{COLOUR}">'
        f"<title>rank {one.rank}: {x:.6g}</title></rect>"
        for i, (one, x) in enumerate(zip(ranks, numbers, strict=True))
    )
    every = math.ceil(len(numbers) / 16)
    names = "".join(
        text_at(box.left + width * (i + 0.5), box.height - 5, str(one.rank), "middle")
        for i, one in enumerate(ranks)
        if not i % every
    )
    drawn = y_axis(box, low, high, y_of, False, 3) + bars + names
    return f'<div style="display:flex;margin-top:.5rem">{picture(box, f"{label} by rank", drawn)}</div>'


def _row(one: RankFacts) -> str:
    sign, words, colour = STATES[one.facts.state]
    state = f'<span style="color:{colour}"><span aria-hidden="true">{sign}</span> {escape(words)}</span>'
    cell = "padding:.1rem .9rem .1rem 0;border:0;background:none;vertical-align:baseline;text-align:left"
    value = f'<code style="background:none;padding:0;color:inherit">{escape(value_of(one.facts))}</code>'
    return (
        f'<tr style="background:none"><th scope="row" style="{cell};white-space:nowrap">rank {one.rank}</th>'
        f'<td style="{cell};white-space:nowrap">{state}</td>'
        f'<td style="{cell}">{value}</td></tr>'
    )


def _says_all(facts: CardFacts) -> bool:
    """Whether what is wrong, or the value, need no word of the state beside it."""
    return bool(value_of(facts)) and facts.state in ("finished", "failed")


def _more(ranks: Sequence[RankFacts]) -> list[str]:
    return [f"and {len(ranks) - N_ROWS} more ranks"] if len(ranks) > N_ROWS else []
