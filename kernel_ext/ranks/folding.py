"""What ranks have printed and displayed, folded: ranks whose output is the same have it once. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from ...groups.shape import ranks_in_words
from ..cards.html import frame, pre

N_CHARS_MAX = 100_000  # of one rank's text; the oldest is left out
N_DISPLAYS_MAX = 50  # of one rank, likewise
N_BLOCKS = 4  # one under the other, if they are short; otherwise there is a tab for each
N_LINES_SHORT = 12

# A tab is the summary of a `details`, of which one of a name is open, so that the tab key reaches each: arrows are
# JupyterLab's. Where there is no style, as in a notebook that is not trusted or a browser of 2024, they stand one under
# the other.
TABS_STYLE = (
    "<style>@supports selector(details::details-content){"
    ".cellmesh-tabs{display:flex;flex-wrap:wrap;gap:0 1rem}"
    ".cellmesh-tabs>details{display:contents}"
    ".cellmesh-tabs>details>summary{list-style:none;opacity:.75;border-bottom:2px solid transparent}"
    ".cellmesh-tabs>details[open]>summary{opacity:1;border-color:var(--jp-brand-color1,currentColor)}"
    ".cellmesh-tabs>details::details-content{order:1;flex:0 0 100%;min-width:0}"
    "@media print{.cellmesh-tabs>details::details-content{order:0;content-visibility:visible}}"
    "}</style>"
)

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_IMAGES = ("image/png", "image/jpeg")


@dataclass(frozen=True)
class Text:
    """What has been printed on one stream, until something else came."""

    stream: str
    text: str


@dataclass(frozen=True)
class Shown:
    """A display: its representations by MIME type, and what it is updated by."""

    data: dict[str, Any]
    display_id: str = ""


Part = Text | Shown


class Output:
    """What one rank has printed and displayed in a cell, in order. Bounded."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._is_cut = False
        self._clears = False

    def add(self, stream: str, text: str) -> None:
        """A piece of text; not necessarily whole lines."""
        self._begin()
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Text) and last.stream == stream:
            self._parts[-1] = Text(stream, _redrawn(last.text + text))
        else:
            self._parts.append(Text(stream, text))
        self._cut()

    def show(self, data: dict[str, Any], display_id: str, is_update: bool) -> None:
        """A display, or an update of one."""
        if is_update:
            self._parts = [
                replace(part, data=data) if isinstance(part, Shown) and part.display_id == display_id else part
                for part in self._parts
            ]
            return
        self._begin()
        self._parts.append(Shown(data, display_id))
        self._cut()

    def clear(self, wait: bool) -> None:
        """Forget what there is; `wait`: when something new comes."""
        if wait:
            self._clears = True
        else:
            self._parts.clear()

    @property
    def parts(self) -> tuple[Part, ...]:
        """As it is to be seen."""
        cut = (Text("stderr", "…\n"),) if self._is_cut else ()
        return cut + tuple(
            Text(part.stream, _COLOURS.sub("", _redrawn(part.text + "\n")[:-1])) if isinstance(part, Text) else part
            for part in self._parts
        )

    def _begin(self) -> None:
        if self._clears:
            self._clears = False
            self._parts.clear()

    def _cut(self) -> None:
        n_over = sum(len(part.text) for part in self._parts if isinstance(part, Text)) - N_CHARS_MAX
        while n_over > 0 or sum(isinstance(part, Shown) for part in self._parts) > N_DISPLAYS_MAX:
            self._is_cut = True
            first = self._parts.pop(0)
            if isinstance(first, Text):
                if len(first.text) > n_over > 0:
                    self._parts.insert(0, Text(first.stream, first.text[n_over:]))
                n_over -= len(first.text)


def _redrawn(text: str) -> str:
    """Whole lines that were redrawn (by "\\r") in their last state."""
    *whole, rest = text.split("\n")
    return "\n".join([*(line.removesuffix("\r").rpartition("\r")[2] for line in whole), rest])


@dataclass(frozen=True)
class Folded:
    """Ranks whose output is the same, and what it is."""

    ranks: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def title(self) -> str:
        return in_words(self.ranks)


