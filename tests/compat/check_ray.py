"""The programs of `corpus/` on Ray and on `compat.ray`: what each prints, and how it ends.

    python tests/compat/check_ray.py                     # both: Ray against the record, and compat.ray against Ray
    python tests/compat/check_ray.py --record    # ... and Ray's outcomes are written to corpus/ray_outcomes.json
    python tests/compat/check_ray.py 'actors/*' tasks/nested --ray PYTHON

`make check-ray` makes an environment with Ray first. `test_corpus.py` compares with the record alone, so it needs no
Ray.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
RECORD = CORPUS / "ray_outcomes.json"
DIFFERENCES = CORPUS / "expected_differences.json"
PROGRAMS = {str(path.relative_to(CORPUS).with_suffix("")): path for path in sorted(CORPUS.glob("*/*.py"))}
OURS = (sys.executable, "-m", "cellmesh.compat.ray")
LIMIT_S = 60
RAYS_LIMIT_S = 240  # it takes several seconds to start, and more on a busy machine
# What Ray relays comes when it comes: what workers print, with a prefix, and reports of what it tries again, with a
# traceback.
RELAYED = re.compile(r"\((?:raylet|(?:[^()]|\([^()]*\))* pid=\d+[^)]*)\)")
REPORT = re.compile(r"^\(raylet\) .* User exception:\nray::.*\n(?: .*\n)*.*\n", re.MULTILINE)
ORDERED = re.compile(r"OrderedDict\(({.*?})\)")  # as Python shows one since 3.12; the record has it as before
COLOUR = re.compile(r"\x1b\[\d*m")
Outcome = dict[str, Any]
Begin = Callable[[list[str], float, str], subprocess.CompletedProcess[str]]


def in_its_own_interpreter(command: list[str], limit_s: float, folder: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, cwd=folder, env=environment)


def run(program: Path, *command: str, limit_s: float = LIMIT_S, begin: Begin = in_its_own_interpreter) -> Outcome:
    """Run one program in an empty folder: its lines, its exit status, and the type of the exception that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = begin([*command, str(program)], limit_s, folder)
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode().splitlines()
            return {"stdout": lines, "status": f"none after {limit_s} s", "raises": None}
    lines = [line for line in REPORT.sub("", COLOUR.sub("", done.stdout)).splitlines() if not RELAYED.match(line)]
    lines = [ORDERED.sub(lambda it: f"OrderedDict({[*ast.literal_eval(it[1]).items()]})", line) for line in lines]
    return {"stdout": lines, "status": done.returncode, "raises": raised(COLOUR.sub("", done.stderr))}


def raised(stderr: str) -> str | None:
    """The type in the last traceback of `stderr` that is the program's own, without its module."""
    lines = stderr.splitlines()
    starts = [
        at
        for at, line in enumerate(lines)
        if line == "Traceback (most recent call last):"
        and at + 1 < len(lines)
        and lines[at + 1].endswith((" in <module>", "in _run_module_as_main"))
    ]
    if not starts:
        return None
    last = next((line for line in lines[starts[-1] + 1 :] if not line.startswith(" ")), "")
    return re.split(r"[:\s]", re.sub(r"^[\w.]*\.(?=\w+)", "", last))[0] or None


def recorded() -> dict[str, Outcome]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def as_lines(outcome: Outcome) -> list[str]:
    return [*outcome["stdout"], f"exit status {outcome['status']}", f"raises {outcome['raises']}"]


def difference(expected: Outcome, found: Outcome) -> list[str]:
    """The lines that are missing (-) and those that are there instead (+); none if both are the same."""
    lines = difflib.unified_diff(as_lines(expected), as_lines(found), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def expected_difference(name: str) -> list[str]:
    """Lines in which `compat.ray` differs on purpose; docs/migrating-from-ray.md says why."""
    return json.loads(DIFFERENCES.read_text()).get(name, {}).get("lines", [])


def show(what: str, lines: list[str]) -> None:
    print(f"  {what}\n" + "".join(f"    {line}\n" for line in lines), end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=["*"], help="names or patterns, as tasks/nested or 'actors/*'")
    parser.add_argument("--ray", default=Path(".venv-bench-ray/bin/python"), type=Path, help="the Python that has Ray")
    parser.add_argument("--record", action="store_true", help="write what Ray does to the record")
    opt = parser.parse_args()
    names = [name for name in PROGRAMS if any(fnmatch.fnmatch(name, pattern) for pattern in opt.programs)]
    rays_python = str(opt.ray.absolute())  # programs run in folders of their own
    if not names:
        parser.error(f"no program matches {' '.join(opt.programs)}; there are {', '.join(PROGRAMS)}")
    record, different = recorded(), 0
    for name in names:
        rays, ours = run(PROGRAMS[name], rays_python, limit_s=RAYS_LIMIT_S), run(PROGRAMS[name], *OURS)
        drift = [] if opt.record else difference(record.get(name, {"stdout": [], "status": None, "raises": None}), rays)
        found = difference(rays, ours)
        wrong = bool(drift) or found != expected_difference(name)
        different += wrong
        print(f"{'DIFFERENT' if wrong else 'same' if not found else 'as listed':<10}{name}", flush=True)
        if drift:
            show("Ray itself differs from its record:", drift)
        if wrong and found:
            show("compat.ray (+) differs from Ray (-):", found)
        if opt.record:
            record = {**recorded(), name: rays}
            kept = {known: record[known] for known in sorted(record) if known in PROGRAMS}
            RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(names) - different} of {len(names)} programs are as they should be")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
