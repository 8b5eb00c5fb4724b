"""Progress bars of tasks as text and as HTML. Pure: counts in, text out.

The HTML has no script and no style sheet, and what is foreign in it (names, errors) is escaped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from ..scheduler.ipc.messages import BAR_COLOUR

N_GROUPS = 12  # bars by function; further functions are counted together
N_COLUMNS = 20  # of a bar in text
WINDOW_S = 15.0  # over which the rate is taken
BLOCKS = " ▏▎▍▌▋▊▉█"
# Each legible on white and on near-black; states differ by their words, too.
COLOURS = {"finished": "#22a06b", "failed": "#e5484d", "cancelled": "#b58100", "running": "#3b82f6"}
ACCENTS = {"cancelled": "#8a6200"}  # of a progress element, which has a dark track where its colour is light
LINE = "rgba(128,128,128,.22)"


@dataclass
class Counts:
    """Tasks by state; what is in none of these waits."""

    total: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0

    @property
    def ended(self) -> int:
        return self.finished + self.failed + self.cancelled

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.finished + other.finished,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
            self.running + other.running,
        )


class Rate:
    """Tasks a second, over the last `WINDOW_S`."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, n_ended: int) -> float | None:
        """Take in how many have ended by now; None while nothing can be said."""
        self._looks.append((now_s, n_ended))
        while len(self._looks) > 2 and self._looks[1][0] <= now_s - WINDOW_S:
            self._looks.popleft()
        (since_s, n_before), _ = self._looks[0], None
        return (n_ended - n_before) / (now_s - since_s) if n_ended > n_before and now_s > since_s else None


@dataclass(frozen=True)
class View:
    """What is to be shown.

    Attributes
    ----------
    groups : mapping of str to Counts
        By function.
    title : str
    rate : float or None
        Tasks a second; of what is over, of the whole time.
    elapsed_s : float
        Since it is looked at.
    is_over : bool
        Nothing changes any more.
    error : str
        Of the first that has failed.
    """

    groups: Mapping[str, Counts]
    title: str = ""
    rate: float | None = None
    elapsed_s: float = 0.0
    is_over: bool = False
    error: str = ""

    @property
    def all(self) -> Counts:
        return sum(self.groups.values(), Counts())

    def rows(self) -> list[tuple[str, Counts, str]]:
        """Name, counts and words of each bar: first all together, then each function if there are several."""
        everything = self.all
        one = next(iter(self.groups), "tasks") if len(self.groups) < 2 else "tasks"
        rows = [(self.title or one, everything, " · ".join(filter(None, (_states(everything), self._pace()))))]
        if len(self.groups) < 2:
            return rows
        groups = list(self.groups.items())
        shown, further = (groups, []) if len(groups) <= N_GROUPS else (groups[: N_GROUPS - 1], groups[N_GROUPS - 1 :])
        rows += [(name, counts, _states(counts)) for name, counts in shown]
        if further:
            counts = sum((counts for _, counts in further), Counts())
            rows.append((f"{len(further)} more functions", counts, _states(counts)))
        return rows

    def _pace(self) -> str:
        if self.is_over:
            return f"in {in_time(self.elapsed_s)}" if self.elapsed_s >= 0.01 else ""  # else it was over already
        if self.rate is None:
            return ""
        left = self.all.total - self.all.ended
        return f"{_rate(self.rate)} · {in_time(left / self.rate)} left"


def text_lines(view: View) -> list[str]:
    """A line for each bar."""
    rows = view.rows()
    width = max(len(name) for name, *_ in rows)
    return [
        f"{name:<{width}} {_share(counts)}|{_text_bar(counts)}| {counts.ended:,}/{counts.total:,}"
        + (f" · {words}" if words else "")
        for name, counts, words in rows
    ]


def plain_text(view: View) -> str:
    return "\n".join([*text_lines(view), *([f"first error: {view.error}"] if view.error else [])])


def html_of(view: View) -> str:
    """The bars as a block."""
    rows = "".join(
        _html_row(name, counts, words, is_first=number == 0) for number, (name, counts, words) in enumerate(view.rows())
    )
    error = (
        f'<div style="grid-column:1/4;width:0;min-width:100%;color:{COLOURS["failed"]};overflow-wrap:anywhere">'
        f"first error: {escape(view.error)}</div>"
        if view.error
        else ""
    )
    return (
        f'<div class="cellmesh-progress" style="display:grid;gap:.15rem .8rem;'
        f"grid-template-columns:max-content minmax(3em,20em) minmax(8em,max-content);align-items:center;"
        f"font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);"
        f'color:var(--jp-ui-font-color1,inherit)">{rows}{error}</div>'
    )


def marked(data: Mapping[str, Any], fate: str) -> dict[str, str]:
    """The text and HTML of a task's own bar (see `scheduler.worker.progress`), with what became of the task before the
    bar was full."""
    colour = COLOURS[fate]
    word = f'<span style="color:{colour}"> · {fate}</span>'
    html = data["text/html"].replace(BAR_COLOUR, f"accent-color:{ACCENTS.get(fate, colour)}")
    return {
        "text/plain": f"{data['text/plain']} · {fate}",
        "text/html": html.removesuffix("</div>") + word + "</div>" if html else "",
    }


def _html_row(name: str, counts: Counts, words: str, is_first: bool) -> str:
    parts = "".join(
        f'<div style="width:{100 * n / counts.total:.2f}%;background:{COLOURS[state]}'
        f'{";opacity:.45" if state == "running" else ""}"></div>'
        for state in COLOURS
        if counts.total and (n := getattr(counts, state))
    )
    label = f"{counts.ended} of {counts.total}, {words}"
    weight = "font-weight:600" if is_first else "padding-left:1rem"
    return (
        f'<code style="background:none;padding:0;color:inherit;{weight}">{escape(name)}</code>'
        f'<div role="progressbar" aria-valuemin="0" aria-valuemax="{counts.total}" aria-valuenow="{counts.ended}" '
        f'aria-valuetext="{escape(label)}" style="display:flex;height:{".7" if is_first else ".45"}em;'
        f'border-radius:.35em;overflow:hidden;background:{LINE}">{parts}</div>'
        f'<span style="font-variant-numeric:tabular-nums">{counts.ended:,}/{counts.total:,}'
        f'<span style="opacity:.7">{" · " + escape(words) if words else ""}</span></span>'
    )


def _states(counts: Counts) -> str:
    return " · ".join(
        f"{n:,} {state}"
        for state, n in (("running", counts.running), ("failed", counts.failed), ("cancelled", counts.cancelled))
        if n
    )


def _share(counts: Counts) -> str:
    return f"{int(100 * counts.ended / counts.total) if counts.total else 100:3d}%"  # 100 only when all have ended


def _text_bar(counts: Counts) -> str:
    eighths = int(8 * N_COLUMNS * counts.ended / counts.total) if counts.total else 8 * N_COLUMNS
    full, rest = divmod(eighths, 8)
    return f"{'█' * full}{BLOCKS[rest] if rest else ''}".ljust(N_COLUMNS)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 9.95 else f"{rate:.2g}/s" if rate >= 0.1 else f"{60 * rate:.2g}/min"


def in_time(seconds: float) -> str:
    """0.42 -> '0.42 s', 75 -> '1 min 15 s'."""
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
