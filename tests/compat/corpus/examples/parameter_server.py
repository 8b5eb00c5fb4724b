"""A parameter server: synchronous rounds, then asynchronous ones, for a line through points."""
import numpy as np
import ray

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Server:
    def __init__(self, rate):
        self.weights, self.rate = np.zeros(2), rate

    def apply(self, *gradients):
        self.weights = self.weights - self.rate * np.mean(gradients, axis=0)
        return self.weights

    def get(self):
        return self.weights


@ray.remote
class Worker:
    def __init__(self, seed):
        chance = np.random.default_rng(seed)
        self.x = chance.uniform(-1, 1, 50)
        self.y = 3 * self.x + 1

    def gradient(self, weights):
        error = weights[0] * self.x + weights[1] - self.y
        return np.array([np.mean(2 * error * self.x), np.mean(2 * error)])


workers = [Worker.remote(seed) for seed in range(2)]
server = Server.remote(0.5)
weights = server.get.remote()
for _ in range(60):
    weights = server.apply.remote(*[worker.gradient.remote(weights) for worker in workers])
print("synchronous", np.round(ray.get(weights), 3).tolist())

server = Server.remote(0.3)
weights = server.get.remote()
running = {worker.gradient.remote(weights): worker for worker in workers}
for _ in range(150):
    [ready], _rest = ray.wait(list(running))
    worker = running.pop(ready)
    weights = server.apply.remote(ready)
    running[worker.gradient.remote(weights)] = worker
print("asynchronous", np.round(ray.get(weights), 1).tolist())
