"""An experiment's card as HTML and as text. Pure; it escapes what is foreign as `html` does."""

from __future__ import annotations

import math
import unicodedata
from html import escape

from ...text import duration, in_one_line
from .experiment_facts import ExperimentFacts, Row, number
from .experiment_svg import COLOURS, curves_svg, parallel_svg
from .html import LINE, failure, frame, head, to_type
from .i18n import ENGLISH, Words, readers

ERROR_CHARS = 1000
# state -> (sign, colour), as of futures
STATES = {
    "running": ("◐", "#3b82f6"),
    "paused": ("‖", "#b58100"),
    "finished": ("●", "#22a06b"),
    "stopped": ("■", "#8a8f98"),
    "failed": ("✕", "#e5484d"),
    "left": ("⊘", "#b58100"),
    "unreadable": ("✕", "#e5484d"),
}
TRIAL_SIGNS = {
    "PENDING": ("○", "#8a8f98"),
    "RUNNING": ("◐", "#3b82f6"),
    "PAUSED": ("‖", "#b58100"),
    "TERMINATED": ("●", "#22a06b"),
    "ERROR": ("✕", "#e5484d"),
}
MONO = "var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace)"
AMBER = "#b58100"
SIGN_PLACES = 1  # that a sign is wider than a letter
ROW = f"display:flex;flex-wrap:wrap;height:1.7em;padding:0;overflow:hidden;border:0;border-bottom:1px solid {LINE}"


def experiment_html(facts: ExperimentFacts, words: Words | None = None) -> str:
    """The card, in the reader's language. No scripts, no style sheets, nothing loaded from anywhere."""
    words = words or readers()
    sign, colour = STATES[facts.state]
    parts = [
        head(
            sign,
            colour,
            f"{words.say('experiment')} ",
            in_one_line(facts.name),
            _state(facts.state, words),
            _origin(facts),
        ),
        _bar(facts),
        f'<div style="opacity:.62">{escape(_counts(facts, words))}</div>',
        _faint(facts.why),
        _best(facts, words),
        _pictures(facts, words),
        _table(facts, words),
        _error(facts, words),
        *(f'<div style="color:{AMBER};overflow-wrap:anywhere">▲ {escape(text)}</div>' for text in facts.told),
        to_type(_what_to_type(facts)),
    ]
    return frame(f"{words.say('experiment')} {in_one_line(facts.name)}: {_state(facts.state, words)}", "".join(parts))


def experiment_text(facts: ExperimentFacts) -> str:
    """The card in one to three lines, for terminals."""
    first = f"experiment {in_one_line(facts.name)}: {_state(facts.state, ENGLISH)} · {_counts(facts, ENGLISH)}"
    lines = [first + (f" · {duration(facts.elapsed_s)}" if facts.elapsed_s else "")]
    if facts.best is not None:
        lines.append(_best_in_words(facts, facts.best, ENGLISH))
    if facts.error is not None:
        trial, error, line = facts.error
        lines.append(in_one_line(f"trial {trial} failed: {error}" + (f" ({line})" if line else ""), ERROR_CHARS))
    elif facts.told:
        lines.append(in_one_line(facts.told[-1], ERROR_CHARS))
    elif facts.why:
        lines[0] += f" · {in_one_line(facts.why, ERROR_CHARS)}"
    return "\n".join(lines)


def _state(state: str, words: Words) -> str:
    return {
        "running": words.say("running"),
        "paused": words.say("paused"),
        "finished": words.say("finished"),
        "stopped": words.say("stopped"),
        "failed": words.say("failed"),
        "left": words.say("nobody runs it"),
        "unreadable": words.say("cannot be read"),
    }[state]


def _origin(facts: ExperimentFacts) -> str:
    return " · ".join(filter(None, (facts.cell, duration(facts.elapsed_s) if facts.elapsed_s else "")))


def _counts(facts: ExperimentFacts, words: Words) -> str:
    n_all = max(facts.n_all or 0, facts.n_rows)
    ended = (
        words.say("%1 of %2 trials ended", f"{facts.n_ended:,}", f"{n_all:,}")
        if facts.n_all is not None
        else words.count("%2 trial ended", "%2 trials ended", facts.n_ended)
    )
    others = (
        words.say("%1 running", f"{facts.n_running:,}") if facts.n_running else "",
        words.say("%1 waiting", f"{facts.n_waiting:,}") if facts.n_waiting else "",
        words.say("%1 paused", f"{facts.n_paused:,}") if facts.n_paused else "",
        words.say("%1 failed", f"{facts.n_failed:,}") if facts.n_failed else "",
    )
    return " · ".join(filter(None, (ended, *others)))


def _bar(facts: ExperimentFacts) -> str:
    n_all = max(facts.n_all or 0, facts.n_rows)
    shares = [
        (facts.n_ended - facts.n_failed, TRIAL_SIGNS["TERMINATED"][1], 1.0),
        (facts.n_failed, TRIAL_SIGNS["ERROR"][1], 1.0),
        (facts.n_running, TRIAL_SIGNS["RUNNING"][1], 0.45),
        (facts.n_paused, TRIAL_SIGNS["PAUSED"][1], 0.45),
    ]
    parts = "".join(
        f'<div style="width:{100 * n / n_all:.2f}%;background:{colour};opacity:{opacity:g}"></div>'
        for n, colour, opacity in shares
        if n and n_all
    )
    return (
        '<div aria-hidden="true" style="display:flex;height:4px;margin:.45rem 0 .15rem;border-radius:2px;'
        f'overflow:hidden;background:rgba(128,128,128,.22)">{parts}</div>'
    )


def _faint(text: str) -> str:
    return f'<div style="opacity:.62;overflow-wrap:anywhere">{escape(text)}</div>' if text else ""


