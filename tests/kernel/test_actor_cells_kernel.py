"""`%%actor` and `%%remote --on` in a real kernel."""

from __future__ import annotations

from typing import Any

import pytest
from support.kernels import Kernel, error, plain, result, value
from support.waiting import wait_until

COUNTER = """%%actor counter --args "start, step=2"
import json
def doubled(x): return 2 * x
class Counter:
    def __init__(self, n, step):
        self.n, self.step, self.log = n, step, []
    def add(self):
        self.n += self.step
        return json.dumps(doubled(self.n))"""


@pytest.fixture
def counter(kernel: Kernel) -> None:
    kernel.run("start = 10")
    kernel.run(COUNTER)


@pytest.mark.usefixtures("counter")
def test_a_cell_with_a_class_becomes_a_living_actor(kernel: Kernel) -> None:
    assert value(kernel, "cm.get(counter.add.remote())") == "24"
    assert value(kernel, "doubled(4)") == 8, "helpers stay plain"
    assert value(kernel, "cm.get(Counter.remote(1, 1).add.remote())") == "4", "the class makes more of them"


@pytest.mark.usefixtures("counter")
def test_a_cell_runs_in_the_actors_process_with_its_state(kernel: Kernel) -> None:
    kernel.run(
        "%%remote --on counter\nimport os\nself.n += 100\npid = os.getpid()\nnotes = []\n"
        "handle = open('/dev/null')\nself.n"
    )
    assert value(kernel, "cm.get(_)") == 110
    assert value(kernel, "cm.get(counter.add.remote())") == "224"
    request = kernel.run(
        "%%remote --on counter\nprint('n is', self.n)\nnotes.append(self.n); self.log = notes\n"
        "same = os.getpid() == pid\nstill_open = not handle.closed"
    )
    kernel.until_text(request, lambda text: text == "n is 112\n")
    assert value(kernel, "cm.get([same, still_open])") == [True, True]
    kernel.run("%%remote --on counter\nseen = self.log is notes, list(notes)")
    assert value(kernel, "cm.get(seen)") == (True, [112]), "the very objects, changed in place"
    kernel.run("notes = ['of the notebook']")
    kernel.run("%%remote --on counter\nseen = list(notes)")
    assert value(kernel, "cm.get(seen)") == ["of the notebook"], "what the notebook has bound anew counts"


@pytest.mark.usefixtures("counter")
def test_definitions_on_an_actor_stay_there(kernel: Kernel) -> None:
    kernel.run("%%remote --on counter\ndef look(): return self.n")
    kernel.run("%%remote --on counter\nlooked = look()")
    assert value(kernel, "cm.get(looked)") == 10


@pytest.mark.usefixtures("counter")
def test_an_error_on_an_actor_shows_the_cells_lines_and_the_actor_lives(kernel: Kernel) -> None:
    _, text = error(kernel, "%%remote --on counter --wait\nx = 1\nself.nothing")
    assert "line 3" in text and "self.nothing" in text and "AttributeError" in text
    assert value(kernel, "cm.get(counter.add.remote())") == "24"


def test_an_actor_of_a_name_is_found_and_replaced(kernel: Kernel) -> None:
    cell = "%%actor keeper --name the-keeper\nclass Keeper:\n    def get(self): return {}"
    kernel.run(cell.format(1))
    kernel.run(cell.format(2))
    assert value(kernel, "cm.get(cm.get_actor('the-keeper').get.remote())") == 2
    kernel.run("%%remote --on the-keeper\nkind = type(self).__name__")
    assert value(kernel, "cm.get(kind)") == "Keeper"


AGAIN = {
    "actor": "%%actor again --cpus 2\nclass Again:\n    def get(self): return {}",
    "remote": "%%remote\ndef made(): return {0}\nclass Again:\n    def get(self): return {0}",
}
HELD = "(cm.available_resources()['CPU'], len(os.listdir('/proc/self/fd')), len(cm.state.list_workers()))"


