"""`%inspect` in a real kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, error, result, value
from support.waiting import wait_until


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "gate"
    yield path
    path.touch()


def test_a_running_task_says_where_it_is(kernel: Kernel, gate: Path) -> None:
    count = value(kernel, "len(In)")
    kernel.run(
        "def deep(path):\n    while not os.path.exists(path):\n        print('.', end='', flush=True)\n"
        "        time.sleep(0.01)\n@cm.remote\ndef patient(path):\n    deep(path)\n"
        f"running = patient.remote({str(gate)!r})\n"
        "while running.client.info(running)['state'] != 'running': time.sleep(0.01)"
    )
    text = wait_until(lambda: re.search("(?s).*in deep.*", result(kernel, kernel.run("%inspect running"))))[0]
    assert text.startswith("patient: running") and "Where it is now (pid " in text
    assert f'File "Cell In[{count}]", line 7 in patient\n    deep(path)' in text, text
    assert "kernel_ext" not in text and "scheduler/worker" not in text


def test_lineage_goes_up_and_down(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef load(): return 1\n@cm.remote\ndef add(a, b): return a + b\n"
        "base = load.remote()\nmiddle = add.remote(base, 1)\ntop = add.remote(middle, base)\ncm.get(top)"
    )
    # Events are read by a thread of the kernel, some milliseconds after what they tell.
    text = wait_until(lambda: re.search("(?s).*● load.*● add.*", result(kernel, kernel.run("%inspect middle"))))[0]
    up, down = text.split("What it came from\n")[1].split("What it goes into\n")
    assert up.startswith("● load · finished · In [") and down.startswith("● add · finished")
    deep = result(kernel, kernel.run("%inspect top"))
    tree, at = deep.split("What it came from\n")[1].split("\n\n")
    assert len(tree.splitlines()) == 2, "each once"
    assert re.fullmatch(r"As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.", at)


def test_waiting_for_inputs_is_not_being_queued(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "@cm.remote\ndef patient(path):\n    while not os.path.exists(path):\n        time.sleep(0.01)\n"
        "@cm.remote\ndef after(x): return 1\n"
        f"first = patient.remote({str(gate)!r}); second = after.remote(first)\n"
        "while first.client.info(first)['state'] != 'running': time.sleep(0.01)\n"
        f"open({str(gate)!r}, 'w').close(); cm.get(second)"
    )
    wait_until(
        lambda: re.search(
            r"waited [\d.]+ m?s for its inputs, queued [\d.]+ (µs|ms)", result(kernel, kernel.run("%inspect second"))
        )
    )


def test_a_value_and_an_error_are_shown(kernel: Kernel) -> None:
    kernel.run("%%remote\nnumbers = list(range(5))\nwrong = {}['x']")
    assert "KeyError" in result(kernel, kernel.run("cm.wait([wrong])\n%inspect wrong"))
    kernel.run("%%remote\nnumbers = list(range(5))")
    request = kernel.run("cm.wait([numbers])\n%inspect numbers")
    assert "[0, 1, 2, 3, 4]" in result(kernel, request)
    assert "<div" in kernel.of(request, "execute_result")[0]["content"]["data"]["text/html"]


def test_an_actor_says_where_it_is(kernel: Kernel, gate: Path) -> None:
    count = value(kernel, "len(In)")
    kernel.run(
        "%%actor slow\nimport os, time\nclass Slow:\n    def ask(self): return 1\n    def wait(self, path):\n"
        "        while not os.path.exists(path):\n            time.sleep(0.01)"
    )
    kernel.run("cm.get(slow.ask.remote())")
    wait_until(
        lambda: re.match(
            r"actor Slow: alive · In \[\d+\] · pid \d+\n1 call done\n", result(kernel, kernel.run("%inspect slow"))
        )
    )
    kernel.run(
        f"call = slow.wait.remote({str(gate)!r})\nwhile call.client.info(call)['state'] != 'running': time.sleep(0.01)"
    )
    text = wait_until(lambda: re.search("(?s).*in wait.*", result(kernel, kernel.run("%inspect slow"))))[0]
    assert text.startswith("actor Slow: alive") and "1 call done, 1 running\n" in text
    assert f'File "Cell In[{count}]", line 7 in wait' in text, text


def test_a_task_that_no_node_can_run_says_what_it_waits_for(kernel: Kernel) -> None:
    kernel.run("%%remote --cpus 99\nbig = 1")
    text = result(kernel, kernel.run("%inspect big"))
    assert re.search(r"big: queued.* waits: CPU: 99: of CPU: \d+, CPU: \d+ is free", text), text
    kernel.run("%cancel big")


def test_a_task_that_a_limit_of_its_function_keeps_says_so(kernel: Kernel, gate: Path) -> None:
    kernel.run(
        "@cm.remote(max_in_flight=1)\ndef alone(path):\n    while not os.path.exists(path):\n        time.sleep(0.01)\n"
        f"first, second = alone.remote({str(gate)!r}), alone.remote({str(gate)!r})\n"
        "while first.client.info(first)['state'] != 'running': time.sleep(0.01)"
    )
    assert "waits: 1 of 1 of alone run, its max_in_flight" in result(kernel, kernel.run("%inspect second"))
    gate.touch()
    kernel.run("cm.get([first, second])")


def test_mistakes_are_sentences(kernel: Kernel) -> None:
    assert "needs a variable" in error(kernel, "%inspect")[1]
    assert "holds neither a future nor an actor. %futures lists" in error(kernel, "%inspect nobody")[1]
    kernel.run("fetched = 3.5")
    assert "neither a future nor an actor; it is a float, in this process" in error(kernel, "%inspect fetched")[1]


def test_a_future_in_a_list_or_a_dict_is_named_as_in_python(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef part(x):\n    if x == 3:\n        raise ValueError(x)\n    return x\n"
        "parts, i = [part.remote(x) for x in range(4)], 2\ncm.wait(parts, num_returns=4)\nruns = {'first': parts[:2]}\n"
        "before = parts[3].creator"
    )
    for line in ("parts[2]", "parts[-2]", "parts[i]", "runs['first'][1]", 'runs["first"][1]'):
        assert result(kernel, kernel.run(f"%inspect {line}")).startswith("part: finished"), line
    assert "parts[7]: IndexError: list index out of range" in error(kernel, "%inspect parts[7]")[1]
    assert "'parts' holds neither a future nor an actor; it is a list" in error(kernel, "%inspect parts")[1]
    assert "neither" in error(kernel, "%inspect part.remote(1)")[1], "nothing is called"
    kernel.run("%retry parts[3]")
    assert value(kernel, "parts[3].creator > before") is True
    kernel.run("never = [part.options(num_cpus=99).remote(x) for x in range(3)]")
    assert "Cancelled 2 tasks" in kernel.text(kernel.run("%cancel never[:2]"))
    assert "Cancelled 1 task." in kernel.text(kernel.run("%cancel never[2]"))


def test_the_variables_of_a_failure(kernel: Kernel) -> None:
    kernel.run(
        "@cm.remote\ndef share(total, n):\n    half = total / 2\n    return half / n\n"
        "fut = share.remote(10, 0)\ncm.wait([fut])"
    )
    text = error(kernel, "%inspect --pdb fut")[1]
    assert "were not kept when it failed" in text and "%retry fut runs it again" in text
    kernel.run("%config CellmeshMagics.keep_frames = True\nimport numpy as np")
    try:
        kernel.run("%retry fut\ncm.wait([fut])")
        text = result(kernel, kernel.run("%inspect --pdb fut", interactive=False))
        assert re.search(
            r'File "Cell In\[\d+\]", line 4, in share\n    return half / n\ntotal = 10\nn = 0\nhalf = 5.0', text
        ), text
        assert "ZeroDivisionError" in text and "scheduler" not in text
        kernel.run("%%remote\nbig = np.zeros((1000, 10))\nwrong = big @ big\n")
        shown = result(kernel, kernel.run("cm.wait([wrong])\n%inspect --pdb wrong", interactive=False))
        assert "big = <ndarray of shape 1000 × 10, float64>" in shown and "in <module>" in shown, shown
    finally:
        kernel.run("%config CellmeshMagics.keep_frames = False")
    kernel.run("fut = share.remote(10, 0)\ncm.wait([fut])")
    assert "were not kept" in error(kernel, "%inspect --pdb fut")[1]


@pytest.mark.parametrize("line", ["%inspect --pdb", "%inspect --pdb nobody"])
def test_variables_of_what_has_not_failed(kernel: Kernel, line: str) -> None:
    assert "holds the future of a task that has failed" in error(kernel, line)[1]
    kernel.run("fine = cm.put(1)")
    assert "and 'fine' is finished" in error(kernel, "%inspect --pdb fine")[1]
