"""`%retry` in a real kernel: what has failed is submitted again, with the inputs it had."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kernels import Kernel, error, result, value
from support.waiting import wait_until

# Fails until its file exists; counts its runs.
FLAKY = """
@cm.remote(max_retries=0)
def flaky(path, x, *rest, scale=1):
    if not os.path.exists(path):
        raise OSError(f"no {path}")
    return (x if isinstance(x, int) else x["n"]) * scale + sum(rest)
"""


@pytest.fixture
def gate(tmp_path: Path, kernel: Kernel) -> Path:
    kernel.run(FLAKY + f"path = {str(tmp_path / 'gate')!r}")
    return tmp_path / "gate"


def test_a_failed_task_runs_again_with_its_inputs_as_they_were(kernel: Kernel, gate: Path) -> None:
    kernel.run("box = {'n': 5}\nfut = flaky.remote(path, box, cm.put(2), scale=10)\nbox['n'] = 7\ncm.wait([fut])")
    gate.touch()
    request = kernel.run("again = %retry fut")
    assert kernel.text(request) == "Submitted 1 task again: fut.\n"
    assert value(kernel, "(cm.get(fut), again == fut)") == (52, True)


def test_a_retried_future_shows_itself(kernel: Kernel, gate: Path) -> None:
    kernel.run("fut = flaky.remote(path, 1)\ncm.wait([fut])")
    gate.touch()
    request = kernel.run("%retry fut")
    assert "flaky" in str(kernel.of(request, "display_data", "execute_result")[0]["content"]["data"]["text/plain"])


def test_of_a_list_those_that_failed_are_replaced(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "many = [flaky.remote(path if i % 3 else os.getcwd(), i) for i in range(9)]\n"
        "same = many\ngood = many[3]\ncm.wait(many, num_returns=9)"
    )
    gate.touch()
    assert "Submitted 6 tasks again: 6 in many." in kernel.text(kernel.run("%retry many"))
    assert value(kernel, "(cm.get(many), same is many, many[3] is good)") == (list(range(9)), True, True)


def test_a_cell_runs_again_and_all_its_names_are_new(kernel: Kernel, gate: Path) -> None:
    kernel.run("factor = 3\nbig = list(range(50_000))")
    kernel.run("%%remote\nif not os.path.exists(path): raise OSError('not yet')\na = factor + len(big)\nb = -a")
    kernel.run("cm.wait([a])\nfactor = 4\ndel big")
    gate.touch()
    assert "Submitted 1 task again: a, b." in kernel.text(kernel.run("%retry b"))
    assert value(kernel, "cm.get([a, b])") == [50_003, -50_003]


def test_what_it_needs_and_what_needs_it_is_submitted_too(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "@cm.remote\ndef add(x, y): return x + y\nfirst = flaky.remote(path, 1)\n"
        "second = add.remote(first, 10)\nthird = add.remote(second, [100][0])\ncm.wait([third])"
    )
    gate.touch()
    assert "Submitted 3 tasks again: first, second, third." in kernel.text(kernel.run("%retry second"))
    assert value(kernel, "cm.get([first, second, third])") == [1, 11, 111]


def test_a_cancelled_one_and_a_crashed_one(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "@cm.remote(max_retries=0)\ndef late(path, how):\n    open(f'{path}.{how}', 'w').close()\n"
        "    while not os.path.exists(path):\n"
        "        if how: os._exit(3)\n        time.sleep(0.01)\n    return how\n"
        "stopped, crashed = late.remote(path, 0), late.remote(path, 1)\n"
        "while not os.path.exists(path + '.0'): time.sleep(0.01)\n"
        "cm.cancel(stopped)\ncm.wait([stopped, crashed], num_returns=2)"
    )
    gate.touch()
    kernel.run("%retry stopped crashed")
    assert value(kernel, "cm.get([stopped, crashed])") == [0, 1]


def test_a_mended_definition_is_used(kernel: Kernel) -> None:
    kernel.run("@cm.remote\ndef wrong(x): return x / 0\nfut = wrong.options(name='own').remote(6)\ncm.wait([fut])")
    kernel.run("@cm.remote\ndef wrong(x): return x / 2")
    kernel.run("%retry fut")
    assert value(kernel, "cm.get(fut)") == 3.0


def test_all_means_all_variables(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "for name in [name for name in globals() if isinstance(globals()[name], (cm.ObjectRef, "
        "list)) and not name.startswith('_') and name != 'In']: del globals()[name]\n"
        "one, group = flaky.remote(path, 1), {'k': flaky.remote(path, 2)}\n"
        "cm.wait([one, group['k']], num_returns=2)"
    )
    gate.touch()
    kernel.run("%retry --all")
    assert value(kernel, "cm.get([one, group['k']])") == [1, 2]


@pytest.mark.parametrize(
    ("setup", "line", "said"),
    [
        ("", "%retry", "needs variables that hold futures"),
        ("x = 3", "%retry x", "'x' holds no future"),
        ("done = flaky.remote(os.getcwd(), 1); cm.get(done)", "%retry done", "'done' has finished"),
        (
            "large = flaky.remote(path, list(range(100_000))); cm.wait([large])",
            "%retry large",
            "the inputs of 'flaky' are gone. Inputs are kept of",
        ),
        (
            "many = [flaky.remote(path, i) for i in range(1100)]; late = many.pop(); cm.wait([late])",
            "%retry late",
            "first 1,000 calls of a cell",
        ),
    ],
)
def test_refusals_say_why(kernel: Kernel, gate: Path, setup: str, line: str, said: str) -> None:
    kernel.run(setup)
    assert said in error(kernel, line)[1]


def test_inputs_are_kept_no_longer_than_they_can_be_of_use(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "import cellmesh.session.session\nkept = cellmesh.session.current.current().kept_calls\n"
        "fine = [flaky.remote(os.getcwd(), cm.put(i)) for i in range(5)]\n"
        "bad = [flaky.remote(path, cm.put(i)) for i in range(5)]\nlast = bad[-1]\nwhile cm.wait(bad, "
        "num_returns=5)[1]: pass"
    )
    numbers = "{n for n, c in kept.all() if c.results[0] in {*fine, *bad, last}}"
    wait_until(lambda: value(kernel, f"len({numbers})") == 5)
    kernel.run("numbers = {ref.creator for ref in bad[:-1]}\ndel bad")
    wait_until(lambda: value(kernel, "len(numbers & {n for n, _ in kept.all()})") == 0)
    assert value(kernel, "kept.of_task(last.creator) is not None") is True


def test_unloading_gives_functions_their_submitters_back(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(
        "import cellmesh as cm\n@cm.remote\ndef f(x): return x\ncm.get(f.remote(1))\nbare = type(f.remote)"
    )
    fresh_kernel.run("%load_ext cellmesh")
    assert value(fresh_kernel, "(cm.get(f.remote(2)), type(f.remote) is bare)") == (2, False)
    fresh_kernel.run("%unload_ext cellmesh")
    assert value(fresh_kernel, "(cm.get(f.remote(3)), type(f.remote) is bare)") == (3, True)
    assert result(fresh_kernel, fresh_kernel.run("1")) == "1"


def test_a_session_that_ends_takes_them_along(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(
        "%load_ext cellmesh\nimport cellmesh as cm\n@cm.remote\ndef wrong(x): return 1 / x\n"
        "fut = wrong.remote(0)\ncm.wait([fut])\nimport cellmesh.session.current as sessions\n"
        "kept = sessions.current().kept_calls\nkept.prune()\ncm.shutdown()"
    )
    assert "'fut' is of a session that has ended" in error(fresh_kernel, "%retry fut")[1]
    fresh_kernel.run("kept.prune()\nassert not kept.all()")
    fresh_kernel.run("fut = wrong.remote(0)\ncm.wait([fut])\n%retry fut")


def test_retry_in_python_takes_the_function_as_it_is_now(kernel: Kernel, gate: Path) -> None:
    kernel.run("many = [flaky.remote(path, i) for i in range(3)]\ncm.wait(many, num_returns=3)")
    kernel.run("@cm.remote\ndef flaky(path, x, *rest, scale=1): return -x")
    assert value(kernel, "cm.get(cm.retry(many)), cm.get(cm.retry(many[2]))") == ([0, -1, -2], -2)
