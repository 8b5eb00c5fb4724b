"""Simulators as actors, whose rollouts are gathered as they finish."""

import numpy as np
import ray


class Environment:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.state = self.random.normal(size=4)
        return self.state

    def step(self, action):
        self.state = 0.9 * self.state + 0.1 * action
        return self.state, -float(np.abs(self.state).sum()), bool(self.random.random() < 0.1)


@ray.remote
class Simulator:
    def __init__(self, seed):
        self.environment = Environment(seed)

    def rollout(self, policy, n_steps):
        state = self.environment.reset()
        total, n = 0.0, 0
        for _ in range(n_steps):
            state, reward, done = self.environment.step(policy @ state)
            total, n = total + reward, n + 1
            if done:
                break
        return total, n


ray.init(num_cpus=2)
simulators = [Simulator.remote(seed) for seed in range(3)]
policy = ray.put(np.eye(4))
running = {simulator.rollout.remote(policy, 100): simulator for simulator in simulators}
results = []
while len(results) < 20:
    (done,), _ = ray.wait(list(running))
    simulator = running.pop(done)
    results.append(ray.get(done))
    running[simulator.rollout.remote(policy, 100)] = simulator
assert len(results) == 20 and all(total < 0 < n for total, n in results)
