"""The command line, as somebody types it who looks at what a session does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.ids import short_id

pexpect = pytest.importorskip("pexpect")
pytestmark = pytest.mark.timeout(90)
COMMAND = [sys.executable, "-m", "cellmesh.cli"]


@cellmesh.remote
def say(text: str) -> bytes:
    print(text)
    return bytes(1 << 20)


@cellmesh.remote
class Counter:
    def ping(self) -> str:
        return "pong"


def run(*arguments: str, status: int = 0) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def test_logs_show_what_tasks_have_printed_before(cm: ModuleType) -> None:
    assert "its tasks have printed nothing" in run("logs")
    cm.get([say.remote("one"), say.remote("two")])
    text = wait_until(lambda: next((text for text in [run("logs")] if text.count("(say pid=") == 2), ""))
    assert "what its tasks have printed:" in text and re.search(r"\(say pid=\d+\) one\n", text)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"log_to_driver": False}, "is not collected, as it was started with log_to_driver=False\n"),
        ({"log_dir": "logs"}, "(all of it is in "),
    ],
)
def test_logs_say_where_the_rest_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with cellmesh.init(num_cpus=1, **given):
        cellmesh.get(say.remote("x"))
        wait_until(lambda: said in run("logs"))


def test_a_table_has_units_and_short_ids_which_filters_take(cm: ModuleType) -> None:
    held = say.remote("x")
    cm.get(held)
    id = short_id(held.hex())
    assert re.search(
        rf"{re.escape(id)} +ready +1.05 MB +memory +task \d+ +say ", run("list", "objects", "--filter", f"id={id}")
    )
    assert re.search(rf"{held.hex()} +ready +1048\d\d\d ", run("list", "objects", "--bytes", "--filter", "name=say"))
    assert "say" not in run("list", "tasks", "--filter", "name=1") and "say" in run(
        "list", "tasks", "--filter", "name!=1"
    )
    assert f"{id:<8}  ready    by say (task {held.creator}), refs in pid {os.getpid()} (driver)" in run("memory")
    assert "MB of 269 MB" in run("status") and re.search(r"10\d{5} of 2\d{8},", run("status", "--bytes"))


def test_memory_names_the_variables_of_the_program(cm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    main, ref = sys.modules["__main__"], cm.put(bytes(1 << 20))
    monkeypatch.setattr(main, "images", ref, raising=False)
    monkeypatch.setattr(main, "parts", [cm.put(bytes(1 << 19))], raising=False)
    lines = run("memory").splitlines()
    assert lines[2].endswith(f": images of pid {os.getpid()}") and lines[3].endswith(f": parts of pid {os.getpid()}")
    assert cm.state.memory().splitlines()[1].endswith(": images"), "nobody else was asked"


def test_memory_does_not_wait_for_a_program_that_does_not_answer(cm: ModuleType) -> None:
    code = (
        "import cellmesh, sys; cellmesh.init(sys.argv[1]); held = cellmesh.put(bytes(1 << 20)); print('held', "
        "flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, cm.state.running().node.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin is not None and other.stdout is not None and other.stdout.readline() == b"held\n"
    assert f": held of pid {other.pid}" in cm.state.memory()
    os.kill(other.pid, signal.SIGSTOP)
    try:
        assert f"refs in pid {other.pid} (driver)" in cm.state.memory() and "held of" not in cm.state.memory()
    finally:
        os.kill(other.pid, signal.SIGCONT)
        other.communicate(b"")


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_status_counts_more_tasks_than_a_listing_has(cm: ModuleType) -> None:
    never = say.options(resources={"none": 1})
    refs = [never.remote("x") for _ in range(10_001)]
    assert json.loads(run("status", "--json"))[0]["tasks"]["queued"] == len(refs)
    cm.cancel(refs)


def test_a_summary_by_function(cm: ModuleType) -> None:
    cm.get([say.remote(str(i)) for i in range(3)])
    title, row = run("summary").splitlines()[1:]
    assert (
        title.split() == ["name", "finished", "mean", "p95", "total", "share"]
        and row.split()[:2] == ["say", "3"]
        and row.endswith("100 %")
    )
    assert json.loads(run("summary", "--json"))[0]["tasks"][0]["finished"] == 3


def test_stacks_of_tasks_by_name(cm: ModuleType, flag) -> None:
    @cm.remote
    def patient() -> None:
        flag("on").set_by_me()
        flag("go").wait()

    actor = Counter.options(name="main").remote()
    cm.get(actor.ping.remote())
    ref = patient.remote()
    pid = flag("on").wait()
    text = run("stack")
    assert re.search(rf"--- patient \(task {ref.creator}\), pid {pid}, for .*\n(.*\n)*.* in patient", text)
    assert "--- Counter of actor 'main', pid " in text
    for what in ("patient", str(ref.creator), pid):
        assert "in patient" in run("stack", what) and "Counter" not in run("stack", what)
    assert "waits for work" in run("stack", "main")
    said = run("stack", "nobody", status=2)
    assert "no task, actor or worker nobody runs now; what runs is Counter, patient" in said
    flag("go").set()
    cm.get(ref)


def test_watching_prints_rounds_into_a_pipe_and_ends_quietly(cm: ModuleType) -> None:
    with subprocess.Popen(
        [*COMMAND, "status", "--watch", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        seen = [line for line in (watching.stdout.readline() for _ in range(30)) if line.startswith("session ")]
        assert len(seen) > 2
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=30)
    assert watching.returncode == 0 and errors == "" and "\x1b" not in rest
    assert len([row for row in cm.state.list_workers() if row["role"] == "driver"]) == 1, "rounds leave nobody behind"
    with subprocess.Popen(
        [*COMMAND, "status", "--watch", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        watching.stdout.readline()
        watching.stdout.close()  # as `head` does
        assert watching.wait(30) == 0 and watching.stderr.read() == ""


def test_watching_draws_in_a_terminal_and_leaves_the_last_round(cm: ModuleType) -> None:
    terminal = pexpect.spawn(
        COMMAND[0], [*COMMAND[1:], "summary", "--watch", "0.1"], timeout=30, encoding="utf-8", dimensions=(20, 100)
    )
    try:
        cm.get(say.remote("x"))
        terminal.expect(r"every 0.1 s .* Ctrl-C ends.*\x1b\[Ksay\x1b|\nsay +1 ")
        terminal.sendintr()
        terminal.expect(r"\x1b\[\?1049lsession (.*)$")
        terminal.expect(pexpect.EOF)
        terminal.close()
        assert terminal.exitstatus == 0
    finally:
        terminal.close(force=True)


def test_a_filter_by_a_state_that_there_is_not_is_wrong_usage(cm: ModuleType) -> None:
    assert "there is no state 'runing', there are waiting, queued" in run(
        "list", "tasks", "--filter", "state=runing", status=2
    )


def test_watching_ends_where_the_command_is_wrong(cm: ModuleType) -> None:
    assert "at least 0.1" in run("status", "--watch", "0", status=2)
    done = subprocess.run(
        [*COMMAND, "list", "workers", "--filter", "colour=1", "--watch"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "columns are" in done.stdout
