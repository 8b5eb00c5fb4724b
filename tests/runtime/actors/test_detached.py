"""Detached actors outlive their driver, and the next run finds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.node import session_dir
from cellmesh.scheduler.node.handle import Node
from cellmesh.scheduler.system import processes
from support.waiting import wait_until

import cellmesh

pytestmark = pytest.mark.timeout(60)

BEGIN = """
import os, sys, time
import cellmesh as cm

@cm.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self):
        self.n += 1
        return self.n
    def pid(self):
        return os.getpid()
    def sum_later(self, n):
        return [add.remote(i, 1) for i in range(n)]

@cm.remote
def add(a, b):
    return a + b

@cm.remote
def forever():
    print("runs", flush=True)
    cm.get(inner.remote())

@cm.remote
def inner():
    while True:
        time.sleep(10)
"""


class Runs:
    """Runs of one script."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, code: str, *, address: str = "", ends: int = 0) -> tuple[list[str], str]:
        """What the script prints, by lines, and what it says on stderr."""
        self.path.write_text(BEGIN + textwrap.dedent(code))
        environment = {**os.environ, **({"CELLMESH_ADDRESS": address} if address else {})}
        done = subprocess.run(
            [sys.executable, "-u", str(self.path)], capture_output=True, text=True, timeout=40, env=environment
        )
        assert done.returncode == ends, done.stderr
        return done.stdout.splitlines(), done.stderr


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runs]:
    """Sessions that it leaves are ended after the test."""
    before = set(session_dir.alive())
    yield Runs(tmp_path / "script.py")
    for folder in set(session_dir.alive()) - before:
        processes.kill_session(session_dir.id_of(folder), timeout_s=5.0)
        session_dir.remove(folder)


MAKE = (
    'counter = Counter.options(name="counter", lifetime="detached").remote()\nprint(cm.get(counter.add.remote()), '
    "cm.get(counter.pid.remote()))\n"
)
FIND = 'counter = cm.get_actor("counter")\nprint(cm.get(counter.add.remote()), cm.get(counter.pid.remote()))\n'


def test_what_it_has_printed_is_shown_before_its_driver_leaves(run: Runs) -> None:
    lines, said = run("""
        @cm.remote(num_cpus=0)
        class Lasting:
            def say(self, i):
                print("line", i)
        actor = Lasting.options(name="lasting", lifetime="detached").remote()
        cm.get([actor.say.remote(i) for i in range(5)])
        """)
    assert [line.partition(") ")[2] for line in lines] == [f"line {i}" for i in range(5)] and "goes on" in said
    assert all(line.startswith("(Lasting.say pid=") for line in lines), lines


