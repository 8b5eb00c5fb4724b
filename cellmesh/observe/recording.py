"""A session in one file, to look at later: in JupyterLab by a double click, as a page in any browser, or as tables.

A ``.cellmesh`` file is a zip archive of Arrow files, so that whatever reads those can read it:

    run.json        format, version, and the names that the tables refer to by number
    tasks.arrow     a row per task, call or put object: function, cell, actor, parent, kind, state, times, size; of what
                    ran on another machine also when it was sent and when it ended there; `called` is when the
                    user's code began, where loading it or its arguments had taken long
    edges.arrow     (source, target): the target row depends on the source row
    lines.arrow     what tasks have printed: at, row, stream, pid, text
    cards.arrow     row, html, text: what was known of tasks that failed
    trials.arrow    a row per trial of Tune: experiment, trial, state, iteration, when it was suggested, began, ended
    settings.arrow  (experiment, trial, parameter, value): the value is a number, or the place of a word in the
                    parameter's list of words
    results.arrow   (experiment, trial, metric, value): the latest results
    curves.arrow    (experiment, trial, metric, at, iteration, value): points of the curves, thinned evenly
    points.arrow    (run, at): when each point of a run of learning was added, run after run
    metrics.arrow   (run, point, metric, value): what each point says; a run's points are numbered from 0

Experiments, their parameters and metrics, runs of learning and theirs are numbers there too; `run.json` has the names.
Recordings of sessions without experiments, and those of versions before Tune was recorded, have no tables of trials;
likewise with runs of learning.

It may come from others. Reading it runs nothing that is in it, and checks what it says before anybody relies on it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..exceptions import CellmeshError
from .states import KINDS, TASKS

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT, VERSION = "cellmesh run", 3
OLDEST_VERSION = 2  # that is read: its tables are those of today, its header has two other words
SUFFIX = ".cellmesh"
TABLES: dict[str, dict[str, str]] = {  # columns with their Arrow types, in this order
    "tasks": {
        "function": "uint32",
        "cell": "uint32",
        "actor": "uint32",
        "parent": "uint32",
        "kind": "uint8",
        "submitted": "float64",
        "state": "uint8",
        "worker": "uint16",
        "started": "float64",
        "finished": "float64",
        "size": "float64",
        "sent": "float64",
        "ended": "float64",
        "called": "float64",
    },
    "edges": {"source": "uint32", "target": "uint32"},
    "lines": {"at": "float64", "row": "int32", "stream": "string", "pid": "uint32", "text": "string"},
    "cards": {"row": "uint32", "html": "string", "text": "string"},
}
TRIAL_TABLES: dict[str, dict[str, str]] = {  # of recordings that have experiments
    "trials": {
        "experiment": "uint32",
        "trial": "uint32",
        "state": "uint8",
        "iteration": "uint32",
        "suggested": "float64",
        "began": "float64",
        "ended": "float64",
    },
    "settings": {"experiment": "uint32", "trial": "uint32", "parameter": "uint32", "value": "float64"},
    "results": {"experiment": "uint32", "trial": "uint32", "metric": "uint32", "value": "float64"},
    "curves": {
        "experiment": "uint32",
        "trial": "uint32",
        "metric": "uint32",
        "at": "float32",
        "iteration": "float32",
        "value": "float32",
    },
}
LEARNING_TABLES: dict[str, dict[str, str]] = {  # of recordings that have runs of learning
    "points": {"run": "uint32", "at": "float64"},
    "metrics": {"run": "uint32", "point": "uint32", "metric": "uint32", "value": "float64"},
}
ALL_TABLES = TABLES | TRIAL_TABLES | LEARNING_TABLES
ARROW_NAMES = {"float32": "float", "float64": "double"}  # as schemas print them
BYTES_MAX = 1 << 31  # of one member, unpacked: more is no recording that cellmesh has written
# What zipfile, json and Arrow raise over bytes that nobody has written so: OSError is Arrow's for a broken footer,
# RuntimeError zipfile's for what it cannot unpack, and json's for lists in lists in lists.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError, RuntimeError, MemoryError)
# Nothing is loaded from anywhere, and of scripts only the page's own runs, whatever the texts of tasks contain.
POLICY = (
    "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; base-uri 'none'; form-action 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>html,body,#run{{height:100%;margin:0}}</style>
<body>
<div id="run"></div>
<script type="application/octet-stream;base64" id="recording" data-title="{title}">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


class RecordingError(CellmeshError):
    """A file is no recording, or one that this version cannot read; the text says why."""


@dataclass(frozen=True)
class Recording:
    """What was known of a session when it was saved.

    Attributes
    ----------
    header : dict
        The fields of a panel snapshot (`kernel_ext/panel_messages.py`): names of functions, cells, actors, workers,
        nodes; samples; counts.
    tables : dict of pyarrow.Table
        By the names in `TABLES`, in `TRIAL_TABLES` if there are experiments, and in `LEARNING_TABLES` if there are runs
        of learning. Times are seconds since the session
        began, NaN for what has not happened; `actor` and `parent` are one more than the number they mean, 0 for none.
    experiments : list of dict
        Of Tune, oldest first: ``label`` and ``trials``, the fields of the panel's messages `ExperimentLabel` and
        `Trials`.
    learning : list of dict
        Runs of learning, oldest first: ``label`` and ``points``, the fields of the panel's messages `LearningLabel` and
        `LearningPoints`.
    """

    header: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    experiments: Sequence[Mapping[str, Any]] = ()
    learning: Sequence[Mapping[str, Any]] = ()

    @property
    def tasks(self) -> pa.Table:
        """The rows with names in place of numbers: name, cell, state, submitted, started, finished, size."""
        import pyarrow as pa

        raw = self.tables["tasks"]
        functions = dict(self.header["functions"])
        cells = {number: label["label"] for number, label in self.header["cells"]}
        named = {
            "name": [functions.get(number, "") for number in raw["function"].to_pylist()],
            "kind": [KINDS[kind] if kind < len(KINDS) else "" for kind in raw["kind"].to_pylist()],
            "cell": [cells.get(number, "") for number in raw["cell"].to_pylist()],
            "state": [TASKS[state] if state < len(TASKS) else "" for state in raw["state"].to_pylist()],
        }
        return pa.table(
            {**named, **{name: raw[name] for name in ("submitted", "started", "called", "finished", "size")}}
        )

    def pack(self) -> bytes:
        """The file's content."""
        import pyarrow as pa

        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            about = {"format": FORMAT, "version": VERSION, "header": dict(self.header)}
            if self.experiments:
                about["experiments"] = list(self.experiments)
            if self.learning:
                about["learning"] = list(self.learning)
            archive.writestr("run.json", json.dumps(about, ensure_ascii=False))
            for name in _tables_of(self.experiments, self.learning):
                sink = pa.BufferOutputStream()
                table = self.tables[name].combine_chunks()
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
                archive.writestr(f"{name}.arrow", sink.getvalue().to_pybytes())
        return buffer.getvalue()

    def page(self, title: str) -> str:
        """A web page that shows the recording, with everything that it needs inside.

        Raises
        ------
        RecordingError
            When the front end has not been built, in a source tree.
        """
        code = files("cellmesh").joinpath("kernel_ext", "panel", "static", "page.js")
        if not code.is_file():
            raise RecordingError("the page's code has not been built: run scripts/frontend.py build")
        script = code.read_text(encoding="utf-8").replace("</script", "<\\/script")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        return PAGE.format(
            policy=POLICY.format(digest=digest),
            title=html.escape(title),
            script=script,
            data=base64.b64encode(self.pack()).decode(),
        )

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write a ``.cellmesh`` or an ``.html`` file, as the name ends; returns its bytes.

        Raises
        ------
        ValueError
            When the name ends in neither.
        """
        name = os.fspath(path)
        if name.endswith(SUFFIX):
            content = self.pack()
        elif name.endswith((".html", ".htm")):
            content = self.page(os.path.basename(name).rpartition(".")[0]).encode()
        else:
            raise ValueError(f"{name!r}: a recording is saved as NAME{SUFFIX}, or as NAME.html to look at in a browser")
        with open(name, "wb") as file:
            file.write(content)
        return len(content)


def table_of(name: str, columns: Mapping[str, Any]) -> pa.Table:
    """A table of a recording from its columns, in the order and the types that the format has."""
    import pyarrow as pa

    return pa.table(
        [pa.array(columns[column], pa.type_for_alias(kind)) for column, kind in ALL_TABLES[name].items()],
        list(ALL_TABLES[name]),
    )


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a ``.cellmesh`` file.

    Raises
    ------
    OSError
        When it cannot be read.
    RecordingError
        When it is none, or of a version that this one does not know.
    """
    with open(path, "rb") as file:
        return read_recording(file.read(), os.fspath(path))


