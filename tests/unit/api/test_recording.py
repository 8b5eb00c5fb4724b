"""Recordings: what is written is read again, what is none is refused, and a page runs nothing but its own code."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellmesh as cm
from cellmesh.cli.main import main
from cellmesh.observe.recording import (
    POLICY,
    TABLES,
    Recording,
    RecordingError,
    open_recording,
    read_recording,
    table_of,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
FIXTURES = Path(__file__).resolve().parents[3] / "labextension/src/__tests__/recording"
FIXTURE = FIXTURES / "recording.json"  # what the front end's tests read; the test below writes it when it is gone
VERSION_2 = FIXTURES / "recording_v2.json"  # as the last cellmesh of that version wrote it


def a_recording(text: str = "line") -> Recording:
    header = {
        "type": "snapshot",
        "v": 1,
        "n": 0,
        "session": "s",
        "now": 9.0,
        "tasks": 2,
        "aggregated": 0,
        "dropped": 0,
        "behind": 0,
        "functions": [[1, "load"], [2, text]],
        "cells": [[1, {"label": "In [1]", "id": "a"}]],
        "actors": [],
        "workers": [
            [3, {"pid": 7, "state": "idle", "since": 0.5, "ended": None, "node": 0}],
            [256, {"pid": 7, "state": "remote", "since": 0.0, "ended": None, "node": 1}],
        ],
        "nodes": [
            [
                0,
                {
                    "name": "here",
                    "cpus": 2.0,
                    "gpus": 0.0,
                    "memory": 10,
                    "store": 5,
                    "id": "a1",
                    "state": "alive",
                    "reason": "",
                    "since": 0.0,
                    "ended": None,
                },
            ],
            [
                1,
                {
                    "name": "there",
                    "cpus": 2.0,
                    "gpus": 0.0,
                    "memory": 10,
                    "store": 5,
                    "id": "b2",
                    "state": "dead",
                    "reason": "silent",
                    "since": 0.0,
                    "ended": 8.0,
                },
            ],
        ],
        "samples": [[0, 1.0, 0.5, 1.0, 0.0, 4, 2, 0, 0]],
        "lines": 2,
        "transfers": [[0, [0, 1, True, 8, 2.9, 2.95, True]]],
        "losses": [[1, 256, 3.0, None, 3.5]],
        "counts": {"waiting": 0, "queued": 0, "running": 0, "finished": 1, "failed": 1, "cancelled": 0},
        "resources": {"total": {"CPU": 2.0}, "available": {"CPU": 2.0}},
        "store": {"used": 8, "capacity": 100, "objects": 1},
        "new": 2,
        "updates": 2,
        "edges": 1,
        "remote": 1,
        "calls": 1,
    }
    nan = np.nan
    return Recording(
        header,
        {
            "tasks": table_of(
                "tasks",
                {
                    "function": [1, 2, 0],
                    "cell": [1, 1, 1],
                    "actor": [0, 0, 0],
                    "parent": [0, 0, 0],
                    "kind": [0, 0, 3],
                    "submitted": [1.0, 1.5, 2.0],
                    "state": [3, 4, 3],
                    "worker": [256, 3, 255],
                    "started": [2.0, 4.0, nan],
                    "finished": [3.0, 5.0, 2.0],
                    "size": [8.0, nan, 1e6],
                    "sent": [1.8, nan, nan],
                    "ended": [2.7, nan, nan],
                    "called": [2.25, nan, nan],
                },
            ),
            "edges": table_of("edges", {"source": [0], "target": [1]}),
            "lines": table_of(
                "lines",
                {
                    "at": [2.5, 4.5],
                    "row": [0, 1],
                    "stream": ["stdout", "stderr"],
                    "pid": [7, 7],
                    "text": [text, "日本語"],
                },
            ),
            "cards": table_of("cards", {"row": [1], "html": [f"<pre>{text}</pre>"], "text": ["ValueError"]}),
            "trials": table_of(
                "trials",
                {
                    "experiment": [0, 0, 1],
                    "trial": [0, 1, 0],
                    "state": [3, 4, 1],
                    "iteration": [2, 1, 1],
                    "suggested": [1.0, 1.0, 6.0],
                    "began": [2.0, 3.0, 6.0],
                    "ended": [5.0, 4.0, nan],
                },
            ),
            "settings": table_of(
                "settings",
                {
                    "experiment": [0, 0, 0, 0],
                    "trial": [0, 1, 0, 1],
                    "parameter": [0, 0, 1, 1],
                    "value": [0.1, 0.2, 0, 1],
                },
            ),
            "results": table_of(
                "results",
                {
                    "experiment": [0, 0, 0, 1],
                    "trial": [0, 1, 0, 0],
                    "metric": [0, 0, 1, 0],
                    "value": [0.5, 2.0, 9.0, 1.0],
                },
            ),
            "curves": table_of(
                "curves",
                {
                    "experiment": [0, 0, 0, 0, 1],
                    "trial": [0, 0, 1, 0, 0],
                    "metric": [0, 0, 0, 1, 0],
                    "at": [3.0, 4.5, 3.5, 4.5, 7.0],
                    "iteration": [1.0, 2.0, 1.0, 2.0, 1.0],
                    "value": [1.0, 0.5, 2.0, 9.0, 1.0],
                },
            ),
            "points": table_of("points", {"run": [0, 0], "at": [3.0, 6.0]}),
            "metrics": table_of(
                "metrics",
                {"run": [0, 0, 0], "point": [1, 0, 1], "metric": [0, 1, 1], "value": [20.5, 100.0, 200.0]},
            ),
        },
        [
            an_experiment(
                "digits", ["loss", "size"], [["lr", []], ["kind", ["good", "bad"]]], [[1, "it has failed", text]]
            ),
            an_experiment("other", ["score"], [], []),
        ],
        [a_run(0, "PPO on CartPole-v1", ["episode_return_mean", "timesteps_total"], 2), a_run(1, text, [], 0)],
    )


def an_experiment(name: str, metrics: list[str], parameters: list[Any], texts: list[Any]) -> dict[str, Any]:
    return {
        "label": {
            "path": f"/{name}",
            "name": name,
            "metric": metrics[0],
            "mode": "min",
            "began": 1.0,
            "ended": None,
            "is_failed": False,
            "why": "",
            "counts": {"pending": 0, "running": 1, "paused": 0, "ended": 1, "failed": 1},
            "best": 0,
            "best_value": 0.5,
        },
        "trials": {
            "type": "trials",
            "v": 5,
            "n": 0,
            "path": f"/{name}",
            "metric": metrics[0],
            "metrics": metrics,
            "parameters": [{"name": each, "words": words} for each, words in parameters],
            "texts": texts,
            "told": [],
            "behind": 0,
            "changed": 2,
            "values": 4,
            "settings": 4,
            "points": 3,
        },
    }


def a_run(number: int, title: str, metrics: list[str], n_points: int) -> dict[str, Any]:
    return {
        "label": {
            "run": number,
            "title": title,
            "settings": "seed=0",
            "state": "running",
            "why": "",
            "began": 2.0,
            "ended": None,
            "goal": "",
            "goal_value": None,
            "results": n_points,
        },
        "points": {
            "type": "learning_points",
            "v": 6,
            "n": 0,
            "run": number,
            "metrics": metrics,
            "first": 0,
            "points": n_points,
            "values": n_points * (1 + len(metrics)),
        },
    }


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    recording, path = a_recording(), tmp_path / "run.cellmesh"
    assert recording.save(path) == path.stat().st_size
    again = open_recording(path)
    assert again.header == recording.header and again.experiments == recording.experiments
    assert again.learning == recording.learning
    unequal = [name for name in recording.tables if not again.tables[name].equals(recording.tables[name])]
    assert unequal == ["tasks", "trials"], "those with NaN"
    assert again.tasks.to_pylist()[0] == {
        "name": "load",
        "kind": "task",
        "cell": "In [1]",
        "state": "finished",
        "submitted": 1.0,
        "started": 2.0,
        "called": 2.25,
        "finished": 3.0,
        "size": 8.0,
    }
    assert again.tasks["state"].to_pylist() == ["finished", "failed", "finished"]


def test_the_front_ends_tests_read_what_is_written_today() -> None:
    if not FIXTURE.exists():
        FIXTURE.write_text(json.dumps({"base64": base64.b64encode(a_recording().pack()).decode()}) + "\n")
    kept = read_recording(base64.b64decode(json.loads(FIXTURE.read_text())["base64"]))
    made = read_recording(a_recording().pack())
    told = [(each.header, each.experiments, each.learning) for each in (kept, made)]
    assert told[0] == told[1], f"remove {FIXTURE} and run this again"
    assert all(kept.tables[name].schema == made.tables[name].schema for name in made.tables)


def test_a_recording_of_version_2_is_read_and_says_the_words_of_today(tmp_path: Path) -> None:
    path = tmp_path / "old.cellmesh"
    path.write_bytes(base64.b64decode(json.loads(VERSION_2.read_text())["base64"]))
    old, new = open_recording(path), a_recording()
    assert old.tasks.column("name").to_pylist() == new.tasks.column("name").to_pylist() == ["load", "line", ""]
    assert old.header.items() >= {key: new.header[key] for key in ("workers", "nodes", "losses", "counts")}.items()
    assert not old.experiments
    old.save(tmp_path / "again.cellmesh")  # a recording of today
    assert open_recording(tmp_path / "again.cellmesh").header == old.header


def test_recordings_are_public() -> None:
    assert cm.recording.open_recording is open_recording
    assert set(cm.recording.__all__) == {"Recording", "RecordingError", "open_recording"}


def test_a_recording_has_only_the_tables_that_it_needs() -> None:
    whole = a_recording()
    content = Recording(whole.header, whole.tables).pack()
    assert not any("trials" in name for name in zipfile.ZipFile(io.BytesIO(content)).namelist())
    again = read_recording(content)
    assert not again.experiments and not again.learning and set(again.tables) == set(TABLES)
    of_learning = read_recording(Recording(whole.header, whole.tables, learning=whole.learning).pack())
    assert set(of_learning.tables) == {*TABLES, "points", "metrics"} and not of_learning.experiments


def without(member: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(a_recording().pack())) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            if name != member:
                target.writestr(name, source.read(name))
    return buffer.getvalue()


def replaced(member: str, content: bytes) -> bytes:
    buffer = io.BytesIO(without(member))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(member, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "no cellmesh recording"),
        (b"PK nonsense", "no cellmesh recording"),
        (without("edges.arrow"), "edges.arrow"),
        (without("curves.arrow"), "curves.arrow"),
        (without("metrics.arrow"), "metrics.arrow"),
        (replaced("run.json", b"{"), "no cellmesh recording"),
        (replaced("run.json", b"[]"), "no cellmesh recording"),
        (
            replaced("run.json", b'{"format": "cellmesh run", "version": 99}'),
            "version 99, .* versions 2 to 3: .* newer",
        ),
        (replaced("run.json", b'{"format": "cellmesh run", "version": 1}'), "version 1, .* versions 2 to 3"),
        (replaced("run.json", b'{"format": "cellmesh run", "version": "3"}'), "version '3'"),
        (replaced("run.json", b'{"format": "cellmesh run"}'), "version None"),
        (replaced("lines.arrow", b"ARROW1 is not enough"), "no cellmesh recording"),
        (
            replaced("edges.arrow", zipfile.ZipFile(io.BytesIO(a_recording().pack())).read("cards.arrow")),
            "other columns",
        ),
        (a_recording().pack()[:200], "no cellmesh recording"),
    ],
)
def test_what_is_no_recording_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(RecordingError, match=reason):
        read_recording(content)


@pytest.mark.parametrize(
    "header",
    [
        None,
        [],
        {},
        {"functions": [], "cells": None},
        {"functions": [[1]], "cells": []},
        {"functions": [["1", "f"]], "cells": []},
        {"functions": [[1, ["f"]]], "cells": []},
        {"functions": [], "cells": [[1, "In [1]"]]},
        {"functions": [], "cells": [[1, {"label": 2}]]},
        {"functions": [], "cells": [], "workers": [[1, "idle"]], "counts": {}},
        {"functions": [], "cells": [], "workers": [], "counts": []},
        {"functions": [], "cells": [], "workers": []},
    ],
)
def test_names_that_are_none_are_refused(header: object) -> None:
    about = json.dumps({"format": "cellmesh run", "version": 3, "header": header})
    with pytest.raises(RecordingError, match="no cellmesh recording"):
        read_recording(replaced("run.json", about.encode()))


def test_damaged_bytes_are_refused_or_harmless() -> None:
    """In the archive, and in the tables in it: a file that was cut, sent as text, or made up to hurt."""
    whole, chance, n_refused = a_recording().pack(), random.Random(1), 0
    table = zipfile.ZipFile(io.BytesIO(whole)).read("lines.arrow")
    for _ in range(300):
        for content, wrap in ((whole, bytes), (table, lambda data: replaced("lines.arrow", data))):
            damaged = bytearray(content)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            try:
                read_recording(wrap(bytes(damaged))).tasks  # noqa: B018 (reading it is what is tested)
            except RecordingError:
                n_refused += 1
    assert n_refused > 150
    with pytest.raises(RecordingError, match="no cellmesh recording"):
        read_recording(replaced("run.json", b"[" * 100_000))


@pytest.fixture
def page_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The front end's code, which need not be built for these tests."""
    package = tmp_path / "cellmesh"
    (package / "kernel_ext/panel/static").mkdir(parents=True)
    (package / "kernel_ext/panel/static/page.js").write_text('console.log("</script>")')
    monkeypatch.setattr("cellmesh.observe.recording.files", lambda name: package)


