"""Training in a real kernel: its card while the loop runs, and when it has ended, one way or another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cellmesh.kernel_ext.panel_messages import decode_learning
from support.kernels import START_TIMEOUT_S, Kernel, reply_of
from support.waiting import wait_until

pytest.importorskip("gymnasium", reason="no gymnasium: pip install 'cellmesh[rl]'")

LOAD = """
%load_ext cellmesh
import gymnasium as gym, numpy as np
from cellmesh import rl

class Counting(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        return np.zeros(1, np.float32), {}
    def step(self, action):
        self.n += 1
        return np.zeros(1, np.float32), 1.0, self.n == 3, False, {}

algo = rl.ES(Counting, n_pairs=2, n_evaluations=2, seed=0)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    made = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        made.run(LOAD, START_TIMEOUT_S)
        yield made
    finally:
        made.close()


def cards(kernel: Kernel, request: str) -> dict[str, list[dict[str, Any]]]:
    """What each display of a cell has shown, in order."""
    ids = [m["content"]["transient"]["display_id"] for m in kernel.of(request, "display_data")]
    return {
        each: [
            m["content"]["data"]
            for m in list(kernel.messages)
            if m["msg_type"] in ("display_data", "update_display_data")
            and m["content"]["transient"].get("display_id") == each
        ]
        for each in ids
    }


def test_one_card_beside_what_the_loop_prints(kernel: Kernel) -> None:
    cell = kernel.run("for result in algo.train(until={'training_iteration': 3}):\n    print('mean', len(result))")
    assert kernel.text(cell, "stdout").count("mean") == 3
    ((first, *_, last),) = cards(kernel, cell).values()
    assert first["text/plain"] == "learning ES on Counting: running"
    assert "goal reached · return 3 (3 to 3) · episode length 3 · steps 54" in last["text/plain"]
    assert "<svg" in last["text/html"] and "n_pairs=2" in last["text/html"]


def test_what_is_left_or_fails_is_told(kernel: Kernel) -> None:
    cell = kernel.run("for result in algo.train():\n    break")
    (shown,) = cards(kernel, cell).values()
    assert "Counting: stopped" in shown[-1]["text/plain"]
    cell = kernel.run("rest = algo.train(); next(rest); algo")
    (shown,) = cards(kernel, cell).values()
    assert "Counting: paused" in shown[-1]["text/plain"], "and one card, although it is the cell's value, too"
    cell = kernel.run("rest.close()")
    assert not cards(kernel, cell), "the one that is there is updated"
    cell = kernel.start("list(algo.train(until={'no such': 1}))")
    assert reply_of(kernel, cell)["ename"] == "KeyError"
    (shown,) = cards(kernel, cell).values()
    assert "Counting: failed" in shown[-1]["text/plain"] and "KeyError" in shown[-1]["text/plain"]


def test_without_training_nothing_is_shown(kernel: Kernel) -> None:
    cell = kernel.run("len(list(zip(range(2), (algo.step() for _ in range(2)))))")
    assert not cards(kernel, cell)


def test_a_panel_is_told_of_a_run(kernel: Kernel) -> None:
    def told(kind: str) -> list[tuple[dict[str, Any], list[Any]]]:
        messages = [(m["content"]["data"], m["buffers"]) for m in kernel.comm("learning")]
        return [(data, buffers) for data, buffers in messages if data["type"] == kind]

    assert kernel.ask(op="open", comm_id="learning")["status"] == "ok"
    assert kernel.ask(op="watch_learning", comm_id="learning", wanted=True)["status"] == "ok"
    kernel.run("other = rl.ES(Counting, n_pairs=2, n_evaluations=2, seed=1)\nrest = other.train(); first = next(rest)")
    wait_until(lambda: any(data["runs"][-1]["state"] == "paused" for data, _ in told("learning")), what="its pause")
    run = told("learning")[-1][0]["runs"][-1]
    assert run["title"] == "ES on Counting" and "seed=1" in run["settings"] and run["results"] == 1
    kernel.run("second = next(rest); rest.close()")
    wait_until(lambda: told("learning")[-1][0]["runs"][-1]["state"] == "stopped", what="its end")

    def iterations() -> list[float]:
        """Of the latest message of points, which has the last one that was told before too."""
        header, (values,) = decode_learning(*told("learning_points")[-1])
        assert header.run == run["run"]
        return values.reshape(-1, header.points)[1 + header.metrics.index("training_iteration")].tolist()

    wait_until(lambda: iterations() == [1.0, 2.0], what="both results")
    assert kernel.ask(op="close", comm_id="learning")["status"] == "ok"
