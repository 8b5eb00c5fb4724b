"""A session as a file: what a panel that has just been opened would get, and the answers to what it could ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...observe.recording import Recording, table_of
from ...text import in_bytes
from ..cards.html import card_html, card_text
from ..cells.analysis.read import CellError
from ..graph.view import ALL_BYTES, GraphView
from ..panel_messages import NO_WORKER, Arrays, GraphMessage, State
from .learning_saving import runs_of
from .trial_saving import experiments_of

if TYPE_CHECKING:
    from ..graph.model import Graph
    from ..host import Host
    from ..output.log_lines import Line

N_CARDS_MAX = 200  # of tasks that failed: the text of most errors comes again and again
LOGS_CHARS_MAX = 1 << 30  # all that are kept


def record(host: Host) -> Recording:
    """Everything that is known of a session. Values are left out, except on the cards of failed tasks.

    Raises
    ------
    CellError
        Nothing has run.
    """
    if (recorder := host.recorder) is None:
        raise CellError("no cellmesh session has run in this kernel yet")
    cards = host.cards

    def look(graph: Graph) -> tuple[Any, list[Line], dict[int, int]]:
        message = GraphView(graph, recorder.session_id).next(
            recorder.now_s(),
            ALL_BYTES,
            *recorder.facts,
            recorder.samples,
            recorder.lines.count,
            recorder.session.errors,
        )
        assert message is not None  # the first one is a snapshot, which there always is
        _, lines = recorder.lines.since(0, recorder.now_s(), LOGS_CHARS_MAX)
        return message, lines, {task: graph.row_of(task) for task in {line.task for line in lines}}

    (header, arrays), lines, rows = recorder.look(look)
    failed = np.flatnonzero(_states(header, arrays) == State.FAILED)[:N_CARDS_MAX]
    known = [(int(row), cards.of_row(recorder, int(row))) for row in failed]
    began_at = recorder.unix_time(0.0)
    experiments, trials = experiments_of(host.panels.trials.followed(), began_at)
    learning, points = runs_of(host.panels.learning.runs(), began_at)
    return Recording(
        msgspec.to_builtins(header),
        {
            "tasks": table_of("tasks", tasks_of(header, arrays)),
            "edges": table_of("edges", {"source": arrays.edges[0::2], "target": arrays.edges[1::2]}),
            "lines": table_of("lines", columns_of(lines, rows)),
            "cards": table_of(
                "cards",
                {
                    "row": [row for row, _ in known],
                    "html": [card_html(facts) for _, facts in known],
                    "text": [card_text(facts) for _, facts in known],
                },
            ),
            **trials,
            **points,
        },
        experiments,
        learning,
    )


def save(host: Host, path: str) -> str:
    """Save the session of a notebook; what was saved, in words.

    Raises
    ------
    CellError
        Nothing has run, the name says no format, or the file cannot be written.
    """
    try:
        return f"Saved {path}, {in_bytes(record(host).save(path))}."
    except (OSError, ValueError) as error:
        raise CellError(f"%graph --save: {error}") from None


def tasks_of(header: GraphMessage, arrays: Arrays) -> dict[str, np.ndarray]:
    """The columns of the table of tasks. A snapshot tells rows as they are born, and then what has become of them."""
    new = arrays.new_u32.reshape(5, header.new)
    columns: dict[str, np.ndarray] = dict(zip(("function", "cell", "actor", "parent", "kind"), new, strict=True))
    columns["submitted"] = arrays.new_submitted
    columns["state"] = _states(header, arrays)
    for name, none, values in (
        ("worker", np.uint16(NO_WORKER), arrays.update_worker),
        ("started", np.nan, arrays.update_started),
        ("finished", np.nan, arrays.update_finished),
        ("size", np.nan, arrays.update_size),
    ):
        columns[name] = np.full(header.new, none)
        columns[name][arrays.update_row] = values
    for name, times in zip(("sent", "ended"), arrays.remote_times.reshape(2, header.remote), strict=True):
        columns[name] = np.full(header.new, np.nan)
        columns[name][arrays.remote_row] = times
    called = arrays.calls.reshape(-1, 2)
    columns["called"] = np.full(header.new, np.nan)
    columns["called"][called[:, 0].astype(np.intp)] = called[:, 1]
    return columns


def _states(header: GraphMessage, arrays: Arrays) -> np.ndarray:
    states = np.full(header.new, State.WAITING, np.uint8)
    states[arrays.update_row] = arrays.update_state
    return states


def columns_of(lines: list[Line], rows: dict[int, int]) -> dict[str, list[object]]:
    """The columns of the table of lines."""
    return {
        "at": [line.at for line in lines],
        "row": [rows[line.task] for line in lines],
        "stream": [line.stream for line in lines],
        "pid": [line.pid for line in lines],
        "text": [line.text for line in lines],
    }
