"""Tune in a real kernel: the card, the stop button, kernels that die, `%%tune` and `%tune`."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.kernels import START_TIMEOUT_S, Kernel, error, plain, reply_of, result, value
from support.waiting import wait_until

from cellmesh.tune import Experiment, journal

LOAD = "%load_ext cellmesh\nimport cellmesh as cm, time, os\nfrom cellmesh import tune\ncm.init(num_cpus=2)"
# Trials whose steps wait for a file, so that nothing depends on time.
TRAIN = """
def train(config):
    print("begins", config["b"])
    for step in range(3):
        while step == 1 and not os.path.exists(config["gate"]):
            time.sleep(0.01)
        if config["b"] == 2 and step == 2:
            raise ValueError("bad b")
        tune.report(score=config["a"] * step + config["b"])
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        made = Kernel(folder)
    try:
        made.run(LOAD + TRAIN, START_TIMEOUT_S)
        yield made
    finally:
        made.close()


def displays(kernel: Kernel, request: str) -> list[str]:
    """The ids of what a cell displays, in order."""
    return [m["content"]["transient"]["display_id"] for m in kernel.of(request, "display_data")]


def shown(kernel: Kernel, display_id: str) -> list[dict[str, Any]]:
    """What a display has shown, in order."""
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == display_id
    ]


def until_shown(kernel: Kernel, display_id: str, text: str) -> dict[str, Any]:
    wait_until(lambda: text in shown(kernel, display_id)[-1]["text/plain"], what=f"a card with {text!r}")
    return shown(kernel, display_id)[-1]


def started(kernel: Kernel, name: str, gate: Path, last: str = "search") -> str:
    """Start a search whose trials wait for the gate; the request of its cell."""
    return kernel.run(
        "search = tune.Tuner(train, {'a': tune.uniform(0, 1), 'b': tune.grid_search([1, 2, 3]), "
        f"'gate': {str(gate)!r}}}, metric='score', seed=1, name={name!r}).start()\n{last}"
    )


def threads(kernel: Kernel) -> list[str]:
    return value(kernel, "[t.name for t in __import__('threading').enumerate()]")


