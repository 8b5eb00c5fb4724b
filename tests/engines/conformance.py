"""The conformance suite's bookkeeping: which engine can do what, as the suite has seen it.

A test of the suite says which capability it shows, and runs on each engine. Where an engine lacks it, the test must end
with an `EngineUnsupportedError`. What came of it stands in `coverage.json`, from which `docs/tools/engines_page.py`
writes the table in docs/engines.md; a test with another outcome than is written there fails, and `pytest
tests/engines --record-coverage` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

FILE = Path(__file__).parent / "coverage.json"
MACHINES = {"fake": (1, 4), "ray": (2, 2), "dask": (2, 1)}  # how many the tests have, with how many CPUs each
LIBRARIES = {"ray": "ray", "dask": "distributed"}
HERE = [name for name in MACHINES if name not in LIBRARIES or find_spec(LIBRARIES[name]) is not None]  # can be run here
# In the order of the table: name -> what a program does.
CAPABILITIES = {
    "tasks": "tasks, several returns, none",
    "dependencies": "refs as arguments, in containers, in results",
    "errors": "an error of the task's own class, with its traceback; through tasks that depend on it",
    "values": "large values by ref, made there, read here and there",
    "nested": "tasks that tasks submit and wait for",
    "packing": "quick calls in one parcel: results, errors, prints, one that takes long, `cancel` of one",
    "retries": "`retry_exceptions`",
    "cancel": "`cancel` of what has not begun",
    "resources": "a task that no machine can run, which is told",
    "output": "what tasks print, while they run and before their results",
    "native": "values of the engine's own clients: `from_native`, `to_native`",
    "lists": "the engine in `nodes()`",
    "actors": "actors: order, errors, `kill`, their last handle, restarts, checkpoints",
    "actor_calls": "tasks, and methods, that call, read or kill actors",
    "actor_makers": "tasks, and methods, that make actors: named, detached, kept, given on; their errors and restarts",
    "lookups": "tasks, and methods, that find actors by name, and use `kv`",
    "concurrent_actors": "actors with several calls at a time: async, threads, groups",
    "named_actors": "named actors",
    "detached_actors": "detached actors",
    "placement_groups": "placement groups: tasks, actors and groups of actors in their bundles; what ends with them",
    "environments": "`runtime_env`: variables, folders, modules, packages, a function; of tasks, generators and actors",
    "own_environments": "`runtime_env` of its own for a task that a task submits",
    "generators": "generators: items while they run, large ones, refs in them, back-pressure, errors, an early end",
    "actor_generators": "generators as methods of actors",
}
WORKS, REFUSED = "works", "typed error"

Outcomes = dict[str, dict[str, dict[str, str]]]  # engine -> capability -> test -> outcome


def load() -> Outcomes:
    """What is written."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def merged(known: Mapping[str, Mapping[str, Mapping[str, str]]], seen: Outcomes) -> Outcomes:
    """What is known, with what this run has seen."""
    found: Outcomes = {}
    for engine in MACHINES:
        of_engine = {name: dict(known.get(engine, {}).get(name, {})) for name in CAPABILITIES}
        for name, tests in seen.get(engine, {}).items():
            of_engine[name] |= tests
        if any(of_engine.values()):
            found[engine] = {name: dict(sorted(tests.items())) for name, tests in of_engine.items() if tests}
    return found