def _best(facts: ExperimentFacts, words: Words) -> str:
    if facts.best is None:
        return ""
    text = escape(_best_in_words(facts, facts.best, words))
    return f'<div style="margin-top:.35rem;overflow-wrap:anywhere">{text}</div>'


def _best_in_words(facts: ExperimentFacts, best: Row, words: Words) -> str:
    what = words.say("best %1: %2, trial %3", in_one_line(facts.metric), number(best.value), best.number)
    config = ", ".join(
        f"{in_one_line(name)}={value}" for name, value in zip(facts.names, best.parameters, strict=True) if value
    )
    return f"{what} · {config}" if config else what


def _pictures(facts: ExperimentFacts, words: Words) -> str:
    curves = curves_svg(
        facts,
        words.say("%1 of the trials, the best ones in colour", facts.metric),
        words.say("iteration"),
        words.say("trial"),
    )
    parallel = parallel_svg(facts, words.say("parameters of the trials, and what came of them"))
    if not curves:
        return ""
    return f'<div style="display:flex;gap:.4rem 1rem;flex-wrap:wrap;margin-top:.5rem">{curves}{parallel}</div>'


def _table(facts: ExperimentFacts, words: Words) -> str:
    """The best trials. Columns for which a narrow place has no room are left out as a whole: a row is as high as one
    line, and cells that do not fit go to the next one, which nobody sees.
    """
    if not facts.rows:
        return ""
    heads = [
        words.say("trial"),
        "",
        in_one_line(facts.metric, 24),
        words.say("iteration"),
        *(in_one_line(n, 24) for n in facts.names),
    ]
    texts = [_cells(row, words) for row in facts.rows]
    widths = [max(map(_n_places, column)) for column in zip(heads, *texts, strict=True)]
    widths[1] += SIGN_PLACES
    top = "".join(
        f'<th scope="col" role="columnheader" style="{_cell(n)};font-weight:600">{escape(text)}</th>'
        for text, n in zip(heads, widths, strict=True)
    )
    rows = "".join(
        _table_row(row, rank, cells, widths, words)
        for rank, (row, cells) in enumerate(zip(facts.rows, texts, strict=True))
    )
    more = facts.n_rows - len(facts.rows)
    note = words.count("%2 more trial", "%2 more trials", more) if more > 0 else ""
    block = 'role="rowgroup" style="display:block;border:0"'
    return (
        f'<table role="table" style="display:block;width:100%;margin:.4rem 0 0;font:12px/1.7 {MONO};color:inherit">'
        f'<thead {block}><tr role="row" style="{ROW}">{top}</tr></thead><tbody {block}>{rows}</tbody></table>'
        f"{_faint(note)}"
    )


def _cells(row: Row, words: Words) -> list[str]:
    """What stands in a row. Of a trial that has ended the sign alone says so."""
    value = "–" if math.isnan(row.value) else number(row.value)
    state = "" if row.state == "TERMINATED" else f" {_trial_state(row.state, words)}"
    return [f"{row.number}", TRIAL_SIGNS[row.state][0] + state, value, f"{row.iteration or '–'}", *row.parameters]


def _trial_state(state: str, words: Words) -> str:
    return {
        "PENDING": words.say("pending"),
        "RUNNING": words.say("running"),
        "PAUSED": words.say("paused"),
        "TERMINATED": words.say("ended"),
        "ERROR": words.say("failed"),
    }[state]


def _table_row(row: Row, rank: int, cells: list[str], widths: list[int], words: Words) -> str:
    has_line = rank < len(COLOURS) and not math.isnan(row.value)
    of_line = f";box-shadow:inset 3px 0 0 {COLOURS[rank]}" if has_line else ""
    (sign, colour), state = TRIAL_SIGNS[row.state], escape(_trial_state(row.state, words))
    numbers = "".join(
        f'<td role="cell" style="{_cell(n)}">{escape(text)}</td>' for text, n in zip(cells[2:], widths[2:], strict=True)
    )
    return (
        f'<tr role="row" style="{ROW}">'
        f'<th scope="row" role="rowheader" style="{_cell(widths[0])};font-weight:400{of_line}">{cells[0]}</th>'
        f'<td role="cell" style="{_cell(widths[1])};text-align:left"><span role="img" aria-label="{state}" '
        f'title="{state}" style="color:{colour}">{sign}</span>{escape(cells[1].removeprefix(sign))}</td>{numbers}</tr>'
    )


def _cell(n_places: int) -> str:
    return (
        f"flex:0 0 {n_places}ch;box-sizing:content-box;height:1.7em;line-height:1.7em;padding:0 .45rem;border:0;"
        "text-align:right;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
    )


def _n_places(text: str) -> int:
    """How wide a text is in a font of equal letters."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _error(facts: ExperimentFacts, words: Words) -> str:
    if facts.error is None:
        return ""
    trial, error, line = facts.error
    text = words.say("trial %1 failed: %2", trial, in_one_line(error.partition("\n")[0], ERROR_CHARS))
    where = (
        f'<div style="font:12px/1.45 {MONO};opacity:.75;overflow-wrap:anywhere">'
        f"{escape(in_one_line(line, ERROR_CHARS))}</div>"
        if line
        else ""
    )
    return failure(text, "") + where


def _what_to_type(facts: ExperimentFacts) -> list[str]:
    name = in_one_line(facts.name)
    if facts.state == "running":
        return [f"%tune stop {name}", f"%tune pause {name}"]
    if facts.state == "paused":
        return [f"%tune resume {name}", f"%tune stop {name}"]
    return [f"cellmesh.tune.resume({name!r})"] if facts.state == "left" else []
