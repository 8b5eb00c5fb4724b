"""Rows of listings: those that filters let through, and how many there are of each kind. Pure."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..ids import short_id
from . import states
from .tables import Row, Rows

Filter = tuple[str, str, Any]
R = TypeVar("R", bound=Row)

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def counted_by_state(rows: Sequence[Row], column: str) -> Rows:
    """How many rows there are for each value of a column and each state."""
    counts = Counter((row[column], row["state"]) for row in rows)
    found = sorted({state for _, state in counts})
    return Rows(
        {column: name, **{state: counts[name, state] for state in found}}
        for name in sorted({name for name, _ in counts})
    )


def select(rows: Iterable[Row], filters: Sequence[Filter], limit: int, known: Sequence[str] = ()) -> Rows:
    """`known`: the states that such rows can have, if a filter is to be refused that names another."""
    return Rows(selected(rows, filters, limit, known))


def selected(rows: Iterable[R], filters: Sequence[Filter], limit: int, known: Sequence[str] = ()) -> list[R]:
    """As `select`, of rows of any kind."""
    check_filters(filters, limit, known)
    kept: list[R] = []
    for row in rows:
        if all(passes(row, *condition) for condition in filters):
            kept.append(row)
            if len(kept) >= limit:
                break
    return kept


def check_filters(filters: Sequence[Filter], limit: int, known: Sequence[str] = ()) -> None:
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit={limit!r}: must be a whole number >= 1")
    for condition in filters:
        if not isinstance(condition, tuple | list) or len(condition) != 3:
            raise ValueError(
                f"filters={filters!r}: must be a list of (column, operator, value), such as [('state', '=', 'failed')]"
            )
        column, sign, value = condition
        if sign not in OPERATORS:
            raise ValueError(
                f"filter ({column!r}, {sign!r}, {value!r}): there is no operator {sign!r}, there are "
                f"{', '.join(OPERATORS)}"
            )
        if str(column).lower() == "state" and known and value not in known:
            raise ValueError(f"filter ({column!r}, {sign!r}, {value!r}): {states.what_there_is(value, known)}")


def passes(row: Row, column: str, sign: str, value: Any) -> bool:
    if column not in row:
        raise ValueError(f"filter ({column!r}, {sign!r}, {value!r}): columns are {', '.join(row)}")
    if isinstance(row[column], str) and isinstance(
        value, int | float
    ):  # as the command line takes what looks like a number
        value = json.dumps(value)
    if column == "id" and isinstance(value, str) and len(value) < len(row[column]):  # as listings show it
        return OPERATORS[sign](short_id(row[column]), value)
    return OPERATORS[sign](row[column], value)