def is_gone(pid: int) -> bool:
    """Zombies are gone: whose children they are is not ours to say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or while it was read
        return True


@pytest.mark.parametrize("end, status", [("", 0), ("os.kill(os.getpid(), 9)", -signal.SIGKILL), ("os._exit(3)", 3)])
def test_the_next_run_finds_it(run: Runs, end: str, status: int) -> None:
    first, said = run("cm.init(num_cpus=2)\n" + MAKE + end, ends=status)
    assert status or ("goes on" in said and "'counter'" in said and "cellmesh stop" in said)
    second, said = run("cm.init(num_cpus=2)\n" + FIND + end, ends=status)
    assert "an earlier run's session goes on, with the detached actor 'counter'" in said
    third, _ = run(FIND + "cm.shutdown()")
    assert [line.split()[0] for line in (*first, *second, *third)] == ["1", "2", "3"]
    pid = int(first[0].split()[1])
    assert {line.split()[1] for line in (*first, *second, *third)} == {str(pid)}
    assert is_gone(pid), "shutdown() ends all there is"


def test_what_else_the_driver_has_begun_ends_with_it(run: Runs) -> None:
    """Running and waiting tasks, tasks in tasks, ordinary actors; what the detached actor has begun goes on."""
    lines, _ = run(f"""
        cm.init(num_cpus=3)
        {MAKE.splitlines()[0]}
        ordinary = Counter.remote()
        print(cm.get(counter.pid.remote()), cm.get(ordinary.pid.remote()))
        task, waiting = forever.remote(), [add.remote(i, forever.remote()) for i in range(50)]
        its_own = cm.get(counter.sum_later.remote(3))
        while sum(row["state"] == "running" for row in cm.state.list_tasks()) < 2:
            time.sleep(0.01)
        os._exit(0)
    """)
    detached, ordinary = map(int, lines[0].split())
    wait_until(lambda: is_gone(ordinary), what="the ordinary actor ends")
    assert not is_gone(detached)
    lines, _ = run("""
        cm.init()
        def is_done():
            return not [
                row for row in cm.state.list_tasks() if row["state"] in ("running", "waiting", "queued", "retrying")
            ]
        while not is_done():
            time.sleep(0.01)
        free = cm.available_resources()
        print(free["CPU"], [row["class_name"] for row in cm.state.list_actors() if row["state"] == "alive"])
        print(cm.get(add.remote(20, 22)))
        cm.shutdown()
    """)
    assert lines == ["3.0 ['Counter']", "42"]


def test_without_it_nothing_goes_on(run: Runs) -> None:
    """Neither when it has been killed before the driver ends, nor when it ends afterwards."""
    before = set(session_dir.alive())
    run("cm.init(num_cpus=1)\n" + MAKE + "cm.kill(counter)\nos._exit(0)")
    wait_until(lambda: set(session_dir.alive()) == before, what="no session is left")
    lines, _ = run("cm.init(num_cpus=1)\n" + MAKE)
    os.kill(int(lines[0].split()[1]), signal.SIGKILL)
    wait_until(lambda: set(session_dir.alive()) == before, what="no session is left")


def test_a_guest_keeps_it_until_it_leaves(run: Runs, tmp_path: Path) -> None:
    before = set(session_dir.alive())
    run("cm.init(num_cpus=1)\n" + MAKE)
    (folder,) = set(session_dir.alive()) - before
    guest = Runs(tmp_path / "another.py")
    lines, said = guest(
        "cm.init()\n[named] = cm.util.list_named_actors(all_namespaces=True)\ncm.kill(cm.get_actor(**named))\n"
        "print(cm.get(add.remote(1, 2)))",
        address=str(Path(folder, session_dir.SOCKET_NAME)),
    )
    assert lines == ["3"] and "goes on" not in said
    wait_until(lambda: set(session_dir.alive()) == before, what="no session is left")


def test_who_comes_too_late_to_adopt_it_does_not_keep_it(run: Runs) -> None:
    """This process, which goes on living, meets the driver that has it."""
    before = set(session_dir.alive())
    run.path.write_text(BEGIN + "cm.init(num_cpus=1)\n" + MAKE + "sys.stdout.flush()\ninput()\nos._exit(0)")
    with subprocess.Popen(
        [sys.executable, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout
        pid = int(driver.stdout.readline().split()[1])
        (folder,) = set(session_dir.alive()) - before
        assert Node.adopt(str(Path(folder, session_dir.SOCKET_NAME))) is None
        driver.communicate("\n", timeout=40)
    wait_until(lambda: Path(folder, session_dir.LEFT_NAME).exists(), what="the session goes on")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: set(session_dir.alive()) == before, what="no session is left")


def test_another_script_or_other_arguments_start_their_own(run: Runs, tmp_path: Path) -> None:
    run("cm.init(num_cpus=1)\n" + MAKE)
    other = Runs(tmp_path / "another.py")
    look = "print([row['name'] for row in cm.state.list_actors()], cm.cluster_resources()['CPU'])\ncm.shutdown()"
    assert other("cm.init(num_cpus=1)\n" + look) == (["[] 1.0"], "")
    lines, said = run("cm.init(num_cpus=2)\n" + look)
    assert lines == ["[] 2.0"] and "num_cpus=1.0" in said and "num_cpus=2" in said and "cellmesh stop" in said
    assert run("cm.init(address='local', num_cpus=1)\n" + look) == (["[] 1.0"], "")
    assert run("cm.init(num_cpus=1)\n" + look)[0] == ["['counter'] 1.0"]


def test_a_session_of_another_version_is_left_alone(run: Runs) -> None:
    run("cm.init(num_cpus=1)\n" + MAKE)
    ((folder, note),) = wait_until(lambda: [left for left in session_dir.left() if str(run.path).encode() in left[1]])
    Path(folder, session_dir.LEFT_NAME).write_bytes(note.replace(b"max_tasks", b"max_works"))
    lines, said = run("cm.init(num_cpus=1)\nprint(cm.state.list_actors())\ncm.shutdown()")
    assert lines == ["nothing"] and "of another version of cellmesh" in said and "cellmesh stop" in said


def test_the_command_line_names_it(run: Runs) -> None:
    run("cm.init(num_cpus=1)\n" + MAKE)
    status = subprocess.run(
        [sys.executable, "-m", "cellmesh.cli", "status"], capture_output=True, text=True, timeout=40
    )
    assert "driver   none; kept for the detached actor 'counter'" in status.stdout, status.stdout + status.stderr


def test_actors_rows_say_it() -> None:
    cellmesh.init(num_cpus=1)
    kept = cellmesh.remote(Runs).options(lifetime="detached").remote(Path("x"))
    rows = cellmesh.state.list_actors()
    assert [row["detached"] for row in rows] == [True]
    cellmesh.kill(kept)
    cellmesh.shutdown()