@pytest.mark.parametrize("kind", AGAIN)
def test_a_definitions_cell_runs_again_and_again_and_nothing_grows(kernel: Kernel, kind: str) -> None:
    """Each actor takes both CPUs: it begins because the one before has ended."""
    use = {
        "actor": "(cm.get(again.get.remote(), timeout=30),) * 2",
        "remote": "again = Again.options(num_cpus=2).remote()\n"
        "(cm.get(again.get.remote(), timeout=30), cm.get(made.options(num_cpus=0).remote()))",
    }[kind]
    before: list[Any] = []
    for i in range(50):
        kernel.run(AGAIN[kind].format(i))
        shown = result(kernel, kernel.run(use))
        assert shown == f"({i}, {i})"
        if i == 9:
            before = list(value(kernel, HELD))

    def grows_nowhere() -> bool:
        free, n_descriptors, n_workers = value(kernel, HELD)
        return free == before[0] == 0 and n_descriptors <= before[1] and n_workers <= before[2] + 1

    wait_until(grows_nowhere, 10, "the workers of the last ones end")  # on a busy machine, some after the next begins
    kernel.run("del again, Again")
    wait_until(lambda: value(kernel, HELD)[0] == 2, 5, "the CPUs of the last one")


def test_an_actor_for_which_there_is_no_room_ends_when_its_cell_makes_another(kernel: Kernel) -> None:
    for _ in range(2):
        kernel.run("%%actor large --cpus 99\nclass Large:\n    def get(self): return 1")
    living = (
        "[row['state'] for row in cm.state.list_actors() if row['class_name'] == 'Large' and row['state'] != 'dead']"
    )
    assert value(kernel, living) == ["pending"]
    kernel.run("call = large.get.remote()\ndel large")
    assert value(kernel, living) == ["pending"], "a call may still run"
    kernel.run("cm.cancel(call)\ndel call")
    assert value(kernel, living) == []


def test_a_constructor_that_fails_is_told_under_the_cell(kernel: Kernel) -> None:
    request = kernel.run("%%actor broken\nclass Broken:\n    def __init__(self):\n        1 / 0")
    text = plain(kernel.until_text(request, lambda text: "ZeroDivisionError" in text, "stderr"))
    assert "Broken" in text and "line 4, in __init__" in text


@pytest.mark.parametrize(
    "cell, words",
    [
        ("%%actor\nclass A: pass", "%%actor needs a variable"),
        ("%%actor class\nclass A: pass", "%%actor needs a variable"),
        ("%%actor a\nx = 1", "defines a class"),
        ("%%actor a\ndef f(): pass", "defines a class"),
        ("%%actor a --args 1,,2\nclass A: pass", "between the parentheses of a call"),
        ("%%actor a --args 1\nclass A: pass", "A"),
        ("%%remote --on nobody\nself", "no living actor of this name"),
        ("%%remote --on counter --cpus 2\nself", "--num-cpus does not go with --on"),
    ],
)
@pytest.mark.usefixtures("counter")
def test_mistakes_are_sentences(kernel: Kernel, cell: str, words: str) -> None:
    name, text = error(kernel, cell)
    assert name == "UsageError" and words in text, text


def test_a_detached_actor_survives_the_kernel(fresh_kernel: Kernel) -> None:
    cell = (
        "%%actor kept --detached\nclass Kept:\n    n = 0\n    def add(self):\n        self.n += 1\n        return "
        "self.n"
    )
    begin = "%load_ext cellmesh\nimport cellmesh as cm, os\ncm.init(num_cpus=2)"
    fresh_kernel.run(begin)
    request = fresh_kernel.run(cell)
    assert "It survives the kernel" in fresh_kernel.text(request) and "cellmesh.kill(kept)" in fresh_kernel.text(
        request
    )
    assert value(fresh_kernel, "cm.get(kept.add.remote())") == 1
    fresh_kernel.run("@cm.remote\ndef forever():\n    while True: pass\nref = forever.remote()")
    for n, end in enumerate(("", "os.kill(os.getpid(), 9)"), 2):
        if end:
            fresh_kernel.start(end)
            wait_until(lambda: not fresh_kernel.manager.is_alive(), what="the kernel's end")
        fresh_kernel.restart()
        request = fresh_kernel.run(begin)
        assert "an earlier run's session goes on, with the detached actor 'kept'" in fresh_kernel.text(
            request, "stderr"
        )
        assert value(fresh_kernel, "cm.available_resources()['CPU']") == 2, "the task has ended"
        request = fresh_kernel.run(cell)
        assert "that was made before" in fresh_kernel.text(request)
        assert value(fresh_kernel, "cm.get(kept.add.remote())") == n
    fresh_kernel.run("cm.kill(kept)")
    fresh_kernel.run(cell)
    assert value(fresh_kernel, "cm.get(kept.add.remote())") == 1
    fresh_kernel.run("cm.shutdown()")
