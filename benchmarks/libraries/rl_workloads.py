"""What `make bench-libraries` measures of RL, written once for each peer. Run as a program it measures one row.

python benchmarks/libraries/rl_workloads.py cellmesh vector_8      prints JSON
"""

from __future__ import annotations

import json
import sys
import time
import warnings

warnings.simplefilter("ignore")
ENV, N_ENVS, GOAL = "CartPole-v1", 8, 475.0
PONG, N_PONG_ACTIONS = "ALE/Pong-v5", 6
N_STEPS, BATCH, N_EPOCHS = 256, 256, 10  # of PPO, for all
N_ITERATIONS = 10
N_GENERATIONS = 20
STATE_NUMBERS, N_STATES, N_BATCHES = 1024, 64, 300  # states of 4 KB, as in Moritz et al. 2018, table 3


def us_a_step(envs, n=4000, n_actions=2, meet=lambda: None):
    """Microseconds a step of one environment takes, with actions that are drawn beforehand. `meet`: called before the
    time begins.
    """
    import numpy as np

    n_warm = n // 20
    actions = np.random.default_rng(0).integers(0, n_actions, (n_warm + n, envs.num_envs))
    envs.reset()
    for one in actions[:n_warm]:
        envs.step(one)
    meet()
    began = time.perf_counter()
    for one in actions[n_warm:]:
        envs.step(one)
    took = time.perf_counter() - began
    envs.close()
    return {"us": took / n / envs.num_envs * 1e6}


def pong_step(envs, meet=lambda: None):
    return us_a_step(envs, n=400, n_actions=N_PONG_ACTIONS, meet=meet)


def pong_wrappers():
    """Gymnasium's: four frames an action, grey, 84 x 84, four of these at a time."""
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    return [AtariPreprocessing, lambda env: FrameStackObservation(env, 4)]


# ---- cellmesh
class Cellmesh:
    num_workers = 2

    def __init__(self):
        import cellmesh
        from cellmesh import rl

        self.cm, self.rl, self.version = cellmesh, rl, cellmesh.__version__
        cellmesh.init(num_cpus=2)

    def vector_8(self):
        return us_a_step(self.rl.make_vec(ENV, N_ENVS))

    def vector_8_two_workers(self):
        return us_a_step(self.rl.make_vec(ENV, N_ENVS, num_workers=2))

    def pong(self):
        wrappers = pong_wrappers()
        return pong_step(self.rl.make_vec(PONG, N_ENVS, num_workers=self.num_workers, wrappers=wrappers, frameskip=1))

    def _ppo(self, seed):
        return self.rl.PPO(
            ENV, num_envs=N_ENVS, seed=seed, n_steps=N_STEPS, minibatch_size=BATCH, n_epochs=N_EPOCHS, lr=1e-3
        )

    def ppo_step(self):
        iterations = self._ppo(0).train()
        next(iterations)  # warm
        began = time.perf_counter()
        for _ in range(N_ITERATIONS):
            next(iterations)
        return {"us": (time.perf_counter() - began) / (N_ITERATIONS * N_STEPS * N_ENVS) * 1e6}

    def ppo_475(self, seed):
        return self._to_goal(self._ppo(seed))

    def es_475(self, seed):
        return self._to_goal(self.rl.ES(ENV, num_workers=2, seed=seed))

    def es_generations(self):
        """With one seed the same episodes, in however many processes they are played."""
        generations = self.rl.ES(ENV, num_workers=self.num_workers, seed=0).train()
        next(generations)  # warm
        began = time.perf_counter()
        for _ in range(N_GENERATIONS):
            next(generations)
        return {"s": time.perf_counter() - began}

    # RLlib's regression tests of 2018
    def regression_ppo(self, seed):
        return self._to_goal(self.rl.PPO("CartPole-v0", num_workers=2, seed=seed), 200.0)

    def regression_es(self, seed):
        return self._to_goal(self.rl.ES("CartPole-v0", num_workers=2, seed=seed), 200.0)

    def regression_dqn(self, seed):
        options = {"prioritized": True, "n_step": 3, "dueling": True, "epsilon_end": 0.0}  # 200 is the most there is
        return self._to_goal(self.rl.DQN("CartPole-v0", seed=seed, **options), 200.0)

    def regression_a3c(self, seed):
        return self._to_goal(self.rl.A3C("CartPole-v0", num_workers=2, seed=seed), 200.0)

    def _to_goal(self, algorithm, goal=GOAL):
        began = time.perf_counter()
        for _ in algorithm.train(until={"episode_return_mean": goal}):
            pass
        return {"s": time.perf_counter() - began}

    def serving(self):
        import gymnasium as gym
        import numpy as np

        class Large(gym.Env):
            observation_space = gym.spaces.Box(-1, 1, (STATE_NUMBERS,), np.float32)
            action_space = gym.spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                return np.zeros(STATE_NUMBERS, np.float32), {}

            def step(self, action):
                return np.zeros(STATE_NUMBERS, np.float32), 0.0, False, False, {}

        server = self.rl.serve(self.rl.PPO(Large, seed=0).policy)
        states = np.random.default_rng(0).uniform(-1, 1, (N_STATES, STATE_NUMBERS)).astype(np.float32)
        for n in (20, N_BATCHES):
            began = time.perf_counter()
            self.cm.get([server.act_batch.remote(states) for _ in range(n)])
            took = time.perf_counter() - began
        return {"us": took / (N_BATCHES * N_STATES) * 1e6}