def read_recording(content: bytes, name: str = "recording") -> Recording:
    """Likewise of a file's content; `name` is for errors."""
    import pyarrow as pa

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            about = json.loads(_member(archive, "run.json"))
            if not isinstance(about, dict) or about.get("format") != FORMAT:
                raise RecordingError(f"{name} is no cellmesh recording")
            version = about.get("version")
            if not (isinstance(version, int) and OLDEST_VERSION <= version <= VERSION):
                raise RecordingError(
                    f"{name} is a recording of version {version!r}, and this cellmesh reads versions "
                    f"{OLDEST_VERSION} to {VERSION}: the cellmesh that wrote it reads it, and so may a newer one"
                )
            experiments, learning = about.get("experiments", []), about.get("learning", [])
            if not isinstance(experiments, list) or not isinstance(learning, list):
                raise ValueError("its experiments or its runs of learning are no list")
            tables = {}
            for table, columns in _tables_of(experiments, learning).items():
                read = pa.ipc.open_file(pa.BufferReader(_member(archive, f"{table}.arrow"))).read_all()
                read.validate(full=True)
                if {column.name: str(column.type) for column in read.schema} != {
                    column: ARROW_NAMES.get(kind, kind) for column, kind in columns.items()
                }:
                    raise RecordingError(f"{name}: its table {table} has other columns than a recording has")
                tables[table] = read
            _check_names(about["header"])
            return Recording(_in_words_of_today(about["header"]), tables, experiments, learning)
    except (*DAMAGED, pa.ArrowException) as error:
        raise RecordingError(f"{name} is no cellmesh recording: {error or type(error).__name__}") from None


