"""Evolution strategies: ranks against a naive loop, what is learnt where the answer is known, workers and checkpoints
that change nothing, and a worker that dies.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import probe_envs as probes

import cellmesh as cm
from cellmesh import rl
from cellmesh.rl.es import centred_ranks
from cellmesh.rl.models.array_model import ArrayModel, n_weights

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
Make = Callable[..., rl.ES]
FAST = {"n_pairs": 16, "n_evaluations": 2, "hidden": (4,), "noise_table_size": 10_000}


@pytest.fixture
def es(session: None) -> Iterator[Make]:
    """`rl.ES`, whose workers are ended after the test."""
    made: list[rl.ES] = []

    def make(*arguments: Any, **options: Any) -> rl.ES:
        made.append(rl.ES(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def train(algorithm: rl.ES, n: int) -> list[dict[str, float]]:
    results = list(islice(algorithm.train(), n))
    return [{k: v for k, v in one.items() if k not in ("time_total_s", "steps_per_s")} for one in results]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=20))
def test_ranks_are_centred_and_equal_values_share_theirs(values: list[int]) -> None:
    found = centred_ranks(np.array(values, float))
    for value, rank in zip(values, found, strict=True):
        below, equal = sum(v < value for v in values), sum(v == value for v in values)
        ranks = range(below, below + equal)
        assert rank == pytest.approx(sum(ranks) / equal / (len(values) - 1) - 0.5)
    assert found.sum() == pytest.approx(0)


def test_the_gradient_is_the_sum_of_the_paper(es: Make) -> None:
    algorithm = es(probes.SeenAction, seed=3, weight_decay=0, **FAST)
    before = algorithm._weights.copy()
    rng = np.random.default_rng()
    rng.bit_generator.state = algorithm.rng.bit_generator.state
    (result,) = train(algorithm, 1)
    n, h = len(before), algorithm.hyperparameters
    places, seeds = rng.integers(h.noise_table_size - n + 1, size=16), rng.integers(2**31, size=18)
    returns = np.empty((16, 2))
    for k, (place, seed) in enumerate(zip(places, seeds[:16], strict=True)):
        for side, sign in enumerate((1, -1)):
            weights = before + np.float32(sign * h.sigma) * algorithm._table[place : place + n]
            policy = rl.Policy(ArrayModel(weights, (1, 4, 2)), algorithm.observation_space, algorithm.action_space)
            env = probes.SeenAction()
            seen, _ = env.reset(seed=int(seed))
            returns[k, side] = env.step(policy(seen))[1]
    ranks = centred_ranks(returns)
    gradient = sum(
        (ranks[k, 0] - ranks[k, 1]) * algorithm._table[place : place + n].astype(float)
        for k, place in enumerate(places)
    )
    gradient = np.asarray(gradient) / (32 * h.sigma)
    assert result["gradient_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
    step = algorithm._weights - before  # Adam's first step is of length lr along each axis
    moved = np.abs(gradient) > 1e-6
    assert np.allclose(step[moved], h.lr * np.sign(gradient[moved]), rtol=1e-3)


@pytest.mark.parametrize(
    "env, best",
    [
        (probes.ActionReward, 1.0),
        (probes.SeenAction, 1.0),
        (probes.TwoStepCredit, 1.0),
        (probes.Continuous, -0.01),
        (probes.ManyActions, 2.0),
        (probes.Switches, 2.0),
    ],
)
def test_policies_are_the_best(es: Make, env: Any, best: float) -> None:
    algorithm = es(env, seed=0, **FAST)
    for result in algorithm.train():
        if min(algorithm.evaluate(4, seed=0)) >= best:
            break
        assert result["training_iteration"] < 100


def test_workers_change_nothing(es: Make) -> None:
    runs = [es("CartPole-v1", num_workers=n, seed=1, **FAST) for n in (0, 1, 2)]
    results = [train(run, 3) for run in runs]
    assert results[0] == results[1] == results[2]
    assert runs[0]._weights.tobytes() == runs[1]._weights.tobytes() == runs[2]._weights.tobytes()


def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(es: Make, tmp_path: Path) -> None:
    one = es("CartPole-v1", **FAST)  # without a seed, so that the noise is one that was drawn
    train(one, 2)
    one.save(tmp_path / "es")
    other = rl.ES.load(tmp_path / "es", num_workers=1)
    try:
        assert train(one, 2) == train(other, 2)
        assert one._weights.tobytes() == other._weights.tobytes()
    finally:
        other.close()
    with pytest.raises(rl.CheckpointError, match="noise_table_size=20000, and it was 10000"):
        rl.ES.load(tmp_path / "es", noise_table_size=20_000)
    with pytest.raises(rl.CheckpointError, match="of ES, and not of PPO"):
        rl.PPO.load(tmp_path / "es")


def test_a_killed_worker_changes_nothing(es: Make, tmp_path: Path) -> None:
    make = partial(probes.Fragile, tmp_path / "once", 1)

    steady, fragile = es(probes.SeenAction, seed=4, **FAST), es(make, num_workers=2, seed=4, **FAST)
    assert train(steady, 2) == train(fragile, 2)
    assert (tmp_path / "once").exists()


class Dies(probes.SeenAction):
    def step(self, action: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_again_and_again_is_told(es: Make) -> None:
    with pytest.raises(rl.EnvWorkerDiedError, match=r"a process that plays died.*replaced 3 times"):
        train(es(Dies, num_workers=1, **FAST), 1)


def test_an_error_of_the_environment_arrives(es: Make) -> None:
    class Raises(probes.ActionReward):
        def step(self, action: Any) -> Any:
            raise RuntimeError("not today")

    for n_workers in (0, 1):
        with pytest.raises(rl.EnvFailedError, match="failed in an episode: RuntimeError: not today"):
            train(es(Raises, num_workers=n_workers, **FAST), 1)


class Wrong(probes.ActionReward):
    """Returns what its spaces do not have."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def see(self) -> Any:
        return {"nan": np.array([np.nan], np.float32), "shape": np.zeros(2, np.float32)}.get(self.how, super().see())

    def reward(self, action: Any) -> float:
        return np.nan if self.how == "reward" else 1.0