@pytest.mark.usefixtures("page_code")
def test_the_command_line_makes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.cellmesh"
    a_recording().save(run)
    assert main(["export", str(run)]) == 0 and "open it in a browser" in capsys.readouterr().out
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")
    run.write_bytes(b"something else")
    assert main(["export", str(run)]) == 2 and "no cellmesh recording" in capsys.readouterr().err
    assert main(["export", str(run), "-o", "x.pdf"]) == 2 and "ends in .html" in capsys.readouterr().err


@pytest.mark.usefixtures("page_code")
def test_a_page_runs_its_own_code_alone_and_loads_nothing() -> None:
    page = a_recording(HOSTILE).page(f"run{HOSTILE}")
    assert HOSTILE not in page and "onerror=alert" not in page.replace("onerror=alert(2)&gt;", "")
    scripts = re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert len(scripts) == 1 and page.count("</script>") == 2
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f'content="{POLICY.format(digest=digest)}"' in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    data = re.search(r'id="recording"[^>]*>([^<]*)<', page)
    assert data and read_recording(base64.b64decode(data[1])).header["functions"][1][1] == HOSTILE


def test_a_name_that_says_no_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"NAME.cellmesh"):
        a_recording().save(tmp_path / "run.txt")
    assert not list(tmp_path.iterdir())