def _tables_of(experiments: Sequence[Any], learning: Sequence[Any]) -> dict[str, dict[str, str]]:
    """The tables that a recording with these has, with their columns."""
    return TABLES | (TRIAL_TABLES if experiments else {}) | (LEARNING_TABLES if learning else {})


def _check_names(header: Any) -> None:
    """See to it that what the tables' numbers mean is there."""
    if not isinstance(header, dict):
        raise ValueError("it says nothing of its session")
    for key, kind in (("functions", str), ("cells", dict), ("workers", dict)):
        pairs = header[key]
        if not (
            isinstance(pairs, list)
            and all(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], kind)
                for pair in pairs
            )
        ):
            raise ValueError(f"its {key} are no list of numbers and what they mean")
    if not all(isinstance(label.get("label"), str) for _, label in header["cells"]):
        raise ValueError("a cell has no name")
    if not isinstance(header["counts"], dict):
        raise ValueError("its counts are no table")


def _in_words_of_today(header: Mapping[str, Any]) -> dict[str, Any]:
    """In version 2 a remote worker was "elsewhere", and queued tasks were "ready"."""
    return {
        **header,
        "workers": [
            [number, {**label, "state": "remote"} if label.get("state") == "elsewhere" else label]
            for number, label in header["workers"]
        ],
        "counts": {"queued" if word == "ready" else word: n for word, n in header["counts"].items()},
    }


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > BYTES_MAX:
        raise ValueError(f"{name} is larger than any recording's")
    return archive.read(name)
