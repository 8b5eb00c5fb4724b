"""PPO: its parts against naive loops, what it learns where the answer is known, and that it is the same wherever its
environments run and whenever it is interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import probe_envs as probes

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from cellmesh import rl
from cellmesh.rl.models.actions import Actions
from cellmesh.rl.models.networks import entropy, log_likelihood
from cellmesh.rl.ppo import gae

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
Make = Callable[..., rl.PPO]
FAST = {"num_envs": 4, "n_steps": 32, "minibatch_size": 32, "n_epochs": 4, "lr": 3e-3, "hidden": (32,), "gamma": 0.9}


@pytest.fixture
def ppo(session: None) -> Iterator[Make]:
    """`rl.PPO`, whose environments are closed after the test."""
    made: list[rl.PPO] = []

    def make(*arguments: Any, **options: Any) -> rl.PPO:
        made.append(rl.PPO(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def train(algorithm: rl.PPO, n: int) -> list[dict[str, float]]:
    return list(islice(algorithm.train(), n))


def value(algorithm: rl.PPO, *observation: float) -> float:
    with torch.no_grad():
        return float(algorithm._value(torch.tensor([observation], dtype=torch.float32)))


# ---- parts
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_steps=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
)
def test_gae_is_the_sum_of_the_paper(seed: int, n_steps: int, n_envs: int, gamma: float, lam: float) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, n_steps, n_envs)).astype(np.float32)
    last, over = rng.normal(size=n_envs).astype(np.float32), rng.random((n_steps, n_envs)) < 0.3
    found = gae(rewards, values, last, over, gamma, lam)
    following = np.concatenate([values[1:], last[None]])
    for i in range(n_envs):
        for t in range(n_steps):
            wanted, weight = 0.0, 1.0
            for k in range(t, n_steps):  # equation 16
                wanted += weight * (rewards[k, i] + gamma * following[k, i] * (not over[k, i]) - values[k, i])
                weight *= gamma * lam
                if over[k, i]:
                    break
            assert found[t, i] == pytest.approx(wanted, rel=1e-3, abs=1e-3)


# ---- what is known exactly
@pytest.mark.parametrize(
    "env, wanted",
    [
        (probes.ConstantReward, {(0.0,): 1.0}),
        (probes.SeenReward, {(-1.0,): -1.0, (1.0,): 1.0}),
        (probes.DelayedReward, {(0.0,): 0.9, (1.0,): 1.0}),
        (probes.Endless, {(0.0,): 10.0}),
        (probes.Ending, {(0.0,): (1 + 1.9 + 2.71) / 3}),
    ],
)
def test_values_are_those_of_the_environment(ppo: Make, env: Any, wanted: dict[tuple[float, ...], float]) -> None:
    algorithm = ppo(env, seed=0, gae_lambda=1.0 if env is probes.Ending else 0.95, max_grad_norm=10.0, **FAST)
    for _ in range(60):
        train(algorithm, 5)
        if all(value(algorithm, *seen) == pytest.approx(known, rel=0.05) for seen, known in wanted.items()):
            return
    assert {seen: value(algorithm, *seen) for seen in wanted} == wanted


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
def test_policies_are_the_best(ppo: Make, env: Any, best: float) -> None:
    algorithm = ppo(env, seed=0, **FAST)
    for result in algorithm.train():
        if result["training_iteration"] % 10 == 0 and min(algorithm.evaluate(4, seed=0)) >= best:
            break
        assert result["training_iteration"] < 300, algorithm.evaluate(4, seed=0)


@pytest.mark.parametrize("env", [probes.ActionReward, probes.Continuous])
def test_the_gradient_is_that_of_the_objective(ppo: Make, env: Any) -> None:
    algorithm = ppo(env, seed=0, entropy_coefficient=0.1, max_grad_norm=1e9, **FAST)
    rng, space, n = np.random.default_rng(0), algorithm.action_space, 64
    observations = torch.from_numpy(rng.uniform(-1, 1, (n, 1)).astype(np.float32))
    advantages, returns, apart = torch.from_numpy(rng.normal(size=(3, n)).astype(np.float32))
    parameters = algorithm._policy(observations)
    actions = torch.from_numpy(Actions(space).sample(parameters.detach().numpy(), rng))
    log_p = log_likelihood(space, parameters, actions)
    old = (log_p + 0.3 * apart).detach()

    a = (advantages - advantages.mean()) / advantages.std()
    ratio = (log_p - old).exp()
    clipped = ratio.clamp(0.8, 1.2)
    assert (clipped != ratio).sum() > 16
    error = (algorithm._value(observations)[:, 0] - returns).square().mean()
    gain = torch.min(ratio * a, clipped * a).mean()
    algorithm.flat.backward(0.5 * error - gain - 0.1 * entropy(space, parameters).mean())
    wanted = algorithm.flat.gradient.clone()

    (told,) = algorithm._learn_from(observations, actions, old, advantages, returns, told=True)
    torch.testing.assert_close(algorithm.flat.gradient, wanted, rtol=1e-4, atol=1e-6)
    assert told[:2].tolist() == pytest.approx([-gain.item(), error.item()], rel=1e-4)


# ---- the same
def weights(algorithm: rl.PPO) -> bytes:
    return algorithm.flat.to_numpy().tobytes()


def untimed(results: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: one[name] for name in one if name not in ("time_total_s", "steps_per_s")} for one in results]


def test_workers_change_nothing(ppo: Make) -> None:
    runs = [ppo("CartPole-v1", num_envs=4, num_workers=n, seed=1, n_steps=20, n_epochs=2) for n in (0, 1, 2)]
    results = [train(run, 20) for run in runs]
    assert weights(runs[0]) == weights(runs[1]) == weights(runs[2])
    assert repr(untimed(results[0])) == repr(untimed(results[1])) == repr(untimed(results[2]))
    assert results[0][-1]["episodes_total"] > 10


@pytest.mark.parametrize("n_workers", [0, 2])
def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(ppo: Make, tmp_path: Path, n_workers: int) -> None:
    options = {"num_envs": 4, "n_steps": 20, "n_epochs": 2, "normalize_observations": True}
    one = ppo("CartPole-v1", num_workers=n_workers, seed=2, **options)
    train(one, 3)
    one.save(tmp_path / "ppo")
    uninterrupted = train(one, 3)
    other = rl.PPO.load(tmp_path / "ppo", num_workers=2 - n_workers)
    try:
        resumed = train(other, 3)
        assert weights(one) == weights(other)
        assert untimed(uninterrupted) == untimed(resumed)
        assert resumed[-1]["training_iteration"] == 6
    finally:
        other.close()
    policy = rl.Policy.load(tmp_path / "ppo")
    assert policy.moments is not None and policy.moments.n == 3 * 4 * 20
    one.save(tmp_path / "ppo")  # over it
    assert rl.Policy.load(tmp_path / "ppo").moments.n == 6 * 4 * 20
    assert [path.name for path in tmp_path.iterdir()] == ["ppo"]


def test_environments_may_be_given_one_by_one(ppo: Make) -> None:
    algorithm = ppo([probes.ConstantReward, probes.ActionReward], num_workers=1, seed=0, n_steps=4, minibatch_size=4)
    (result,) = train(algorithm, 1)
    assert result["timesteps_total"] == 2 * 4
    assert algorithm.evaluate(2) == [1.0, 1.0]  # in the first


def test_seeds_differ_and_the_users_random_numbers_are_left_alone(ppo: Make) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = (ppo(probes.SeenReward, seed=seed, **FAST) for seed in (1, 1, 2))
    for one in (a, b, c):
        train(one, 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert weights(a) == weights(b) != weights(c)


# ---- policies
def test_a_policy_takes_one_observation_or_several_and_may_be_sent(ppo: Make, session: None) -> None:
    import cellmesh as cm

    algorithm = ppo("CartPole-v1", num_envs=2, seed=0)
    policy, seen = algorithm.policy, np.array([0.1, 0.2, 0.3, 0.4])
    action = policy(seen)
    assert action in policy.action_space and policy([0.1, 0.2, 0.3, 0.4]) == action
    assert policy(np.stack([seen] * 3)).tolist() == [action] * 3
    drawn = {int(policy(seen, explore=True, rng=np.random.default_rng(k))) for k in range(50)}
    assert drawn == {0, 1}

    @cm.remote
    def act(given: rl.Policy) -> Any:
        return given(seen)

    assert cm.get(act.remote(policy)) == action
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        policy(np.zeros(3))
    with pytest.raises(ValueError, match="no observation of"):
        policy("left")


def test_training_ends_where_it_is_told_to(ppo: Make) -> None:
    algorithm = ppo(probes.ConstantReward, seed=0, evaluation_interval=2, evaluation_episodes=3, **FAST)
    results = list(algorithm.train(until={"timesteps_total": 400, "episode_return_mean": 5}))
    assert [one["timesteps_total"] for one in results] == [128, 256, 384, 512]
    assert [one.get("evaluation_return_mean") for one in results] == [None, None, 1.0, None]
    assert results[-1]["episode_length_mean"] == 1 and results[-1]["episodes_total"] == 512
    assert len(list(algorithm.train(until=lambda result: result["training_iteration"] >= 6))) == 2
    with pytest.raises(KeyError, match="episode_return_mean"):
        list(algorithm.train(until={"return": 1}))
    with pytest.raises(TypeError, match="until=475: a mapping such as"):
        next(algorithm.train(until=475))


# ---- what is refused
class Explodes(probes.ConstantReward):
    def reward(self, action: Any) -> float:
        return 1e38


def test_a_loss_that_is_not_finite_ends_training(ppo: Make) -> None:
    with pytest.raises(rl.TrainingDivergedError, match=r"PPO: loss/value is inf in iteration 1.*smaller lr"):
        train(ppo(Explodes, seed=0, **FAST), 3)


def test_checkpoints_of_something_else_are_refused(ppo: Make, tmp_path: Path) -> None:
    algorithm = ppo(probes.ConstantReward, seed=0, **FAST)
    algorithm.save(tmp_path / "one")
    about = tmp_path / "one" / "about.json"
    text = about.read_text()

    class Other(rl.PPO):
        pass

    with pytest.raises(rl.CheckpointError, match="checkpoint of PPO, and not of Other"):
        Other.load(tmp_path / "one")
    with pytest.raises(rl.CheckpointError, match="is of the spaces"):
        rl.PPO.load(tmp_path / "one", env="CartPole-v1")
    with pytest.raises(rl.CheckpointError, match="hyperparameters"):
        rl.PPO.load(tmp_path / "one", hidden=(5,))
    with pytest.raises(rl.CheckpointError, match=r"no checkpoint of cellmesh\.rl"):
        rl.PPO.load(tmp_path)
    about.write_text(json.dumps({**json.loads(text), "format": 0}))
    with pytest.raises(rl.CheckpointError, match="another version"):
        rl.Policy.load(tmp_path / "one")
    about.write_text(text)
    (tmp_path / "one" / "state.pkl").write_bytes(b"garbage")
    with pytest.raises(rl.CheckpointError, match=r"state\.pkl cannot be read"):
        rl.PPO.load(tmp_path / "one")
    (tmp_path / "mine").mkdir()
    with pytest.raises(rl.CheckpointError, match="is no checkpoint: give another path"):
        algorithm.save(tmp_path / "mine")


def test_bad_arguments(session: None) -> None:
    for options, kind, message in (
        ({}, TypeError, "which environment"),
        ({"env": "CartPole-v1", "gama": 0.9}, TypeError, "no hyperparameter 'gama'. Did you mean gamma"),
        ({"env": "CartPole-v1", "gamma": 1.5}, ValueError, "gamma=1.5: it is at least 0 and at most 1"),
        ({"env": "CartPole-v1", "lr": 0}, ValueError, "lr=0: it is above 0"),
        ({"env": "CartPole-v1", "lr": "fast"}, TypeError, "lr='fast': a number"),
        ({"env": "CartPole-v1", "n_steps": 2.5}, TypeError, "n_steps=2.5: a whole number"),
        ({"env": "CartPole-v1", "hidden": (0,)}, TypeError, "hidden=.*widths"),
        ({"env": "CartPole-v1", "normalize_observations": 1}, TypeError, "True or False"),
        ({"env": "CartPole-v1", "hidden": 5}, TypeError, "hidden=5: widths"),
        ({"env": "CartPole-v1", "n_steps": float("inf")}, TypeError, "n_steps=inf: a whole number"),
        ({"env": "CartPole-v1", "lr": float("nan")}, ValueError, "lr=nan: it is above 0"),
        ({"env": "CartPole-v1", "num_env": 4}, TypeError, "no hyperparameter 'num_env'. Did you mean num_envs"),
        ({"env": "CartPole-v1", "num_workers": -1}, ValueError, "PPO: num_workers=-1: it is at least 0"),
        ({"env": "CartPole-v1", "num_workers": "two"}, TypeError, "PPO: num_workers='two': a number"),
        ({"env": "CartPole-v1", "seed": -1}, ValueError, "PPO: seed=-1: it is at least 0"),
        ({"env": "CartPole-v1", "evaluation_interval": -1}, ValueError, "evaluation_interval=-1"),
        ({"env": "CartPole-v1", "evaluation_episodes": 0}, ValueError, "evaluation_episodes=0: it is at least 1"),
        ({"env": "CartPole-v1", "env_config": 3}, TypeError, "env_config=3: a mapping"),
        ({"env": "NoSuch-v0"}, gym.error.Error, "NoSuch"),
    ):
        with pytest.raises(kind, match=message):
            rl.PPO(**options)