@pytest.mark.parametrize(
    "how, message",
    [
        ("nan", r"returned NaN in its observation: array\(\[nan\]"),
        ("shape", r"an observation of 2 numbers, and Box.* has 1"),
        ("reward", "NaN as a reward"),
    ],
)
def test_what_an_environment_does_wrong_is_told(es: Make, how: str, message: str) -> None:
    with pytest.raises(rl.EnvFailedError, match=message):
        train(es(lambda: Wrong(how), **FAST), 1)


def test_no_torch_is_imported(session: None) -> None:
    @cm.remote
    def learn() -> bool:
        algorithm = rl.ES(probes.ActionReward, seed=0, **FAST)
        next(algorithm.train())
        return "torch" in sys.modules

    assert cm.get(learn.remote()) is False


def test_bad_arguments(session: None) -> None:
    class Sees(probes.Probe):
        observation_space = __import__("gymnasium").spaces.Box(0, 255, (40, 40, 3), np.uint8)

    with pytest.raises(TypeError, match="images"):
        rl.ES(Sees)
    with pytest.raises(ValueError, match=r"noise_table_size=10, and the network has \d+ weights"):
        rl.ES("CartPole-v1", noise_table_size=10)
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot be sent to a worker.*num_workers=0"):
        rl.ES(lambda: lock and probes.ActionReward(), num_workers=1, **FAST)
    rl.ES(lambda: lock and probes.ActionReward(), **FAST).close()  # in this process nothing is sent
    with pytest.raises(rl.EnvFailedError, match=r"the environment could not be made: ZeroDivisionError"):
        rl.ES(lambda: 1 // 0)
    with pytest.raises(TypeError, match=r"ES: env=.*: one environment"):
        rl.ES([probes.ActionReward] * 2)
    with pytest.raises(ValueError, match="num_workers=-1"):
        rl.ES("CartPole-v1", num_workers=-1)
    with pytest.raises(ValueError, match="n_pairs=0"):
        rl.ES("CartPole-v1", n_pairs=0)
    with pytest.raises(ValueError, match="layers of"):
        ArrayModel(np.zeros(3, np.float32), (1, 2))
    assert n_weights((4, 16, 2)) == 4 * 16 + 16 + 16 * 2 + 2
