"""One update of PPO and of DQN, and what replay draws, against Stable-Baselines3 from equal weights and rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")
sb3 = pytest.importorskip("stable_baselines3", reason="no SB3 to compare with: pip install stable-baselines3")

from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer as TheirReplay
from stable_baselines3.common.logger import Logger

from cellmesh import rl
from cellmesh.rl.models.torch_model import TorchModel
from cellmesh.rl.replay import NSteps
from cellmesh.rl.rollout import Rollout, play

N_ENVS, N_STEPS = 2, 64
OPTIONS = {"num_envs": N_ENVS, "n_steps": N_STEPS, "minibatch_size": N_ENVS * N_STEPS, "n_epochs": 1, "lr": 3e-3}


@pytest.fixture
def ours() -> Iterator[list[Any]]:
    """Algorithms of ours, which are closed after the test."""
    made: list[Any] = []
    yield made
    for one in made:
        one.close()


def copied(weights: Any, into: Any) -> None:
    """Linear layers of a network, in order, into another's."""
    layers = [[m for m in net.modules() if isinstance(m, torch.nn.Linear)] for net in (weights, into)]
    assert [m.weight.shape for m in layers[0]] == [m.weight.shape for m in layers[1]]
    with torch.no_grad():
        for mine, other in zip(*layers, strict=True):
            other.weight.copy_(mine.weight)
            other.bias.copy_(mine.bias)


def distance(one: Any, other: Any) -> float:
    """The furthest that two networks' layers are apart."""
    layers = [[m for m in net.modules() if isinstance(m, torch.nn.Linear)] for net in (one, other)]
    pairs = list(zip(*layers, strict=True))
    parts = [(getattr(a, name), getattr(b, name)) for a, b in pairs for name in ("weight", "bias")]
    return max(float((mine - other).detach().abs().max()) for mine, other in parts)


class Policy(torch.nn.Module):
    """SB3's three parts of a policy as ours has them: body, then head."""

    def __init__(self, body: Any, head: Any) -> None:
        super().__init__()
        self.body, self.head = body, head


def filled(theirs: Any, played: Rollout, values: np.ndarray, last_values: np.ndarray) -> None:
    """SB3's rollout with what we have played."""
    buffer = theirs.rollout_buffer
    buffer.reset()
    starts = np.zeros(N_ENVS)
    for t in range(N_STEPS):
        observations, actions = torch.from_numpy(played.observations[t]), torch.from_numpy(played.actions[t])
        with torch.no_grad():
            _, log_p, _ = theirs.policy.evaluate_actions(observations, actions)
        buffer.add(
            played.observations[t], played.actions[t][:, None], played.rewards[t], starts,
            torch.from_numpy(values[t]), log_p,
        )  # fmt: skip
        starts = played.over[t].astype(float)
    buffer.compute_returns_and_advantage(torch.from_numpy(last_values), starts)


@pytest.mark.parametrize("entropy_coefficient", [0.0, 0.01])
def test_an_update_of_ppo_is_theirs(ours: list[Any], entropy_coefficient: float) -> None:
    algorithm = rl.PPO("CartPole-v1", seed=0, entropy_coefficient=entropy_coefficient, **OPTIONS)
    ours.append(algorithm)
    theirs = sb3.PPO(
        "MlpPolicy",
        sb3.common.vec_env.DummyVecEnv([lambda: gym.make("CartPole-v1")] * N_ENVS),
        learning_rate=3e-3,
        n_steps=N_STEPS,
        batch_size=N_ENVS * N_STEPS,
        n_epochs=1,
        ent_coef=entropy_coefficient,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        device="cpu",
    )
    theirs.set_logger(Logger(None, []))
    policy = Policy(theirs.policy.mlp_extractor.policy_net, theirs.policy.action_net)
    value = Policy(theirs.policy.mlp_extractor.value_net, theirs.policy.value_net)
    copied(algorithm._policy, policy)
    copied(algorithm._value, value)
    for _ in range(3):  # the second and third with Adam's moments of before
        before = algorithm.flat.to_numpy()
        played = play(algorithm, TorchModel(algorithm._policy), N_STEPS)
        assert played.over.any() and not played.truncated
        values = TorchModel(algorithm._value)
        known = values(played.flat_observations)[:, 0].reshape(N_STEPS, N_ENVS)
        filled(theirs, played, known, values(played.last_observations)[:, 0])
        advantages, returns = algorithm._targets(played)
        assert np.allclose(advantages.reshape(N_STEPS, N_ENVS), theirs.rollout_buffer.advantages, atol=1e-5)
        algorithm._update(advantages, returns, played)
        theirs.train()
        assert distance(algorithm._policy, policy) < 2e-5 and distance(algorithm._value, value) < 2e-5
        assert np.abs(algorithm.flat.to_numpy() - before).max() > 1e-3


