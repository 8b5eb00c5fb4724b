"""Two drivers of one session: each shows what its own tasks print."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import running

pytestmark = pytest.mark.timeout(90)

PROGRAM = """
import sys
import cellmesh as cm

cm.init(address=sys.argv[1])

@cm.remote(num_cpus=0)
def say(text, deeper=0):
    print(text, flush=True)
    return cm.get(say.remote(f"{text} below", deeper - 1)) if deeper else None

print("joined", flush=True)
sys.stdin.readline()
cm.get(say.remote("theirs", 2))
cm.get(cm.get_actor("talker", namespace="shared").say.remote("called by them"))
print("said", flush=True)
sys.stdin.readline()
"""


@cellmesh.remote(num_cpus=0)
def say(text: str) -> None:
    print(text, flush=True)


@cellmesh.remote(num_cpus=0)
class Talker:
    def say(self, text: str) -> None:
        print(text, flush=True)


def test_each_driver_shows_what_its_own_tasks_print(
    cm: ModuleType, capfd: pytest.CaptureFixture, flag: Callable[[str], Flag]
) -> None:
    talker = Talker.options(name="talker", namespace="shared").remote()
    shown: list[str] = []

    def here() -> str:
        shown.append("".join(capfd.readouterr()))
        return "".join(shown)

    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, running().node.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdin and other.stdout
        assert other.stdout.readline() == "joined\n"
        cm.get([say.remote("mine"), talker.say.remote("called by me")])
        wait_until(lambda: "mine" in here() and "called by me" in here())
        other.stdin.write("\n")
        other.stdin.flush()
        lines = []
        while not lines or lines[-1] != "said\n":
            lines.append(other.stdout.readline())
            assert lines[-1]
        cm.get(say.remote("mine again"))
        wait_until(lambda: "mine again" in here())  # which came after what they have printed
        there = "".join(lines) + "".join(other.communicate("\n", timeout=30))
    assert "theirs" not in here() and "by them" not in here()
    assert "theirs below below" in there and "called by them" in there
    assert "mine" not in there and "by me" not in there
    cm.get(say.remote("alone"))
    wait_until(lambda: "alone" in here())
