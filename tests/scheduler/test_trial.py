"""What the trial of a package says of it, without a session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Runs trials, one after another, in a process without threads, as the zygote is.
PROGRAM = """
import json, os, sys
from cellmesh.scheduler.ipc.messages import Package
from cellmesh.scheduler.worker import trial

site, *names = sys.argv[1:]
verdicts = {}
for name in names:
    package = Package(name, f"{site}/{name}.py", [name])
    one = trial.begin(package, [site, os.path.dirname(site)], limit_s=1 if name == "hangs" else 60)
    _, status = os.waitpid(one.pid, 0)
    verdicts[name] = trial.verdict(one, os.waitstatus_to_exitcode(status))
json.dump(verdicts, open(f"{site}/verdicts.json", "w"))
"""
# What a package does, and what is said of it.
CASES = {
    "clean": ("import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'pass'])", ""),
    "absent": ("", "fails here: ModuleNotFoundError: No module named 'absent'"),
    "elsewhere": ("__file__ = '/elsewhere.py'", "it is found at /elsewhere.py, and the program has it from "),
    "raises": ("raise ValueError('not today')", "its import fails here: ValueError: not today"),
    "thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "its import starts a thread (",
    ),
    "descriptor": ("file = open(__file__)", "its import leaves a descriptor open ("),
    "process": ("import subprocess; process = subprocess.Popen(['sleep', '60'])", "its import starts a process ("),
    "orphan": (
        "import subprocess; subprocess.run(['sh', '-c', 'sleep 60 & exit'])",
        "its import starts a process (",
    ),
    "fork": ("import os; os.fork()", "its import starts a process ("),
    "handler": ("import signal; signal.signal(signal.SIGUSR1, print)", "its import handles signals (SIGUSR1"),
    "ignores": (
        "import signal; signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "its import handles signals (SIGUSR2 is ignored",
    ),
    "exits": ("import os; os._exit(3)", "its import ends the process, with exit status 3"),
    "leaves": ("raise SystemExit(0)", "its import fails here: SystemExit: 0"),
    "crashes": ("import os; os.abort()", "its import ends the process, with SIGABRT"),
    "hangs": ("import signal; signal.pause()", "its import takes more than 1 s"),
    "prints": ("print('hello'); import sys; print('there', file=sys.stderr)", ""),
    "yours": ("import helper", "its import brings in a module of your own (helper)"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    site = tmp_path_factory.mktemp("user") / "site-packages"
    site.mkdir()
    (site.parent / "helper.py").touch()
    for name, (code, _) in CASES.items():
        if name != "absent":
            (site / f"{name}.py").write_text(code)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(site), *CASES], check=True, timeout=60, stdout=subprocess.DEVNULL
    )
    return json.loads(Path(site, "verdicts.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_verdict(verdicts: dict[str, str], name: str) -> None:
    said = CASES[name][1]
    assert said in verdicts[name] and bool(said) == bool(verdicts[name])