def test_an_update_of_dqn_is_theirs(ours: list[Any]) -> None:
    options = {"double": False, "lr": 1e-3, "minibatch_size": 32, "learning_starts": 64, "iteration_steps": 64}
    algorithm = rl.DQN("CartPole-v1", seed=0, num_envs=1, target_every=10**6, **options)
    ours.append(algorithm)
    theirs = sb3.DQN(
        "MlpPolicy",
        gym.make("CartPole-v1"),
        learning_rate=1e-3,
        batch_size=32,
        gamma=0.99,
        policy_kwargs={"net_arch": [64, 64]},
        device="cpu",
    )
    theirs.set_logger(Logger(None, []))
    copied(algorithm._q, theirs.q_net)
    copied(algorithm._target, theirs.q_net_target)
    next(algorithm.train())  # which plays, and does not learn yet but for the last step
    copied(algorithm._q, theirs.q_net)
    algorithm._adam.state.clear()
    for k in range(3):
        rng = np.random.default_rng(k)
        rng.bit_generator.state = algorithm.rng.bit_generator.state
        rows, *_ = algorithm.replay.sample(32, rng)

        class Given:
            """Draws these rows."""

            def sample(self, n: int, env: Any = None, rows: Any = rows) -> Any:
                return sb3.common.type_aliases.ReplayBufferSamples(
                    observations=torch.from_numpy(rows["observations"]),
                    actions=torch.from_numpy(rows["actions"])[:, None],
                    next_observations=torch.from_numpy(rows["following"]),
                    dones=torch.from_numpy((rows["discounts"] == 0).astype(np.float32))[:, None],
                    rewards=torch.from_numpy(rows["returns"])[:, None],
                )

        theirs.replay_buffer = Given()
        before = algorithm.flat.to_numpy()
        algorithm.learn_from_minibatch()
        theirs.train(gradient_steps=1, batch_size=32)
        assert distance(algorithm._q, theirs.q_net) < 1e-6
        assert np.abs(algorithm.flat.to_numpy() - before).max() > 5e-4


def test_replay_keeps_the_rows_that_theirs_keeps() -> None:
    space, rng = gym.spaces.Box(-1, 1, (3,), np.float32), np.random.default_rng(0)
    mine = rl.ReplayBuffer(
        10, {"observations": ((3,), np.float32), "actions": ((), np.int64), "rewards": ((), np.float32)}
    )
    theirs = TheirReplay(10, space, gym.spaces.Discrete(4), device="cpu", handle_timeout_termination=False)
    for k in range(27):
        seen, action, reward = rng.normal(size=(1, 3)).astype(np.float32), np.array([k % 4]), rng.normal(size=1)
        mine.add({"observations": seen, "actions": action, "rewards": reward})
        theirs.add(seen, seen, action[:, None], reward, np.zeros(1), [{}])
        n = theirs.size()
        assert len(mine) == n
        assert np.array_equal(mine.columns["observations"][:n], theirs.observations[:n, 0])
        assert np.array_equal(mine.columns["actions"][:n], theirs.actions[:n, 0, 0])
        assert np.allclose(mine.columns["rewards"][:n], theirs.rewards[:n, 0])


def test_sums_over_several_steps_are_theirs() -> None:
    space, rng, gamma = gym.spaces.Box(-1, 1, (1,), np.float32), np.random.default_rng(1), 0.9
    mine = NSteps(3, 1, gamma)
    theirs = NStepReplayBuffer(200, space, gym.spaces.Discrete(4), device="cpu", n_steps=3, gamma=gamma)
    found: list[dict[str, np.ndarray]] = []
    for k in range(100):
        seen, following, reward = np.float32([[k]]), np.float32([[k + 0.5]]), rng.normal(size=1)
        ended, cut = rng.random(2) < (0.1, 0.1)
        over = ended or cut
        action = np.array([k % 4])
        theirs.add(
            seen, following, action[:, None], reward, np.array([over]), [{"TimeLimit.truncated": cut and not ended}]
        )
        rows = mine.add(seen, action, reward, following, np.array([ended]), np.array([over]))
        found += [] if rows is None else [rows]
    rows = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    n = len(rows["returns"])
    assert n >= 98 and (rows["discounts"] == 0).any() and len(set(rows["discounts"].tolist())) == 4
    wanted = theirs._get_samples(np.arange(n))
    assert np.array_equal(rows["observations"], wanted.observations.numpy())
    assert np.array_equal(rows["following"], wanted.next_observations.numpy())
    assert np.allclose(rows["returns"], wanted.rewards.numpy()[:, 0], atol=1e-6)
    assert np.allclose(rows["discounts"], (wanted.discounts * (1 - wanted.dones)).numpy()[:, 0], atol=1e-6)
