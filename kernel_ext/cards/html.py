"""A future's card as HTML and as text. Pure: facts in, text out.

Output cells run the HTML that they are given. So everything foreign (names, reprs, tracebacks, column titles) is
escaped, pictures are PNG data that this process has checked, and a value's own HTML stands in a frame that may run
nothing, load nothing and see nothing of the page. Styles are inline and take their colours from JupyterLab's variables,
or from the text around the card where there are none. The card then looks right in light and dark, and in exported
notebooks. States differ by sign and word, not by colour alone.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ...text import duration, in_bytes, in_one_line
from .i18n import ENGLISH, Words, readers

SIZE_SHOWN = 256  # the bytes of an int are of no interest
TRACEBACK_CHARS = 20_000
FRAME_POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class CardFacts:
    """What is known of a ref's task and value. Times are in seconds; None where there is nothing to say.

    Attributes
    ----------
    inputs_s, queued_s : float or None
        How long it waited until its inputs were there, and from then on for a place to run.
    most_attempts : int
        How often it may be tried; -1: any number.
    retry_in_s : float or None
        How long it waits for its next attempt.
    state : str
        waiting, ready, running, finished, failed, cancelled or retrying.
    what : str
        task, actor_call, actor_creation or object.
    preview : dict or None
        What `preview.summarize` returned.
    error, traceback : str
        One line, and the remote traceback.
    note : str
        Why there is no preview.
    output : str
        The last lines that the task has printed.
    node : str
        The machine where it ran or was sent, where there are several; of another one than this `pid` is 0, and
        `pid_there` a process there.
    waits_for : str
        What a queued task waits for, in words; "" if that was not asked for.
    is_sent : bool
        A queued task was sent to `node` and waits there.
    since : str
        When it began to run, of one that waits elsewhere when it was sent.
    variable : str
        The notebook's, that holds the future; "" if none does by itself.
    """

    id: str
    state: str
    function: str = ""
    what: str = "task"
    cell: str = ""
    number: int = 0
    attempt: int = 0
    most_attempts: int = 0
    retry_in_s: float | None = None
    pid: int = 0
    inputs_s: float | None = None
    queued_s: float | None = None
    loaded_s: float | None = None
    ran_s: float | None = None
    since: str = ""
    size: int | None = None
    preview: dict[str, Any] | None = None
    error: str = ""
    traceback: str = ""
    note: str = ""
    output: str = ""
    depends_on: list[str] = field(default_factory=list)
    variable: str = ""
    node: str = ""
    pid_there: int = 0
    waits_for: str = ""
    is_sent: bool = False


# state -> (sign, words, colour); the colours are legible on white and on near-black
STATES = {
    "waiting": ("◌", "waiting", "#8a8f98"),
    "queued": ("○", "queued", "#8a8f98"),
    "running": ("◐", "running", "#3b82f6"),
    "finished": ("●", "finished", "#22a06b"),
    "failed": ("✕", "failed", "#e5484d"),
    "cancelled": ("⊘", "cancelled", "#b58100"),
    "retrying": ("↻", "retrying", "#b58100"),
    "gone": ("–", "its session has ended", "#8a8f98"),
}

_TEXT = "var(--jp-ui-font-color1, inherit)"
LINE = "var(--jp-border-color2, rgba(128,128,128,.3))"
_FAINT = "rgba(128,128,128,.10)"
_SANS = "var(--jp-ui-font-family, system-ui, sans-serif)"
_MONO = "var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace)"


def card_html(facts: CardFacts, words: Words | None = None) -> str:
    """The card, in the reader's language. No scripts, no style sheets, nothing loaded from anywhere."""
    words = words or readers()
    parts = [
        _head(facts, words),
        _time_bar(facts, words),
        _value(facts, words),
        failure(facts.error, facts.traceback),
        _output(facts, words),
        _what_to_type(facts),
    ]
    return frame(_label(facts, words), "".join(parts))


def frame(label: str, body: str) -> str:
    """The card around its parts; `label` is for readers who cannot see it."""
    return (
        f'<div class="cellmesh-card" role="group" aria-label="{escape(label)}" style="display:inline-block;'
        f"box-sizing:border-box;min-width:min(26rem,100%);max-width:min(54rem,100%);padding:.65rem .9rem;"
        f"margin:.15rem 0;border:1px solid {LINE};border-radius:.6rem;font:13px/1.5 {_SANS};color:{_TEXT};"
        f'background:var(--jp-layout-color1, transparent)">{body}</div>'
    )


