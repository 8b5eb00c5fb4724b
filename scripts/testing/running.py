"""One kind of test, run to its end or to its limit, and what came of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .kinds import ROOT, Kind

LAST_WORDS_S = 10  # what has been told to end may take this long to print its stacks
printing = threading.Lock()  # what one kind has printed, as a whole


@dataclass
class Failure:
    """A test that failed; `name` is what `Kind.one` takes, or empty where no single test is known."""

    name: str
    why: str


@dataclass
class Outcome:
    """What came of a kind. `failures` are those of its tests that are known by name, unless it was cut short."""

    kind: Kind
    status: str  # ok, FAILED, NOT RUN
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    failures: list[Failure] = field(default_factory=list)
    flaky: list[Failure] = field(default_factory=list)


def counts(output: str) -> dict[str, int]:
    """Tests by outcome, from the closing lines of pytest, vitest and objstore/core/Makefile."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    closing = [
        line
        for line in output.splitlines()
        if re.search(r"^(=+ )?\d+ \w+.* in [\d.]+s|^ *Tests +\d|^core tests \(", line)
    ]
    if closing:
        for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", closing[-1]):
            found[{"error": "failed", "errors": "failed"}.get(word, word)] += int(number)
    return found


def recorded_failures(lines: list[str]) -> list[Failure]:
    """Of a record of tests in Python (tests/support/outcomes.py), in the order in which they failed.

    A record that was cut short ends with the test that ran then, whose name is left empty: nobody knows what the tests
    after it would have done, so running it alone would prove nothing.
    """
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    why: dict[str, str] = {}
    for event in events:
        if "failed" in event:
            why.setdefault(event["failed"], event["why"])
    failures = [Failure(name, text) for name, text in why.items()]
    if not any("complete" in event for event in events):
        running = {event["began"] for event in events if "began" in event} - {event.get("ended") for event in events}
        failures.append(Failure("", f"the run ended in {', '.join(sorted(running)) or 'none of its tests'}"))
    return failures


def failed_programs(output: str) -> list[Failure]:
    """Of tests in C, each with what it printed."""
    failures = []
    for names in re.findall(r"^core tests \(.*\): failed: (.*)$", output, re.M):
        for name in names.split():
            said = re.search(rf"^FAILED  {name} .*\n(?:.*\n)*?(?=^(?:ok|FAILED)  |^make|^core tests)", output, re.M)
            failures.append(Failure(name, said[0] if said else ""))
    return failures


class Runs:
    """The kinds that run now, so that all end when this program does."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[str]] = set()
        self._over = False

    def end(self) -> None:
        """End everything; nothing begins after it."""
        self._over = True
        for process in [*self._processes]:
            _kill(process)

    def run(self, kind: Kind, fast: bool, alone: bool, test: str = "") -> Outcome:
        """A kind, or one of its tests; ends everything that it started when its time is up.

        What it prints is passed through, or, beside others, printed at its end.
        """
        head = f"\n{'=' * 24} {kind.name}{f': {test}' if test else ''} {'=' * 24}"
        print(head if alone else f"{kind.name} ...", flush=True)
        command = kind.one(test) if test and kind.one else kind.command
        record = ROOT / "build/tests" / f"{kind.name.replace(' ', '-')}.jsonl"
        if kind.recorded:
            record.unlink(missing_ok=True)
            command = [*command, f"--record={record}"]
        started = time.monotonic()
        output, code, late = self._output(command, _environment(kind, fast), kind.limit_s, alone)
        seconds = time.monotonic() - started
        if not alone:
            with printing:
                print(f"{head}\n{output}", end="", flush=True)
        note = f"ended after its limit of {kind.limit_s} s" if late else f"status {code}" if code else ""
        output = re.sub(r"\x1b\[[0-9;]*m", "", output)
        outcome = Outcome(kind, "FAILED" if code else "ok", seconds, **counts(output), note=note)
        if code:
            outcome.failures = _failures(kind, output, record) or [Failure("", _end_of(output))]
            outcome.failed = max(outcome.failed, len(outcome.failures))
        return outcome

    def _output(
        self, command: list[str], environment: dict[str, str], limit_s: int, aloud: bool
    ) -> tuple[str, int, bool]:
        """What it printed, its exit status, and whether it was ended."""
        late = threading.Event()
        lines: list[str] = []
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            self._processes.add(process)
            limit = threading.Timer(limit_s, _end_late, (process, late))
            try:
                if self._over:
                    _kill(process)
                limit.start()
                for line in process.stdout:
                    if aloud:
                        print(line, end="", flush=True)
                    lines.append(line)
                code = process.wait()
            except BaseException:
                _kill(process)
                raise
            finally:
                limit.cancel()
                self._processes.discard(process)
        return "".join(lines), code, late.is_set()


def _end_late(process: subprocess.Popen[str], late: threading.Event) -> None:
    """End what has reached its limit. pytest's handler of faults prints all stacks at SIGABRT."""
    late.set()
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        pass  # it does not even answer to that
    _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """The process and what it started, if any of it still is."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all has ended by itself


def _environment(kind: Kind, fast: bool) -> dict[str, str]:
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
    # Images for containers have it; what is printed must arrive on machines without it, too.
    for name in ("FORCE_COLOR", "PYTHONUNBUFFERED"):
        environment.pop(name, None)
    # Thousands of processes import the same modules: none of them compiles what another one has compiled.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if fast:
        environment["CELLMESH_NOTEBOOK_FAST"] = "1"
    if kind.in_tree:
        environment["PYTHONPATH"] = str(ROOT / "build/dev")
    return environment


def _failures(kind: Kind, output: str, record: Path) -> list[Failure]:
    if kind.recorded:
        return recorded_failures(record.read_text().splitlines(keepends=True)) if record.exists() else []
    return failed_programs(output)


def _end_of(output: str, n_lines: int = 30) -> str:
    return "\n".join(output.splitlines()[-n_lines:])
