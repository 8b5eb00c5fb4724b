"""From the examples of the tutorial: evolution strategies; workers share noise, and send seeds and rewards."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
TARGET = np.array([0.5, -0.3, 0.8])


@ray.remote
def make_noise(seed, size):
    return np.random.RandomState(seed).randn(size)


@ray.remote
class Worker:
    def __init__(self, noise, seed):
        self.noise, self.chance = noise, np.random.RandomState(seed)

    def rollouts(self, weights, n):
        found = []
        for _ in range(n):
            start = int(self.chance.randint(len(self.noise) - len(weights)))
            step = 0.1 * self.noise[start:start + len(weights)]
            found.append((start, self.reward(weights + step), self.reward(weights - step)))
        return found

    @staticmethod
    def reward(weights):
        return -float(np.sum((weights - TARGET) ** 2))


noise = make_noise.remote(1, 10_000)
workers = [Worker.remote(noise, seed) for seed in range(2)]
table, weights = ray.get(noise), np.zeros(3)
for round_number in range(40):
    shared = ray.put(weights)
    results = sum(ray.get([worker.rollouts.remote(shared, 10) for worker in workers]), [])
    gradient = sum((up - down) * table[start:start + 3] for start, up, down in results) / len(results)
    weights = weights + 1.0 * gradient
    if round_number % 10 == 9:
        print(round_number + 1, np.round(weights, 2).tolist())
