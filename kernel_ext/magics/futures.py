"""`%futures`: a table of the futures that the notebook's variables hold, one line for each variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ...text import duration, in_bytes, next_attempt
from ..cards.card import Bundle, CardFacts, Cards, state_of
from ..cards.html import LINE, SIZE_SHOWN, STATES
from ..cells.find_refs import refs_in

if TYPE_CHECKING:
    from ...refs import ObjectRef

N_NAMED = 4  # variables, functions or cells in a row
N_DESCRIBED = 50  # futures of a row, for function, cell, time and size


class FuturesTable:
    """The notebook's futures, to display.

    Parameters
    ----------
    cards : Cards
    namespace : mapping
        The notebook's variables.
    states : sequence of str
        Only futures in one of these states; none: all.
    """

    def __init__(self, cards: Cards, namespace: Mapping[str, Any], states: Sequence[str] = ()) -> None:
        self._states = states
        variables = {
            name: value for name, value in namespace.items() if not name.startswith("_") and name not in ("In", "Out")
        }
        refs: dict[str, list[ObjectRef]] = {}
        for name, ref in refs_in(variables):
            if states and state_of(ref) not in states:
                continue
            refs.setdefault(name, []).append(ref)
        self.rows = [
            (
                _listed(names),
                _states_in_words(found),
                _makers(facts := [cards.facts(ref) for ref in found[:N_DESCRIBED]]),
                _listed(dict.fromkeys(f.cell for f in facts if f.cell)),
                _total_time(facts),
                _total_size(facts),
            )
            for names, found in _folded(refs)
        ]

    _TITLES = ("variable", "state", "function", "cell", "ran", "size")

    def __repr__(self) -> str:
        if not self.rows:
            return (
                "No variable of this notebook holds a "
                f"future{' that is ' + ' or '.join(self._states) if self._states else ''}."
            )
        lines = [self._TITLES, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self._TITLES))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        if not self.rows:
            return {"text/plain": repr(self)}
        cell = f"padding:.2rem .5rem;text-align:left;border-bottom:1px solid {LINE};white-space:"
        # The state of many futures is a sentence: it alone wraps, so that the table is no wider than the notebook.
        sentence = f"normal;min-width:{min(8, max(len(row[1]) for row in self.rows) // 2)}em"
        head = "".join(f'<th scope="col" style="{cell}nowrap">{title}</th>' for title in self._TITLES)
        wraps = [sentence if title == "state" else "nowrap" for title in self._TITLES]
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{cell}{wrap}">{escape(text)}</td>' for wrap, text in zip(wraps, row, strict=True))
            + "</tr>"
            for row in self.rows
        )
        table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return {"text/plain": repr(self), "text/html": table}


def _folded(refs: dict[str, list[ObjectRef]]) -> list[tuple[list[str], list[ObjectRef]]]:
    """Rows of the table: variables whose futures another one holds too (a loop's, over a list) are named beside it."""
    found: list[tuple[list[str], set[ObjectRef]]] = []
    for name in sorted(refs, key=lambda name: -len(refs[name])):  # stable: the first of equals stays in front
        own = set(refs[name])
        row = next((names for names, held in found if own <= held), None)
        if row is None:
            found.append(([name], own))
        else:
            row.append(name)
    rows = {names[0]: names for names, _ in found}
    return [(rows[name], refs[name]) for name in refs if name in rows]


def _listed(names: Iterable[str]) -> str:
    """Names, but no more than fit a line."""
    names = list(names)
    return ", ".join([*names[:N_NAMED], f"{len(names) - N_NAMED} more"] if len(names) > N_NAMED + 1 else names)


def _states_in_words(refs: list[ObjectRef]) -> str:
    counts = Counter(state_of(ref) for ref in refs)
    if len(refs) == 1:
        return _state_in_words(refs[0], next(iter(counts)))
    return f"{len(refs)} futures: " + ", ".join(f"{count} {STATES[state][1]}" for state, count in counts.most_common())


def _state_in_words(ref: ObjectRef, state: str) -> str:
    info = ref.client.info(ref) if state == "retrying" else {"waits_s": 0.0}
    return next_attempt(info) if info["waits_s"] else STATES[state][1]


def _makers(facts: list[CardFacts]) -> str:
    return _listed(dict.fromkeys(f.function or f.what for f in facts))


def _total_time(facts: list[CardFacts]) -> str:
    times = [f.ran_s for f in facts if f.ran_s is not None]
    return duration(sum(times)) if times else ""


def _total_size(facts: list[CardFacts]) -> str:
    total = sum(f.size or 0 for f in facts)
    return in_bytes(total) if total >= SIZE_SHOWN else ""