@dataclass(frozen=True)
class View:
    """What of the output of a cell is to be seen, and how.

    Attributes
    ----------
    only : tuple of int
        The output of these ranks alone; empty for that of all.
    all : bool
        Each rank's by itself, also what is the same, and all of it open.
    title : str
        A line above it, from the beginning of the cell; "" for none.
    """

    only: tuple[int, ...] = ()
    all: bool = False
    title: str = ""


WHOLE = View()


def fold(outputs: Mapping[int, Sequence[Part]], all_apart: bool = False) -> list[Folded]:
    """The outputs by rank, each once unless `all_apart`, in the order of its first rank; those who have shown nothing
    are left out.
    """
    found: list[Folded] = []
    for rank in sorted(outputs):
        parts = tuple(outputs[rank])
        if not parts:
            continue
        seen = [_without_id(part) for part in parts]
        for i, same in enumerate([] if all_apart else found):
            if [_without_id(part) for part in same.parts] == seen:
                found[i] = replace(same, ranks=(*same.ranks, rank))
                break
        else:
            found.append(Folded((rank,), parts))
    return found


def _without_id(part: Part) -> Part:
    return replace(part, display_id="") if isinstance(part, Shown) else part


def in_words(ranks: Sequence[int]) -> str:
    """(2,) -> "rank 2"; (0, 1, 3) -> "ranks 0-1, 3"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {ranks_in_words(tuple(ranks))}"


def strip_text(folded: list[Folded], notes: Sequence[str], view: View = WHOLE) -> str:
    """The strip of a cell as text."""
    lines = [*filter(None, [view.title]), *notes]
    for one in folded:
        lines.append(f"{one.title}:")
        for part in one.parts:
            text = part.text if isinstance(part, Text) else _plain(part.data)
            lines += [f"  {line}" for line in text.removesuffix("\n").split("\n")]
    return "\n".join(lines)


def strip_html(folded: list[Folded], notes: Sequence[str], view: View = WHOLE, name: str = "") -> str:
    """The strip of a cell as HTML, which needs no script. Short outputs are seen all at once; of others one is, and
    the rest by their tabs. `name`: no other strip of the page has it.
    """
    if not folded and not notes and not view.title:
        return ""
    title = f'<div style="opacity:.62">{escape(view.title)}</div>' if view.title else ""
    told = "".join(f'<div style="padding:.1rem 0">{escape(note)}</div>' for note in notes)
    are_short = len(folded) <= N_BLOCKS and all(_n_lines(one) <= N_LINES_SHORT for one in folded)
    are_tabs = len(folded) > 1 and not are_short and not view.all
    of_tabs = f' name="{escape(name)}"' if are_tabs else ""
    blocks = "".join(
        f"<details{of_tabs}{'' if are_tabs and i else ' open'}>"
        f'<summary style="cursor:pointer;font-weight:600">{escape(one.title)}</summary>'
        f"{''.join(map(_part_html, one.parts))}</details>"
        for i, one in enumerate(folded)
    )
    return frame(
        "output of ranks",
        title + told + (f'{TABS_STYLE}<div class="cellmesh-tabs">{blocks}</div>' if are_tabs else blocks),
    )


def _n_lines(folded: Folded) -> int:
    texts = [part.text if isinstance(part, Text) else _plain(part.data) for part in folded.parts if not _is_drawn(part)]
    return sum(text.count("\n") + 1 for text in texts) + N_LINES_SHORT * sum(map(_is_drawn, folded.parts))


def _is_drawn(part: Part) -> bool:
    """Whether it is more than text: a picture, a table."""
    return isinstance(part, Shown) and bool(part.data.keys() - {"text/plain"})


def _part_html(part: Part) -> str:
    if isinstance(part, Text):
        return pre(part.text.removesuffix("\n"))
    data = part.data
    for mime in ("text/html", "image/svg+xml"):
        if mime in data:
            return f"<div>{_joined(data[mime])}</div>"
    for mime in _IMAGES:
        if mime in data:
            return f'<img alt="{escape(_plain(data))}" src="data:{mime};base64,{escape(_joined(data[mime]).strip())}">'
    return pre(_plain(data))


def _plain(data: Mapping[str, Any]) -> str:
    return _joined(data.get("text/plain", "")) or ", ".join(data)


def _joined(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
