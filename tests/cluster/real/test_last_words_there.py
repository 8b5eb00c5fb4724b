"""What tasks print on another machine than their driver's is shown at its end, and stands in the error of a crash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.drivers import ends_well, program
from support.real_machines import Machine, machines

pytestmark = pytest.mark.timeout(120)

# For tasks: their local scheduler, through which what they print goes, does not get on for a while.
STOP_THE_SCHEDULER = """
        def stop_the_scheduler():
            import subprocess

            zygote = f"/proc/{os.getppid()}/stat"
            scheduler = int(open(zygote).read().rpartition(")")[2].split()[1])
            os.kill(scheduler, 19)
            subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -CONT {scheduler}"])
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Machine, Machine, dict[str, Any]]]:
    """A head, which has a CPU, and a machine for drivers, which offer none."""
    with machines(Machine(), Machine()) as (here, mine):
        yield here, mine, here.head()


@pytest.mark.parametrize("end", ["", "cm.shutdown()", "raise KeyError('mine')"], ids=["end", "shutdown", "exception"])
def test_every_line_is_shown(cluster: tuple[Machine, Machine, dict[str, Any]], end: str) -> None:
    """Although the local scheduler there, through which they go, does not get on while the results come."""
    here, mine, head = cluster
    body = """
        @cm.remote
        def several(n):
            stop_the_scheduler()
            for i in range(n):
                print("several", i)
            return os.environ["XDG_RUNTIME_DIR"]

        @cm.remote
        class Counter:
            def count(self, i):
                print("call", i)

        counter = Counter.options(num_cpus=1).remote()
        cm.get([counter.count.remote(i) for i in range(20)])
        cm.kill(counter)
        assert cm.get(several.remote(30)) != os.environ["XDG_RUNTIME_DIR"]
    """
    driver = program(mine, head, here.run("token"), f"{STOP_THE_SCHEDULER}{body}\n        {end}\n", CPUS="0")
    out, err = driver.communicate(timeout=90)
    assert driver.returncode == ("raise" in end), (out, err)
    found = re.findall(r"^\((\S+) pid=\d+\b[^)]*\) (.*)$", out, re.MULTILINE)
    lines = {who: [line for name, line in found if name == who] for who in ("several", "Counter.count")}
    assert lines["several"] == [f"several {i}" for i in range(30)], (out, err)
    assert lines["Counter.count"] == [f"call {i}" for i in range(20)], (out, err)


def test_lines_of_a_third_machine_are_shown_that_nested_tasks_begin(
    cluster: tuple[Machine, Machine, dict[str, Any]],
) -> None:
    """Its agent knows the machine of the task that began them, not the driver's."""
    here, mine, head = cluster
    body = """
        @cm.remote(resources={"third": 1}, num_cpus=0)
        def inner(n):
            stop_the_scheduler()
            for i in range(n):
                print("inner", i)
            return [os.environ["XDG_RUNTIME_DIR"]]

        @cm.remote
        def outer(n):
            found = cm.get(inner.remote(n))
            print("outer has it")
            return [*found, os.environ["XDG_RUNTIME_DIR"]]

        where = cm.get(outer.remote(30))
        assert len({*where, os.environ["XDG_RUNTIME_DIR"]}) == 3, where
    """
    with machines(Machine()) as (third,):
        third.join(head, here.run("token"), "--num-cpus", "0", "--resources", "third=1")
        out = ends_well(program(mine, head, here.run("token"), STOP_THE_SCHEDULER + body, CPUS="0"))
    found = re.findall(r"^\((\S+) pid=\d+\b[^)]*\) (.*)$", out, re.MULTILINE)
    assert [line for who, line in found if who == "inner"] == [f"inner {i}" for i in range(30)], out
    assert [line for who, line in found if who == "outer"] == ["outer has it"], out


def test_the_error_of_a_crash_has_the_last_lines(cluster: tuple[Machine, Machine, dict[str, Any]]) -> None:
    here, mine, head = cluster
    body = """
        @cm.remote(max_retries=0)
        def crashes():
            print("the last thing that it said")
            os.kill(os.getpid(), 11)

        try:
            cm.get(crashes.remote())
        except cm.exceptions.WorkerCrashedError as error:
            print("notes:", error.__notes__)
    """
    out = ends_well(program(mine, head, here.run("token"), body, CPUS="0"))
    assert re.search("notes: .*the last thing that it said", out), out
