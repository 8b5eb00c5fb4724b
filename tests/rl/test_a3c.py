"""A3C: its parts against naive loops, what it learns where the answer is known, one learner or several, and learners
that die, raise and diverge.
"""

from __future__ import annotations

import os
import signal
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

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")

from cellmesh import rl
from cellmesh.rl.a3c import Networks, n_step_returns

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
Make = Callable[..., rl.A3C]
FAST = {"num_envs": 4, "n_steps": 8, "iteration_steps": 200, "lr": 5e-3, "hidden": (32,), "gamma": 0.9}


@pytest.fixture
def a3c(session_with_torch: None) -> Iterator[Make]:
    """`rl.A3C`, whose learners are ended after the test."""
    made: list[rl.A3C] = []

    def make(*arguments: Any, **options: Any) -> rl.A3C:
        made.append(rl.A3C(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def train(algorithm: rl.A3C, n: int) -> list[dict[str, float]]:
    results = list(islice(algorithm.train(), n))
    return [{k: v for k, v in one.items() if k not in ("time_total_s", "steps_per_s")} for one in results]


def weights(algorithm: rl.A3C) -> bytes:
    return algorithm._shared.weights.tobytes() + algorithm._shared.squares.tobytes()


def value(algorithm: rl.A3C, *seen: float) -> float:
    algorithm.policy  # noqa: B018  # takes over the weights of now
    with torch.no_grad():
        return float(algorithm._networks.value(torch.tensor([seen])))


# ---- parts
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_steps=st.integers(1, 12), n_envs=st.integers(1, 3), gamma=st.floats(0, 1))
def test_returns_are_the_sums_of_the_paper(seed: int, n_steps: int, n_envs: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    rewards, last = rng.normal(size=(n_steps, n_envs)).astype(np.float32), rng.normal(size=n_envs).astype(np.float32)
    over = rng.random((n_steps, n_envs)) < 0.3
    found = n_step_returns(rewards, last, over, gamma)
    for i in range(n_envs):
        for t in range(n_steps):
            end = next((k for k in range(t, n_steps) if over[k, i]), None)
            wanted = sum(gamma ** (k - t) * rewards[k, i] for k in range(t, n_steps if end is None else end + 1))
            wanted += 0 if end is not None else gamma ** (n_steps - t) * last[i]
            assert found[t, i] == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_an_update_is_that_of_the_paper(a3c: Make) -> None:
    options = {**FAST, "num_envs": 1, "n_steps": 5, "iteration_steps": 5, "max_grad_norm": 1e9}
    algorithm = a3c(probes.SeenAction, seed=0, entropy_coefficient=0.1, **options)
    twin = Networks(algorithm.encode, algorithm.action_space, (32,))
    learner, h = algorithm._players._here, algorithm.hyperparameters
    assert learner is not None
    env, rng = probes.SeenAction(), np.random.default_rng()
    squares = np.zeros_like(algorithm._shared.squares)
    for k in range(3):
        before = algorithm._shared.weights.copy()
        twin.flat.load(before)
        if k == 0:
            rng.bit_generator.state = learner.rng.bit_generator.state
            seen, _ = env.reset(seed=int(rng.integers(2**31)))
        total = torch.zeros(())
        for _ in range(5):  # an episode is one step, so R is its reward
            logits, known = twin.policy(torch.from_numpy(seen)[None])[0], twin.value(torch.from_numpy(seen)[None])[0, 0]
            action = int(np.argmax(logits.detach().numpy() + rng.gumbel(size=(1, 2))[0]))
            reward = float(env.step(action)[1])
            log_p = logits.log_softmax(0)
            advantage = reward - known.item()
            total = total - log_p[action] * advantage + 0.1 * (log_p.exp() * log_p).sum() + 0.5 * (reward - known) ** 2
            seen, _ = env.reset()
        (result,) = train(algorithm, 1)
        twin.flat.backward(total / 5)
        gradient = twin.flat.gradient.numpy()
        squares = 0.99 * squares + 0.01 * gradient**2
        wanted = before - h.lr * gradient / np.sqrt(squares + h.rms_epsilon)
        assert np.allclose(algorithm._shared.weights, wanted, atol=2e-5)
        assert not np.allclose(algorithm._shared.weights, before, atol=2e-4)
        assert result["updates"] == 1 and result["timesteps_total"] == 5 * (k + 1)


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
def test_values_are_those_of_the_environment(a3c: Make, env: Any, wanted: dict[tuple[float, ...], float]) -> None:
    # Whole episodes where what is known is their mean, and not what the value itself says of the next step.
    options = {**FAST, "max_grad_norm": 10.0, **({"n_steps": 30} if env is probes.Ending else {})}
    algorithm = a3c(env, seed=0, **options)
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
def test_policies_are_the_best(a3c: Make, env: Any, best: float) -> None:
    algorithm = a3c(env, seed=0, **FAST)
    for result in algorithm.train():
        if result["training_iteration"] % 10 == 0 and min(algorithm.evaluate(4, seed=0)) >= best:
            break
        assert result["training_iteration"] < 300, algorithm.evaluate(4, seed=0)


def test_disorder_is_worth_what_it_is_said_to_be(a3c: Make) -> None:
    """No reward depends on the action, so what entropy is worth decides alone."""
    algorithm = a3c(probes.ConstantReward, seed=0, entropy_coefficient=1.0, **FAST)
    with torch.no_grad():
        algorithm._networks.flat.vector.mul_(5.0)
    algorithm._shared.weights[:] = algorithm._networks.flat.to_numpy()
    results = train(algorithm, 20)
    assert results[-1]["entropy"] == pytest.approx(np.log(2), abs=1e-2)


# ---- one learner, and several
def test_one_learner_of_its_own_workers_changes_nothing(a3c: Make) -> None:
    runs = [a3c("CartPole-v1", num_workers=n, seed=1, **FAST) for n in (0, 1)]
    results = [train(run, 3) for run in runs]
    assert repr(results[0]) == repr(results[1]) and weights(runs[0]) == weights(runs[1])
    other = a3c("CartPole-v1", seed=2, **FAST)
    train(other, 3)
    assert weights(other) != weights(runs[0])


def test_several_workers_learn_together(a3c: Make) -> None:
    algorithm = a3c(probes.SeenAction, num_workers=2, seed=0, **FAST)
    for result in algorithm.train():
        if min(algorithm.evaluate(4, seed=0)) == 1.0:
            break
        assert result["training_iteration"] < 100
    first, second = algorithm._shared.steps.tolist()
    assert first > 0 and second > 0 and first + second == algorithm.timesteps == result["timesteps_total"]
    assert result["episodes_total"] == algorithm.timesteps  # of one step each


@pytest.mark.parametrize("n_workers", [0, 1])
def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(a3c: Make, tmp_path: Path, n_workers: int) -> None:
    one = a3c("CartPole-v1", num_workers=n_workers, seed=2, **FAST)
    train(one, 3)
    one.save(tmp_path / "a3c")
    uninterrupted = train(one, 3)
    other = rl.A3C.load(tmp_path / "a3c", num_workers=1 - n_workers)
    try:
        assert repr(train(other, 3)) == repr(uninterrupted)
        assert weights(one) == weights(other)
    finally:
        other.close()
    more = rl.A3C.load(tmp_path / "a3c", num_workers=2)  # the second begins new episodes
    try:
        (result,) = train(more, 1)
        assert result["training_iteration"] == 4 and result["timesteps_total"] >= 4 * 200
    finally:
        more.close()
    policy = rl.Policy.load(tmp_path / "a3c")
    assert policy([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    with pytest.raises(rl.CheckpointError, match="hyperparameters"):
        rl.A3C.load(tmp_path / "a3c", hidden=(5,))


# ---- what goes wrong
def test_a_learner_that_dies_is_replaced(a3c: Make, tmp_path: Path) -> None:
    make = partial(probes.Fragile, tmp_path / "once", 30)

    algorithm = a3c(make, num_workers=2, seed=4, **FAST)
    with pytest.warns(rl.EnvWorkerReplacedWarning, match=r"1 of the processes that play died, of number [01]\."):
        results = train(algorithm, 3)
    assert sorted(algorithm._players._place.starts.tolist()) == [1, 2]
    assert [one["timesteps_total"] >= 200 * one["training_iteration"] for one in results] == [True] * 3
    assert np.isfinite(algorithm._shared.weights).all()


class Dies(probes.SeenAction):
    def step(self, action: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_learner_that_dies_again_and_again_is_told(a3c: Make) -> None:
    with pytest.raises(rl.EnvWorkerDiedError, match=r"process 0 of those that play died.*replaced 3 times"):
        train(a3c(Dies, num_workers=1, **FAST), 1)


def test_an_error_of_the_environment_arrives(a3c: Make) -> None:
    class Raises(probes.ActionReward):
        def step(self, action: Any) -> Any:
            raise RuntimeError("not today")

    for n_workers in (0, 2):
        with pytest.raises(rl.EnvFailedError, match="not today"):
            train(a3c(Raises, num_workers=n_workers, **FAST), 1)


class Explodes(probes.ConstantReward):
    def reward(self, action: Any) -> float:
        return float("inf")


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_loss_that_is_not_finite_ends_training_and_changes_nothing(a3c: Make, n_workers: int) -> None:
    algorithm = a3c(Explodes, seed=0, num_workers=n_workers, **FAST)
    before = weights(algorithm)
    with pytest.raises(rl.TrainingDivergedError, match=r"A3C: loss/policy is (inf|nan) in iteration 1.*smaller lr"):
        train(algorithm, 3)
    assert weights(algorithm) == before


def test_the_users_random_numbers_are_left_alone(a3c: Make) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(a3c(probes.SeenReward, seed=1, **FAST), 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_bad_arguments(session: None) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot be sent to a worker.*num_workers=0"):
        rl.A3C(lambda: lock and probes.ConstantReward(), num_workers=1)
    rl.A3C(lambda: lock and probes.ConstantReward()).close()  # in this process nothing is sent
    with pytest.raises(rl.EnvFailedError, match=r"the environment could not be made: ZeroDivisionError"):
        rl.A3C(lambda: 1 // 0)
    with pytest.raises(TypeError, match=r"the environment is 3: .*gymnasium\.Env"):
        rl.A3C(lambda: 3)
    with pytest.raises(TypeError, match=r"no hyperparameter 'n_step'\. Did you mean n_steps"):
        rl.A3C(probes.ConstantReward, n_step=5)
    with pytest.raises(ValueError, match="rms_decay=2"):
        rl.A3C(probes.ConstantReward, rms_decay=2)
