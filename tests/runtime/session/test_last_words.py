"""What tasks have printed whose values a script has got is shown at its end, under their names, however it ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

TASKS = """
import os, subprocess, sys, threading
import cellmesh as cm

cm.init(num_cpus=2)

@cm.remote
def plain(i):
    print("plain", i)

@cm.remote
def several(n):
    for i in range(n):
        print("several", i)
    print("not ended", end="")

@cm.remote
def aside():
    print("on stderr", file=sys.stderr)

@cm.remote
def below():
    os.write(1, b"by descriptor\\n")
    subprocess.run(["echo", "by a child"], check=True)

@cm.remote
def threaded():
    thread = threading.Thread(target=print, args=("by a thread",))
    thread.start()
    thread.join()

@cm.remote
def numbers():
    for i in range(3):
        print("item", i)
        yield i

@cm.remote
def outer():
    print("before")
    return cm.get(plain.remote(99))

@cm.remote(num_cpus=0)
class Counter:
    def __init__(self):
        print("constructed")
    def count(self, i):
        print("call", i)

@cm.remote(num_cpus=0)
class Async:
    async def count(self, i):
        print("async call", i)

class Talks:
    def __reduce__(self):
        print("pickled")
        return int, (3,)

@cm.remote
def pickles():
    return Talks()

actor, other = Counter.remote(), Async.remote()
cm.get([plain.remote(i) for i in range(50)])
cm.get([aside.remote(), below.remote(), threaded.remote(), outer.remote()])
[cm.get(ref) for ref in numbers.remote()]
cm.get([actor.count.remote(i) for i in range(5)] + [other.count.remote(i) for i in range(5)])
cm.get(pickles.remote())
cm.get(several.remote(20))
"""
LINES = {
    "plain": [*(f"plain {i}" for i in range(50)), "plain 99"],
    "several": [*(f"several {i}" for i in range(20)), "not ended"],
    "aside": ["on stderr"],
    "threaded": ["by a thread"],
    "numbers": [f"item {i}" for i in range(3)],
    "outer": ["before"],
    "Counter": ["constructed"],
    "Counter.count": [f"call {i}" for i in range(5)],
    "Async.count": [f"async call {i}" for i in range(5)],
    "pickles": ["pickled"],
}
BELOW = ["by descriptor", "by a child"]


def run(code: str, status: int = 0, *arguments: str) -> str:
    """What a script prints, stderr included."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def printed(text: str) -> dict[str, list[str]]:
    """The lines of each task."""
    found: dict[str, list[str]] = {}
    for name, line in re.findall(r"^\(([\w.]+) pid=\d+\) (.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(line)
    return found


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("cm.shutdown()", 0),
        ("sys.exit(3)", 3),
        ("raise KeyError('mine')", 1),
        ("import atexit; atexit.register(lambda: cm.get(plain.remote(7)))", 0),
    ],
    ids=["end", "shutdown", "exit", "exception", "atexit"],
)
def test_every_line_is_shown_under_its_name(end: str, status: int) -> None:
    text = run(f"{TASKS}\n{end}\n", status)
    found = printed(text)
    below = [
        line for lines in found.values() for line in lines if line in BELOW
    ]  # which go by what their worker runs when they are read
    found = {
        name: sorted(line for line in lines if line not in BELOW) for name, lines in found.items() if name != "below"
    }
    wanted = LINES if "atexit" not in end else {**LINES, "plain": [*LINES["plain"], "plain 7"]}
    assert found == {name: sorted(lines) for name, lines in wanted.items()} and sorted(below) == sorted(BELOW), text


@pytest.mark.parametrize("end", ["", "cm.shutdown()"])
def test_one_line_at_the_very_end(end: str) -> None:
    for _ in range(3):
        text = run(f"import cellmesh as cm\n@cm.remote\ndef f():\n    print('the line')\ncm.get(f.remote())\n{end}")
        assert printed(text) == {"f": ["the line"]}, text


def test_a_driver_that_only_joined_sees_its_lines_too() -> None:
    text = run("""
import cellmesh as cm, subprocess, sys
with cm.init(num_cpus=1):
    from cellmesh.session.current import current
    code = "import cellmesh as cm, sys; cm.init(address=sys.argv[1]); "
    code += "f = cm.remote(lambda: print('of the guest')); cm.get(f.remote())"
    said = subprocess.run(
        [sys.executable, "-c", code, current().node.address], capture_output=True, text=True, timeout=40, check=True
    ).stdout
print("said:", said)
""")
    assert re.search(r"said: \(<lambda> pid=\d+\) of the guest\n", text), text


