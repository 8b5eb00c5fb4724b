"""Tables of rows: units for people, exact numbers on request; what is drawn again and again; what is kept of output."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.scheduler.ipc.messages import LastOutputReply, WorkerOutput
from cellmesh.scheduler.local_scheduler.last_output import LastOutput

from cellmesh.cli.watching import screen
from cellmesh.ids import short_id
from cellmesh.observe.tables import SHOWN, Rows, table
from cellmesh.state import summary_of

ID = "15e1e5d3ad2dd72b0000001f00000003"
ROW = {
    "id": ID,
    "size": 5_242_880,
    "seconds": 0.0123,
    "peak_bytes": None,
    "share": 0.257,
    "held_by": [7, 8],
    "name": "a\nb",
}


def test_people_read_units_and_programs_numbers() -> None:
    title, line = table([ROW])
    assert title.split() == ["id", "size", "time", "peak", "share", "held_by", "name"]
    assert line.split() == ["1f-3", "5.24", "MB", "12.3", "ms", "26", "%", "7,", "8", "a\ufffdb"]
    title, line = table([{**ROW, "name": "ab"}], exact=True)
    assert title.split()[2:4] == ["seconds", "peak_bytes"] and line.split()[:3] == [ID, "5242880", "0.0123"]
    assert table([]) == ["nothing"]


def test_numbers_stand_on_the_right() -> None:
    assert table([{"name": "f", "n": 1}, {"name": "long", "n": 100}]) == ["name    n", "f       1", "long  100"]


def test_a_display_is_cut_and_a_table_is_not() -> None:
    rows = Rows({"n": i} for i in range(SHOWN + 7))
    assert repr(rows).splitlines()[-1] == "... 7 more" and len(table(rows)) == SHOWN + 8
    assert "<p>... 7 more</p>" in rows._repr_html_() and "5.24 MB" in Rows([ROW])._repr_html_()


@pytest.mark.parametrize("text, short", [(ID, "1f-3"), ("", ""), ("anonymous", "anonymous"), ("x" * 32, "x" * 32)])
def test_short_ids(text: str, short: str) -> None:
    assert short_id(text) == short


def test_a_summary_has_the_times_of_each_function() -> None:
    def row(name: str, state: str, seconds: float | None) -> dict[str, object]:
        return {"name": name, "state": state, "seconds": seconds}

    ran = [row("slow", "finished", i / 10) for i in range(1, 21)]
    slow, quick, idle = summary_of(
        [*ran, row("quick", "failed", 1.0), row("quick", "running", None), row("idle", "queued", None)]
    )
    assert (slow["name"], slow["finished"], slow["running"]) == ("slow", 20, 0)
    assert (slow["mean_seconds"], slow["p95_seconds"], slow["total_seconds"]) == (1.05, 1.9, 21.0) and slow[
        "share"
    ] == round(21 / 22, 4)
    assert (quick["failed"], quick["running"], quick["mean_seconds"]) == (1, 1, 1.0)
    assert idle["queued"] == 1 and idle["mean_seconds"] is idle["share"] is None


def test_a_screen_is_drawn_over_the_last_one_and_no_higher_than_the_window() -> None:
    drawn = screen("title", "one\ntwo\n", 24)
    assert drawn == "\x1b[?2026h\x1b[Htitle\x1b[K\r\n\x1b[K\r\none\x1b[K\r\ntwo\x1b[K\x1b[J\x1b[?2026l"
    low = screen("title", "\n".join(map(str, range(50))), 10)
    assert low.count("\r\n") == 9 and "... 43 more lines" in low


def test_the_last_of_what_was_printed_is_kept() -> None:
    kept = LastOutput(n_chars_max=10)
    for text in ("abcd", "efgh", "", "ijkl"):
        kept.add(WorkerOutput(1, 2, "stdout", 3, text))
    config: Any = SimpleNamespace(log_dir="logs", log_to_driver=True)
    *pieces, reply = kept.replies(7, config)
    assert [piece.text for piece in pieces] == ["efgh", "ijkl"] and reply == LastOutputReply(7, 4, "logs", True)
