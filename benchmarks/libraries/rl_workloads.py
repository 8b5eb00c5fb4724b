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
N_STEPS, BATCH, N_EPOCHS = 256, 256, 10  # of PPO, for all
N_ITERATIONS = 10
STATE_NUMBERS, N_STATES, N_BATCHES = 1024, 64, 300  # states of 4 KB, as in Moritz et al. 2018, table 3


def us_a_step(envs, n=4000):
    """Microseconds a step of one environment takes, with actions that are drawn beforehand."""
    import numpy as np

    actions = np.random.default_rng(0).integers(0, 2, (n, N_ENVS))
    envs.reset(seed=0)
    for i in range(200):
        envs.step(actions[i])
    began = time.perf_counter()
    for i in range(n):
        envs.step(actions[i])
    took = time.perf_counter() - began
    envs.close()
    return {"us": took / n / N_ENVS * 1e6}


# ---- cellmesh
class Cellmesh:
    def __init__(self):
        import cellmesh
        from cellmesh import rl

        self.cm, self.rl, self.version = cellmesh, rl, cellmesh.__version__
        cellmesh.init(num_cpus=2)

    def vector_8(self):
        return us_a_step(self.rl.make_vec(ENV, N_ENVS))

    def vector_8_two_workers(self):
        return us_a_step(self.rl.make_vec(ENV, N_ENVS, num_workers=2))

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

    def _to_goal(self, algorithm):
        began = time.perf_counter()
        for _ in algorithm.train(until={"episode_return_mean": GOAL}):
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


# ---- gymnasium by itself
class GymnasiumSync:
    kind = "sync"

    def __init__(self):
        import gymnasium

        self.gym, self.version = gymnasium, gymnasium.__version__

    def vector_8(self):
        return us_a_step(self.gym.make_vec(ENV, N_ENVS, vectorization_mode=self.kind))

    vector_8_two_workers = vector_8


class GymnasiumAsync(GymnasiumSync):
    kind = "async"


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


PEERS = {"cellmesh": Cellmesh, "gymnasium_sync": GymnasiumSync, "gymnasium_async": GymnasiumAsync, "sb3": SB3}

if __name__ == "__main__":
    api, row, *seed = sys.argv[1:]
    peer = PEERS[api]()
    print(json.dumps({"version": peer.version, "figures": getattr(peer, row)(*map(int, seed))}))