@pytest.mark.parametrize("flood", ["print('x' * 99)", "os.write(1, b'x' * 99 + b'\\n')"], ids=["print", "descriptor"])
def test_of_a_flood_what_is_left_out_is_said(flood: str) -> None:
    text = run(f"""
import os
import cellmesh as cm
@cm.remote
def floods():
    for _ in range(30_000):
        {flood}
cm.get(floods.remote())
""")
    notes = re.findall(r"\[cellmesh dropped ([\d,]+) lines", text)
    assert len(text) < 2_500_000 and notes
    n_told = text.count("x" * 99) + sum(int(n.replace(",", "")) for n in notes)
    assert abs(30_000 - n_told) <= 2 * len(notes), "but for lines that are cut where something was left out"


def test_a_flood_that_goes_on_does_not_hold_up_the_end() -> None:
    text = run("""
import cellmesh as cm
@cm.remote
def first():
    print("the line")
@cm.remote(num_cpus=0)
def endless():
    while True:
        print("y" * 99)
cm.init(num_cpus=2)
refs = [endless.remote() for _ in range(2)]
cm.get(first.remote())
print("the end")
""")
    assert "(first pid=" in text and "the line" in text and "the end" in text


def test_nothing_is_asked_for_where_nothing_is_shown() -> None:
    assert (
        run("""
import cellmesh as cm
from cellmesh.session.current import current
cm.init(num_cpus=1, log_to_driver=False)
of = current()
of.hear_printed = lambda: print("asked")
cm.get(cm.remote(lambda: print("unheard")).remote())
""")
        == ""
    )


ENDS = """
import ctypes, os, sys, threading
import cellmesh as cm

def rows():
    for i in range(30):
        print("row", i)
    print("row", 30, end="")

def waits(done):
    rows()
    os.write(done, b"x")
    threading.Event().wait()

@cm.remote(max_retries=0)
def crashes(how):
    rows()
    how()

@cm.remote(num_cpus=0)
class Waits:
    def call(self, done):
        waits(os.open(done, os.O_WRONLY))

@cm.remote(max_retries=0)
def waits_for_ever(done):
    waits(os.open(done, os.O_WRONLY))

def begun(ask):
    os.mkfifo(sys.argv[1])
    ref = ask(sys.argv[1])
    with open(sys.argv[1], "rb") as pipe:
        pipe.read(1)
    return ref

def segfault():
    ctypes.string_at(0)

cm.init(num_cpus=1, log_dir=sys.argv[2])
"""


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("crashes", "got = crashes.remote(lambda: os.kill(os.getpid(), 9))"),
        ("crashes", "got = crashes.remote(segfault)"),
        ("crashes", "got = crashes.remote(lambda: os._exit(3))"),
        ("Waits.call", "actor = Waits.remote(); begun(actor.call.remote); cm.kill(actor)"),
        ("waits_for_ever", "cm.cancel(begun(waits_for_ever.remote), force=True)"),
        ("Waits.call", "actor = Waits.remote(); begun(actor.call.remote); cm.kill(actor); cm.shutdown(); cm.init()"),
    ],
    ids=["killed", "segfault", "exit", "kill", "cancel", "second-session"],
)
def test_what_a_process_has_printed_before_its_end_is_shown(name: str, end: str, tmp_path: Path) -> None:
    code = f"""{ENDS}
{end}
if {"got" in end}:
    try:
        cm.get(got)
    except cm.exceptions.WorkerCrashedError as error:
        assert [line.strip() for line in "".join(error.__notes__).split("\\n")].count("row 29") == 1, error.__notes__
"""
    text = run(code, 0, str(tmp_path / "done"), str(tmp_path / "logs"))
    rows = [f"row {i}" for i in range(31)]
    found = printed(text).get(name, [])
    assert [line for line in found if line.startswith("row")] == rows, text
    assert "\n".join(rows) in "".join(file.read_text() for file in (tmp_path / "logs").iterdir())


def test_whatever_a_task_shows_is_there_at_the_end() -> None:
    text = run("""
import logging, warnings
import cellmesh as cm

@cm.remote
def shows():
    from IPython.display import display
    from tqdm import tqdm
    for i in range(30):
        logging.getLogger("mine").warning("record %d", i)
        warnings.warn(f"warning {i}", stacklevel=1)
        display(f"display {i}")
    for _ in tqdm(range(30), desc="bar"):
        pass
    unclosed = tqdm(total=30, desc="unclosed")
    unclosed.update(7)

cm.get(shows.remote())
""")
    for i in range(30):
        for words in (f"record {i}\n", f"UserWarning: warning {i}\n", f"display {i}'\n"):
            assert text.count(words) == 1, (words, text)
    assert re.search(r"bar: 100%.* 30/30 ", text) and re.search(r"unclosed: +23%.* 7/30 ", text), text
