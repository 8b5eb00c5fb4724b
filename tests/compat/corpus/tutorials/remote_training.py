"""From the exercises: the same network trained in several actors, their weights averaged."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Network:
    def __init__(self, seed):
        chance = np.random.default_rng(seed)
        self.weights = {"w": chance.normal(size=(2, 1)), "b": np.zeros(1)}
        self.x = chance.uniform(-1, 1, size=(40, 2))
        self.y = self.x @ np.array([[2.0], [-1.0]]) + 0.5

    def step(self, n):
        for _ in range(n):
            error = self.x @ self.weights["w"] + self.weights["b"] - self.y
            self.weights["w"] = self.weights["w"] - 0.3 * self.x.T @ error / len(self.x)
            self.weights["b"] = self.weights["b"] - 0.3 * error.mean(axis=0)
        return float((error ** 2).mean())

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = dict(weights)


networks = [Network.remote(seed) for seed in range(3)]
for _ in range(4):
    losses = ray.get([network.step.remote(25) for network in networks])
    weights = ray.get([network.get_weights.remote() for network in networks])
    average = ray.put({name: np.mean([each[name] for each in weights], axis=0) for name in weights[0]})
    ray.get([network.set_weights.remote(average) for network in networks])
print([loss < 0.01 for loss in losses], np.round(ray.get(average)["w"].ravel(), 1).tolist(), np.round(ray.get(average)["b"], 1).tolist())