def card_text(facts: CardFacts) -> str:
    """The card for terminals."""
    lines = [" · ".join(filter(None, (_label(facts, ENGLISH), _origin(facts), _times(facts, ENGLISH))))]
    if value := " · ".join(filter(None, _value_words(facts, ENGLISH))):
        lines.append(value)
    if facts.preview and "table" in facts.preview:
        lines += _table_text(facts.preview["table"])
    elif facts.preview and _text_of(facts.preview):
        lines.append(_text_of(facts.preview))
    lines += [in_one_line(facts.error, 1000)] if facts.error else []
    lines += [facts.note] if facts.note else []
    lines += [f"│ {line}" for line in facts.output.splitlines()]
    lines += [" · ".join(_magics(facts))] if facts.state == "failed" and _magics(facts) else []
    return "\n".join(lines)


def _label(facts: CardFacts, words: Words) -> str:
    return f"{in_one_line(facts.function) or words.say('a value')}: {words.say(STATES[facts.state][1])}"


def _origin(facts: CardFacts) -> str:
    cell = facts.cell if facts.cell != facts.function else ""  # a %%remote cell's task is called as the cell is
    return " · ".join(
        filter(
            None,
            (
                cell,
                in_one_line(facts.node),
                f"pid {facts.pid or facts.pid_there}" if facts.pid or facts.pid_there else "",
            ),
        )
    )


def _times(facts: CardFacts, words: Words) -> str:
    times = []
    if facts.inputs_s and facts.ran_s is not None:
        times.append(words.say("waited %1 for its inputs", duration(facts.inputs_s)))
    if facts.queued_s is not None and facts.ran_s is not None:
        times.append(words.say("queued %1", duration(facts.queued_s)))
    if facts.loaded_s is not None:
        times.append(words.say("arguments %1", duration(facts.loaded_s)))
    if facts.ran_s is not None and facts.state != "running":
        times.append(words.say("ran %1", duration(facts.ran_s)))
    if facts.since and facts.is_sent and facts.state == "queued":
        times.append(words.say("sent to %1 at %2", in_one_line(facts.node), facts.since))
    if facts.since and facts.state == "running":
        times.append(words.say("since %1", facts.since))
    if facts.retry_in_s and facts.most_attempts > 0:
        times.append(
            words.say(
                "waits %1 for its next attempt, %2 of %3",
                duration(facts.retry_in_s),
                facts.attempt + 1,
                facts.most_attempts,
            )
        )
    elif facts.retry_in_s:
        times.append(words.say("waits %1 for its next attempt", duration(facts.retry_in_s)))
    elif facts.attempt:
        times.append(words.say("attempt %1", facts.attempt + 1))
    if facts.waits_for:
        times.append(words.say("waits: %1", in_one_line(facts.waits_for, 1000)))
    return ", ".join(times)


def _head(facts: CardFacts, words: Words) -> str:
    sign, state, colour = STATES[facts.state]
    what = {"actor_creation": words.say("actor") + " ", "object": words.say("object") + " "}.get(facts.what, "")
    return head(sign, colour, what, in_one_line(facts.function) or "ObjectRef", words.say(state), _origin(facts))


def head(sign: str, colour: str, what: str, name: str, state: str, origin: str) -> str:
    """A card's first line: sign, kind and name, state, and on the right where it is."""
    return (
        f'<div style="display:flex;align-items:baseline;gap:.55rem;flex-wrap:wrap">'
        f'<span aria-hidden="true" style="color:{colour};font-size:1.1em;line-height:1">{sign}</span>'
        f'<span>{escape(what)}<code style="font:600 1em {_MONO};background:none;padding:0;color:inherit">'
        f"{escape(name)}</code></span>"
        f'<span style="color:{colour}">{escape(state)}</span>'
        f'<span style="margin-left:auto;padding-left:1.5rem;opacity:.62;white-space:nowrap">'
        f"{escape(origin)}</span></div>"
    )


def _time_bar(facts: CardFacts, words: Words) -> str:
    times = _times(facts, words)
    if not times:
        return ""
    bar = ""
    if facts.queued_s is not None and facts.ran_s is not None and facts.state not in ("running", "waiting", "queued"):
        total = facts.queued_s + facts.ran_s or 1.0
        queued = 100 * facts.queued_s / total
        bar = (
            f'<div aria-hidden="true" style="display:flex;height:3px;margin:.4rem 0 .1rem;border-radius:2px;'
            f'overflow:hidden;background:{_FAINT}">'
            f'<div style="width:{queued:.1f}%;background:rgba(128,128,128,.45)"></div>'
            f'<div style="flex:1;background:{STATES[facts.state][2]}"></div></div>'
        )
    return f'{bar}<div style="opacity:.62">{escape(times)}</div>'


def _value_words(facts: CardFacts, words: Words) -> list[str]:
    preview = facts.preview or {}
    shape = preview.get("shape")
    length = preview.get("length")
    return [
        in_one_line(preview.get("type", "")) if preview.get("type") != "NoneType" else "None",
        " × ".join(map(str, shape)) if shape else words.say("scalar array") if shape == [] else "",
        in_one_line(preview.get("dtype", "")),
        words.say("length %1", f"{length:,}") if length is not None else "",
        in_bytes(facts.size) if facts.size and facts.size >= SIZE_SHOWN else "",
    ]


