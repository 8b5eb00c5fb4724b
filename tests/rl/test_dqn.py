"""Deep Q-learning: its targets against a naive loop, values that are known exactly, workers and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import probe_envs as probes

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from cellmesh import rl
from cellmesh.rl.dqn import targets

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
Make = Callable[..., rl.DQN]
FAST = {
    "num_envs": 4,
    "iteration_steps": 100,
    "learning_starts": 40,
    "train_every": 2,
    "target_every": 20,
    "epsilon_steps": 400,
    "epsilon_end": 0.3,
    "minibatch_size": 32,
    "buffer_size": 2000,
    "hidden": (32,),
    "gamma": 0.9,
    "lr": 3e-3,
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"double": False},
    "double": {},
    "dueling": {"dueling": True},
    "3 steps": {"n_step": 3},
    "prioritized": {"prioritized": True},
}


@pytest.fixture
def dqn(session: None) -> Iterator[Make]:
    """`rl.DQN`, whose environments are closed after the test."""
    made: list[rl.DQN] = []

    def make(*arguments: Any, **options: Any) -> rl.DQN:
        made.append(rl.DQN(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def train(algorithm: rl.DQN, n: int) -> list[dict[str, float]]:
    results = list(islice(algorithm.train(), n))
    return [{k: v for k, v in one.items() if k not in ("time_total_s", "steps_per_s")} for one in results]


def q(algorithm: rl.DQN, seen: float) -> list[float]:
    with torch.no_grad():
        return algorithm._q(torch.tensor([[seen]]))[0].tolist()


@pytest.mark.parametrize("double", [True, False])
def test_targets_are_those_of_the_paper(double: bool) -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(2, 50, 3)).astype(np.float32)  # Q and Q_target of s', by row

    def network(table: np.ndarray) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda rows: torch.from_numpy(table)[rows]

    rows = {
        "following": torch.arange(50),
        "returns": torch.from_numpy(rng.normal(size=50).astype(np.float32)),
        "discounts": torch.from_numpy(rng.choice([0.0, 0.9], 50).astype(np.float32)),
    }
    found = targets(network(ours), network(theirs), rows, double)
    for k in range(50):
        best = max(range(3), key=lambda a: (ours if double else theirs)[k, a])
        assert float(found[k]) == pytest.approx(float(rows["returns"][k] + rows["discounts"][k] * theirs[k, best]))


class TwoStepTold(probes.TwoStepCredit):
    """The second observation says what was chosen, so each step has values of its own."""

    def see(self) -> np.ndarray:
        return np.array([0.0 if self.t == 0 else 0.5 + 0.5 * self.chosen], np.float32)


@pytest.mark.parametrize(
    "env, gamma, kind, wanted",
    [
        *((TwoStepTold, 0.9, kind, {0.0: (-0.9, 0.9), 0.5: (-1.0, -1.0), 1.0: (1.0, 1.0)}) for kind in KINDS),
        (probes.Endless, 0.5, "double", {0.0: (2.0, 2.0)}),
        (probes.Endless, 0.5, "3 steps", {0.0: (2.0, 2.0)}),
        (probes.SeenAction, 0.9, "double", {-1.0: (1.0, -1.0), 1.0: (-1.0, 1.0)}),
    ],
)
def test_values_are_those_of_the_environment(
    dqn: Make, env: Any, gamma: float, kind: str, wanted: dict[float, tuple[float, float]]
) -> None:
    algorithm = dqn(env, seed=0, **{**FAST, **KINDS[kind], "gamma": gamma, "epsilon_end": 1.0})
    for _ in range(60):
        train(algorithm, 3)
        if all(q(algorithm, seen) == pytest.approx(known, rel=0.08) for seen, known in wanted.items()):
            return
    assert {seen: q(algorithm, seen) for seen in wanted} == wanted


def test_workers_change_nothing(dqn: Make) -> None:
    runs = [dqn("CartPole-v1", num_workers=n, seed=1, **{**FAST, "prioritized": True}) for n in (0, 1, 2)]
    results = [repr(train(run, 4)) for run in runs]
    assert results[0] == results[1] == results[2]
    weights = [run.flat.to_numpy().tobytes() for run in runs]
    assert weights[0] == weights[1] == weights[2]


def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(dqn: Make, tmp_path: Path) -> None:
    options = {**FAST, "prioritized": True, "n_step": 3}
    one = dqn("CartPole-v1", seed=2, **options)
    train(one, 3)
    one.save(tmp_path / "dqn")
    other = rl.DQN.load(tmp_path / "dqn", num_workers=1)
    try:
        assert train(one, 3) == train(other, 3)
        assert one.flat.to_numpy().tobytes() == other.flat.to_numpy().tobytes()
    finally:
        other.close()
    small = dqn("CartPole-v1", seed=2, checkpoint_replay=False, **options)
    train(small, 3)
    small.save(tmp_path / "small")
    assert (tmp_path / "small/state.pkl").stat().st_size < (tmp_path / "dqn/state.pkl").stat().st_size
    resumed = rl.DQN.load(tmp_path / "small")
    try:
        assert len(resumed.replay) == 0
        assert train(resumed, 2)[-1]["training_iteration"] == 5
    finally:
        resumed.close()


def test_epsilon_falls_and_actions_are_those_of_the_space(dqn: Make) -> None:
    import gymnasium as gym

    class Shifted(probes.ActionReward):
        action_space = gym.spaces.Discrete(2, start=5)

        def reward(self, action: Any) -> float:
            return {5: -1.0, 6: 1.0}[int(action)]

    algorithm = dqn(Shifted, seed=0, **FAST)
    told = [one["epsilon"] for one in train(algorithm, 6)]
    assert told == sorted(told, reverse=True) and told[-1] == pytest.approx(0.3)
    assert algorithm.policy([0.0]) == 6


def test_bad_arguments(session: None) -> None:
    with pytest.raises(TypeError, match=r"DQN needs Discrete actions, and the space is Box.*PPO, A3C or ES"):
        rl.DQN(probes.Continuous)
    with pytest.raises(ValueError, match="epsilon_end=2"):
        rl.DQN(probes.ActionReward, epsilon_end=2)
