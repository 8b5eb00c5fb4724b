"""What an error of a task says, in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kernels import Kernel, error, value
from support.waiting import wait_until

FUNCTIONS = "@cm.remote\ndef share(total, n=1): return total / n\n@cm.remote\ndef load(): return 3\n"


@pytest.fixture(autouse=True)
def functions(kernel: Kernel) -> None:
    kernel.run(FUNCTIONS)


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        ("share.remote(10, n=0)", "total = 10, n = 0"),
        ("share.remote(load.remote(), 0)", "total = <result of load>, n = 0"),
        ("share.remote(cm.put(1), 0)", "total = <a value in the store>, n = 0"),
        (
            "share.remote(np.zeros((2, 3)), 'two\\nlines\\u202e')",
            "total = <ndarray of shape 2 × 3, float64>, n = 'two\\nlines\\u202e'",
        ),
        ("share.remote(share.remote(7, 0), 2)", "total = 7, n = 0"),
    ],
)
def test_the_inputs_of_what_failed_are_named(kernel: Kernel, call: str, inputs: str) -> None:
    text = error(kernel, f"import numpy as np\nfut = {call}\ncm.get(fut)")[1]
    assert f"The task 'share' raised it in the worker with pid {pid_in(text)}. Its inputs: {inputs}. Its" in text, text


def test_the_inputs_of_calls_of_actors_are_named(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\nclass Divider:\n    def __init__(self): self.n = 0\n"
        "    def share(self, total, *, parts=1): return total / parts\ndivider = Divider.remote()"
    )
    for _ in range(2):  # cells
        text = error(kernel, "fut = divider.share.remote(load.remote(), parts=0)\ncm.get(fut)")[1]
        assert (
            "The task 'Divider.share' raised it" in text
            and "Its inputs: total = <result of load>, parts = 0. Its" in text
        ), text
    text = error(kernel, "total = 7\nget_ipython().run_cell_magic('remote', '--on divider --wait', 'total / self.n')")[
        1
    ]
    assert "Its inputs: total = 7. Its" in text, text
    assert "the inputs of 'Divider.share' are gone" in error(kernel, "%retry fut")[1], (
        "calls of actors are not made again"
    )


def test_the_inputs_of_constructors_are_named(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\nclass Model:\n    def __init__(self, path, *, size=1):\n        print('loading')\n"
        "        if not size: raise ValueError('no size')\n        self.share = path / size\n    def get(self): "
        "return self.share"
    )
    text = error(kernel, "model = Model.remote(load.remote(), size=0)\ncm.get(model.get.remote())")[1]
    assert "the constructor of actor 'Model' raised ValueError: no size" in text
    assert "Its inputs: path = <result of load>, size = 0. Its traceback in the worker with pid" in text, text
    assert "Its inputs: path = <result of load>, size = 0." in error(kernel, "cm.get(model.get.remote())")[1], (
        "in another cell"
    )
    assert "Its inputs: path = 'a'." in error(kernel, "cm.get(Model.remote('a').get.remote())")[1], "without a handle"


def test_the_inputs_of_generators_are_named_and_kept_in_words_only(kernel: Kernel) -> None:
    kernel.run("@cm.remote\ndef parts(total, n, of=None):\n    yield 1\n    yield total / n")
    text = error(
        kernel, "big = cm.put(bytes(1_000_000))\nitems = list(parts.remote(5, n=0, of=big))\ncm.get(items[-1])"
    )[1]
    assert (
        "The task 'parts' raised it" in text
        and "Its inputs: total = 5, n = 0, of = <a value in the store>. Its" in text
    ), text
    assert "Its inputs: total = 5, n = 0" in error(kernel, "cm.get(items[-1])")[1], "in another cell"
    text = error(kernel, "first = share.remote(8, 0)\ncm.get(list(parts.remote(first, n=0))[-1])")[1]
    assert "The task 'share' raised it" in text and "Its inputs: total = 8, n = 0. Its" in text, text
    where = value(kernel, "big.hex()")
    kernel.run("del big")
    wait_until(
        lambda: not value(kernel, f"[o for o in cm.state.list_objects() if o['id'] == {where!r}]"),
        what="the input has gone",
    )
    assert "the inputs of 'parts' are gone" in error(kernel, "fut = items[-1]\n%retry fut")[1], (
        "generators are not run again"
    )


def test_inputs_that_are_kept_keep_no_actor_alive(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\nclass Short:\n    def fail(self, n): raise ValueError(n)\nshort = Short.remote()\n"
        "failed = short.fail.remote(1)\ncm.wait([failed])\ndel short"
    )
    wait_until(
        lambda: (
            "Short" not in value(kernel, "[a['class_name'] for a in cm.state.list_actors() if a['state'] != 'DEAD']")
        ),
        what="the actor has ended",
    )
    assert "n = 1" in error(kernel, "cm.get(failed)")[1]


def pid_in(text: str) -> int:
    return int(text.partition("with pid ")[2].partition(".")[0])


def test_inputs_that_are_not_kept_or_cannot_be_shown_are_not_named(kernel: Kernel) -> None:
    text = error(kernel, "cm.get(share.remote(1, 'x' * 100_000))")[1]
    assert "raised it in the worker" in text and "Its inputs" not in text
    kernel.run("class Shy:\n    def __reduce__(self): return int, ('no number',)")
    text = error(kernel, "cm.get(share.remote([Shy()]))")[1]
    assert "no number" in text and "Its inputs" not in text


def test_a_cell_that_fails_names_its_inputs_and_folds_libraries(kernel: Kernel) -> None:
    pytest.importorskip("pandas")
    kernel.run("import pandas as pd\ntable = pd.DataFrame({'a': [1, 2]})\ncolumn = 'nope'")
    request = kernel.run("%%remote\nbad = table[column].sum()")
    text = kernel.until_text(request, lambda text: "KeyError: 'nope'\n" in text.partition("cause of")[2], "stderr")
    assert "Its inputs: " in text and "column = 'nope'" in text and "table = <DataFrame of shape 2 × 1>" in text, text
    assert "frames of pandas]\n" in text and "bad = table[column].sum()" in text, text
    assert text.count("site-packages/pandas/") <= 2, text


@pytest.mark.parametrize("on", ["", "--on keeper"])
def test_a_cell_that_ends_itself_says_so_and_is_not_repeated(kernel: Kernel, on: str, tmp_path: Path) -> None:
    kernel.run("@cm.remote\nclass Keeper:\n    def pid(self): return 1\nkeeper = Keeper.remote()")
    text = error(
        kernel,
        f"%%remote --wait {on}\nimport sys\nopen({str(tmp_path / 'runs')!r}, 'a').write('.')\nsys.exit('no data')",
    )[1]
    assert (
        "the cell has ended itself by sys.exit('no data'). Its worker goes on" in text
        and "    sys.exit('no data')\n" in text
    ), text
    assert (tmp_path / "runs").read_text() == "." and value(kernel, "cm.get(keeper.pid.remote())") == 1


def test_a_cause_is_shown_if_code_of_the_users_is_in_it(kernel: Kernel) -> None:
    text = error(kernel, "import threading\nshare.remote(threading.Lock())")[1]
    assert "share.remote(threading.Lock())" in text and "cannot pickle '_thread.lock' object" in text
    assert "direct cause" not in text and "cloudpickle" not in text and "hooks.py" not in text, text
    kernel.run("class Broken:\n    def __reduce__(self): raise OSError('no disk')")
    text = error(kernel, "share.remote(Broken())")[1]
    assert "direct cause" in text and "def __reduce__(self): raise OSError('no disk')" in text, text


def test_the_decorator_on_a_method_says_what_to_decorate(kernel: Kernel) -> None:
    text = error(kernel, "class Model:\n    @cm.remote\n    def train(self): return 1")[1]
    assert "Model.train is a method: decorate the class" in text, text


def test_a_view_is_read_only_and_says_how_to_change_it(kernel: Kernel) -> None:
    text = error(kernel, "import numpy as np\narray = cm.get(cm.put(np.zeros(5)), readonly=True)\narray[0] = 1")[1]
    assert (
        text.endswith("is read-only: value.copy() may be changed.") and "assignment destination is read-only\n" in text
    )
    assert "value.copy()" not in error(kernel, "raise ValueError('another')")[1]


def test_unloading_leaves_errors_as_they_are_without_it(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport cellmesh as cm\n" + FUNCTIONS + "fut = share.remote(1, 0)")
    assert "Its inputs: total = 1" in error(fresh_kernel, "cm.get(fut)")[1]
    fresh_kernel.run("%unload_ext cellmesh")
    assert "Its inputs" not in error(fresh_kernel, "cm.get(fut)")[1]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (
            "%%remote\nimport nothing_there\ndef f(): return 1",
            ["----> 2 import nothing_there", "No module named 'nothing_there'"],
        ),
        (
            "%%remote\ndef deco(f): raise KeyError('deco')\n@deco\ndef g(): pass",
            ["----> 3 @deco", "in deco(f)", "KeyError: 'deco'"],
        ),
        ("%%remote\nimport asyncio\nclass K(1): pass", ["----> 3 class K(1): pass"]),
        ("%%actor A\nclass A:\n    x = 1 / 0\n    def __init__(self): pass", ["----> 3     x = 1 / 0"]),
    ],
)
def test_the_error_of_a_cell_that_defines_shows_the_users_frames_alone(
    kernel: Kernel, cell: str, shown: list[str]
) -> None:
    text = error(kernel, cell)[1]
    assert all(line in text for line in shown), text
    assert "cell_task" not in text and "run_cell_magic" not in text and "hidden" not in text, text


@pytest.mark.parametrize("size", [0, 500_000])
def test_a_variable_that_a_worker_cannot_unpickle_is_named(kernel: Kernel, size: int) -> None:
    kernel.run(
        "class Refused:\n    def __init__(self, size): self.filler = bytes(size)\n"
        "    def __reduce__(self): return int, ('no number', self.filler)\nwhole, bad = {'a': {1, 2}}, "
        f"Refused({size})"
    )
    text = error(kernel, "%%remote --wait\nresult = (whole, bad)")[1]
    assert "The argument 'bad' of the task 'result' could not be unpickled." in text and "hooks.py" not in text, text