def test_a_card_is_updated_in_place_until_the_end(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    cell = started(kernel, "card", gate)
    (display,) = displays(kernel, cell)  # one, although the search is the cell's last value, too
    first = until_shown(kernel, display, "best score: ")
    assert "experiment card: running · 0 of 3 trials ended · 2 running" in first["text/plain"]
    assert 'class="cellmesh-card"' in first["text/html"] and "%tune stop card" in first["text/html"]
    gate.touch()
    card = until_shown(kernel, display, "experiment card: finished · 3 of 3 trials ended · 1 failed")
    lines = card["text/plain"].splitlines()
    assert len(lines) == 3 and re.fullmatch(r"best score: \d\.\d+, trial 2 · a=0\.\d+, b=3", lines[1])
    assert re.fullmatch(r"trial 1 failed: ValueError: bad b \(Cell In\[1\], line 11, in train: raise .*\)", lines[2])
    assert "<svg" in card["text/html"] and "<table" in card["text/html"] and "<script" not in card["text/html"]
    wait_until(lambda: "cellmesh-experiments" not in threads(kernel), what="nobody looks any more")
    kernel.until_text(cell, lambda text: text.count("begins") == 3)  # it is under the cell that started the search
    n = len(shown(kernel, display))
    again = kernel.run("search")
    assert len(displays(kernel, again)) == 1 and len(shown(kernel, display)) == n


def test_at_most_four_updates_a_second_and_none_while_nothing_happens(kernel: Kernel, tmp_path: Path) -> None:
    cell = kernel.run(
        "def busy(config):\n    for i in range(400):\n        tune.report(score=i)\n        time.sleep(0.002)\n"
        "began = time.time()\nsearch = tune.Tuner(busy, metric='score', name='busy').start()"
    )
    (display,) = displays(kernel, cell)
    until_shown(kernel, display, "finished")
    took = value(kernel, "time.time() - began")
    assert len(shown(kernel, display)) <= 3 + 4 * took
    waits = started(kernel, "still", tmp_path / "gate", last="None")
    (still,) = displays(kernel, waits)
    try:
        wait_until(lambda: value(kernel, "[trial.n_results for trial in search.refresh().trials]") == [1, 1, 0])
        n = len(shown(kernel, still))  # the last report may not be on the card yet
        for _ in range(3):
            kernel.run("time.sleep(0.3)")
        assert len(shown(kernel, still)) <= n + 1
    finally:  # or it would keep both CPUs from the tests below
        kernel.run("search.stop()")
    until_shown(kernel, still, "stopped")


def test_the_stop_button_ends_what_fit_has_begun(kernel: Kernel, tmp_path: Path) -> None:
    request = kernel.start(
        f"tune.Tuner(train, {{'a': 1, 'b': 1, 'gate': {str(tmp_path / 'gate')!r}}}, metric='score', name='fit').fit()"
    )
    wait_until(lambda: displays(kernel, request), what="a card")
    (display,) = displays(kernel, request)
    until_shown(kernel, display, "best score: 1")
    kernel.manager.interrupt_kernel()
    assert reply_of(kernel, request)["ename"] == "KeyboardInterrupt"
    assert kernel.text(request, "stderr").endswith(
        "fit has been stopped. What it has found is kept: tune.attach('fit')\n"
    )
    assert "run on" not in kernel.text(request) and "runs on" not in kernel.text(request)
    assert "experiment fit: stopped · 1 of 1 trials ended" in until_shown(kernel, display, "stopped")["text/plain"]
    assert value(kernel, "tune.attach('fit').best.metrics['score']") == 1


def test_what_was_started_outlives_the_stop_button_of_later_cells(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (display,) = displays(kernel, started(kernel, "outlives", gate, last="None"))
    until_shown(kernel, display, "best score: ")
    kernel.run("%config CellmeshMagics.cancel_on_stop = True")
    try:
        for code in ("print('sleeps'); time.sleep(60)", "print('sleeps'); search.wait()"):
            request = kernel.start(code)
            kernel.until_text(request, lambda text: "sleeps" in text)
            kernel.manager.interrupt_kernel()
            assert reply_of(kernel, request)["ename"] == "KeyboardInterrupt"
            assert kernel.text(request) == "sleeps\n"  # no word of tasks that go on
        assert "nothing to cancel" in kernel.text(kernel.run("%cancel"))
    finally:
        kernel.run("%config CellmeshMagics.cancel_on_stop = False")
    gate.touch()
    until_shown(kernel, display, "finished · 3 of 3 trials ended · 1 failed")


def test_a_failed_trial_can_be_inspected(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    kernel.run("%config CellmeshMagics.keep_frames = True")
    try:
        started(kernel, "inspected", gate, last="search.wait()\nbad = search.ref(1)")
        request = kernel.run("%inspect --pdb bad", interactive=False)
        said = kernel.text(request) + result(kernel, request)
        assert "step = 2" in said and "raise ValueError" in said
        assert value(kernel, "search.ref(0) is None")
        assert "bad b" in value(kernel, "search[1].error") and "Cell In[1], line 11" in value(kernel, "search[1].error")
    finally:
        kernel.run("%config CellmeshMagics.keep_frames = False")


def test_code_of_a_cell_that_fails_in_the_controller_is_told_with_its_cell(kernel: Kernel) -> None:
    _, told = error(
        kernel,
        "space = {'y': 1, 'x': tune.sample_from(lambda c: c['z'])}\ntune.Tuner(train, space, name='fails').fit()",
    )
    place = r"KeyError: 'z'.* \(Cell In\[\d+\], line 1: space = .*\)"
    assert re.search(place, told), told
    assert re.search(place, value(kernel, "tune.attach('fails').refresh().why"))


def test_what_the_controller_tells_is_a_warning_once(kernel: Kernel) -> None:
    request = kernel.run(
        "def los(config):\n    tune.report(los=1.0)\n"
        "search = tune.Tuner(los, metric='loss', name='told').start()\nsearch.wait(); search.wait()"
    )
    told = "told: trial 0 has never reported 'loss', the metric; it reported los"
    assert kernel.text(request, "stderr").count(f"TuneWarning: {told}") == 1
    assert kernel.text(request, "stderr").count("never reported") == 1
    (display,) = displays(kernel, request)
    assert "never reported" in shown(kernel, display)[-1]["text/html"]


TUNE = "%%tune --metric score --samples 2 --scheduler asha:max_t=3 --name cells --seed 3 lr=uniform(0, 1) depth=[1,2]"


def test_a_cell_is_a_trial(kernel: Kernel) -> None:
    kernel.run("factor = 10\ndef scaled(x): return x * factor")
    request = kernel.run(f"{TUNE}\nprint('has', depth)\nfor epoch in range(3):\n    report(score=scaled(lr) + depth)")
    (display,) = displays(kernel, request)
    until_shown(kernel, display, "experiment cells: finished · 4 of 4 trials ended")
    assert value(kernel, "len(search), sorted({result.config['depth'] for result in search})") == (4, [1, 2])
    assert value(kernel, "search.best.metrics['score'] == search.best.config['lr'] * 10 + search.best.config['depth']")
    kernel.until_text(request, lambda text: "has 2" in text)
    assert "--replace begins it anew" in error(kernel, f"{TUNE}\nreport(score=lr)")[1]
    kernel.run(f"{TUNE} --replace --wait -o mine\nlr")  # a number is the metric
    assert value(kernel, "mine.best.metrics['score'] == mine.best.config['lr']")


def test_mistakes_are_sentences(kernel: Kernel) -> None:
    for code, expected in (
        ("%%tune --metrik score lr=uniform(0,1)\nlr", "there is no --metrik; did you mean --metric?"),
        ("%%tune --scheduler ahsa lr=uniform(0,1)\nlr", "did you mean 'asha'?"),
        ("%%tune --scheduler asha:max=3 lr=uniform(0,1)\nlr", "max_t"),
        ("%%tune lr=unifrom(0,1)\nlr", "did you mean uniform?"),
        ("%%tune lr=uniform(0,1)\nlr + missing_one", "name 'missing_one' is not defined: the cell reads it in line 2"),
        ("%%tune report=uniform(0,1)\nreport(x=1)", "a trial has report() already"),
        ("%tune nowhere", "no experiment 'nowhere' lies in"),
        ("%tune stop", "%tune stop NAME [TRIAL]"),
    ):
        said = error(kernel, code)[1]
        assert expected in said and "-->" not in said, said  # no frames


def test_experiments_are_listed_and_steered(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (display,) = displays(kernel, started(kernel, "steered", gate, last="None"))
    until_shown(kernel, display, "best score: ")
    listed = result(kernel, kernel.run("%tune")).splitlines()
    assert listed[0].split() == ["name", "state", "began", "trials"]
    assert re.match(r"steered +running +\d{4}-", listed[1])
    kernel.run("%tune stop steered 0")
    until_shown(kernel, display, "1 of 3 trials ended")
    kernel.run("%tune stop search")  # the variable
    until_shown(kernel, display, "experiment steered: stopped")
    (card,) = displays(kernel, kernel.run("%tune steered"))
    assert "experiment steered: stopped" in shown(kernel, card)[-1]["text/plain"]


def test_an_experiment_outlives_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gate = tmp_path / "gate"
    kernel = Kernel(tmp_path)
    try:
        kernel.run(LOAD + TRAIN, START_TIMEOUT_S)
        (display,) = displays(kernel, started(kernel, "lives", gate, last="None"))
        until_shown(kernel, display, "best score: ")
        pid = value(kernel, "os.getpid()")
        os.kill(pid, signal.SIGKILL)
        kernel.restart()
        kernel.run("%load_ext cellmesh\nimport cellmesh as cm, time, os\nfrom cellmesh import tune", START_TIMEOUT_S)
        (card,) = displays(kernel, kernel.run("search = tune.attach('lives')\nsearch"))
        assert "experiment lives: running" in shown(kernel, card)[-1]["text/plain"]
        gate.touch()
        until_shown(kernel, card, "experiment lives: finished · 3 of 3 trials ended")
        assert value(kernel, "search.wait().best.config['b']") == 3
        kernel.run("cm.shutdown()")
    finally:
        kernel.close()


def test_what_outlives_its_kernel_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gate = tmp_path / "gate"
    kernel = Kernel(tmp_path)
    try:
        kernel.run(LOAD + TRAIN, START_TIMEOUT_S)
        started(kernel, "alone", gate, last="None")
        os.kill(value(kernel, "os.getpid()"), signal.SIGKILL)
        gate.touch()
        folder = tmp_path / "state/cellmesh/tune/alone"
        wait_until(lambda: journal.has_closed(folder), 20.0, "the end of the experiment")
        view = Experiment(folder).refresh()
        assert [trial.state for trial in view.trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    finally:
        kernel.close()  # and no process of the session is there when this test ends


def test_a_notebook_that_a_program_runs_keeps_the_last_state(kernel: Kernel, tmp_path: Path) -> None:
    """nbconvert sees what stands there when a cell ends."""
    gate = tmp_path / "gate"
    gate.touch()
    request = kernel.run(
        f"search = tune.Tuner(train, {{'a': 1, 'b': 1, 'gate': {str(gate)!r}}}, metric='score', name='saved').start()\n"
        "search.wait();",
        interactive=False,
    )
    (display,) = displays(kernel, request)
    assert "experiment saved: finished" in shown(kernel, display)[-1]["text/plain"]
    kernel.run("search = tune.Tuner(lambda config: None, name='saved-too').start()\nsearch.wait()", interactive=False)
    detached = value(kernel, "[a['name'] for a in cm.state.list_actors() if a['detached']]")
    assert not [name for name in detached if name.startswith("saved-too")]


def test_a_controller_that_dies_is_told(kernel: Kernel, tmp_path: Path) -> None:
    (display,) = displays(kernel, started(kernel, "dies", tmp_path / "gate", last="None"))
    until_shown(kernel, display, "best score: ")
    kernel.run("cm.kill(search._host)")
    assert "cellmesh.tune.resume('dies')" in plain(until_shown(kernel, display, "nobody runs it")["text/html"]).replace(
        "&#x27;", "'"
    )
    wait_until(lambda: "cellmesh-experiments" not in threads(kernel), what="nobody looks any more")
