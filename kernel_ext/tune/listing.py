"""`%tune`: lists experiments, shows one, and stops, pauses and resumes them and their trials."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from ...text import in_one_line
from ...tune import journal
from ...tune.exceptions import ExperimentNotFoundError, JournalError, TuneError
from ...tune.experiment import Experiment, attach, experiments
from ...tune.results import summary
from ..cards.html import LINE
from ..cells.analysis.read import CellError

ACTIONS = ("stop", "pause", "resume")
N_LISTED = 20
READ_BYTES = 4_000_000  # journals beyond it are not read for the list


def tune(words: list[str], namespace: Mapping[str, Any]) -> Any:
    """What `%tune` does with the words behind it.

    Raises
    ------
    CellError
        They make no sense, there is no experiment of that name that can be read, or it does not do that.
    """
    if not words:
        return ExperimentsTable()
    if words[0] not in ACTIONS:
        if len(words) > 1:
            raise CellError(f"%tune takes one name, or {', '.join(ACTIONS)} and a name: not {' '.join(words)!r}")
        return named(words[0], namespace)
    what, *rest = words
    if not rest or len(rest) > 2 or (len(rest) == 2 and not rest[1].isdigit()):
        raise CellError(f"%tune {what} NAME [TRIAL]: the name of an experiment, and the number of one of its trials")
    experiment = named(rest[0], namespace)
    trial = int(rest[1]) if len(rest) == 2 else None
    try:
        getattr(experiment, what)(trial)
    except (IndexError, TuneError) as error:
        raise CellError(str(error)) from None
    return experiment


def named(name: str, namespace: Mapping[str, Any]) -> Experiment:
    """The experiment of that name, or that a variable holds; `CellError` if there is none that can be read."""
    value = namespace.get(name)
    if isinstance(value, Experiment):
        return value
    try:
        return attach(name)
    except (ExperimentNotFoundError, JournalError) as error:
        raise CellError(str(error)) from None


class ExperimentsTable:
    """The experiments of this user on this machine, the latest first, to display."""

    _TITLES = ("name", "state", "began", "trials")

    def __init__(self) -> None:
        found = experiments()
        self.rows = [_row(one) for one in found[:N_LISTED]]
        self.n_more = len(found) - len(self.rows)

    def __repr__(self) -> str:
        if not self.rows:
            return f"There are no experiments in {journal.default_storage()}."
        lines = [self._TITLES, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self._TITLES))]
        text = [
            "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*text, *([f"and {self.n_more} more"] if self.n_more else [])])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if not self.rows:
            return {"text/plain": repr(self)}
        cell = f"padding:.2rem .5rem;text-align:left;border-bottom:1px solid {LINE}"
        head = "".join(f'<th scope="col" style="{cell}">{title}</th>' for title in self._TITLES)
        body = "".join(
            "<tr>" + "".join(f'<td style="{cell}">{escape(text)}</td>' for text in row) + "</tr>" for row in self.rows
        )
        more = f"<div>and {self.n_more} more</div>" if self.n_more else ""
        table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return {"text/plain": repr(self), "text/html": table + more}


def _row(found: dict[str, Any]) -> tuple[str, str, str, str]:
    folder = Path(found["path"])
    state = "over" if found["is_over"] else "running" if journal.is_written(folder) else "nobody runs it"
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(found["began_at"]))
    experiment = Experiment(folder)
    try:
        trials = summary(experiment.refresh()) if experiment.size_bytes <= READ_BYTES else "–"
    except JournalError as error:  # of which the others know nothing
        trials = in_one_line(str(error))
    return in_one_line(found["name"]), state, began, trials


def names() -> list[str]:
    """The names of the latest experiments, for completion."""
    return [found["name"] for found in experiments()[:100]]