class Single(Cellmesh):
    """Cellmesh in one process."""

    num_workers = 0


# ---- gymnasium by itself
class GymnasiumSync:
    kind = "sync"

    def __init__(self):
        import gymnasium

        self.gym, self.version = gymnasium, gymnasium.__version__

    def vector_8(self):
        return us_a_step(self.gym.make_vec(ENV, N_ENVS, vectorization_mode=self.kind))

    vector_8_two_workers = vector_8

    def pong(self, n_envs=N_ENVS, meet=lambda: None):
        import ale_py

        self.gym.register_envs(ale_py)
        envs = self.gym.make_vec(PONG, n_envs, vectorization_mode=self.kind, wrappers=pong_wrappers(), frameskip=1)
        return pong_step(envs, meet)


class GymnasiumAsync(GymnasiumSync):
    kind = "async"


class Apart(GymnasiumSync):
    """Two processes with half of the environments each, that never wait for each other: the most that two give."""

    def pong(self):
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        meet, found = context.Barrier(2), context.SimpleQueue()
        halves = [context.Process(target=half_of_pong, args=(meet, found)) for _ in range(2)]
        for half in halves:
            half.start()
        us = sum(found.get() for _ in halves) / len(halves) / len(halves)
        for half in halves:
            half.join()
        return {"us": us}


def half_of_pong(meet, found):
    found.put(GymnasiumSync().pong(N_ENVS // 2, meet.wait)["us"])


# ---- environments in C++, in threads
class Ale:
    def __init__(self):
        import ale_py

        self.version = ale_py.__version__

    def pong(self):
        from ale_py.vector_env import AtariVectorEnv

        return pong_step(AtariVectorEnv("pong", N_ENVS, num_threads=2))


class EnvPool:
    def __init__(self):
        import envpool

        self.envpool, self.version = envpool, envpool.__version__

    def vector_8(self):
        return us_a_step(self.envpool.make(ENV, env_type="gymnasium", num_envs=N_ENVS, num_threads=2))

    vector_8_two_workers = vector_8


# ---- Stable-Baselines3
class SB3:
    def __init__(self):
        import stable_baselines3
        import torch

        torch.set_num_threads(1)
        self.sb3, self.version = stable_baselines3, stable_baselines3.__version__

    def _ppo(self, seed):
        from stable_baselines3.common.env_util import make_vec_env

        return self.sb3.PPO(
            "MlpPolicy",
            make_vec_env(ENV, N_ENVS, seed=seed),
            n_steps=N_STEPS,
            batch_size=BATCH,
            n_epochs=N_EPOCHS,
            learning_rate=1e-3,
            seed=seed,
            device="cpu",
        )

    def ppo_step(self):
        model, steps = self._ppo(0), N_STEPS * N_ENVS
        model.learn(steps)
        began = time.perf_counter()
        model.learn(N_ITERATIONS * steps)
        return {"us": (time.perf_counter() - began) / (N_ITERATIONS * steps) * 1e6}

    def ppo_475(self, seed):
        from stable_baselines3.common.callbacks import BaseCallback

        class UntilGoal(BaseCallback):
            def _on_step(self):
                returns = [episode["r"] for episode in self.model.ep_info_buffer]
                return not returns or sum(returns) / len(returns) < GOAL

        model, began = self._ppo(seed), time.perf_counter()
        model.learn(2_000_000, callback=UntilGoal())
        return {"s": time.perf_counter() - began}


# ---- RLlib
class RLlib:
    def __init__(self):
        import ray

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        self.version = ray.__version__

    def _ppo(self, seed):
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        config = PPOConfig().environment(ENV).debugging(seed=seed)
        config = config.env_runners(num_env_runners=0, num_envs_per_env_runner=N_ENVS)
        config = config.training(
            train_batch_size_per_learner=N_STEPS * N_ENVS, minibatch_size=BATCH, num_epochs=N_EPOCHS, lr=1e-3
        )
        model = DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False)
        return config.rl_module(model_config=model).build_algo()

    def ppo_step(self):
        algorithm = self._ppo(0)
        before = self._steps(algorithm.train())  # warm
        began = time.perf_counter()
        for _ in range(N_ITERATIONS):
            result = algorithm.train()
        return {"us": (time.perf_counter() - began) / (self._steps(result) - before) * 1e6}

    def ppo_475(self, seed):
        algorithm, began = self._ppo(seed), time.perf_counter()
        while not algorithm.train()["env_runners"]["episode_return_mean"] >= GOAL:  # NaN at first
            pass
        return {"s": time.perf_counter() - began}

    def _steps(self, result):
        return result["env_runners"]["num_env_steps_sampled_lifetime"]


PEERS = {
    "cellmesh": Cellmesh,
    "single": Single,
    "gymnasium_sync": GymnasiumSync,
    "gymnasium_async": GymnasiumAsync,
    "apart": Apart,
    "ale": Ale,
    "envpool": EnvPool,
    "sb3": SB3,
    "rllib": RLlib,
}

if __name__ == "__main__":
    api, row, *seed = sys.argv[1:]
    peer = PEERS[api]()
    print(json.dumps({"version": peer.version, "figures": getattr(peer, row)(*map(int, seed))}))
