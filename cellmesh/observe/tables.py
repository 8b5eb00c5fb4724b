"""Rows as tables for people: sizes and times with their units, ids in short. Programs read the rows, or exact
tables.
"""

from __future__ import annotations

import html
from typing import Any

from ..ids import short_id
from ..text import duration, in_bytes, in_one_line

Row = dict[str, Any]
SHOWN = 50  # rows that a display shows


class Rows(list[Row]):
    """A list of dicts that displays itself as a table."""

    def __repr__(self) -> str:
        lines = table(self[:SHOWN])
        return "\n".join([*lines, *([f"... {len(self) - SHOWN} more"] if len(self) > SHOWN else [])])

    def _repr_html_(self) -> str:
        if not self:
            return "<em>nothing</em>"
        titles, *lines = _cells(self[:SHOWN], exact=False)
        head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
        more = f"<p>... {len(self) - SHOWN} more</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def table(rows: list[Row], exact: bool = False) -> list[str]:
    """The lines of a table. `exact`: numbers as they are, ids and texts in full."""
    if not rows:
        return ["nothing"]
    lines = _cells(rows, exact)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    aligned = [str.rjust if all(_is_number(row.get(name)) for row in rows) else str.ljust for name in rows[0]]
    return [
        "  ".join(align(cell, width) for cell, width, align in zip(line, widths, aligned, strict=True)).rstrip()
        for line in lines
    ]


def _cells(rows: list[Row], exact: bool) -> list[list[str]]:
    titles = [name if exact else _title(name) for name in rows[0]]
    return [titles, *([in_words(name, row.get(name), exact) for name in rows[0]] for row in rows)]


def _title(column: str) -> str:
    return "time" if column == "seconds" else column.removesuffix("_seconds").removesuffix("_bytes")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def in_words(column: str, value: Any, exact: bool = False) -> str:
    """A value of a column, in the unit that the column's name says."""
    if value is None:
        return ""
    if exact:
        return str(value)
    if _is_number(value):
        if column == "seconds" or column.endswith("_seconds"):
            return duration(value)
        if column == "size" or column.endswith("_bytes"):
            return in_bytes(value)
        if column == "share":
            return f"{100 * value:.0f} %"
    if column == "id" and isinstance(value, str):
        return short_id(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return in_one_line(str(value), 200)