def _value(facts: CardFacts, words: Words) -> str:
    if facts.state != "finished" or facts.what == "actor_creation":
        return ""
    kind, *rest = _value_words(facts, words)
    chips = "".join(
        f'<span style="padding:0 .45rem;border-radius:.5rem;background:{_FAINT}">{escape(word)}</span>'
        for word in rest
        if word
    )
    code = f"font:1em {_MONO};background:none;padding:0;color:inherit"
    name = f'<code style="{code}">{escape(kind)}</code>' if kind else ""
    row = "display:flex;gap:.5rem;align-items:baseline;flex-wrap:wrap;margin-top:.45rem"
    line = f'<div style="{row}">{name}{chips}</div>'
    note = f'<div style="opacity:.62;margin-top:.3rem">{escape(facts.note)}</div>' if facts.note else ""
    return (line if name or chips else "") + (_preview(facts.preview, words) if facts.preview else "") + note


def _preview(preview: dict[str, Any], words: Words) -> str:
    beside = "".join(
        part for part in (_image(preview, words), _histogram(preview, words), _stats(preview, words)) if part
    )
    row = (
        f'<div style="display:flex;gap:1rem;align-items:center;flex-wrap:wrap;margin-top:.5rem">{beside}</div>'
        if beside
        else ""
    )
    if "html" in preview:
        return row + _frame(str(preview["html"]), words)
    return row + (_table(preview["table"], words) if "table" in preview else pre(_text_of(preview)))


def _text_of(preview: dict[str, Any]) -> str:
    return (
        preview.get("text", "") if preview.get("type") != "NoneType" else ""
    )  # the type has said it: `print(x)` has no value


def _frame(html: str, words: Words) -> str:
    return (
        f'<iframe sandbox="" srcdoc="{escape(FRAME_POLICY + html)}" title="{escape(words.say("the value as HTML"))}" '
        'style="width:100%;'
        f"min-width:24rem;height:15rem;margin-top:.5rem;border:1px solid {LINE};border-radius:.4rem;"
        f'background:#fff"></iframe>'
    )


def pre(text: str) -> str:
    """A block of text in a card; "" for none."""
    if not text:
        return ""
    return (
        f'<pre style="margin:.5rem 0 0;padding:.45rem .6rem;max-height:15rem;overflow:auto;border-radius:.4rem;'
        f"background:{_FAINT};color:inherit;font:12px/1.45 {_MONO};white-space:pre-wrap;word-break:normal;"
        f'overflow-wrap:anywhere">{escape(text)}</pre>'
    )  # JupyterLab's own would break numbers in two


def _image(preview: dict[str, Any], words: Words) -> str:
    data = preview.get("image")
    if not isinstance(data, bytes) or not data.startswith(PNG_SIGNATURE):
        return ""
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return (
        f'<img alt="{escape(words.say("thumbnail"))}" src="{source}" '
        'style="max-width:16rem;max-height:9rem;min-width:4rem;border-radius:.3rem">'
    )


def _histogram(preview: dict[str, Any], words: Words) -> str:
    if "histogram" not in preview:
        return ""
    counts, low, high = preview["histogram"]
    top = max(counts) or 1
    bars = "".join(
        f'<rect x="{i * 7}" y="{40 - h:.1f}" width="6" height="{h:.1f}" rx="1"/>'
        for i, count in enumerate(counts)
        if (h := 40 * count / top) > 0 or count
    )
    label = words.say("histogram from %1 to %2", _number(low), _number(high))
    width = 7 * len(counts)
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} 52" width="{width}" height="52" '
        f'style="overflow:visible"><g fill="#3b82f6" fill-opacity=".75">{bars}</g>'
        f'<g fill="currentColor" fill-opacity=".62" font-size="9"><text x="0" y="51">{escape(_number(low))}</text>'
        f'<text x="{width}" y="51" text-anchor="end">{escape(_number(high))}</text></g></svg>'
    )


def _stats(preview: dict[str, Any], words: Words) -> str:
    stats = preview.get("stats")
    if not stats:
        return ""
    pairs = [(name, _number(stats[name])) for name in ("min", "mean", "max") if name in stats]
    if stats.get("nan"):
        pairs.append(("NaN", f"{stats['nan']:,}"))
    cells = "".join(
        f'<span style="opacity:.62">{name}</span><span style="font-family:{_MONO}">{escape(value)}</span>'
        for name, value in pairs
    )
    note = (
        f'<span style="grid-column:1/3;opacity:.62">{escape(words.say("from a sample"))}</span>'
        if stats.get("sampled")
        else ""
    )
    return f'<div style="display:grid;grid-template-columns:auto auto;gap:0 .7rem">{cells}{note}</div>' if pairs else ""


