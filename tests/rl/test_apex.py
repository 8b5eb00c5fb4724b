"""Ape-X: how much each environment explores, the priorities that players give, values that are known exactly, players
that die, checkpoints.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import probe_envs as probes

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from cellmesh import rl
from cellmesh.rl.apex import Explorer, epsilons

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
Make = Callable[..., rl.ApexDQN]
FAST = {
    "num_envs": 4,
    "play_steps": 10,
    "iteration_steps": 100,
    "learning_starts": 40,
    "train_every": 2,
    "target_every": 20,
    "minibatch_size": 32,
    "buffer_size": 2000,
    "hidden": (32,),
    "gamma": 0.9,
    "lr": 3e-3,
}


@pytest.fixture
def apex(session_with_torch: None) -> Iterator[Make]:
    """`rl.ApexDQN`, whose players are ended after the test."""
    made: list[rl.ApexDQN] = []

    def make(*arguments: Any, **options: Any) -> rl.ApexDQN:
        made.append(rl.ApexDQN(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
    made.clear()
    gc.collect()  # torch's first optimiser of a process keeps its callers' frames, and those the shared weights


def train(algorithm: rl.ApexDQN, n: int) -> list[dict[str, float]]:
    results = list(islice(algorithm.train(), n))
    return [{k: v for k, v in one.items() if k not in ("time_total_s", "steps_per_s")} for one in results]


def q(algorithm: rl.ApexDQN, seen: float) -> list[float]:
    with torch.no_grad():
        return algorithm._q(torch.tensor([[seen]]))[0].tolist()


def test_environments_explore_as_the_paper_says() -> None:
    assert epsilons(0.4, 7.0, 1).tolist() == [0.4]
    assert epsilons(0.4, 7.0, 8) == pytest.approx([0.4 ** (1 + 7 * i / 7) for i in range(8)])


def test_players_share_the_environments_of_all(apex: Make) -> None:
    algorithm = apex(probes.ActionReward, seed=0, **FAST)
    here = algorithm._players
    made = []
    for number in range(2):
        place = replace(here._place, number=number, n_players=2, starts=np.zeros(2, np.int64))
        player = Explorer(place, algorithm._shared_weights)
        made.append(player.epsilon)
        player.cleanup()
    assert np.concatenate(made) == pytest.approx(epsilons(0.4, 7.0, 8))


def test_priorities_are_errors_by_the_players_weights(apex: Make) -> None:
    algorithm = apex(
        probes.SeenAction,
        seed=0,
        n_step=1,
        learning_starts=10**6,
        **{name: value for name, value in FAST.items() if name != "learning_starts"},
    )
    algorithm.flat.vector.data.mul_(3.0)
    train(algorithm, 1)
    rows = algorithm.replay.rows(np.arange(len(algorithm.replay)))
    assert len(rows["actions"]) == 120  # three hand-overs of 40
    for k in range(0, 120, 7):  # an episode is one step, so nothing comes after its reward
        wanted = abs(rows["returns"][k] - q(algorithm, float(rows["observations"][k, 0]))[int(rows["actions"][k])])
        found = algorithm.replay.state()["priorities"][k] ** (1 / 0.6)
        assert found == pytest.approx(wanted, abs=1e-4)


class TwoStepTold(probes.TwoStepCredit):
    """The second observation says what was chosen, so each step has values of its own."""

    def see(self) -> np.ndarray:
        return np.array([0.0 if self.t == 0 else 0.5 + 0.5 * self.chosen], np.float32)


@pytest.mark.parametrize(
    "env, gamma, wanted",
    [
        (TwoStepTold, 0.9, {0.0: (-0.9, 0.9), 0.5: (-1.0, -1.0), 1.0: (1.0, 1.0)}),
        (probes.Endless, 0.5, {0.0: (2.0, 2.0)}),
        (probes.SeenAction, 0.9, {-1.0: (1.0, -1.0), 1.0: (-1.0, 1.0)}),
    ],
)
@pytest.mark.parametrize("n_workers", [0, 2])
def test_values_are_those_of_the_environment(
    apex: Make, env: Any, gamma: float, wanted: dict[float, tuple[float, float]], n_workers: int
) -> None:
    exploring = {"epsilon": 1.0, "gamma": gamma, "num_workers": n_workers}
    algorithm = apex(env, seed=0, **{**FAST, **exploring})
    for _ in range(80):
        train(algorithm, 3)
        if all(q(algorithm, seen) == pytest.approx(known, rel=0.08) for seen, known in wanted.items()):
            return
    assert {seen: q(algorithm, seen) for seen in wanted} == wanted


def test_there_is_a_minibatch_for_so_many_steps_on_any_machine(apex: Make) -> None:
    algorithm = apex(probes.SeenAction, num_workers=2, seed=0, **FAST)
    results = train(algorithm, 10)
    assert results[-1]["timesteps_total"] >= 1000 and results[-1]["episodes_total"] == results[-1]["timesteps_total"]
    learnt = results[-1]["timesteps_total"] / FAST["train_every"]
    assert learnt - 3 * 80 <= results[-1]["updates_total"] <= learnt
    assert not algorithm._under_way


def test_players_play_on_while_less_than_a_minibatch_is_owed(apex: Make) -> None:
    """Also where all of them play fewer steps at a time than there are to a minibatch."""
    options = FAST | {"num_envs": 1, "play_steps": 3, "train_every": 16, "learning_starts": 1}
    (told,) = train(apex(probes.SeenAction, num_workers=2, seed=0, **options), 1)
    assert told["timesteps_total"] >= 100 and told["updates_total"] >= 4


def test_one_seed_learns_the_same_and_goes_on_from_a_checkpoint(apex: Make, tmp_path: Path) -> None:
    one, twin = (apex("CartPole-v1", seed=2, **FAST) for _ in range(2))
    assert repr(train(one, 3)) == repr(train(twin, 3))
    one.save(tmp_path / "apex")
    uninterrupted = train(one, 3)
    other = rl.ApexDQN.load(tmp_path / "apex")
    try:
        assert repr(train(other, 3)) == repr(uninterrupted)
        assert one.flat.to_numpy().tobytes() == other.flat.to_numpy().tobytes()
    finally:
        other.close()
    more = rl.ApexDQN.load(tmp_path / "apex", num_workers=2)  # the second begins new episodes
    try:
        assert train(more, 1)[0]["training_iteration"] == 4
    finally:
        more.close()
    with pytest.raises(rl.CheckpointError, match="of ApexDQN, and not of DQN"):
        rl.DQN.load(tmp_path / "apex")


def test_a_player_that_dies_is_replaced(apex: Make, tmp_path: Path) -> None:
    make = partial(probes.Fragile, tmp_path / "once", 30)

    algorithm = apex(make, num_workers=2, seed=4, **FAST)
    with pytest.warns(rl.EnvWorkerReplacedWarning, match=r"1 of the processes that play died, of number [01]\."):
        results = train(algorithm, 4)
    assert results[-1]["timesteps_total"] >= 400 and np.isfinite(results[-1]["loss/q"])


def test_an_error_of_the_environment_arrives(apex: Make) -> None:
    class Raises(probes.ActionReward):
        def step(self, action: Any) -> Any:
            raise RuntimeError("not today")

    for n_workers in (0, 2):
        with pytest.raises(rl.EnvFailedError, match="not today"):
            train(apex(Raises, num_workers=n_workers, **FAST), 1)


def test_bad_arguments(session: None) -> None:
    with pytest.raises(TypeError, match=r"ApexDQN needs Discrete actions, and the space is Box.*PPO, A3C or ES"):
        rl.ApexDQN(probes.Continuous)
    with pytest.raises(TypeError, match="no hyperparameter 'epsilon_end'"):
        rl.ApexDQN(probes.ActionReward, epsilon_end=0.1)
    with pytest.raises(ValueError, match="play_steps=0"):
        rl.ApexDQN(probes.ActionReward, play_steps=0)
    with pytest.raises(ValueError, match="ApexDQN: buffer_size=64, and 216 transitions may come at once"):
        rl.ApexDQN(probes.ActionReward, buffer_size=64)
