"""`cellmesh rl`: what is trained, from options and from YAML; what is refused, and in which words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from cellmesh import rl
from cellmesh.cli.main import main
from cellmesh.rl.specs import SpecError, spec_of

pytestmark = pytest.mark.timeout(90)
YAML = """
ppo:
    run: PPO
    env: CartPole-v1
    stop: {training_iteration: 2}
    trial_resources: {cpu: 1}
    repeat: 1
    config: {num_envs: 2, n_steps: 16, sgd_batchsize: 16, num_sgd_iter: 1, sgd_stepsize: {grid_search: [0.001, 0.002]}}
es:
    run: ES
    env: CartPole-v1
    stop: {training_iteration: 1, time_total_s: 60}
    config: {n_pairs: 2, n_evaluations: 1, stepsize: 0.05}
"""


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "cellmesh.cli", "rl", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=80, cwd=folder, env=environment)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_a_policy_is_trained_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml", reason="no PyYAML: pip install 'cellmesh[rl]'")
    (tmp_path / "two.yaml").write_text(YAML)
    told = run(tmp_path, "train", "-f", "two.yaml", "--checkpoint-dir", "best", "--num-cpus", "2")
    assert f"ppo: checkpoint in {tmp_path / 'best' / 'ppo'}" in told
    assert "ppo: mean return" in told and "after 64 steps" in told
    assert rl.Policy.load(tmp_path / "best" / "ppo")([0.0] * 4) in (0, 1)
    assert json.loads((tmp_path / "best" / "es" / "about.json").read_text())["algorithm"] == "ES"
    evaluate_es = ["evaluate", "best/es", "--episodes", "3", "--seed", "1", "--json"]
    monkeypatch.chdir(tmp_path)  # in this process from here on: a program begins with importing torch, for seconds
    assert main(["rl", *evaluate_es]) == 0
    found = capsys.readouterr().out
    assert main(["rl", *evaluate_es]) == 0
    assert capsys.readouterr().out == found and len(json.loads(found)["episode_returns"]) == 3
    assert main(["rl", "evaluate", "best/ppo", "--env", "CartPole-v1", "--episodes", "3"]) == 0
    assert "3 episodes: mean return" in capsys.readouterr().out
    assert main(["rl", "evaluate", "best/ppo", "--env", "MountainCar-v0"]) == 1
    assert capsys.readouterr().err.startswith("cellmesh rl evaluate: the policy is of the spaces Box")


def test_a_trial_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    given = ["--run", "ppo", "--env", "NoSuch-v0", "--stop", '{"training_iteration": 1}', "--num-cpus", "1"]
    assert main(["rl", "train", *given]) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_what_algorithms_take_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rl", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(found) == ["A3C", "ApexDQN", "DQN", "ES", "PPO"]
    assert found["DQN"]["target_every"] == 100 and found["ApexDQN"]["n_step"] == 3
    assert main(["rl", "list", "ppo"]) == 0
    assert "  gae_lambda              0.95         at least 0, at most 1\n" in capsys.readouterr().out


TRAIN = ["train", "--run", "PPO", "--env", "CartPole-v1"]
GOOD: dict[str, Any] = {"run": "PPO", "env": "CartPole-v1", "stop": {"training_iteration": 1}}


def test_old_names_are_ours() -> None:
    spec = spec_of(
        "x",
        {
            "run": "APEX",
            "env": "CartPole-v1",
            "stop": {"episode_reward_mean": 200, "timesteps_total": 10},
            "resources_per_trial": {"cpu": 2},
            "repeat": 3,
            "checkpoint_freq": 5,
            "config": {"num_workers": 2, "grad_clip": 40, "lr": {"grid_search": [1, 2]}},
        },
    )
    assert spec.algorithm is rl.ApexDQN and spec.stop == {"episode_return_mean": 200, "timesteps_total": 10}
    assert spec.config == {
        "num_workers": 2, "max_grad_norm": 40, "lr": {"grid_search": [1, 2]}, "env": "CartPole-v1"
    }  # fmt: skip
    assert (spec.resources, spec.num_samples, spec.checkpoint_frequency) == ({"cpu": 2}, 3, 5)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"rum": 1}, r"x: there is no key 'rum' \(did you mean run\?\)"),
        ({"run": "IMPALA"}, "'IMPALA' is no algorithm. There are A3C, ApexDQN, DQN, ES, PPO"),
        ({"run": None}, "'run' is missing"),
        ({"env": None}, "'env' is missing"),
        ({"stop": None}, "'stop' is missing: when does it end?"),
        ({"stop": {"episode_rewards_mean": 1}}, r"no metric 'episode_rewards_mean' \(did you mean episode_reward_mean"),
        ({"stop": {"training_iteration": "many"}}, "'many' is no number"),
        ({"config": {"gama": 0.9}}, r"PPO takes no 'gama' \(did you mean gamma\?\). `cellmesh rl list PPO`"),
        ({"config": {"gamma": 2}}, "gamma=2: it is at least 0 and at most 1"),
        ({"config": {"lr": {"eval": "1"}}}, "texts are not evaluated"),
        ({"config": [1]}, r"config: \[1\] is no mapping"),
        ({"num_samples": "two"}, "num_samples: 'two' is no whole number"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of("x", {**GOOD, **changed})


@pytest.mark.parametrize(
    "arguments, message",
    [
        (TRAIN, "'stop' is missing"),
        (["train", "-f", "no.yaml"], "cannot read no.yaml"),
        (["train", "-f", "bad.yaml"], "bad.yaml is no YAML"),
        (["train", "-f", "unsafe.yaml"], "unsafe.yaml is no YAML"),
        (["train", "-f", "empty.yaml"], "a mapping of names to experiments"),
        (["train", "-f", "empty.yaml", "--env", "CartPole-v1"], "env: stands in the file"),
        (
            [
                "train",
                "--run",
                "PPO",
                "--env",
                "CartPole-v1",
                "--stop",
                '{"episodes_total": 1}',
                "--checkpoint-dir",
                ".",
            ],
            "is there, and is no checkpoint",
        ),
        (["evaluate", "."], "no checkpoint of cellmesh.rl"),
        (["evaluate", ".", "--episodes", "0"], "--episodes 0: at least 1"),
        (["list", "IMPALA"], "'IMPALA' is no algorithm"),
    ],
)
def test_wrong_usage_is_named_before_anything_begins(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("yaml", reason="no PyYAML: pip install 'cellmesh[rl]'")
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("a: [1")
    Path("unsafe.yaml").write_text("a: !!python/object/apply:os.getpid []")
    Path("empty.yaml").write_text("")
    assert main(["rl", *arguments]) in (1, 2)
    told = capsys.readouterr().err
    assert told.startswith(f"cellmesh rl {arguments[0]}: ") and message in told


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules[{!r}] = None\nfrom cellmesh.cli.main import main; sys.exit(main({!r}))"
    for absent, arguments, message in (
        ("torch", ["rl", "list"], "torch is not installed: pip install 'cellmesh[rl]'"),
        ("yaml", ["rl", "train", "-f", "x"], "PyYAML: pip install 'cellmesh[rl]'"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(absent, arguments)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1 and message in done.stderr