def _table(table: dict[str, Any], words: Words) -> str:
    edge = f"border-bottom:1px solid {LINE};padding:.15rem .6rem;text-align:right;white-space:nowrap"
    index = table["index"] or [""] * len(table["rows"])
    nulls = table.get("nulls") or [0] * len(table["columns"])
    heads = "".join(
        f'<th scope="col" style="{edge};font-weight:600">{escape(str(name))}<div style="font-weight:400;opacity:.62">'
        f"{escape(str(kind))}{escape(words.say(', %1 null', f'{n:,}')) if n else ''}</div></th>"
        for name, kind, n in zip(table["columns"], table["types"], nulls, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row" style="{edge};font-weight:400;opacity:.62">{escape(str(label))}</th>'
        + "".join(f'<td style="{edge}">{escape(str(item))}</td>' for item in row)
        + "</tr>"
        for label, row in zip(index, table["rows"], strict=True)
    )
    more = _more(table, words)
    return (
        f'<div style="overflow:auto;margin-top:.5rem"><table style="border-collapse:collapse;font:12px/1.4 {_MONO};'
        f'color:inherit"><thead><tr><th style="{edge}"></th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        + (f'<div style="opacity:.62">{escape(more)}</div>' if more else "")
    )


def _more(table: dict[str, Any], words: Words) -> str:
    rows, columns = table["n_rows"] - len(table["rows"]), table["n_columns"] - len(table["columns"])
    more = [
        words.count("%2 more row", "%2 more rows", rows) if rows > 0 else "",
        words.count("%2 more column", "%2 more columns", columns) if columns > 0 else "",
    ]
    return words.say("%1 and %2", *more) if all(more) else "".join(more)


def _table_text(table: dict[str, Any]) -> list[str]:
    lines = [table["columns"], *table["rows"]]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(table["columns"]))]
    text = ["  ".join(str(item).rjust(width) for item, width in zip(line, widths, strict=True)) for line in lines]
    return [*text, *filter(None, [_more(table, ENGLISH)])]


def failure(error: str, traceback: str) -> str:
    """An error's line, with its traceback folded below; "" for none."""
    if not error:
        return ""
    style = f"color:{STATES['failed'][2]};font-family:{_MONO};overflow-wrap:anywhere"
    line = f'<span style="{style}">{escape(error)}</span>'
    if not traceback:
        return f'<div style="margin-top:.45rem">{line}</div>'
    return (
        f'<details style="margin-top:.45rem"><summary style="cursor:pointer">{line}</summary>'
        f"{pre(traceback[-TRACEBACK_CHARS:])}</details>"
    )


def _output(facts: CardFacts, words: Words) -> str:
    if not facts.output:
        return ""
    last = facts.output.rstrip().rpartition("\n")[2]
    summary = (
        f'<span style="opacity:.62">{escape(words.say("printed"))}</span> <code style="font:1em '
        f'{_MONO};background:none;color:inherit">'
    )
    return (
        f'<details style="margin-top:.45rem"><summary style="cursor:pointer;overflow-wrap:anywhere">{summary}'
        f"{escape(last[-200:])}</code></summary>{pre(facts.output)}</details>"
    )


# A button in an output cell would need scripts, which a front end runs for trusted notebooks only.
MAGICS = {
    "waiting": ("%cancel",),
    "queued": ("%cancel",),
    "retrying": ("%cancel",),
    "running": ("%cancel", "%inspect"),
    "finished": ("%fetch",),
    "failed": ("%retry", "%inspect --pdb"),
    "cancelled": ("%retry",),
}


def _what_to_type(facts: CardFacts) -> str:
    return to_type(_magics(facts))


def _magics(facts: CardFacts) -> list[str]:
    """The lines that do something with the future, if a variable holds it."""
    if not facts.variable or facts.what not in ("task", "object"):
        return []
    return [
        f"{magic} {facts.variable}"
        for magic in MAGICS.get(facts.state, ())
        if magic != "%inspect --pdb" or facts.traceback
    ]  # of a process that was killed there are no frames


def to_type(lines: list[str]) -> str:
    """What can be typed about what the card shows."""
    style = f"font:.92em {_MONO};background:{_FAINT};padding:0 .4rem;border-radius:.3rem;color:inherit;"
    style += "white-space:normal;overflow-wrap:anywhere"
    codes = "".join(f'<code style="{style}">{escape(line)}</code>' for line in lines)
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:.2rem .5rem;margin-top:.45rem;opacity:.62">{codes}</div>'
        if codes
        else ""
    )


def _number(value: float) -> str:
    return f"{value:.5g}"
